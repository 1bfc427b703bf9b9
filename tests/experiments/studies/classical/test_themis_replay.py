"""The experiment on Themis: its replays, its table and its picture, on few short jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.experiments.studies.classical import themis_replay
from goodalloc.experiments.studies.classical.themis_replay import (
    KNOBS,
    OTHER_TERMS,
    OTHERS,
    THEMIS,
    jains_index,
    summarise_replays,
    ways,
)
from goodalloc.experiments.studies.pollux import fairness
from goodalloc.experiments.studies.pollux.fairness import SHARES
from tests.support.replay.studies import carry_out

if TYPE_CHECKING:
    from pathlib import Path


def test_all_knobs_and_seeds_are_replayed_once() -> None:
    """And every other policy once; quick has the published knob too."""
    every, quick = list(ways(quick=False)), list(ways(quick=True))
    assert len(every) == len(set(every)) == (6 + 4) * 3 + len(OTHERS)
    assert {way.terms.fairness_knob for way in quick if way.terms} == {0.0, 0.8}
    assert set(quick) <= set(every)


def test_a_table_and_a_picture_come_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row a replay, which adds up; a line a policy and knob."""
    monkeypatch.setattr(fairness, "SHARES", SHARES[:3])
    monkeypatch.setattr(themis_replay, "KNOBS", KNOBS[::4])
    monkeypatch.setattr(themis_replay, "OTHER_TERMS", OTHER_TERMS[::3])
    monkeypatch.setattr(themis_replay, "SEEDS", (0, 1))
    monkeypatch.setattr(
        themis_replay, "OTHERS", ("themis-exact", "themis-maxmin", "tiresias", "fifo")
    )
    plan = carry_out(THEMIS, tmp_path)
    rows = THEMIS.rows(plan)
    assert len(rows) == 4 * 2 + 4
    for row in rows:
        assert 0 < row.median_rho <= row.greatest_rho
        assert 1 / row.jobs <= row.jains_index <= 1.0
        assert row.gpu_hours > 0
    shown = summarise_replays(rows)
    assert [line.policy for line in shown][:5] == [
        "themis (f = 0)",
        "themis (f = 0.8)",
        "themis (f = 0.8, lease 5 min)",
        "themis (f = 0.8, rounded down)",
        "themis-exact",
    ]
    published = shown[1]
    assert published.ratio == 1.0
    assert published.replays == 2
    own = [row.greatest_rho for row in rows if row.label == published.policy]
    assert published.greatest_rho == pytest.approx(np.mean(own), rel=1e-3)
    assert [published.least_greatest, published.worst_greatest] == [min(own), max(own)]
    figure = THEMIS.plot(plan, rows)
    assert [ax.get_xlabel()[-1] for ax in figure.axes] == ["ρ", "f", "f"]


@given(st.lists(st.floats(0.1, 100.0), min_size=1, max_size=20))
def test_jains_index_is_1_for_equals_and_1_over_n_for_one_of_n(values: list[float]) -> None:
    """Between them otherwise, whatever the unit."""
    array = np.array(values)
    assert 1 / array.size - 1e-9 <= jains_index(array) <= 1.0 + 1e-9
    assert jains_index(7.0 * array) == pytest.approx(jains_index(array))
    assert jains_index(np.full(5, array[0])) == pytest.approx(1.0)
    assert jains_index(np.eye(4)[0]) == pytest.approx(0.25)
