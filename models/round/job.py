"""Job: identity, limits, state, current placement and performance model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from goodalloc.models.round.mode import Mode, require_model
from goodalloc.models.round.mode import SpeedupTable as SpeedupTable
from goodalloc.models.support.validation import (
    literal,
    require_count,
    require_flag,
    require_name,
    require_number,
)

if TYPE_CHECKING:
    from goodalloc.models.round.mode import JobModel as JobModel

#: Most GPUs that Pollux ever gives to one job.
MOST_REPLICAS = 64


#: Far beyond any weight that tells jobs apart, and far from overflowing.
LARGEST_WEIGHT = 1e9


@dataclass(frozen=True, slots=True)
class Job:
    """Training job at one scheduling round.

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
        Present placement: (node index, GPUs) pairs, in node order; empty when it does not run.
    min_replicas, max_replicas
        Fewest (when it runs at all) and most replicas, one GPU each where no mode says otherwise.
    preemptible
        Whether a running job may be moved or stopped; if not, it keeps its placement.
    attained_service
        GPU-seconds received so far; orders the jobs in the genetic algorithm's repair.
    application
        Name of the application, for reports.
    weight
        Multiplies its speedup in the objective; above 0.
    modes
        Ways to equip its replicas, in place of a model; a job without modes needs GPUs only.
    mode
        Name of the mode it runs in, where it has modes and runs.
    restart_delay
        Seconds that a restart costs it; None for the delay of the rules.

    Raises
    ------
    ValueError
        If a value has the wrong type, is negative or out of its range, `min_replicas` exceeds
        `max_replicas`, the placement is not in node order, or modes, mode and model disagree.

    Examples
    --------
    >>> from goodalloc.models import Job, SpeedupTable
    >>> job = Job("job", SpeedupTable((1.0, 1.8), ()), placement=((0, 2),))
    >>> job.replicas
    2
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
    modes: tuple[Mode, ...] = ()
    mode: str = ""
    restart_delay: float | None = None

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
        if self.restart_delay is not None:
            require_number(f"{item}: restart_delay", self.restart_delay, minimum=0.0)
        require_count(f"{item}: min_replicas", self.min_replicas, minimum=0)
        require_count(f"{item}: max_replicas", self.max_replicas, minimum=1)
        require_flag(f"{item}: preemptible", self.preemptible)
        if self.min_replicas > self.max_replicas:
            raise ValueError(
                f"{item}: min_replicas is {self.min_replicas}; "
                f"expected at most max_replicas, {self.max_replicas}."
            )
        if not isinstance(self.application, str):
            raise ValueError(
                f"{item}: application is {literal(self.application)}; expected a string."
            )
        self._check_placement(item)
        self._check_modes(item)
        require_model(item, self.model)

    def _check_placement(self, item: str) -> None:
        pairs = self.placement
        if not isinstance(pairs, tuple) or any(
            not isinstance(pair, tuple) or len(pair) != 2 for pair in pairs
        ):
            raise ValueError(
                f"{item}: placement is {literal(pairs)}; expected a tuple of (node, GPUs) pairs."
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

    def _check_modes(self, item: str) -> None:
        if not isinstance(self.modes, tuple) or any(
            not isinstance(mode, Mode) for mode in self.modes
        ):
            raise ValueError(f"{item}: modes is {literal(self.modes)}; expected a tuple of modes.")
        names = [mode.name for mode in self.modes]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"{item}: mode '{name}' is named twice; names are unique.")
        if self.modes and self.model is not None:
            raise ValueError(f"{item} has a model and modes; expected one of the two.")
        if self.modes and self.placement and self.mode not in names:
            raise ValueError(
                f"{item}: runs in mode '{self.mode}'; expected one of {', '.join(names)}."
            )
        if self.mode and not (self.modes and self.placement):
            raise ValueError(
                f"{item}: mode is '{self.mode}'; expected none of a job without modes or placement."
            )

    @property
    def replicas(self) -> int:
        """GPUs that the job holds now."""
        return sum(gpus for _, gpus in self.placement)

    @property
    def all_modes(self) -> tuple[Mode, ...]:
        """Modes of the job; a single one with its model if it has none."""
        return self.modes or (Mode("gpu", self.model),)

    @property
    def mode_index(self) -> int:
        """Index of the mode in which it runs, 0 if it does not run."""
        return [mode.name for mode in self.modes].index(self.mode) if self.mode else 0

    @property
    def pinned(self) -> bool:
        """Whether the job must keep its placement: running and not preemptible."""
        return bool(self.placement) and not self.preemptible

    def replace(self, **changes: Any) -> Job:
        """Return a copy with some values changed."""
        return replace(self, **changes)
