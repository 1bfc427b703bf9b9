"""Making room for gangs in a running cluster: by moving jobs, or by stopping some."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
