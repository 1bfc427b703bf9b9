"""`goodalloc verify`: what it prints, and its exit codes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.files.allocation import write_allocation
from goodalloc.data.files.instance import instance_from_dict, write_instance
from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.verification.verify import verify
from goodalloc.models.round.objective import fitness
from tests.support.certification.certificates import certificate

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

#: A round whose model is resolved when it is read.
SHORT: dict[str, Any] = {
    "format": "goodalloc-instance",
    "version": 1,
    "cluster": [{"name": "node", "nodes": 2, "gpus": 2}],
    "models": {"image": {"application": "cifar10", "progress": 0.3}},
    "jobs": [
        {"name": "a", "model": "image", "age": 900, "placement": {"node-0": 2}},
        {"name": "b", "model": "image", "age": 60},
    ],
}


def files(folder: Path, instance: Instance, bound: float) -> list[str]:
    """An allocation, what runs now, and a certificate without prices, as files."""
    value = fitness(instance, instance.current)
    claim = certificate(instance, {"prices": {}}, bound, value)
    (folder / "certificate.json").write_text(json.dumps(claim), encoding="utf-8")
    write_allocation(instance.current, instance, folder / "allocation.json")
    return [str(folder / "allocation.json"), str(folder / "certificate.json")]


def test_a_certificate_of_a_shipped_instance_is_verified(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """By its name; as text and as JSON, and exactly."""
    instance = load_benchmark("tiny-disturbed")
    given = files(tmp_path, instance, 50.0)
    assert main(["verify", "tiny-disturbed", *given]) == 0
    assert capsys.readouterr().out.startswith("verified       True\n")
    assert main(["verify", "tiny-disturbed", *given, "--json", "--exact"]) == 0
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["verified"]
    assert verdict["feasible"]
    assert verdict["fitness"] == pytest.approx(fitness(instance, instance.current), rel=1e-13)
    assert verdict["fitness"] <= verdict["bound"] <= verdict["claimed"] == 50.0


def test_a_claim_that_is_not_proved_has_exit_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verdict says why; an infinite bound is null in JSON."""
    given = files(tmp_path, load_benchmark("tiny-disturbed"), 1e-3)
    assert main(["verify", "tiny-disturbed", *given]) == 1
    assert "0.001 is claimed." in capsys.readouterr().out
    assert main(["verify", "tiny-cold", *given, "--json"]) == 1
    verdict = json.loads(capsys.readouterr().out)
    assert verdict["reasons"] == ["Certificate: its digest is not that of the instance."]
    assert verdict["bound"] is None


def test_models_of_shipped_applications_are_resolved_before(tmp_path: Path) -> None:
    """The checker itself knows no applications, and a certificate is of the resolved document."""
    path = tmp_path / "short.json"
    path.write_text(json.dumps(SHORT | {"name": "short"}), encoding="utf-8")
    instance = instance_from_dict(SHORT | {"name": "short"})
    assert main(["verify", str(path), *files(tmp_path, instance, 50.0)]) == 0


def test_the_resolved_instance_is_what_the_checker_reads_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Written by `--resolved`; never over a file that is read."""
    path, resolved = tmp_path / "short.json", tmp_path / "resolved.json"
    path.write_text(json.dumps(SHORT | {"name": "short"}), encoding="utf-8")
    instance = instance_from_dict(SHORT | {"name": "short"})
    given = files(tmp_path, instance, 50.0)
    documents = [json.loads(Path(name).read_text(encoding="utf-8")) for name in given]
    assert not verify(json.loads(path.read_text(encoding="utf-8")), *documents).verified
    assert main(["verify", str(path), *given, "--resolved", str(resolved)]) == 0
    assert f"written        {resolved}" in capsys.readouterr().out
    assert verify(json.loads(resolved.read_text(encoding="utf-8")), *documents).verified
    assert main(["verify", str(path), *given, "--resolved", str(path)]) == 2
    assert "is named twice" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fitness": 2.0}, "Result: fitness is 2.0; the allocation is worth"),
        ({"bound": 1e-6}, "Result: bound is 1e-06; the allocation is worth"),
    ],
)
def test_a_result_that_misstates_itself_is_not_verified(
    changes: dict[str, float], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Even where its allocation and the certificate are right."""
    result, proof = str(tmp_path / "result.json"), str(tmp_path / "proof.json")
    assert main(["solve", "tiny-cold", "--out", result, "--certificate", proof]) == 0
    assert main(["verify", "tiny-cold", result, proof]) == 0
    assert "No allocation is worth more than" in capsys.readouterr().out
    document = json.loads(Path(result).read_text(encoding="utf-8"))
    Path(result).write_text(json.dumps(document | changes), encoding="utf-8")
    assert main(["verify", "tiny-cold", result, proof]) == 1
    assert words in capsys.readouterr().out


@pytest.mark.parametrize("bad", [0, 1])
def test_a_file_that_is_none_has_exit_code_2(
    bad: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """An instance in the place of an allocation or a certificate, or nothing at all."""
    given = files(tmp_path, load_benchmark("tiny-cold"), 50.0)
    given[bad] = str(tmp_path / "gone.json")
    assert main(["verify", "tiny-cold", *given]) == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "gone.json").write_text(json.dumps(SHORT), encoding="utf-8")
    assert main(["verify", "tiny-cold", *given]) == 2
    assert "format is 'goodalloc-instance'" in capsys.readouterr().err


@pytest.mark.parametrize(
    "options", [["--certificate", "i"], ["--out", "i"], ["--out", "o", "--certificate", "o"]]
)
def test_no_file_of_solve_is_written_over_another(
    options: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The instance stays as it is, and nothing is decided."""
    monkeypatch.chdir(tmp_path)
    write_instance(load_benchmark("tiny-cold"), tmp_path / "i")
    before = (tmp_path / "i").read_bytes()
    assert main(["solve", "i", *options]) == 2
    assert "is named twice; expected different files." in capsys.readouterr().err
    assert (tmp_path / "i").read_bytes() == before
