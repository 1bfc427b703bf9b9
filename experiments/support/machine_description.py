"""Description of the machine on which measurements are made."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

#: Time limit of a request to the driver of GPUs, in seconds.
PATIENCE = 10.0


def asked_driver(quantity: str) -> tuple[str, ...]:
    """Return a quantity of every GPU by the driver, in their order; none where there is no driver.

    Parameters
    ----------
    quantity
        Its name for `nvidia-smi`, as ``"index"`` or ``"clocks.sm"``.
    """
    command = ["nvidia-smi", f"--query-gpu={quantity}", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return tuple(line.strip() for line in done.stdout.splitlines())
    return ()


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    affinity = getattr(os, "sched_getaffinity", None)
    return (os.cpu_count() if affinity is None else len(affinity(0))) or 1


def machine() -> dict[str, Any]:
    """Return the number of usable cores, and the version of PyTorch where it is installed."""
    found: dict[str, Any] = {"cores": usable_cores()}
    with contextlib.suppress(PackageNotFoundError):
        found["torch"] = version("torch")
    return found


def processor() -> str:
    """Return the name of the processor."""
    listed = Path("/proc/cpuinfo")
    text = listed.read_text(encoding="utf-8") if listed.is_file() else ""
    found = re.search(r"^model name\s*:\s*(.+)$", text, flags=re.MULTILINE)
    return found[1].strip() if found else platform.processor() or platform.machine()
