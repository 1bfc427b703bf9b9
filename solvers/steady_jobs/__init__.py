"""Jobs whose rates stay the same until they are done: prices that bound all their schedules."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
