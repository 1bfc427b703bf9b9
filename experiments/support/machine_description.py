"""Description of the machine on which measurements are made."""

from __future__ import annotations

import os
from importlib.metadata import version
from typing import Any


def machine() -> dict[str, Any]:
    """Return the number of usable cores and the version of PyTorch."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() if affinity is None else len(affinity(0))
    return {"cores": cores or 1, "torch": version("torch")}
