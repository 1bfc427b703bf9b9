"""Jobs that train large models by plans, and rounds of such jobs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.support.validation import require_count, require_name, require_number

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.models.plans.execution_plan import Configuration, Training


@dataclass(frozen=True)
class PlanJob:
    """Submitted job.

    Parameters
    ----------
    name
        Unique in its trace.
    training
        What it trains.
    submission
        Seconds from the start.
    steps
        Steps until it is complete.
    request
        Type and number of GPUs that its user asked for.

    Raises
    ------
    ValueError
        If the name is empty, or a number is negative or 0 steps.
    """

    name: str
    training: Training
    submission: float
    steps: float
    request: Configuration

    def __post_init__(self) -> None:
        require_name("Job", self.name)
        require_number(f"Job '{self.name}': submission", self.submission, minimum=0.0)
        require_number(f"Job '{self.name}': steps", self.steps, minimum=0.0, strict=True)
        require_count(f"Job '{self.name}': GPUs of its request", self.request.gpus, minimum=1)


class PlanRestarts(NamedTuple):
    """Seconds without steps after a job got another configuration: its plan is sought anew.

    Attributes
    ----------
    per_gpu, most
        Seconds for each GPU of the new configuration, and at most.

    Examples
    --------
    >>> from goodalloc.models.plans import PlanRestarts
    >>> PlanRestarts(per_gpu=10.0, most=40.0).seconds(8)
    40.0
    """

    per_gpu: float
    most: float

    def seconds(self, gpus: int) -> float:
        """Return the seconds of a restart on a number of GPUs."""
        return min(self.per_gpu * gpus, self.most)


@dataclass(frozen=True)
class PlanState:
    """Job at a round, as its scheduler sees it.

    Parameters
    ----------
    job
        The job.
    speeds
        Steps a second in every configuration in which it can run, by its fastest plan.
    held
        What it holds; None if it waits.
    left
        Steps that remain.
    age
        Seconds since submission.
    restarts
        Times it got another configuration after its first; -1 before that.

    Raises
    ------
    ValueError
        If there are no speeds.
    """

    job: PlanJob
    speeds: Mapping[Configuration, float]
    held: Configuration | None
    left: float
    age: float
    restarts: int

    def __post_init__(self) -> None:
        if not self.speeds:
            raise ValueError(
                f"Job '{self.job.name}': speeds are empty; expected those of the configurations in "
                "which it can run."
            )

    @property
    def requested_speed(self) -> float:
        """Steps a second as requested; where that cannot run, of its slowest configuration."""
        return self.speeds.get(self.job.request, min(self.speeds.values()))


@dataclass(frozen=True)
class PlanRound:
    """State of a cluster when a decision is due.

    Parameters
    ----------
    time
        Seconds from the start.
    capacity
        GPUs of each type.
    jobs
        Unfinished jobs in order of submission.

    Raises
    ------
    ValueError
        If two jobs have one name.
    """

    time: float
    capacity: Mapping[str, int]
    jobs: tuple[PlanState, ...]

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for state in self.jobs:
            if state.job.name in seen:
                raise ValueError(f"Round: job '{state.job.name}' is there twice; expected it once.")
            seen.add(state.job.name)

    def free(self) -> dict[str, int]:
        """Return the GPUs of each type that no job holds."""
        left = dict(self.capacity)
        for state in self.jobs:
            if state.held is not None:
                left[state.held.gpu_type] -= state.held.gpus
        return left


def plan_violations(round_: PlanRound, decision: Mapping[str, Configuration]) -> list[str]:
    """Return what a decision breaks: unknown jobs, configurations without a plan, too many GPUs.

    GPUs of a type are counted together: configurations are powers of two of GPUs, parts of one node
    or whole nodes, so whatever adds up fits, the largest first, where nodes have a power of two.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, PlanRound, plan_violations
    >>> plan_violations(PlanRound(0.0, {"a100": 4}, ()), {"a": Configuration("a100", 4)})
    ["job 'a' is not there."]
    """
    states = {state.job.name: state for state in round_.jobs}
    broken, used = [], dict.fromkeys(round_.capacity, 0)
    for name, configuration in decision.items():
        if name not in states:
            broken.append(f"job '{name}' is not there.")
        elif configuration not in states[name].speeds:
            broken.append(
                f"job '{name}' is to run on {configuration.gpus} GPUs '{configuration.gpu_type}', "
                "for which it has no plan."
            )
        else:
            used[configuration.gpu_type] = used.get(configuration.gpu_type, 0) + configuration.gpus
    for gpu_type, gpus in used.items():
        if gpus > round_.capacity.get(gpu_type, 0):
            broken.append(
                f"{gpus} GPUs '{gpu_type}' are to be used; there are "
                f"{round_.capacity.get(gpu_type, 0)}."
            )
    return broken
