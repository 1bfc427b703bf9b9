"""Searches as bidders: what the policy sees of them, and what their trials get."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.classical.search_auctions import (
    SearchOracle,
    SearchPolicy,
    divide,
    maxmin_between_searches,
    search_of,
    themis_between_searches,
)
from goodalloc.solvers.policies.policy import Decision
from tests.support.policies.policy_rounds import active, round_of
from tests.support.replay.replays import finish

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes, Policy, Round


@dataclass
class Fixed:
    """Gives every search the same placement, and keeps what it is shown."""

    placements: dict[str, Placement]
    batch_sizes: BatchSizes = "requested"
    seen: list[Round] = field(default_factory=list)

    def decide(self, round_: Round) -> Decision:
        """The placements."""
        self.seen.append(round_)
        return Decision(self.placements)


def test_a_trial_belongs_to_its_search_and_another_job_to_itself() -> None:
    """By its name."""
    assert search_of("ncf-1-trial-10") == "ncf-1"
    assert search_of("ncf-1") == "ncf-1"


def test_a_search_has_the_steps_of_all_trials_and_serves_them_in_order() -> None:
    """Two at four GPUs each, the third on the rest; a step takes a second on one GPU."""
    trials = tuple(active(f"a-trial-{n}", 4, steps=100.0 * (n + 1)) for n in range(3))
    oracle = SearchOracle(trials)
    assert oracle.remaining_steps() == pytest.approx(600.0)
    one, four = (trials[0].oracle.seconds_per_step(gpus, 4) for gpus in (1, 4))
    assert oracle.seconds_per_step(4, 4) == pytest.approx(four)
    assert oracle.seconds_per_step(9, 4) == pytest.approx(1.0 / (2.0 / four + 1.0 / one))
    assert oracle.seconds_per_step(40, 4) == pytest.approx(four / 3.0)
    assert oracle.beside(oracle, 4, 4) is None


def test_the_policy_sees_a_search_as_one_job_and_its_trials_get_the_gpus() -> None:
    """In order, up to what each requests; the search keeps what its last trials leave idle."""
    policy = Fixed({"a": ((0, 4), (1, 2)), "b": ((1, 1),)})
    between = SearchPolicy(policy)
    jobs = (active("a-trial-0", 2), active("b", 1), active("a-trial-1", 3), active("a-trial-2", 2))
    decided = between.decide(round_of(*jobs)).placements
    assert [job.name for job in policy.seen[0].jobs] == ["a", "b"]
    assert policy.seen[0].jobs[0].replicas == 7
    assert {name: sum(gpus for _, gpus in pairs) for name, pairs in decided.items()} == {
        "a-trial-0": 2,
        "a-trial-1": 3,
        "a-trial-2": 1,
        "b": 1,
    }
    between.decide(round_of(active("a-trial-2", 2, placement=decided["a-trial-2"]), active("b", 1)))
    (search, _) = policy.seen[1].jobs
    assert search.placement == ((0, 4), (1, 2))
    assert search.replicas == 6
    assert search.splits >= 6


def test_nodes_that_are_gone_take_the_gpus_of_a_search_with_them() -> None:
    """Then it holds none."""
    policy = Fixed({"a": ((1, 2),)})
    between = SearchPolicy(policy)
    between.decide(round_of(active("a-trial-0", 2), nodes=2))
    policy.placements = {"a": ((0, 2),)}
    between.decide(round_of(active("a-trial-0", 2), nodes=1))
    assert policy.seen[1].jobs[0].placement == ()


@given(st.data())
def test_trials_get_no_more_than_the_search_has_and_running_ones_stay(data: st.DataObject) -> None:
    """None more than it requests, and no GPU is idle while a trial could use it."""
    sizes = data.draw(st.lists(st.integers(0, 4), min_size=3, max_size=3))
    placement = tuple((node, gpus) for node, gpus in enumerate(sizes) if gpus)
    asked = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=5))
    running = data.draw(st.integers(0, 2))
    trials = [
        active(f"a-trial-{n}", gpus, placement=((running, 1),) if n == 0 else ())
        for n, gpus in enumerate(asked)
    ]
    found = divide(trials, placement)
    for node, gpus in enumerate(sizes):
        assert sum(dict(pairs).get(node, 0) for pairs in found.values()) <= gpus
    given_gpus = {name: sum(gpus for _, gpus in pairs) for name, pairs in found.items()}
    for trial in trials:
        assert given_gpus.get(trial.name, 0) <= trial.replicas
    assert sum(given_gpus.values()) == min(sum(sizes), sum(asked))
    if sizes[running] > 0:
        assert dict(found["a-trial-0"])[running] >= 1


@pytest.mark.parametrize("make", [themis_between_searches, maxmin_between_searches])
def test_all_trials_of_a_replay_end(make: Callable[[], SearchPolicy]) -> None:
    """On a cluster that is too small for all of them at once, at their requested batch sizes."""
    jobs = [Submission(f"ncf-0-trial-{n}", 0, "ncf", 1, 32768) for n in range(6)]
    jobs += [Submission(f"cifar10-1-trial-{n}", 120, "cifar10", 2, 512) for n in range(3)]
    policy: Policy = make()
    simulator = finish(
        Simulator(jobs, profiled_applications(), policy, Setting(Cluster.uniform(1, 4)))
    )
    assert all(job.completion for job in simulator.jobs)
    assert {job.batch_sizes for job in simulator.jobs} == {"requested"}
