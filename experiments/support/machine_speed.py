"""Speed of this machine beside the one on which the minutes of the catalogue were measured."""

from __future__ import annotations

import time

import numpy as np

#: Seconds of `_work` on the machine of the catalogue, a server with two cores of an AMD EPYC.
REFERENCE_SECONDS = 0.0115

#: Runs of `_work`, of which the fastest counts: other programs make it slower, never faster.
RUNS = 3


def slowdown() -> float:
    """Return how many times as long this machine takes, by a short calculation."""
    seconds = []
    for _ in range(RUNS):
        begin = time.perf_counter()
        _work()
        seconds.append(time.perf_counter() - begin)
    return min(seconds) / REFERENCE_SECONDS


def expected_minutes(minutes: float | None) -> str:
    """Return minutes of the catalogue as they are on this machine, in words; none for None."""
    if minutes is None:
        return ""
    here = minutes * slowdown()
    return f"about {here:.0f} min" if here >= 1.5 else f"about {max(round(60 * here), 1)} s"


def _work() -> float:
    """Calculate as replays do, on one core: a loop of Python, and arrays that are sorted."""
    values = np.random.default_rng(0).random(100_000)
    total = 0.0
    for index in range(100_000):
        total += index % 7
    for _ in range(5):
        values = np.sort(values * 1.5 % 1.0)[::-1]
    return total + float(values[0])
