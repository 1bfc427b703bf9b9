"""Starting commands: what they load, not how long it takes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.benchmarks.start_up import COMMANDS, main, start

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("command", ["--help", "reproduce list", "schedule --policy tiresias"])
def test_commands_that_decide_nothing_exactly_load_no_solver(command: str) -> None:
    """Neither JAX nor CVXPY, HiGHS, Pyomo or pandas."""
    found = start(command)
    assert not {"cvxpy", "highspy", "jax", "pandas", "pyomo", "torch"} & set(found.loaded.split())
    assert found.seconds > 0


def test_the_benchmark_writes_a_row_a_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the seconds that each should take."""
    monkeypatch.setattr(
        "goodalloc.experiments.benchmarks.start_up.COMMANDS", {"--help": COMMANDS["--help"]}
    )
    out = tmp_path / "start_up.csv"
    assert main(["--repeats", "1", "--out", str(out)]) == 0
    header, row = out.read_text(encoding="utf-8").splitlines()
    assert header == "command,seconds,target,loaded"
    assert row.startswith("--help,")


def test_a_command_that_fails_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """With what it said."""
    monkeypatch.setattr(
        "goodalloc.experiments.benchmarks.start_up.PROGRAM", "import sys; sys.exit('no way')"
    )
    with pytest.raises(RuntimeError, match=r"^Command '--help' did not start: no way"):
        start("--help")
