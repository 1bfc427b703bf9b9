"""Ctrl-C and the request to end (SIGTERM) as a question that a loop asks where it suits it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

#: Seconds in which a second signal is the first one once more, sent to a process and to its group.
SAME_REQUEST = 0.5


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


class _Interruption(BaseException):
    """Ctrl-C that no solver takes for a limit of its own."""


@contextlib.contextmanager
def whole_interrupt() -> Iterator[Callable[[], None]]:
    """Ctrl-C ends all of the body, as `KeyboardInterrupt`.

    A solver that is interrupted ends with the best that it has, which is right where one round is
    decided; a replay that went on with that would tell what was cut short as what was decided. And
    what interrupts a callback of a library is lost there. So the body calls now and then what it is
    given here, which raises once more what was lost.

    A shell's background jobs ignore Ctrl-C, and go on doing so; other threads never hear of it.
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
