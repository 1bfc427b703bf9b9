"""Step times of DL2's models: what is read, what ships, how well the forms predict them."""

from __future__ import annotations

import csv
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from goodalloc.data.derivation.fit_step_times import derive_step_times, main
from goodalloc.data.documents.shipped import read_shipped, write_document
from goodalloc.data.parameter_servers.step_times import (
    SHIPPED,
    load_core_efficiency,
    load_step_time,
    parse_step_times,
    step_time_names,
)
from goodalloc.data.parameter_servers.worker_speed import read_ps_worker_speed, some_of
from goodalloc.experiments.cli.main import main as command_line
from goodalloc.experiments.studies.catalogue import REPRODUCTIONS
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.parameter_servers import step_time_prediction
from goodalloc.experiments.studies.parameter_servers.step_time_prediction import (
    FORMS,
    relative_error,
)
from goodalloc.models.parameter_servers.configuration import PsConfiguration
from goodalloc.models.parameter_servers.step_time import optimus_step_time, seconds_per_step
from tests.support.documents import BAD_MODELS, changed

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.support.documents import Place

#: Batch sizes, measurements and failed runs by model.
KNOWN = {
    "cnn-text-classification": (50, 78, 0),
    "dssm": (256, 78, 0),
    "inception-bn": (128, 56, 1),
    "resnet-50": (32, 210, 0),
    "resnext-110": (128, 57, 0),
    "seq2seq": (64, 57, 0),
    "vgg-16": (32, 202, 8),
    "wlm": (160, 57, 0),
}

HEADER = "model,sync_mode,total_batch,num_ps,num_worker,sum_speed"


@pytest.fixture(scope="module")
def shipped() -> str:
    """The shipped file."""
    return read_shipped(SHIPPED)


@pytest.fixture(scope="module")
def dl2(reference: Path) -> Path:
    """The folder of DL2's table."""
    return reference / "dl2-ps-worker-speed"


def write_table(folder: Path, *rows: str, header: str = HEADER) -> Path:
    """A table of these rows."""
    (folder / "speed.csv").write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
    return folder


def exact_table(folder: Path) -> tuple[Path, Any]:
    """A table in which a model of Optimus holds exactly, and the model."""
    truth = optimus_step_time((0.01, 0.2, 0.4, 0.02, 0.01), synchronous=True)
    rows = []
    for servers in range(1, 8):
        for workers in range(1, 8):
            seconds = float(seconds_per_step(truth, PsConfiguration(servers, workers), 64))
            rows.append(f"net,dist_sync,64,{servers},{workers},{64 / seconds!r}")
    return write_table(folder, *rows), truth


def test_a_step_takes_the_batch_over_the_speed_of_all_workers(tmp_path: Path) -> None:
    """Rows with speed 0 failed; they are counted and left out."""
    folder = write_table(
        tmp_path, "b,dist_sync,32,1,2,16.0", "a,dist_sync,8,3,1,4", "b,dist_sync,32,2,2,0.0"
    )
    tables = read_ps_worker_speed(folder)
    assert list(tables) == ["a", "b"]
    assert (tables["b"].seconds.tolist(), tables["b"].failed) == ([2.0], 1)
    assert tables["a"].batch_size == 8
    assert np.array_equal(tables["a"].configuration.servers, [3.0])
    assert some_of(tables["b"], np.array([0, 0])).seconds.tolist() == [2.0, 2.0]


def test_the_measurements_of_every_model(dl2: Path) -> None:
    """Nine of 804 runs failed; servers and workers are 24 at most."""
    tables = read_ps_worker_speed(dl2)
    found = {name: (t.batch_size, len(t.seconds), t.failed) for name, t in tables.items()}
    assert found == KNOWN
    assert sum(len(t.seconds) + t.failed for t in tables.values()) == 804
    for name, table in tables.items():
        servers, workers = map(np.asarray, table.configuration[:2])
        profile = load_step_time(name)
        assert (servers + workers).max() <= 24
        assert (profile.most_servers, profile.most_workers) == (servers.max(), workers.max())


def test_the_workers_split_the_total_batch(dl2: Path) -> None:
    """Where they cannot evenly, as many as need one example more are faster by just that much.

    So the speeds are of workers that take equally long for parts of the total.
    """
    with (dl2 / "speed.csv").open(encoding="utf-8") as stream:
        rows = {row["row"]: row for row in csv.DictReader(stream)}
    speeds: dict[str, list[float]] = {}
    with (dl2 / "workers.csv").open(encoding="utf-8") as stream:
        for entry in csv.DictReader(stream):
            speeds.setdefault(entry["row"], []).append(float(entry["speed"]))
    apart = []
    for index, found in speeds.items():
        batch, workers = (int(rows[index][name]) for name in ("total_batch", "num_worker"))
        least, more = divmod(batch, workers)
        if not more or min(found) == 0:
            continue
        ordered = sorted(found)
        parts = [least] * (workers - more) + [least + 1] * more
        seconds = [part / speed for part, speed in zip(parts, ordered, strict=True)]
        apart.append(max(seconds) / min(seconds))
    assert len(apart) == 541
    assert np.median(apart) < 1.005
    assert max(apart) < 1.1


def test_eight_models_ship(shipped: str) -> None:
    """With their errors; the file is in canonical form."""
    assert step_time_names() == tuple(KNOWN)
    for name, (batch, measurements, _) in KNOWN.items():
        profile = load_step_time(name)
        assert (profile.name, profile.batch_size, profile.measurements) == (
            name,
            batch,
            measurements,
        )
        assert 0 < profile.errors.median <= 0.07
        assert profile.errors.median < profile.errors.percentile_90 < profile.errors.maximum
    assert write_document(json.loads(shipped)) + "\n" == shipped


def test_golden_step_times() -> None:
    """VGG-16 waits for one server, a text classifier for its workers."""
    vgg, text = load_step_time("vgg-16"), load_step_time("cnn-text-classification")
    alone, served = PsConfiguration(1, 8), PsConfiguration(8, 8)
    for profile, slow, fast in ((vgg, 7.6546, 2.5539), (text, 0.7495, 0.5460)):
        found = [
            float(seconds_per_step(profile.parameters, one, profile.batch_size))
            for one in (alone, served)
        ]
        assert found == pytest.approx([slow, fast], abs=1e-3)


def test_typical_cores_help_less_and_less() -> None:
    """A server needs two for 99 % of its speed, a CPU worker six."""
    server, worker = (load_core_efficiency(role) for role in ("server", "worker"))
    assert 1 / server.slowdown(2) == pytest.approx(0.99, abs=0.01)
    assert 1 / worker.slowdown(np.array([1, 6])) == pytest.approx([0.53, 0.99], abs=0.01)


def test_deriving_the_step_times_again_gives_the_shipped_file(
    reference: Path, shipped: str, tmp_path: Path
) -> None:
    """The script reproduces what is shipped."""
    out = tmp_path / "step_times.json"
    main(["--reference", str(reference), "--out", str(out)])
    assert_close(json.loads(out.read_text(encoding="utf-8")), json.loads(shipped))


def assert_close(ours: Any, theirs: Any) -> None:
    """Equal but for rounding."""
    if isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for key in ours:
            assert_close(ours[key], theirs[key])
    elif isinstance(ours, float):
        assert ours == pytest.approx(theirs, rel=1e-6, abs=1e-9)
    else:
        assert ours == theirs


@pytest.mark.parametrize("name", KNOWN)
def test_recorded_errors_are_those_of_the_shipped_parameters(dl2: Path, name: str) -> None:
    """Measured again."""
    profile, table = load_step_time(name), read_ps_worker_speed(dl2)[name]
    predicted = seconds_per_step(profile.parameters, table.configuration, profile.batch_size)
    error = np.abs(predicted / table.seconds - 1.0)
    again = (np.median(error), np.percentile(error, 90), error.max())
    assert profile.errors == pytest.approx(again, rel=1e-6)


@pytest.mark.parametrize("name", KNOWN)
def test_the_step_time_is_predicted_within_the_bounds(dl2: Path, name: str) -> None:
    """The median error is 7 % at most with all points, and 10 % from ten, in the median draw.

    Optimus's own form is a little worse, 7.4 % at most.
    """
    table = read_ps_worker_speed(dl2)[name]
    everything = np.arange(len(table.seconds))
    medians = {form: np.median(relative_error(FORMS[form], table, everything)) for form in FORMS}
    assert medians["update 1/p"] <= 0.07
    assert medians["Optimus"] <= 0.074
    for form in FORMS.values():
        few = [
            np.median(
                relative_error(
                    form, table, np.random.default_rng(seed).choice(everything, 10, replace=False)
                )
            )
            for seed in range(20)
        ]
        assert np.median(few) <= 0.10


def test_reproduce_step_times_writes_rows_and_a_picture(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a table in which Optimus holds: no error but where p = w, which tells too little."""
    monkeypatch.setattr(step_time_prediction, "POINTS", range(9, 12))
    monkeypatch.setattr(step_time_prediction, "SEEDS", range(3))
    folder, _ = exact_table(tmp_path)
    arguments = ["reproduce", "step-times", "--artifact", str(folder), "--out", str(tmp_path)]
    assert command_line(arguments) == 0
    shown = capsys.readouterr().out
    assert REPRODUCTIONS["step-times"].title in shown
    assert "random" in shown
    table = pd.read_csv(tmp_path / "step-times.csv")
    assert (tmp_path / "step-times.png").stat().st_size > 10_000
    assert set(table.choice) == {"all", "equal", "random", "design"}
    assert set(table.measurements) == {49}
    assert (table.percentile_90_percent[table.choice != "equal"] < 1e-3).all()
    assert (table.percentile_90_percent[table.choice == "equal"] > 10).all()
    counts = table[table.choice == "random"]
    assert set(counts.points) == {9, 10, 11}
    assert set(counts.draws) == {3}


def test_reproduce_step_times_needs_the_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One sentence says what is missing, or makes no difference."""
    out = ["--out", str(tmp_path / "out")]
    assert command_line(["reproduce", "step-times", *out]) == 2
    assert "expected the folder of DL2's table speed.csv (--artifact)." in capsys.readouterr().err
    given = ["--artifact", str(tmp_path), *out]
    assert command_line(["reproduce", "step-times", *given]) == 2
    assert "speed.csv' does not exist" in capsys.readouterr().err
    assert command_line(["reproduce", "step-times", "--seeds", "1", *given]) == 2
    assert "seeds is 1; it makes no difference there" in capsys.readouterr().err
    with pytest.raises(ValueError, match="quick is True; it makes no difference"):
        REPRODUCTIONS["step-times"].refuse_ignored(Plan(tmp_path, quick=True))


GOOD = "a,dist_sync,32,1,2,16.0"


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ((), "it has no rows"),
        (("a,dist_async,32,1,2,16.0",), "sync_mode is 'dist_async'; expected 'dist_sync'"),
        ((GOOD, "a,dist_sync,64,1,2,16.0"), "total_batch is '64'; expected 32 as in the other row"),
        (("a,dist_sync,0,1,2,16.0",), "total_batch is '0'; expected a whole number of at least 1"),
        (("a,dist_sync,32,0,2,16.0",), "num_ps is '0'"),
        (("a,dist_sync,32,1,-2,16.0",), "num_worker is '-2'"),
        (("a,dist_sync,32,1,1.5,16.0",), "num_worker is '1.5'; expected a whole number"),
        (("a,dist_sync,32,1e10,1,16.0",), "num_ps is '1e10'; .* at most 2147483647"),
        (("a,dist_sync,32,1,2,-1",), "sum_speed is '-1'; .* of at least 0"),
        (("a,dist_sync,32,1,2,",), "sum_speed is ''"),
        (("a,dist_sync,32,1,2,fast",), "sum_speed is 'fast'"),
        (("a,dist_sync,32,1,2,inf",), "sum_speed is 'inf'"),
        (("a,dist_sync,32,1,2,0",), "every sum_speed is 0; expected one above 0"),
    ],
)
def test_a_bad_table_is_refused(tmp_path: Path, rows: tuple[str, ...], words: str) -> None:
    """One sentence that begins with the file."""
    with pytest.raises(ValueError, match=rf"^File '.*speed.csv': .*{words}"):
        read_ps_worker_speed(write_table(tmp_path, *rows))


def test_a_table_without_a_column_is_refused(tmp_path: Path) -> None:
    """Or without a file."""
    with pytest.raises(ValueError, match=r"speed.csv' does not exist"):
        read_ps_worker_speed(tmp_path)
    with pytest.raises(ValueError, match=r"column 'sum_speed' is missing"):
        read_ps_worker_speed(write_table(tmp_path, header=HEADER.removesuffix(",sum_speed")))


def test_a_folder_without_the_measurements_is_refused(tmp_path: Path) -> None:
    """Both folders are needed, and curves of cores that rise."""
    with pytest.raises(ValueError, match="expected a folder that holds dl2-ps-worker-speed"):
        derive_step_times(tmp_path)
    (tmp_path / "dl2-ps-worker-speed").mkdir()
    with pytest.raises(ValueError, match="expected a folder that holds aiturbo-vgpu-params"):
        derive_step_times(tmp_path)
    curves = tmp_path / "aiturbo-vgpu-params"
    curves.mkdir()
    with pytest.raises(ValueError, match=r"cpu_ps.csv' does not exist"):
        derive_step_times(tmp_path)
    (curves / "cpu_ps.csv").write_text("model,a,b,d\nnet,1.0,2.0,3.0\n", encoding="utf-8")
    with pytest.raises(ValueError, match="no curve rises with the cores"):
        derive_step_times(tmp_path)


@pytest.mark.parametrize(
    ("place", "value", "words"),
    [
        *BAD_MODELS,
        (("models", "wlm"), 7, "'wlm' is 7; expected an object"),
        (("models", "wlm", "batch_size"), 0, "batch_size is 0; expected an integer of at least 1"),
        (("models", "wlm", "most_workers"), 1.5, "most_workers is 1.5"),
        (("models", "wlm", "coefficients", "compute"), -1.0, "'wlm': Step time: compute is -1.0"),
        (("models", "wlm", "coefficients", "compute"), "a", "'wlm': coefficients: compute is 'a'"),
        (("models", "wlm", "coefficients", "speed"), 1.0, "key 'speed' is unknown"),
        (("models", "wlm", "errors", "median"), -0.1, "'wlm': median is -0.1"),
        (("form", "update_load"), "any", "update_load is 'any'"),
        (("form", "synchronous"), 1, "synchronous is 1; expected true or false"),
        (("cores", "server", "best"), 0, "best is 0.0; expected a finite number above 0"),
        (("cores", "server", "rate"), None, "cores of a server: rate is null"),
        (("cores", "gpu"), {}, "key 'gpu' is unknown"),
    ],
)
def test_a_bad_document_is_refused(shipped: str, place: Place, value: object, words: str) -> None:
    """One sentence that names the item, its value and what was expected."""
    document = changed(json.loads(shipped), place, value)
    with pytest.raises(ValueError, match=words):
        parse_step_times(json.dumps(document))


BAD: list[tuple[Callable[[], object], str]] = [
    (
        lambda: load_step_time("gpt"),
        "model is 'gpt'; expected one of cnn-text-classification, dssm",
    ),
    (lambda: load_core_efficiency("gpu"), "role is 'gpu'; expected one of server, worker"),
    (lambda: load_step_time(math.nan), "model is nan"),  # type: ignore[arg-type]
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_a_bad_call_is_refused(call: Callable[[], object], words: str) -> None:
    """The library raises ValueError with one sentence."""
    with pytest.raises(ValueError, match=words):
        call()
