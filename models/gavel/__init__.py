"""Time shares of GPU types (Gavel): the problem, its goals and the table of rates."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
