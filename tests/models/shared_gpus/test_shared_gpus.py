"""Jobs that share GPUs: how fast they are, which decisions are possible, and replays of them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.replay.judge import Judge
from goodalloc.experiments.replay.replay import Replay
from goodalloc.experiments.replay.replay_conditions import Outage, Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.mode import resources
from goodalloc.models.round.rules import OSDI21
from goodalloc.models.shared_gpus.shared_speed import (
    FAIR,
    GUARANTEED,
    GpuUse,
    Sharing,
    busy_part,
    guest_memory,
)
from goodalloc.solvers.policies.decision_checker import check_decision
from goodalloc.solvers.policies.policy import Decision, Round
from goodalloc.solvers.policies.spread_placement import take_of
from tests.support.policies.policy_rounds import active

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes

uses = st.builds(GpuUse, st.floats(0.0, 1.0), st.floats(0.0, 1.0))
ways = st.builds(
    Sharing, st.sampled_from(["fair", "guaranteed"]), st.floats(0.0, 0.9), st.floats(0.0, 9.0)
)


@given(ways, uses, st.lists(uses, max_size=3), st.floats(0.0, 1.0))
def test_sharing_slows_everybody_who_is_not_guaranteed_and_more_use_slows_more(
    sharing: Sharing, host: GpuUse, guests: list[GpuUse], more: float
) -> None:
    """Rates lie between 0 and 1; a guaranteed host keeps its own; a busier host leaves less."""
    rate = sharing.host_rate(host, guests)
    assert 0.0 <= rate <= 1.0
    assert rate == 1.0 or (guests and sharing.way == "fair")
    busier = host._replace(busy=host.busy + more * (1.0 - host.busy))
    for guest in guests:
        left = sharing.guest_rate(host, guest)
        assert 0.0 <= left <= 1.0 - sharing.loss + 1e-12
        assert sharing.guest_rate(busier, guest) <= left
        done = host.busy * sharing.host_rate(host, [guest]) + guest.busy * left
        assert done <= 1.0 + 1e-9, "a GPU computes all the time at most"


def test_the_rates_are_those_of_the_equations() -> None:
    """Two thirds and two thirds busy, without loss and with one of a tenth."""
    use = GpuUse(2 / 3, 0.5)
    for sharing, host, guest in (
        (Sharing("fair", 0.0), 0.75, 0.75),
        (Sharing("guaranteed", 0.0), 1.0, 0.5),
        (Sharing("fair", 0.1), 0.675, 0.675),
        (Sharing("guaranteed", 0.1), 1.0, 0.45),
    ):
        assert sharing.host_rate(use, [use]) == pytest.approx(host)
        assert sharing.guest_rate(use, use) == pytest.approx(guest)
    idle = GpuUse(0.0, 0.5)
    assert FAIR.guest_rate(GpuUse(1.0, 0.5), idle) == 0.95
    assert GUARANTEED.guest_rate(GpuUse(1.0, 0.5), use) == 0.0
    assert use.fits_beside(idle)
    assert not use.fits_beside(GpuUse(0.0, 0.51))
    assert busy_part(0.01, 20.0, 3, 1.2) == pytest.approx(0.5)


def test_a_guest_that_moves_half_its_tensors_is_slower_by_half_their_cost() -> None:
    """Its host is not; without tensors to move nobody is; without moving they do not fit."""
    host, guest = GpuUse(0.5, 0.75), GpuUse(0.5, 0.5)
    assert guest_memory(host, guest) == 0.25
    for way in ("fair", "guaranteed"):
        moves, never = Sharing(way, 0.0, offload=4.0), Sharing(way, 0.0)
        assert moves.guest_rate(host, guest) == pytest.approx(1.0 / 3.0)
        assert moves.host_rate(host, [guest]) == 1.0
        assert moves.guest_rate(guest, guest) == never.guest_rate(guest, guest) == 1.0
        assert moves.fits(host, guest)
        assert not never.fits(host, guest)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"way": "kind"}, "way is 'kind'; expected one of fair, guaranteed"),
        ({"loss": 1.0}, "loss is 1; expected a number from 0 to below 1"),
        ({"loss": -0.1}, "loss is -0.1"),
        ({"loss": float("nan")}, "loss is nan"),
        ({"offload": -1.0}, "offload is -1.0; expected a finite number of at least 0"),
        ({"offload": float("inf")}, "offload is inf"),
    ],
)
def test_ways_that_make_no_sense_are_refused(values: dict[str, Any], complaint: str) -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match=complaint):
        Sharing(**values)


def round_of(**memory: float) -> Round:
    """Jobs that take so much memory, on two nodes of four GPUs."""
    jobs = tuple(replace(active(name), memory=part) for name, part in memory.items())
    return Round(60, Cluster.uniform(2, 4), jobs)


HOST: Placement = ((0, 4), (1, 2))


@pytest.mark.parametrize(
    ("placements", "beside", "complaint"),
    [
        ({"a": HOST, "b": ((0, 1),)}, {}, "node 0 is to hold 5 GPUs; it has 4"),
        ({"a": HOST, "b": ((1, 3),)}, {"b": "a"}, "hold 1 GPUs too many on node 1"),
        ({"a": HOST, "b": ((0, 3),), "c": ((0, 2),)}, {"b": "a", "c": "a"}, "1 GPUs too many"),
        ({"a": HOST, "b": ((0, 1),), "c": ((0, 1),)}, {"b": "a", "c": "b"}, "a guest itself"),
        ({"a": HOST}, {"b": "a"}, "'b' is beside 'a' and 'b' has no GPUs; expected both to run"),
        ({"b": ((0, 1),)}, {"b": "a"}, "'a' has no GPUs; expected both to run"),
        ({"a": HOST, "b": ((0, 1),)}, {"b": "z"}, "'z' has no GPUs"),
        ({"a": HOST}, {"a": "a"}, "a guest itself"),
        ({"a": HOST, "d": ((0, 1),)}, {"d": "a"}, "'d' and 'a' take 1.1 of the memory of a GPU"),
        ({"a": HOST}, ["b"], "beside is a list; expected a mapping"),
    ],
)
def test_guests_without_room_are_refused(
    placements: Mapping[str, Placement], beside: Any, complaint: str
) -> None:
    """In a sentence that names them."""
    round_ = round_of(a=0.5, b=0.5, c=0.2, d=0.6)
    with pytest.raises(ValueError, match=complaint):
        check_decision(round_, Decision(placements, beside=beside))


def test_guests_with_room_pass() -> None:
    """Two guests on different GPUs, one of them on both nodes."""
    placements = {"a": HOST, "b": ((0, 3), (1, 2)), "c": ((0, 1),)}
    round_ = round_of(a=0.5, b=0.5, c=0.2)
    check_decision(round_, Decision(placements, beside={"b": "a", "c": "a"}))


def test_memory_need_not_fit_where_tensors_are_moved() -> None:
    """All else has to be right."""
    round_, placements = round_of(a=0.9, b=0.6), {"a": HOST, "b": ((0, 3), (1, 2))}
    check_decision(round_, Decision(placements, beside={"b": "a"}), offloads=True)
    wrong = Decision(placements | {"b": ((1, 3),)}, beside={"b": "a"})
    with pytest.raises(ValueError, match="hold 1 GPUs too many on node 1"):
        check_decision(round_, wrong, offloads=True)


def test_gpus_of_a_type_are_shared_by_those_that_can_and_nodes_with_cores_by_nobody() -> None:
    """Of several types the oracle is asked; modes divide cores among those with their own GPUs."""
    decision = Decision({"a": ((0, 1),), "b": ((0, 1),)}, beside={"b": "a"})
    types = (NodeGroup("a", 1, 4, "t4"), NodeGroup("b", 1, 4, "a100"))
    for groups, complaint in (
        (types, "'b' and 'a' are on the same GPUs of type 't4'; expected two that can share them"),
        ((NodeGroup("a", 1, 4, "", resources({"cpu": 8.0})),), "expected nodes of GPUs only"),
    ):
        round_ = replace(round_of(a=0.5, b=0.5), cluster=Cluster(groups))
        with pytest.raises(ValueError, match=complaint):
            check_decision(round_, decision)


def test_gpus_of_a_placement_are_taken_where_it_has_most() -> None:
    """Four of seven; eight there are not."""
    assert take_of(((0, 2), (1, 4), (2, 1)), 5) == ((1, 4), (0, 1))
    with pytest.raises(ValueError, match="GPUs wanted: 8; the placement has 7"):
        take_of(((0, 2), (1, 4), (2, 1)), 8)


#: Two jobs of equal kind, whose memory fits, and a cluster for one of them.
PAIR = tuple(Submission(f"job-{index}", 0, "cifar10", 4, 1024) for index in range(2))
ONE_NODE = Setting(Cluster.uniform(1, 4))


class Beside:
    """The first job has the node, the second is its guest from some time on."""

    batch_sizes: BatchSizes = "requested"

    def __init__(self, sharing: Sharing | None, begin: int = 0) -> None:
        self.begin = begin
        if sharing is not None:
            self.sharing = sharing

    def decide(self, round_: Round) -> Decision:
        names = [job.name for job in round_.jobs]
        placements: dict[str, Placement] = {names[0]: ((0, 4),)}
        if len(names) == 1 or round_.time < self.begin:
            return Decision(placements)
        return Decision(placements | {names[1]: ((0, 4),)}, beside={names[1]: names[0]})


def finish(simulator: Simulator) -> tuple[list[float], list[int | None]]:
    """Completion times and restarts."""
    while not simulator.finished:
        simulator.step()
    return [job.completion or 0.0 for job in simulator.jobs], [j.restarts for j in simulator.jobs]


def test_a_guaranteed_host_ends_as_if_it_were_alone_and_its_guest_goes_on_alone() -> None:
    """A job that gets a guest does not restart, nor does a guest that is left alone."""
    applications = profiled_applications()
    (alone,), _ = finish(Simulator(PAIR[:1], applications, Beside(None), ONE_NODE))
    for begin in (0, 300):
        policy = Beside(GUARANTEED, begin)
        (host, guest), restarts = finish(Simulator(PAIR, applications, policy, ONE_NODE))
        assert host == alone
        assert host < guest < 2.0 * alone
        assert restarts == [0, 0]


def test_two_that_share_fairly_are_as_fast_as_the_equation_says() -> None:
    """Equal jobs end almost at once, later than alone by their rate."""
    applications = profiled_applications()
    (alone,), _ = finish(Simulator(PAIR[:1], applications, Beside(None), ONE_NODE))
    simulator = Simulator(PAIR, applications, Beside(FAIR), ONE_NODE)
    simulator.step()
    simulator.step()
    job = simulator.jobs[0]
    use = job.measure_use()
    assert 0.5 < use.busy < 1.0
    assert job.share == FAIR.guest_rate(use, use)
    (first, second), _ = finish(simulator)
    assert first == second
    assert first - 90.0 == pytest.approx((alone - 90.0) / FAIR.guest_rate(use, use), rel=0.01)


def test_what_a_scheduler_sees_of_sharing() -> None:
    """Host, how busy its GPUs were alone, memory and share; nothing before the first start."""
    simulator = Simulator(PAIR, profiled_applications(), Beside(FAIR), ONE_NODE)
    seen = simulator.observe(simulator.active)
    assert [(job.host, job.busy, job.share) for job in seen.jobs] == [("", None, 1.0)] * 2
    assert [job.memory for job in seen.jobs] == [0.25] * 2
    simulator.step()
    simulator.step()
    host, guest = simulator.observe(simulator.active).jobs
    assert (host.host, guest.host) == ("", "job-0")
    assert host.busy == guest.busy == simulator.jobs[0].measure_use().busy
    assert host.share == guest.share < 1.0


def test_jobs_on_lost_nodes_stop_and_their_guests_elsewhere_are_alone() -> None:
    """The host has both nodes and loses one; its guest is on the other."""

    class OnTheFirst(Beside):
        def decide(self, round_: Round) -> Decision:
            seen.append([job.host for job in round_.jobs])
            if round_.cluster.num_nodes == 1:
                return Decision({"job-1": ((0, 4),)})
            placements = {"job-0": ((0, 4), (1, 4)), "job-1": ((0, 4),)}
            return Decision(placements, beside={"job-1": "job-0"})

    seen: list[list[str]] = []
    jobs = (replace(PAIR[0], replicas=8), PAIR[1])
    setting = Setting(Cluster.uniform(2, 4), outages=(Outage(180, 300, 1),))
    simulator = Simulator(jobs, profiled_applications(), OnTheFirst(FAIR), setting)
    for _ in range(4):
        simulator.step()
    assert seen == [["", ""], ["", "job-0"], ["", ""], ["", ""]]
    assert [job.restarts for job in simulator.jobs] == [0, 0]


def test_guests_want_a_policy_that_says_how_gpus_are_shared() -> None:
    """In a sentence."""
    simulator = Simulator(PAIR, profiled_applications(), Beside(None), ONE_NODE)
    with pytest.raises(ValueError, match="expected a policy with `sharing`"):
        simulator.step()


def test_what_an_oracle_foretells_of_a_pair_comes_true() -> None:
    """Alone and beside each other, by the sharing of the policy; not where memory is too small."""
    simulator = Simulator(PAIR, profiled_applications(), Beside(FAIR), ONE_NODE)
    host, guest = (job.oracle for job in simulator.observe(simulator.active).jobs)
    seconds = host.seconds_per_step(4, 4)
    simulator.step()
    simulator.step()
    share = simulator.jobs[1].share
    assert host.beside(guest, 4, 4) == pytest.approx((share / seconds, share / seconds))
    large = tuple(replace(job, replicas=1, batch_size=4096) for job in PAIR)
    crowd = Simulator(large, profiled_applications(), Beside(FAIR), ONE_NODE)
    one, other = (job.oracle for job in crowd.observe(crowd.active).jobs)
    assert one.beside(other, 1, 4) is None


def test_records_count_a_shared_gpu_once_and_the_judge_values_hosts(tmp_path: Path) -> None:
    """Four GPUs are allocated while two jobs of four run."""
    simulator = Simulator(PAIR, profiled_applications(), Beside(FAIR), ONE_NODE)
    Replay(simulator, tmp_path, {}, Judge(OSDI21)).run()
    rows = (tmp_path / "rounds.csv").read_text(encoding="utf-8").splitlines()
    header = rows[0].split(",")
    table = [dict(zip(header, row.split(","), strict=True)) for row in rows[1:]]
    assert {(row["running_jobs"], row["allocated_gpus"]) for row in table} >= {("2", "4")}
    assert all(0.0 <= float(row["gap"]) <= 1.0 for row in table)
