"""Measuring: what is repeated, where memory ends, what goes on; processes that only pretend."""

from __future__ import annotations

import argparse
import datetime
import itertools
import shlex
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.files.measured_profile import FITS, NO_MEMORY, read_measured_profile, read_rows
from goodalloc.experiments.cli import measure as cli_measure
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.cli.training_arguments import add_measure
from goodalloc.experiments.measure import machine_state, measuring
from goodalloc.experiments.measure.crew import LAUNCHED, launched_size
from goodalloc.experiments.measure.devices import CPUS, Devices
from goodalloc.experiments.measure.execution import Execution
from goodalloc.experiments.measure.measured_configuration import pooled, relative_error
from goodalloc.experiments.measure.measuring import MeasurePlan, Measuring, doubled
from goodalloc.experiments.measure.process import NO_MEMORY as LACKED_MEMORY
from goodalloc.experiments.measure.rank import lacks_memory
from goodalloc.experiments.measure.step_parts import StepParts
from goodalloc.experiments.support import extras
from goodalloc.experiments.support.processes import ProcessEnded
from goodalloc.experiments.tasks.task import TASKS, TrainingTask, find_task, task_digest
from goodalloc.models.goodput.throughput_model import gradient_time, step_time
from tests.support.profiles import FACTS, TRUTH


def drawn(examples: int, generator: object) -> tuple[object, ...]:
    """No batch at all."""
    return examples, generator


TASK = TrainingTask(dict, drawn, max, list, smallest_batch=4, largest_batch=100)


class Pretended:
    """Processes whose passes and steps take exactly what the model says."""

    weights = 1000

    def __init__(self, holds: int = 10**9, ends: int = 10**9, code: int | None = None) -> None:
        self.holds, self.ends, self.code = holds, ends, code
        self.probed: list[tuple[int, int]] = []
        self.cores = iter(list[float]())
        self.killed = False

    def ask(self, doing: str, replicas: int, **order: Any) -> list[dict[str, Any]]:
        """The same from every replica."""
        return [self._answer(doing, replicas, **order)] * replicas

    def _answer(self, doing: str, replicas: int, **order: Any) -> dict[str, Any]:
        kind = order.pop("order")
        if kind == "probe":
            self.size = order["atomic_batch_size"]
            self.probed.append((replicas, self.size))
            if self.size >= self.ends:
                raise ProcessEnded(f"a process ended while {doing}", self.code, "")
            return {"fits": self.size <= self.holds}
        if kind == "split":
            waits = 0.004 * (replicas > 1)
            parts = StepParts(1e-4, 0.01, 0.02, 1e-3, waits, waits / 4, 2e-3)
            return {"parts": [parts] * order["repetitions"], "memory": 100.0}
        passes = float(gradient_time(TRUTH, self.size))
        last = float(step_time(TRUTH, 1, replicas, self.size, 0.0))
        core = next(self.cores, 1.0)
        slower, often = (1.0 if core == 1.0 else 2.0), order["repetitions"]
        return {
            "passes": [0.9 * passes * slower] * often,
            "updates": [0.1 * passes * slower] * often,
            "steps": [(last + order["accumulation_steps"] * 0.9 * passes) * slower] * often,
            "core": core,
        }

    def nodes(self, replicas: int) -> int:
        """Two replicas a node."""
        return -(-replicas // 2)

    def kill(self) -> None:
        """Note it."""
        self.killed = True


def measured(path: Path, plan: MeasurePlan, crew: Pretended, **facts: str) -> Measuring:
    """A measurement that is done, with these processes."""
    found = Measuring(plan, TASK, path, FACTS | facts, lambda: crew)
    found.run()
    return found


def outcomes(path: Path) -> dict[int, str]:
    """What came of the batch sizes in a file."""
    return {int(row["atomic_batch_size"]): row["outcome"] for row in read_rows(path)}


def test_what_is_measured_is_written_and_fits(tmp_path: Path) -> None:
    """Every configuration: doubled sizes, replicas on one node and on several, accumulation."""
    path, crew = tmp_path / "profile.csv", Pretended()
    measured(path, MeasurePlan("perceptron", (1, 2, 4), (0, 2)), crew)
    profile = read_measured_profile(path)
    assert outcomes(path) == dict.fromkeys((4, 8, 16, 32, 64, 100), FITS)
    assert profile.nodes.tolist() == [1, 1, 2] * 12
    assert crew.killed
    shares = 0.9 + 0.1 / (profile.accumulation_steps + 1.0)
    whole = gradient_time(TRUTH, profile.atomic_batch_size)
    np.testing.assert_allclose(profile.gradient_time, shares * whole, rtol=1e-6)
    one_node = profile.nodes == 1
    last = np.asarray(profile.observations().step_time)[0]
    expected = step_time(TRUTH, 1, profile.replicas, profile.atomic_batch_size, 0.0)
    left = np.asarray(expected) - profile.accumulation_steps * (shares - 0.9) * whole
    np.testing.assert_allclose(last[one_node], left[one_node], rtol=1e-5)


def test_traces_of_several_trainings_do_not_overwrite_each_other(tmp_path: Path) -> None:
    """Each training has a folder, named for it; one's own, too."""
    for number, model in enumerate(("perceptron", "tasks/mine.py:small")):
        plan = MeasurePlan(model, (1,), (0,), batch_sizes=(4,))
        path = tmp_path / f"{number}.csv"
        Measuring(plan, TASK, path, FACTS, Pretended, traces=tmp_path / "traces").run()
    found = {one.relative_to(tmp_path / "traces") for one in (tmp_path / "traces").glob("*/*")}
    assert {str(one.parent) for one in found} == {"perceptron", "tasks-mine.py-small"}
    assert {one.name for one in found} == {"replicas-1-batch-4"}


@settings(max_examples=20)
@given(holds=st.integers(1, 120))
def test_where_memory_ends_is_found_by_bisection(
    tmp_path_factory: pytest.TempPathFactory, holds: int
) -> None:
    """Between what fits and what does not lies an eighth at most."""
    path = tmp_path_factory.mktemp("profile") / "profile.csv"
    measured(path, MeasurePlan("perceptron", (1,), (0,)), Pretended(holds=holds))
    found = outcomes(path)
    assert all((outcome == FITS) == (size <= holds) for size, outcome in found.items())
    fits = max([size for size, outcome in found.items() if outcome == FITS], default=0)
    lacks = min([size for size, outcome in found.items() if outcome == NO_MEMORY], default=None)
    if lacks is None:
        assert fits == 100
    elif fits:
        assert lacks - fits <= max(1, fits // 8)


@pytest.mark.parametrize("code", [LACKED_MEMORY, -int(signal.SIGKILL)])
def test_a_process_that_is_killed_for_its_memory_is_a_limit(tmp_path: Path, code: int) -> None:
    """Others are started in its place."""
    path, crews = tmp_path / "profile.csv", list[Pretended]()

    def start() -> Pretended:
        crews.append(Pretended(ends=20, code=code))
        return crews[-1]

    plan = MeasurePlan("perceptron", (1, 2), (0,))
    Measuring(plan, TASK, path, FACTS, start).run()
    assert outcomes(path) == {
        4: FITS,
        8: FITS,
        16: FITS,
        32: NO_MEMORY,
        24: NO_MEMORY,
        20: NO_MEMORY,
        18: FITS,
    }
    assert len(crews) == 4
    assert all(crew.killed for crew in crews)


def test_a_process_that_fails_for_another_reason_ends_all_and_what_was_measured_stays(
    tmp_path: Path,
) -> None:
    """The next one goes on from there, and a profile that is complete starts nothing."""
    path, plan = tmp_path / "profile.csv", MeasurePlan("perceptron", (1, 2), (0,))
    crew = Pretended(ends=20, code=1)
    with pytest.raises(ProcessEnded, match="while training 1 replicas with 32 examples"):
        measured(path, plan, crew)
    assert crew.killed
    assert len(read_rows(path)) == 6
    again = Pretended()
    measured(path, plan, again)
    assert again.probed[0] == (1, 32)
    whole = path.read_bytes()
    last = Pretended()
    measured(path, plan, last)
    assert last.probed == []
    assert path.read_bytes() == whole


def test_larger_batches_are_left_out_where_a_step_takes_too_long(tmp_path: Path) -> None:
    """A tenth of the time; unless batch sizes are given."""
    path = tmp_path / "profile.csv"
    measured(path, MeasurePlan("perceptron", (1,), (0,), seconds=0.025), Pretended())
    assert max(outcomes(path)) == 16  # 2 ms and 0.05 ms an example
    given_sizes = MeasurePlan("perceptron", (1,), (0,), (64, 7), seconds=0.025)
    measured(path.with_name("other.csv"), given_sizes, Pretended())
    assert list(outcomes(path.with_name("other.csv"))) == [7, 64]


def test_disturbed_blocks_are_left_out(tmp_path: Path) -> None:
    """Half of those that count took twice as long."""
    path, crew = tmp_path / "profile.csv", Pretended()
    crew.cores = iter([1.0, 0.5] * 100)
    measured(path, MeasurePlan("perceptron", (1,), (0,), (8,)), crew)
    (row,) = read_rows(path)
    assert 0.4 < float(row["quiet"]) < 0.6
    assert float(row["pass_s"]) == pytest.approx(0.9 * gradient_time(TRUTH, 8), rel=1e-6)


@given(
    values=st.lists(st.floats(0.1, 10.0), min_size=2, max_size=6),
    sizes=st.lists(st.integers(1, 9), min_size=6, max_size=6),
)
def test_visits_are_pooled_as_their_mean_and_its_error(
    values: list[float], sizes: list[int]
) -> None:
    """As by hand, of any number of visits; repetitions add up, the most memory is kept."""
    visits: list[dict[str, Any]] = [
        {
            "visits": 1,
            "quiet": 1.0,
            "pass_s": value,
            "update_s": value / 2,
            "step_s": 2 * value,
            "pass_error": 0.3,
            "step_error": 0.3,
            "synchronisation_s": value,
            "overlap_s": value / 4,
            "synchronisation_error": 0.1,
            "overlap_error": 0.1,
            "peak_memory_mib": float(size),
            "repetitions": size,
            "measuring_s": 1.0,
        }
        for value, size in zip(values, sizes, strict=False)
    ]
    row = visits[0]
    for again in visits[1:]:
        row = pooled(row, again)
    mean, error = np.mean(values), np.std(values, ddof=1) / np.sqrt(len(values))
    assert row["visits"] == len(values)
    assert row["step_s"] == pytest.approx(2 * mean)
    assert row["step_error"] == pytest.approx(error / mean, abs=1e-9)
    assert row["overlap_error"] == pytest.approx(error / 4 / mean, abs=1e-9)
    assert row["repetitions"] == sum(sizes[: len(values)])
    assert row["peak_memory_mib"] == max(sizes[: len(values)])


def test_every_configuration_is_visited_with_all_others_in_between(tmp_path: Path) -> None:
    """Three times by default; what was disturbed in a later visit is visited by the next run."""
    path, crew = tmp_path / "profile.csv", Pretended()
    plan = MeasurePlan("perceptron", (1, 2), (0,), (4, 8))
    found = measured(path, plan, crew)
    order = [(1, 4), (2, 4), (1, 8), (2, 8)]
    assert crew.probed == order * 3
    assert {row["visits"] for row in read_rows(path)} == {"3"}
    assert all(row["step_error"] == 0.0 for row in found.rows)
    disturbed = tmp_path / "disturbed.csv"
    crew = Pretended()
    crew.cores = iter([1.0] * 12 + [0.5] * 10_000)  # those of a visit, with its warm-up
    measured(disturbed, MeasurePlan("perceptron", (1,), (0,), (8,)), crew)
    assert [row["visits"] for row in read_rows(disturbed)] == ["1"]
    measured(disturbed, MeasurePlan("perceptron", (1,), (0,), (8,)), Pretended())
    assert [row["visits"] for row in read_rows(disturbed)] == ["3"]


def test_what_was_disturbed_all_the_time_is_measured_once_more(tmp_path: Path) -> None:
    """In the end, and by the next command; the undisturbed row takes its place."""
    path, crew = tmp_path / "profile.csv", Pretended()
    crew.cores = iter([0.5] * 10_000)
    plan = MeasurePlan("perceptron", (1,), (0,), (8, 16), seconds=0.05, visits=1)
    measured(path, plan, crew)
    assert [size for _, size in crew.probed] == [8, 16, 8, 16]
    slow = [float(row["pass_s"]) for row in read_rows(path)]
    crew = Pretended()
    measured(path, plan, crew)
    assert [size for _, size in crew.probed] == [8, 16]
    assert [float(row["quiet"]) for row in read_rows(path)] == [1.0, 1.0]
    np.testing.assert_allclose([float(row["pass_s"]) * 2 for row in read_rows(path)], slow, 1e-5)


@pytest.mark.parametrize(
    ("name", "value"),
    [("device", "Other"), ("cores", "64"), ("torch", "9"), ("source", "0"), ("model", "resnet")],
)
def test_rows_of_another_machine_version_or_model_are_refused(
    tmp_path: Path, name: str, value: str
) -> None:
    """Before anything is started; the file stays."""
    path, plan = tmp_path / "profile.csv", MeasurePlan("perceptron", (1,), (0,), (8,))
    measured(path, plan, Pretended())
    before = path.read_bytes()
    with pytest.raises(ValueError, match=rf"{name} is '{FACTS[name]}'; expected '{value}' as here"):
        measured(path, plan, Pretended(), **{name: value})
    assert path.read_bytes() == before


def test_too_little_memory_for_the_model_is_bad_input(tmp_path: Path) -> None:
    """Not a limit on the batch size."""

    def start() -> Pretended:
        raise ProcessEnded("replica 0 ended", LACKED_MEMORY, "")

    plan = MeasurePlan("perceptron", memory_gib=0.1)
    with pytest.raises(ValueError, match=r"memory is 0\.1 GiB; expected enough to import"):
        Measuring(plan, TASK, tmp_path / "profile.csv", FACTS, start).run()


@given(values=st.lists(st.floats(0.1, 10.0), min_size=2, max_size=20), scale=st.floats(1e-3, 1e3))
def test_the_relative_error_is_that_of_the_mean_in_any_unit(
    values: list[float], scale: float
) -> None:
    """As by hand; unknown for fewer than two."""
    deviations = np.array(values) - np.mean(values)
    count = len(values)
    by_hand = np.sqrt((deviations**2).sum() / (count - 1) / count) / np.mean(values)
    assert relative_error([scale * v for v in values]) == pytest.approx(by_hand, abs=1e-9)
    assert relative_error(values[:1]) == np.inf


@given(least=st.integers(1, 100), more=st.integers(0, 10_000))
def test_batch_sizes_double_from_the_least_to_the_largest(least: int, more: int) -> None:
    """Both included."""
    task = TrainingTask(dict, drawn, max, list, least, least + more)
    sizes = list(doubled(task))
    assert (sizes[0], sizes[-1]) == (least, least + more)
    assert all(small < large <= 2 * small for small, large in itertools.pairwise(sizes))


@pytest.mark.parametrize(
    ("error", "lacks"),
    [
        (MemoryError(), True),
        (RuntimeError("CUDA out of memory. Tried to allocate"), True),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("out of memory"), False),
    ],
)
def test_complaints_of_allocators_are_told_from_others(error: Exception, *, lacks: bool) -> None:
    """By their words."""
    assert lacks_memory(error) is lacks


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"replicas": ()}, "replicas is empty"),
        ({"replicas": (0,)}, "replicas is 0"),
        ({"replicas": (2, 2)}, "replicas has 2 twice"),
        ({"replicas": (5000,)}, "replicas is 5000"),
        ({"accumulation": ()}, "accumulation is empty"),
        ({"accumulation": (-1,)}, "accumulation is -1"),
        ({"batch_sizes": (0,)}, "batch_sizes is 0"),
        ({"batch_sizes": (4, 4)}, "batch_sizes has 4 twice"),
        ({"error": 0.0}, "error is 0.0"),
        ({"error": float("nan")}, "error is nan"),
        ({"seconds": -1.0}, "seconds is -1.0"),
        ({"seconds": float("inf")}, "seconds is inf"),
        ({"memory_gib": 0.0}, "memory is 0.0"),
        ({"seed": -1}, "seed is -1"),
    ],
)
def test_a_plan_that_makes_no_sense_is_refused(fields: dict[str, Any], sentence: str) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        MeasurePlan("perceptron", **fields)


WHOLE: dict[str, str] = dict(zip(LAUNCHED, ("1", "1", "4", "2", "host", "29500"), strict=True))


def test_the_environment_of_torchrun_is_understood() -> None:
    """Where it is not there, nothing is; other variables do not matter."""
    assert launched_size({"MASTER_ADDR": "host"}) is None
    assert launched_size(WHOLE) == 4


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"MASTER_PORT": None}, "without MASTER_PORT; expected all of"),
        ({"LOCAL_WORLD_SIZE": None}, "without LOCAL_WORLD_SIZE"),
        ({"WORLD_SIZE": None}, "without WORLD_SIZE"),
        ({"RANK": None}, "without RANK"),
        ({"WORLD_SIZE": "four"}, "WORLD_SIZE is 'four'; expected a whole number"),
        ({"RANK": "-1"}, "RANK is '-1'"),
        ({"RANK": "4"}, "RANK is 4; expected 0 to below"),
        ({"LOCAL_WORLD_SIZE": "0"}, "LOCAL_WORLD_SIZE is 0"),
    ],
)
def test_half_an_environment_of_torchrun_is_refused(
    change: dict[str, str | None], sentence: str
) -> None:
    """One sentence with what is there."""
    environment = {k: v for k, v in (WHOLE | change).items() if v is not None}
    with pytest.raises(ValueError, match=sentence):
        launched_size(environment)


GOOD = """
from goodalloc.experiments.tasks.task import TrainingTask
def good(): return TrainingTask(dict, tuple, max, list)
def number(): return 1
def fails(): raise RuntimeError("no luck")
def wrong(): return TrainingTask(1, tuple, max, list)
def empty(): return TrainingTask(dict, tuple, max, list, smallest_batch=0)
def backwards(): return TrainingTask(dict, tuple, max, list, 8, 4)
def wants(this): return this
value = 1
"""


def test_a_task_of_ones_own_is_found_in_a_file_and_told_apart_by_its_text(tmp_path: Path) -> None:
    """Those that ship are found without PyTorch."""
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    assert find_task(f"{path}:good").smallest_batch == 1
    before = task_digest(f"{path}:good")
    assert before == task_digest(f"{path}:good")
    path.write_text(GOOD + "\n", encoding="utf-8")
    assert task_digest(f"{path}:good") != before
    assert {find_task(name).smallest_batch >= 1 for name in TASKS} == {True}


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("number", "returns a int; expected a TrainingTask"),
        ("fails", r"cannot be made \(RuntimeError: no luck\)"),
        ("wrong", r"cannot be made \(ValueError: Task: make_module is 1; expected a function"),
        ("empty", "smallest_batch is 0"),
        ("backwards", "largest_batch is 4"),
        ("wants", "cannot be made .*missing 1 required"),
        ("value", "has no function 'value'"),
        ("none", "has no function 'none'"),
    ],
)
def test_a_task_of_ones_own_that_makes_no_sense_is_refused(
    tmp_path: Path, function: str, sentence: str
) -> None:
    """One sentence that names it."""
    path = tmp_path / "mine.py"
    path.write_text(GOOD, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        find_task(f"{path}:{function}")


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        ("alexnet", "Model 'alexnet' is unknown; expected one of resnet, transformer, neumf"),
        ("", "Model '' is unknown"),
        ("none.py:f", "file 'none.py' does not exist"),
        ("no.such.module:f", "Model 'no.such.module:f' cannot be loaded"),
        ("math:f", "cannot be loaded"),
        ("math:pi", "is a float; expected a function"),
        (":f", "is unknown"),
        ("math:", "is unknown"),
    ],
)
def test_a_model_that_is_not_there_is_refused(name: str, sentence: str) -> None:
    """One sentence that names it."""
    with pytest.raises(ValueError, match=sentence):
        find_task(name)


def test_a_file_that_cannot_be_run_is_refused(tmp_path: Path) -> None:
    """With what it said."""
    path = tmp_path / "mine.py"
    path.write_text("1 / 0", encoding="utf-8")
    with pytest.raises(ValueError, match=r"cannot be run \(ZeroDivisionError: division by zero\)"):
        find_task(f"{path}:f")


def test_without_pytorch_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Before anything else is looked at."""
    monkeypatch.setitem(extras.MODULES, "measure", ("no_such_module",))
    assert main(["measure", "perceptron", "--out", str(tmp_path / "x.csv")]) == 2
    assert "expected an environment with 'goodalloc[measure]'" in capsys.readouterr().err


def test_what_is_not_known_of_a_machine_is_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither files of the system nor the driver of a GPU need be there."""
    monkeypatch.setattr(machine_state, "CPU_FACTS", Path("/none"))
    monkeypatch.setattr(machine_state, "GOVERNOR", Path("/none"))
    monkeypatch.setenv("PATH", "")
    on_cpus = machine_state.present_state(CPUS)
    assert {on_cpus[name] for name in ("governor", "clock_mhz")} == {""}
    gpu = Devices(("T4",), "nccl")
    on_gpus = machine_state.present_state(gpu)
    assert {on_gpus[name] for name in ("governor", "clock_mhz")} == {""}
    assert {machine_state.hardware(one)["driver"] for one in (CPUS, gpu)} == {""}
    assert datetime.date.fromisoformat(on_gpus["date"]) >= datetime.date(2026, 11, 1)


@pytest.mark.parametrize(
    "plan",
    [
        MeasurePlan("perceptron"),
        MeasurePlan("resnet", (1, 4), (0, 2), (8, 64), 0.01, 6.0, 2, 1.5, 7, Execution("bf16")),
        MeasurePlan("own.py:make", execution=Execution("tf32", compiled=True, channels_last=True)),
    ],
)
def test_the_command_in_a_profile_measures_the_same(plan: MeasurePlan) -> None:
    """As its arguments are read again."""
    parser = argparse.ArgumentParser()
    add_measure(parser)
    program, command, *words = shlex.split(plan.command)
    assert (program, command) == ("goodalloc", "measure")
    found = parser.parse_args([*words, "--out", "profile.csv"])
    assert found.model == [plan.model]
    for name in ("replicas", "accumulation", "batch_sizes", "seconds", "visits"):
        assert getattr(found, name) == getattr(plan, name)
    for name in ("error", "seed"):
        assert (getattr(found, name) or getattr(MeasurePlan, name)) == getattr(plan, name)
    assert found.memory == plan.memory_gib
    assert plan.execution == Execution(
        found.precision, found.compiled, channels_last=found.channels_last
    )


def test_an_interrupt_says_what_there_is_and_that_it_goes_on(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Exit code 130; the processes have been ended."""
    pytest.importorskip("torch", reason="needs goodalloc[measure]")
    crew = Pretended()
    rest = iter([True] * 3)
    write = write_atomically

    def interrupted(path: Path, text: str) -> None:
        write(path, text)
        if not next(rest, False):
            raise KeyboardInterrupt

    monkeypatch.setattr(measuring, "write_atomically", interrupted)
    monkeypatch.setattr(cli_measure, "LocalCrew", lambda *_, **__: crew)
    path = tmp_path / "profile.csv"
    assert main(["measure", "perceptron", "--out", str(path)]) == 130
    assert "interrupted; 4 configurations are in" in capsys.readouterr().err
    assert len(read_rows(path)) == 4
    assert crew.killed
