"""Large models by execution plans: degrees of parallelism, their times, and jobs that choose."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
