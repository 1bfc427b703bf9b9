"""Ctrl-C and the request to end (SIGTERM) as a question that a loop asks where it suits it."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextlib.contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Whether somebody asked this process to end; who asks twice interrupts it."""
    asked = False

    def ask(*_: object) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    numbers = (signal.SIGINT, signal.SIGTERM)
    former = [signal.signal(number, ask) for number in numbers]
    try:
        yield lambda: asked
    finally:
        for number, handler in zip(numbers, former, strict=True):
            signal.signal(number, handler)
