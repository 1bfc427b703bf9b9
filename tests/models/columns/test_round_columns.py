"""Rounds in columns: the same jobs, utilities and rules as those of an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.rounds import generate, generate_columns
from goodalloc.models import Allocation, Cluster, Instance, Job, NodeGroup, SpeedupTable
from goodalloc.models.columns import RoundColumns, column_utilities, column_violations
from goodalloc.models.round import PRESETS, Rules, mode_utilities, utilities, violations

if TYPE_CHECKING:
    from goodalloc.data.rounds import State

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")


@given(st.integers(0, 99), st.integers(1, 30), st.integers(1, 6), st.integers(1, 8))
def test_a_round_drawn_in_columns_is_the_one_drawn_job_by_job(
    seed: int, jobs: int, nodes: int, gpus: int
) -> None:
    """In every state, but for the names of the jobs."""
    state = STATES[seed % len(STATES)]
    drawn = generate(seed, jobs, nodes, gpus, state=state)
    columns = generate_columns(seed, jobs, nodes, gpus, state=state)
    names = [job.name for job in drawn.jobs]
    plain = tuple(replace(job, application="", attained_service=0.0) for job in drawn.jobs)
    assert columns.instance(names, drawn.name) == drawn.replace(jobs=plain)
    assert RoundColumns.of(drawn).instance(names, drawn.name) == drawn.replace(jobs=plain)


@given(
    st.integers(0, 99),
    st.integers(1, 20),
    st.sampled_from(
        [
            *(rules for rules in PRESETS.values() if rules.fair_share != "least"),
            Rules(fair_share="packed"),
            Rules(fair_share="one_gpu", speedup_scale="job"),
            Rules(floor=0.0, idle_utility=0.5, restart_penalty="running"),
        ]
    ),
)
def test_utilities_by_kind_are_those_of_every_job(seed: int, jobs: int, rules: Rules) -> None:
    """Of every choice, by the same arithmetic; and of any allocation."""
    cluster = Cluster((NodeGroup("big", 2, 4), NodeGroup("small", 1, 2)))
    state = STATES[seed % len(STATES)]
    instance = generate(seed, jobs, cluster=cluster, state=state, rules=rules)
    found, table = column_utilities(RoundColumns.of(instance)), mode_utilities(instance)
    moved, usual = found.moved(slice(0, jobs)), table.moved
    for job, most in enumerate(instance.max_replicas.tolist()):
        one = slice(0, min(most, 4) + 1)
        np.testing.assert_allclose(moved[job, 0, one], usual[job, 0, one], rtol=1e-14)
        many = slice(0, most + 1)
        np.testing.assert_allclose(moved[job, 1, many], usual[job, 1, many], rtol=1e-14)
    np.testing.assert_allclose(found.kept, table.kept, rtol=1e-14)
    random = np.random.default_rng(seed)
    matrix = random.integers(0, 3, (jobs, 3))
    for allocation in (instance.current, Allocation.from_matrix(matrix)):
        within = allocation.job_replicas <= instance.max_replicas
        ours, usual_ones = found.of(allocation), utilities(instance, allocation)
        np.testing.assert_allclose(ours[within], usual_ones[within], rtol=1e-14)


@given(st.integers(0, 9999))
def test_the_checker_finds_the_rules_that_the_other_checker_finds(seed: int) -> None:
    """On allocations of any kind, most of which break some."""
    random = np.random.default_rng(seed)
    rules = Rules(
        max_nodes_per_job=int(random.integers(1, 4)),
        interference_avoidance=bool(random.integers(2)),
    )
    instance = generate(seed, 4, 3, 4, rules=rules)
    columns = RoundColumns.of(instance)
    allocation = Allocation.from_matrix(random.integers(0, 3, (4, 3)))
    ours = {broken.rule for broken in column_violations(columns, allocation)}
    assert ours == {broken.rule for broken in violations(instance, allocation)}
    other = Allocation.empty(5, 3)
    assert [broken.rule for broken in column_violations(columns, other)] == ["shape"]


GOOD = generate_columns(0, 5, 2, 4, state="running")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"kind": np.zeros(0, int)}, "expected at least one job, got none"),
        ({"age": np.zeros(4)}, r"age has shape \(4,\); expected \(5,\)"),
        ({"kind": np.array([0, 0, 9, 0, 0])}, "Job 2: kind is 9; expected -1 to "),
        ({"kind": np.array([0, -2, 0, 0, 0])}, "Job 1: kind is -2"),
        ({"age": np.array([1.0, np.nan, 1.0, 1.0, 1.0])}, "Job 1: age is nan; expected 0 to inf"),
        ({"age": np.array([1.0, 1.0, np.inf, 1.0, 1.0])}, "Job 2: age is inf"),
        ({"age": np.array([-1.0, 1.0, 1.0, 1.0, 1.0])}, "Job 0: age is -1.0"),
        ({"restarts": np.array([0, 0, 0, 0, -1])}, "Job 4: restarts is -1"),
        ({"max_replicas": np.array([1, 0, 1, 1, 1])}, "Job 1: max_replicas is 0; expected 1 to"),
        ({"rules": PRESETS["sia"]}, "fair_share is 'least', which is of each job's own"),
        ({"current": Allocation.empty(4, 2)}, "of 4 jobs on 2 nodes; expected 5 on 2"),
        ({"current": Allocation.from_matrix([[5, 0]] + [[0, 0]] * 4)}, "Node 0: .* hold 5 GPUs"),
    ],
)
def test_columns_that_make_no_sense_are_refused(changes: dict[str, Any], sentence: str) -> None:
    """With the first job or node that is wrong."""
    with pytest.raises(ValueError, match=sentence):
        replace(GOOD, **changes)


@pytest.mark.parametrize(
    ("job", "sentence"),
    [
        (Job("a", SpeedupTable((1.0,), ())), "Job 'a': model is of its own"),
        (Job("a", min_replicas=2, max_replicas=4), "min_replicas is of its own"),
        (Job("a", weight=2.0), "weight is of its own"),
        (Job("a", restart_delay=1.0), "restart_delay is of its own"),
        (Job("a", placement=((0, 1),), preemptible=False), "preemptible is of its own"),
    ],
)
def test_jobs_that_columns_do_not_state_are_refused(job: Job, sentence: str) -> None:
    """Rather than decided as if they were others."""
    with pytest.raises(ValueError, match=sentence):
        RoundColumns.of(Instance(Cluster.uniform(1, 4), (job,)))


def test_a_model_that_makes_no_sense_is_refused() -> None:
    """With the number that is out of range."""
    throughput = GOOD.models.throughput
    wrong = throughput._replace(alpha_grad=-np.ones_like(throughput.alpha_grad))
    with pytest.raises(ValueError, match=r"Kind\[0\]: alpha_grad is -1.0"):
        replace(GOOD, models=GOOD.models._replace(throughput=wrong))


def test_jobs_that_never_ran_need_no_model() -> None:
    """Their speedup is linear in their GPUs."""
    instance = Instance(Cluster.uniform(1, 4), (Job("a"), Job("b", max_replicas=2)))
    columns = RoundColumns.of(instance)
    assert columns.num_kinds == 0
    moved = column_utilities(columns).moved(slice(0, 2))
    np.testing.assert_allclose(moved, mode_utilities(instance).moved)
