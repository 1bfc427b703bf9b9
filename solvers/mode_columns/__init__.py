"""Rounds of many jobs with modes: prices of pools and nodes, who stays, repairs, and a proof."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
