"""Offline problem of a whole trace: all jobs known from the start, and schedules of them."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
