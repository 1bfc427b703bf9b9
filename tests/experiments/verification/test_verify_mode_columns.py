"""The stand-alone checker of rounds of modes in columns: what it proves, and what it refuses."""

from __future__ import annotations

import hashlib
import json
import math
import shutil
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.rounds.column_file import write_columns
from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.mode_column_rounds import generate_mode_columns, three_types
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.verification import verify_columns, verify_mode_columns
from goodalloc.models.columns.mode_columns import ModeColumns
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.column_certificate import write_mode_column_certificate
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.mode_columns.solver import solve_mode_columns
from tests.experiments.verification.test_verify import FILES
from tests.experiments.verification.test_verify_columns import RULES, lower_bound, set_key
from tests.solvers.mode_columns.test_solve_mode_columns import POWERS, STATES, small_round
from tests.support.few import few, slow_where

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.models.round.allocation import Allocation
    from goodalloc.solvers.mode_columns.solver import ModeColumnAnswer

parquet = pytest.importorskip("pyarrow.parquet", reason="rounds in columns are read by pyarrow")

NAMES = ("job", "node", "gpus", "mode")


def rows_of(columns: ModeColumns, allocation: Allocation) -> list[dict[str, Any]]:
    """An allocation as rows, as `goodalloc solve` writes it."""
    mode = [columns.modes[index].name for index in allocation.mode[allocation.job].tolist()]
    parts = (x.tolist() for x in (allocation.job, allocation.node, allocation.replicas))
    return [dict(zip(NAMES, row, strict=True)) for row in zip(*parts, mode, strict=True)]


def files(
    folder: Path, columns: ModeColumns, answer: ModeColumnAnswer | None = None
) -> tuple[Path, Path, Path]:
    """A round, the allocation that the solver finds, and its certificate, as files."""
    paths = folder / "round.parquet", folder / "best.csv", folder / "proof.json"
    answer = answer or solve_mode_columns(columns)
    write_columns(columns, paths[0])
    paths[1].write_text(csv_text(rows_of(columns, answer.allocation), NAMES), encoding="utf-8")
    write_mode_column_certificate(answer.bound, answer.proof, paths[0], paths[2])
    return paths


@pytest.fixture(scope="module")
def proved(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """The files of a round of sixty jobs, made once."""
    return files(tmp_path_factory.mktemp("proved"), generate_mode_columns(0, 60))


@pytest.fixture
def paths(proved: tuple[Path, Path, Path], tmp_path: Path) -> tuple[Path, Path, Path]:
    """Copies of them, to be changed."""
    first, second, third = (tmp_path / path.name for path in proved)
    for path in proved:
        shutil.copy(path, tmp_path)
    return first, second, third


def verdict(paths: tuple[Path, Path, Path]) -> Any:
    """What the checker says of three files."""
    return verify_mode_columns.verify_mode_columns(*verify_columns.read(*map(str, paths)))


def _has_its_turn(case: tuple[float, Any]) -> bool:
    """Return whether it is a case of the few, which have every power and every state."""
    power, state = case
    return POWERS.index(power) % len(STATES) == STATES.index(state)


@pytest.mark.parametrize(
    "case", slow_where(product(POWERS, STATES), lambda case: not _has_its_turn(case)), ids=str
)
def test_what_the_solver_claims_is_verified(case: tuple[float, Any], tmp_path: Path) -> None:
    """The checker finds the same fitness, and the bound to within what the claim leaves."""
    power, state = case
    rules = Rules(power=power, **RULES[STATES.index(state)])
    columns = generate_mode_columns(3, 60, three_types(4), state=state, rules=rules)
    answer = solve_mode_columns(columns)
    found = verdict(files(tmp_path, columns, answer))
    assert found.verified, found.reasons
    assert found.feasible
    assert found.fitness == pytest.approx(answer.fitness, rel=1e-12)
    assert found.bound == pytest.approx(answer.bound, rel=1e-3)
    assert found.bound <= answer.bound * (1 + 1e-12)


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_small_rounds_with_any_resources_are_verified(seed: int, tmp_path: Path) -> None:
    """Cores and memory of no common unit among them, on one type of GPU and on two."""
    rules = Rules(power=POWERS[seed % 5], **RULES[seed % 4])
    instance = small_round(seed, 1 + seed % 6, rules)
    said = verdict(files(tmp_path, ModeColumns.of(instance)))
    assert said.verified, said.reasons


@pytest.mark.parametrize("seed", few(range(60), 20))
def test_no_prices_prove_a_bound_below_the_optimum(seed: int, tmp_path: Path) -> None:
    """Random prices of GPUs, resources and pieces, beside the exact solver."""
    random = np.random.default_rng(seed)
    rules = Rules(power=POWERS[seed % 5], **RULES[seed % 4])
    instance = small_round(seed, 1 + seed % 4, rules)
    best = solve(instance, "highs").allocation
    assert best is not None
    columns = ModeColumns.of(instance)
    table, digest, _, certificate = verify_columns.read(*map(str, files(tmp_path, columns)))
    rows, optimum = rows_of(columns, best), fitness(instance, best)
    if not rows:
        pytest.skip("nothing runs in the optimum")
    groups, amounts = len(instance.cluster.groups), len(certificate["units"])
    apart = rules.interference_avoidance

    def seeds() -> list[list[list[float]]]:
        return [
            [
                [*random.integers(1, 4, amounts).tolist(), float(random.exponential(0.5))]
                for _ in range(random.integers(0, 3))
            ]
            for _ in range(groups)
        ]

    for _ in range(10):
        claim = certificate | {
            "prices": {
                "resources": random.exponential(0.3, (groups, amounts)).tolist(),
                "values": [
                    {"pieces": seeds()} | ({"distributed": seeds()} if apart else {})
                    for _ in range(random.integers(0, 3))
                ],
            },
            "reference": float(10.0 ** random.uniform(-3, 1)),
            "bound": optimum * float(random.uniform(0.9, 1.5)),
        }
        said = verify_mode_columns.verify_mode_columns(table, digest, rows, claim)
        assert said.feasible, said.reasons
        assert said.fitness == pytest.approx(optimum, rel=1e-12)
        assert said.bound >= optimum * (1 - 1e-13)
        assert said.verified == (said.bound <= claim["bound"])


def half_prices(document: dict[str, Any]) -> None:
    """Ask for half of what GPUs and resources cost."""
    rows = document["prices"]["resources"]
    document["prices"]["resources"] = [[x / 2 for x in row] for row in rows]


def no_pieces(document: dict[str, Any]) -> None:
    """Leave out what nodes are worth."""
    document["prices"].pop("values")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lower_bound, "is claimed"),
        (half_prices, "is claimed"),
        (no_pieces, "is claimed"),
        (set_key("prices", {}), "is claimed"),
        (set_key("prices", {"resources": [[1.0]]}), "not a number for every group"),
        (set_key("prices", {"stays": [1.0]}), "stays are not one for every entry"),
        (set_key("prices", {"nested": [{}]}), "there is no tree"),
        (set_key("prices", {"other": 1}), "'other' is unknown"),
        (set_key("units", [1.0]), "not one for every resource"),
        (set_key("grid", [1e-9, 1e-9]), "too small"),
        (set_key("reference", 0.0), "reference is 0.0"),
        (set_key("bound", math.inf), "bound is inf"),
        (set_key("digest", "0" * 64), "digest"),
        (set_key("kind", "columns"), "another kind"),
        (set_key("more", 1), "keys"),
        (lambda document: document.pop("units"), "keys"),
    ],
)
def test_a_certificate_that_was_changed_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, paths: tuple[Path, Path, Path]
) -> None:
    """One sentence says what is wrong."""
    document = json.loads(paths[2].read_text())
    change(document)
    paths[2].write_text(json.dumps(document).replace("Infinity", "1e999"))
    said = verdict(paths)
    assert not said.verified
    assert len(said.reasons) == 1
    assert message in said.reasons[0]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1,0,4,t4-2\n3,0,1,t4-2\n", "Node 0 gives more GPUs than it has"),
        ("1,0,4,t4-8\n", "Node 0 gives more cpu than it has"),
        ("0,0,1,a100-8\n", "Job 0 is on GPUs of another type"),
        ("0,0,1,t4-2\n0,1,1,t4-4\n", "job 0 has two modes"),
        ("0,0,1,v100\n", "mode 'v100' is unknown"),
        ("0,0,1,t4-2\n0,0,1,t4-2\n", "twice"),
        ("1,0,1,t4-2\n1,1,1,t4-2\n3,0,1,t4-2\n3,1,1,t4-2\n", "shared by distributed jobs"),
    ],
)
def test_an_allocation_that_breaks_a_rule_is_refused(
    text: str, message: str, paths: tuple[Path, Path, Path]
) -> None:
    """Too full nodes, GPUs of another type, two modes at once."""
    paths[1].write_text("job,node,gpus,mode\n" + text)
    said = verdict(paths)
    assert not said.verified
    assert message in said.reasons[0]


def test_an_allocation_without_modes_is_refused(paths: tuple[Path, Path, Path]) -> None:
    """The column is named."""
    paths[1].write_text("job,node,gpus\n0,0,1\n")
    assert "expected a column mode" in verdict(paths).reasons[0]


def test_rounds_without_modes_are_of_the_other_checker(paths: tuple[Path, Path, Path]) -> None:
    """One sentence, not a traceback."""
    write_columns(generate_columns(3, 60, 12, 4), paths[0])
    assert "have no modes; expected verify_columns.py" in verdict(paths).reasons[0]


@pytest.mark.parametrize(
    "change",
    [
        {"min_replicas": 3},
        {"placement": {"aws-0": 4}, "mode": "t4-2", "preemptible": False},
        {"placement": {"aws-0": 4}, "mode": "t4-2"},
    ],
)
def test_the_job_of_the_metadata_takes_nothing_from_the_others(
    change: dict[str, Any], paths: tuple[Path, Path, Path]
) -> None:
    """It counts for nothing: with a placement or limits of its own it would tighten the proof."""
    table = parquet.read_table(paths[0])
    metadata = dict(table.schema.metadata)
    document = json.loads(metadata[b"goodalloc"])
    assert document["cluster"][0]["name"] == "aws"
    document["jobs"][0].update(change)
    metadata[b"goodalloc"] = json.dumps(document).encode()
    parquet.write_table(table.replace_schema_metadata(metadata), paths[0])
    certificate = json.loads(paths[2].read_text())
    certificate["digest"] = hashlib.sha256(paths[0].read_bytes()).hexdigest()
    paths[2].write_text(json.dumps(certificate))
    said = verdict(paths)
    assert not said.verified
    assert said.reasons == ("Round: the job of its metadata is not a plain one.",)


def test_a_proof_below_the_fitness_of_an_allocation_is_refused() -> None:
    """It contradicts itself, whatever is claimed."""
    said = verify_columns.verdict(lambda: 2.0, 1.5, 3.0)
    assert not said.verified
    assert said.reasons == ("The bound of 1.5 that is proved is below the fitness 2.0.",)
    assert verify_columns.verdict(lambda: 2.0, 2.5, 3.0).verified


def test_the_checker_runs_with_its_own_files_alone(repository: Path, tmp_path: Path) -> None:
    """Without the package: its own file, those beside it, NumPy and pyarrow."""
    paths = files(tmp_path, generate_mode_columns(0, 60, state="disturbed"))
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("verify_mode_columns.py", "verify_columns.py", *FILES):
        shutil.copy(repository / "experiments" / "verification" / name, alone)
    command = [sys.executable, str(alone / "verify_mode_columns.py")]
    done = subprocess.run(
        [*command, *map(str, paths)],
        capture_output=True,
        text=True,
        check=False,
        cwd=alone,
        env={"PATH": ""},
    )
    assert done.returncode == 0, done.stderr
    assert "verified       True" in done.stdout
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=alone)
    assert done.returncode == 2
    assert "python verify_mode_columns.py" in done.stderr


def test_the_commands_write_a_certificate_and_check_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve` with `--certificate`, then `verify`: exit code 0, and 1 for another allocation."""
    monkeypatch.chdir(tmp_path)
    write_columns(generate_mode_columns(0, 60, state="running"), "round.parquet")
    names = ["round.parquet", "best.csv", "proof.json"]
    assert main(["solve", names[0], "--out", names[1], "--certificate", names[2]]) == 0
    assert main(["verify", *names]) == 0
    assert "No allocation is worth more than" in capsys.readouterr().out
    (tmp_path / "best.csv").write_text("job,node,gpus,mode\n0,0,4,t4-8\n", encoding="utf-8")
    assert main(["verify", *names]) == 1
