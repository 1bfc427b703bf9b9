"""Greedy algorithms, local search, and rounded relaxations with their bounds."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
