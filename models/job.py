"""The job: identity, limits, state, current placement and how fast it would run."""

from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, NamedTuple

import numpy as np

from goodalloc.models.efficiency import GradientStatistics
from goodalloc.models.goodput import BatchLimits, GoodputModel, plainly_in_order, validate
from goodalloc.models.throughput import ThroughputParameters
from goodalloc.models.validation import (
    require_count,
    require_flag,
    require_name,
    require_number,
)

#: Far beyond any weight that tells jobs apart, and far from overflowing.
LARGEST_WEIGHT = 1e9


class SpeedupTable(NamedTuple):
    """Speedups that a user measured or made up, in place of a goodput model.

    Entry *k* is the speedup on *k + 1* GPUs, relative to whatever the user calls a fair share;
    more GPUs than the table has entries are worth nothing.
    """

    one_node: tuple[float, ...]
    several_nodes: tuple[float, ...]


JobModel = GoodputModel | SpeedupTable | None


@dataclass(frozen=True, slots=True)
class Job:
    """A training job as the scheduler sees it at one round.

    Parameters
    ----------
    name
        Unique within an instance.
    model
        A goodput model, a table of speedups, or None for a job that never ran: its speedup is taken
        as *K / K_f*, linear in its GPUs (Pollux's artifact).
    age
        Seconds since submission.
    restarts
        Times the job was restarted so far.
    placement
        Where it runs now: (node index, GPUs) pairs, in node order; empty when it does not run.
    min_replicas, max_replicas
        Fewest (when it runs at all) and most GPUs.
    preemptible
        Whether a running job may be moved or stopped; if not, it keeps its placement.
    attained_service
        GPU-seconds received so far; orders the jobs in the genetic algorithm's repair.
    application
        What it trains, for people.
    weight
        Multiplies its speedup in the objective; above 0.

    Raises
    ------
    ValueError
        If a value makes no sense; the sentence names the job, the value and what was expected.
    """

    name: str
    model: JobModel = None
    age: float = 0.0
    restarts: int = 0
    placement: tuple[tuple[int, int], ...] = ()
    min_replicas: int = 0
    max_replicas: int = 64
    preemptible: bool = True
    attained_service: float = 0.0
    application: str = ""
    weight: float = 1.0

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        item = f"Job '{self.name}'"
        require_number(f"{item}: age", self.age, minimum=0.0)
        require_number(f"{item}: attained_service", self.attained_service, minimum=0.0)
        require_number(f"{item}: weight", self.weight, minimum=0.0, strict=True)
        if self.weight > LARGEST_WEIGHT:
            raise ValueError(
                f"{item}: weight is {self.weight}; expected at most {LARGEST_WEIGHT:g}."
            )
        require_count(f"{item}: restarts", self.restarts, minimum=0)
        require_count(f"{item}: min_replicas", self.min_replicas, minimum=0)
        require_count(f"{item}: max_replicas", self.max_replicas, minimum=1)
        require_flag(f"{item}: preemptible", self.preemptible)
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"{item}: min_replicas is {self.min_replicas}; "
                f"expected at most max_replicas, {self.max_replicas}."
            )
        if not isinstance(self.application, str):
            raise ValueError(f"{item}: application is {self.application!r}; expected a string.")
        self._check_placement(item)
        self._check_model(item)

    def _check_placement(self, item: str) -> None:
        pairs = self.placement
        if not isinstance(pairs, tuple) or any(
            not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs
        ):
            raise ValueError(
                f"{item}: placement is {pairs!r}; expected a tuple of (node, GPUs) pairs."
            )
        last = -1
        for node, gpus in pairs:
            require_count(f"{item}: node of its placement", node, minimum=0)
            require_count(f"{item}: GPUs on node {node}", gpus, minimum=1)
            if node <= last:
                raise ValueError(
                    f"{item}: placement names node {node} after node {last}; "
                    "expected each node once, in increasing order."
                )
            last = node

    def _check_model(self, item: str) -> None:
        if isinstance(self.model, SpeedupTable):
            self._check_speedups(item, self.model)
        elif isinstance(self.model, GoodputModel):
            self._check_goodput(item, self.model)
        elif self.model is not None:
            raise ValueError(
                f"{item}: model is of type {type(self.model).__name__}; "
                "expected a GoodputModel, a SpeedupTable or None."
            )

    @staticmethod
    def _check_goodput(item: str, model: GoodputModel) -> None:
        parts = (ThroughputParameters, GradientStatistics, BatchLimits)
        for name, part, wanted in zip(model._fields, model, parts, strict=True):
            if not isinstance(part, wanted):
                raise ValueError(
                    f"{item}: {name} of its model is of type {type(part).__name__}; "
                    f"expected {wanted.__name__}."
                )
        if plainly_in_order(model):
            return
        validate(model, item)
        for part in model:
            for name, value in zip(part._fields, part, strict=True):
                if not isinstance(value, Real | np.bool_):
                    raise ValueError(
                        f"{item}: {name} of its model is of type {type(value).__name__}; "
                        "expected one number."
                    )

    @staticmethod
    def _check_speedups(item: str, table: SpeedupTable) -> None:
        for name, speedups in zip(table._fields, table, strict=True):
            if not isinstance(speedups, tuple):
                raise ValueError(
                    f"{item}: {name} speedups are of type {type(speedups).__name__}; "
                    "expected a tuple of numbers."
                )
        if not table.one_node:
            raise ValueError(f"{item}: one_node speedups are empty; expected one per GPU count.")
        for name, speedups in zip(table._fields, table, strict=True):
            for gpus, speedup in enumerate(speedups, start=1):
                require_number(f"{item}: {name} speedup on {gpus} GPUs", speedup, minimum=0.0)

    @property
    def replicas(self) -> int:
        """GPUs the job holds now."""
        return sum(gpus for _, gpus in self.placement)

    @property
    def pinned(self) -> bool:
        """Whether the job must keep what it has: running and not preemptible."""
        return bool(self.placement) and not self.preemptible

    def replace(self, **changes: Any) -> "Job":
        """A copy with some values changed."""
        return replace(self, **changes)
