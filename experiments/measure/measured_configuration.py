r"""Measurement of passes and steps of a training in one configuration, to a given precision.

After a warm-up, passes and steps are repeated in blocks of equal length until the relative standard
error of both means, of the block means :math:`\bar x_b` over *B* blocks

.. math:: \frac{1}{\bar x} \sqrt{\frac{\sum_b (\bar x_b - \bar x)^2}{B (B - 1)}},  (1)

is below a target, or the time is up. Blocks in which another program occupied the core of a process
are omitted, unless there are hardly any others.

A machine also becomes faster and slower within minutes, which (1) does not see. So a configuration
is visited several times, with others in between. With the mean *x* over *n* visits and its squared
standard error :math:`e^2`, another visit *y* gives (Welford)

.. math::
    x' = x + \frac{y - x}{n + 1}, \qquad
    e'^2 = \frac{n (n - 1) e^2 + (y - x)^2 \, n / (n + 1)}{n (n + 1)}.  (2)
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.files.measured_profile import FITS, NO_MEMORY, PART_ERRORS, PARTS, PEAK
from goodalloc.experiments.measure.step_parts import StepParts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from goodalloc.experiments.measure.crew import Answers, Crew

#: Passes and steps of the warm-up.
WARM_UP = 2

#: Part of the time of a configuration that profiled steps take, and their least and most number.
PROFILED, LEAST_PROFILED, MOST_PROFILED = 0.2, 4, 40

#: Fewest blocks of a mean, fewest when the time is up, their usual number then, and most
#: repetitions in a block.
LEAST_BLOCKS, BLOCKS_IN_TIME, BLOCKS, LARGEST_BLOCK = 10, 2, 60, 200

#: Columns of times, and the columns of errors of some.
TIMES = ("pass_s", "update_s", "step_s")
ERRORS = {
    "pass_s": "pass_error",
    "step_s": "step_error",
    "synchronisation_s": "synchronisation_error",
    "overlap_s": "overlap_error",
}

#: Least share of a core that every process has in an undisturbed block.
QUIET_CORE = 0.95


class Configuration(NamedTuple):
    """Number of replicas *K*, examples *m* per replica and pass, and accumulated passes *s*."""

    replicas: int
    atomic_batch_size: int
    accumulation_steps: int


class Block(NamedTuple):
    """Mean seconds of passes, updates and steps of a block; `quiet` if it was undisturbed."""

    passes: float
    updates: float
    steps: float
    quiet: bool


def relative_error(blocks: Sequence[float]) -> float:
    """Return the relative standard error (1) of block means; infinite for fewer than two."""
    if len(blocks) < BLOCKS_IN_TIME:
        return float("inf")
    return float(np.std(blocks, ddof=1) / np.sqrt(len(blocks)) / np.mean(blocks))


def measure(
    crew: Crew, wanted: Configuration, error: float, seconds: float, traces: Path | None = None
) -> dict[str, Any]:
    """Return outcome, means and their errors of one configuration.

    Parameters
    ----------
    crew
        The processes.
    wanted
        The configuration.
    error, seconds
        Target of the relative error and time limit, as in `MeasurePlan`.
    traces
        Folder that keeps the profiles, one folder a configuration; None to keep none.

    Raises
    ------
    ProcessEnded
        If a process ends early or exceeds the time limit of an order.
    """
    replicas, size, accumulation = wanted
    doing = f"training {replicas} replicas with {size} examples each"
    probed = crew.ask(doing, replicas, order="probe", atomic_batch_size=size)
    if not all(answer["fits"] for answer in probed):
        return {"outcome": NO_MEMORY}

    def block(repetitions: int) -> Block:
        answers = crew.ask(
            doing, replicas, order="train", accumulation_steps=accumulation, repetitions=repetitions
        )
        means = {
            kind: float(np.mean([one[kind] for one in answers]))
            for kind in ("passes", "updates", "steps")
        }
        return Block(**means, quiet=min(one["core"] for one in answers) >= QUIET_CORE)

    block(WARM_UP)
    once = sum(block(1)[:3])
    length = int(np.clip(seconds / BLOCKS / once, 1, LARGEST_BLOCK))
    row = _repeat(lambda: block(length), error, seconds)
    row |= {"outcome": FITS, "visits": 1, "repetitions": length * row["repetitions"]}
    if accumulation == 0:
        own = None if traces is None else traces / f"replicas-{replicas}-batch-{size}"
        if own is not None:
            own.mkdir(parents=True, exist_ok=True)
        often = int(np.clip(PROFILED * seconds / row["step_s"], LEAST_PROFILED, MOST_PROFILED))
        place = None if own is None else str(own)
        row |= _parts(crew.ask(doing, replicas, order="split", repetitions=often, trace=place))
    return row


def pooled(row: dict[str, Any], again: dict[str, Any]) -> dict[str, Any]:
    """Return the row of a configuration with another visit (2).

    Parameters
    ----------
    row
        Its row, whose cells may be text.
    again
        The row of the visit alone.
    """
    visits = int(row["visits"])

    def both(name: str) -> tuple[float, float] | None:
        cells = row.get(name, ""), again.get(name, "")
        return None if "" in cells else (float(cells[0]), float(cells[1]))

    found = row | {"visits": visits + 1}
    for name in (*TIMES, *PARTS, "quiet"):
        if (pair := both(name)) is not None:
            found[name] = pair[0] + (pair[1] - pair[0]) / (visits + 1)
    for name, error in ERRORS.items():
        if (pair := both(name)) is not None and row.get(error, "") != "":
            unit = "synchronisation_s" if error in PART_ERRORS else name
            before = float(row[error]) * float(row[unit])
            squares = visits * (visits - 1) * before**2
            squares += (pair[1] - pair[0]) ** 2 * visits / (visits + 1)
            found[error] = float(np.sqrt(squares / (visits * (visits + 1)))) / found[unit]
    if (pair := both(PEAK)) is not None:
        found[PEAK] = max(pair)
    found["repetitions"] = int(row["repetitions"]) + again["repetitions"]
    found["measuring_s"] = float(row["measuring_s"]) + again["measuring_s"]
    return found


def _parts(answers: Answers) -> dict[str, Any]:
    """Return means of the parts of profiled steps over replicas and steps, and their errors."""
    row: dict[str, Any] = {}
    memory = [answer["memory"] for answer in answers]
    if None not in memory:
        row[PEAK] = float(max(memory))
    if not all(answer["parts"] for answer in answers):
        return row
    # shape (parts, steps): a step's mean over its replicas, of which one may wait for another
    steps = np.mean([answer["parts"] for answer in answers], axis=0).T
    row |= {
        f"{part}_s": float(own.mean()) for part, own in zip(StepParts._fields, steps, strict=True)
    }
    synchronisation = row["synchronisation_s"]
    if synchronisation > 0.0:
        for part in ("synchronisation", "overlap"):
            own = steps[StepParts._fields.index(part)]
            error = float(np.std(own, ddof=1) / np.sqrt(own.size))
            row[f"{part}_error"] = error / synchronisation
    return row


def _repeat(block: Callable[[], Block], error: float, seconds: float) -> dict[str, Any]:
    """Return means over blocks, repeated to the target; `repetitions` is their number."""
    blocks: list[Block] = []
    begin = time.monotonic()
    while True:
        blocks.append(block())
        quiet = [one for one in blocks if one.quiet]
        counted = quiet if len(quiet) >= BLOCKS_IN_TIME else blocks
        passes, updates, steps, _ = np.array(counted).T
        errors = relative_error(passes), relative_error(steps)
        spent = time.monotonic() - begin
        if len(quiet) >= LEAST_BLOCKS and max(errors) < error:
            break
        if len(blocks) >= BLOCKS_IN_TIME and spent >= seconds:
            break
    return {
        "pass_s": float(passes.mean()),
        "update_s": float(updates.mean()),
        "step_s": float(steps.mean()),
        "pass_error": errors[0],
        "step_error": errors[1],
        "repetitions": len(counted),
        "measuring_s": spent,
        "quiet": len(quiet) / len(blocks) if counted is quiet else 0.0,
    }
