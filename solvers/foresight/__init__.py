"""Policies of the simulator that know more than a scheduler can, and schedules with restarts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
