"""The live scheduler: what it reads, decides and writes; and real jobs that nothing stops for good.

The rounds are made of files alone, with locks that the test holds in place of launchers.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.files.job_state import (
    JobState,
    read_job_state,
    read_placements,
    write_job_state,
)
from goodalloc.data.files.job_submission import JobSubmission, write_job_submission
from goodalloc.experiments.agent.cluster_folder import (
    DECISIONS,
    STATE,
    SUBMISSION,
    allocation_file,
    job_folder,
)
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.live.jobs import FittedSpeed, find_jobs, fitting
from goodalloc.experiments.live.live_policies import live_policy
from goodalloc.experiments.live.policy_names import LIVE
from goodalloc.experiments.live.replica_group import replicas_left
from goodalloc.experiments.live.scheduler import LiveScheduler
from goodalloc.experiments.live.similar_jobs import find_experiences, with_predictions
from goodalloc.experiments.support.folder_lock import is_locked, locked
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from tests.support import launched_program
from tests.support.few import slow_where
from tests.support.launched_program import CHECKPOINT_STEPS, EXAMPLES, TOTAL
from tests.support.replay.waiting import eventually

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goodalloc.experiments.live.jobs import LiveJob
    from goodalloc.solvers.policies.policy import Round

CLUSTER = Cluster.uniform(2, 4)

#: Measured: nearly twice as fast on twice the GPUs.
THROUGHPUT = ThroughputParameters(0.01, 0.01, 0.001, 0.0, 0.002, 0.0, 1.5)
LIMITS = BatchLimits(32, 1024, 4, 64, True)


class Folder:
    """A cluster's folder, and who stands in for the launchers."""

    def __init__(self, path: Path, stack: contextlib.ExitStack) -> None:
        self.path, self._stack = path, stack
        self.lines: list[str] = []
        self._locks: dict[str, contextlib.ExitStack] = {}

    def submit(
        self,
        name: str,
        ago: float = 1000.0,
        replicas: int = 1,
        application: str = "",
        steps: float | None = None,
    ) -> None:
        """A job comes."""
        folder = job_folder(self.path, name)
        folder.mkdir(parents=True, exist_ok=True)
        moment = time.time() - ago
        submission = JobSubmission(name, ("train",), moment, replicas, application, steps)
        write_job_submission(folder / SUBMISSION, submission)
        self._locks[name] = self._stack.enter_context(contextlib.ExitStack())
        self._locks[name].enter_context(locked(folder))

    def finish(self, name: str, application: str = "") -> None:
        """A job is done that has measured up to four nodes, of slow synchronisation."""
        pairs = ((1, 1), (1, 2), (1, 4), (2, 4), (4, 16))
        slow = THROUGHPUT._replace(alpha_local=0.5, alpha_node=5.0)
        self.submit(name, application=application)
        self.tell(name, finished=True, measured=pairs, throughput=slow)
        self.leave(name)

    def leave(self, name: str) -> None:
        """Its launcher ends."""
        self._locks.pop(name).close()

    def tell(self, name: str, **changes: Any) -> None:
        """Its agent publishes that it runs on what it was given."""
        placement = read_placements(allocation_file(self.path)).get(name, {})
        now = time.time()
        state = JobState(
            name,
            LIMITS,
            now - 900.0,
            now,
            replicas=max(sum(placement.values()), 1),
            placement=placement,
            most_replicas=max(sum(placement.values()), 1),
            steps=10,
            examples=320,
            gradient=GradientStatistics(1.0, 50.0),
            throughput=THROUGHPUT,
        )
        write_job_state(job_folder(self.path, name) / STATE, replace(state, **changes))

    def found(self) -> tuple[LiveJob, ...]:
        """The present jobs."""
        return find_jobs(self.path).jobs

    def decide(self, policy: str | Any = "pollux", cluster: Cluster = CLUSTER) -> dict[str, int]:
        """A round by a scheduler that just started: GPUs of every job that runs."""
        found = live_policy(policy, PolicyOptions()) if isinstance(policy, str) else policy
        ships = isinstance(policy, str)
        scheduler = LiveScheduler(self.path, cluster, found, say=self.lines.append, trusting=ships)
        scheduler.round(find_jobs(self.path))
        placements = read_placements(allocation_file(self.path))
        return {name: sum(nodes.values()) for name, nodes in placements.items()}


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Folder]:
    """An empty one."""
    with contextlib.ExitStack() as stack:
        yield Folder(tmp_path, stack)


#: Policies under which jobs grow one after the other, or have what they requested.
GRADUAL = ("pollux", "sia", "equal", "tiresias", "fifo", "gavel")


@pytest.mark.parametrize("policy", slow_where(LIVE, "pollux-genetic".__eq__))
def test_whoever_decides_jobs_run_within_the_cluster(folder: Folder, policy: str) -> None:
    """Before they ever ran, with fits, with and without a prediction of their steps."""
    for name, ago, steps in (("a", 1000.0, 50.0), ("b", 900.0, 5.0), ("c", 800.0, None)):
        folder.submit(name, ago, steps=steps)
    for _ in range(3):
        given = folder.decide(policy)
        assert given
        assert sum(given.values()) <= CLUSTER.num_gpus
        for name in given:
            folder.tell(name, scale_invariant_steps=10.0)
    assert not any("Everybody keeps" in line for line in folder.lines)


def test_the_shortest_goes_first_by_the_steps_that_users_predict(folder: Folder) -> None:
    """Less those that it made; without a prediction it is believed to make as many again."""
    for name, steps in (("long", 1000.0), ("short", 50.0), ("unknown", None)):
        folder.submit(name, steps=steps)
    one = Cluster.uniform(1, 1)
    assert folder.decide("srtf", one) == {"unknown": 1}
    folder.tell("unknown", scale_invariant_steps=6000.0)
    assert folder.decide("srtf", one) == {"short": 1}
    folder.tell("long", scale_invariant_steps=990.0)
    assert folder.decide("srtf", one) == {"long": 1}


@pytest.mark.parametrize(
    "policy",
    slow_where((p for p in LIVE if p.startswith(GRADUAL)), lambda p: "genetic" in p),
)
def test_jobs_get_what_a_policy_gives_and_keep_it_where_nothing_changes(
    folder: Folder, policy: str
) -> None:
    """One GPU each until they ran; then more. The same files, the same allocation, untouched."""
    for name, ago in (("a", 1000.0), ("b", 900.0), ("c", 800.0)):
        folder.submit(name, ago)
    assert folder.decide(policy) == {"a": 1, "b": 1, "c": 1}
    for name in "abc":
        folder.tell(name)
    grown = folder.decide(policy)
    asked = policy.startswith(("tiresias", "fifo", "gavel"))
    assert set(grown.values()) == ({1} if asked else {2})
    for name in "abc":
        folder.tell(name)
    settled = folder.decide(policy)
    assert asked or sum(settled.values()) == 8 or policy == "pollux-genetic"
    for name in "abc":
        folder.tell(name)
    if policy == "pollux-genetic":  # which may find something better any time
        return
    before = allocation_file(folder.path).stat().st_mtime_ns
    assert folder.decide(policy) == settled
    assert allocation_file(folder.path).stat().st_mtime_ns == before
    assert folder.lines[-1].endswith("as before")


@settings(max_examples=30)
@given(
    st.lists(st.integers(1, 4), min_size=1, max_size=3),
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 8), st.floats(30.0, 9000.0)), max_size=5),
    st.sampled_from(["pollux", "pollux-greedy", "equal", "tiresias", "fifo"]),
)
def test_no_decision_exceeds_the_cluster_and_none_moves_a_job_for_nothing(
    gpus: list[int], asked: list[tuple[int, int, float]], policy: str
) -> None:
    """Nodes of any size; jobs that asked for, and ran on, any number."""
    cluster = Cluster(tuple(NodeGroup(f"n{i}", 1, count) for i, count in enumerate(gpus)))
    with tempfile.TemporaryDirectory() as path, contextlib.ExitStack() as stack:
        folder = Folder(Path(path), stack)
        for index, (replicas, _, ago) in enumerate(asked):
            folder.submit(f"job{index}", ago, replicas)
        folder.decide(policy, cluster)
        for index, (_, most, _) in enumerate(asked):
            if most:
                folder.tell(f"job{index}", most_replicas=most)
        decided = folder.decide(policy, cluster)
        used = Counter[str]()
        for nodes in read_placements(allocation_file(folder.path)).values():
            used.update(nodes)
        assert all(used[f"n{i}-0"] <= count for i, count in enumerate(gpus))
        assert decided or not asked or policy == "fifo" or policy == "tiresias"
        assert not any("Everybody keeps" in line for line in folder.lines)
        assert folder.decide(policy, cluster) == decided
        assert folder.lines[-1].endswith("as before")


def test_those_who_come_and_go_are_seen(folder: Folder) -> None:
    """Gone is who has no launcher, and who is finished; files stay."""
    folder.submit("a")
    folder.submit("b", 10.0)
    assert folder.decide("equal") == {"a": 1, "b": 1}
    folder.tell("a")
    folder.tell("b")
    folder.tell("b", finished=True)
    assert folder.decide("equal") == {"a": 2}
    folder.tell("a")
    folder.submit("c", 5.0)
    assert folder.decide("equal") == {"a": 4, "c": 1}
    folder.leave("a")
    assert folder.decide("equal") == {"c": 1}
    folder.leave("c")
    assert folder.decide("equal") == {}
    assert folder.decide("pollux") == {}
    assert "no job" in folder.lines[-1]


def test_requests_and_order_of_submission_count_for_queues(folder: Folder) -> None:
    """The first fits, the second does not, the third waits behind it."""
    folder.submit("z", 300.0, replicas=6)
    folder.submit("y", 200.0, replicas=6)
    folder.submit("x", 100.0, replicas=2)
    assert folder.decide("fifo") == {"z": 6}
    assert folder.decide("tiresias") == {"z": 6, "x": 2}


def test_an_exact_decision_is_kept_with_its_proof(folder: Folder) -> None:
    """A line of JSON each; objective and bound agree."""
    for name in ("a", "b"):
        folder.submit(name)
    folder.decide()
    for name in ("a", "b"):
        folder.tell(name)
    folder.decide()
    rows = [json.loads(line) for line in (folder.path / DECISIONS).read_text().splitlines()]
    assert [row["changed"] for row in rows] == [True, True]
    assert rows[1]["placements"] == read_placements(allocation_file(folder.path))
    assert rows[1]["jobs"] == ["a", "b"]
    assert 0.0 < rows[1]["fitness"] <= rows[1]["bound"] * (1 + 1e-9)
    assert rows[1]["gap"] <= 1e-9
    assert "optimal" in folder.lines[-1]
    folder.decide("equal")
    assert json.loads((folder.path / DECISIONS).read_text().splitlines()[-1])["fitness"] is None


@pytest.mark.parametrize("file", [SUBMISSION, STATE])
@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"format": "other"}', "\udcff"])
def test_a_job_whose_files_make_no_sense_keeps_what_it_has(
    folder: Folder, file: str, content: str
) -> None:
    """Said once; the others share the rest."""
    for name in ("a", "b"):
        folder.submit(name)
    cluster = Cluster((NodeGroup("x", 1, 2), NodeGroup("y", 1, 1)))
    folder.decide("pollux", cluster)
    folder.tell("a")
    assert folder.decide("pollux", cluster) == {"a": 2, "b": 1}
    kept = read_placements(allocation_file(folder.path))["a"]
    raw = content.encode("utf-8", "surrogateescape")
    (job_folder(folder.path, "a") / file).write_bytes(raw)
    folder.tell("b", most_replicas=4)
    assert folder.decide("pollux", cluster) == {"a": 2, "b": 1}
    assert read_placements(allocation_file(folder.path))["a"] == kept
    assert sum(f"{file}'" in line for line in folder.lines) == 1
    folder.leave("b")
    assert folder.decide("equal", cluster) == {"a": 2}
    assert folder.decide("equal", Cluster.uniform(1, 1)) == {}  # there is no such node any more


def test_a_job_that_says_it_is_another_is_not_believed(folder: Folder) -> None:
    """Nor one whose launcher has not said anything yet, nor what is no folder."""
    folder.submit("a")
    write_job_submission(
        job_folder(folder.path, "a") / SUBMISSION, JobSubmission("b", ("train",), 1.0)
    )
    (folder.path / "jobs" / "file").touch()
    empty = folder.path / "jobs" / "empty"
    empty.mkdir()
    with locked(empty):
        found = find_jobs(folder.path)
    assert found.jobs == ()
    assert "is of job 'b'; expected 'a'" in found.unreadable["a"]
    assert folder.decide() == {}


def test_an_allocation_that_makes_no_sense_is_made_anew(folder: Folder) -> None:
    """From what the jobs say that they have, so that they stay."""
    folder.submit("a")
    folder.submit("b")
    folder.decide()
    folder.tell("a")
    folder.tell("b")
    before = read_placements(allocation_file(folder.path))
    for content in ("{", "", '{"format": "goodalloc-allocation", "version": 1, "placements": 3}'):
        allocation_file(folder.path).write_text(content)
        folder.decide("fifo")
        assert read_placements(allocation_file(folder.path)) == before


def test_what_the_cluster_has_no_room_for_any_more_is_given_anew(folder: Folder) -> None:
    """Nodes may be others after a restart of the scheduler."""
    placements = {"a": {"node-0": 3}, "b": {"node-0": 2}, "c": {"node-1": 1}, "d": {"old": 1}}
    assert fitting(placements, CLUSTER) == {"a": ((0, 3),), "c": ((1, 1),)}
    folder.submit("a")
    folder.submit("b")
    folder.decide("equal")
    assert folder.decide("equal", Cluster((NodeGroup("new", 1, 1),))) == {"a": 1}
    assert read_placements(allocation_file(folder.path)) == {"a": {"new-0": 1}}


class Strange:
    """A policy that decides what it was told to, or fails."""

    batch_sizes = "goodput"

    def __init__(self, placements: Any) -> None:
        self._placements = placements

    def decide(self, round_: Round) -> Decision:
        """Whatever it was told."""
        if isinstance(self._placements, Exception):
            raise self._placements
        return Decision(self._placements)


@pytest.mark.parametrize(
    ("placements", "sentence"),
    [
        (RuntimeError("it broke"), "s (RuntimeError: it broke, in test_scheduler.py, line "),
        ({"a": ((0, 5),)}, "node 0 is to hold 5 GPUs; it has 4"),
        ({"z": ((0, 1),)}, "job 'z' is not active"),
        ({"a": ((7, 1),)}, "node of job 'a' is 7"),
        ({"a": ((0, 0),)}, "is 0; expected an integer of at least 1"),
        ({"a": 3}, "expected (node, GPUs) pairs"),
        (3, "placements are a int"),
        ({"a": ((0, 1), (0, 1))}, "expected each node once"),
        ({"a": ((0, 3),), "b": ((0, 2),)}, "node 0 is to hold 5"),
    ],
)
def test_a_decision_that_makes_no_sense_is_said_and_not_written(
    folder: Folder, placements: Any, sentence: str
) -> None:
    """Everybody keeps what they have; the next round may be better."""
    folder.submit("a")
    folder.submit("b")
    folder.decide("equal")
    folder.leave("b")
    folder.submit("b")
    before = read_placements(allocation_file(folder.path))
    assert folder.decide(Strange(placements)) == {"a": 1, "b": 1}
    said = folder.lines[-2]
    assert sentence in said
    assert said.endswith("Everybody keeps what they have.")
    assert read_placements(allocation_file(folder.path)) == before
    assert json.loads((folder.path / DECISIONS).read_text().splitlines()[-1])["trouble"]


def test_a_decision_that_breaks_a_rule_of_its_own_instance_is_not_written(folder: Folder) -> None:
    """By the independent checker: a job that never ran gets one GPU at most."""
    folder.submit("a")
    honest = live_policy("pollux", PolicyOptions())

    class Greedy(Strange):
        def decide(self, round_: Round) -> Decision:
            return honest.decide(round_)._replace(placements={"a": ((0, 2),)})

    assert folder.decide(Greedy(None)) == {}
    assert "breaks a rule: Job 'a' has 2 replicas; max_replicas is 1" in folder.lines[0]


def test_the_bound_of_a_policy_of_ones_own_is_no_proof(folder: Folder) -> None:
    """Its decision is kept with its fitness, and called optimal by nobody."""
    folder.submit("a")
    honest = live_policy("pollux", PolicyOptions())

    class Boastful(Strange):
        def decide(self, round_: Round) -> Decision:
            return honest.decide(round_)

    assert folder.decide(Boastful(None)) == {"a": 1}
    row = json.loads((folder.path / DECISIONS).read_text().splitlines()[-1])
    assert row["fitness"] > 0.0
    assert (row["bound"], row["gap"], row["evidence"]) == (None, None, "none")
    assert "optimal" not in folder.lines[-1]
    folder.decide("pollux")
    row = json.loads((folder.path / DECISIONS).read_text().splitlines()[-1])
    assert row["bound_source"] == "knapsack"
    assert row["evidence"] in ("prices", "solver")
    assert "optimal" in folder.lines[-1]


def test_finished_jobs_tell_similar_ones_what_these_have_not_measured(folder: Folder) -> None:
    """Synchronisation is not free for them, and they need not explore; others learn nothing."""
    folder.decide()  # an empty allocation
    folder.submit("new", application="vision")
    folder.tell("new", measured=((1, 1),))
    assert find_experiences(folder.path) == ()
    (before,) = find_jobs(folder.path).jobs
    folder.finish("old", "vision")
    (one,) = find_experiences(folder.path)
    assert one.replicas == 16
    assert one.regimes == (True, True, True, True)
    found = find_jobs(folder.path)
    assert found.jobs == (before,)
    (told,) = with_predictions(found, (one,)).jobs
    assert told.state is not None
    assert told.state.throughput is not None
    assert told.state.most_replicas == 16
    assert 2.0 < told.state.throughput.alpha_node < 5.0  # optimistic
    assert with_predictions(found, ()) == found
    alone = folder.decide()["new"]
    assert alone == 2
    scheduler = LiveScheduler(
        folder.path, CLUSTER, live_policy("equal", PolicyOptions()), similar=True
    )
    scheduler.round(find_jobs(folder.path))
    placements = read_placements(allocation_file(folder.path))
    assert sum(placements["new"].values()) > alone


def test_policies_that_need_what_real_jobs_do_not_have_are_refused() -> None:
    """By name up front; an oracle refuses in a sentence."""
    for name in POLICIES:
        if name in LIVE:
            assert hasattr(live_policy(name, PolicyOptions()), "decide")
        else:
            with pytest.raises(ValueError, match=f"Policy '{name}' needs .*, which real jobs do"):
                live_policy(name, PolicyOptions())
    with pytest.raises(ValueError, match="Policy is 'nobody'; expected one of"):
        live_policy("nobody", PolicyOptions())
    with pytest.raises(
        ValueError, match=r"Policy is 'polux' \(did you mean pollux\?\); expected one"
    ):
        live_policy("polux", PolicyOptions())
    with pytest.raises(ValueError, match="Job 'a' is real: what it makes beside others is not"):
        FittedSpeed("a").beside(FittedSpeed("b"), 1, 1)


def test_it_decides_when_somebody_comes_or_goes_and_now_and_then(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not in between; with until_done it ends when all are gone, with nobody on anything."""
    events: list[Callable[[], object]] = [
        lambda: None,
        lambda: folder.submit("a"),
        lambda: None,
        lambda: folder.submit("b"),
        lambda: folder.tell("a", finished=True),
        lambda: None,
        lambda: folder.leave("b"),
        lambda: pytest.fail("it goes on"),
    ]
    scheduler = LiveScheduler(
        folder.path,
        CLUSTER,
        live_policy("equal", PolicyOptions()),
        until_done=True,
        say=folder.lines.append,
    )
    monkeypatch.setattr(LiveScheduler, "_sleep", lambda _: events.pop(0)())
    totals = scheduler.run()
    assert totals[:3] == (4, 2, 2)  # nobody gets anything else when another leaves
    assert [line.partition(";")[0] for line in folder.lines] == ["a 1", "a 1, b 1", "b 1", "no job"]
    assert read_placements(allocation_file(folder.path)) == {}
    folder.tell("a")
    ticks = iter([False] * 5 + [True])
    scheduler = LiveScheduler(
        folder.path,
        CLUSTER,
        live_policy("equal", PolicyOptions()),
        0.0,
        stopped=lambda: next(ticks),
    )
    events[:] = [lambda: None] * 5
    assert scheduler.run()[:3] == (5, 1, 1)


def test_a_decision_is_on_the_nodes_that_are_there_now(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where a job comes within the same glance as a node goes."""
    there = Cluster((NodeGroup("other", 1, 4),))
    scheduler = LiveScheduler(
        folder.path,
        CLUSTER,
        live_policy("equal", PolicyOptions()),
        stopped=lambda: len(folder.lines) > 1,
        say=folder.lines.append,
        watch=lambda: there,
    )
    monkeypatch.setattr(LiveScheduler, "_sleep", lambda _: None)
    folder.submit("a")
    assert scheduler.run().decisions == 1
    assert read_placements(allocation_file(folder.path)) == {"a": {"other-0": 1}}


def test_speeds_of_types_count_where_one_type_is_left(folder: Folder) -> None:
    """A job that measured another type is predicted on this one by the others' relative speeds."""
    fast = THROUGHPUT._replace(alpha_grad=0.0025, beta_grad=0.0025)
    left = Cluster((NodeGroup("node", 1, 4, "T4"),))
    for name in ("both", "mine"):
        folder.submit(name)
    folder.decide("srtf", left)
    for name, fits in (("both", {"T4": THROUGHPUT}), ("mine", {})):
        folder.tell(name, gpu_type="V100", throughput=fast, elsewhere=fits)
    folder.decide("srtf", left)
    row = json.loads((folder.path / "decisions.jsonl").read_text("utf-8").splitlines()[-1])
    assert row["predicted"]["mine"] == pytest.approx(row["predicted"]["both"], rel=1e-6)


def test_nodes_stay_as_they_were_where_the_policy_does_not_know_new_ones(
    folder: Folder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so once, and goes on."""
    waits: list[int] = []

    def watch() -> Cluster:
        raise ValueError("Policy 'equal' knows one type of GPU.")

    scheduler = LiveScheduler(
        folder.path,
        CLUSTER,
        live_policy("equal", PolicyOptions()),
        stopped=lambda: len(waits) >= 3,
        say=folder.lines.append,
        watch=watch,
    )
    monkeypatch.setattr(LiveScheduler, "_sleep", lambda _: waits.append(1))
    folder.submit("a")
    assert scheduler.run().decisions == 1
    assert scheduler.cluster == CLUSTER
    assert folder.lines.count("Policy 'equal' knows one type of GPU.") == 1


@pytest.mark.parametrize("finished", [True, False])
def test_a_scheduler_that_was_killed_at_the_very_end_ends(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, finished: bool
) -> None:
    """Where its last jobs finished meanwhile; those that did not may come back."""
    folder.submit("a")
    folder.decide("equal")
    folder.tell("a", finished=finished)
    folder.leave("a")
    waits: list[int] = []
    monkeypatch.setattr(LiveScheduler, "_sleep", lambda _: waits.append(1))
    for again in range(2):  # whoever was through once waits for other jobs
        scheduler = LiveScheduler(
            folder.path,
            CLUSTER,
            live_policy("equal", PolicyOptions()),
            until_done=True,
            stopped=lambda: len(waits) >= 3,
        )
        waits.clear()
        decisions = scheduler.run().decisions
        ends = finished and not again
        assert (decisions, len(waits)) == ((1, 0) if ends else (0, 3))
        assert read_placements(allocation_file(folder.path)) == (
            {} if finished else {"a": {"node-0": 1}}
        )


def test_two_schedulers_of_one_cluster_are_refused(
    folder: Folder, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence."""
    with locked(folder.path):
        there = ["schedule", "--cluster", str(folder.path), "--nodes", "1", "--gpus-per-node", "2"]
        assert main(there) == 2
    assert f"Cluster '{folder.path}' has a scheduler already" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "expected both, or --group"),
        (["--nodes", "2"], "expected both, or --group"),
        (["--nodes", "0", "--gpus-per-node", "1"], "expected a whole number, 1 to"),
        (["--group", "a:1:2", "--nodes", "1"], "the nodes are those of --group"),
        (["--group", "a:1:2:t4"], "group 'a' has GPUs of type 't4'; expected none"),
        (["--group", "a:1"], "expected NAME:NODES:GPUS"),
        (["--group", "a:1:2", "--group", "a:1:2"], "is named twice"),
        (["--group", "a:1:2", "--policy", "slaq"], "Policy 'slaq' needs losses"),
        (["--group", "a:1:2", "--policy", "x"], "Policy is 'x'"),
        (["--group", "a:1:2", "--interval", "0"], "expected a finite number above 0"),
        (["--group", "a:1:2", "--interval", "nan"], "expected a finite number above 0"),
        (["--group", "a:1:2", "--restart-delay", "-1"], "number of at least 0"),
        (["--group", "a:1:2", "--seconds", "inf"], "expected a finite number above 0"),
        (["--group", "a:1:2", "--cluster", "file"], "cannot be created"),
    ],
)
def test_a_schedule_that_makes_no_sense_is_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    sentence: str,
) -> None:
    """Exit code 2, one sentence, and no folder."""
    monkeypatch.chdir(tmp_path)
    Path("file").touch()
    assert main(["schedule", "--cluster", "there", *arguments]) == 2
    assert sentence in capsys.readouterr().err
    assert not Path("there").exists()


class Programs:
    """Processes of `goodalloc`, of which none is left behind."""

    def __init__(self, environment: dict[str, str], cluster: Path) -> None:
        self._environment, self.cluster = environment, cluster
        self._running: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """One of them."""
        command, *others = arguments
        process = subprocess.Popen(
            [
                sys.executable,
                "-P",
                "-m",
                "goodalloc.experiments.cli.main",
                command,
                "--cluster",
                str(self.cluster),
                *others,
            ],
            env=self._environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self._running.append(process)
        return process

    def scheduler(self) -> subprocess.Popen[str]:
        """Two slots, dealt out equally."""
        return self.start(
            "schedule",
            "--nodes",
            "1",
            "--gpus-per-node",
            "2",
            "--policy",
            "equal",
            "--interval",
            "1",
            "--until-done",
            "--json",
        )

    def launcher(self, name: str, epochs: int) -> subprocess.Popen[str]:
        """Of a job that takes some seconds."""
        program = str(Path(launched_program.__file__).resolve())
        return self.start(
            "launch", "--name", name, "--", sys.executable, "-P", program, str(epochs), "0.01"
        )

    def steps(self, name: str) -> list[list[int]]:
        """Process, steps and examples of every step that a job made."""
        path = job_folder(self.cluster, name) / "steps.jsonl"
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def kill(self) -> None:
        """All that are left, and all replicas."""
        for process in self._running:
            process.kill()
            process.communicate()
        for folder in (self.cluster / "jobs").glob("*"):
            for one in replicas_left(folder):
                one.kill()


@pytest.fixture
def programs(environment: dict[str, str], tmp_path: Path) -> Iterator[Programs]:
    """On a cluster's folder of their own."""
    found = Programs(environment, tmp_path / "cluster")
    yield found
    found.kill()


@pytest.mark.slow
def test_jobs_go_on_whoever_is_killed(programs: Programs) -> None:
    """A replica, a launcher, the scheduler, then all; lost are the steps since a checkpoint."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    epochs = {"a": 90, "b": 120}
    launchers = {name: programs.launcher(name, epochs[name]) for name in epochs}
    scheduler = programs.scheduler()
    folders = {name: job_folder(programs.cluster, name) for name in epochs}
    eventually(lambda: all(len(programs.steps(name)) > 25 for name in epochs), 60.0)
    (replica,) = replicas_left(folders["a"])
    os.kill(replica.number, signal.SIGKILL)
    launchers["b"].kill()
    scheduler.kill()
    launchers["b"].wait()
    assert not is_locked(folders["b"])
    scheduler.wait()
    launchers["b"] = programs.launcher("b", epochs["b"])
    before = {name: programs.steps(name)[-1] for name in epochs}
    eventually(lambda: all(programs.steps(name)[-1][0] != before[name][0] for name in epochs), 60.0)
    decisions = (programs.cluster / DECISIONS).read_text()
    scheduler = programs.scheduler()  # in whose absence both went on
    eventually(lambda: (programs.cluster / DECISIONS).read_text() != decisions, 60.0)
    programs.kill()
    launchers = {name: programs.launcher(name, epochs[name]) for name in epochs}
    scheduler = programs.scheduler()
    for name in epochs:
        said = launchers[name].communicate(timeout=120.0)
        assert launchers[name].returncode == 0, said
    said = scheduler.communicate(timeout=60.0)
    assert scheduler.returncode == 0, said
    assert json.loads(said[0])["jobs"] in (1, 2)  # a may be done before it looks
    for name in epochs:
        steps, last = programs.steps(name), math.ceil(epochs[name] * EXAMPLES / TOTAL)
        assert steps[-1][1:] == [last, TOTAL * last]
        assert all(examples == TOTAL * step for _, step, examples in steps)
        runs = [list(run) for _, run in groupby(steps, key=lambda row: row[0])]
        assert len(runs) >= 3
        for former, run in pairwise(runs):
            # the step after which a job leaves, as it was told to, has no line
            assert former[-1][1] - CHECKPOINT_STEPS < run[0][1] <= former[-1][1] + 2
            assert [row[1] for row in run] == list(range(run[0][1], run[-1][1] + 1))
        state = read_job_state(folders[name] / STATE)
        assert (state.finished, state.steps, state.examples) == (True, last, TOTAL * last)
        assert replicas_left(folders[name]) == []
    assert read_job_state(folders["b"] / STATE).most_replicas == 2  # once a was done
    assert read_placements(allocation_file(programs.cluster)) == {}


def test_control_c_ends_a_scheduler_cleanly(programs: Programs) -> None:
    """Exit code 130, and what it did."""
    scheduler = programs.scheduler()
    eventually(lambda: programs.cluster.is_dir() and is_locked(programs.cluster))
    scheduler.send_signal(signal.SIGINT)
    text, _ = scheduler.communicate(timeout=20.0)
    assert scheduler.returncode == 130
    assert json.loads(text)["decisions"] == 0
    assert not is_locked(programs.cluster)
