"""Clock of a device: of the host, or of a GPU, which works later than it is told (PyTorch).

What a program launches on a GPU is done after the call has returned. Host clocks around such calls
measure the launches; marks in the queue of the GPU measure the work.
"""

from __future__ import annotations

import time
from typing import Any, Protocol


class DeviceClock(Protocol):
    """Clock whose marks are points in the work of a device."""

    def mark(self) -> Any:
        """Return the point at which all work launched so far is done."""
        ...

    def reached(self, mark: Any) -> bool:
        """Return whether the device has reached a mark."""
        ...

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds from one mark to a later one; wait until both are reached."""
        ...


class HostClock:
    """Clock of a device that has done its work when a call returns.

    Examples
    --------
    >>> from goodalloc.experiments.support.device_clock import HostClock
    >>> clock = HostClock()
    >>> begin = clock.mark()
    >>> clock.seconds(begin, clock.mark()) >= 0.0
    True
    """

    def mark(self) -> float:
        """Return the present time."""
        return time.perf_counter()

    def reached(self, mark: float) -> bool:
        """Return True."""
        return mark <= time.perf_counter()

    def seconds(self, begin: float, end: float) -> float:
        """Return the seconds between two times."""
        return end - begin


class CudaClock:
    """Clock of a GPU: events in the current stream."""

    def mark(self) -> Any:
        """Return a new event in the stream."""
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def reached(self, mark: Any) -> bool:
        """Return whether the GPU has reached an event."""
        return bool(mark.query())

    def seconds(self, begin: Any, end: Any) -> float:
        """Return the seconds between two events; wait until both are reached."""
        end.synchronize()
        return float(begin.elapsed_time(end)) / 1000.0


def clock_of(device: Any) -> DeviceClock:
    """Return the clock of a device.

    Parameters
    ----------
    device
        A `torch.device`.

    Examples
    --------
    >>> import torch
    >>> from goodalloc.experiments.support.device_clock import clock_of
    >>> type(clock_of(torch.device("cpu"))).__name__
    'HostClock'
    """
    return CudaClock() if device.type == "cuda" else HostClock()
