"""Rows on how many gangs can be served: no allocation breaks them, and parts of gangs do."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.formulations.gpu_rounds.choices import Choices, Kind
from goodalloc.formulations.topology.served_jobs import served_limits

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats


def choices_of(least: list[int]) -> Choices:
    """Two choices a job: to starve, or to run on so many GPUs of several nodes."""
    job = np.repeat(np.arange(len(least)), 2)
    replicas = np.array([gpus for one in least for gpus in (0, one)])
    kind = np.where(replicas > 0, Kind.SEVERAL_NODES, Kind.IDLE)
    return Choices(job, kind, replicas, np.ones(job.size), job)


def taken(runs: Floats) -> Floats:
    """Values of the choices, where each job runs or starves so much."""
    return np.stack([1.0 - runs, runs], axis=1).ravel()


@given(st.lists(st.integers(1, 9), min_size=1, max_size=8), st.integers(0, 40))
def test_whatever_fits_obeys_the_rows(least: list[int], gpus: int) -> None:
    """All sets of jobs that share the GPUs, with any numbers of GPUs."""
    rows = served_limits(choices_of(least), gpus)
    assert len(rows) == len({one for one in least if one > 1})
    for runs in product((0.0, 1.0), repeat=len(least)):
        if np.dot(least, runs) <= gpus:
            for weights, most in rows:
                assert weights @ taken(np.array(runs)) <= most + 1e-9


@given(st.integers(2, 16), st.integers(0, 20), st.integers(0, 6), st.integers(0, 15))
def test_no_part_of_a_gang_is_served_by_what_is_left_over(
    gang: int, small: int, gangs: int, left: int
) -> None:
    """Where all small jobs run, whole gangs only; and for a further one so many of them starve."""
    left %= gang
    gpus = small + gang * gangs + left
    ((weights, most),) = served_limits(choices_of([1] * small + [gang] * (gangs + 1)), gpus)
    everybody = np.ones(small + gangs + 1)
    everybody[-1] = 0.0
    assert weights @ taken(everybody) <= most + 1e-9
    more = everybody.copy()
    more[-1] = 0.01
    assert weights @ taken(more) > most + 1e-9
    starved = gang - left
    if starved <= small:
        more[-1] = 1.0
        more[:starved] = 0.0
        assert weights @ taken(more) <= most + 1e-9


def test_the_example_of_the_docstring() -> None:
    """479 jobs of one GPU and gangs of eight on 512: a gang more costs seven small jobs."""
    ((weights, most),) = served_limits(choices_of([1] * 479 + [8] * 21), 512)
    assert np.unique(weights.round(12)).tolist() == [0.0, round(1 / 7, 12), 1.0]
    assert most == pytest.approx(4 + 479 / 7)


def test_jobs_of_one_gpu_need_no_rows_nor_do_those_that_never_run() -> None:
    """Nothing is left over that a part of a job could use."""
    assert served_limits(choices_of([1, 1, 1]), 2) == ()
    alone = choices_of([1, 4])
    assert served_limits(alone.where(alone.replicas < 4), 2) == ()
