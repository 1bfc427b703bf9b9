"""HiGHS within limits, and the price-and-core method on top of it."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
