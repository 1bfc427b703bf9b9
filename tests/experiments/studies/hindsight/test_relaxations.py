"""The study of the relaxations: what is lifted adds something, and no more than its limit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.replay.replay_conditions import Setting
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.relaxations import (
    LIMIT,
    LINES,
    RELAXATIONS,
    RelaxationRow,
    lifted_bounds,
)
from goodalloc.solvers.hindsight.best_prices import Stage
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_lifted_adds_something_and_no_more_than_its_limit(tmp_path: Path) -> None:
    """On a tiny trace; and the picture is drawn."""
    search, finer = (Stage(UNIT, (20.0, 5.0, 1.0), 20),), Stage(UNIT / 2, (1.0,), 10)
    setting = Setting(interval=round(UNIT), restart_delay=2.0)
    found = [*lifted_bounds(tiny_trace(5), setting, search, finer)]
    assert len(found) == LINES
    names = [name for name, *_ in found]
    assert len(set(names)) == LINES
    least = next(value for _, vouched, value, _ in found if vouched == LIMIT)
    for name, vouched, value, _ in found:
        assert value >= found[0][2] * (1 - 1e-4)
        if vouched != LIMIT and not name.startswith("intervals"):
            assert value <= least * (1 + 1e-9)
    limits = [value for _, vouched, value, _ in found if vouched == LIMIT]
    assert limits == pytest.approx(sorted(limits), rel=1e-2)
    rows = [
        RelaxationRow(6, 3, name, vouched, value, 100 * (value / found[0][2] - 1), seconds)
        for name, vouched, value, seconds in found
    ]
    RELAXATIONS.plot(Plan(tmp_path), rows).savefig(tmp_path / "gains.png")
    assert (tmp_path / "gains.png").stat().st_size > 10_000
