"""Policies on equal terms, and what Pollux's advantage consists of."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.reporting.estimates import Estimate
from goodalloc.experiments.studies.comparisons import terms
from goodalloc.experiments.studies.comparisons.advantage import (
    ADVANTAGE,
    BASELINES,
    FACTORS,
    AdvantageRow,
    plot_advantage,
    shapley_values,
)
from goodalloc.experiments.studies.comparisons.equal_terms import EQUAL_TERMS
from goodalloc.experiments.studies.comparisons.terms import POLLUX, Cell, replays
from goodalloc.experiments.support.tasks import run_tasks
from goodalloc.solvers.policies.policy_table import POLICIES
from tests.support.replay.studies import TinyPlan

if TYPE_CHECKING:
    from pathlib import Path


def test_every_policy_has_every_knowledge_and_batch_size_that_it_can_use(tmp_path: Path) -> None:
    """Who asks for nothing has two cells, all others four; some have rounds of six minutes, too."""
    found = replays(TinyPlan(tmp_path, (1,)))
    for policy in terms.COMPARED:
        cells = [cell for cell in found if cell.policy == policy and cell.interval == terms.USUAL]
        kinds = {cell.knows for cell in cells}
        told = POLICIES[policy].knows
        assert told in kinds
        assert len(kinds) == (1 if told == "nothing" else 2)
        assert {(cell.knows, cell.batch) for cell in cells} == {*product(kinds, terms.BATCH_SIZES)}
    slow = {cell.policy for cell in found if cell.interval == terms.SLOW}
    assert slow == {*terms.TWO_INTERVALS}
    assert POLLUX in found
    names = [task.folder for tasks in found.values() for task in tasks]
    assert len({*names}) == len(names)


def test_a_quick_matrix_ends_in_a_table_and_a_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pollux on its own terms is the measure of all others, and is not above itself."""
    monkeypatch.setattr(terms, "COMPARED", ("tiresias", "srtf", "pollux"))
    monkeypatch.setattr(terms, "QUICK_COMPARED", 3)
    plan = TinyPlan(tmp_path, (1,), quick=True)
    assert run_tasks(EQUAL_TERMS.tasks(plan)) == {}
    rows = EQUAL_TERMS.rows(plan)
    assert len(rows) == 2 + 4 + 4
    for row in rows:
        assert row.average_jct_hours.mean <= row.p99_jct_hours.mean <= row.makespan_hours.mean
        assert 0.0 <= row.above_2_percent.mean <= 100.0
        assert row.greatest_rho > 0.0
        if row.batch == "adaptive":
            assert row.greatest_rho == row.own_greatest_rho
        if Cell(*row[:4]) == POLLUX:
            assert row.over_pollux_percent.mean == 0.0
    lines = EQUAL_TERMS.shown(rows)
    assert [line["average (h)"] for line in lines] == sorted(line["average (h)"] for line in lines)
    (ax,) = EQUAL_TERMS.plot(plan, rows).axes
    assert {label.get_text() for label in ax.get_yticklabels()} == {"tiresias", "srtf", "pollux"}

    assert {task.folder for task in ADVANTAGE.tasks(plan)} <= {
        task.folder for tasks in replays(plan).values() for task in tasks
    }
    shares = ADVANTAGE.rows(plan)
    assert [row.factor for row in shares if row.policy == "tiresias"] == [*FACTORS[:2], "all"]
    assert [row.factor for row in shares if row.policy == "srtf"] == [*FACTORS, "all"]
    for policy in ("tiresias", "srtf"):
        own = {row.factor: row for row in shares if row.policy == policy}
        whole = own.pop("all")
        assert whole.share_percent == 100.0
        assert sum(row.share_percent for row in own.values()) == pytest.approx(100.0, abs=0.1)
        product_of_all = np.prod([row.times_shorter.mean for row in own.values()])
        assert product_of_all == pytest.approx(whole.times_shorter.mean, rel=1e-3)


@given(st.integers(0, 2**16 - 1), st.integers(1, 4))
def test_shares_add_up_and_are_equal_for_equal_players(seed: int, count: int) -> None:
    """And a player that adds nothing has none: the axioms of Shapley."""
    rng = np.random.default_rng(seed)
    worth: dict[int, float] = {size: float(rng.normal()) for size in range(1, count + 1)}
    worth[0] = 0.0
    players = (*(f"equal {index}" for index in range(count)), "idle")

    def value(found: frozenset[str]) -> np.ndarray:
        return np.array(worth[len(found - {"idle"})])

    shares = shapley_values(players, value)
    assert sum(shares.values()) == pytest.approx(worth[count])
    assert shares["idle"] == pytest.approx(0.0, abs=1e-12)
    assert shares["equal 0"] == pytest.approx(worth[count] / count)


def test_the_figure_of_shares_has_a_line_for_every_policy() -> None:
    """With a marker for each factor."""
    rows = [
        AdvantageRow(policy, told, factor, 8, Estimate(1.1 + index, 0.1), 30.0)
        for policy, told in BASELINES.items()
        for index, factor in enumerate((*FACTORS, "all"))
        if told != "nothing" or factor != "knowledge"
    ]
    (ax,) = plot_advantage(rows).axes
    assert [label.get_text() for label in ax.get_yticklabels()] == [*BASELINES]
    assert len(ax.get_legend_handles_labels()[1]) == len(FACTORS) + 1
