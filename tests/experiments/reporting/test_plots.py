"""The pictures: drawn into what is given, labelled with units, and never shown."""

from __future__ import annotations

import io
import math
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.data.rounds.generator import generate
from goodalloc.experiments.gap.allocation_plot import plot_allocation
from goodalloc.experiments.gap.demo import DemoRound, demo_figure
from goodalloc.experiments.reporting.plots import (
    looks,
    plot_gap_over_time,
    plot_gap_profile,
    plot_gaps,
    plot_performance_profile,
    save,
)
from goodalloc.models.round.allocation import Allocation
from goodalloc.solvers.interface.result import Incumbent, Result, Status

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from matplotlib.axes import Axes


def result(solver: str, fitness: float, bound: float = 1.0, seed: int = 0) -> Result:
    """A made-up result on tiny-cold."""
    instance = load_benchmark("tiny-cold")
    allocation = None
    if not math.isnan(fitness):
        allocation = Allocation.empty(instance.num_jobs, instance.cluster.num_nodes)
    history = (Incumbent(0.01, 1, fitness / 2), Incumbent(0.1, 2, fitness))
    return Result(
        solver,
        "tiny-cold",
        allocation,
        fitness,
        bound,
        "",
        Status.FEASIBLE,
        seed=seed,
        history=history if allocation is not None else (),
    )


RESULTS = [result("exact", 1.0), result("near", 0.99), result("far", 0.2), result("none", math.nan)]

HISTORIES = {"exact": [(0.5, 1.0)], "slow": [(0.01, 0.1), (3.0, 0.9)], "empty": []}

GAPS = {"exact": [0.0, 0.0], "near": [0.01, 0.2], "broken": [math.nan, math.nan]}

SECONDS = {"exact": [1.0, 2.0], "near": [0.1, 4.0], "broken": [math.nan, math.nan]}

RUNNING = load_benchmark("medium-disturbed")

DRAWINGS: list[tuple[Callable[..., Axes], tuple[str, str]]] = [
    (lambda ax=None: plot_gaps(RESULTS, ax), ("optimality gap of the fitness (%)", "")),
    (
        lambda ax=None: plot_gap_over_time(HISTORIES, 1.0, ax),
        ("time (s)", "optimality gap of the fitness (%)"),
    ),
    (
        lambda ax=None: plot_gap_profile(GAPS, ax),
        ("optimality gap of the fitness (%)", "share of runs within the gap"),
    ),
    (
        lambda ax=None: plot_performance_profile(SECONDS, ax),
        ("time over that of the fastest solver (factor)", "share of runs within the factor"),
    ),
    (lambda ax=None: plot_allocation(RUNNING, RUNNING.current, ax), ("GPU of the node", "node")),
]


@pytest.mark.parametrize(("draw", "labels"), DRAWINGS)
def test_a_plot_uses_the_axes_it_is_given_and_says_what_it_shows(
    draw: Callable[..., Axes], labels: tuple[str, str]
) -> None:
    """The same axes come back, with both labels, and the figure can be rendered."""
    ax = Figure(layout="constrained").subplots()
    assert draw(ax) is ax
    assert (ax.get_xlabel(), ax.get_ylabel()) == labels
    figure = ax.get_figure(root=True)
    assert figure is not None
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png")
    assert buffer.getvalue().startswith(b"\x89PNG")


@pytest.mark.parametrize(("draw", "labels"), DRAWINGS)
def test_a_plot_makes_its_own_axes_without_global_state(
    draw: Callable[..., Axes], labels: tuple[str, str]
) -> None:
    """pyplot, which keeps figures alive, takes no part."""
    loaded = "matplotlib.pyplot" in sys.modules
    assert draw().get_xlabel() == labels[0]
    assert ("matplotlib.pyplot" in sys.modules) == loaded


def test_gap_bars_name_every_solver_and_value() -> None:
    """Zero is called proven, and what has no allocation says so."""
    ax = plot_gaps(RESULTS)
    assert [tick.get_text() for tick in ax.get_yticklabels()] == ["exact", "near", "far", "none"]
    texts = [text.get_text().strip() for text in ax.texts]
    assert texts == ["0 (proven optimal)", "1 %", "80 %", "no allocation"]


def test_gap_bars_say_how_many_jobs_more_starve() -> None:
    """Than in the best answer; nothing where as many do, or where nobody counted."""
    best = replace(RESULTS[0], starved=3)
    runs = [replace(RESULTS[2], starved=n, seed=n) for n in (5, 8)]
    fewer = replace(RESULTS[1], starved=2)
    ax = plot_gaps([best, fewer, *runs])
    texts = [text.get_text() for text in ax.texts]
    assert texts == ["0 (proven optimal)", "1 %; -1 starved", "80 %; +2 to +5 starved"]


def test_the_allocation_colours_what_is_used() -> None:
    """The coloured area is the number of GPUs in use, and the legend names the applications."""
    instance = generate(3, 20, nodes=8, state="running")
    ax = plot_allocation(instance, instance.current)
    squares = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    coloured = squares[instance.cluster.num_gpus :]
    widths = np.array([square.get_width() + 0.06 for square in coloured])
    assert widths.sum() == pytest.approx(instance.current.replicas.sum())
    legend = ax.get_legend()
    assert legend is not None
    names = {text.get_text() for text in legend.get_texts()}
    assert names - {"idle", "several nodes"} == {
        j.application for j in instance.jobs if j.placement
    }
    one = instance.current.rows(instance.current.job[:1].tolist())
    legend = plot_allocation(instance, one).get_legend()
    assert legend is not None
    assert len({text.get_text() for text in legend.get_texts()} - {"idle", "several nodes"}) == 1


def test_seeds_of_a_solver_share_a_bar() -> None:
    """Its length is the median, the words name the worst and count what failed."""
    gaps = (0.01, 0.03, 0.02, math.nan)
    runs = [result("many", 1 - gap, seed=seed) for seed, gap in enumerate(gaps)]
    ax = plot_gaps([*runs, result("one", 0.5)])
    bars = [patch for patch in ax.patches if isinstance(patch, Rectangle)]
    assert [bar.get_width() for bar in bars] == pytest.approx([2.0, 50.0])
    assert [text.get_text() for text in ax.texts] == ["2 %, worst 3 %, 1 failed", "50 %"]
    assert ax.get_xlim()[1] == 100.0


def test_the_gap_profile_reaches_the_right_edge() -> None:
    """Every line ends where the axis does, at 100 %."""
    ax = plot_gap_profile(GAPS)
    assert ax.get_xlim()[1] == 100.0
    assert {float(np.asarray(line.get_xdata())[-1]) for line in ax.lines} == {100.0}


def test_no_line_over_time_hides_another() -> None:
    """Those drawn later, on top, are thinner."""
    widths = [line.get_linewidth() for line in plot_gap_over_time(HISTORIES, 1.0).lines]
    assert widths == sorted(widths, reverse=True)
    assert len(set(widths)) == len(widths)


def test_no_text_of_the_demonstration_overlaps() -> None:
    """Titles, labels and legends of all panels lie apart and inside the picture."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    instance = load_benchmark("tiny-cold")
    rounds = [DemoRound(instance, RESULTS), DemoRound(instance, RESULTS)]
    figure = demo_figure(rounds)
    canvas: Any = FigureCanvasAgg(figure)
    canvas.draw()
    renderer = canvas.get_renderer()
    boxes = []
    for ax in figure.axes:
        legend = ax.get_legend()
        parts = [ax.title, ax.xaxis.label, ax.yaxis.label, *([legend] if legend else [])]
        boxes += [part.get_window_extent(renderer) for part in parts]
    boxes = [box for box in boxes if box.width > 1]
    width, height = canvas.get_width_height()
    for index, box in enumerate(boxes):
        assert box.x0 >= 0
        assert box.y0 >= 0
        assert box.x1 <= width
        assert box.y1 <= height
        assert not any(box.overlaps(other) for other in boxes[index + 1 :])


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_a_picture_is_saved_in_the_format_of_its_name(suffix: str, tmp_path: Path) -> None:
    """The file appears whole, and only it."""
    save(plot_gaps(RESULTS), tmp_path / f"gaps.{suffix}")
    assert [path.name for path in tmp_path.iterdir()] == [f"gaps.{suffix}"]


def test_an_unknown_format_is_refused(tmp_path: Path) -> None:
    """The sentence names the file."""
    with pytest.raises(ValueError, match=r"gaps\.doc"):
        save(plot_gaps(RESULTS), tmp_path / "gaps.doc")


def test_a_solver_looks_the_same_in_every_picture() -> None:
    """Whatever else is drawn and in which order; no two of eight look alike."""
    alone, among = looks(["genetic"]), looks(["mine", "genetic", "highs", "yours"])
    assert alone["genetic"] == among["genetic"]
    assert len({tuple(look.values()) for look in among.values()}) == 4
    eight = looks([f"policy-{index}" for index in range(8)])
    assert len({look["color"] for look in eight.values()}) == 8
    forty = looks([f"policy-{index}" for index in range(40)])
    assert len({(look["color"], str(look["linestyle"])) for look in forty.values()}) == 40
    assert len({(look["color"], look["marker"]) for look in forty.values()}) == 40
