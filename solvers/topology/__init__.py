"""Rounds on a tree: the exact road, brute force, and the placement of Kubernetes' schedulers."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
