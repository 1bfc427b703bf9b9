"""Making room for a gang: the fewest moves, or the least loss by stopping jobs; and greedily."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
