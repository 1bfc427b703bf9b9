"""What a GPU is worth on a page: the price, and what one more or fewer changes."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.pages.gpu_worth import gpu_worth
from goodalloc.models.round.generalised_mean import power_mean
from goodalloc.models.round.objective import utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.columns.round_utilities import TabulatedUtilities
from goodalloc.solvers.exact.highs import solve_highs


@pytest.mark.parametrize("power", [-1.0, 0.0, 0.5])
def test_one_gpu_more_or_fewer_changes_the_fitness_by_what_it_is_worth(power: float) -> None:
    """With one job's utility replaced by its best on one GPU more, or on one fewer."""
    instance = generate(seed=2, jobs=60, nodes=16, state="settled", rules=Rules(power=power))
    allocation = solve_highs(instance).allocation
    assert allocation is not None
    worth = gpu_worth(instance, allocation)
    assert worth is not None
    reached, best = utilities(instance, allocation), TabulatedUtilities(instance).best(slice(0, 60))
    value = float(power_mean(reached, power))
    for job, held in enumerate(allocation.job_replicas.tolist()):
        for gpus, told in ((held + 1, worth.more[job]), (held - 1, -worth.fewer[job])):
            changed = reached.copy()
            changed[job] = best[job, gpus] if 0 <= gpus < best.shape[1] else -math.inf
            if not math.isfinite(changed[job]):
                assert math.isnan(told)
                continue
            assert told > -1.0  # nothing is worth more than everything
            gained = float(power_mean(changed, power)) / value - 1.0
            assert told == pytest.approx(gained, rel=1e-6, abs=1e-9)


def test_at_the_optimum_the_price_lies_between_what_jobs_lose_and_gain() -> None:
    """No job has a GPU that is worth far more to another, where all run from nothing."""
    instance = load_benchmark("medium-cold")
    allocation = solve_highs(instance).allocation
    assert allocation is not None
    worth = gpu_worth(instance, allocation)
    assert worth is not None
    assert np.nanmax(worth.more) <= worth.price * 1.2
    assert np.nanmin(worth.fewer) >= worth.price * 0.8


@pytest.mark.parametrize("power", [math.inf, -math.inf])
def test_there_is_no_price_where_the_mean_is_no_sum(power: float) -> None:
    """The least or the greatest utility alone decides."""
    instance = generate(seed=2, jobs=6, nodes=2, rules=Rules(power=power))
    assert gpu_worth(instance, instance.current) is None
