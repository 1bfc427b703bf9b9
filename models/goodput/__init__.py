"""Throughput, efficiency, goodput and best batch size of a job, as pure array functions."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
