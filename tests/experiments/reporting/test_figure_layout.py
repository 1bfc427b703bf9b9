"""The layout of finished figures: nothing lies on the frame, and no legend hides a row."""

from __future__ import annotations

import pytest

from goodalloc.experiments.reporting.figure_layout import MARGIN, lay_out
from goodalloc.experiments.reporting.plots import figure_of, new_axes


@pytest.mark.parametrize("inverted", [False, True])
def test_named_rows_have_space_at_both_ends(inverted: bool) -> None:
    """And keep their order."""
    ax = new_axes()
    ax.plot([1.0, 2.0], [0, 1], "o")
    ax.set_yticks([0, 1], ["first", "second"])
    if inverted:
        ax.invert_yaxis()
    lay_out(figure_of(ax))
    low, high = sorted(ax.get_ylim())
    assert (low, high) == pytest.approx((-MARGIN, 1 + MARGIN))
    assert ax.yaxis_inverted() == inverted


def test_axes_with_numbers_keep_their_range() -> None:
    """Only names are rows."""
    ax = new_axes()
    ax.plot([1.0, 2.0], [0, 1])
    ax.set_yticks([0, 1])
    before = ax.get_ylim()
    lay_out(figure_of(ax))
    assert ax.get_ylim() == before


def test_a_legend_over_bars_goes_below_with_each_name_once() -> None:
    """The figure grows, so that the axes do not shrink; a legend with a place of its own stays."""
    ax = new_axes()
    for row in range(3):
        ax.barh(row, 1.0, height=1.0, label="every row", color="grey")
    ax.legend(*(list(found)[:1] for found in ax.get_legend_handles_labels()), title="rows")
    figure = figure_of(ax)
    height = figure.get_figheight()
    lay_out(figure)
    figure.draw_without_rendering()
    legend = ax.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["every row"]
    assert legend.get_title().get_text() == "rows"
    assert legend.get_window_extent().y1 < ax.get_window_extent().y0
    assert figure.get_figheight() > height


def test_a_legend_that_hides_nothing_stays() -> None:
    """In the corner that matplotlib found."""
    ax = new_axes()
    ax.plot([0.0, 1.0], [0.0, 1.0], "o-", label="a line")
    legend = ax.legend()
    lay_out(figure_of(ax))
    assert ax.get_legend() is legend
