"""The study of rounds on trees: rows, table and figure."""

from __future__ import annotations

from goodalloc.experiments.studies.topology.drawn_rounds import RoundRecipe
from goodalloc.experiments.studies.topology.on_trees import (
    GAP,
    gap_percent,
    plot_trees,
    summarise_trees,
    tree_row,
)


def test_a_row_is_proved_and_placements_are_below_its_bound() -> None:
    """And the table and the figure take it."""
    row = tree_row(RoundRecipe((4,) * 16, seed=1, load=0.5))
    assert (row.nodes, row.gpus_per_node, row.seed, row.load) == (16, 4, 1, 0.5)
    assert row.fitness >= row.bound * (1 - GAP)
    assert row.fitness <= row.certified_bound <= row.fitness * (1 + GAP)
    for name in ("best_fit", "least_free", "most_free", "balanced"):
        assert gap_percent(row, name) >= -1e-6
    (shown,) = summarise_trees([row])
    assert shown["proved"] == shown["certified"] == "1/1"
    (ax,) = plot_trees([row]).axes
    assert ax.get_ylabel() == "proven gap (%)"
