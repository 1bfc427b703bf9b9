"""Replays of rigid jobs by measured rates, and what is made of them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.gavel.rates import TYPES
from goodalloc.data.gavel.workload import GavelJob, GavelWorkload
from goodalloc.experiments.studies.framework.records import columns_of
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.gavel import cost as gavel_cost
from goodalloc.experiments.studies.gavel import levels as gavel_levels
from goodalloc.experiments.studies.gavel import packing as gavel_packing
from goodalloc.experiments.studies.gavel import replay as gavel_replay
from goodalloc.experiments.studies.gavel import time_share_gap
from goodalloc.experiments.studies.gavel.cost import GAVEL_COST
from goodalloc.experiments.studies.gavel.levels import GAVEL_LEVELS
from goodalloc.experiments.studies.gavel.metered_policy import Metered
from goodalloc.experiments.studies.gavel.packing import PACKING
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.studies.gavel.replay import GAVEL
from goodalloc.experiments.studies.gavel.time_share_gap import TIME_SHARES, gavel_round, share_rows
from goodalloc.models.gavel.rate_table import Configuration, RateTable
from goodalloc.models.gavel.share_goal import max_min
from goodalloc.models.gavel.time_sharing import share_violations
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.gavel.cost import PRICES
from goodalloc.solvers.gavel.policy import Gavel
from goodalloc.solvers.gavel.time_shares import best_shares
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.queueing import TypedQueue

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.framework.reproduction import Reproduction
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

NET = Configuration("net", 8)

#: Twice as fast on the first type; two replicas are 1.5 times as fast, apart only as fast as one.
RATES = RateTable(
    ("fast", "slow"),
    (NET,),
    (1, 2),
    np.array([[[[2.0, 2.0], [1.0, 1.0]], [[3.0, 2.0], [1.5, 1.0]]]]),
    np.zeros((1, 1, 2, 2)),
)
CLUSTER = Cluster((NodeGroup("a", 1, 2, "fast"), NodeGroup("b", 2, 1, "slow")))

#: Beside another that is like it, a net of one GPU keeps 0.8 of its speed if that is fast.
PAIRED = RateTable(
    RATES.types,
    RATES.configurations,
    RATES.replicas,
    RATES.alone,
    np.array([[[[1.6, 0.0], [0.0, 0.0]]]]),
)


def job(name: str, submission: float, steps: float, replicas: int = 1) -> GavelJob:
    """A rigid one."""
    return GavelJob(name, submission, NET, replicas, steps)


def brief(**parameters: Any) -> GavelWorkload:
    """Of jobs of half an hour to three hours, whose replays end within a few rounds."""
    return GavelWorkload(short_share=1.0, short=(1.5, 2.2), **parameters)


class Fixed:
    """A policy that always says the same of those who are there."""

    batch_sizes: BatchSizes = "requested"

    def __init__(self, placements: dict[str, Any], beside: dict[str, str] | None = None) -> None:
        self.placements, self.beside = placements, beside or {}
        self.seen: list[tuple[ActiveJob, ...]] = []

    def decide(self, round_: Round) -> Decision:
        """As it was told."""
        self.seen.append(round_.jobs)
        there = {one.name for one in round_.jobs}
        return Decision(
            {name: pairs for name, pairs in self.placements.items() if name in there},
            beside={one: other for one, other in self.beside.items() if {one, other} <= there},
        )


@pytest.mark.parametrize(
    ("replicas", "placement", "rate"),
    [
        (1, ((0, 1),), 2.0),
        (1, ((1, 1),), 1.0),
        (2, ((0, 2),), 3.0),
        (2, ((1, 1), (2, 1)), 1.5),
        (2, ((0, 1), (1, 1)), 1.0),
    ],
)
def test_a_job_is_as_fast_as_its_gpus(replicas: int, placement: Any, rate: float) -> None:
    """Of two types the slower counts; of nodes of one GPU two replicas need two."""
    jobs = [job("a", 0.0, 1000.0, replicas)]
    (done,) = RateSimulator(jobs, RATES, CLUSTER, Fixed({"a": placement})).run()
    assert done.completion == pytest.approx(1000.0 / rate)
    assert done.gpu_seconds == pytest.approx(replicas * 1000.0 / rate)
    assert (done.start, done.restarts) == (0.0, 0)


def test_jobs_start_with_a_round_and_end_within_it() -> None:
    """One that comes within a round waits for the next; a restart may take more than a round."""
    jobs = [job("late", 370.0, 100.0), job("first", 0.0, 2000.0)]
    simulator = RateSimulator(jobs, RATES, CLUSTER, TypedQueue(), restart_seconds=10.0)
    first, late = simulator.run()
    assert (late.name, late.start, late.completion) == ("first", 0.0, 1000.0)
    assert (first.name, first.start, first.completion) == ("late", 720.0, 770.0)
    assert first.jct == 400.0

    class Moves(Fixed):
        def decide(self, round_: Round) -> Decision:
            return Decision({"a": ((int(round_.time > 0), 1),)})

    (moved,) = RateSimulator(
        [job("a", 0.0, 1000.0)], RATES, CLUSTER, Moves({}), restart_seconds=10.0
    ).run()
    assert moved.restarts == 1
    assert moved.completion == pytest.approx(360.0 + 10.0 + 280.0)
    (slow,) = RateSimulator(
        [job("a", 0.0, 1000.0)], RATES, CLUSTER, Moves({}), restart_seconds=800.0
    ).run()
    assert slow.completion == pytest.approx(360.0 + 800.0 + 280.0)


def test_two_on_the_same_gpus_have_the_rates_of_the_table() -> None:
    """To the end of the round in which one ends; what is seen of them is host, speed and use."""
    jobs = [job("a", 0.0, 720.0), job("b", 0.0, 1152.0 + 100.0)]
    policy = Fixed({"a": ((0, 1),), "b": ((0, 1),)}, {"b": "a"})
    done = {one.name: one for one in RateSimulator(jobs, PAIRED, CLUSTER, policy).run()}
    assert done["a"].completion == pytest.approx(720.0 / 1.6)
    assert done["b"].completion == pytest.approx(720.0 + 100.0 / 2.0)
    assert done["b"].restarts == 0
    first, second, third = policy.seen
    assert [(one.host, one.busy, one.share) for one in first] == [("", None, 1.0)] * 2
    assert [one.host for one in second] == ["", "a"]
    assert [one.share for one in second] == pytest.approx([0.8, 0.8])
    assert [one.busy for one in second] == pytest.approx([0.625, 0.625])
    assert [one.host for one in third] == [""]
    host, guest = (one.oracle for one in first)
    assert host.beside(guest, 1, 2, "fast") == (1.6, 1.6)
    assert host.beside(guest, 1, 1, "slow") is None
    assert host.beside(guest, 2, 2, "fast") is None


@pytest.mark.parametrize(
    ("replicas", "placements", "sentence"),
    [
        ((1, 1), {"a": ((1, 1),), "b": ((1, 1),)}, "same GPUs of type 'slow'; expected two that"),
        ((2, 2), {"a": ((0, 2),), "b": ((0, 2),)}, "same GPUs of type 'fast'; expected two that"),
        ((2, 1), {"a": ((0, 2),), "b": ((0, 1),)}, "expected a pair on the same ones whose rates"),
    ],
)
def test_pairs_that_were_not_measured_are_refused(
    replicas: tuple[int, int], placements: dict[str, Any], sentence: str
) -> None:
    """In one sentence, as are those of different numbers of GPUs."""
    jobs = [job(name, 0.0, 720.0, wanted) for name, wanted in zip("ab", replicas, strict=True)]
    policy = Fixed(placements, {"b": "a"})
    with pytest.raises(ValueError, match=sentence):
        RateSimulator(jobs, PAIRED, CLUSTER, policy).run()
    one_type = Cluster((NodeGroup("b", 2, 2, "fast"),))
    if replicas != (1, 1):
        with pytest.raises(ValueError, match="expected a pair on the same ones whose rates were"):
            RateSimulator(jobs, PAIRED, one_type, policy).run()


def test_packed_gavel_runs_pairs_by_the_measured_rates() -> None:
    """Four jobs for two fast GPUs end sooner in pairs than by turns on all GPUs."""
    jobs = [job(f"job{index}", 0.0, 7200.0) for index in range(8)]
    ends = [
        max(one.completion for one in RateSimulator(jobs, PAIRED, CLUSTER, policy).run())
        for policy in (Gavel("makespan"), Gavel("makespan", packed=True))
    ]
    assert ends[1] < 0.85 * ends[0]


def test_who_is_never_served_is_said() -> None:
    """After a week, in one sentence."""
    with pytest.raises(ValueError, match="Job 'a' and 0 others made no step in the week up to"):
        RateSimulator([job("a", 0.0, 1.0)], RATES, CLUSTER, Fixed({})).run()
    with pytest.raises(ValueError, match="Replay: round_seconds is 0; expected a finite number"):
        RateSimulator([], RATES, CLUSTER, Fixed({}), 0)
    with pytest.raises(ValueError, match="Replay: restart_seconds is nan"):
        RateSimulator([], RATES, CLUSTER, Fixed({}), restart_seconds=math.nan)


def test_a_queue_that_knows_types_takes_the_fastest() -> None:
    """One that does not takes those of which most are free; nobody passes one that waits."""
    jobs = [job("a", 0.0, 720.0), job("b", 0.0, 720.0, 2), job("c", 0.0, 720.0)]
    knows = {one.name: one for one in RateSimulator(jobs, RATES, CLUSTER, TypedQueue()).run()}
    assert knows["a"].completion == 360.0
    assert knows["b"].start == 0.0
    assert knows["c"].start == 0.0
    order = [one.name for one in RateSimulator(jobs, RATES, CLUSTER, TypedQueue(blind=True)).run()]
    assert sorted(order) == ["a", "b", "c"]


def test_gavel_serves_everybody_by_rates() -> None:
    """A job of two goes where two are together."""
    jobs = [job(f"job{index}", 100.0 * index, 3000.0, 1 + index % 2) for index in range(8)]
    done = RateSimulator(jobs, RATES, CLUSTER, Gavel()).run()
    assert sorted(one.name for one in done) == sorted(one.name for one in jobs)
    assert all(one.completion > one.start >= one.submission for one in done)


def test_rows_of_time_shares_keep_their_laws() -> None:
    """The bisection within 5 %, no part better than the whole, every gap proved."""
    sharing, steps = gavel_round(10, 1, None)
    assert (sharing.num_jobs, steps.shape) == (10, (10,))
    rows = share_rows(10, 1, None)
    assert {row.goal for row in rows} == {
        "max-min",
        "makespan",
        "finish-time",
        "completion",
        "throughput",
    }
    for row in rows:
        if row.way == "exact":
            assert row.loss == 0.0
            assert row.gap is not None
            assert row.gap <= 1e-5
        else:
            assert row.loss >= -1e-6
        assert row.way != "bisection" or row.loss <= 0.05 + 1e-6


def test_the_published_table_gives_rounds_too(reference: Path) -> None:
    """Measured rates, checked shares."""
    folder = reference / "gavel-throughputs"
    sharing, _ = gavel_round(48, 2, folder)
    found = best_shares(sharing, max_min(sharing))
    assert found.shares is not None
    assert share_violations(sharing, found.shares) == ()
    assert found.gap <= 1e-6


def test_a_metered_policy_tells_who_held_what_to_its_end() -> None:
    """Two rounds of 360 s, the second one cut short."""
    policy = Metered(Fixed({"a": ((0, 2),), "b": ((1, 1),)}))
    jobs = [job("a", 0.0, 1200.0, 2), job("b", 0.0, 360.0)]
    simulator = RateSimulator(jobs, RATES, CLUSTER, policy)
    completion = {one.name: one.completion for one in simulator.run()}
    assert policy.batch_sizes == "requested"
    assert list(policy.held(completion, 360)) == [
        ("a", "fast", 2, 0, 360),
        ("b", "slow", 1, 0, 360),
        ("a", "fast", 2, 360, 400),
    ]


def test_dollars_deadlines_and_entities_are_told_of_small_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Money is that of the GPUs' hours; entities get about their weights, which others ignore."""
    short = GavelWorkload(12.0, short_share=1.0, short=(2.0, 2.5))
    monkeypatch.setattr(gavel_cost, "CASES", {"two models": gavel_cost.Case(short, 8, 8)})
    few = ("throughput", "per dollar", "per dollar, deadlines")
    contenders = {name: gavel_cost.CONTENDERS[name] for name in few}
    monkeypatch.setattr(gavel_cost, "CONTENDERS", contenders)
    small = Cluster(tuple(NodeGroup(kind, 1, 1, kind) for kind in TYPES))
    for name, value in {"CLUSTER": small, "JOBS_EACH": 2, "APART": 3600, "WINDOW": 3600}.items():
        monkeypatch.setattr(gavel_levels, name, value)
    plan = Plan(tmp_path, quick=True)
    studies: list[Reproduction[Any]] = [GAVEL_COST, GAVEL_LEVELS]
    for study in studies:
        for task in study.tasks(plan):
            task.run(lambda _: None)
        study.plot(plan, study.rows(plan)).savefig(tmp_path / "picture.png")
    rows = {row.policy: row for row in GAVEL_COST.rows(plan)}
    for row in rows.values():
        hours = {kind: getattr(row, f"{kind}_hours") for kind in TYPES}
        spent = sum(PRICES[kind] * hours[kind] for kind in hours)
        assert row.dollars.mean == pytest.approx(spent, rel=1e-4)
        assert 0.0 <= row.missed_percent.mean <= 100.0
    assert rows["per dollar"].dollars.mean < rows["throughput"].dollars.mean
    missed = {name: row.missed_percent.mean for name, row in rows.items()}
    assert missed["per dollar, deadlines"] <= missed["per dollar"]
    shown = {row["policy"]: row for row in GAVEL_COST.shown(list(rows.values()))}
    assert (shown["per dollar"]["reported"], shown["per dollar"]["reported (%)"]) == ("1.4", "35")
    entities = GAVEL_LEVELS.rows(plan)
    assert len(GAVEL_LEVELS.shown(entities)) == len(entities) == 3 * (1 + 2 + 3)
    for level in entities:
        if level.entities == 3:
            due = 100.0 / 3 if level.policy == "no entities" else level.weight_percent
            assert level.share_percent.mean == pytest.approx(due, abs=6.0), level


def test_tables_and_pictures_are_made_of_small_replays(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Types known beside types equal, and every goal by every way."""
    monkeypatch.setattr(gavel_replay, "QUICK_JOBS", 6)
    monkeypatch.setattr(gavel_replay, "LOADS", (60.0, 0.0))
    monkeypatch.setattr(gavel_replay, "GavelWorkload", brief)
    monkeypatch.setattr(time_share_gap, "QUICK_SIZES", (8,))
    plan = Plan(tmp_path, quick=True)
    monkeypatch.setattr(gavel_packing, "QUICK_JOBS", 12)
    monkeypatch.setattr(gavel_packing, "NODES", 1)
    monkeypatch.setattr(gavel_packing, "LOADS", (60.0,))
    monkeypatch.setattr(gavel_packing, "GavelWorkload", brief)
    studies: list[Reproduction[Any]] = [GAVEL, TIME_SHARES, PACKING]
    for study in studies:
        for task in study.tasks(plan):
            task.run(lambda _: None)
            task.run(lambda _: None)  # which is done
        rows = study.rows(plan)
        shown = study.shown(rows)
        assert shown
        study.plot(plan, rows).savefig(tmp_path / "picture.png")
    assert {row["quantity"] for row in GAVEL.shown(GAVEL.rows(plan))} == {
        "average JCT (h)",
        "makespan (h)",
    }
    packed = {row.policy: row for row in PACKING.rows(plan)}
    assert packed.keys() == gavel_packing.CONTENDERS.keys()
    assert packed["fair-packed"].average_jct_hours.mean < packed["fair"].average_jct_hours.mean
    assert columns_of(packed["fair"])["gain_percent"] == ""
