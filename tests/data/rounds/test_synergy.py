"""Rounds of Synergy: their jobs, modes and rules, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.instance import instance_from_dict, instance_to_dict, read_instance
from goodalloc.data.rounds.sensitivity import CLASSES, load_sensitivity, sensitivity_names
from goodalloc.data.rounds.synergy import PUBLISHED_GPUS, Server, job_modes, synergy_round
from goodalloc.experiments.cli.main import main
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.round.synergy_objective import FLOOR

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def test_a_round_is_full_by_default() -> None:
    """One job of one GPU for every GPU of servers of 8 GPUs, 24 cores and 500 GB."""
    instance = synergy_round(0, 4)
    (group,) = instance.cluster.groups
    assert (group.nodes, group.gpus, dict(group.resources)) == (4, 8, {"cpu": 24.0, "memory": 500})
    assert instance.num_jobs == 32
    assert {(job.min_replicas, job.max_replicas) for job in instance.jobs} == {(1, 1)}
    assert synergy_round(0, 4) == instance != synergy_round(1, 4)


@given(
    seed=st.integers(0, 2**31 - 1), servers=st.integers(1, 9), load=st.sampled_from([0.3, 1, 2.5])
)
def test_jobs_of_many_gpus_never_ask_for_more_than_the_load(
    seed: int, servers: int, load: float
) -> None:
    """They are taken in order, those that still fit."""
    instance = synergy_round(seed, servers, load=load, gpus=PUBLISHED_GPUS)
    asked = [job.max_replicas for job in instance.jobs]
    assert sum(asked) <= load * 8 * servers
    assert set(asked) <= set(PUBLISHED_GPUS)
    assert [job.min_replicas for job in instance.jobs] == asked


@given(seed=st.integers(0, 2**31 - 1))
def test_fitness_is_the_mean_normalised_throughput(seed: int) -> None:
    """Every job with its GPUs on one server: the sum of W over the jobs, and the floor."""
    instance = synergy_round(seed, 3, gpus=PUBLISHED_GPUS)
    random = np.random.default_rng(seed)
    modes = np.array([random.integers(len(job.modes)) for job in instance.jobs])
    total = 0.0
    for index, job in enumerate(instance.jobs):
        alone = Allocation.from_placements(
            [((0, job.max_replicas),) if other == index else () for other in range(len(modes))],
            3,
            modes,
        )
        model = load_sensitivity(job.application)
        taken = dict(job.modes[modes[index]].resources)
        at = (model.cpus.tolist().index(taken["cpu"]), model.memory.tolist().index(taken["memory"]))
        expected = model.throughput[at] / instance.num_jobs + FLOOR
        assert fitness(instance, alone) == pytest.approx(expected, rel=1e-12)
        total += float(model.throughput[at])
    table = mode_utilities(instance).moved
    sizes = [job.max_replicas for job in instance.jobs]
    values = table[instance.first_mode + modes, 0, sizes] - FLOOR
    assert values.sum() == pytest.approx(total, rel=1e-12)


def test_a_job_is_as_fast_over_several_servers_and_idle_on_fewer_gpus() -> None:
    """The published simulator takes nothing off; the number of GPUs is fixed."""
    for mode in job_modes(load_sensitivity("alexnet"), 4):
        assert isinstance(mode.model, SpeedupTable)
        assert mode.model.one_node == mode.model.several_nodes
        assert mode.model.one_node[:3] == (0.0, 0.0, 0.0)
        assert mode.model.one_node[3] >= 1.0


@pytest.mark.parametrize("name", sensitivity_names())
@pytest.mark.parametrize("server", [Server(), Server(8, 48.0, 500.0), Server(4, 10.0, 900.0)])
def test_the_modes_are_those_that_anybody_needs(name: str, server: Server) -> None:
    """Every grid point no slower than the share is matched by a mode with no more of anything."""
    model, modes = load_sensitivity(name), job_modes(load_sensitivity(name), 1, server)
    share = (server.cpus / server.gpus, server.memory / server.gpus)
    found = [(dict(m.resources)["cpu"], dict(m.resources)["memory"], speed(m)) for m in modes]
    inside = [w for c, m, w in found if c <= share[0] and m <= share[1]]
    assert inside == [1.0]
    table = model.throughput
    base = table[np.ix_(model.cpus <= share[0], model.memory <= share[1])].max()
    for c, cpus in enumerate(model.cpus):
        for m, memory in enumerate(model.memory):
            value = table[c, m] / base
            fit = [w for a, b, w in found if a <= cpus and b <= memory]
            assert max(fit, default=0.0) == (value if value >= 1.0 else 0.0)
    for mine in found:
        beaten = [o for o in found if o != mine and o[0] <= mine[0] and o[1] <= mine[1]]
        assert all(other[2] < mine[2] for other in beaten)


def speed(mode: object) -> float:
    """The speedup on one GPU."""
    model = getattr(mode, "model", None)
    assert isinstance(model, SpeedupTable)
    return model.one_node[0]


def test_a_split_draws_classes_by_their_weights() -> None:
    """(0, 0, 1) draws speech alone; (20, 70, 10) about those shares."""
    only = synergy_round(0, 10, split=(0, 0, 1))
    assert {job.application for job in only.jobs} == {"deepspeech", "m5"}
    many = synergy_round(0, 500, split=(20, 70, 10))
    kinds = [load_sensitivity(job.application).kind for job in many.jobs]
    shares = [kinds.count(kind) / len(kinds) for kind in CLASSES]
    assert shares == pytest.approx([0.2, 0.7, 0.1], abs=0.03)


def test_a_round_can_be_written_and_read_back() -> None:
    """Modes, resources and rules included."""
    instance = synergy_round(5, 2, gpus=PUBLISHED_GPUS)
    assert instance_from_dict(instance_to_dict(instance)) == instance


def test_the_command_line_draws_the_same_round(tmp_path: Path) -> None:
    """With the split and the numbers of GPUs as published, under other rules if asked for."""
    file = tmp_path / "round.json"
    options = ["--nodes", "3", "--seed", "7", "--split", "20,70,10", "--several-gpus"]
    assert main(["generate", "--workload", "synergy", *options, "--out", str(file)]) == 0
    drawn = synergy_round(7, 3, split=(20, 70, 10), gpus=PUBLISHED_GPUS)
    assert read_instance(file) == drawn
    command = ["generate", "--workload", "synergy", *options, "--power", "-1", "--out", str(file)]
    assert main([*command, "--interference-avoidance"]) == 0
    rules = drawn.rules.replace(power=-1.0, interference_avoidance=True)
    assert read_instance(file) == drawn.replace(rules=rules)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--workload", "synergy", "--group", "a:1:1"], "--group: makes no difference"),
        (["--workload", "synergy", "--gpus-per-node", "8"], "--gpus-per-node: makes no difference"),
        (["--workload", "synergy", "--state", "cold"], "--state: makes no difference"),
        (["--workload", "synergy", "--rules", "osdi21"], "--rules: makes no difference"),
        (["--split", "1,1,1"], "--split: makes no difference to the workload 'pollux'"),
        (["--several-gpus"], "--several-gpus: makes no difference"),
        (["--workload", "synergy", "--split", "1,1"], "got '1,1'; expected three weights"),
        (["--workload", "tiresias"], "got 'tiresias'; expected one of pollux, synergy"),
    ],
)
def test_arguments_that_make_no_difference_are_refused(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one sentence."""
    assert main(["generate", *options]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: synergy_round(-1), "seed is -1"),
    (lambda: synergy_round(0, 0), "servers is 0"),
    (lambda: synergy_round(0, jobs=0), "jobs is 0"),
    (lambda: synergy_round(0, jobs=5, load=1.0), "jobs is 5 and load is 1.0; expected one"),
    (lambda: synergy_round(0, load=0.0), "load is 0.0"),
    (lambda: synergy_round(0, load=1e9), "load 1e[+]09 on 32 GPUs; expected at most 1000000"),
    (lambda: synergy_round(0, split=(1, 2)), "split is"),  # type: ignore[arg-type]
    (lambda: synergy_round(0, split=(0, 0, 0)), "expected a weight above 0"),
    (lambda: synergy_round(0, split=(1, -1, 0)), "weight of language is -1"),
    (lambda: synergy_round(0, gpus={0: 1.0}), "GPUs of a job is 0"),
    (lambda: synergy_round(0, gpus={1: -1.0}), "weight of 1 GPUs is -1"),
    (lambda: synergy_round(0, gpus={}), "GPUs of jobs are {}; expected a weight"),
    (lambda: synergy_round(0, 1, gpus={16: 1.0}), "expected a weight above 0 of at most 8 GPUs"),
    (lambda: Server(gpus=0), "gpus is 0"),
    (lambda: Server(cpus=0.0), "cpus is 0.0"),
    (lambda: Server(memory=float("nan")), "memory is nan"),
    (lambda: synergy_round(0, server=Server(8, 24.0, 100.0)), "share is 3 cores and 12.5 GB"),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_a_bad_call_is_refused(call: Callable[[], object], words: str) -> None:
    """The library raises ValueError with one sentence."""
    with pytest.raises(ValueError, match=words):
        call()
