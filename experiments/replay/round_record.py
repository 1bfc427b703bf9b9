"""Records of a replay: the decision of a round, and the rows of the files that are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from goodalloc.solvers.interface.result import Evidence
    from goodalloc.solvers.policies.policy import Decision, Round


class RoundRecord(NamedTuple):
    """Decision of a round.

    Attributes
    ----------
    round_
        The round as the policy saw it.
    decision
        The decision of the policy.
    seconds
        Wall time of the decision.
    restarts
        Number of jobs whose placement changed to another one.
    """

    round_: Round
    decision: Decision
    seconds: float
    restarts: int


class RoundRow(NamedTuple):
    """Row of ``rounds.csv``, whose columns are these fields (schema in data/FORMAT.md).

    The fields from `fitness` on are those of `Verdict`, None in a round that was not judged.
    """

    time: float
    active_jobs: int
    running_jobs: int
    nodes: int
    allocated_gpus: int
    restarts: int
    efficiency: float | None
    training_gpus: float
    throughput: float
    goodput: float
    fitness: float | None = None
    bound: float | None = None
    gap: float | None = None
    bound_source: str | None = None
    evidence: Evidence | None = None
    starved: int | None = None
    served_fitness: float | None = None
    best_starved: int | None = None
    best_served_fitness: float | None = None


class SampleRow(NamedTuple):
    """Row of ``samples.csv``, whose columns are these fields (schema in data/FORMAT.md)."""

    time: float
    job: str
    application: str
    epoch: int
    progress: float
    gpus: int
    nodes: int
    batch_size: int
    efficiency: float
    restarts: int
    mode: str


class JobRow(NamedTuple):
    """Row of ``jobs.csv``, whose columns are these fields (schema in data/FORMAT.md)."""

    job: str
    application: str
    submission: int
    start: float | None
    completion: float
    jct: float
    restarts: int
    attained_service: float


class TimingRow(NamedTuple):
    """Row of ``timing.csv``, whose columns are these fields: time of the round, and wall times."""

    time: float
    decision_seconds: float
    round_seconds: float


#: Types of the rows of the files that grow row by row.
GROWING: dict[str, type[RoundRow | SampleRow | TimingRow]] = {
    "rounds.csv": RoundRow,
    "samples.csv": SampleRow,
    "timing.csv": TimingRow,
}
