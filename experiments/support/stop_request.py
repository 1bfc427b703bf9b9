"""Ctrl-C: as a flag that a loop polls, as one that no solver absorbs, and what it leaves."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds in which a second signal counts as the first, which was sent to a process and its group.
SAME_REQUEST = 0.5


@contextlib.contextmanager
def stop_request() -> Iterator[Callable[[], bool]]:
    """Yield a function that returns whether an end was requested; a second request interrupts."""
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


@contextlib.contextmanager
def interrupted_keeping(kept: str) -> Iterator[None]:
    """Add to an interrupt of the block, if it says nothing yet, what is kept of its work.

    Parameters
    ----------
    kept
        A clause, without a full stop.
    """
    try:
        yield
    except KeyboardInterrupt as interrupt:
        raise KeyboardInterrupt(str(interrupt) or f"interrupted; {kept}.") from None


class _Interruption(BaseException):
    """Ctrl-C in a form that no solver takes for a limit of its own."""


@contextlib.contextmanager
def whole_interrupt() -> Iterator[Callable[[], None]]:
    """End the whole body on Ctrl-C, with `KeyboardInterrupt`.

    A solver that is interrupted returns its best answer, which is right for a single round; a
    replay that continued with it would record a truncated decision as that of the policy. An
    interrupt within a callback of a library is lost. The body therefore calls the given function
    regularly, which raises a lost interrupt again.

    Background jobs of a shell ignore Ctrl-C and continue to do so; other threads do not receive it.
    """
    asked: float | None = None

    def ask(*_: object) -> None:
        nonlocal asked
        now = time.monotonic()
        if asked is None or now - asked > SAME_REQUEST:
            asked = now
            raise _Interruption

    def check() -> None:
        if asked is not None:
            raise _Interruption

    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield check
        return
    signal.signal(signal.SIGINT, ask)
    try:
        yield check
        check()
    except _Interruption:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
