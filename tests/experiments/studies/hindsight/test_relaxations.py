"""The study of the relaxations: what is lifted adds something, and no more than its limit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.hindsight.relaxations import (
    LIMIT,
    LINES,
    MIXTURE,
    RELAXATIONS,
    RelaxationRow,
    lifted_bounds,
)
from goodalloc.models.hindsight.rounds import Rounds
from goodalloc.solvers.hindsight.best_prices import Stage
from tests.support.hindsight.tiny_traces import UNIT, tiny_trace

if TYPE_CHECKING:
    from pathlib import Path


def test_what_is_lifted_adds_something_and_no_more_than_its_limit(tmp_path: Path) -> None:
    """On a tiny trace; and the picture is drawn."""
    search, finer = (Stage(UNIT, (20.0, 5.0, 1.0), 20),), Stage(UNIT / 2, (1.0,), 10)
    drawn = tiny_trace(5)
    jobs = tuple(replace(job, begin=job.begin + 2.0) for job in drawn.jobs)
    problem = replace(drawn, jobs=jobs)
    rounds = Rounds(UNIT, {training.name: 2.0 for training in problem.trainings})
    found = [*lifted_bounds(problem, rounds, search, finer, 30)]
    assert len(found) == LINES
    names = [name for name, *_ in found]
    assert len(set(names)) == LINES
    limits = [value for _, vouched, value, _ in found if vouched == LIMIT]
    lifted = [value for _, vouched, value, _ in found[1:] if vouched not in (LIMIT, MIXTURE)]
    assert max(lifted) > found[0][2] * (1 + 1e-3)
    for name, vouched, value, _ in found:
        assert value >= found[0][2] * (1 - 1e-4)
        if vouched not in (LIMIT, MIXTURE) and not name.startswith(("intervals", "the same")):
            assert value <= limits[2 * ("rounds" in name)] * (1 + 1e-9)
    assert limits == pytest.approx(sorted(limits), rel=1e-2)
    proved = {name: value for name, _, value, _ in found}
    any_prices, pooled, on_nodes = (value for _, vouched, value, _ in found if vouched == MIXTURE)
    assert max(proved["order of phases, family of multipliers"], limits[0]) <= any_prices * 1.02
    assert proved["the same, by prices of its own"] <= pooled * (1 + 1e-9)
    assert pooled <= on_nodes * 1.01
    rows = [
        RelaxationRow(6, 3, name, vouched, value, 100 * (value / found[0][2] - 1), seconds)
        for name, vouched, value, seconds in found
    ]
    RELAXATIONS.plot(Plan(tmp_path), rows).savefig(tmp_path / "gains.png")
    assert (tmp_path / "gains.png").stat().st_size > 10_000
