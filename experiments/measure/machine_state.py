"""Conditions of a measurement: device, cores, versions, and the present clock."""

from __future__ import annotations

import contextlib
import os
import platform
import re
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.version import library_version

#: Files of Linux on the CPU and its frequency governor.
CPU_FACTS = Path("/proc/cpuinfo")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")

#: Time limit of a request to the driver of a GPU, in seconds.
PATIENCE = 10.0


def hardware() -> dict[str, Any]:
    """Return the constant conditions: backend of the exchange, device, usable cores, versions."""
    import torch

    gpu = torch.cuda.is_available()
    return {
        "backend": "nccl" if gpu else "gloo",
        "device": (_asked_gpu("name") or "CUDA") if gpu else _cpu_name(),
        "python": platform.python_version(),
        "goodalloc": library_version(),
        "cores": machine()["cores"],
        "torch": version("torch"),
    }


def clock_state(backend: str) -> dict[str, Any]:
    """Return governor and MHz of the CPU, or MHz of the GPU, and the load; "" if unknown.

    Parameters
    ----------
    backend
        ``"nccl"`` if GPUs compute.
    """
    clock: Any = ""
    governor = ""
    if backend == "nccl":
        clock = _asked_gpu("clocks.sm")
    else:
        with contextlib.suppress(OSError):
            found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", CPU_FACTS.read_text(), re.MULTILINE)
            clock = sum(map(float, found)) / len(found) if found else ""
        with contextlib.suppress(OSError):
            governor = GOVERNOR.read_text().strip()
    load: Any = ""
    with contextlib.suppress(OSError, AttributeError):
        load = os.getloadavg()[0]
    return {"governor": governor, "clock_mhz": clock, "load": load}


def _cpu_name() -> str:
    """Return the name of the CPU."""
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_FACTS.read_text(), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()


def _asked_gpu(quantity: str) -> str:
    """Return a quantity of the first GPU by its driver; "" if it is unknown."""
    command = ["nvidia-smi", f"--query-gpu={quantity}", "--format=csv,noheader,nounits", "--id=0"]
    with contextlib.suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=True)
        return done.stdout.strip()
    return ""
