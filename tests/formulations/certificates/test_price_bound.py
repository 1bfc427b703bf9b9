"""Bounds by prices: whatever the prices are they prove something, and duals prove much."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.formulations.certificates.certificate import Leaf, Split, certify
from goodalloc.formulations.certificates.domination import Standing
from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.certificates.prices import Parts, Prices, WeightedValues
from goodalloc.formulations.gpu_rounds.choices import enumerate_choices
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.formulations.mode_rounds.node_values import node_value
from goodalloc.formulations.mode_rounds.resource_units import resource_grid
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.certificates.certificate_search import (
    bounds_of,
    fitting_measure,
    search_certificate,
)
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from tests.support.enumerated import some_allocations, taken_by
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from goodalloc.formulations.certificates.certificate import Tree
    from goodalloc.formulations.mode_rounds.node_values import NodeValue

Maker = Callable[[int], Instance]

MAKERS: tuple[Maker, ...] = (
    random_instance,
    random_mode_instance,
    random_share_instance,
    random_pod_instance,
)


def unpruned(instance: Instance) -> PriceBound:
    """Bounds over all choices, dominated ones too."""
    enumerate_all = enumerate_choices if instance.plain else enumerate_mode_choices
    return PriceBound(instance, enumerate_all(instance, prune=False), resource_grid(instance))


def any_prices(bounds: PriceBound, generator: np.random.Generator) -> Prices:
    """Prices of every kind, most of them there and all of them nonsense."""
    instance, shape = bounds.instance, bounds.grid.shape
    groups = len(instance.cluster.groups)
    avoid = instance.rules.interference_avoidance

    def value() -> NodeValue:
        units = generator.integers(0, np.minimum(shape, 5), (3, len(shape)))
        units[:, 0] = np.maximum(units[:, 0], 1) % shape[0]
        units = units[units.any(axis=1)]
        extra = generator.integers(0, np.minimum(shape, 4), (2 * avoid, len(shape)))
        return node_value(
            units,
            generator.exponential(size=len(units)),
            shape,
            extra=extra,
            extra_worth=generator.exponential(size=len(extra)),
        )

    def parts() -> Parts:
        units = generator.integers(1, bounds.pieces.gpu_units + 1, 2)
        return Parts(units, generator.exponential(size=2))

    shares = instance.shares_gpus and generator.random() < 0.7
    return Prices(
        generator.exponential(size=(groups, len(shape))) * (generator.random() < 0.7),
        tuple(
            WeightedValues(float(generator.exponential()), tuple(value() for _ in range(groups)))
            for _ in range(generator.integers(0, 3))
        ),
        generator.normal(size=instance.current.job.size) if generator.random() < 0.7 else None,
        tuple(parts() for _ in range(groups)) if shares else (),
    )


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", few(range(25), 10))
def test_an_allocation_is_charged_no_more_than_its_nodes_are_worth(make: Maker, seed: int) -> None:
    """Weak duality itself: in any allocation, at any prices, all jobs together pay at most W."""
    instance = make(seed)
    bounds, generator = unpruned(instance), np.random.default_rng(seed)
    taken = [
        taken_by(instance, bounds.choices, allocation)
        for allocation in some_allocations(instance, 200)
    ]
    for _ in range(5):
        prices = any_prices(bounds, generator)
        charges, worth = bounds.charges(prices), float(bounds.worth(prices).sum())
        charges = np.where(np.isfinite(charges), charges, 0.0)
        assert max(charges @ weight for weight in taken) <= worth + 1e-9 * (1 + abs(worth))


@pytest.mark.parametrize("make", MAKERS)
@pytest.mark.parametrize("seed", few(range(30), 12))
def test_no_prices_prove_less_than_the_optimum(make: Maker, seed: int) -> None:
    """A certificate of random prices, with random cases, is a bound all the same."""
    instance = make(seed)
    best = solve(instance, "brute_force").fitness
    bounds, generator = bounds_of(instance), np.random.default_rng(seed)
    utility, power = bounds.choices.utility, instance.rules.power
    measure = fitting_measure(utility, power, instance.num_jobs, best)
    for _ in range(5):
        tree: Tree = Leaf(measure, any_prices(bounds, generator))
        for _ in range(generator.integers(0, 3)):
            job = int(generator.integers(instance.num_jobs))
            chosen = (bounds.choices.job == job) & (generator.random(len(bounds.choices)) < 0.5)
            tree = Split(job, chosen, tree, Leaf(measure, any_prices(bounds, generator)))
        assert certify(bounds, tree, best).bound >= best
        assert certify(bounds, tree, 0.5 * best).bound >= best * (1 - 1e-12)


@pytest.mark.parametrize("make", MAKERS)
def test_cases_close_nearly_every_gap(make: Maker) -> None:
    """Of twenty tiny rounds of every kind, no bound is below the optimum and 18 are proved."""
    closed = 0
    for seed in range(20):
        instance = make(seed)
        best = solve(instance, "brute_force").fitness
        watch = Watch(Stop(seconds=10.0))
        bound = search_certificate(bounds_of(instance), best, watch).bound
        assert bound >= best
        closed += bound <= best * (1 + 1e-9)
    assert closed >= 18


@pytest.mark.parametrize("power", [-math.inf, -1e4, -30.0, -1.0, 0.0, 1.0, 40.0, 1e4, math.inf])
def test_prices_prove_the_optimum_at_every_power(power: float) -> None:
    """The reported bound is the certificate's, and it closes the gap."""
    for seed in range(6):
        instance = random_instance(seed, power)
        result = solve(instance, "highs", certificate=True)
        assert result.certificate is not None
        assert result.allocation is not None
        assert result.certificate.bound == result.bound
        assert result.fitness == fitness(instance, result.allocation)
        assert result.bound >= solve(instance, "brute_force").fitness * (1 - 1e-12)
        assert result.gap <= 1e-9


def test_a_search_that_is_interrupted_has_proved_something(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C ends the search; the cases that are open then count with what is known of them."""
    instance = random_instance(6)
    best = solve(instance, "brute_force").fitness
    bounds = bounds_of(instance)
    calls = iter(range(100))
    least_cost = PriceBound.least_cost

    def interrupted(self: PriceBound, cost: Any, prices: Prices) -> float:
        if next(calls) == 2:
            raise KeyboardInterrupt
        return least_cost(self, cost, prices)

    monkeypatch.setattr(PriceBound, "least_cost", interrupted)
    bound = search_certificate(bounds, best, Watch(Stop())).bound
    assert best <= bound < math.inf
    monkeypatch.undo()
    assert bound > search_certificate(bounds, best, Watch(Stop())).bound


def test_choices_that_were_dropped_follow_those_that_stand_for_them() -> None:
    """The two sides of a split contain all choices of a job between them."""
    instance = random_instance(6)
    kept = enumerate_choices(instance)
    everything = enumerate_choices(instance, prune=False)
    standing = Standing(instance, kept)
    for job in range(instance.num_jobs):
        mine = everything.where(everything.job == job)
        chosen = (kept.job == job) & (kept.utility > np.median(kept.utility[kept.job == job]))
        inside = standing.named(job, chosen)
        outside = standing.named(job, (kept.job == job) & ~chosen)
        assert len({*inside, *outside}) == len(inside) + len(outside) == len(mine)
