"""Building blocks: matrix programs, counted columns, the power mean as a sum of costs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
