"""Where numbers come from: profiles, a seeded generator, the benchmark set, and files."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
