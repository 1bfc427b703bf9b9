"""Clusters that are trees: levels of domains, what jobs ask of them, speeds by level, a checker."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
