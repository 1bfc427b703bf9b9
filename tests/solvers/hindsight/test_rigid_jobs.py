"""The bound on rigid jobs is below every replay, and exact where it must be."""

from __future__ import annotations

import math

import numpy as np
import pytest

from goodalloc.data.workloads.rigid_jobs import RigidJob
from goodalloc.experiments.studies.gavel.rate_simulator import RateSimulator
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.hindsight.rigid_jobs import rigid_jobs_bound
from goodalloc.solvers.policies.registry import make_policy

ROUND = 60


@pytest.mark.parametrize("policy", ["fifo", "srtf", "tiresias"])
def test_no_replay_is_below_it(policy: str) -> None:
    """Of jobs that come within an hour to crowded nodes."""
    for seed in range(20):
        random = np.random.default_rng(seed)
        jobs = [
            RigidJob(f"job-{i}", float(time), int(gang), length, length)
            for i, (time, gang, length) in enumerate(
                zip(
                    np.sort(random.integers(0, 3600, 12)).tolist(),
                    random.choice([1, 2, 4], 12).tolist(),
                    random.uniform(30.0, 2000.0, 12).tolist(),
                    strict=True,
                )
            )
        ]
        bound = rigid_jobs_bound(
            [job.submission for job in jobs],
            [math.ceil(job.submission / ROUND) * ROUND for job in jobs],
            [job.replicas for job in jobs],
            [job.seconds for job in jobs],
            gpus=4,
        )
        cluster = Cluster.uniform(1, 4)
        done = RateSimulator(jobs, None, cluster, make_policy(policy), ROUND, 30.0).run()
        assert bound <= np.mean([one.jct for one in done]) * (1.0 + 1e-12)


def test_one_gpu_is_left_to_the_shortest_job() -> None:
    """A job of 10 s comes while one of 100 s runs, and goes first: 10 and 110."""
    assert rigid_jobs_bound([0.0, 20.0], [0.0, 20.0], [1, 1], [100.0, 10.0], 1) == pytest.approx(60)


def test_where_nobody_waits_it_is_the_time_alone() -> None:
    """With the wait for the first decision."""
    found = rigid_jobs_bound([5.0, 7.0], [60.0, 60.0], [2, 2], [100.0, 200.0], 8)
    assert found == pytest.approx(np.mean([155.0, 253.0]))


@pytest.mark.parametrize(
    ("jobs", "gpus", "words"),
    [
        (([0.0], [0.0], [8], [60.0]), 4, "it cannot run on the GPUs of the supply"),
        (([0.0], [0.0], [1], [60.0]), 0, "gpus is 0"),
        (([0.0], [0.0], [1], [-60.0]), 4, "work"),
        (([10.0], [0.0], [1], [60.0]), 4, "job-0"),
        (([0.0, 0.0], [0.0], [1], [60.0]), 4, "zip"),
        (([0.0], [0.0], [1], [math.nan]), 4, "work"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(
    jobs: tuple[list[float], list[float], list[int], list[float]], gpus: int, words: str
) -> None:
    with pytest.raises(ValueError, match=words):
        rigid_jobs_bound(*jobs, gpus)
