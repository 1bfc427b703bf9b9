"""Tests of the tables of goodput and speedup."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.benchmarks.goodput import sample_models
from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.model import BatchLimits, GoodputModel
from goodalloc.models.goodput.speedup import goodput_table, speedups, stack_models
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.support.namespace import leaves

if TYPE_CHECKING:
    from goodalloc.models.goodput.chunked import Backend, Search


def models(jobs: int, seed: int = 0) -> GoodputModel:
    """Models of realistic size, stacked."""
    return sample_models(jobs, np.random.default_rng(seed))


def model_of(stacked: GoodputModel, job: int) -> GoodputModel:
    """One model of a stack."""
    numbers = [np.asarray(leaf)[job] for leaf in leaves(stacked)]
    return GoodputModel(
        ThroughputParameters(*numbers[:7]),
        GradientStatistics(*numbers[7:9]),
        BatchLimits(*numbers[9:]),
    )


@pytest.mark.parametrize("search", ["integer", "grid"])
def test_the_table_holds_the_best_goodput_of_each_allocation(search: Search) -> None:
    """Each entry is what `best_batch_size` says of that job, node choice and K alone."""
    stacked = models(3)
    table = goodput_table(stacked, 5, search=search, backend="numpy")
    assert table.shape == (3, 2, 6)
    for (job, several, replicas), entry in np.ndenumerate(table):
        alone = best_batch_size(model_of(stacked, job), several + 1, replicas, search=search)
        assert entry == pytest.approx(alone.goodput, rel=1e-13)


@pytest.mark.parametrize("search", ["integer", "grid"])
@pytest.mark.parametrize("backend", ["jax", "numpy"])
def test_nothing_runs_without_gpus_or_on_more_nodes_than_gpus(
    search: Search, backend: Backend
) -> None:
    """Zero at K = 0, and for one GPU on several nodes."""
    table = goodput_table(models(4), 8, search=search, backend=backend)
    assert (table[:, :, 0] == 0.0).all()
    assert (table[:, 1, 1] == 0.0).all()
    assert (table[:, 0, 1:] > 0.0).all()
    assert (table[:, 1, 2:] > 0.0).all()


@pytest.mark.parametrize("search", ["integer", "grid"])
def test_jax_and_numpy_give_the_same_table(search: Search) -> None:
    """One implementation on two libraries, over several chunks."""
    stacked = models(40, seed=1)
    jax_table, numpy_table = (
        goodput_table(stacked, 64, search=search, backend=backend) for backend in ("jax", "numpy")
    )
    assert jax_table.dtype == np.float64
    np.testing.assert_allclose(jax_table, numpy_table, rtol=1e-12)


@pytest.mark.gpu("jax")
@pytest.mark.parametrize("search", ["integer", "grid"])
def test_a_gpu_gives_the_same_table(search: Search) -> None:
    """In double precision, to rounding."""
    stacked = models(40, seed=1)
    on_gpu, on_cpu = (
        goodput_table(stacked, 64, search=search, backend=backend) for backend in ("jax", "numpy")
    )
    np.testing.assert_allclose(on_gpu, on_cpu, rtol=1e-9)


def test_another_number_of_jobs_or_gpus_compiles_nothing(caplog: pytest.LogCaptureFixture) -> None:
    """Once compiled, the search serves every size: the compilations are counted."""
    import jax

    goodput_table(models(3), 8)
    with jax.log_compiles(True), caplog.at_level(logging.DEBUG, logger="jax"):
        jax.jit(lambda x: x + 1.0)(1.0)
        counted = sum("ompil" in record.getMessage() for record in caplog.records)
        caplog.clear()
        for jobs, replicas in ((4, 8), (5, 9), (100, 64), (1, 1)):
            goodput_table(models(jobs), replicas)
        again = [record.getMessage() for record in caplog.records]
    assert counted > 0, "the counter does not count"
    # another thread may still compile what a test before has begun
    assert not [message for message in again if "ompil" in message and "traced" in message]


def test_a_goodput_table_refuses_unknown_choices() -> None:
    """Backend, search and size are checked by name."""
    with pytest.raises(ValueError, match="backend is 'torch'; expected 'jax' or 'numpy'"):
        goodput_table(models(1), 4, backend="torch")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="search is 'random'; expected 'integer' or 'grid'"):
        goodput_table(models(1), 4, search="random")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="max_replicas is -1; expected 0 or more"):
        goodput_table(models(1), -1)


def test_speedups_are_relative_to_the_base_of_each_job() -> None:
    """Goodput over the base, and nothing for a job whose base cannot run."""
    table = goodput_table(models(3), 4, backend="numpy")
    base = table[:, 0, 1].copy()
    base[2] = 0.0
    found = speedups(table, base)
    np.testing.assert_allclose(found[:2, 0, 1], 1.0)
    np.testing.assert_allclose(found[0], table[0] / base[0])
    assert (found[2] == 0.0).all()


def test_stacking_keeps_every_number() -> None:
    """Model j of the stack is the model that was put there."""
    several = [model_of(models(5, seed=2), job) for job in range(5)]
    stacked = stack_models(several)
    assert list(leaves(model_of(stacked, 3))) == list(leaves(several[3]))
    assert np.asarray(stacked.batch.accumulation).dtype == bool


def test_several_nodes_are_never_faster_where_their_network_is_slower() -> None:
    """With node parameters above the local ones, the second row is below the first."""
    stacked = models(20, seed=3)
    slower = stacked.throughput._replace(
        alpha_node=stacked.throughput.alpha_local * 1.5,
        beta_node=stacked.throughput.beta_local * 1.5,
    )
    table = goodput_table(stacked._replace(throughput=slower), 16, backend="numpy")
    assert (table[:, 1] <= table[:, 0] * (1 + 1e-12)).all()
