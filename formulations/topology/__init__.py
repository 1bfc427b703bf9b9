"""Rounds on a tree: nested pattern counts, pieces by job and domain, and a program to read."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
