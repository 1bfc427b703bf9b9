"""Matchings: which jobs share GPUs (Gandiva), which run beside which (AntMan)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
