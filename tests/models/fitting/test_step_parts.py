"""Fits to steps and their parts: what is recovered, from how little, and what parts are worth."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.fitting.step_parts import KINDS, StepObservations, fit_step_parts
from goodalloc.models.goodput.throughput_model import (
    ThroughputParameters,
    gradient_time,
    step_time,
    synchronisation_time,
)

TRUTH = ThroughputParameters(0.02, 1e-3, 0.05, 0.01, 0.1, 0.02, 2.5)

#: Seconds of an update.
UPDATE = 0.004


def steps_of(
    configurations: list[tuple[int, int, int, int]],
    truth: ThroughputParameters = TRUTH,
    *,
    update: float = 0.0,
    error: float = 0.01,
) -> StepObservations:
    """What (N, K, m, s) take if the formula holds, with a term for the update."""
    nodes, replicas, atomic, more = np.array(configurations, dtype=float).T
    gradient = np.asarray(gradient_time(truth, atomic))
    waiting = np.asarray(synchronisation_time(truth, nodes, replicas))
    whole = np.asarray(step_time(truth, nodes, replicas, atomic, more))
    last = whole - more * gradient
    known = replicas > 1
    constant = np.full_like(nodes, error)
    return StepObservations(
        nodes=nodes,
        replicas=replicas,
        atomic_batch_size=atomic,
        accumulation_steps=more,
        pass_time=gradient,
        update_time=np.full_like(nodes, update),
        step_time=whole + update,
        pass_error=constant,
        step_error=constant,
        synchronisation_time=np.where(known, waiting, np.nan),
        hidden=np.where(known, (gradient + waiting - last) / waiting, np.nan),
        synchronisation_error=constant,
        hidden_error=constant,
    )


MANY = [
    (nodes, replicas, atomic, more)
    for nodes, replicas in ((1, 1), (1, 2), (1, 4), (2, 2), (2, 4), (2, 8))
    for atomic in (8, 32, 128)
    for more in (0, 1)
]
FEW = [(1, 1, 8, 0), (1, 1, 128, 0), (1, 2, 32, 0)]


def test_parts_without_errors_are_recovered_whatever_they_are() -> None:
    """All seven parameters, but for the priors of Pollux, which pull gamma to 1."""
    found = fit_step_parts(steps_of(MANY)).parameters
    assert tuple(found) == pytest.approx(tuple(TRUTH), rel=0.05)


def test_one_configuration_of_two_replicas_tells_waiting_from_overlap() -> None:
    """Of a whole step, any of many pairs could be the cause."""
    steps = steps_of(FEW)
    seen = fit_step_parts(steps).parameters
    blind = fit_step_parts(steps.without_parts()).parameters
    assert seen.alpha_local == pytest.approx(TRUTH.alpha_local, rel=0.05)
    assert seen.gamma == pytest.approx(TRUTH.gamma, rel=0.1)
    assert abs(np.log(blind.alpha_local / TRUTH.alpha_local)) > 0.3
    unseen = steps_of([(1, 2, 8, 0), (1, 2, 128, 0)])
    wrong = [
        np.abs(
            np.log(np.asarray(step_time(fit, 1, 2, unseen.atomic_batch_size, 0)) / unseen.step_time)
        ).max()
        for fit in (seen, blind)
    ]
    assert 3.0 * wrong[0] < wrong[1]


def test_two_thirds_of_the_configurations_suffice_where_the_formula_holds() -> None:
    """Thirty draws with errors of 5 % of times, 20 % of waiting and 0.1 of what is hidden."""
    random = np.random.default_rng(0)
    errors: dict[tuple[str, int], list[float]] = {("parts", 4): [], ("steps", 6): []}
    sizes = (8, 16, 32, 64, 128, 256)
    whole = steps_of([(1, replicas, atomic, 0) for replicas in (1, 2) for atomic in sizes])
    count, several = 2 * len(sizes), slice(len(sizes), None)
    for _ in range(10):
        noisy = whole._replace(
            pass_time=whole.pass_time * random.lognormal(0.0, 0.05, count),
            step_time=whole.step_time * random.lognormal(0.0, 0.05, count),
            synchronisation_time=whole.synchronisation_time * random.lognormal(0.0, 0.2, count),
            hidden=whole.hidden + random.normal(0.0, 0.1, count),
            pass_error=np.full(count, 0.05),
            step_error=np.full(count, 0.05),
            synchronisation_error=np.full(count, 0.2),
            hidden_error=np.full(count, 0.1),
        )
        one, two = random.permutation(len(sizes)), len(sizes) + random.permutation(len(sizes))
        for kind, number in errors:
            mask = np.isin(np.arange(count), [*one[: number // 2], *two[: number // 2]])
            known = noisy.select(mask)
            fit = fit_step_parts(known if kind == "parts" else known.without_parts())
            predicted = step_time(fit.parameters, 1, 2, whole.atomic_batch_size[several], 0)
            ratio = np.asarray(predicted) / whole.step_time[several]
            errors[kind, number].append(float(np.sqrt(np.mean(np.log(ratio) ** 2))))
    assert np.mean(errors["parts", 4]) < np.mean(errors["steps", 6])


def test_a_term_for_the_update_is_taken_out_of_the_passes() -> None:
    """It is the mean of the measured ones; without a term, accumulation halves what a pass has."""
    steps = steps_of(MANY, update=UPDATE)
    apart = fit_step_parts(steps, update_apart=True)
    assert apart.update == pytest.approx(UPDATE)
    assert tuple(apart.parameters) == pytest.approx(tuple(TRUTH), rel=0.05)
    shared = fit_step_parts(steps)
    assert shared.update == 0.0
    assert TRUTH.alpha_grad < shared.parameters.alpha_grad < TRUTH.alpha_grad + UPDATE


def test_replicas_that_slow_each_other_down_have_a_term() -> None:
    """Those on one machine, by a fifth; without the term their waiting grows with the batch."""
    steps = steps_of([row for row in MANY if row[0] == 1])
    together = steps.replicas > steps.nodes
    slower = steps._replace(
        pass_time=steps.pass_time * np.where(together, 1.2, 1.0),
        step_time=steps.step_time * np.where(together, 1.2, 1.0),
        synchronisation_time=1.2 * steps.synchronisation_time,
    )
    found = fit_step_parts(slower, contention=True)
    assert found.contention == pytest.approx(0.2, rel=0.05)
    assert found.parameters.beta_grad == pytest.approx(TRUTH.beta_grad, rel=0.02)
    alone = slower.select(slower.replicas == 1)
    assert fit_step_parts(alone, contention=True).contention == 0.0
    assert fit_step_parts(slower).contention == 0.0


@settings(max_examples=5)
@given(factor=st.floats(1.5, 4.0))
def test_parts_count_less_the_larger_their_errors(factor: float) -> None:
    """Waiting that is wrong by a factor moves the fit; with a large error it hardly does."""
    steps = steps_of(FEW)
    wrong = steps._replace(synchronisation_time=factor * steps.synchronisation_time)
    doubtful = wrong._replace(synchronisation_error=np.full(3, 100.0))
    truth, trusted, ignored = (
        np.log(fit_step_parts(one).parameters.alpha_local) for one in (steps, wrong, doubtful)
    )
    assert trusted - truth > 0.1
    assert abs(ignored - truth) < 0.1


def test_what_the_model_cannot_have_is_told_by_kind() -> None:
    """Waiting that grows with the batch, as of replicas that wait for each other."""
    steps = steps_of([(1, replicas, 2**power, 0) for replicas in (1, 2) for power in range(3, 9)])
    grown = steps._replace(synchronisation_time=steps.synchronisation_time * np.arange(1, 13))
    before, after = fit_step_parts(steps).spread, fit_step_parts(grown).spread
    kind = KINDS.index("synchronisation")
    assert after[kind] > 3.0 * before[kind]


def test_several_nodes_that_nobody_tried_cost_more_than_one() -> None:
    """As in Pollux."""
    found = fit_step_parts(steps_of(FEW)).parameters
    assert found.alpha_node >= 1.1 * found.alpha_local


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"nodes": np.array([2.0, 1.0, 1.0])}, "1 replicas on 2 nodes"),
        ({"replicas": np.array([1.5, 1.0, 2.0])}, "expected whole numbers"),
        ({"step_time": np.full(3, np.nan)}, "no usable observation"),
        ({"pass_time": np.full(3, -1.0)}, "no usable observation"),
    ],
)
def test_steps_that_make_no_sense_are_refused(change: dict[str, object], sentence: str) -> None:
    """As by the fit to whole steps."""
    with pytest.raises(ValueError, match=sentence):
        fit_step_parts(steps_of(FEW)._replace(**change))  # type: ignore[arg-type]
