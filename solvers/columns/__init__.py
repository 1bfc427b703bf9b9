"""Rounds of up to a million jobs: one price of a GPU, whole numbers, packing, and a proof."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
