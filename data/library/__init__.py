"""Library of rounds: named, versioned, each with its digest and its best known value."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
