"""Replays of traces of rigid jobs under every policy that keeps the users' GPUs."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.gavel.workload import GavelJob
from goodalloc.data.workloads.rigid_jobs import ITP, TIRESIAS, RigidJob
from goodalloc.experiments.studies.comparisons import trace_replay
from goodalloc.experiments.studies.comparisons.trace_replay import (
    RIGID,
    TRACE_REPLAY,
    fairness,
    load_of,
)
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.experiments.studies.pollux.fairness import mean_active
from goodalloc.models.gavel.rate_table import Configuration
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.policy_table import POLICIES
from goodalloc.solvers.policies.registry import make_policy

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.experiments.studies.gavel.rate_simulator import Completed
    from goodalloc.solvers.policies.policy import BatchSizes, Round


def replay(
    jobs: list[RigidJob], cluster: Cluster, policy: str, restart: float = 0.0
) -> dict[str, Completed]:
    """By name."""
    done = RateSimulator(jobs, None, cluster, make_policy(policy), 360, restart).run()
    return {one.name: one for one in done}


@settings(max_examples=2)
@given(
    st.lists(
        st.tuples(st.integers(0, 6), st.floats(1.0, 3000.0), st.floats(0.1, 9.0)),
        min_size=1,
        max_size=5,
    )
)
@pytest.mark.parametrize("policy", RIGID)
def test_where_nobody_has_to_wait_jobs_take_as_long_as_alone(
    policy: str, drawn: list[tuple[int, float, float]]
) -> None:
    """A GPU for every job, submitted with a round, and restarts that cost nothing."""
    jobs = [
        RigidJob(f"job{index}", 360.0 * place, 1, seconds, seconds * rate)
        for index, (place, seconds, rate) in enumerate(drawn)
    ]
    done = replay(jobs, Cluster.uniform(len(jobs), 1), policy)
    for job in jobs:
        assert done[job.name].jct == pytest.approx(job.seconds, rel=1e-9)
        assert done[job.name].gpu_seconds == pytest.approx(job.seconds, rel=1e-9)


@pytest.mark.parametrize("policy", RIGID)
def test_nobody_is_faster_than_alone_and_everybody_ends(policy: str) -> None:
    """Gangs that compete for three quarters of what they ask for."""
    random = np.random.default_rng(5)
    jobs = [
        RigidJob(f"job{index}", 100.0 * index, int(random.choice([1, 2, 4])), seconds, seconds)
        for index, seconds in enumerate(random.uniform(200.0, 9000.0, size=12).tolist())
    ]
    done = replay(jobs, Cluster.uniform(2, 4), policy, 30.0)
    completed = np.array([done[job.name].completion for job in jobs])
    assert all(done[job.name].jct >= job.seconds - 1e-6 for job in jobs)
    assert max(completed) >= sum(job.seconds * job.replicas for job in jobs) / 8
    assert (fairness(jobs, completed, 8) > 0).all()


def test_a_job_with_other_gpus_than_it_takes_stands_still() -> None:
    """Two of three, then three."""

    class Grows:
        batch_sizes: BatchSizes = "requested"

        def decide(self, round_: Round) -> Decision:
            return Decision({"a": ((0, 3 if round_.time else 2),)})

    jobs = [RigidJob("a", 0.0, 3, 100.0, 50.0)]
    (done,) = RateSimulator(jobs, None, Cluster.uniform(1, 4), Grows()).run()
    assert done.completion == 460.0
    assert done.gpu_seconds == 2 * 360.0 + 300.0


def test_a_job_without_a_rate_needs_a_table() -> None:
    """In one sentence."""
    job = GavelJob("a", 0.0, Configuration("net", 8), 1, 10.0)
    simulator = RateSimulator([job], None, Cluster.uniform(1, 1), make_policy("fifo"))
    with pytest.raises(ValueError, match="Job 'a' knows no rate of its own; expected a table"):
        simulator.run()


def test_fairness_counts_who_is_there() -> None:
    """Two gangs of the whole cluster, one after the other: the second loses nothing by sharing."""
    jobs = [RigidJob("a", 0.0, 4, 100.0, 1.0), RigidJob("b", 0.0, 4, 100.0, 1.0)]
    completed = np.array([100.0, 200.0])
    submitted = np.zeros(2)
    np.testing.assert_allclose(mean_active(submitted, completed), [2.0, 1.5])
    np.testing.assert_allclose(fairness(jobs, completed, 4), [1 / 2, 2 / 1.5])
    np.testing.assert_allclose(fairness(jobs, completed, 12), [1.0, 2.0])
    assert load_of([*jobs, RigidJob("c", 100.0, 1, 8.0, 1.0)], 8) == pytest.approx(1.01)


def test_what_is_left_out_is_said() -> None:
    """Every policy either is replayed, or the page names its kind."""
    words = set(re.findall(r"\w+", (trace_replay.__doc__ or "").lower().replace("'s", "")))
    for name in set(POLICIES) - set(RIGID):
        kind = {"equal": "shares", "autoscaling": "number"}.get(name.split("-")[0])
        assert (kind or name.split("-")[0]) in words


def test_the_folder_that_is_expected_is_named(tmp_path: Path) -> None:
    """With where its files come from."""
    with pytest.raises(ValueError, match=r"--artifact is not given; expected the folder .*Tiresia"):
        TRACE_REPLAY.require(Plan(tmp_path))
    (tmp_path / TIRESIAS).mkdir()
    with pytest.raises(
        ValueError, match=r"holds 'elasticflow-itp-2021', with .*elasticflow-traces"
    ):
        TRACE_REPLAY.require(Plan(tmp_path, artifact=tmp_path))
    (tmp_path / ITP).mkdir()
    assert TRACE_REPLAY.require(Plan(tmp_path, artifact=tmp_path)) == tmp_path


def test_a_table_and_a_picture_are_made(
    tmp_path: Path, reference: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Few jobs of two traces under two policies; deadlines where there are any."""
    monkeypatch.setattr(trace_replay, "QUICK_JOBS", 12)
    monkeypatch.setattr(trace_replay, "RIGID", ("fifo", "tiresias-gittins"))
    monkeypatch.delitem(trace_replay.TRACES, "itp-small")
    plan = Plan(tmp_path, artifact=reference, quick=True)
    for task in TRACE_REPLAY.tasks(plan):
        task.run(lambda _: None)
        task.run(lambda _: pytest.fail("done already"))
    rows = TRACE_REPLAY.rows(plan)
    assert [row.policy for row in rows if row.trace == "Tiresias"] == [
        "fifo",
        "tiresias-gittins",
        "tiresias-gittins-told",
    ]
    for row in rows:
        assert row.jobs == 12
        assert row.average_jct_hours >= row.alone_hours
        if row.trace == "ElasticFlow":
            assert row.deadlines_met_percent is not None
            assert row.deadlines_possible_percent is not None
            assert row.deadlines_met_percent <= row.deadlines_possible_percent < 100
        else:
            assert row.deadlines_met_percent is None
    assert len(TRACE_REPLAY.shown(rows)) == len(rows)
    TRACE_REPLAY.plot(plan, rows).savefig(tmp_path / "picture.png")
