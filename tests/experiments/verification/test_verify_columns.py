"""The stand-alone checker of rounds in columns: what it proves, and what it refuses."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from dataclasses import replace
from fractions import Fraction
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.rounds.column_file import write_columns
from goodalloc.data.rounds.column_rounds import generate_columns
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.mode_column_rounds import generate_mode_columns
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.verification import verify_columns
from goodalloc.models.columns.round_columns import RoundColumns
from goodalloc.models.columns.utilities_by_kind import column_utilities
from goodalloc.models.round.objective import fitness, utility_table
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.column_certificate import write_column_certificate
from goodalloc.solvers.columns.solver import solve_columns
from goodalloc.solvers.exact.brute_force import solve_brute_force
from tests.experiments.verification.test_verify import FILES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.models.round.allocation import Allocation

pytest.importorskip("pyarrow", reason="rounds in columns are read by pyarrow")

POWERS = (-1.0, 0.0, 1.0, -10.0, -math.inf)
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"fair_share": "packed", "speedup_scale": "job"},
    {"restart_penalty": "running", "fair_share": "one_gpu", "batch_search": "grid"},
    {"interference_avoidance": False, "max_nodes_per_job": 2, "floor": 0.0, "idle_utility": 0.01},
)


def written(allocation: Allocation) -> str:
    """An allocation as CSV, as `goodalloc solve` writes it."""
    columns = [x.tolist() for x in (allocation.job, allocation.node, allocation.replicas)]
    names = ("job", "node", "gpus")
    rows = [dict[str, Any](zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
    return csv_text(rows, names)


def files(folder: Path, columns: RoundColumns) -> tuple[Path, Path, Path]:
    """A round, the allocation that the solver finds, and its certificate, as files."""
    paths = folder / "round.parquet", folder / "best.csv", folder / "proof.json"
    answer = solve_columns(columns)
    write_columns(columns, paths[0])
    paths[1].write_text(written(answer.allocation), encoding="utf-8")
    write_column_certificate(answer, paths[0], paths[2])
    return paths


def verdict(paths: tuple[Path, Path, Path]) -> Any:
    """What the checker says of three files."""
    return verify_columns.verify_columns(*verify_columns.read(*map(str, paths)))


@pytest.mark.parametrize("changes", RULES)
@pytest.mark.parametrize("power", POWERS)
def test_what_the_solver_claims_is_verified(
    power: float, changes: dict[str, Any], tmp_path: Path
) -> None:
    """The checker finds the same utilities, the same fitness, and a bound within the claim."""
    state = ("cold", "running", "disturbed", "settled")[RULES.index(changes)]
    rules = Rules(power=power, **changes)
    columns = generate_columns(3, 60, 12, 4, state=state, rules=rules)  # type: ignore[arg-type]
    paths = files(tmp_path, columns)
    found, answer = verdict(paths), solve_columns(columns)
    assert found.verified, found.reasons
    assert found.feasible
    assert found.fitness == pytest.approx(answer.fitness, rel=1e-12)
    assert found.bound == pytest.approx(answer.bound, rel=1e-11)
    r = verify_columns.read_columns(verify_columns.read(*map(str, paths))[0])
    verify_columns.set_utilities(r)
    everything = slice(0, columns.num_jobs)
    mine, theirs = (
        column_utilities(columns).best(everything),
        verify_columns.best_utilities(r, everything),
    )
    assert np.array_equal(np.isfinite(mine), np.isfinite(theirs))
    assert np.allclose(mine[np.isfinite(mine)], theirs[np.isfinite(mine)], rtol=1e-13, atol=0.0)


@pytest.mark.parametrize("seed", range(40))
def test_no_price_proves_a_bound_below_the_optimum(seed: int, tmp_path: Path) -> None:
    """Random prices, of a GPU or of slots, and references, beside trying all allocations."""
    random = np.random.default_rng(seed)
    power = POWERS[seed % 4]
    state = ("cold", "running", "settled")[seed % 3]
    instance = generate(
        seed,
        int(random.integers(1, 4)),
        int(random.integers(1, 4)),
        int(random.integers(1, 4)),
        state=state,  # type: ignore[arg-type]
        rules=Rules(power=power, **RULES[seed % 4]),
    )
    utility_table(instance)
    best = solve_brute_force(instance, break_ties=False).allocation
    assert best is not None
    paths = files(tmp_path, RoundColumns.of(instance))
    table, digest, _, certificate = verify_columns.read(*map(str, paths))
    rows = [dict(zip(("job", "node", "gpus"), row, strict=True)) for row in entries(best)]
    certificate.pop("slots", None)
    largest = int(instance.cluster.node_gpus.max())
    for _ in range(20):
        claim = certificate | {
            "price": float(random.exponential(2.0)),
            "reference": float(10.0 ** random.uniform(-3, 1)),
            "bound": fitness(instance, best) * float(random.uniform(0.9, 1.5)),
        }
        if random.random() < 0.5:
            price = claim.pop("price")
            sizes = random.permutation(largest)[: random.integers(1, largest + 1)] + 1
            paid = price * sizes * random.uniform(0.5, 1.5, sizes.size)
            claim["slots"] = [
                list(pair) for pair in zip(sizes.tolist(), paid.tolist(), strict=True)
            ]
        said = verify_columns.verify_columns(table, digest, rows, claim)
        assert said.feasible, said.reasons
        assert said.fitness == pytest.approx(fitness(instance, best), rel=1e-12)
        assert said.bound >= fitness(instance, best) * (1 - 1e-13)
        assert said.verified == (said.bound <= claim["bound"])


def entries(allocation: Allocation) -> list[tuple[int, int, int]]:
    """Placements of an allocation as triples."""
    columns = (x.tolist() for x in (allocation.job, allocation.node, allocation.replicas))
    return list(zip(*columns, strict=True))


def lower_bound(document: dict[str, Any]) -> None:
    """Claim too low a bound."""
    document["bound"] *= 1 - 1e-6


def set_key(key: str, value: object) -> Callable[[dict[str, Any]], None]:
    """Set a key of the certificate."""
    return lambda document: document.update({key: value})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lower_bound, "is claimed"),
        (set_key("price", 1e-4), "is claimed"),
        (set_key("price", 1e4), "is claimed"),
        (set_key("price", -1.0), "price is -1.0"),
        (set_key("price", None), "price is None"),
        (set_key("reference", 0.0), "reference is 0.0"),
        (set_key("reference", "r"), "reference is 'r'"),
        (set_key("bound", math.inf), "bound is inf"),
        (set_key("digest", "0" * 64), "digest"),
        (set_key("kind", "round"), "another kind"),
        (set_key("version", 2), "another kind"),
        (set_key("more", 1), "keys"),
        (lambda document: document.pop("price"), "keys"),
    ],
)
def test_a_certificate_that_was_changed_is_refused(
    change: Callable[[dict[str, Any]], None], message: str, tmp_path: Path
) -> None:
    """One sentence says what is wrong."""
    paths = files(tmp_path, generate_columns(3, 60, 12, 4, state="disturbed"))
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
        ("job,node,gpus\n0,0,1\n1,0,4\n", "Node 0 gives more GPUs than it has"),
        ("job,node,gpus\n0,0,1\n0,0,1\n", "twice"),
        ("job,node,gpus\n60,0,1\n", "A job is none of 0 to 59"),
        ("job,node,gpus\n0,12,1\n", "A node is none of 0 to 11"),
        ("job,node,gpus\n0,0,0\n", "below 1"),
        ("job,node,gpus\n0,0,x\n", "gpus is 'x'; expected a whole number"),
        ("job,gpus\n0,1\n", "expected columns"),
        ("", "expected columns"),
        ("job,node,gpus\n0,0,1\n0,1,1\n1,0,1\n1,1,1\n", "shared by distributed jobs"),
    ],
)
def test_an_allocation_that_breaks_a_rule_is_refused(
    text: str, message: str, tmp_path: Path
) -> None:
    """Too full nodes, unknown jobs and nodes, distributed jobs that interfere."""
    paths = files(tmp_path, generate_columns(3, 60, 12, 4))
    paths[1].write_text(text)
    said = verdict(paths)
    assert not said.verified
    assert message in said.reasons[0]


@pytest.mark.parametrize(
    ("slots", "message"),
    [
        ([[1, 1e-4]], "is claimed"),
        ([[1, 1e4]], "is claimed"),
        ([[1, -1.0]], "price of a slot is -1.0"),
        ([[0, 1.0]], "[0, 1.0] is no slot of a node"),
        ([[5, 1.0]], "[5, 1.0] is no slot of a node"),
        ([[1.0, 1.0]], "[1.0, 1.0] is no slot of a node"),
        ([[1]], "[1] is no slot of a node"),
        (None, "None is no slot of a node"),
    ],
)
def test_prices_of_slots_that_were_changed_are_refused(
    slots: object, message: str, tmp_path: Path
) -> None:
    """Of a round whose bound they prove, and no single price does."""
    rules = Rules(power=1.0)
    paths = files(tmp_path, generate_columns(0, 100, 25, 4, state="settled", rules=rules))
    document = json.loads(paths[2].read_text())
    assert verdict(paths).verified
    assert verdict(paths).gap < 1e-9
    assert "price" not in document
    paths[2].write_text(json.dumps(document | {"slots": slots}))
    said = verdict(paths)
    assert not said.verified
    assert len(said.reasons) == 1
    assert message in said.reasons[0]


def test_a_round_that_was_changed_is_refused(tmp_path: Path) -> None:
    """The certificate is that of other bytes."""
    columns = generate_columns(3, 60, 12, 4)
    paths = files(tmp_path, columns)
    write_columns(replace(columns, age=columns.age + 1.0), paths[0])
    assert "digest" in verdict(paths).reasons[0]


def test_jobs_with_modes_have_a_checker_of_their_own(tmp_path: Path) -> None:
    """One sentence, not a traceback."""
    paths = files(tmp_path, generate_columns(3, 60, 12, 4))
    write_columns(generate_mode_columns(0, 8), paths[0])
    said = verdict(paths)
    assert "its jobs have modes; expected verify_mode_columns.py" in said.reasons[0]


def test_the_checker_runs_with_its_own_files_alone(repository: Path, tmp_path: Path) -> None:
    """Without the package: its own file and those of `verify.py`, NumPy and pyarrow."""
    paths = files(tmp_path, generate_columns(3, 60, 12, 4, state="disturbed"))
    alone = tmp_path / "alone"
    alone.mkdir()
    for name in ("verify_columns.py", *FILES):
        shutil.copy(repository / "experiments" / "verification" / name, alone)
    command = [sys.executable, str(alone / "verify_columns.py"), *map(str, paths)]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, cwd=alone, env={"PATH": ""}
    )
    assert done.returncode == 0, done.stderr
    assert "verified       True" in done.stdout


def test_what_restarts_leave_of_a_short_training_is_exact_enough() -> None:
    """Where nearly all of the age went into restarts of a delay that is no binary number."""
    delay, restarts = 30.1, 33
    ages = delay * restarts * (1.0 + np.logspace(-9.0, 0.0, 400))
    rules = SimpleNamespace(restart_delay=delay, restart_penalty="all")
    round_ = SimpleNamespace(
        rules=rules, age=ages, restarts=np.full(ages.size, restarts), held=np.ones(ages.size, int)
    )
    for age, factor in zip(ages, verify_columns.restart_factors(round_), strict=True):
        exact = (Fraction(age) - restarts * Fraction(delay)) / (Fraction(age) + Fraction(delay))
        assert abs(Fraction(factor) / exact - 1) < Fraction(1, 10**13), age


def test_files_that_cannot_be_read_end_with_a_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As files in another order, of which one is a single line; or without pyarrow."""
    paths = [str(path) for path in files(tmp_path, generate_columns(3, 20, 8, 4))]
    (tmp_path / "proof.json").write_text(f'"{"x" * 200_000}"', encoding="utf-8")
    assert verify_columns.main([paths[0], paths[2], paths[1]]) == 2
    assert capsys.readouterr().err.startswith("A file cannot be read: ")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    assert verify_columns.main(paths) == 2
    assert "pyarrow" in capsys.readouterr().err


def test_the_commands_write_a_certificate_and_check_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`solve` with `--certificate`, then `verify`: exit code 0, and 1 for another allocation."""
    monkeypatch.chdir(tmp_path)
    write_columns(generate_columns(3, 60, 12, 4, state="disturbed"), "round.parquet")
    names = ["round.parquet", "best.csv", "proof.json"]
    assert main(["solve", names[0], "--out", names[1], "--certificate", names[2]]) == 0
    assert main(["verify", *names]) == 0
    assert "No allocation is worth more than" in capsys.readouterr().out
    (tmp_path / "best.csv").write_text("job,node,gpus\n0,0,1\n1,0,4\n", encoding="utf-8")
    assert main(["verify", *names]) == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--exact"], "expected neither"),
        (["--resolved", "r.json"], "expected neither"),
    ],
)
def test_options_of_other_certificates_are_refused(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A round in columns has neither rational arithmetic nor names to resolve."""
    monkeypatch.chdir(tmp_path)
    paths = files(tmp_path, generate_columns(3, 8, 2, 4))
    assert main(["verify", *(path.name for path in paths), *arguments]) == 2
    assert message in capsys.readouterr().err
