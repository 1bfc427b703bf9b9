"""The policies: each does what its paper says, on rounds small enough to work out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.classical.hesrpt import fitted_power
from goodalloc.solvers.policies.policy import Round
from goodalloc.solvers.policies.policy_table import POLICIES, PolicyOptions
from goodalloc.solvers.policies.pollux import PolluxGenetic
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.solvers.policies.spread_placement import FreeGpus
from goodalloc.solvers.policies.tiresias import Tiresias, gittins_index
from tests.support.memories import recalled
from tests.support.policies.policy_rounds import Told, active, round_of

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import ActiveJob, Decision


def gpus(policy: str, *jobs: ActiveJob, nodes: int = 2) -> dict[str, int]:
    """GPUs that every job gets."""
    placements = make_policy(policy).decide(round_of(*jobs, nodes=nodes)).placements
    return {job.name: sum(g for _, g in placements.get(job.name, ())) for job in jobs}


def test_first_come_first_served_lets_nobody_pass() -> None:
    """The second job does not fit beside the first; the third would, and waits."""
    jobs = (active("a", 6), active("b", 4), active("c", 1))
    assert gpus("fifo", *jobs) == {"a": 6, "b": 0, "c": 0}


def test_shortest_remaining_time_first_preempts() -> None:
    """The job that runs has the most left to do, so it stops."""
    jobs = (active("long", 8, placement=((0, 4), (1, 4)), steps=1e6), active("short", 4, steps=10))
    assert gpus("srtf", *jobs) == {"long": 0, "short": 4}


def test_equal_shares_differ_by_one_and_respect_what_was_explored() -> None:
    """Eight GPUs for three jobs; one that ran on one GPU only may have two."""
    jobs = (active("a"), active("b"), active("c", explored=1))
    assert gpus("equal", *jobs) == {"a": 3, "b": 3, "c": 2}


def test_optimus_gives_gpus_where_they_save_most_time() -> None:
    """One each; then the long job gains most until its steps cannot be faster."""
    jobs = (active("long", steps=1000, floor=0.25), active("short", steps=10))
    assert gpus("optimus", *jobs) == {"long": 4, "short": 4}
    jobs = (active("long", steps=1000), active("short", steps=1))
    assert gpus("optimus", *jobs) == {"long": 7, "short": 1}


def test_optimus_leaves_gpus_free_that_nobody_gains_from() -> None:
    """A step that cannot be faster needs no second GPU."""
    assert gpus("optimus", active("only", floor=1.0)) == {"only": 1}


def test_tiresias_moves_a_job_to_the_second_queue_after_its_service() -> None:
    """Sixteen GPU-hours on four GPUs are four hours; a new job then goes first."""
    tiresias = Tiresias()
    old = active("old", 8)
    placed = tiresias.decide(round_of(old, time=0)).placements
    assert sum(g for _, g in placed["old"]) == 8
    running = active("old", 8, placement=placed["old"])
    before, after = 7_199, 7_200
    for time, winner in ((before, "old"), (after, "new")):
        tiresias = Tiresias()
        tiresias.decide(round_of(old, time=0))
        placements = tiresias.decide(round_of(running, active("new", 4), time=time)).placements
        assert set(placements) == {winner}


def test_tiresias_promotes_a_starved_job_only_when_asked_to() -> None:
    """With the knob at 1 a job that waited as long as it ran goes before those that come later."""
    for promote, winner in ((0.0, "third"), (1.0, "old")):
        tiresias = Tiresias(threshold=1000.0, promote=promote)
        tiresias.decide(round_of(active("old", 8), time=0))
        old = active("old", 8, placement=((0, 4), (1, 4)))
        for time, name in ((125, "first"), (250, "second"), (375, "third")):
            placements = tiresias.decide(round_of(old, active(name, 8), time=time)).placements
            old = active("old", 8)
        assert set(placements) == {winner}


def test_the_gittins_index_is_that_of_its_definition() -> None:
    """Jobs of 10, 20 and 100: fresh, two of three end within 50, for (10 + 20 + 50) / 3 each."""
    samples = np.array([10.0, 20.0, 100.0])
    assert gittins_index(samples, 0.0, 50.0) == pytest.approx((2 / 3) / (80 / 3))
    assert gittins_index(samples, 20.0, 50.0) == 0.0
    assert gittins_index(samples, 60.0, 50.0) == pytest.approx(1 / 40)
    assert gittins_index(samples, 100.0, 50.0) == 0.0


def test_gittins_serves_the_job_that_is_likelier_to_end() -> None:
    """Most jobs take 100 GPU-seconds: one that had 640 may take for ever, a new one goes first."""
    services = (100.0,) * 9 + (1e6,)
    for delta, winner in ((None, "old"), (400.0, "new")):
        tiresias = Tiresias(gittins_delta=delta, services=services)
        tiresias.decide(round_of(active("old", 8), time=0))
        running = active("old", 8, placement=((0, 4), (1, 4)))
        placements = tiresias.decide(round_of(running, active("new", 8), time=80)).placements
        assert set(placements) == {winner}


def test_gittins_learns_from_the_jobs_that_end() -> None:
    """A job that ran 100 s on 8 GPUs and is gone leaves 800 GPU-seconds behind."""
    tiresias = Tiresias(gittins_delta=400.0)
    tiresias.decide(round_of(active("first", 8), time=0))
    tiresias.decide(round_of(active("second", 8), time=100))
    assert tiresias.ended == (800.0,)


def test_gpus_are_taken_from_the_emptiest_node_first() -> None:
    """Six of eight where one is held: four from the free node, two from the other."""
    free = FreeGpus(Cluster.uniform(2, 4), [((0, 1),)])
    assert free.total == 7
    assert free.take(6) == ((1, 4), (0, 2))
    with pytest.raises(ValueError, match="GPUs wanted: 2; only 1 are free"):
        free.take(2)


@pytest.mark.parametrize("policy", list(POLICIES))
def test_every_policy_is_feasible_survives_a_checkpoint_and_repeats_itself(policy: str) -> None:
    """Kept and made anew between two rounds it decides as if nothing had happened."""
    jobs = tuple(active(f"job-{index}", 1 + index, submission=index) for index in range(3))
    first, second, third = (make_policy(policy, PolicyOptions(seed=3)) for _ in range(3))
    memory = Memory(first)
    decided = first.decide(round_of(*jobs)).placements
    assert second.decide(round_of(*jobs)).placements == decided
    copy = recalled(memory, third)
    later = tuple(
        active(job.name, job.replicas, placement=tuple(decided.get(job.name, ())))
        for job in (*jobs, active("late", 2))
    )
    one, other = (p.decide(round_of(*later, time=3660)).placements for p in (second, copy))
    assert one == other
    held = [0, 0]
    for placement in one.values():
        for node, count in placement:
            held[node] += count
    assert max(held) <= 4


def value(decision: Decision) -> float:
    """The fitness of what was decided, by the objective that was to be maximised."""
    instance = decision.instance
    assert instance is not None
    placements = [tuple(sorted(decision.placements.get(job.name, ()))) for job in instance.jobs]
    allocation = Allocation.from_placements(placements, instance.cluster.num_nodes)
    return fitness(instance, allocation)


def test_the_genetic_policy_goes_on_from_its_last_population() -> None:
    """With few generations a warm start is no worse than what it left behind."""
    policy = PolluxGenetic(generations=10, seed=1)
    jobs = tuple(active(f"job-{index}") for index in range(4))
    first = policy.decide(round_of(*jobs))
    again = policy.decide(round_of(*jobs, time=3660))
    assert value(again) >= value(first) * (1 - 1e-12)


def test_exact_pollux_reports_its_proof_and_beats_the_genetic_algorithm() -> None:
    """Fitness and bound agree, and no other road is better."""
    jobs = tuple(active(f"job-{index}") for index in range(4))
    exact = make_policy("pollux").decide(round_of(*jobs))
    genetic = make_policy("pollux-genetic").decide(round_of(*jobs))
    greedy = make_policy("pollux-greedy").decide(round_of(*jobs))
    assert exact.bound == pytest.approx(value(exact), rel=1e-9)
    for other in (genetic, greedy):
        assert value(other) <= value(exact) * (1 + 1e-9)


def test_an_unknown_policy_is_refused_by_name() -> None:
    """With the names there are."""
    with pytest.raises(ValueError, match=r"Policy is 'magic'; expected .*tiresias"):
        make_policy("magic")


def test_a_policy_of_ones_own_is_known_by_its_dotted_path() -> None:
    """A class or function that makes it; what makes something else is refused."""
    assert make_policy("goodalloc.solvers.policies.tiresias:Tiresias") == Tiresias()
    for path, complaint in (
        ("goodalloc.solvers.policies.tiresias:Gone", "Policy '.*Gone' cannot be loaded"),
        ("nowhere:Policy", "cannot be loaded"),
        ("goodalloc.solvers.interface.stop:Stop", "makes a Stop; expected one with `decide`"),
    ):
        with pytest.raises(ValueError, match=complaint):
            make_policy(path)


class Typed(Told):
    """An oracle of a job that is so many times faster on the type "fast"."""

    def __init__(self, seconds: float, speedup: float) -> None:
        super().__init__(seconds)
        self.speedup = speedup

    def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
        return 1.0 / self.speedup if gpu_type == "fast" else 1.0


def typed(name: str, seconds: float, speedup: float, replicas: int = 1) -> ActiveJob:
    """A job that waits, on a cluster of slow and fast GPUs."""
    job = active(name, replicas)
    return replace(job, oracle=Typed(seconds, speedup))


def test_allox_sends_jobs_where_the_total_is_least() -> None:
    """One slow and one fast GPU: the shorter job may have to take the slow one, and one waits."""
    cluster = Cluster((NodeGroup("a", 1, 1, "slow"), NodeGroup("b", 1, 1, "fast")))
    for speedups, nodes in (
        ((5.0, 1.2), {"a": 1, "b": 0}),  # 2 and 8 seconds; after a on the fast one 8.7
        ((5.0, 8.0), {"b": 1}),  # 1 and 3 seconds on the fast one: a waits for it
    ):
        jobs = [typed(name, 10.0 - 2 * index, speedups[index]) for index, name in enumerate("ab")]
        decision = make_policy("allox").decide(Round(0, cluster, tuple(jobs)))
        placed = {name: placement[0][0] for name, placement in decision.placements.items()}
        assert placed == nodes


def test_allox_is_shortest_first_on_one_type_and_lets_run_what_runs() -> None:
    """Eight GPUs: the shortest of nine waits for nobody, the longest does; then nobody stops."""
    jobs = tuple(active(f"job-{index}", steps=100.0 - index) for index in range(9))
    allox = make_policy("allox")
    first = allox.decide(round_of(*jobs)).placements
    assert set(first) == {job.name for job in jobs[1:]}
    running = tuple(replace(job, placement=first.get(job.name, ())) for job in jobs)
    short = active("short", steps=1.0)
    assert allox.decide(round_of(*running, short)).placements == first


def test_allox_lets_small_jobs_pass_a_gang_that_does_not_fit() -> None:
    """Of six free GPUs the small jobs take three; eight are not free for the second."""
    running = active("running", 2, placement=((0, 2),), steps=10.0)
    jobs = (active("first", 2), active("second", 8), active("third", 1))
    assert gpus("allox", running, *jobs) == {"running": 2, "first": 2, "second": 0, "third": 1}


def test_allox_gives_a_job_that_asks_for_too_many_gpus_all_there_are_of_a_type() -> None:
    """So that it need not wait for ever."""
    assert gpus("allox", active("huge", 9)) == {"huge": 8}


def test_hesrpt_shares_follow_its_formula() -> None:
    """A speedup of K^0.5 on eight GPUs: of two jobs the smaller has three quarters."""

    class Root(Told):
        def seconds_per_step(self, replicas: int, gpus_per_node: int, gpu_type: str = "") -> float:
            return float(replicas**-0.5)

    jobs = [
        replace(active(name), oracle=Root(steps)) for name, steps in (("long", 9.0), ("short", 3.0))
    ]
    assert fitted_power(jobs, np.array([8, 8]), 4) == pytest.approx(0.5)
    assert gpus("hesrpt", *jobs) == {"long": 2, "short": 6}
    narrow = replace(jobs[1], batch_size=64)  # fits on two GPUs
    assert gpus("hesrpt", jobs[0], narrow) == {"long": 6, "short": 2}


def test_hesrpt_serves_the_shortest_where_speedup_is_linear() -> None:
    """At the greatest power that it takes for one; jobs of one GPU tell it nothing."""
    jobs = (active("long", steps=100.0), active("short", steps=10.0))
    assert gpus("hesrpt", *jobs) == {"long": 0, "short": 8}
    narrow = [replace(job, batch_size=32) for job in jobs]
    assert fitted_power(narrow, np.array([1, 1]), 4) == 0.5
    assert gpus("hesrpt", *narrow) == {"long": 1, "short": 1}
