"""Most memory that a process used of its device since a moment."""

from __future__ import annotations

import contextlib
import re
from pathlib import Path
from typing import Any

#: Files of Linux: a 5 in the first sets the peak of the second to the present use.
RESET, STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")

#: Kibibytes and bytes in a mebibyte.
KIBIBYTES, BYTES = 2**10, 2**20


class PeakMemory:
    """Peak of the memory of this process from now on.

    On a GPU it is what PyTorch's allocator gave out; on CPUs all that the process has in memory,
    interpreter and libraries included.

    Parameters
    ----------
    device
        A `torch.device`.
    """

    def __init__(self, device: Any) -> None:
        self._cuda = device.type == "cuda"
        self._known = True
        if self._cuda:
            import torch

            torch.cuda.reset_peak_memory_stats()
            return
        try:
            RESET.write_text("5", encoding="ascii")
        except OSError:
            self._known = False

    def mib(self) -> float | None:
        """Return the peak in MiB; None where it is unknown."""
        if self._cuda:
            import torch

            return float(torch.cuda.max_memory_allocated()) / BYTES
        if self._known:
            with contextlib.suppress(OSError):
                found = re.search(r"^VmHWM:\s*(\d+) kB", STATUS.read_text(), re.MULTILINE)
                return int(found.group(1)) / KIBIBYTES if found else None
        return None
