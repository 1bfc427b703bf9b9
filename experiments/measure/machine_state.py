"""Conditions of a measurement: device, cores, versions, and the present state of the machine."""

from __future__ import annotations

import contextlib
import datetime
import os
import platform
import re
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.measure.devices import joined_names
from goodalloc.experiments.support.machine_description import asked_driver, machine
from goodalloc.experiments.support.version import library_version

if TYPE_CHECKING:
    from goodalloc.experiments.measure.devices import Devices

#: Files of Linux on the CPU and its frequency governor.
CPU_FACTS = Path("/proc/cpuinfo")
GOVERNOR = Path("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")


def hardware(devices: Devices, replicas: int = 1) -> dict[str, Any]:
    """Return the constant conditions: backend of the exchange, device, usable cores, versions.

    The driver is that of the GPUs, empty if unknown.

    Parameters
    ----------
    devices
        Devices of this machine.
    replicas
        Number of processes on it.
    """
    return {
        "backend": devices.backend,
        "driver": next(iter(asked_driver("driver_version")), "") if devices.gpus else "",
        "device": joined_names(device_name(devices, rank) for rank in range(replicas)),
        "python": platform.python_version(),
        "goodalloc": library_version(),
        "cores": machine()["cores"],
        "torch": version("torch"),
    }


def conditions(devices: Devices) -> dict[str, Any]:
    """Return constant conditions and present state, for measurements that exchange no gradients.

    Parameters
    ----------
    devices
        Devices of this machine.
    """
    found = hardware(devices) | present_state(devices)
    return {name: value for name, value in found.items() if name != "backend"}


def device_name(devices: Devices, local_rank: int) -> str:
    """Return the name of the device of a process.

    Parameters
    ----------
    devices
        Devices of this machine.
    local_rank
        Index of the process on it.
    """
    return devices.gpus[local_rank % len(devices.gpus)] if devices.gpus else _cpu_name()


def present_state(devices: Devices) -> dict[str, Any]:
    """Return governor and MHz of the CPU, or MHz of the GPU, the load, and the date.

    What is unknown is empty; the date is that of Greenwich.

    Parameters
    ----------
    devices
        Devices of this machine.
    """
    clock: Any = ""
    governor = ""
    if devices.gpus:
        with contextlib.suppress(ValueError):  # as of "[N/A]"
            clock = float(next(iter(asked_driver("clocks.sm")), ""))
    else:
        with contextlib.suppress(OSError):
            found = re.findall(r"^cpu MHz\s*:\s*([\d.]+)", CPU_FACTS.read_text(), re.MULTILINE)
            clock = sum(map(float, found)) / len(found) if found else ""
        with contextlib.suppress(OSError):
            governor = GOVERNOR.read_text().strip()
    load: Any = ""
    with contextlib.suppress(OSError, AttributeError):
        load = os.getloadavg()[0]
    date = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    return {"governor": governor, "clock_mhz": clock, "load": load, "date": date}


def _cpu_name() -> str:
    """Return the name of the CPU."""
    with contextlib.suppress(OSError):
        found = re.search(r"^model name\s*:\s*(.+)$", CPU_FACTS.read_text(), re.MULTILINE)
        if found:
            return found.group(1).strip()
    return platform.processor() or platform.machine()
