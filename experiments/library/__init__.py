"""Protocol of the library of rounds: runs, checks, ranks, and how its rounds were found."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
