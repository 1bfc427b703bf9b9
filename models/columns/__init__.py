"""Scheduling round as columns: arrays over jobs in place of one object a job."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
