"""Replays whose rounds are in the library: trace, policy, cluster and seed of each."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from goodalloc.data.library.library_round import TREE
from goodalloc.models.support.validation import (
    require_count,
    require_name,
    require_number,
    require_share,
)

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class OnTree:
    """What a recorded cluster of islands, racks and pods asks for.

    Parameters
    ----------
    requiring
        Share of the jobs that require one rack, from 0 to 1.
    uplink_jobs
        Most jobs that share the uplink of a rack, None for any number.
    gangs
        Whether jobs of the recorded rounds run on the GPUs that they requested or not at all.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    requiring: float = 0.1
    uplink_jobs: int | None = None
    gangs: bool = False

    def __post_init__(self) -> None:
        require_share("Recording: requiring", self.requiring)
        if self.uplink_jobs is not None:
            require_count("Recording: uplink_jobs", self.uplink_jobs, minimum=1)


@dataclass(frozen=True)
class Recording:
    """Replay in which rounds are recorded.

    Parameters
    ----------
    trace
        Name of the trace (`goodalloc.experiments.library.recorded_rounds`).
    policy
        Policy of the replay; on a tree it may have a placing, as ``tiresias@best_fit``.
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
    tree
        What the tree asks for where the cluster is one; None without a tree.
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
    tree: OnTree | None = None
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
        """Trace without its variant; of rounds on trees `TREE`."""
        if self.tree is not None:
            return TREE
        return self.trace.partition("openb-")[0] or "openb"

    @property
    def label(self) -> str:
        """Beginning of the names of its rounds: the origin, on a tree with the trace."""
        return self.origin if self.tree is None else f"{self.origin}-{self.trace}"


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
    yield from _on_trees()


def _on_trees() -> Iterator[Recording]:
    """Generate the replays on trees: under placed policies, and under Pollux on the tree."""
    free, gangs, narrow = OnTree(), OnTree(gangs=True), OnTree(uplink_jobs=2)
    for trace, jobs, least in (
        ("pollux", 160, 12),
        ("philly", 320, 20),
        ("itp", 320, 20),
        ("elasticflow", 150, 12),
    ):
        first = Recording(
            trace, "tiresias@best_fit", jobs, 1, nodes=16, least_jobs=least, tree=free, since=4
        )
        yield replace(first, rounds=2)
        yield replace(first, policy="optimus@best_fit", tree=narrow, seed=2, rounds=2)
        yield replace(first, tree=gangs, seed=3, rounds=4)
    wide = Recording(
        "philly", "tiresias@balanced", 640, 4, nodes=64, least_jobs=40, tree=free, since=4
    )
    yield replace(wide, rounds=2)
    yield replace(wide, tree=gangs, seed=5, rounds=3)
    yield replace(wide, trace="itp", tree=gangs, seed=5, rounds=3)
    yield Recording("pollux", "pollux@exact", 160, 1, rounds=3, tree=free, since=4)
