"""Gavel's water-filling and cost as policies: entities by weight, promises exactly, deadlines."""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.models.gavel.share_goal import Gain
from goodalloc.models.gavel.time_sharing import TimeSharing, largest_rates, rates
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.gavel import cost as gavel_cost
from goodalloc.solvers.gavel import share_choices
from goodalloc.solvers.gavel.cost import PRICES, PerDollar
from goodalloc.solvers.gavel.levels import Levels, of_application
from goodalloc.solvers.gavel.policy import Gavel, time_sharing
from goodalloc.solvers.gavel.share_choices import most_promises
from goodalloc.solvers.policies.policy import Round
from tests.support.memories import recalled
from tests.support.policies.gavel_rounds import drawn_jobs, job, play
from tests.support.policies.time_shares import ONE, by_linprog, drawn

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.solvers.policies.policy import ActiveJob

#: A fast and dear type and a slow and cheap one.
TWO = Cluster((NodeGroup("a", 1, 1, "v100"), NodeGroup("b", 1, 1, "k80")))


def shares_of(rule: Any, cluster: Cluster, jobs: tuple[ActiveJob, ...], time: int = 0) -> Any:
    """Of the jobs of a round, by type in alphabetical order, and what they share."""
    round_ = Round(time, cluster, jobs)
    replicas = {one.name: one.replicas for one in jobs}
    sharing = time_sharing(round_, dict(cluster.type_gpus), replicas)
    found = rule(sharing, round_)
    assert found is not None
    return found, sharing


@settings(max_examples=25)
@given(st.integers(0, 10**6), st.integers(1, 4))
def test_the_most_promises_that_are_kept_are_those_of_all_subsets(seed: int, jobs: int) -> None:
    """Tried one by one with another solver; those kept can be kept together."""
    sharing, random = (
        drawn(seed, jobs, pairs=seed % 2 > 0, crowded=jobs),
        np.random.default_rng(seed),
    )
    sharing = TimeSharing(
        sharing.names, sharing.rate, [1, 1, 1], None, sharing.pairs, sharing.pair_rate
    )
    promised = largest_rates(sharing) * random.choice([0.0, 0.4, 0.9, 1.5], jobs)
    found = most_promises(sharing, promised)
    nothing = Gain(np.zeros((sharing.num_lines, sharing.num_types)))

    def together(kept: Any) -> bool:
        rounding = 1.0 - 1e-5
        return math.isfinite(by_linprog(sharing, nothing, promised * np.array(kept) * rounding))

    able = [kept for kept in itertools.product((0, 1), repeat=jobs) if together(kept)]
    most = max(int((np.array(kept) * (promised > 0)).sum()) for kept in able)
    assert found.status == "optimal"
    assert found.kept.sum() == found.bound == most
    assert together(found.kept)
    assert not found.kept[promised == 0].any()


def test_promises_that_nobody_can_keep_or_no_solver_decides_are_not_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Job b makes 3 steps per second at most; a limit of no time leaves the bound."""
    found = most_promises(ONE, [0.0, 3.1])
    assert (found.kept.tolist(), found.bound, found.status) == ([False, False], 0, "optimal")

    class Fails:
        def __init__(self, *_: Any) -> None:
            self.status = "unknown"

        def solve(self, **_: Any) -> None:
            raise share_choices.cp.SolverError

    monkeypatch.setattr(share_choices.cp, "Problem", Fails)
    found = most_promises(ONE, [1.0, 1.0], seconds=1.0)
    assert (found.kept.tolist(), found.bound, found.status) == ([False, False], 2, "unknown")


def test_a_dollar_buys_most_where_the_job_gains_least_unless_a_deadline_forbids_it() -> None:
    """A k80 is 5.5 times cheaper and the job 2 or 9 times slower there."""
    slow = job("slow", 1, 3600.0, {"v100": 1.0, "k80": 0.5})
    (found,), _ = shares_of(PerDollar(), TWO, (slow,))
    assert found == pytest.approx([1.0, 0.0], abs=1e-6)
    fast = job("fast", 1, 3600.0, {"v100": 1.0, "k80": 1 / 9})
    (found,), _ = shares_of(PerDollar(), TWO, (fast,))
    assert found == pytest.approx([0.0, 1.0], abs=1e-6)
    # 3600 steps in 4800 s take 0.75 steps per second: half of the time on either
    rule = PerDollar(deadlines={"slow": 5800.0}, margin=0.0)
    (found,), _ = shares_of(rule, TWO, (slow,), time=1000)
    assert found == pytest.approx([0.5, 0.5], abs=1e-5)
    late, _ = shares_of(PerDollar(deadlines={"slow": 3599.0}), TWO, (slow,))
    assert late[0] == pytest.approx([1.0, 0.0], abs=1e-6)
    # it can end in time but not by the margin: at once, then
    hurry, _ = shares_of(PerDollar(deadlines={"slow": 3700.0}), TWO, (slow,))
    assert hurry[0] == pytest.approx([0.0, 1.0], abs=1e-4)


def test_of_deadlines_that_cannot_all_be_met_the_fewest_are_dropped() -> None:
    """Three jobs want all of one fast GPU or most of it; as published all are dropped."""
    jobs = tuple(job(name, 1, 3600.0, {"v100": 1.0, "k80": 0.5}) for name in "abc")
    deadlines = {"a": 4000.0, "b": 4000.0, "c": 8000.0}
    found, sharing = shares_of(PerDollar(deadlines=deadlines, margin=0.0), TWO, jobs)
    met = rates(sharing, found) >= [0.9 * (1 - 1e-5), 0.9 * (1 - 1e-5), 0.45 * (1 - 1e-5)]
    assert met.tolist() in ([True, False, True], [False, True, True])
    published, sharing = shares_of(
        PerDollar(deadlines=deadlines, margin=0.0, dropped="all"), TWO, jobs
    )
    free, _ = shares_of(PerDollar(), TWO, jobs)
    assert published == pytest.approx(free)


def test_prices_make_no_difference_on_one_type_and_must_be_known_on_several() -> None:
    """Whatever the type is called."""
    waiting = job("a", 1, 100.0, {"x": 1.0, "y": 1.0})
    one = Cluster((NodeGroup("n", 1, 2, "x"),))
    (found,), _ = shares_of(PerDollar(), one, (waiting,))
    assert found == pytest.approx([1.0], abs=1e-6)
    two = Cluster((NodeGroup("n", 1, 2, "x"), NodeGroup("m", 1, 2, "y")))
    (found,), _ = shares_of(PerDollar({"x": 2.0, "y": 1.0}), two, (waiting,))
    assert found == pytest.approx([0.0, 1.0], abs=1e-6)
    with pytest.raises(ValueError, match=r"Cost: GPU type is 'x'; expected one of v100, p100, k80"):
        shares_of(PerDollar(), two, (waiting,))
    assert PRICES["v100"] > PRICES["p100"] > PRICES["k80"]


def test_entities_have_their_weights_in_rounds() -> None:
    """Four jobs of one application and two of another on one GPU, weights 1 and 3."""
    cluster = Cluster((NodeGroup("n", 1, 1, "v100"),))
    jobs = tuple(
        job(f"job{index}", 1, 1e5, {"v100": 1.0}, application="few" if index > 3 else "many")
        for index in range(6)
    )
    rule = Levels(of_application, {"few": 3.0})
    found, _ = shares_of(rule, cluster, jobs)
    assert found[:, 0] == pytest.approx([1 / 16] * 4 + [3 / 8] * 2, abs=1e-5)
    found, _ = shares_of(Levels(of_application, {"few": 3.0}, "fifo"), cluster, jobs)
    assert found[:, 0] == pytest.approx([1 / 4, 0, 0, 0, 3 / 4, 0], abs=1e-5)
    found, _ = shares_of(Levels(), cluster, jobs)
    assert found[:, 0] == pytest.approx([1 / 6] * 6, abs=1e-5)


def test_levels_above_the_least_are_filled() -> None:
    """Where one job runs on the slow type only, the other still has all of the fast one."""
    jobs = (
        job("stuck", 1, 1e5, {"v100": 0.0, "k80": 1.0}),
        job("free", 1, 1e5, {"v100": 1.0, "k80": 0.5}),
    )
    found, _ = shares_of(Levels(), TWO, jobs)
    assert found == pytest.approx(np.array([[1.0, 0.0], [0.0, 1.0]]), abs=1e-5)


@pytest.mark.parametrize("rule", [Levels(of_application), PerDollar(deadlines={"job1": 1e9})])
def test_rules_serve_everybody_and_survive_a_checkpoint(rule: Any) -> None:
    """In rounds, on few GPUs of three types; a copy decides the same."""
    jobs = drawn_jobs(7, 9)
    policy = Gavel(rule)
    again = recalled(Memory(policy), Gavel(rule))
    history = play(policy, jobs, 60)
    had = Counter(name for found in history for name in found)
    assert had
    assert set(had) == {one.name for one in jobs} or isinstance(rule, PerDollar)
    assert history == play(again, jobs, 60)


def test_what_no_solver_answers_leaves_equal_shares(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule that has no shares."""
    jobs = drawn_jobs(3, 4)
    history = play(Gavel(lambda *_: None), jobs, 20)
    assert {name for found in history for name in found} == {one.name for one in jobs}
    # where even the fewest that are dropped do not help, all are
    calls: list[Any] = []

    def nothing(sharing: TimeSharing, promised: Any, **_: Any) -> Any:
        calls.append(promised)
        kept = np.ones(sharing.num_jobs, dtype=bool)
        return share_choices.KeptPromises(kept, sharing.num_jobs, "feasible")

    monkeypatch.setattr(gavel_cost, "most_promises", nothing)
    pair = tuple(job(name, 1, 3600.0, {"v100": 1.0, "k80": 0.5}) for name in "ab")
    rule = PerDollar(deadlines={"a": 3700.0, "b": 3700.0}, margin=0.0)
    found, _ = shares_of(rule, TWO, pair)
    assert len(calls) == 1
    assert found == pytest.approx(shares_of(PerDollar(), TWO, pair)[0])


def test_the_examples_of_the_page_run(
    repository: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """They are whole programs: shares are certified, and the certificate is verified."""
    page = (repository / "formulations" / "GAVEL.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, flags=re.MULTILINE | re.DOTALL)
    monkeypatch.chdir(tmp_path)
    for block, told in zip(blocks, ("optimal gap ", "verdict      verified\n"), strict=True):
        exec(compile(block, "block", "exec"), {"__name__": "__main__"})
        assert capsys.readouterr().out.startswith(told)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: PerDollar({"v100": 0.0}), "Cost: price of 'v100' is 0.0; expected a finite num"),
        (lambda: PerDollar({"v100": math.nan}), "Cost: price of 'v100' is nan"),
        (lambda: PerDollar(deadlines={"a": -1.0}), "Cost: deadline of 'a' is -1.0; expected a fi"),
        (lambda: PerDollar(deadlines={"a": math.nan}), "Cost: deadline of 'a' is nan"),
        (lambda: PerDollar(dropped="some"), "Cost: dropped is 'some'; expected one of all, fewest"),  # type: ignore[arg-type]
        (lambda: PerDollar(margin=-1.0), "Cost: margin is -1.0; expected a finite number of at le"),
        (lambda: Levels(weights={"a": 0.0}), "Levels: weight of 'a' is 0.0; expected a finite num"),
        (lambda: Levels(weights={"a": math.inf}), "Levels: weight of 'a' is inf"),
        (lambda: Levels(within="x"), "Levels: within is 'x'; expected one of fairness, fifo"),  # type: ignore[arg-type]
        (lambda: most_promises(ONE, [1.0]), r"Promised rates have shape \(1,\); expected \(2,\)"),
        (lambda: most_promises(ONE, [1.0, math.inf]), "Promised rates are inf somewhere; expected"),
        (lambda: most_promises(ONE, [1.0, -1.0]), "Promised rates are -1.0 somewhere"),
        (lambda: Gavel(3), "Gavel: goal is 3; expected one of max-min"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Callable[[], object], sentence: str) -> None:
    """In one sentence."""
    with pytest.raises(ValueError, match=sentence):
        make()
