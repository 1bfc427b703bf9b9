"""Rounds one after the other: what goes on, what ends, and that each is a round."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.round_sequence import following_round
from goodalloc.models.columns.round_columns import NEVER_RAN
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.support.namespace import leaves
from goodalloc.solvers.columns.solver import solve_columns

SEEDS = st.integers(0, 10**6)


@settings(max_examples=40)
@given(SEEDS, st.sampled_from([0.0, 0.1, 0.7]), st.sampled_from([0.0, 0.1]))
def test_jobs_that_go_on_are_older_and_hold_what_they_were_given(
    seed: int, ends: float, own: float
) -> None:
    """And have the same models; a second restart follows a second change of their placement."""
    now = generate_columns(seed, 12, 4, state="running", own=own)
    given = solve_columns(now).allocation
    after = following_round(now, given, seed, ends=ends, own=own)
    stays = after.age == now.age + 60.0
    assert after.num_jobs == now.num_jobs
    assert stays.all() or ends > 0.0
    held = np.where(stays, given.job_replicas, 0)
    assert after.current.job_replicas[stays].tolist() == held[stays].tolist()
    changed = ~given.unchanged(now.current) & (given.job_replicas > 0)
    assert (after.restarts - now.restarts)[stays].tolist() == changed[stays].tolist()
    models = now.kind_models(), after.kind_models()
    for old, new in zip(now.kind[stays].tolist(), after.kind[stays].tolist(), strict=True):
        assert (old == NEVER_RAN) == (new == NEVER_RAN)
        assert old == NEVER_RAN or models[0][old] == models[1][new]


@settings(max_examples=15)
@given(SEEDS)
def test_no_model_is_kept_that_no_job_has(seed: int) -> None:
    """However many rounds follow each other."""
    columns = generate_columns(seed, 12, 4, state="running", own=0.1)
    for index in range(4):
        columns = following_round(columns, solve_columns(columns).allocation, index, ends=0.5)
        ran = columns.kind[columns.kind != NEVER_RAN]
        assert sorted({*ran.tolist()}) == list(range(columns.num_kinds))


def test_the_same_seed_gives_the_same_round() -> None:
    """And another seed another."""
    now = generate_columns(0, 40, 10, state="running")
    given = solve_columns(now).allocation
    first, again, other = (following_round(now, given, seed, ends=0.3) for seed in (1, 1, 2))
    assert first.age.tolist() == again.age.tolist() != other.age.tolist()
    assert first.current == again.current
    for one, same in zip(leaves(first.models), leaves(again.models), strict=True):
        assert np.asarray(one).tolist() == np.asarray(same).tolist()


@pytest.mark.parametrize("gpus", [1, 4, 8])
def test_where_all_jobs_end_the_next_are_those_of_a_new_round(gpus: int) -> None:
    """On nodes of any size; none of them holds a GPU."""
    now = generate_columns(0, 30, 3, gpus, state="running")
    after = following_round(now, solve_columns(now).allocation, 1, ends=1.0)
    drawn = generate_columns(1, 30, 3, gpus, state="running")
    for name in ("age", "restarts", "max_replicas"):
        assert getattr(after, name).tolist() == getattr(drawn, name).tolist()
    assert after.current == Allocation.empty(30, 3)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"ends": -0.1}, "ends is -0.1"),
        ({"ends": 1.5}, "ends is 1.5; expected a probability"),
        ({"ends": float("nan")}, "ends is nan"),
        ({"interval": -1.0}, "interval is -1"),
        ({"seed": 0.5}, "seed is 0.5"),
    ],
)
def test_numbers_that_make_no_sense_are_refused(options: dict[str, Any], message: str) -> None:
    """In a sentence."""
    now = generate_columns(0, 8, 2)
    with pytest.raises(ValueError, match=message):
        following_round(now, now.current, **({"seed": 0} | options))


def test_an_allocation_of_another_round_is_refused() -> None:
    """By its numbers of jobs and nodes."""
    now = generate_columns(0, 8, 2)
    with pytest.raises(ValueError, match="of 7 jobs on 2 nodes; expected 8 on 2"):
        following_round(now, Allocation.empty(7, 2), 0)
