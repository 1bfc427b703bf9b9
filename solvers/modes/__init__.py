"""Exact method for jobs with modes: choose, pack, cut until the choices pack."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
