"""Rounds of Synergy on small servers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import strategies as st

from goodalloc.data.rounds.synergy import PUBLISHED_GPUS, synergy_round
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable, resources
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.interface.base import find_solver

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

RULES = Rules(power=1.0, interference_avoidance=False, restart_delay=0.0, speedup_scale="job")


def equipped(name: str, gpus: int, *speeds: tuple[float, float], **options: object) -> Job:
    """A job of so many GPUs with a mode for every (cores a GPU, speed)."""
    modes = []
    for cpus, speed in speeds:
        table = (*[0.0] * (gpus - 1), speed)
        several = table if gpus > 1 else ()
        model = SpeedupTable(table, several)
        modes.append(Mode(f"{cpus:g}", model, resources=resources({"cpu": cpus})))
    job = Job(name, min_replicas=gpus, max_replicas=gpus, modes=tuple(modes))
    return job.replace(**options)


def nodes(count: int, gpus: int = 4, cpus: float = 12.0) -> Cluster:
    """Equal nodes with cores."""
    return Cluster((NodeGroup("node", count, gpus, resources=(("cpu", cpus),)),))


def outcome(instance: Instance, solver: str) -> dict[str, tuple[str, tuple[tuple[int, int], ...]]]:
    """The mode and the placement of every job that runs."""
    found = find_solver(solver)(instance).allocation
    assert violations(instance, found) == ()
    return {
        job.name: (job.all_modes[found.mode[index]].name, found.placement(index))
        for index, job in enumerate(instance.jobs)
        if found.placement(index)
    }


ROUNDS = st.builds(
    synergy_round,
    st.integers(0, 2**31 - 1),
    st.integers(1, 8),
    split=st.sampled_from([None, (20, 70, 10), (50, 0, 50)]),
    gpus=st.sampled_from([{1: 1.0}, PUBLISHED_GPUS, {1: 1.0, 3: 1.0, 5: 1.0, 12: 1.0}]),
    load=st.sampled_from([0.5, 1.0]),
)
