"""Published traces whose files are too large to ship: readers by their documented columns."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
