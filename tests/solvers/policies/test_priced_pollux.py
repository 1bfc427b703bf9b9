"""Pollux by one price of a GPU: as fit as the exact policy, with a bound that holds."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.mode import Mode, resources
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.policies.policy_table import PolicyOptions
from goodalloc.solvers.policies.pollux import Pollux
from goodalloc.solvers.policies.priced_pollux import PricedPollux
from goodalloc.solvers.policies.registry import make_policy
from tests.support.policies.policy_rounds import MODEL, active, round_of

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import ActiveJob, Decision, Round

#: Jobs: GPUs in use on the node of their own, most GPUs explored, and submission; the model may be
#: unknown yet, or faster at synchronising.
drawn_jobs = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 16), st.integers(0, 3600), st.integers(0, 2)),
    min_size=1,
    max_size=7,
)


def job_of(index: int, gpus: int, explored: int, submission: int, kind: int) -> ActiveJob:
    """A job that runs on the node of its number, or waits."""
    quick = GoodputModel(MODEL.throughput._replace(alpha_node=0.01), MODEL.gradient, MODEL.batch)
    job = active(
        f"job-{index}",
        placement=((index, gpus),) if gpus else (),
        explored=explored,
        submission=submission,
    )
    return replace(job, model=lambda: (None, MODEL, quick)[kind])


def allocation_of(round_: Round, decision: Decision) -> Allocation:
    """The placements of a decision, in the order of the jobs."""
    placements = [decision.placements.get(job.name, ()) for job in round_.jobs]
    return Allocation.from_placements(placements, round_.cluster.num_nodes)


@pytest.mark.parametrize("power", [1.0, -1.0, float("-inf")])
@settings(max_examples=12, deadline=None)
@given(drawn=drawn_jobs)
def test_its_decisions_keep_the_rules_and_its_bound_holds_for_the_optimum(
    power: float, drawn: list[tuple[int, int, int, int]]
) -> None:
    """Fitness of the decision at most the optimum, and that at most the bound."""
    round_ = round_of(*(job_of(index, *one) for index, one in enumerate(drawn)), nodes=7)
    rules = OSDI21.replace(power=power)
    decision, exact = (
        policy.decide(round_) for policy in (PricedPollux(rules), Pollux(rules=rules))
    )
    instance = round_.instance(rules)
    found = allocation_of(round_, decision)
    best = fitness(instance, allocation_of(round_, exact))
    assert not violations(instance, found)
    assert decision.bound is not None
    assert fitness(instance, found) <= best * (1 + 1e-9)
    assert best <= decision.bound * (1 + 1e-9)


def test_it_is_optimal_where_gpus_pack_well() -> None:
    """One GPU after the other, on nodes without jobs: nothing is lost to packing."""
    round_ = round_of(*(active(f"job-{index}") for index in range(6)))
    decision = PricedPollux().decide(round_)
    instance = round_.instance(OSDI21)
    reached = fitness(instance, allocation_of(round_, decision))
    assert reached == pytest.approx(decision.bound, rel=1e-9)


def test_it_is_known_by_name_and_takes_the_rules() -> None:
    """Like the exact policy."""
    rules = OSDI21.replace(power=1.0)
    assert make_policy("pollux-priced", PolicyOptions(rules)) == PricedPollux(rules)


def test_jobs_with_modes_are_refused_in_a_sentence() -> None:
    """One price of a GPU says nothing of cores."""
    modes = (Mode("one core", MODEL), Mode("two cores", MODEL, resources=resources({"cpu": 2})))
    round_ = round_of(replace(active("a"), modes=lambda: modes))
    cluster = Cluster((NodeGroup("node", 2, 4, resources=resources({"cpu": 16})),))
    round_ = replace(round_, cluster=cluster)
    with pytest.raises(ValueError, match="Job 'a': modes is of its own; expected none"):
        PricedPollux().decide(round_)


def test_powers_without_costs_in_float64_are_refused_before_any_round() -> None:
    """The greatest is that of rounds in columns."""
    with pytest.raises(ValueError, match="power is 50; expected at most 40"):
        make_policy("pollux-priced", PolicyOptions(OSDI21.replace(power=50.0)))
