"""Whole days with hindsight: offline problem of a replay, bound, schedule and pictures."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
