"""The generator: same seed, same bytes; feasible placements; loads and states as asked."""

from __future__ import annotations

import time
from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.profiles import application_names, load_profile
from goodalloc.data.files.instance import instance_text
from goodalloc.data.rounds.drawn_jobs import NEW_AGE, State
from goodalloc.data.rounds.generator import generate
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.rules import Rules

STATES: tuple[State, ...] = get_args(State)


@given(
    seed=st.integers(0, 2**31 - 1),
    jobs=st.integers(1, 60),
    sizes=st.lists(st.tuples(st.integers(1, 12), st.integers(1, 16)), min_size=1, max_size=3),
    state=st.sampled_from(STATES),
    avoid=st.booleans(),
    most=st.integers(1, 4),
)
def test_placements_obey_the_rules(
    seed: int, jobs: int, sizes: list[tuple[int, int]], state: State, avoid: bool, most: int
) -> None:
    """The checker finds nothing wrong with where the generated jobs run."""
    groups = (NodeGroup(f"g{i}", nodes, gpus) for i, (nodes, gpus) in enumerate(sizes))
    rules = Rules(interference_avoidance=avoid, max_nodes_per_job=most)
    instance = generate(seed, jobs, cluster=Cluster(tuple(groups)), state=state, rules=rules)
    assert violations(instance, instance.current) == ()
    assert instance.num_jobs == jobs


@pytest.mark.parametrize("state", STATES)
def test_the_same_seed_gives_the_same_bytes(state: State) -> None:
    """Equal arguments, equal text; another seed, another text."""
    texts = [instance_text(generate(seed, 30, state=state, name="x")) for seed in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]


@pytest.mark.parametrize("load", [0.25, 0.5, 1.0, 2.0, 4.0])
def test_the_load_decides_the_number_of_jobs(load: float) -> None:
    """One job more or less moves the demand by its request only; more load, more jobs."""
    fewer, more = (generate(3, nodes=64, load=x).num_jobs for x in (load, 2 * load))
    assert 1.3 * fewer < more < 3 * fewer


def test_a_cold_state_has_nothing_placed() -> None:
    """No job runs, but most have run before."""
    instance = generate(1, 100)
    assert not instance.current.replicas.size
    assert np.mean([job.model is not None for job in instance.jobs]) > 0.9


def test_a_running_state_places_most_jobs_and_fills_the_cluster() -> None:
    """All but the new jobs run where the GPUs suffice; all GPUs are taken where they do not."""
    enough = generate(2, 40, nodes=16, state="running")
    assert (enough.current.job_replicas > 0).sum() == 38
    scarce = generate(2, 200, nodes=16, state="running")
    assert scarce.current.replicas.sum() == 64


def test_a_disturbance_empties_a_fifth_of_the_nodes() -> None:
    """Some nodes are wholly free, and the jobs that ran on them wait."""
    running, disturbed = (generate(4, 160, nodes=40, state=s) for s in ("running", "disturbed"))
    empty = [(i.current.node_replicas == 0).sum() for i in (running, disturbed)]
    assert empty[0] <= 2
    assert empty[1] >= 8


def test_a_settled_state_is_old_and_placed() -> None:
    """All but the few new jobs run, and they have run for long."""
    instance = generate(5, 100, nodes=40, state="settled")
    running = instance.current.job_replicas > 0
    assert running.sum() == 98
    assert np.median(instance.age[running]) > 10_000


def test_new_jobs_are_young_unknown_and_on_one_gpu() -> None:
    """What never ran has no model, no restarts, and may grow to one GPU only."""
    new = [job for job in generate(6, 200, state="disturbed").jobs if job.model is None]
    assert len(new) == 20
    for job in new:
        assert (job.restarts, job.max_replicas, job.attained_service) == (0, 1, 0.0)
        assert 0 < job.age <= NEW_AGE


def test_limits_are_those_of_pollux() -> None:
    """No job exceeds 64 GPUs or its largest batch; what Pollux restricts stays restricted."""
    for job in generate(7, 2_000, nodes=400).jobs:
        profile = load_profile(job.application)
        most = int(profile.batch.maximum) // int(profile.batch.atomic_minimum)
        assert job.max_replicas <= min(64, most)
        if profile.restriction is not None:
            assert job.max_replicas == profile.restriction.replicas


def test_the_mix_is_that_of_the_paper_unless_given() -> None:
    """Shares of 20,000 jobs are within a percentage point; a mix of one gives only that one."""
    names = [job.application for job in generate(8, 20_000, nodes=10).jobs]
    for application in application_names():
        share = names.count(application) / len(names)
        assert share == pytest.approx(load_profile(application).share, abs=0.01)
    assert {job.application for job in generate(8, 50, mix={"bert": 2.0}).jobs} == {"bert"}


def test_ages_fall_and_leave_room_for_the_restarts() -> None:
    """Jobs come oldest first, and none was restarted for longer than it lived."""
    for state in STATES:
        instance = generate(9, 300, state=state)
        assert (np.diff(instance.age) <= 0).all()
        assert (30 * instance.restarts <= instance.age).all()


def test_ten_thousand_jobs_are_drawn_fast() -> None:
    """A hundred thousand take some seconds; a tenth of that is tested, with a generous bound."""
    begin = time.perf_counter()
    instance = generate(10, 10_000, nodes=2_500, state="disturbed")
    assert time.perf_counter() - begin < 5
    assert instance.num_jobs == 10_000
