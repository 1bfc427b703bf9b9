"""Comparisons of solvers on instances: the gap benchmark, `compare` and the demonstration."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
