"""Measure passes and steps of a real training in every configuration, for `goodalloc fit`.

Each configuration is measured by `measured_configuration.py`; those that were disturbed all the
time are measured once more in the end, and whenever the same command is given again.

Without a list of batch sizes these double from the least that the task allows, as far as memory
holds them, the task allows them, and a step takes no more than a part of the time; where memory
ends is found by bisection and recorded.

Rows are written as they come, the file as a whole each time. What is there is not measured again.
"""

from __future__ import annotations

import signal
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import write_atomically
from goodalloc.data.files.measured_profile import (
    CONFIGURATION,
    FITS,
    IDENTITY,
    NO_MEMORY,
    read_rows,
    rows_as_text,
)
from goodalloc.experiments.measure.machine_state import clock_state
from goodalloc.experiments.measure.measured_configuration import Configuration, measure
from goodalloc.experiments.measure.process import NO_MEMORY as LACKED_MEMORY
from goodalloc.experiments.measure.rank import lacks_memory
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from goodalloc.experiments.measure.crew import Crew
    from goodalloc.experiments.tasks.task import TrainingTask

    Rows = list[dict[str, Any]]

#: Most replicas.
MOST = 4096

#: Batch sizes no longer double once a step takes this part of the time.
LONGEST_STEP = 0.1

#: Bisection ends when what fits is known to this part.
RESOLUTION = 8


@dataclass(frozen=True)
class MeasurePlan:
    """What is measured, and how well.

    Parameters
    ----------
    model
        As `find_task` knows it.
    replicas
        Numbers of replicas.
    accumulation
        Numbers of accumulated passes.
    batch_sizes
        Atomic batch sizes (examples); empty to double them.
    error
        Relative standard error of a mean at which it is known well enough.
    seconds
        Time of a configuration after which no more is measured, warm-up apart.
    memory_gib
        Most address space of a process; None for no limit.
    seed
        Of weights and examples.

    Raises
    ------
    ValueError
        If one of them makes no sense.
    """

    model: str
    replicas: tuple[int, ...] = (1, 2)
    accumulation: tuple[int, ...] = (0, 1)
    batch_sizes: tuple[int, ...] = ()
    error: float = 0.05
    seconds: float = 5.0
    memory_gib: float | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("replicas", 1), ("accumulation", 0), ("batch_sizes", 1)):
            values = getattr(self, name)
            if not values and name != "batch_sizes":
                raise ValueError(f"Measure: {name} is empty; expected at least one number.")
            for value in values:
                require_count(
                    f"Measure: {name}", value, least, MOST if name == "replicas" else None
                )
                if values.count(value) > 1:
                    raise ValueError(f"Measure: {name} has {value} twice; expected it once.")
        for name in ("error", "seconds"):
            require_number(f"Measure: {name}", getattr(self, name), 0.0, strict=True)
        if self.memory_gib is not None:
            require_number("Measure: memory", self.memory_gib, 0.0, strict=True)
        require_count("Measure: seed", self.seed, 0, 2**31 - 1)


def doubled(task: TrainingTask) -> Iterator[int]:
    """Batch sizes from the least to the largest of a task, each twice the one before."""
    size = task.smallest_batch
    while size < task.largest_batch:
        yield size
        size *= 2
    yield task.largest_batch


@dataclass
class Measuring:
    """A profile in the making.

    Parameters
    ----------
    plan
        What is measured.
    task
        What is trained.
    path
        The file.
    facts
        The columns `IDENTITY` here and now.
    start
        Starts the processes.
    report
        Is told of every row.

    Raises
    ------
    ValueError
        If the file is of another model, machine or version, or makes no sense.
    """

    plan: MeasurePlan
    task: TrainingTask
    path: Path
    facts: Mapping[str, Any]
    start: Callable[[], Crew]
    report: Callable[[], object] = lambda: None
    rows: Rows = field(default_factory=list, init=False)
    _crew: Crew | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if not self.path.exists():
            return
        self.rows = [dict(row) for row in read_rows(self.path)]
        for name in IDENTITY:
            mine = str(self.facts[name])
            for row in self.rows[:1]:
                if row[name] != mine:
                    raise ValueError(
                        f"File '{self.path}': {name} is '{row[name]}'; expected '{mine}' as here "
                        "and now, or a new file."
                    )

    def run(self) -> None:
        """Measure what is not there yet.

        Raises
        ------
        ValueError
            If there is not even memory to make the model.
        ProcessEnded
            If a process fails for another reason.
        """
        try:
            if self.plan.batch_sizes:
                for size in sorted(self.plan.batch_sizes):
                    if not self._holds(size):
                        break
            else:
                self._double()
            self._repeat_disturbed()
        finally:
            self._end()

    def _double(self) -> None:
        """Measure doubling batch sizes, then halve the last interval where memory ends in it."""
        held = 0
        for size in doubled(self.task):
            if not self._holds(size):
                break
            held = size
            if self._longest(size) > LONGEST_STEP * self.plan.seconds:
                return
        else:
            return
        lacking = size
        while held and lacking - held > max(1, held // RESOLUTION):
            middle = (held + lacking) // 2
            if self._holds(middle):
                held = middle
            else:
                lacking = middle

    def _repeat_disturbed(self) -> None:
        """Measure once more what was disturbed all the time, as far as there are the replicas."""
        for place, row in enumerate(self.rows):
            if int(row["replicas"]) not in self.plan.replicas:
                continue
            if row["outcome"] == FITS and float(row["quiet"]) == 0.0:
                again = self._measured(
                    Configuration(*(int(row[name]) for name in CONFIGURATION[1:]))
                )
                if again["outcome"] == FITS and again["quiet"] > 0.0:
                    self.rows[place] = again
                    self._write()

    def _longest(self, size: int) -> float:
        """Seconds of the longest step of that batch size."""
        return max(
            float(row["step_s"])
            for row in self.rows
            if int(row["atomic_batch_size"]) == size and row["outcome"] == FITS
        )

    def _holds(self, size: int) -> bool:
        """Measure all configurations of a batch size; whether memory holds it in all of them."""
        for accumulation in self.plan.accumulation:
            for replicas in self.plan.replicas:
                row = self._row(Configuration(replicas, size, accumulation))
                self.report()
                if row["outcome"] == NO_MEMORY:
                    return False
        return True

    def _row(self, wanted: Configuration) -> dict[str, Any]:
        """What is there of a configuration, or is measured now."""
        for row in self.rows:
            if wanted == tuple(int(row[name]) for name in CONFIGURATION[1:]):
                return row
        row = self._measured(wanted)
        self.rows.append(row)
        self._write()
        return row

    def _write(self) -> None:
        write_atomically(self.path, rows_as_text(self.rows))

    def _measured(self, wanted: Configuration) -> dict[str, Any]:
        """The row of a configuration, measured now."""
        crew = self._crew = self._crew or self._started()
        row = {"nodes": crew.nodes(wanted.replicas), **wanted._asdict(), **self.facts}
        row |= {"weights": crew.weights, **clock_state(str(self.facts["backend"]))}
        try:
            return row | measure(crew, wanted, self.plan.error, self.plan.seconds)
        except ProcessEnded as error:
            if not _lacked(error):
                raise
            self._end()
            return row | {"outcome": NO_MEMORY}

    def _started(self) -> Crew:
        try:
            return self.start()
        except ProcessEnded as error:
            if self.plan.memory_gib is None or error.code is None:
                raise
            raise ValueError(
                f"Measure: memory is {self.plan.memory_gib:g} GiB; expected enough to import "
                f"PyTorch and make the model ({error})"
            ) from error

    def _end(self) -> None:
        if self._crew is not None:
            self._crew.kill()
        self._crew = None


def _lacked(error: ProcessEnded) -> bool:
    """Whether a process ended for want of memory: the system kills without a word."""
    return error.code in (LACKED_MEMORY, -signal.SIGKILL) or (
        error.code is not None and lacks_memory(RuntimeError(error.words))
    )
