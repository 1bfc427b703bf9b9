"""Deciders of jobs with execution plans: exactly, as Arena, and as Arena runs Sia and Gavel."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
