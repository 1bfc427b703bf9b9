"""Measurement of passes and steps of a real training in every configuration, for `goodalloc fit`.

Each configuration is measured by `measured_configuration.py`, in several visits; those that were
disturbed all the time are measured once more, and whenever the same command is run again.

Without a list of batch sizes, these double from the smallest of the task, as long as memory holds
them, the task allows them, and a step takes at most a part of the time; the largest size that
memory holds is found by bisection and recorded.

The file is rewritten after every row. Rows that exist are not measured again.
"""

from __future__ import annotations

import re
import shlex
import signal
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.measured_profile import (
    CONFIGURATION,
    FITS,
    IDENTITY,
    NO_MEMORY,
    read_rows,
    rows_as_text,
)
from goodalloc.experiments.measure.devices import CPUS
from goodalloc.experiments.measure.execution import PLAIN
from goodalloc.experiments.measure.machine_state import present_state
from goodalloc.experiments.measure.measured_configuration import Configuration, measure, pooled
from goodalloc.experiments.measure.process import NO_MEMORY as LACKED_MEMORY
from goodalloc.experiments.measure.rank import lacks_memory
from goodalloc.experiments.support.machine_description import machine
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from pathlib import Path

    from goodalloc.experiments.measure.crew import Crew
    from goodalloc.experiments.measure.devices import Devices
    from goodalloc.experiments.measure.execution import Execution
    from goodalloc.experiments.tasks.task import TrainingTask

    Rows = list[dict[str, Any]]

#: Most replicas, and most on each core of this machine.
MOST, MOST_A_CORE = 4096, 8

#: Part of the time that a step may take before batch sizes no longer double.
LONGEST_STEP = 0.1

#: Bisection ends when the largest batch size is known to one part in this number.
RESOLUTION = 8


@dataclass(frozen=True)
class MeasurePlan:
    """Configurations to be measured, and the target precision.

    Parameters
    ----------
    model
        Name of the task, as in `find_task`.
    replicas
        Numbers of replicas.
    accumulation
        Numbers of accumulated passes.
    batch_sizes
        Atomic batch sizes (examples); empty to double them.
    error
        Target of the relative standard error of a mean.
    seconds
        Time limit of a configuration, without its warm-ups, over all visits.
    visits
        Number of times that each configuration is measured, with all others in between.
    memory_gib
        Largest address space of a process; None for no limit.
    seed
        Seed of weights and examples.
    execution
        How the training computes.

    Raises
    ------
    ValueError
        If `replicas` or `accumulation` is empty, a list has a number twice or out of range, or
        `error`, `seconds`, `memory_gib` or `seed` is out of range.
    """

    model: str
    replicas: tuple[int, ...] = (1, 2)
    accumulation: tuple[int, ...] = (0, 1)
    batch_sizes: tuple[int, ...] = ()
    error: float = 0.05
    seconds: float = 5.0
    visits: int = 3
    memory_gib: float | None = None
    seed: int = 0
    execution: Execution = PLAIN

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
        require_count("Measure: visits", self.visits, 1)
        require_count("Measure: seed", self.seed, 0, 2**31 - 1)

    @property
    def command(self) -> str:
        """The command that measures it, without the machine's backend and files."""
        words = ["goodalloc", "measure", self.model]
        for name in ("replicas", "batch_sizes", "accumulation"):
            if values := getattr(self, name):
                words += [f"--{name.replace('_', '-')}", ",".join(map(str, values))]
        limit = {} if self.memory_gib is None else {"memory": self.memory_gib}
        for name, value in {"error": self.error, "seconds": self.seconds, **limit}.items():
            words += [f"--{name}", f"{value:g}"]
        words += ["--visits", str(self.visits), "--precision", self.execution.precision]
        given = {"compile": self.execution.compiled, "channels-last": self.execution.channels_last}
        words += [f"--{name}" for name, switched_on in given.items() if switched_on]
        return shlex.join([*words, *(("--seed", str(self.seed)) if self.seed else ())])


def require_machine(plan: MeasurePlan, devices: Devices, launched: int | None) -> None:
    """Refuse a plan that this machine cannot measure.

    Parameters
    ----------
    plan
        The plan.
    devices
        Devices of this machine.
    launched
        Number of processes that torchrun started; None if it did not.

    Raises
    ------
    ValueError
        If replicas would share GPUs without Gloo, many would share a core, CPUs are to round as
        GPUs do, or a memory limit is given with GPUs, under torchrun or on Windows.
    """
    if launched is None:
        devices.require_room(max(plan.replicas))
        cores, most = machine()["cores"], max(plan.replicas)
        if not devices.gpus and most > MOST_A_CORE * cores:
            raise ValueError(
                f"argument --replicas: got {most}; expected at most {MOST_A_CORE * cores}, "
                f"{MOST_A_CORE} on each of the {cores} cores of this machine, which they share."
            )
    if plan.execution.precision == "tf32" and not devices.gpus:
        raise ValueError("argument --precision: got tf32; expected fp32 or bf16 on CPUs.")
    if plan.memory_gib is None:
        return
    if devices.gpus or launched is not None or sys.platform == "win32":
        raise ValueError(
            f"argument --memory: got {plan.memory_gib:g}; expected none but for processes on the "
            "CPUs of this machine that goodalloc starts."
        )


def doubled(task: TrainingTask) -> Iterator[int]:
    """Generate batch sizes from the smallest to the largest of `task`, each twice the one before.

    Examples
    --------
    >>> from goodalloc.experiments.measure import doubled
    >>> from goodalloc.experiments.tasks import find_task
    >>> [*doubled(find_task("perceptron"))]
    [32, 64, 128, 256, 512, 1024, 2048, 4096]
    """
    size = task.smallest_batch
    while size < task.largest_batch:
        yield size
        size *= 2
    yield task.largest_batch


@dataclass
class Measuring:
    """Measurement of a profile, which resumes from its file.

    Parameters
    ----------
    plan
        The configurations.
    task
        The training task.
    path
        The file.
    facts
        Present values of the columns `IDENTITY`, and of others that are the same in all rows.
    start
        Function that starts the processes.
    report
        Callback after every row.
    devices
        Devices of this machine.
    traces
        Folder that keeps the profiles of steps; None to keep none.

    Raises
    ------
    ValueError
        If the file is of another model, machine or version, or is malformed.
    """

    plan: MeasurePlan
    task: TrainingTask
    path: Path
    facts: Mapping[str, Any]
    start: Callable[[], Crew]
    report: Callable[[], object] = lambda: None
    devices: Devices = CPUS
    traces: Path | None = None
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
        """Measure the configurations that the file lacks.

        Raises
        ------
        ValueError
            If there is not enough memory to make the model.
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
            self._revisit()
        finally:
            self._end()

    def _double(self) -> None:
        """Measure doubling batch sizes, then bisect for the largest that memory holds."""
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
        """Measure planned configurations again that were disturbed all the time."""
        for place, row in enumerate(self.rows):
            if row["outcome"] == FITS and float(row["quiet"]) == 0.0 and self._planned(row):
                again = self._measured(_configuration(row))
                if again["outcome"] == FITS and again["quiet"] > 0.0:
                    self.rows[place] = again
                    self._write()

    def _revisit(self) -> None:
        """Visit planned configurations again, in turn, until all were visited often enough."""
        for visit in range(1, self.plan.visits):
            for place, row in enumerate(self.rows):
                if not self._planned(row) or row["outcome"] != FITS or float(row["quiet"]) == 0.0:
                    continue
                if int(row["visits"]) > visit:
                    continue
                again = self._measured(_configuration(row))
                if again["outcome"] == FITS and again["quiet"] > 0.0:
                    self.rows[place] = pooled(row, again)
                    self._write()
                self.report()

    def _planned(self, row: Mapping[str, Any]) -> bool:
        """Return whether a configuration has a number of replicas of the plan."""
        return int(row["replicas"]) in self.plan.replicas

    def _longest(self, size: int) -> float:
        """Return the seconds of the longest step with a batch size."""
        return max(
            float(row["step_s"])
            for row in self.rows
            if int(row["atomic_batch_size"]) == size and row["outcome"] == FITS
        )

    def _holds(self, size: int) -> bool:
        """Measure all configurations of a batch size; return whether memory holds it in all."""
        for accumulation in self.plan.accumulation:
            for replicas in self.plan.replicas:
                row = self._row(Configuration(replicas, size, accumulation))
                self.report()
                if row["outcome"] == NO_MEMORY:
                    return False
        return True

    def _row(self, wanted: Configuration) -> dict[str, Any]:
        """Return the row of a configuration, which is measured if there is none."""
        for row in self.rows:
            if wanted == tuple(int(row[name]) for name in CONFIGURATION[1:]):
                return row
        row = self._measured(wanted)
        self.rows.append(row)
        self._write()
        return row

    def _write(self) -> None:
        """Write the file."""
        write_atomically(self.path, rows_as_text(self.rows))

    def _measured(self, wanted: Configuration) -> dict[str, Any]:
        """Measure a configuration and return its row."""
        crew = self._crew = self._crew or self._started()
        row = {"nodes": crew.nodes(wanted.replicas), **wanted._asdict(), **self.facts}
        row |= {"weights": crew.weights, **present_state(self.devices)}
        try:
            seconds = self.plan.seconds / self.plan.visits
            own = self.traces and self.traces / re.sub(r"[^\w.-]+", "-", self.plan.model)
            return row | measure(crew, wanted, self.plan.error, seconds, own)
        except ProcessEnded as error:
            if not _lacked(error):
                raise
            self._end()
            return row | {"outcome": NO_MEMORY}

    def _started(self) -> Crew:
        """Start the processes."""
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
        """End the processes."""
        if self._crew is not None:
            self._crew.kill()
        self._crew = None


def _configuration(row: Mapping[str, Any]) -> Configuration:
    """Return the configuration of a row."""
    return Configuration(*(int(row[name]) for name in CONFIGURATION[1:]))


def _lacked(error: ProcessEnded) -> bool:
    """Return whether a process ended for lack of memory; the system may have killed it."""
    return error.code in (LACKED_MEMORY, -signal.SIGKILL) or (
        error.code is not None and lacks_memory(RuntimeError(error.words))
    )
