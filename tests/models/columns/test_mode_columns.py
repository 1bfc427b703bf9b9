"""Rounds of modes in columns: the same jobs, utilities and rules as those of an instance."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds import equip, generate, generate_mode_columns
from goodalloc.models import Allocation, Cluster, Mode, NodeGroup, SpeedupTable, resources
from goodalloc.models.columns import ModeColumns, column_violations, mode_column_utilities
from goodalloc.models.round import Rules, mode_utilities, utilities, violations

if TYPE_CHECKING:
    from goodalloc.data.rounds import State
    from goodalloc.models import Instance

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")


def equipped(seed: int, jobs: int, rules: Rules | None = None) -> Instance:
    """Return a small round of twelve modes."""
    cluster = Cluster((NodeGroup("big", 2, 4), NodeGroup("small", 1, 2)))
    state = STATES[seed % len(STATES)]
    plain = generate(seed, jobs, cluster=cluster, state=state, rules=rules or Rules())
    return equip(plain, seed, cores=(9.0, 5.0))


@settings(max_examples=30)
@given(st.integers(0, 99), st.integers(1, 12))
def test_columns_keep_what_jobs_are(seed: int, jobs: int) -> None:
    """There and back, but for what columns do not state."""
    instance = equipped(seed, jobs)
    names = [job.name for job in instance.jobs]
    plain = tuple(replace(job, application="", attained_service=0.0) for job in instance.jobs)
    columns = ModeColumns.of(instance)
    assert columns.instance(names, instance.name) == instance.replace(jobs=plain)
    assert columns.num_kinds <= jobs
    assert len(columns.modes) == 12


@settings(max_examples=30)
@given(
    st.integers(0, 99),
    st.integers(1, 12),
    st.sampled_from(
        [
            Rules(),
            Rules(fair_share="packed"),
            Rules(fair_share="one_gpu", speedup_scale="job"),
            Rules(floor=0.0, idle_utility=0.5, restart_penalty="running"),
        ]
    ),
)
def test_utilities_by_kind_and_mode_are_those_of_every_job(
    seed: int, jobs: int, rules: Rules
) -> None:
    """Of the present allocation, and of one with every job in every mode."""
    instance = equipped(seed, jobs, rules)
    columns = ModeColumns.of(instance)
    found, table = mode_column_utilities(columns), mode_utilities(instance)
    np.testing.assert_allclose(found.of(columns.current), utilities(instance, instance.current))
    for mode in range(len(columns.modes)):
        for several, placement in enumerate([((0, 2),), ((0, 1), (2, 1))]):
            allocation = Allocation.from_placements(
                [placement] * jobs, columns.cluster.num_nodes, np.full(jobs, mode)
            )
            held = min(2, table.moved.shape[-1] - 1)
            usual = table.moved[instance.first_mode + mode, several, held]
            usual = np.where(allocation.unchanged(instance.current), table.kept, usual)
            np.testing.assert_allclose(found.of(allocation), usual, rtol=1e-12)


@settings(max_examples=60)
@given(st.integers(0, 999), st.integers(1, 6))
def test_the_checker_finds_what_the_one_of_instances_finds(seed: int, jobs: int) -> None:
    """In random allocations, rule by rule."""
    random = np.random.default_rng(seed)
    columns = replace(generate_mode_columns(seed, jobs), rules=Rules(max_nodes_per_job=2))
    nodes = random.choice(11, size=(jobs, 2))
    matrix = np.zeros((jobs, 11), dtype=np.int64)
    for job, row in enumerate(nodes):
        matrix[job, row] = random.integers(0, 9, 2)
    allocation = Allocation.from_matrix(matrix, random.integers(0, 10, jobs))
    found = {broken.rule for broken in column_violations(columns, allocation)}
    usual = {broken.rule for broken in violations(columns.instance(), allocation)}
    assert found == usual


def test_a_mode_that_is_none_is_a_violation() -> None:
    """Named with the modes there are."""
    columns = generate_mode_columns(0, 2)
    allocation = Allocation.from_placements([((0, 1),), ()], 11, np.array([12, 0]))
    (broken,) = column_violations(columns, allocation)
    assert (broken.rule, broken.message) == ("mode", "Job 0 is in mode 12; it has 10 modes.")


def wrong(**changes: Any) -> tuple[dict[str, Any], str]:
    """Return changes of a round and the sentence that refuses them."""
    message = changes.pop("message")
    return changes, message


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        wrong(modes=(), message="expected at least one mode"),
        wrong(modes=(Mode("a", gpu_type="t4"),) * 3, message="there are .* models; expected one"),
        wrong(modes=(Mode("a"),), message="Mode 'a': gpu_type is ''; expected one of 'a100'"),
        wrong(modes=(Mode("a", SpeedupTable((1.0,), ()), "t4"),), message="has a model of its own"),
        wrong(
            modes=(Mode("a", gpu_type="t4", gpu_share=0.5),),
            message="gpu_share is 0.5; expected 1 in columns",
        ),
        wrong(modes=(Mode("a", None, "v100"),), message="which no node has"),
        wrong(age=np.array([-1.0, 0.0]), message="Job 0: age is -1.0"),
        wrong(rules=Rules(fair_share="least"), message="fair_share is 'least'"),
        wrong(
            current=Allocation.from_placements([((0, 4),), ()], 11, np.array([2, 0])),
            message="Node 0: present placements take 32 cpu; expected at most 16",
        ),
        wrong(
            current=Allocation.from_placements([((0, 1),), ()], 11, np.array([3, 0])),
            message="its present mode 'a100-2' does not run on node 0",
        ),
    ],
)
def test_rounds_that_make_no_sense_are_refused(changes: dict[str, Any], message: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=message):
        replace(generate_mode_columns(0, 2), **changes)


def test_a_placement_that_must_stay_is_refused() -> None:
    """Columns would give it up."""
    instance = equipped(1, 3)
    jobs = tuple(replace(job, preemptible=not job.placement) for job in instance.jobs)
    with pytest.raises(ValueError, match="preemptible is of its own; expected none in columns"):
        ModeColumns.of(instance.replace(jobs=jobs))
    assert ModeColumns.of(instance).num_jobs == 3


def test_jobs_with_modes_of_their_own_are_no_columns() -> None:
    """The sentence names the job."""
    instance = equipped(0, 3)
    first, *others = instance.jobs
    odd = others[0].replace(modes=(*others[0].modes[:-1], Mode("odd", None)), mode="", placement=())
    with pytest.raises(ValueError, match=f"Job '{odd.name}': its modes are not those of"):
        ModeColumns.of(instance.replace(jobs=(first, odd, *others[1:])))
    table = Mode("m", SpeedupTable((1.0,), ()), resources=resources({"cpu": 1}))
    jobs = tuple(job.replace(modes=(table,), mode="", placement=()) for job in instance.jobs)
    with pytest.raises(ValueError, match="have no goodput model; expected all or none"):
        ModeColumns.of(instance.replace(jobs=jobs))
