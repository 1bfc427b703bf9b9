"""Gavel's rounds and policy: shares are approached, gangs stay whole, nobody moves for nothing."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.models.gavel.share_goal import max_min
from goodalloc.models.gavel.time_sharing import TimeSharing
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.shared_gpus.shared_speed import FAIR
from goodalloc.solvers.gavel.levels import Levels
from goodalloc.solvers.gavel.pair_rates import PairRates, shares_of_speed, with_gainful_pairs
from goodalloc.solvers.gavel.policy import GOALS, Gavel, time_sharing
from goodalloc.solvers.gavel.share_rounds import Line, ShareRounds, place_lines, place_on_types
from goodalloc.solvers.gavel.time_shares import best_shares
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import Decision, Round
from goodalloc.solvers.shared_gpus.paired_shares import PairedShares
from tests.support.memories import recalled
from tests.support.policies.gavel_rounds import CLUSTER, decided, drawn_jobs, job, play

if TYPE_CHECKING:
    from goodalloc.solvers.gavel.policy import GavelGoal
    from goodalloc.solvers.shared_gpus.paired_shares import Way


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(2, 8), st.integers(1, 5))
def test_lines_approach_shares_that_rounds_can_have(seed: int, count: int, mixed: int) -> None:
    """Shares are means of some rounds of jobs alone and in pairs on two types of GPU."""
    random, names = np.random.default_rng(seed), [f"job{index}" for index in range(count)]
    gpus, replicas = {"k80": 2, "v100": 1}, dict.fromkeys(names, 1)
    shares = defaultdict[tuple[Line, str], float](float)
    for _ in range(mixed):
        waiting = random.permutation(names).tolist()
        for kind in ("k80", "k80", "v100"):
            line = tuple(sorted(waiting.pop() for _ in range(random.integers(1, 3)) if waiting))
            if line:
                shares[line, kind] += 1.0 / mixed
    rounds, history = ShareRounds(), []
    for _ in range(60 * mixed):
        chosen = rounds.choose(shares, replicas, gpus)
        running = [name for line in chosen for name in line]
        assert len(running) == len(set(running)), "no job twice"
        assert all(list(chosen.values()).count(kind) <= count for kind, count in gpus.items())
        history += list(chosen.items())
        rounds.passed(chosen, 360.0)
    had = Counter(history)
    assert had.keys() <= shares.keys(), "only lines that have a share run"
    for line, share in shares.items():
        assert had[line] / (60 * mixed) >= 0.75 * share - 0.02


@settings(max_examples=8)
@given(st.integers(0, 10**6), st.integers(2, 30))
def test_packed_jobs_run_in_pairs_and_no_gpu_has_three(seed: int, count: int) -> None:
    """Jobs of one GPU that keep 0.4 to 0.9 of their speed beside others; each has its time.

    But for what three that are to be paired with each other cannot have: see `GAVEL.md`.
    """
    jobs = drawn_jobs(seed, count, gangs=False, keeps=(0.4, 0.9))
    policy, names, rounds = Gavel(packed=True), [one.name for one in jobs], 40
    gpus = {"k80": 12, "p100": 1, "v100": 8}
    shares = policy.new_shares(Round(0, CLUSTER, jobs), gpus, dict.fromkeys(names, 1))
    time_of = Counter[str]()
    for index in range(rounds):
        round_ = Round(index * 360, CLUSTER, jobs)
        decision = policy.decide(round_)
        check_decision(round_, decision)
        on_node = Counter(node for ((node, _),) in decision.placements.values())
        assert all(on_node[node] <= 2 * gpus for node, gpus in enumerate(CLUSTER.node_gpus))
        assert len(set(decision.beside.values())) == len(decision.beside), "one guest each"
        time_of.update(list(decision.placements))
        jobs = decided(jobs, decision)
    for name in names:
        whole = sum(share for (line, _), share in shares.items() if name in line)
        assert time_of[name] / rounds >= 0.6 * whole - 0.1


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(2, 7))
def test_pairs_that_are_left_out_cost_nothing(seed: int, count: int) -> None:
    """Max-min fairness of all pairs is that of those which gain; without any it is no larger."""
    round_ = Round(0, CLUSTER, drawn_jobs(seed, count, gangs=False, keeps=(0.2, 0.9)))
    gpus, replicas = {"k80": 1, "p100": 1, "v100": 1}, {one.name: 1 for one in round_.jobs}
    alone, rates = time_sharing(round_, gpus, replicas), PairRates()
    known = rates.among(round_, gpus, replicas)
    assert (rates.among(round_, gpus, replicas) == known).all()
    pairs = np.stack(np.triu_indices(count, 1), axis=1)
    every = TimeSharing(
        alone.names,
        alone.rate,
        alone.gpus,
        alone.replicas,
        pairs,
        known,
        cluster_gpus=alone.cluster_gpus,
    )
    some = with_gainful_pairs(alone, known)
    speeds = shares_of_speed(alone.rate, known).sum(axis=2)
    assert len(some.pairs) == (speeds > 1.0).any(axis=1).sum()
    value = {one: best_shares(one, max_min(one)).value for one in (alone, every, some)}
    assert value[some] == pytest.approx(value[every], rel=1e-6)
    assert value[alone] <= value[some] * (1 + 1e-6)


def test_two_that_part_do_not_both_keep_their_gpus() -> None:
    """The host moves if its guest stays; a job joins one that has GPUs of the type."""
    jobs = tuple(job(name, 1, 1.0, {}) for name in "abc")
    replicas = dict.fromkeys("abc", 1)
    a, b, c = jobs
    pair = (replace(a, placement=((0, 1),)), replace(b, placement=((0, 1),), host="a"), c)
    round_ = Round(0, CLUSTER, pair)
    apart = place_lines(round_, {("a",): "v100", ("b",): "v100"}, {**replicas, "a": 1})
    assert apart.placements["a"] == ((0, 1),)
    check_decision(round_, apart)
    stays = place_lines(round_, {("a",): "k80", ("b", "c"): "v100"}, replicas)
    assert stays.placements["b"] == stays.placements["c"] == ((0, 1),)
    assert (stays.placements["a"][0][0], stays.beside) == (2, {"c": "b"})
    joined = place_lines(
        Round(0, CLUSTER, (a, replace(b, placement=((1, 1),)), c)), {("a", "b"): "v100"}, replicas
    )
    assert joined == Decision({"b": ((1, 1),), "a": ((1, 1),)}, beside={"a": "b"})


def test_a_pair_goes_on_within_a_round_and_alone_if_one_is_gone() -> None:
    """Both were chosen together, as neither loses much."""
    cluster = Cluster((NodeGroup("a", 1, 1, "v100"),))
    jobs = tuple(job(name, 1, 1e4, {"v100": 1.0}, 0.9) for name in "ab")
    policy = Gavel(packed=True)
    memory = Memory(policy)
    first = policy.decide(Round(0, cluster, jobs))
    assert (first.placements, first.beside) == ({"a": ((0, 1),), "b": ((0, 1),)}, {"b": "a"})
    running = decided(jobs, first)
    assert policy.decide(Round(60, cluster, running)) == first
    left = (replace(running[1], host=""),)
    assert policy.decide(Round(120, cluster, left)) == Decision({"b": ((0, 1),)}, beside={})
    again = recalled(memory, Gavel(packed=True))
    assert again.decide(Round(400, cluster, left)).placements == {"b": ((0, 1),)}
    assert FAIR in (policy.sharing, None)
    assert Gavel().sharing is None


@pytest.mark.parametrize("way", ["random", "busy", "matching"])
def test_equal_shares_of_pairs_serve_everybody(way: Way) -> None:
    """Pairs only while jobs do not fit; those that gain nothing are tried once."""
    jobs = tuple(replace(one, busy=0.5) for one in drawn_jobs(5, 30, gangs=False, keeps=(0.3, 0.9)))
    policy = PairedShares(way)
    memory = Memory(policy)
    history = play(policy, jobs, 40)
    assert {name for found in history for name in found} == {one.name for one in jobs}
    assert all(len(found) >= 21 for found in history), "all GPUs are in use"
    few = PairedShares(way, everybody=True).decide(Round(0, CLUSTER, jobs[:21]))
    assert not few.beside
    every = PairedShares(way, everybody=True).decide(Round(0, CLUSTER, jobs))
    assert len(every.beside) >= 5
    assert recalled(memory, PairedShares(way)) == policy


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_what_jobs_receive_approaches_their_shares(seed: int, count: int, gangs: bool) -> None:
    """Where none is a gang: those have shares that may fit no round. No type is exceeded."""
    jobs = drawn_jobs(seed, count, gangs=gangs)
    gpus = {"k80": 12, "p100": 1, "v100": 8}
    replicas = {one.name: one.replicas for one in jobs}
    sharing = time_sharing(Round(0, CLUSTER, jobs), gpus, replicas)
    shares = best_shares(sharing, max_min(sharing)).shares
    assert shares is not None
    history = play(Gavel(), jobs, 100)
    for row, one in enumerate(jobs):
        had = Counter(found.get(one.name) for found in history)
        total = sum(had[kind] for kind in gpus) / len(history)
        assert gangs or total >= shares[row].sum() - 0.1, (one.name, had, shares[row])
    for found in history:
        used = Counter[str]()
        for name, kind in found.items():
            used[kind] += replicas[name]
        assert all(used[kind] <= count for kind, count in gpus.items())


def test_jobs_stay_while_a_round_lasts_and_where_their_type_stays() -> None:
    """A decision within a round keeps what is there; the next one moves nobody without need."""
    jobs = drawn_jobs(3, 4)
    policy = Gavel()
    memory = Memory(policy)
    first = policy.decide(Round(0, CLUSTER, jobs)).placements
    placed = tuple(replace(one, placement=first.get(one.name, ())) for one in jobs)
    newcomer = job("new", 1, 1e3, {"v100": 1.0, "k80": 0.5, "p100": 0.7})
    assert policy.decide(Round(60, CLUSTER, (*placed, newcomer))).placements == first
    later = policy.decide(Round(360, CLUSTER, (*placed, newcomer))).placements
    assert "new" in later
    assert recalled(memory, Gavel()) == policy
    alone = Gavel()
    (one,) = drawn_jobs(1, 1)
    kept = alone.decide(Round(0, CLUSTER, (one,))).placements
    one = replace(one, placement=kept[one.name])
    assert alone.decide(Round(360, CLUSTER, (one,))).placements == kept


@pytest.mark.parametrize("goal", list(GOALS))
def test_every_goal_serves_everybody_in_time(goal: GavelGoal) -> None:
    """All but the sums of throughputs, which may leave somebody out."""
    jobs = drawn_jobs(7, 9)
    history = play(Gavel(goal), jobs, 60)
    served = {name for found in history for name in found}
    assert served == {one.name for one in jobs} or goal in {"throughput", "steps"}
    assert served


def test_who_gains_most_from_fast_gpus_gets_them_unless_types_count_as_equal() -> None:
    """Two jobs, one GPU of each of two types: one is as fast on both."""
    cluster = Cluster((NodeGroup("a", 1, 1, "v100"), NodeGroup("b", 1, 1, "k80")))
    jobs = (
        job("even", 1, 1e4, {"v100": 1.0, "k80": 1.0}),
        job("picky", 1, 1e4, {"v100": 1.0, "k80": 0.1}),
    )
    gpus, replicas = {"v100": 1, "k80": 1}, {"even": 1, "picky": 1}
    seen = time_sharing(Round(0, cluster, jobs), gpus, replicas)
    blind = time_sharing(Round(0, cluster, jobs), gpus, replicas, blind=True)
    assert seen.rate.tolist() == [[1.0, 1.0], [1.0, 0.1]]
    assert blind.rate.tolist() == [[1.0, 1.0], [1.0, 1.0]]
    assert isinstance(blind, TimeSharing)
    decision = Gavel("completion").decide(Round(0, cluster, jobs))
    assert decision.placements == {"picky": ((0, 1),), "even": ((1, 1),)}


def test_rounds_serve_those_first_who_lack_most() -> None:
    """Three equal shares of two GPUs: everybody sits out every third round."""
    rounds = ShareRounds()
    shares: dict[tuple[Line, str], float] = {((name,), "v100"): 2 / 3 for name in "abc"}
    history = []
    for _ in range(9):
        chosen = rounds.choose(shares, dict.fromkeys("abc", 1), {"v100": 2})
        history.append(set(chosen))
        rounds.passed(chosen, 360.0)
    assert Counter(line for found in history for (line,) in found) == {"a": 6, "b": 6, "c": 6}
    rounds.begin()
    assert (rounds.received, rounds.elapsed) == ({}, 0.0)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.integers(1, 40), st.booleans())
def test_no_spare_gpu_waits_for_nobody(seed: int, count: int, lifelong: bool) -> None:
    """No job that waits fits on what a type has left, whatever shares say."""
    jobs = drawn_jobs(seed, count)
    replicas = {one.name: one.replicas for one in jobs}
    history = play(Gavel("steps", spare=True, lifelong=lifelong), jobs, 5)
    for found in history:
        left = Counter({"k80": 12, "p100": 1, "v100": 8})
        for name, kind in found.items():
            left[kind] -= replicas[name]
        waits = [replicas[one.name] for one in jobs if one.name not in found]
        assert min(waits, default=math.inf) > max(left.values())


def test_what_was_had_counts_from_the_shares_or_for_life() -> None:
    """New shares make a clean start, or do not, and then who had more waits."""
    lines: list[Line] = [("a",), ("b",)]
    shares = {(line, "v100"): 0.5 for line in lines}
    for lifelong, then in ((False, lines[0]), (True, lines[1])):
        rounds = ShareRounds(lifelong=lifelong)
        assert rounds.choose(shares, {"a": 1, "b": 1}, {"v100": 1}) == {lines[0]: "v100"}
        rounds.passed({lines[0]: "v100"}, 360.0)
        rounds.begin()
        assert rounds.choose(shares, {"a": 1, "b": 1}, {"v100": 1}) == {then: "v100"}


def test_gangs_are_placed_whole_where_they_fit_best() -> None:
    """The largest first; a job that keeps its type keeps its nodes."""
    chosen = {"a": "v100", "b": "v100", "c": "k80", "d": "k80"}
    replicas = {"a": 1, "b": 4, "c": 8, "d": 3}
    found = place_on_types(CLUSTER, chosen, replicas, {"a": ((1, 1),)})
    assert found["a"] == ((1, 1),)
    assert found["b"] == ((0, 4),)
    assert sorted(gpus for _, gpus in found["c"]) == [4, 4]
    assert len(found["d"]) == 1


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"goal": "best"}, "Gavel: goal is 'best'; expected one of"),
        ({"round_seconds": 0}, "Gavel: round_seconds is 0; expected a finite number above 0"),
        ({"round_seconds": math.nan}, "Gavel: round_seconds is nan"),
        ({"spare": 1}, "Gavel: spare is 1; expected"),
        ({"lifelong": None}, "Gavel: lifelong is null; expected"),
        ({"packed": 1}, "Gavel: packed is 1; expected true or false"),
        ({"packed": True, "blind": True}, "Gavel: packed is true and blind is true"),
        ({"packed": True, "goal": Levels()}, "Gavel: packed is true and the goal is a rule"),
    ],
)
def test_a_policy_that_makes_no_sense_is_refused(options: dict[str, Any], sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        Gavel(**options)


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"way": "best"}, "Pairs: way is 'best'; expected one of none, random, busy, matching"),
        ({"everybody": 1}, "Pairs: everybody is 1; expected true or false"),
        ({"seed": -1}, "Pairs: seed is -1"),
        ({"round_seconds": 0}, "PairedShares: round_seconds is 0"),
    ],
)
def test_pairs_that_make_no_sense_are_refused(options: dict[str, Any], sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        PairedShares(**options)
