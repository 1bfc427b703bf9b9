"""AITurbo and others above the bound on any schedule of cores and GPUs."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.parameter_servers import PsWorkloadOptions, ps_workload
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.beside_bound import BOUND
from goodalloc.experiments.studies.hindsight.pods_above_bound import (
    PODS_ABOVE,
    least_share_between_nodes,
    plot_pods_above,
    steady_pods_jobs,
)
from goodalloc.experiments.studies.parameter_servers.aiturbo_replay import NODES
from goodalloc.experiments.studies.parameter_servers.aiturbo_task import CONTENDERS
from goodalloc.experiments.studies.parameter_servers.setting import PsSetting
from goodalloc.experiments.studies.parameter_servers.simulator import PsSimulator
from goodalloc.models.parameter_servers import PsConfiguration
from goodalloc.solvers.interface import Stop
from goodalloc.solvers.parameter_servers import PsAiturbo, share_between_nodes
from goodalloc.solvers.steady_jobs import steady_jobs_bound
from tests.support.hindsight.one_stage import search_in_one_stage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("most_cores", [6, 16])
def test_no_placement_has_fewer_pairs_between_nodes(most_cores: int) -> None:
    """Of random placements that fit on nodes of different sizes; some have as few."""
    rng, exact = np.random.default_rng(0), 0
    for _ in range(4000):
        capacity = np.column_stack([rng.integers(2, most_cores + 1, 3), rng.integers(0, 5, 3)])
        cores, gpus = rng.integers(1, 4, 2), float(rng.integers(0, 2))
        pods = rng.integers(0, 4, (2, 3))
        held = np.column_stack([cores @ pods, gpus * pods[1]])
        if (pods.sum(axis=1) == 0).any() or (held > capacity).any():
            continue
        (servers, workers), (each, of_worker) = pods.sum(axis=1).tolist(), cores.tolist()
        has = PsConfiguration(servers, workers, each, of_worker, gpus)
        least = float(least_share_between_nodes(has, capacity.astype(float)))
        share = share_between_nodes(*pods)
        assert least <= share + 1e-12
        exact += abs(least - share) < 1e-12
    assert exact > 5


def test_different_nodes_may_hold_most_of_the_servers_and_most_of_the_workers() -> None:
    """One has more GPUs, and one more cores: no node alone says how few pairs are between them."""
    capacity = np.array([[6.0, 4.0], [16.0, 1.0]])
    has = PsConfiguration(5, 4, 3.0, 1.0, 1.0)  # 1 server and 3 workers on one node, 4 and 1
    least = float(least_share_between_nodes(has, capacity))
    assert least <= share_between_nodes(np.array([1, 4]), np.array([3, 1])) == pytest.approx(0.65)
    many = least_share_between_nodes(
        PsConfiguration(np.array([5, 1]), np.array([4, 1]), 3.0, 1.0, 1.0), capacity
    )
    assert many.tolist() == [least, 0.0]
    assert float(least_share_between_nodes(has, np.array([[3.0, 4.0]]))) == 1.0  # never together


@pytest.mark.parametrize("gpus", [(), (4, 0, 0)])
def test_no_replay_is_below_the_bound(
    gpus: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of few jobs on few nodes, with GPUs on all of them or on one."""
    search_in_one_stage(monkeypatch, coarseness=1.0)
    setting = PsSetting(nodes=3, node_gpus=gpus)
    options = replace(PsWorkloadOptions(), jobs=6)
    jobs = ps_workload(1, options)
    problem = steady_pods_jobs(jobs, setting)
    bound = steady_jobs_bound(problem, 2400.0, Stop(iterations=10))
    simulator = PsSimulator(jobs, PsAiturbo("log time"), setting)
    list(simulator.run())
    ends = [job.completion or np.nan for job in simulator.jobs]
    begins = [job.submission.time for job in simulator.jobs]
    assert bound.value <= np.mean(np.array(ends) - begins)


def test_the_bound_of_a_crowded_workload_is_above_the_time_of_the_jobs_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Eight jobs that come within minutes to one node."""
    search_in_one_stage(monkeypatch, coarseness=1.0)
    setting, options = PsSetting(nodes=1), replace(PsWorkloadOptions(), jobs=8, mean_gap=60.0)
    problem = steady_pods_jobs(ps_workload(1, options), setting)
    assert steady_jobs_bound(problem, 2400.0, Stop(iterations=20)).value > 1.05 * problem.lone_value


def test_jobs_that_make_no_problem_are_refused() -> None:
    """None at all, and one that no node can hold."""
    job = ps_workload(1, replace(PsWorkloadOptions(), jobs=1))[0]
    with pytest.raises(ValueError, match="there are no jobs"):
        steady_pods_jobs((), PsSetting())
    choices = replace(job.choices, server_cores=(99,))
    large = replace(job, choices=choices, asked=job.asked._replace(server_cores=99))
    with pytest.raises(ValueError, match=f"Job '{job.name}': no configuration fits on 16 cores"):
        steady_pods_jobs((large,), PsSetting(nodes=1))


@pytest.mark.slow
def test_no_policy_of_the_study_is_below_the_bound(tmp_path: Path) -> None:
    """One workload of half the jobs; the figure has a panel for each cluster."""
    plan = Plan(tmp_path, quick=True, workloads=(11,))
    for task in PODS_ABOVE.tasks(plan):
        task.run(lambda _: None)
    rows = PODS_ABOVE.rows(plan)
    assert len(rows) == len(NODES) * (len(CONTENDERS) + 1)
    assert min(row.above_bound_percent for row in rows) == 0
    assert {row.policy for row in rows if not row.above_bound_percent} == {BOUND}
    assert len(plot_pods_above(rows).axes) == len(NODES)
