"""How a training computes: what becomes of modules and batches, and what profiles tell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.measured_profile import (
    NOT_SEEN,
    SINCE,
    read_measured_profile,
    read_rows,
    rows_as_text,
)
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure.execution import PLAIN, Execution
from goodalloc.experiments.tasks.task import find_task
from tests.support.profiles import some_rows

if TYPE_CHECKING:
    from pathlib import Path

torch = pytest.importorskip("torch", reason="needs goodalloc[measure]")

CPU = torch.device("cpu")


def losses_of(execution: Execution, device: Any, name: str = "resnet") -> list[float]:
    """Losses of some steps on one batch."""
    task = find_task(name)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        module = execution.prepare(task.make_module(), device)
    batch = execution.batch(task.draw_batch(8, torch.Generator().manual_seed(1)), device)
    optimiser = task.make_optimiser(module.parameters())
    losses = []
    for _ in range(4):
        optimiser.zero_grad()
        with execution.forward(device):
            loss = task.loss(module, batch)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    return losses


@pytest.mark.parametrize("execution", [Execution("bf16"), Execution(channels_last=True)])
def test_the_same_task_is_learnt_however_it_computes(execution: Execution) -> None:
    """To the precision of its numbers."""
    plain, found = losses_of(PLAIN, CPU), losses_of(execution, CPU)
    assert found[-1] < found[0]
    assert found[0] == pytest.approx(plain[0], rel=0.05)
    assert (found == plain) <= (execution.precision == "fp32")


def test_products_in_a_forward_pass_have_the_precision_that_is_asked_for() -> None:
    """Weights stay in single precision."""
    matrix = torch.ones(2, 2)
    for precision, dtype in (("fp32", torch.float32), ("bf16", torch.bfloat16)):
        with Execution(precision).forward(CPU):  # type: ignore[arg-type]
            assert (matrix @ matrix).dtype == dtype
    module = Execution("bf16").prepare(torch.nn.Linear(2, 2), CPU)
    assert module.weight.dtype == torch.float32


def test_channels_are_last_in_images_and_in_what_folds_them() -> None:
    """Other parts of a batch stay as they are."""
    execution = Execution(channels_last=True)
    images, classes = execution.batch((torch.zeros(2, 3, 8, 8), torch.zeros(2)), CPU)
    assert images.is_contiguous(memory_format=torch.channels_last)
    assert classes.shape == (2,)
    module = execution.prepare(torch.nn.Conv2d(3, 4, 3), CPU)
    assert module.weight.is_contiguous(memory_format=torch.channels_last)


def test_numbers_are_rounded_as_on_gpus_only_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence, at the command line too."""
    with pytest.raises(ValueError, match="precision is 'tf32' on a CPU; expected 'fp32' or 'bf16'"):
        Execution("tf32").prepare(torch.nn.Linear(1, 1), CPU)
    with pytest.raises(ValueError, match="Execution: precision is 'fp8'; expected one of fp32"):
        Execution("fp8")  # type: ignore[arg-type]
    if not torch.cuda.is_available():
        out = str(tmp_path / "x.csv")
        assert main(["measure", "perceptron", "--precision", "tf32", "--out", out]) == 2
        assert "argument --precision: got tf32" in capsys.readouterr().err


def test_a_profile_tells_how_it_was_computed(tmp_path: Path) -> None:
    """And is not continued otherwise."""
    path = tmp_path / "profile.csv"
    command = ["measure", "resnet", "--batch-sizes", "4", "--replicas", "1", "--out", str(path)]
    quick = ["--accumulation", "0", "--error", "1", "--seconds", "0.1", "--precision", "bf16"]
    assert main([*command, *quick, "--channels-last"]) == 0
    facts = read_measured_profile(path).facts
    assert {name: facts[name] for name in SINCE} == Execution("bf16", channels_last=True).columns
    (row,) = read_rows(path)
    assert row["command"] == (
        "goodalloc measure resnet --replicas 1 --batch-sizes 4 --accumulation 0 --error 1 "
        "--seconds 0.1 --visits 3 --precision bf16 --channels-last"
    )
    assert main([*command, *quick]) == 2  # the file has its channels last


def test_files_of_earlier_versions_were_computed_plainly(tmp_path: Path) -> None:
    """Their columns are three fewer."""
    path = tmp_path / "profile.csv"
    lines = [line.split(",") for line in rows_as_text(some_rows()).splitlines()]
    kept = [place for place, name in enumerate(lines[0]) if name not in SINCE | NOT_SEEN]
    text = "\n".join(",".join(line[place] for place in kept) for line in lines)
    path.write_text(text + "\n", encoding="utf-8")
    facts = read_measured_profile(path).facts
    assert {name: facts[name] for name in SINCE} == SINCE == PLAIN.columns


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # by PyTorch itself
def test_a_compiled_module_computes_the_same() -> None:
    """To rounding."""
    plain = losses_of(PLAIN, CPU, "perceptron")
    assert losses_of(Execution(compiled=True), CPU, "perceptron") == pytest.approx(plain, rel=1e-3)


@pytest.mark.gpu
@pytest.mark.parametrize("precision", ["fp32", "tf32", "bf16"])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("channels_last", [False, True])
def test_every_execution_learns_on_a_gpu(
    precision: Any, *, compiled: bool, channels_last: bool
) -> None:
    """ResNet, in all combinations; products are rounded where that is asked for alone."""
    flags = torch.backends.cudnn, torch.backends.cuda.matmul
    before = [one.allow_tf32 for one in flags]
    try:
        found = losses_of(Execution(precision, compiled, channels_last), torch.device("cuda"))
        assert {one.allow_tf32 for one in flags} == {precision == "tf32"}
    finally:
        for one, allowed in zip(flags, before, strict=True):
            one.allow_tf32 = allowed
    assert found[-1] < found[0]
