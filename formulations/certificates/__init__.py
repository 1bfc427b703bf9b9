"""Prices that prove a bound on the fitness of every allocation (`CERTIFICATE.md`)."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
