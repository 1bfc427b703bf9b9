"""Gandiva's policy: slices, pairs on trial and migration, on rounds worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.data.workloads.workload import Submission
from goodalloc.experiments.checkpoints.policy_memory import Memory
from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.models.goodput.throughput_model import step_time
from goodalloc.models.round.allocation import Placement
from goodalloc.models.round.cluster import Cluster
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.registry import make_policy
from goodalloc.solvers.shared_gpus.gandiva import Gandiva, most_gpus
from tests.support.memories import recalled
from tests.support.policies.policy_rounds import MODEL, active, round_of
from tests.support.policies.shared_jobs import used

if TYPE_CHECKING:
    from goodalloc.solvers.policies.policy import BatchSizes, Round
    from goodalloc.solvers.shared_gpus.gandiva import Growth, Pairs

WHOLE: Placement = ((0, 4),)

#: Of a job that is slower on more GPUs.
FLAT = MODEL._replace(throughput=MODEL.throughput._replace(beta_grad=0.0, beta_local=1.0))


def test_while_all_jobs_fit_each_runs_alone() -> None:
    """Neither pairs nor slices, and nobody moves."""
    first = Gandiva().decide(round_of(used("a", 4, 0.1), used("b", 4, 0.1)))
    assert {name: len(pairs) for name, pairs in first.placements.items()} == {"a": 1, "b": 1}
    assert not first.beside
    again = round_of(
        used("a", 4, 0.1, placement=first.placements["a"]),
        used("b", 4, 0.1, placement=first.placements["b"]),
    )
    assert Gandiva().decide(again).placements == first.placements


@pytest.mark.parametrize("pairs", ["none", "greedy", "matching"])
def test_slices_go_round(pairs: Pairs) -> None:
    """Three jobs that fill the node run a minute each; where all had as much, who runs goes on."""
    policy, held, ran = Gandiva(pairs), dict[str, Placement](), []
    for minute in range(6):
        jobs = [used(name, 4, 1.0, memory=1.0, placement=held.get(name, ())) for name in "abc"]
        decision = policy.decide(round_of(*jobs, nodes=1, time=60 * minute))
        held = dict(decision.placements)
        ran += list(held)
    assert ran == list("abccab")


def test_longer_slices_are_not_cut_short() -> None:
    """Two minutes each, whoever waits."""
    policy, held, ran = Gandiva(slice_seconds=120.0), dict[str, Placement](), []
    for minute in range(8):
        jobs = [used(name, 4, 1.0, memory=1.0, placement=held.get(name, ())) for name in "ab"]
        held = dict(policy.decide(round_of(*jobs, nodes=1, time=60 * minute)).placements)
        ran += list(held)
    assert ran == list("aabbbbaa")


def test_the_heuristic_pairs_the_least_busy_and_the_matching_those_that_gain_most() -> None:
    """Pairs are taken until the jobs fit: two of the least busy, one of those that gain most."""
    jobs = (
        used("small", 1, 0.1),
        used("a", 4, 0.3),
        used("b", 4, 0.5),
        used("c", 4, 0.5),
        used("d", 4, 0.9),
        used("full", 3, 0.9, memory=0.9),
    )
    greedy = Gandiva().decide(round_of(*jobs, nodes=4))
    assert dict(greedy.beside) == {"small": "a", "c": "b"}
    matching = Gandiva("matching").decide(round_of(*jobs, nodes=4))
    assert dict(matching.beside) == {"c": "b"}


def test_a_pair_without_gain_is_undone_and_never_tried_again() -> None:
    """It did less than the host alone; another pair is tried instead."""
    policy = Gandiva()
    memory = Memory(policy)
    trial = (
        used("a", 4, 0.6, placement=WHOLE, share=0.45),
        used("b", 4, 0.6, placement=WHOLE, host="a", share=0.45),
        used("c", 4, 0.6),
    )
    after = policy.decide(round_of(*trial, nodes=1, time=60))
    assert dict(after.beside) == {"c": "a"}
    alone = (used("a", 4, 0.6), used("b", 4, 0.6))
    for again in (recalled(memory, Gandiva()), policy):
        assert not again.decide(round_of(*alone, nodes=1, time=120)).beside


def test_a_pair_with_gain_stays_as_it_is() -> None:
    """Neither of the two restarts."""
    trial = (
        used("a", 4, 0.6, placement=WHOLE, share=0.8),
        used("b", 3, 0.6, placement=((0, 3),), host="a", share=0.8),
    )
    after = Gandiva().decide(round_of(*trial, nodes=1, time=60))
    assert dict(after.beside) == {"b": "a"}
    assert after.placements == {"a": WHOLE, "b": ((0, 3),)}


def test_jobs_that_never_ran_are_not_paired() -> None:
    """Nobody knows how busy they keep a GPU."""
    jobs = (used("a", 4, 0.1, placement=WHOLE), active("new", 4))
    assert not Gandiva("matching").decide(round_of(*jobs, nodes=1)).beside


def test_a_job_on_two_nodes_moves_to_one_that_has_room() -> None:
    """Unless migration is switched off."""
    job = used("a", 4, 0.5, placement=((0, 2), (1, 2)))
    assert Gandiva().decide(round_of(job)).placements == {"a": WHOLE}
    kept = Gandiva(migrate=False, growth="none").decide(round_of(job)).placements
    assert kept == {"a": ((0, 2), (1, 2))}


def test_jobs_grow_onto_idle_gpus_of_their_servers_and_give_them_back() -> None:
    """The other server is not theirs; a third job has what it asks for at once."""
    policy = Gandiva()
    first = policy.decide(round_of(used("a", 1, 0.5), used("b", 2, 0.5), nodes=3)).placements
    assert first == {"a": ((0, 4),), "b": ((1, 4),)}, "servers of their affinity, as they are"
    grown = [used(name, gpus, 0.5, placement=first[name]) for name, gpus in (("a", 1), ("b", 2))]
    assert policy.decide(round_of(*grown, nodes=3)).placements == first
    third = policy.decide(round_of(*grown, used("c", 8, 0.5), nodes=3)).placements
    assert third == {"a": ((0, 1),), "b": ((1, 3),), "c": ((2, 4), (0, 3), (1, 1))}
    fourth = round_of(*grown, used("c", 9, 0.5), used("d", 1, 0.5), nodes=3)
    assert Gandiva("none").decide(fourth).placements["b"] == ((1, 2),), "nobody grows: one waits"


def test_jobs_that_may_not_or_are_no_faster_do_not_grow() -> None:
    """Not before they ran, nor where the number of GPUs is fixed, nor if it is switched off."""
    job = used("a", 1, 0.5)
    for one, policy in (
        (replace(job, model=lambda: None), Gandiva()),
        (replace(job, fixed_replicas=1), Gandiva()),
        (job, Gandiva(growth="none")),
        (replace(job, model=lambda: FLAT), Gandiva()),
        (replace(job, batch_size=4096), Gandiva(growth="proportional")),
    ):
        assert policy.decide(round_of(one)).placements == {"a": ((0, 1),)}


def test_a_job_grows_as_far_as_it_is_faster_and_its_batch_goes() -> None:
    """By brute force over the step times of its model; a larger batch is bounded by the largest."""
    for replicas in (1, 2, 5):
        job = used("a", replicas, 0.5)
        for nodes in (1, 2):
            rates = {
                gpus: 1024 / float(step_time(MODEL.throughput, nodes, gpus, 1024 / gpus, 0))
                for gpus in range(max(replicas, nodes), 33)
            }
            found = most_gpus(job, nodes, "requested")
            assert found == max(rates, key=rates.__getitem__)
    assert [most_gpus(used("a", n, 0.5), 1, "proportional") for n in (1, 3, 16)] == [4, 12, 64]
    small = replace(used("a", 1, 0.5), batch_size=128)
    assert most_gpus(small, 1, "requested") <= 4, "32 examples for each GPU"


@pytest.mark.parametrize(("growth", "batch"), [("requested", 512), ("proportional", 1024)])
def test_the_batch_of_a_job_that_grew_is_as_the_reading_says(growth: Growth, batch: int) -> None:
    """In a replay of one job of two GPUs, that has four from the third minute on."""

    class Grown:
        batch_sizes: BatchSizes = Gandiva(growth=growth).batch_sizes

        def decide(self, round_: Round) -> Decision:
            return Decision({"only": ((0, 2 if round_.time < 180 else 4),)})

    jobs = [Submission("only", 0, "cifar10", 2, 512)]
    simulator = Simulator(jobs, profiled_applications(), Grown(), Setting(Cluster.uniform(1, 4)))
    for _ in range(4):
        simulator.step()
        job = simulator.jobs[0]
        expected = (2, 512) if simulator.time < 180 else (4, batch)
        assert (job.replicas, job.batch_size) == expected


def test_jobs_that_wait_stay_at_home_unless_they_may_move() -> None:
    """Two share the lowest server; when another is idle, one of them moves there, or waits on."""
    for migrate in (False, True):
        policy = Gandiva("none", migrate=migrate, growth="none")
        names, held = "abc", dict[str, Placement]()
        for minute in range(3):
            jobs = [used(name, 4, 1.0, placement=held.get(name, ())) for name in names]
            held = dict(policy.decide(round_of(*jobs, time=60 * minute)).placements)
        assert set(held) == {"b", "c"} if migrate else {"a", "b"}
        rest = [used(name, 4, 1.0, placement=held.get(name, ())) for name in "ac"]
        after = policy.decide(round_of(*rest, time=180)).placements
        assert len(after) == (2 if migrate else 1)


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"pairs": "all"}, "pairs is 'all'; expected one of none, greedy, matching"),
        ({"slice_seconds": 0.0}, "slice_seconds is 0"),
        ({"migrate": 1}, "migrate is 1; expected true or false"),
        ({"growth": True}, "growth is true; expected one of none, requested, proportional"),
        ({"affinity": "no"}, "affinity is 'no'; expected true or false"),
    ],
)
def test_parameters_that_make_no_sense_are_refused(values: dict[str, Any], complaint: str) -> None:
    """In a sentence."""
    with pytest.raises(ValueError, match=complaint):
        Gandiva(**values)


@pytest.mark.parametrize("name", ["gandiva", "gandiva-exact"])
def test_a_crowded_replay_packs_and_conserves(name: str) -> None:
    """GPUs of hosts are used once, guests are on them, and every job ends."""
    jobs = [
        Submission(f"job-{index}", 30 * index, "cifar10", 1 + index % 3, 512) for index in range(7)
    ]
    setting = Setting(Cluster.uniform(1, 4), restart_delay=1.0)
    simulator = Simulator(jobs, profiled_applications(), make_policy(name), setting)
    packed = 0
    while not simulator.finished:
        record = simulator.step()
        if record is None:
            continue
        own = [job for job in simulator.active if job.placement and not job.host]
        assert sum(job.replicas for job in own) <= 4
        packed += len(record.decision.beside)
        for job in simulator.active:
            assert 0.0 < job.share <= 1.0
    assert packed > 0
    assert all(job.epoch == job.application.epochs for job in simulator.jobs)
