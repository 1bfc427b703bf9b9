"""Bounds and schedules of the offline problem of a whole trace."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
