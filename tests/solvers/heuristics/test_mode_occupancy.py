"""What is left of the nodes while jobs with modes are placed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.models.round.feasibility import violations
from goodalloc.solvers.heuristics.mode_occupancy import ModeOccupancy
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance


def filled(instance: Instance, seed: int) -> ModeOccupancy:
    """Jobs put, in random modes and numbers of replicas, wherever best fit or spreading allows."""
    nodes, generator = ModeOccupancy(instance), np.random.default_rng(seed)
    for job in np.flatnonzero(~instance.pinned).tolist():
        mode = int(generator.choice(np.flatnonzero(instance.mode_job == job)))
        least = max(instance.jobs[job].min_replicas, 1)
        if least > instance.max_replicas[job]:
            continue
        replicas = int(generator.integers(least, instance.max_replicas[job] + 1))
        room, order = nodes.room(mode), generator.permutation(instance.cluster.num_nodes)
        found = nodes.best_fit(room, replicas, nodes.free_gpus)
        if not found or generator.random() < 0.5:
            found = nodes.spread(room, replicas, order)
        if found:
            assert nodes.fits(mode, found)
            nodes.put(job, mode, found)
    return nodes


@given(seed=st.integers(0, 10**6))
def test_whatever_finds_room_breaks_no_rule(seed: int) -> None:
    """Best fit and spreading keep to types, resources, most nodes and interference avoidance."""
    instance = random_mode_instance(seed)
    assert violations(instance, filled(instance, seed).allocation()) == ()


@given(seed=st.integers(0, 10**6))
def test_jobs_that_are_removed_leave_what_was_free_before(seed: int) -> None:
    """Put and remove are inverse; nothing of a job is left anywhere."""
    instance = random_mode_instance(seed)
    nodes, fresh = filled(instance, seed), ModeOccupancy(instance)
    for job in np.flatnonzero(~instance.pinned).tolist():
        nodes.remove(job)
    assert nodes.free == pytest.approx(fresh.free)
    assert nodes.free_gpus.tolist() == fresh.free_gpus.tolist()
    assert nodes.distributed.tolist() == fresh.distributed.tolist()
    assert (nodes.placements, nodes.residents) == (fresh.placements, fresh.residents)


@given(seed=st.integers(0, 10**6))
def test_a_node_has_room_for_as_many_replicas_as_fit_on_it(seed: int) -> None:
    """One by one, the first that does not fit is the one after the last there is room for."""
    instance = random_mode_instance(seed)
    nodes = filled(instance, seed)
    for mode in range(len(instance.modes)):
        for node, room in enumerate(nodes.room(mode).tolist()):
            assert room == 0 or nodes.fits(mode, ((node, room),))
            assert not nodes.fits(mode, ((node, room + 1),))
