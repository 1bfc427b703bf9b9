"""Description of the machine on which measurements are made."""

from __future__ import annotations

import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import Any


def machine() -> dict[str, Any]:
    """Return the number of usable cores and the version of PyTorch."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = os.cpu_count() if affinity is None else len(affinity(0))
    return {"cores": cores or 1, "torch": version("torch")}


def processor() -> str:
    """Return the name of the processor."""
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()
