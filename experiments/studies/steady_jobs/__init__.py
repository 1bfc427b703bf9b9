"""Studies of policies above the bound on any schedule of jobs whose rates stay the same."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
