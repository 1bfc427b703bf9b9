r"""Two trainings on one device at once, beside each of them alone: what sharing costs.

On a machine with GPUs the device is the first of them; else it is a core, on which both processes
are pinned. In every round each training runs alone and then both at once, for the same seconds, so
that slow changes of the machine strike all three alike. A training's *rate* is the number of its
steps a second beside the other over that alone, as in `models/shared_gpus/shared_speed.py`, whose
equation (3) has, for two trainings that keep the device busy for the parts *u* and *v*,

.. math:: r = (1 - l) \min(1, 1 / (u + v)),                                                   (1)

so that each measured rate says what the loss *l* is. A core is busy while its process runs; a GPU
while its kernels do: the profiler, which delays their launches, tells how long they take in a step,
and the speed alone how often.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.experiments.measure.crew import PATIENCE, LocalCrew
from goodalloc.experiments.measure.devices import Devices
from goodalloc.experiments.measure.execution import PLAIN
from goodalloc.experiments.measure.measuring import MeasurePlan
from goodalloc.experiments.measure.step_parts import StepParts
from goodalloc.experiments.reporting.estimates import estimate_of
from goodalloc.experiments.reporting.table_numbers import rounded

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from goodalloc.experiments.measure.crew import Crew
    from goodalloc.experiments.measure.execution import Execution
    from goodalloc.experiments.reporting.estimates import Estimate

#: Seconds of each run of a round.
SECONDS = 2.0

#: Rounds of a pair, and steps of the profile that tells how busy a device is.
ROUNDS, PROFILED = 5, 10

#: Least part of a step for which a device is taken to be busy.
LEAST_BUSY = 0.01

#: Seconds from an order to the begin of the steps, so that both processes have heard it.
NOTICE = 0.1


class SharedRate(NamedTuple):
    """Speed of a training beside another.

    Attributes
    ----------
    model, batch
        The training, and the examples of its passes.
    beside, beside_batch
        The other.
    alone_steps_per_second, beside_steps_per_second
        Speeds.
    rate
        Rate (1), over the rounds.
    busy, beside_busy
        Parts *u* and *v* for which they keep the device busy alone.
    memory_mib
        Most memory of the training; None where it is unknown.
    loss
        Loss *l* by (1).
    quiet
        Least part of a run alone in which no other program kept it from the core; 1 on a GPU.
    """

    model: str
    batch: int
    beside: str
    beside_batch: int
    alone_steps_per_second: float
    beside_steps_per_second: float
    rate: Estimate
    busy: float
    beside_busy: float
    memory_mib: float | None
    loss: Estimate
    quiet: float


class Training(NamedTuple):
    """Training: name of a task, and the examples of a pass."""

    model: str
    batch: int


def rates_beside(
    one: Training,
    other: Training,
    devices: Devices,
    execution: Execution = PLAIN,
    *,
    seconds: float = SECONDS,
    seed: int = 0,
    keeps: Sequence[int] = (),
    report: Callable[[], object] = lambda: None,
) -> tuple[SharedRate, SharedRate]:
    """Measure two trainings of one replica each on one device, alone and at once.

    Parameters
    ----------
    one, other
        The trainings.
    devices
        Devices of this machine; the first GPU is shared, or else the first core.
    execution
        How both compute.
    seconds
        Seconds of each run of a round.
    seed
        Seed of weights and examples.
    keeps
        As in `Processes`.
    report
        Callback after every round.

    Raises
    ------
    ValueError
        If memory does not hold both, or this system cannot pin a process on a core.
    ProcessEnded
        If a process ends early.
    """
    core = None if devices.gpus else first_core()
    shared = Devices(devices.gpus[:1], "gloo")
    plans = (
        MeasurePlan(training.model, (1,), seed=seed, execution=execution)
        for training in (one, other)
    )
    patience = PATIENCE + seconds
    with (
        LocalCrew(next(plans), shared, patience=patience, keeps=keeps) as first,
        LocalCrew(next(plans), shared, patience=patience, keeps=keeps) as second,
    ):
        return measure_pair((Trained(one, first), Trained(other, second)), seconds, core, report)


def first_core() -> int:
    """Return the first core that this process may use.

    Raises
    ------
    ValueError
        If this system cannot pin a process on a core.
    """
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity is None:
        raise ValueError("Trainings beside each other: expected a GPU, or Linux to share a core.")
    return int(min(affinity(0)))


class Run(NamedTuple):
    """Steps a second, the part of a core that was used, and the part that others left."""

    speed: float
    core: float
    quiet: float


class Trained(NamedTuple):
    """Training and the process that does it."""

    training: Training
    crew: Crew

    def ask(self, **order: Any) -> dict[str, Any]:
        """Return the answer to an order."""
        name, batch = self.training
        return self.crew.ask(f"training '{name}' with {batch} examples", 1, **order)[0]

    def probe(self) -> None:
        """Refuse a batch that memory does not hold."""
        if not self.ask(order="probe", atomic_batch_size=self.training.batch)["fits"]:
            name, batch = self.training
            raise ValueError(
                f"Training '{name}': memory does not hold {batch} examples beside another "
                "training; expected fewer."
            )


def measure_pair(
    both: tuple[Trained, Trained],
    seconds: float,
    core: int | None,
    report: Callable[[], object] = lambda: None,
) -> tuple[SharedRate, SharedRate]:
    """Return the speeds of two trainings beside each other.

    Parameters
    ----------
    both
        The trainings and their processes.
    seconds, report
        As in `rates_beside`.
    core
        Core that both share; None where they share a GPU.
    """
    for one in both:
        one.probe()
    run_at_once(both, seconds / 4, core)  # warms up
    speeds = np.empty((2, ROUNDS, 2))  # alone and beside, rounds, trainings
    cores, quiet = np.empty((ROUNDS, 2)), np.empty((ROUNDS, 2))
    for number in range(ROUNDS):
        for place, one in enumerate(both):
            (alone,) = run_at_once((one,), seconds, core)
            speeds[0, number, place], cores[number, place], quiet[number, place] = alone
        speeds[1, number] = [run.speed for run in run_at_once(both, seconds, core)]
        report()
    splits = [one.ask(order="split", repetitions=PROFILED) for one in both]
    busy = cores.mean(axis=0)
    if core is None:
        kernels = [StepParts(*np.mean(one["parts"], axis=0)).busy for one in splits]
        busy = np.clip(speeds[0].mean(axis=0) * kernels, LEAST_BUSY, 1.0)
    rates, room = speeds[1] / speeds[0], min(1.0, 1.0 / float(busy.sum()))

    def rate_of(own: int) -> SharedRate:
        alone_speed, beside_speed = speeds[:, :, own].mean(axis=1)
        return SharedRate(
            *both[own].training,
            *both[1 - own].training,
            alone_steps_per_second=rounded(float(alone_speed)),
            beside_steps_per_second=rounded(float(beside_speed)),
            rate=estimate_of(rates[:, own].tolist()),
            busy=rounded(float(busy[own])),
            beside_busy=rounded(float(busy[1 - own])),
            memory_mib=splits[own]["memory"],
            loss=estimate_of((1.0 - rates[:, own] / room).tolist()),
            quiet=rounded(float(quiet[:, own].min())),
        )

    return rate_of(0), rate_of(1)


def fitted_loss(losses: Sequence[float]) -> float:
    """Return the loss of fair sharing: the mean of measured ones, at least 0.

    Parameters
    ----------
    losses
        Measured losses, one or more.

    Examples
    --------
    >>> from goodalloc.experiments.measure import fitted_loss
    >>> fitted_loss([0.05, 0.15])
    0.1
    """
    return float(np.clip(np.mean(losses), 0.0, 0.99))


def read_losses(path: Path) -> list[float]:
    """Return the losses of fair sharing that were measured, one or more.

    Parameters
    ----------
    path
        What `goodalloc measure A B --beside` wrote (schema in data/FORMAT.md).

    Raises
    ------
    ValueError
        If the file cannot be read, has no row or no column of losses, or a loss is no number below
        1.
    """
    table = read_table(path, ("loss",))
    losses = table.numbers("loss")
    for row in np.flatnonzero(losses >= 1.0)[:1].tolist():
        raise table.refusal(row, "loss", "a number below 1")
    return [float(loss) for loss in losses]


def run_at_once(trainings: Sequence[Trained], seconds: float, core: int | None) -> list[Run]:
    """Run trainings at once.

    Parameters
    ----------
    trainings
        One or two.
    seconds
        How long.
    core
        As in `measure_pair`.
    """
    begin = time.monotonic() + NOTICE

    def run(one: Trained) -> Run:
        answer = one.ask(order="run", begin=begin, seconds=seconds, core=core)
        return Run(answer["steps"] / answer["seconds"], answer["core"], answer["quiet"])

    with ThreadPoolExecutor(len(trainings)) as pool:
        return list(pool.map(run, trainings))
