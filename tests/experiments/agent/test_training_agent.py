"""Training under an agent: right gradients and statistics, and nothing lost by an interruption."""

from __future__ import annotations

import csv
import gc
import json
import math
import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.job_state import read_job_state
from goodalloc.experiments.agent import fit_process
from goodalloc.experiments.agent.checkpoint import random_states, restore_random, seed_random
from goodalloc.experiments.agent.cluster_folder import CHECKPOINT, STATE
from goodalloc.experiments.agent.example_order import ExampleOrder
from goodalloc.experiments.agent.fit_process import FitProcess
from goodalloc.experiments.agent.options import EXIT_REALLOCATED, AgentOptions
from goodalloc.experiments.agent.pass_times import KEPT, LEAST, MOST, Configuration, PassTimes
from goodalloc.experiments.agent.training_agent import TrainingAgent
from goodalloc.experiments.benchmarks import agent as bench_agent
from goodalloc.experiments.benchmarks import noise_scale as bench_noise_scale
from goodalloc.experiments.support import extras
from goodalloc.experiments.support.compiled import CACHE, compilation_cache
from goodalloc.experiments.support.processes import fresh_interpreter
from goodalloc.models.goodput.batch_split import BatchChoice
from goodalloc.models.goodput.model import BatchLimits
from goodalloc.models.round.cluster import Cluster
from tests.support import agent_program
from tests.support.agent_program import job, train

if TYPE_CHECKING:
    from goodalloc.experiments.support.processes import PipedProcess
    from goodalloc.models.adaptation.batch_rules import BatchRule, Situation
    from goodalloc.models.goodput.throughput_model import ThroughputParameters

ROOT = Path(agent_program.__file__).resolve().parents[2]


#: Makes replicas, which import PyTorch once for all; each says of its jobs in a file.
REPLICAS = """
import os
import sys
import torch._dynamo
from tests.support import agent_program

folder, replicas = sys.argv.pop(1), int(sys.argv.pop(1))
children = []
for rank in range(replicas):
    child = os.fork()
    if child == 0:
        if replicas > 1:
            os.environ["RANK"] = str(rank)
        with open(f"{folder}/said-{rank}", "w") as sys.stdout:
            sys.exit(agent_program.main())
    children.append(child)
print(*(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children))
"""


def start(environment: dict[str, str], replicas: int, *jobs: dict[str, Any]) -> list[Any]:
    """What each of some new replicas says of its jobs; its exit code where it says nothing."""
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = str(door.getsockname()[1])
    group = {"WORLD_SIZE": str(replicas), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    paths = os.pathsep.join([environment["PYTHONPATH"], str(ROOT)])
    with (
        tempfile.TemporaryDirectory() as folder,
        subprocess.Popen(
            [sys.executable, "-P", "-c", REPLICAS, folder, str(replicas), json.dumps(jobs)],
            stdout=subprocess.PIPE,
            text=True,
            env=environment | {"PYTHONPATH": paths} | (group if replicas > 1 else {}),
            start_new_session=True,
        ) as process,
    ):
        try:
            codes = [int(code) for code in process.communicate(timeout=120)[0].split()]
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            raise
        said = [(Path(folder) / f"said-{rank}").read_text() for rank in range(replicas)]
    return [json.loads(words) if words else code for words, code in zip(said, codes, strict=True)]


def allocate(path: Path, placement: dict[str, int]) -> str:
    """A scheduler's file that gives the job something."""
    document = {"format": "goodalloc-allocation", "version": 1, "instance": "now"}
    document_text = json.dumps(document | {"placements": {"mine": placement}})
    path.write_text(document_text, encoding="utf-8")
    return str(path)


@given(st.integers(1, 50), st.integers(0, 9), st.integers(0, 300), st.integers(1, 120))
def test_the_order_is_a_permutation_of_the_examples_every_epoch(
    examples: int, seed: int, begin: int, count: int
) -> None:
    """And any part of it is the same part of the whole."""
    order = ExampleOrder(examples, seed)
    assert order.rows(begin, count) == order.rows(0, begin + count)[begin:]
    assert sorted(order.rows(3 * examples, examples)) == list(range(examples))


@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 9), st.integers(0, 50))
def test_replicas_take_the_examples_that_one_alone_would_take(
    examples: int, replicas: int, atomic: int, begin: int
) -> None:
    """In their order, pass by pass."""
    order = ExampleOrder(examples, 1)
    several = [order.passes(begin, atomic, replicas, rank) for rank in range(replicas)]
    taken = [row for _ in range(3) for one in several for row in next(one)]
    assert taken == order.rows(begin, 3 * replicas * atomic)


def test_pass_times_keep_medians_of_the_last_few_of_the_last_configurations() -> None:
    """One slow pass moves nothing; a configuration counts from the third measurement on."""
    times, one = PassTimes(), Configuration(1, 2, 8)
    for second in [9.0] * KEPT + [1.0] * (KEPT - 1) + [50.0]:
        times.record(one, second, 2.0 * second)
    assert times.table() == [[1.0, 2.0, 8.0, 1.0, 2.0]]
    for atomic in range(1, MOST + 1):
        for _ in range(LEAST if atomic > 1 else LEAST - 1):
            times.record(Configuration(1, 1, atomic), 0.1, 0.2)
    again = PassTimes()
    again.load(json.loads(json.dumps(times.state())))
    assert again.table() == times.table()
    assert [row[2] for row in times.table()] == list(range(2, MOST + 1))
    for bad in (0.0, math.nan, -1.0):
        with pytest.raises(ValueError, match="Pass times: step is"):
            times.record(one, 1.0, bad)


#: Seconds of passes of four sizes, by a model that is known.
TABLE = [[1.0, 1.0, m, 0.01 + 0.001 * m, 0.01 + 0.001 * m] for m in (8.0, 16.0, 32.0, 64.0)]


class Fitted(NamedTuple):
    """What a child found, and the folder of what it may keep for the next."""

    found: ThroughputParameters | None
    folder: Path


@pytest.fixture(scope="module")
def fitted(tmp_path_factory: pytest.TempPathFactory) -> Fitted:
    """A fit by a child whose user has set no folder for what is compiled."""
    folder = tmp_path_factory.mktemp("cache")
    fits, found = FitProcess(), None
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv(CACHE, raising=False)
        patch.setenv("XDG_CACHE_HOME", str(folder))
        try:
            fits.submit([])
            assert not fits.busy
            fits.submit(TABLE)
            deadline = time.monotonic() + 180.0
            while found is None and time.monotonic() < deadline:
                time.sleep(0.02)
                found = fits.collect()
        finally:
            fits.close()
    return Fitted(found, folder)


def test_a_child_fits_the_throughput_model(fitted: Fitted) -> None:
    """And recovers what the times were made by; a fit that takes too long is given up."""
    impatient = FitProcess(patience=0.0)
    impatient.submit(TABLE)
    time.sleep(0.01)
    assert impatient.collect() is None
    assert not impatient.busy
    assert fitted.found is not None
    assert fitted.found[:2] == pytest.approx((0.01, 0.001), rel=0.1)


def test_a_child_that_nobody_closed_ends_with_its_owner(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else every agent that is dropped would leave a process behind."""
    started: list[PipedProcess[bytes]] = []

    def recorded(*arguments: Any, **options: Any) -> PipedProcess[bytes]:
        started.append(fresh_interpreter(*arguments, **options))
        return started[-1]

    monkeypatch.setattr(fit_process, "fresh_interpreter", recorded)
    fits = FitProcess()
    fits.submit([[1.0, 1.0, 8.0, 0.02, 0.02]])
    assert started[0].process.poll() is None
    del fits
    gc.collect()
    assert started[0].process.poll() is not None


def test_what_a_fit_compiled_serves_the_next_child(
    fitted: Fitted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job that starts again has its first fit sooner; what a user has set is left to him."""
    assert any((fitted.folder / "goodalloc" / "jax").iterdir())
    monkeypatch.setenv(CACHE, "elsewhere")
    assert compilation_cache()[CACHE] == "elsewhere"


@pytest.mark.parametrize("passes", [1, 3])
def test_an_agent_that_changes_nothing_trains_as_a_plain_loop_does(
    torch: Any, tmp_path: Path, passes: int
) -> None:
    """To the bit with one pass a step; with three, to rounding."""
    limits = (16, 16, 1, 16, False) if passes == 1 else (24, 24, 1, 8, True)
    agent = job(str(tmp_path), limits=limits, learning_rate="constant", dropout=0.0)
    data = agent.loader.dataset
    plain = job(str(tmp_path / "other"), dropout=0.0).module
    train(agent, 2)
    optimiser, order = torch.optim.SGD(plain.parameters(), lr=0.1), ExampleOrder(203, 0)
    for step in range(agent.steps):
        inputs, classes = data[order.rows(step * limits[0], limits[0])]
        optimiser.zero_grad()
        torch.nn.functional.cross_entropy(plain(inputs), classes).backward()
        optimiser.step()
    pairs = zip(agent.module.parameters(), plain.parameters(), strict=True)
    for one, other in pairs:
        if passes == 1:
            assert torch.equal(one, other)
        else:
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    ("optimiser", "passes", "coordinates"),
    [
        ("sgd", 1, None),
        ("adam", 2, None),
        pytest.param("sgd", 2, None, marks=pytest.mark.slow),
        pytest.param("sgd", 2, 1200, marks=pytest.mark.slow),
    ],
)
def test_the_noise_scale_is_that_of_many_independent_batches(
    tmp_path: Path, optimiser: str, passes: int, coordinates: int | None
) -> None:
    """Within 15 %, on the digits, of two gradients a step or of consecutive ones, or by a half."""
    pytest.importorskip("sklearn", reason="needs goodalloc[predict]")
    case = bench_noise_scale.Case(optimiser, passes, coordinates)
    found = bench_noise_scale.measure(case, epochs=10, batches=800, folder=tmp_path)
    assert found.ratio == pytest.approx(1.0, abs=0.15)


@pytest.mark.usefixtures("torch")
def test_the_benchmark_trains_to_the_same_weights_both_ways(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One pass a step: the agent only watches. A row a case."""
    cases = (bench_agent.Case("perceptron", "adam", 8, 1, 5),)
    monkeypatch.setattr(bench_agent, "CASES", cases)
    monkeypatch.setattr(bench_agent, "fit_seconds", lambda: (0.0, 0.0))
    assert (
        bench_agent.main(["--pairs", "10", "--rounds", "2", "--out", str(tmp_path / "rows.csv")])
        == 0
    )
    (row,) = csv.DictReader((tmp_path / "rows.csv").read_text(encoding="utf-8").splitlines())
    assert float(row["weight_difference"]) == 0.0
    assert float(row["plain_ms"]) > 0.0


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(
    "given",
    [
        {},
        {"optimiser": "adam", "rate": 0.01, "limits": (16, 256, 1, 4, True)},
        {"batch_rule": "noise-scale", "decision_steps": 7, "settling_steps": 1},
        {"batch_rule": "adabatch", "decision_steps": 5, "learning_rate": "constant"},
        {"measure_steps": 4},
        {"most_coordinates": 90, "optimiser": "adam", "rate": 0.01},
    ],
    ids=lambda given: str(given.get("batch_rule", given.get("optimiser", len(given)))),
)
def test_a_job_that_was_killed_ends_with_the_same_bytes(
    environment: dict[str, str], tmp_path: Path, given: dict[str, Any]
) -> None:
    """Killed beyond a checkpoint, it makes the steps since again."""
    whole = train(job(str(tmp_path / "a"), **given), 6)
    given = {"folder": str(tmp_path / "b"), "checkpoint_steps": 6, **given}
    if given.get("batch_rule") == "noise-scale":
        assert start(environment, 1, {**given, "epochs": 6, "kill_at": 16}) == [-signal.SIGKILL]
    else:  # the same without a process of its own
        broken = job(**given)
        batches = broken.batches(6)
        while broken.steps < 16:
            broken.learn(agent_program.cross_entropy(broken, *next(batches)))
    resumed = job(**given)
    assert resumed.steps == 12
    found = train(resumed, 6)
    assert found | {"restarts": 0} == whole
    assert found["restarts"] == 1


class Interrupted(NamedTuple):
    """A job that was given a second replica: what it was asked for, and how its agent ended."""

    given: dict[str, Any]
    code: object
    examples: int


@pytest.fixture(scope="module")
def interrupted(torch: Any, tmp_path_factory: pytest.TempPathFactory) -> Interrupted:
    """It has one replica for six steps, of one pass each."""
    assert torch.get_num_threads() == 1
    folder = tmp_path_factory.mktemp("interrupted")
    file = folder / "allocation.json"
    given: dict[str, Any] = {
        "folder": str(folder / "job"),
        "allocation": allocate(file, {"node-0": 1}),
        "look_seconds": 0.0,
        "limits": (32, 64, 1, 8, True),
    }
    agent = job(**given)
    batches = agent.batches(4)
    while agent.steps < 5:
        agent.learn(agent_program.cross_entropy(agent, *next(batches)))
    allocate(file, {"node-0": 1, "node-1": 1})
    for _ in range(agent.choice.accumulation_steps):
        agent.learn(agent_program.cross_entropy(agent, *next(batches)))
    loss = agent_program.cross_entropy(agent, *next(batches))
    with pytest.raises(SystemExit) as ended:
        agent.learn(loss)
    return Interrupted(given, ended.value.code, agent.examples)


class Replicas(NamedTuple):
    """Jobs of two replicas: what they were asked for, and what each replica says of each."""

    jobs: list[dict[str, Any]]
    said: list[Any]


@pytest.fixture(scope="module")
def replicas(
    environment: dict[str, str], interrupted: Interrupted, tmp_path_factory: pytest.TempPathFactory
) -> Replicas:
    """Two jobs with different optimisers, and the interrupted one, which goes on."""
    jobs: list[dict[str, Any]] = [
        {
            "optimiser": optimiser,
            "rate": 0.02,
            "dropout": 0.0,
            "limits": (16, 32, 1, 8, True),
            "batch_rule": "noise-scale",
            "decision_steps": 20,
            "settling_steps": 1,
            "folder": str(tmp_path_factory.mktemp(optimiser) / "job"),
        }
        for optimiser in ("sgd", "adam")
    ]
    epochs = [{**mine, "epochs": 5} for mine in jobs] + [{**interrupted.given, "epochs": 2}]
    return Replicas(jobs, start(environment, 2, *epochs))


def test_two_replicas_train_as_one_that_makes_two_passes(replicas: Replicas) -> None:
    """Both see the same examples; statistics, losses and rates agree to rounding."""
    several = [said[:2] for said in replicas.said]
    assert several[0] == several[1]
    for mine, found in zip(replicas.jobs, several[0], strict=True):
        alone = train(job(**mine | {"folder": mine["folder"] + "-alone"}), 5)
        for name in ("examples", "progress", "loss", "gradient"):
            assert found[name] == pytest.approx(alone[name], rel=1e-2), name
        assert found["choice"][1] == 1  # it came to accumulate


def test_another_allocation_ends_the_job_which_goes_on_there(
    interrupted: Interrupted, replicas: Replicas
) -> None:
    """From one replica to two, which make two passes each, and back; the order goes on."""
    given = interrupted.given
    file, folder = Path(given["allocation"]), given["folder"]
    assert interrupted.code == EXIT_REALLOCATED
    assert interrupted.examples == 6 * 32
    found = [said[2] for said in replicas.said]
    assert [one["restarts"] for one in found] == [1, 1]
    assert found[0]["choice"] == [8, 1, 1.0]
    assert found[0]["examples"] == 13 * 32 >= 2 * 203
    state = read_job_state(Path(folder) / STATE)
    assert (state.replicas, state.nodes, state.placement) == (2, 2, {"node-0": 1, "node-1": 1})
    assert state.max_replicas == 4
    assert state.job(Cluster.uniform(2, 1)).placement == ((0, 1), (1, 1))
    with pytest.raises(SystemExit):  # started on what it no longer has
        train(job(**given), 4)
    allocate(file, {"node-1": 1})
    last = train(job(**given), 4)
    assert last["restarts"] == 3
    assert last["choice"] == (8, 3, 1.0)
    assert read_job_state(Path(folder) / STATE).max_replicas == 4


@pytest.mark.usefixtures("torch")
def test_an_allocation_that_cannot_be_read_does_not_end_a_training(tmp_path: Path) -> None:
    """Neither at its start nor later; one that says something else does once it can be read."""
    file = tmp_path / "allocation.json"
    file.write_text("{", encoding="utf-8")
    agent = job(str(tmp_path / "job"), allocation=str(file), look_seconds=0.0)
    allocate(file, {"node-0": 1})
    agent = job(str(tmp_path / "job"), allocation=str(file), look_seconds=0.0)
    for step, batch in enumerate(agent.batches(2)):
        if step == 3:
            file.write_bytes(b"\xff")
        if step == 6:
            allocate(file, {"node-0": 1})
        agent.learn(agent_program.cross_entropy(agent, *batch))
    assert agent.steps == 26
    more = agent.batches(4)
    loss = agent_program.cross_entropy(agent, *next(more))
    allocate(file, {"node-0": 2})
    for _ in range(agent.choice.accumulation_steps):
        agent.learn(loss)
        loss = agent_program.cross_entropy(agent, *next(more))
    with pytest.raises(SystemExit) as ended:
        agent.learn(loss)
    assert ended.value.code == EXIT_REALLOCATED


def test_replicas_that_go_on_as_others_draw_numbers_of_their_own(torch: Any) -> None:
    """The same ones whenever they begin at the same step."""

    def drawn(*entropy: int) -> tuple[float, float, float]:
        seed_random(entropy)
        return random.random(), np.random.random(), float(torch.rand(()))  # noqa: NPY002

    before = random_states()
    try:
        assert drawn(0, 12, 0) == drawn(0, 12, 0)
        several = [drawn(0, 12, 0), drawn(0, 12, 1), drawn(0, 18, 0), drawn(1, 12, 0)]
        assert len(set(several)) == 4
        assert all(len(set(one)) == 3 for one in several)
    finally:
        restore_random(before)


@pytest.mark.usefixtures("torch")
def test_a_training_is_over_after_its_epochs_or_when_it_says_so(tmp_path: Path) -> None:
    """It is in the published state, and the checkpoint is of the last step."""
    for folder, steps in (("whole", 13), ("short", 5)):
        agent = job(str(tmp_path / folder))
        for inputs, classes in agent.batches(1):
            assert not (tmp_path / folder / STATE).exists()
            agent.learn(agent_program.cross_entropy(agent, inputs, classes))
            if agent.steps == steps < 13:
                agent.finish()
                break
        state = read_job_state(tmp_path / folder / STATE)
        assert (state.finished, state.steps) == (True, steps)
        assert job(str(tmp_path / folder)).steps == steps


def listening(
    folder: Path, wanted: BatchChoice, **options: Any
) -> tuple[list[Situation], TrainingAgent]:
    """What a rule is told in an epoch, at the beginning and every four steps; M0 is 16."""
    seen: list[Situation] = []

    class Mine:
        def choose(self, situation: Situation) -> BatchChoice:
            seen.append(situation)
            return wanted if situation.gradient else situation.present

    rule: BatchRule = Mine()
    agent = job(str(folder / "plain"), learning_rate="linear", dropout=0.0)
    agent = TrainingAgent(
        agent.module,
        agent.optimiser,
        agent.loader,
        AgentOptions(
            "mine",
            folder / "mine",
            BatchLimits(16, 64, 1, 32, True),
            rule,
            "linear",
            decision_steps=4,
            **options,
        ),
    )
    train(agent, 1)
    assert agent.optimiser.param_groups[0]["lr"] == 0.1
    assert agent.epoch == 1
    return seen, agent


@pytest.mark.usefixtures("torch")
def test_a_rule_gets_what_there_is_and_the_batch_follows_it(tmp_path: Path) -> None:
    """Loss, learning rate as scaled, statistics; the learning rate is put back."""
    seen, _ = listening(tmp_path, BatchChoice(16, 1, 0.5))
    rates = [one.learning_rate for one in seen]
    assert rates == pytest.approx([0.1, 0.1, 0.1 * 2.0 * 0.5])
    assert [one.gradient is None for one in seen] == [True, False, False]
    assert [one.present for one in seen] == [(8, 1, 1.0), (8, 1, 1.0), (16, 1, 0.5)]
    assert 0.0 < seen[1].loss < 2.0


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize(("settling", "steps"), [(4, 4 + 3), (5, 4 + 4 + 1), (100, 4 + 4 + 1)])
def test_the_batch_at_most_doubles_until_the_statistics_have_settled(
    tmp_path: Path, settling: int, steps: int
) -> None:
    """Four steps of 16 are in them at the second question; then come 64, or four of 32 and 64."""
    seen, agent = listening(tmp_path, BatchChoice(32, 1), settling_steps=settling)
    assert [one.present.total(1) for one in seen[:2]] == [16, 16]
    assert (agent.examples, agent.steps) == (256, steps)


@pytest.mark.usefixtures("torch")
def test_a_companion_goes_into_the_checkpoint(tmp_path: Path) -> None:
    """Here a scheduler of the learning rate, which sets the rate tuned for M0."""
    import torch

    def scheduled() -> tuple[TrainingAgent, Any]:
        plain = job(str(tmp_path / "plain"))
        optimiser = plain.optimiser
        decay = torch.optim.lr_scheduler.ExponentialLR(optimiser, 0.5)
        options = AgentOptions("mine", tmp_path / "job")
        loader = plain.loader
        return TrainingAgent(plain.module, optimiser, loader, options, {"decay": decay}), decay

    agent, decay = scheduled()
    train(agent, 1)
    decay.step()
    agent.save()
    again, resumed = scheduled()
    assert resumed.get_last_lr() == [0.05]
    assert again.optimiser.param_groups[0]["lr"] == 0.05
    with pytest.raises(ValueError, match="companion 'decay' is in only one of checkpoint and"):
        TrainingAgent(again.module, again.optimiser, again.loader, again.options)


@pytest.mark.usefixtures("torch")
def test_a_gradient_that_is_not_finite_leaves_the_statistics_alone(tmp_path: Path) -> None:
    """One overflow would spoil the averages for good."""
    agent = job(str(tmp_path), limits=(16, 16, 1, 8, True), rate=0.0)
    for inputs, classes in agent.batches(1):
        loss = agent_program.cross_entropy(agent, inputs, classes)
        agent.learn(loss * math.inf if agent.steps == 3 else loss)
    assert agent.gradient is not None
    assert all(map(math.isfinite, agent.gradient))
    assert np.isfinite(agent.progress)


@pytest.mark.usefixtures("torch")
def test_batches_and_learn_take_turns(tmp_path: Path) -> None:
    """One sentence where they do not."""
    agent = job(str(tmp_path))
    batches = agent.batches(1)
    inputs, classes = next(batches)
    with pytest.raises(ValueError, match="a batch was not learnt; expected `learn`"):
        next(batches)
    agent = job(str(tmp_path))
    loss = agent_program.cross_entropy(agent, inputs, classes)
    with pytest.raises(ValueError, match="nothing to learn"):
        agent.learn(loss)
    with pytest.raises(ValueError, match="epochs is 0"):
        next(agent.batches(0))


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"name": ""}, "name is ''"),
        ({"learning_rate": "best"}, "learning_rate is 'best'; exp"),
        ({"seed": -1}, "seed is -1"),
        ({"nodes": 0}, "nodes is 0"),
        ({"decision_steps": 0}, "decision_steps is 0"),
        ({"settling_steps": 0}, "settling_steps"),
        ({"measure_steps": 0}, "measure_steps is"),
        ({"most_coordinates": 0}, "most_coordinates is 0; expected an integer of at least 1"),
        ({"checkpoint_steps": 1.5}, "checkpoint_steps is 1.5"),
        ({"publish_seconds": math.nan}, "publish_seconds is nan"),
        ({"look_seconds": -1.0}, "look_seconds is -1.0"),
        ({"decay": 1.0}, "decay is 1.0"),
        ({"decay": -0.1}, "decay is -0.1"),
        ({"batch_rule": "fixed"}, "batch_rule is 'fixed'"),
        ({"batch": (1, 2, 3, 4)}, "batch is (.*); expected BatchLimits"),
        ({"batch": BatchLimits(32, 16, 1, 16)}, "initial is 32; expected at most maximum"),
        ({"batch": BatchLimits(0, 16, 1, 16)}, "initial is 0"),
        ({"batch": BatchLimits(16, 16, math.nan, 16)}, "atomic_minimum is nan"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    tmp_path: Path, fields: dict[str, Any], sentence: str
) -> None:
    """Item, value, what was expected."""
    with pytest.raises(ValueError, match=sentence):
        AgentOptions(**{"name": "mine", "folder": tmp_path, **fields})


@pytest.mark.usefixtures("torch")
def test_one_of_several_processes_without_a_group_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """It would train alone, and leave as soon as it looked at what it was given."""
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(ValueError, match="WORLD_SIZE is 2, but this process is in no group; exp"):
        job(str(tmp_path))


def test_a_training_that_makes_no_sense_is_refused(torch: Any, tmp_path: Path) -> None:
    """Loader, optimiser, folder."""
    from torch.utils.data import DataLoader, TensorDataset, WeightedRandomSampler

    module, options = torch.nn.Linear(2, 2), AgentOptions("mine", tmp_path / "job")
    optimiser = torch.optim.SGD(module.parameters(), 0.1)
    data = TensorDataset(torch.ones(4, 2))
    good = DataLoader(data, 2)

    def refused(sentence: str, *arguments: Any) -> None:
        with pytest.raises(ValueError, match=sentence):
            TrainingAgent(*arguments)

    refused("Loader is 3; expected a DataLoader", module, optimiser, 3, options)
    drawn = DataLoader(data, 2, sampler=WeightedRandomSampler([1.0] * 4, 4))
    refused("drawn by WeightedRandomSampler", module, optimiser, drawn, options)
    refused("batch_size is null", module, optimiser, DataLoader(data, None), options)
    rate = torch.optim.SGD(module.parameters(), torch.tensor(0.1))
    refused("learning rate is tensor", module, rate, good, options)
    refused("nodes is 2", module, optimiser, good, AgentOptions("mine", tmp_path, nodes=2))
    (tmp_path / "file").touch()
    folder = AgentOptions("mine", tmp_path / "file" / "job")
    refused("cannot be made", module, optimiser, good, folder)
    for one in module.parameters():
        one.requires_grad = False
    refused("0 parameters require a gradient", module, optimiser, good, options)


def test_a_checkpoint_that_makes_no_sense_is_refused(torch: Any, tmp_path: Path) -> None:
    """Damaged, of something else, or with code in it, of which nothing is run."""
    agent = job(str(tmp_path))
    train(agent, 1)
    path = tmp_path / CHECKPOINT
    whole = torch.load(path, weights_only=True)

    def refused(sentence: str, **changes: Any) -> None:
        torch.save(whole | changes, path)
        with pytest.raises(ValueError, match=sentence) as raised:
            job(str(tmp_path))
        assert "\n" not in str(raised.value)

    refused("is of job 'other'; expected 'mine'", name="other")
    refused("version is 1; expected 2", version=1)
    refused("has 1 parameters of other shapes than the module's 4", parameters=[(1, 2)])
    refused("cannot be read", module=os.system)
    torch.save({"version": 2}, path)
    with pytest.raises(ValueError, match="has other parts"):
        job(str(tmp_path))
    for content in (b"", b"nonsense", path.read_bytes()[:200]):
        path.write_bytes(content)
        with pytest.raises(ValueError, match="cannot be read"):
            job(str(tmp_path))


def test_where_pytorch_is_not_installed_one_sentence_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Before anything is done."""
    monkeypatch.setitem(extras.MODULES, "measure", ("no_such_module",))
    with pytest.raises(ValueError, match=r"A training agent needs .*'goodalloc\[measure\]'"):
        TrainingAgent(None, None, None, AgentOptions("mine", tmp_path))
