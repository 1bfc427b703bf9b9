"""Rounds with cores and memory: what they hold, how fast jobs are, and that they are decided."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest

from goodalloc.data.files.instance import instance_text
from goodalloc.data.rounds.awkward import awkward_round
from goodalloc.data.rounds.equipped import CORES, MEMORY_SHARES, equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.typed import generate_typed
from goodalloc.experiments.benchmarks.nodes import SETS, main
from goodalloc.experiments.gap.comparison import usual_solvers
from goodalloc.formulations.mode_rounds.aggregate import build_aggregate
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.goodput.input_pipeline import InputPipeline, bounded_by_input
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.heuristics.greedy_modes import mode_greedy
from goodalloc.solvers.interface.result import Status
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer
from tests.support.random_instances import random_mode_instance

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

PARAMETERS = ThroughputParameters(0.1, 0.01, 0.1, 0.0, 0.2, 0.0, 1.5)


def test_the_slowest_stage_of_the_input_pipeline_sets_the_pace() -> None:
    """Few cores, then little memory, then the GPU itself (equation 1, worked out by hand)."""
    pipeline = InputPipeline(core_seconds=0.06, fetch_seconds=0.04, data_gb=100.0)
    few_cores = bounded_by_input(PARAMETERS, pipeline, 2, 100.0)
    assert few_cores == PARAMETERS._replace(beta_grad=0.03)
    little_memory = bounded_by_input(PARAMETERS, pipeline, 12, 25.0)
    assert little_memory.beta_grad == pytest.approx(0.03)
    assert bounded_by_input(PARAMETERS, pipeline, 12, 100.0) == PARAMETERS


@pytest.mark.parametrize(
    ("pipeline", "cores", "memory", "words"),
    [
        (InputPipeline(-1.0), 1, 0.0, "core_seconds is -1.0"),
        (InputPipeline(1.0, data_gb=0.0), 1, 0.0, "data_gb is 0.0"),
        (InputPipeline(1.0), 0, 0.0, "cores is 0"),
        (InputPipeline(1.0), 1, float("nan"), "memory_gb is nan"),
    ],
)
def test_pipelines_that_make_no_sense_are_refused(
    pipeline: InputPipeline, cores: float, memory: float, words: str
) -> None:
    """One sentence with the value."""
    with pytest.raises(ValueError, match=words):
        bounded_by_input(PARAMETERS, pipeline, cores, memory)


@pytest.mark.parametrize("memory", [None, 512.0])
def test_equipped_jobs_have_a_mode_for_everything_they_may_have(memory: float | None) -> None:
    """Cores times amounts of memory; nodes have both; running jobs keep their nodes."""
    plain = generate(3, 30, 6, 8, state="running")
    instance = equip(plain, 3, memory=memory)
    assert instance.cluster.resource_names == (("cpu",) if memory is None else ("cpu", "memory"))
    amounts = 1 if memory is None else len(MEMORY_SHARES)
    for job, before in zip(instance.jobs, plain.jobs, strict=True):
        assert len(job.modes) == len(CORES) * amounts
        assert job.placement == before.placement
        assert bool(job.mode) == bool(job.placement)
    assert not violations(instance, instance.current)


def test_more_cores_and_memory_never_slow_a_job_down() -> None:
    """The utility on any GPUs rises with the cores and with the memory of a replica."""
    instance = equip(generate(5, 20, 4, 8), 5, memory=512)
    moved = mode_utilities(instance).moved
    table = moved.reshape(20, len(CORES), len(MEMORY_SHARES), *moved.shape[1:])
    assert (np.diff(table, axis=1) >= -1e-12).all()
    assert (np.diff(table, axis=2) >= -1e-12).all()
    assert (np.diff(table, axis=1) > 1e-6).any()
    assert (np.diff(table, axis=2) > 1e-6).any()


def test_equal_arguments_give_equal_bytes() -> None:
    """Another seed gives other pipelines for the same jobs."""
    texts = [instance_text(equip(generate(1, 10, 2, 8), seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_a_round_on_several_types_keeps_them() -> None:
    """Every type with all cores; the shares differ by group."""
    typed = generate_typed(1, 10)
    instance = equip(typed, 1, cores=(24, 64, 32))
    assert len(instance.jobs[0].modes) == 3 * len(CORES)
    assert {mode.gpu_type for mode in instance.jobs[0].modes} == {"a100", "rtx2080ti", "t4"}


def _with_table() -> Instance:
    job = Job("table", model=SpeedupTable((1.0,), ()))
    return generate(1, 2, 2, 8).replace(jobs=(job,))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cores": -1.0}, "cores of 'node' is -1.0"),
        ({"cores": (1.0, 2.0)}, "cores has 2 values"),
        ({"cores": 4}, "has 4 cores for 8 GPUs"),
        ({"memory": 0.0}, "memory of 'node' is 0.0"),
    ],
)
def test_equipment_that_makes_no_sense_is_refused(arguments: dict[str, float], words: str) -> None:
    """One sentence that names the group and the value."""
    with pytest.raises(ValueError, match=words):
        equip(generate(1, 2, 2, 8), 1, **arguments)


def test_jobs_without_a_goodput_model_are_refused() -> None:
    """A table of speedups knows of no input pipeline."""
    with pytest.raises(ValueError, match="Job 'table': its model is of type SpeedupTable"):
        equip(_with_table(), 1)


@pytest.mark.parametrize("name", SETS)
def test_generated_rounds_are_proved_and_feasible(name: str) -> None:
    """Every set of the benchmark, small: optimal to the set's gap, greedy no better."""
    draw, gap = SETS[name]
    instance = draw(1, 24, 6)
    result = solve(instance, "highs", stop=Stop(gap=gap))
    assert result.status is Status.OPTIMAL
    assert result.allocation is not None
    assert not violations(instance, result.allocation)
    greedy, _ = mode_greedy(instance)
    assert not violations(instance, greedy)
    assert fitness(instance, greedy) <= result.bound * (1 + 1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_awkward_rounds_do_not_pack_as_the_aggregate_chooses(seed: int) -> None:
    """The optimum is proved all the same, below what the cluster has in all would be worth."""
    instance = awkward_round(seed, 20, 5, rules=Rules(power=1.0, max_nodes_per_job=1))
    result = solve(instance, "highs")
    assert result.status is Status.OPTIMAL
    choices = enumerate_mode_choices(instance)
    program = build_aggregate(instance, choices, -choices.utility)
    aggregate = run_mixed_integer(program, Watch(Stop()), gap=1e-9)
    assert aggregate.values is not None
    assert -aggregate.objective / instance.num_jobs > result.fitness * (1 + 1e-4)


@pytest.mark.parametrize("power", [1.0, -1.0])
def test_the_order_of_jobs_modes_and_nodes_changes_nothing(power: float) -> None:
    """The bound and the fitness of a round and of the same with everything renumbered."""
    drawn = SETS["three_kinds"][0](2, 16, 6)
    instance = drawn.replace(rules=drawn.rules.replace(power=power))
    backwards = tuple(job.replace(modes=job.modes[::-1]) for job in instance.jobs[::-1])
    cluster = type(instance.cluster)(instance.cluster.groups[::-1])
    other = instance.replace(jobs=backwards, cluster=cluster)
    first, second = (solve(one, "highs", stop=Stop(gap=1e-9)) for one in (instance, other))
    assert first.fitness == pytest.approx(second.fitness, rel=1e-8)
    assert first.bound == pytest.approx(second.bound, rel=1e-8)


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_greedy_is_feasible_and_no_better_than_the_optimum_where_jobs_have_modes(
    first: int,
) -> None:
    """Random small rounds: pinned jobs, rules and types of GPU included."""
    for seed in range(first, first + 20):
        instance = random_mode_instance(seed)
        result = solve(instance, "greedy")
        assert result.allocation is not None
        assert not violations(instance, result.allocation)
        assert result.fitness <= solve(instance, "brute_force").fitness * (1 + 1e-9)


def test_a_time_limit_leaves_an_allocation_and_its_bound() -> None:
    """Too little time for anything: greedy stands in, with a proven bound."""
    instance = SETS["one_node"][0](0, 80, 16)
    mode_utilities(instance)
    result = solve(instance, "highs", stop=Stop(seconds=1e-3))
    assert result.allocation is not None
    assert result.status is not Status.UNKNOWN
    assert result.fitness <= result.bound < np.inf


def test_the_benchmark_of_nodes_prints_medians_and_writes_rows(
    tmp_path: object, capsys: pytest.CaptureFixture[str]
) -> None:
    """One tiny size, two sets."""
    target = f"{tmp_path}/nodes.csv"
    assert (
        main(["--sets", "one_node,awkward", "--sizes", "8x2", "--seeds", "2", "--out", target]) == 0
    )
    printed = capsys.readouterr().out
    assert printed.count("2/2") == 2
    with open(target) as file:
        assert len(file.readlines()) == 5


def test_models_of_equipped_jobs_are_goodput_models() -> None:
    """Jobs that never ran have none, in every mode."""
    instance = equip(generate(7, 40, 4, 8), 7)
    for job in instance.jobs:
        kinds = {type(mode.model) for mode in job.modes}
        assert kinds in ({GoodputModel}, {type(None)})


def test_the_usual_solvers_know_what_counts_in_an_instance() -> None:
    """GPUs alone, cores, several types: each of them has an answer in a second."""
    plain = generate(1, 4, 2, 8)
    for instance in (plain, equip(plain, 1), generate_typed(1, 4)):
        for name in usual_solvers(instance):
            assert solve(instance, name, stop=Stop(seconds=1.0)).allocation is not None
    assert usual_solvers(plain) == ("highs", "local_search", "greedy", "genetic")
