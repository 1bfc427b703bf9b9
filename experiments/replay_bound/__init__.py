"""Bound on all replays of a workload, which live by rounds and pay for restarts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
