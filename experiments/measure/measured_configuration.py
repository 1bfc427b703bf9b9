r"""Measurement of passes and steps of a training in one configuration, to a given precision.

After a warm-up, passes and steps are repeated in blocks of equal length until the relative standard
error of both means, of the block means :math:`\bar x_b` over *B* blocks

.. math:: \frac{1}{\bar x} \sqrt{\frac{\sum_b (\bar x_b - \bar x)^2}{B (B - 1)}},  (1)

is below a target, or the time is up. Blocks in which another program occupied the core of a process
are omitted, unless there are hardly any others.
"""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.files.measured_profile import FITS, NO_MEMORY
from goodalloc.experiments.measure.rank import PARTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.measure.crew import Crew

#: Passes and steps of the warm-up, and of a profile.
WARM_UP, SPLIT = 2, 2

#: Fewest blocks of a mean, fewest when the time is up, their usual number then, and most
#: repetitions in a block.
LEAST_BLOCKS, BLOCKS_IN_TIME, BLOCKS, LARGEST_BLOCK = 10, 2, 60, 200

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


def measure(crew: Crew, wanted: Configuration, error: float, seconds: float) -> dict[str, Any]:
    """Return outcome, means and their errors of one configuration.

    Parameters
    ----------
    crew
        The processes.
    wanted
        The configuration.
    error, seconds
        Target of the relative error and time limit, as in `MeasurePlan`.

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
    row |= {"outcome": FITS, "repetitions": length * row["repetitions"]}
    if accumulation == 0:
        split = crew.ask(doing, replicas, order="split", repetitions=SPLIT)
        for part in (*PARTS, "synchronisation"):
            with contextlib.suppress(KeyError):
                row[f"{part}_s"] = float(np.mean([answer[part] for answer in split]))
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
