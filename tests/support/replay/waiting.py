"""Waiting for something to happen."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable


def eventually(happens: Callable[[], object], seconds: float = 90.0) -> None:
    """Wait for something, as long as a busy machine may take."""
    deadline = time.monotonic() + seconds
    while not happens():
        assert time.monotonic() < deadline
        time.sleep(0.01)
