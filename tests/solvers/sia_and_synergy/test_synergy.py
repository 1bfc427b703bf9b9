"""The heuristics of Synergy: by hand on small rounds, feasible on any, never above the optimum."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.rounds.synergy import synergy_round
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import Mode, SpeedupTable
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.synergy_objective import FLOOR
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.base import find_solver
from goodalloc.solvers.sia_and_synergy.synergy import solve_synergy_tune
from tests.support.policies.synergy import ROUNDS, RULES, equipped, nodes, outcome
from tests.support.random_instances import random_instance, random_mode_instance

HEURISTICS = ("synergy_tune", "synergy_proportional", "synergy_greedy")
HUNGRY = ((3.0, 1.0), (6.0, 1.8))
MODEST = ((1.0, 1.0),)


def test_tune_places_ideal_modes_on_the_fullest_node_that_holds_them() -> None:
    """The largest first, and the small one beside it where its cores are left."""
    jobs = (equipped("small", 1, *MODEST), equipped("big", 1, *HUNGRY))
    found = outcome(Instance(nodes(2), jobs, RULES), "synergy_tune")
    assert found == {"big": ("6", ((0, 1),)), "small": ("1", ((0, 1),))}


def test_tune_switches_a_job_that_does_not_fit_to_its_proportional_mode() -> None:
    """Step 2: two hungry jobs take the 12 cores but for 3, so the third gets its share."""
    jobs = (
        equipped("first", 1, (3.0, 1.0), (5.0, 1.8)),
        equipped("second", 1, (3.0, 1.0), (4.0, 1.5)),
        equipped("third", 1, (3.0, 1.0), (3.5, 1.2)),
    )
    found = outcome(Instance(nodes(1), jobs, RULES), "synergy_tune")
    assert {name: mode for name, (mode, _) in found.items()} == {
        "first": "5",
        "second": "4",
        "third": "3",
    }


def test_tune_takes_back_what_others_hold_above_their_share() -> None:
    """Steps 3 and 4: the job with most cores a GPU gives way, and no more jobs than needed."""
    jobs = (
        equipped("most", 1, (3.0, 1.0), (7.0, 1.8)),
        equipped("more", 1, (3.0, 1.0), (5.0, 1.7)),
        equipped("late", 1, (2.0, 1.0)),
    )
    found = outcome(Instance(nodes(1), jobs, RULES), "synergy_tune")
    assert {name: mode for name, (mode, _) in found.items()} == {
        "most": "3",
        "more": "5",
        "late": "2",
    }


def test_tune_takes_first_from_jobs_on_the_fewest_nodes() -> None:
    """A job on one node gives way before one on two that has more cores a GPU."""
    cluster = Cluster(
        (
            NodeGroup("big", 1, 5, resources=(("cpu", 15.0),)),
            NodeGroup("small", 1, 4, resources=(("cpu", 15.0),)),
        )
    )
    jobs = (
        equipped("wide", 6, (3.0, 1.0), (3.75, 1.5)),
        equipped("near", 2, (3.0, 1.0), (3.5, 1.5)),
        equipped("late", 1, (1.25, 1.0)),
    )
    assert outcome(Instance(cluster, jobs, RULES), "synergy_tune") == {
        "wide": ("3.75", ((0, 2), (1, 4))),
        "near": ("3", ((0, 2),)),
        "late": ("1.25", ((0, 1),)),
    }


def test_a_job_that_takes_from_others_in_vain_stays_idle_and_gives_back() -> None:
    """A pinned job holds the cores: the published code would end the process here."""
    pinned = equipped("pinned", 1, (10.0, 1.0), placement=((0, 1),), mode="10", preemptible=False)
    jobs = (pinned, equipped("first", 1, (1.0, 1.0), (1.5, 1.4)), equipped("late", 1, (3.0, 1.0)))
    instance = Instance(nodes(1), jobs, RULES)
    assert outcome(instance, "synergy_tune") == {
        "pinned": ("10", ((0, 1),)),
        "first": ("1.5", ((0, 1),)),
    }


def test_tune_spreads_a_job_that_no_node_can_hold() -> None:
    """Over the nodes with the fewest free GPUs, as many replicas on each as fit."""
    jobs = (equipped("a", 3, *MODEST), equipped("b", 3, *MODEST), equipped("c", 2, *MODEST))
    found = outcome(Instance(nodes(2), jobs, RULES), "synergy_tune")
    assert found["c"] == ("1", ((0, 1), (1, 1)))
    alone = Instance(nodes(2), jobs, RULES.replace(max_nodes_per_job=1))
    assert "c" not in outcome(alone, "synergy_tune")


def test_a_job_is_spread_over_no_more_nodes_than_it_may() -> None:
    """Here the fullest nodes are passed over where they would make it too many."""
    held = [equipped(f"held{n}", 3 if n < 2 else 1, *MODEST) for n in range(4)]
    held = [
        job.replace(placement=((n, job.max_replicas),), mode="1", preemptible=False)
        for n, job in enumerate(held)
    ]
    jobs = (*held, equipped("wide", 5, *MODEST))
    wide = {
        most: outcome(
            Instance(nodes(4), jobs, RULES.replace(max_nodes_per_job=most)), "synergy_tune"
        )["wide"][1]
        for most in (2, 3, 4)
    }
    assert wide == {2: ((2, 3), (3, 2)), 3: ((0, 1), (1, 1), (2, 3)), 4: ((0, 1), (1, 1), (2, 3))}


def test_interference_is_avoided() -> None:
    """Two jobs that must span nodes do not share one."""
    jobs = (equipped("a", 6, *MODEST), equipped("b", 6, *MODEST))
    cluster = nodes(3)
    free = outcome(Instance(cluster, jobs, RULES), "synergy_tune")
    assert set(free) == {"a", "b"}
    rules = RULES.replace(interference_avoidance=True)
    assert set(outcome(Instance(cluster, jobs, rules), "synergy_tune")) == {"a"}


def test_greedy_takes_ideal_modes_in_order_and_skips_what_does_not_fit() -> None:
    """The second job would fit in its proportional mode, which greedy does not try."""
    jobs = (
        equipped("first", 1, (3.0, 1.0), (8.0, 1.8)),
        equipped("second", 1, *HUNGRY),
        equipped("third", 2, (2.0, 1.0)),
    )
    found = outcome(Instance(nodes(1), jobs, RULES), "synergy_greedy")
    assert found == {"first": ("8", ((0, 1),)), "third": ("2", ((0, 2),))}


def test_an_ideal_mode_fits_on_as_few_nodes_as_the_gpus_alone() -> None:
    """Four GPUs fill a node, so what is beside them is at most their share of it."""
    jobs = (equipped("full", 4, *HUNGRY), equipped("half", 2, *HUNGRY))
    found = outcome(Instance(nodes(2), jobs, RULES), "synergy_tune")
    assert {name: mode for name, (mode, _) in found.items()} == {"full": "3", "half": "6"}


def test_types_of_gpu_are_honoured() -> None:
    """A mode for another type of GPU is worth nothing here; each type has a share of its own."""
    cluster = Cluster(
        (
            NodeGroup("old", 1, 4, "t4", (("cpu", 4.0),)),
            NodeGroup("new", 1, 2, "a100", (("cpu", 8.0),)),
        )
    )
    fast = Mode("fast", SpeedupTable((3.0,), ()), "a100", (("cpu", 4.0),))
    slow = Mode("slow", SpeedupTable((1.0,), ()), "t4", (("cpu", 1.0),))
    jobs = tuple(
        Job(name, min_replicas=1, max_replicas=1, modes=(slow, fast)) for name in ("a", "b")
    )
    instance = Instance(cluster, jobs, RULES)
    for solver in HEURISTICS:
        assert {at for _, ((at, _),) in outcome(instance, solver).values()} == {1}


def test_an_elastic_job_asks_for_the_most_that_it_may_have() -> None:
    """All or nothing; one that asks for more than there is stays idle."""
    jobs = (
        Job("most", SpeedupTable((1.0, 2.0, 3.0), ()), max_replicas=3),
        Job("never", SpeedupTable((1.0,), ()), min_replicas=9, max_replicas=9),
    )
    instance = Instance(nodes(2), jobs, RULES)
    for solver in HEURISTICS:
        assert outcome(instance, solver) == {"most": ("gpu", ((0, 3),))}


@pytest.mark.parametrize("solver", HEURISTICS)
@given(seed=st.integers(0, 10**6))
def test_allocations_are_feasible_on_any_round(solver: str, seed: int) -> None:
    """With and without modes, whatever the rules; the same twice."""
    for draw in (random_instance, random_mode_instance):
        instance = draw(seed)
        found = find_solver(solver)(instance).allocation
        assert violations(instance, found) == ()
        assert found == find_solver(solver)(instance).allocation


@pytest.mark.parametrize("solver", HEURISTICS)
def test_no_heuristic_beats_the_optimum(solver: str) -> None:
    """Against every allocation, on tiny rounds of any power."""
    for seed in range(60):
        instance = random_mode_instance(seed)
        best = solve_brute_force(instance, break_ties=False)
        result = solve(instance, solver)
        assert result.fitness <= best.bound * (1 + 1e-12)
        assert result.bound >= best.bound * (1 - 1e-9)


@given(instance=ROUNDS, order=st.sampled_from(["demand", "gpus", "queue"]))
def test_tune_runs_every_job_of_a_round_no_slower_than_proportionally(
    instance: Instance, order: str
) -> None:
    """Where the GPUs suffice, moving is free and any servers may be spanned, step 4 succeeds."""
    share = find_solver("synergy_proportional")(instance).allocation
    tuned = find_solver("synergy_tune")(instance, order=order).allocation
    every = [job.max_replicas for job in instance.jobs]
    assert share.job_replicas.tolist() == tuned.job_replicas.tolist() == every
    assert fitness(instance, share) == pytest.approx(1.0 + FLOOR, rel=1e-12)
    assert fitness(instance, tuned) >= fitness(instance, share) * (1 - 1e-12)


def test_an_unknown_order_is_refused() -> None:
    """One sentence."""
    with pytest.raises(ValueError, match="order is 'size'; expected one of demand, gpus, queue"):
        solve_synergy_tune(synergy_round(0, 1), order="size")  # type: ignore[arg-type]


def test_a_large_round_takes_a_moment() -> None:
    """512 jobs on 64 servers, all placed."""
    instance = synergy_round(0, 64)
    found = solve_synergy_tune(instance).allocation
    assert isinstance(found, Allocation)
    assert np.count_nonzero(found.job_replicas) == 512


def test_jobs_that_are_kept_stay_feasible_whatever_the_rules_have_come_to() -> None:
    """On random rounds in which some placements have become impossible; many stay in place."""
    kept = {True: 0, False: 0}
    for seed in range(200):
        instance = random_mode_instance(seed)
        held = instance.current.job_replicas > 0
        for keep in kept:
            allocation = solve_synergy_tune(instance, keep=keep).allocation
            assert allocation is not None
            assert not violations(instance, allocation), instance.name
            kept[keep] += int((held & allocation.unchanged(instance.current)).sum())
    assert kept[True] > 2 * kept[False]
