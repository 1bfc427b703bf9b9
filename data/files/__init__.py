"""Files of instances, allocations, models, job states and profiles (`FORMAT.md`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
