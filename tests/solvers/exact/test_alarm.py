"""The alarm: it rings in the block, once, and leaves the process as it was."""

from __future__ import annotations

import math
import signal
import threading
import time

import pytest

from goodalloc.solvers.exact.time_alarm import TimeIsUp, alarm


def nested(reached: list[str]) -> None:
    """An alarm within an alarm."""
    with alarm(0.2):
        with alarm(0.01):
            time.sleep(0.1)
        reached.append("the end of the inner block")
        time.sleep(5.0)
        reached.append("the end of the outer block")


@pytest.mark.parametrize("seconds", [0.05, 0.0, -1.0])
def test_a_block_is_left_when_its_time_is_up(seconds: float) -> None:
    """At once where there is none left; the handler of before is back."""
    before, begin = signal.getsignal(signal.SIGALRM), time.perf_counter()
    with pytest.raises(TimeIsUp), alarm(seconds):
        time.sleep(30.0)
    assert time.perf_counter() - begin < 20.0
    assert signal.getsignal(signal.SIGALRM) is before


@pytest.mark.parametrize("seconds", [math.inf, 60.0])
def test_a_block_that_ends_in_time_is_left_alone(seconds: float) -> None:
    """No timer runs on, and the handler of before is back."""
    before = signal.getsignal(signal.SIGALRM)
    with alarm(seconds):
        pass
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    assert signal.getsignal(signal.SIGALRM) is before


def test_a_timer_of_somebody_else_is_not_touched() -> None:
    """Nested alarms: the outer one rings, the inner one does nothing."""
    reached: list[str] = []
    with pytest.raises(TimeIsUp):
        nested(reached)
    assert reached == ["the end of the inner block"]


def test_other_threads_are_not_woken() -> None:
    """The block runs to its end."""
    ended = []

    def sleep() -> None:
        with alarm(0.01):
            time.sleep(0.1)
        ended.append(True)

    thread = threading.Thread(target=sleep)
    thread.start()
    thread.join()
    assert ended == [True]
