"""Jobs that share a GPU (Gandiva, AntMan): speeds, pairs, guests and hosts."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
