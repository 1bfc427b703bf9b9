"""Parts that all studies share: plans, recorded tasks, typed rows and reproductions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
