"""Fits to profiles: right where the model is true, and honest about what they never saw."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.files.instance import read_instance, write_instance
from goodalloc.data.files.measured_profile import read_measured_profile, rows_as_text
from goodalloc.data.files.model_file import read_model
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.measure.profile_fit import (
    BLIND,
    FOLDS,
    PLAIN,
    Method,
    error_rows,
    fit_profile,
    goodput_model,
    methods_for,
    split_folds,
)
from goodalloc.models.goodput.throughput_model import gradient_time, synchronisation_time
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.solvers import solve
from tests.support.profiles import TRUTH, row, some_rows

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.measure.profile_fit import ProfileFit


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profile that follows the model."""
    found = tmp_path_factory.mktemp("profile") / "perceptron.csv"
    found.write_text(rows_as_text(some_rows()), encoding="utf-8")
    return found


@pytest.fixture(scope="module")
def fit(path: Path) -> ProfileFit:
    """Its fit."""
    return fit_profile(read_measured_profile(path))


def test_where_the_model_is_true_what_was_held_out_is_predicted(fit: ProfileFit) -> None:
    """But for the update, a twentieth of a pass, which every pass has or the half of it."""
    plain = fit.profile.accumulation_steps == 0
    for held_out in (False, True):
        passes, steps = fit.predicted(held_out=held_out)
        np.testing.assert_allclose(passes, fit.profile.gradient_time, rtol=0.02)
        np.testing.assert_allclose(steps, fit.profile.step_time, rtol=0.02)
        over = passes / fit.profile.gradient_time - 1.0
        np.testing.assert_allclose(over[plain], -0.0125, atol=5e-3)
        np.testing.assert_allclose(over[~plain], 0.0125, atol=5e-3)
    assert {line["configurations"] for line in error_rows(fit)} == {"fitted", "5-fold held out"}
    assert max(line["rmsle"] for line in error_rows(fit)) < 0.02


@given(seed=st.integers(0, 2**32 - 1))
def test_folds_are_even_and_keep_together_what_the_fit_cannot_tell_apart(
    path: Path, seed: int
) -> None:
    """Accumulation makes no difference to the fit; each number of replicas is in every fold."""
    profile = read_measured_profile(path)
    fold = split_folds(profile, seed)
    kinds, which = np.unique(profile.configurations, axis=0, return_inverse=True)
    parts = [set(fold[which.reshape(-1) == kind].tolist()) for kind in range(len(kinds))]
    assert all(len(part) == 1 for part in parts)
    counts = np.bincount([part.pop() for part in parts], minlength=FOLDS)
    assert counts.max() - counts.min() <= 1
    for replicas in (1, 3, 4):
        assert len(np.unique(fold[profile.replicas == replicas])) == FOLDS


def test_too_few_configurations_are_fitted_but_none_is_held_out(tmp_path: Path) -> None:
    """The command says so."""
    path = tmp_path / "few.csv"
    path.write_text(rows_as_text([row(1, 1, 4, 0), row(1, 1, 8, 0)]), encoding="utf-8")
    fit = fit_profile(read_measured_profile(path))
    assert fit.held_out == ()
    assert [line["configurations"] for line in error_rows(fit)] == ["fitted", "fitted"]
    assert main(["fit", str(path), "--out", str(tmp_path / "few.json")]) == 0


def test_batch_limits_are_those_measured_unless_told(fit: ProfileFit) -> None:
    """Without a noise scale throughput alone counts; with one, efficiency is Pollux's."""
    plain = goodput_model(fit)
    assert plain.batch == (4, 4 * 256 * 2, 4, 256, False)
    assert (plain.gradient.square, plain.gradient.variance) == (0.0, 1.0)
    noisy = goodput_model(fit, noise_scale=100.0, initial=50, maximum=1000)
    assert noisy.batch == (50, 1000, 4, 256, True)
    assert noisy.gradient.variance / noisy.gradient.square * 50 == pytest.approx(100.0)
    with pytest.raises(ValueError, match="maximum batch size is 10"):
        goodput_model(fit, initial=50, maximum=10)
    with pytest.raises(ValueError, match="noise scale is nan"):
        goodput_model(fit, noise_scale=float("nan"))


def test_measured_jobs_mix_with_others_in_an_instance(path: Path, tmp_path: Path) -> None:
    """Added twice, under new names, decided with the rest; the model's file has the same model."""
    target, model = tmp_path / "round.json", tmp_path / "model.json"
    write_instance(Instance(Cluster.uniform(2, 4), (Job("perceptron-1", age=60.0),)), target)
    for jobs in ("2", "1"):
        command = ["fit", str(path), "--into", str(target), "--jobs", jobs, "--out", str(model)]
        assert main([*command, "--noise-scale", "500"]) == 0
    found = read_instance(target)
    assert [job.name for job in found.jobs] == [f"perceptron-{i}" for i in (1, 0, 2, 3)]
    name, fitted = read_model(model)
    assert name == "perceptron"
    assert found.jobs[1].model == fitted
    assert found.jobs[1].max_replicas == 8
    decided = solve(found, "highs")
    assert decided.status == "optimal"
    assert decided.allocation is not None
    assert (decided.allocation.job_replicas > 0).all()
    assert model.with_suffix(".png").stat().st_size > 10_000


@pytest.mark.parametrize(
    "options", [("--out", "p.csv"), ("--out", "m.png"), ("--out", "r.json", "--into", "r.json")]
)
def test_a_fit_writes_over_no_profile_and_no_other_result(
    options: tuple[str, ...],
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    profile = tmp_path / "p.csv"
    profile.write_bytes(before := path.read_bytes())
    write_instance(Instance(Cluster.uniform(2, 4), (Job("a"),)), tmp_path / "r.json")
    assert main(["fit", "p.csv", *options]) == 2
    assert "is named twice" in capsys.readouterr().err
    assert profile.read_bytes() == before


def test_an_initial_batch_that_no_replicas_hold_is_refused(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Such a job could never run; nothing is written."""
    target = tmp_path / "round.json"
    write_instance(Instance(Cluster.uniform(2, 4), (Job("waiting", age=60.0),)), target)
    before = target.read_bytes()
    command = ["fit", str(path), "--into", str(target), "--initial-batch"]
    assert main([*command, "100000"]) == 2
    told = "a batch of 100000 examples needs 391 replicas of at most 256, without accumulation"
    assert told in capsys.readouterr().err
    assert target.read_bytes() == before
    assert main([*command, "2048"]) == 0
    assert "1 job, 2 in all" in capsys.readouterr().out


def test_profiles_of_several_types_make_jobs_with_a_mode_for_each(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A type that is twice as fast is told apart, and taken where there is one."""
    files, target = [tmp_path / f"{kind}.csv" for kind in ("slow", "fast")], tmp_path / "round.json"
    for file, factor in zip(files, (1.0, 0.5), strict=True):
        times = ("pass_s", "update_s", "step_s")
        rows = [row | {name: factor * row[name] for name in times} for row in some_rows()]
        file.write_text(rows_as_text(rows), encoding="utf-8")
    groups = (NodeGroup("old", 1, 4, "t4"), NodeGroup("new", 1, 4, "a100"))
    write_instance(Instance(Cluster(groups), (Job("waiting", age=60.0),)), target)
    named = [f"t4={files[0]}", f"a100={files[1]}"]
    assert main(["fit", *named, "--into", str(target), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["gpu_type"] for row in told["errors"]} == set(told["models"]) == {"t4", "a100"}
    _, job = read_instance(target).jobs
    assert [(mode.name, mode.gpu_type) for mode in job.modes] == [("t4", "t4"), ("a100", "a100")]
    slow, fast = (mode.model.throughput for mode in job.modes)  # type: ignore[union-attr]
    assert fast.beta_grad == pytest.approx(slow.beta_grad / 2, rel=0.05)
    decided = solve(read_instance(target), "highs")
    assert decided.allocation is not None
    entries = zip(decided.allocation.job.tolist(), decided.allocation.node.tolist(), strict=True)
    assert (1, 1) in entries  # on the new node


@pytest.mark.parametrize(
    ("named", "sentence"),
    [
        (("{0}", "{1}"), "its type of GPU is ''; expected one of its own"),
        (("t4={0}", "t4={1}"), "its type of GPU is 't4'; expected one of its own"),
        (("t4={0}", "a100={2}"), "model is 'resnet'; expected 'perceptron' as in the first"),
        (("t4={0}", "k80={1}", "--into", "{3}"), "gpu_type is 'k80'; expected one of the cluster"),
        (("t4={0}", "a100={1}", "--out", "x.json"), "argument --out: got 2 profiles"),
        (("t4=none.csv",), "none.csv' does not exist"),
    ],
)
def test_profiles_that_do_not_belong_together_are_refused(
    named: tuple[str, ...], sentence: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence; nothing is written."""
    files = [tmp_path / name for name in ("a.csv", "b.csv", "other.csv", "round.json")]
    for file, model in zip(files[:3], ("perceptron", "perceptron", "resnet"), strict=True):
        rows = [row | {"model": model} for row in some_rows()]
        file.write_text(rows_as_text(rows), encoding="utf-8")
    waiting = (Job("waiting", age=60.0),)
    write_instance(Instance(Cluster((NodeGroup("old", 1, 4, "t4"),)), waiting), files[3])
    before = files[3].read_bytes()
    assert main(["fit", *(text.format(*files) for text in named)]) == 2
    assert sentence in capsys.readouterr().err
    assert files[3].read_bytes() == before


def rows_with_parts(factor: float = 1.0) -> list[dict[str, object]]:
    """Rows whose synchronisation and overlap are those of the truth, times a factor."""
    rows = []
    for line in some_rows():
        if line["accumulation_steps"] == 0:
            gradient = float(gradient_time(TRUTH, line["atomic_batch_size"]))
            waits = float(synchronisation_time(TRUTH, line["nodes"], line["replicas"]))
            overlap = max(gradient + waits - line["step_s"], 0.0)
            several = line["replicas"] > 1
            line |= {
                "synchronisation_s": factor * waits * several,
                "overlap_s": factor * overlap * several,
                "synchronisation_error": 0.01,
                "overlap_error": 0.01,
            }
        rows.append(line)
    return rows


def test_parts_are_fitted_beside_whole_steps_and_the_better_fit_is_taken(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Four fits are compared; of two a model can be made."""
    path = tmp_path / "parts.csv"
    path.write_text(rows_as_text(rows_with_parts()), encoding="utf-8")
    assert main(["fit", str(path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)["errors"]
    assert {row["fit_to"] for row in told} == set(get_args(Method))
    profile = read_measured_profile(path)
    best = fit_profile(profile)
    plain = [fit_profile(profile, method=method) for method in PLAIN]
    assert best.step_error(held_out=True) == min(one.step_error(held_out=True) for one in plain)
    assert told[0]["fit_to"] == best.method
    contention = fit_profile(profile, method="parts and contention")
    with pytest.raises(ValueError, match="a goodput model has no other terms"):
        goodput_model(contention)


@pytest.fixture(scope="module")
def right(tmp_path_factory: pytest.TempPathFactory) -> ProfileFit:
    """The fit to right parts."""
    path = tmp_path_factory.mktemp("right") / "parts.csv"
    path.write_text(rows_as_text(rows_with_parts()), encoding="utf-8")
    return fit_profile(read_measured_profile(path), method="parts")


@pytest.mark.parametrize("factor", [0.02, 50.0])
def test_nonsense_of_a_profiler_changes_the_fit_to_parts(
    tmp_path: Path, right: ProfileFit, factor: float
) -> None:
    """Its errors grow, so that the model is that of whole steps."""
    path = tmp_path / "nonsense.csv"
    path.write_text(rows_as_text(rows_with_parts(factor)), encoding="utf-8")
    profile = read_measured_profile(path)
    wrong = fit_profile(profile, method="parts")
    assert wrong.parameters != right.parameters
    assert wrong.step_error(held_out=True) > right.step_error(held_out=True)
    assert fit_profile(profile).method in BLIND


def test_a_profiler_that_saw_nothing_leaves_whole_steps(path: Path) -> None:
    """Parts cannot be asked for then; more overlap than synchronisation is refused."""
    profile = read_measured_profile(path)
    assert methods_for(profile) == ("steps", "weighted steps")
    with pytest.raises(ValueError, match="no step of several replicas has parts"):
        fit_profile(profile, method="parts")
    rows = [row | {"overlap_s": 123.0, "synchronisation_s": 12.3} for row in rows_with_parts()]
    other = path.with_name("overlap.csv")
    other.write_text(rows_as_text(rows), encoding="utf-8")
    with pytest.raises(ValueError, match=r"overlap_s is 123; expected at most synchronisation_s"):
        read_measured_profile(other)


def test_a_fit_does_not_import_pytorch(
    path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whatever the command imports when it is carried out."""
    monkeypatch.setitem(sys.modules, "torch", None)
    assert main(["fit", str(path), "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["errors"]) == 8


@pytest.mark.slow
def test_fitting_needs_no_pytorch(
    path: Path, tmp_path: Path, run_python: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    """It is not even looked for."""
    program = (
        "import sys; sys.modules['torch'] = None\n"
        "from goodalloc.experiments.cli.main import main\n"
        f"raise SystemExit(main(['fit', {str(path)!r}, '--json']))"
    )
    done = run_python("-c", program, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["errors"]) == 8


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--jobs", "2"], "argument --jobs: expected --into with it"),
        (["--jobs", "0", "--into", "x.json"], "argument --jobs"),
        (["--into", "none.json"], "does not exist"),
        (["--out", "none/model.json"], "cannot be written"),
        (["--noise-scale", "nan"], "argument --noise-scale"),
        (["--noise-scale", "-1"], "argument --noise-scale"),
        (["--initial-batch", "0"], "argument --initial-batch"),
        (["--initial-batch", "64", "--maximum-batch", "32"], "maximum batch size is 32"),
        (["--maximum-batch", "3"], "maximum batch size is 3"),
        (["--pictures", "gif"], "argument --pictures"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(
    path: Path, arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Exit code 2 and one sentence."""
    assert main(["fit", str(path), *arguments]) == 2
    complaint = capsys.readouterr().err
    assert complaint.count("\n") == 1
    assert sentence in complaint


@pytest.fixture(scope="module")
def written(path: Path) -> str:
    """The text of the model file of the fit."""
    model = path.with_name("written.json")
    assert main(["fit", str(path), "--out", str(model)]) == 0
    return model.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"format": "goodalloc-result"}, "format is 'goodalloc-result'"),
        ({"version": 2}, "version is 2"),
        ({"name": ""}, "name is ''"),
        ({"model": {"one_node": [1.0], "several_nodes": []}}, "expected a goodput model"),
        ({"model": {}}, "key 'throughput' is missing"),
        ({"extra": 1}, "'extra' is unknown"),
    ],
)
def test_a_model_file_that_makes_no_sense_is_refused(
    written: str, tmp_path: Path, change: dict[str, object], sentence: str
) -> None:
    """File, item, value."""
    model = tmp_path / "model.json"
    document = json.loads(written) | change
    model.write_text(json.dumps(document), encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_model(model)
