"""Programs that make room for a gang: fewest moves, and least loss by stopping jobs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
