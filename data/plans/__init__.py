"""Execution plans of large models: published tables and traces, and a fitted model that ships."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
