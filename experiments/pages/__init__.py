"""Pages to look at: rounds, replays and comparisons of solvers, one file each, without a server."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
