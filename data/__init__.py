"""Profiles, seeded generators, the benchmark set, published data and file formats."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
