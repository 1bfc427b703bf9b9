"""Replays whose rounds are in the library: trace, policy, cluster and seed of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.models.support.validation import require_count, require_name, require_number

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Recording:
    """Replay in which rounds are recorded.

    Parameters
    ----------
    trace
        Name of the trace (`goodalloc.experiments.library.recorded_rounds`).
    policy
        Policy of the replay.
    jobs, seed
        Number of jobs that are drawn of the trace, and seed; of a workload of Pollux, its number.
    nodes, gpus
        The cluster; of jobs that choose plans, `nodes` is the part of Arena's cluster.
    rounds
        Number of rounds that are recorded, evenly over those with enough jobs.
    least_jobs
        Fewest active jobs of a recorded round.
    power
        Power of the objective of the recorded rounds.
    since
        Version of the library in which the rounds entered.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    trace: str
    policy: str
    jobs: int
    seed: int
    nodes: int = 16
    gpus: int = 4
    rounds: int = 4
    least_jobs: int = 12
    power: float = -1.0
    since: int = 1

    def __post_init__(self) -> None:
        require_name("Recording: trace", self.trace)
        require_name("Recording: policy", self.policy)
        for name in ("jobs", "nodes", "gpus", "rounds", "least_jobs", "since"):
            require_count(f"Recording: {name}", getattr(self, name), minimum=1)
        require_count("Recording: seed", self.seed, minimum=0)
        require_number("Recording: power", self.power, finite=False)

    @property
    def origin(self) -> str:
        """Trace without its variant."""
        return self.trace.partition("openb-")[0] or "openb"


#: Lists of pods of openb.
_PODS = ("default", "cpu250", "gpushare40", "gpuspec33", "multigpu50")


def recordings() -> Iterator[Recording]:
    """Generate the replays, trace by trace."""
    for number in (1, 2, 3, 4):
        yield Recording("pollux", "tiresias", 160, number, nodes=8, rounds=3)
        yield Recording("pollux", "optimus", 160, number, nodes=8, rounds=3)
    for trace in ("philly", "itp"):
        for seed in (1, 2):
            small = Recording(trace, "tiresias", 160, seed, nodes=8)
            yield small
            yield replace(small, policy="optimus", rounds=3)
            yield replace(small, jobs=320, nodes=32, rounds=2)
            yield replace(small, gpus=8, policy="fifo", rounds=3)
        yield Recording(trace, "tiresias", 600, 3, nodes=64, rounds=2)
        yield Recording(trace, "tiresias", 160, 4, nodes=8, rounds=2, power=0.0)
    for seed in (1, 2, 3):
        yield Recording("tiresias", "tiresias", 60, seed, nodes=4, rounds=3)
        yield Recording("tiresias", "optimus", 60, seed, nodes=8, rounds=3)
        yield Recording("elasticflow", "tiresias", 150, seed, nodes=8, rounds=3)
        yield Recording("elasticflow", "fifo", 150, seed, nodes=8, gpus=8, rounds=2)
    for seed in (1, 2):
        yield Recording("philly-plans", "first-come", 60, seed, nodes=16)
        yield Recording("philly-plans", "first-come", 150, seed, nodes=8)
        yield Recording("helios", "first-come", 60, seed, nodes=16)
        yield Recording("helios", "first-come", 150, seed, nodes=8)
        yield Recording("pai", "first-come", 60, seed, nodes=20)
        yield Recording("pai", "first-come", 60, seed, nodes=16)
    yield Recording("helios", "first-come", 300, 1, nodes=8)
    yield Recording("pai", "first-come", 120, 1, nodes=16, power=0.0)
    for variant in _PODS:
        for seed, (pods, nodes) in enumerate(((60, 12), (120, 20), (250, 40)), start=1):
            yield Recording(f"openb-{variant}", "published", pods, seed, nodes=nodes, rounds=1)
    for policy, jobs, nodes, rounds in (
        ("pollux", 160, 16, 4),
        ("pollux-priced", 640, 64, 6),
        ("pollux-priced", 1280, 128, 4),
        ("pollux-priced", 2000, 250, 4),
    ):
        yield Recording("pollux-days", policy, jobs, 1, nodes=nodes, rounds=rounds, since=3)
