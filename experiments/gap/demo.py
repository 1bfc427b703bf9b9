"""Demonstration: two of Pollux's rounds solved exactly and by every heuristic, with proofs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.experiments.gap.comparison import compare
from goodalloc.experiments.reporting.report import (
    SUMMARY_COLUMNS,
    best_of,
    comparison_rows,
    comparison_text,
    cut_short,
)
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from matplotlib.figure import Figure

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: 160 of Pollux's jobs right after a fifth of the nodes failed: on its cluster of 16 nodes with 4
#: GPUs, where most jobs must wait, and on 64 such nodes, where each can be served.
DEMO_INSTANCES = ("over-disturbed", "medium-disturbed")

DEMO_SOLVERS = ("highs", "local_search", "greedy", "genetic", "knapsack")

#: Seconds that each solver gets for each round.
DEMO_SECONDS = 15.0


@dataclass(frozen=True)
class DemoRound:
    """Results of the demonstration on one instance."""

    instance: Instance
    results: list[Result]

    @property
    def best(self) -> Result | None:
        """Result with the best allocation."""
        return best_of(self.results)

    def title(self) -> str:
        """Name and size of the instance."""
        cluster = self.instance.cluster
        return (
            f"{self.instance.num_jobs} jobs on {cluster.num_nodes} nodes, {cluster.num_gpus} GPUs"
        )

    def rows(self) -> list[dict[str, object]]:
        """Return a row for every solver."""
        name = {"instance": self.instance.name}
        return [name | row for row in comparison_rows(self.results)]

    def text(self) -> str:
        """Return the table as text."""
        columns = [column for column in SUMMARY_COLUMNS if column != "seed"]
        table = comparison_text(self.rows(), self.results, columns)
        return f"{self.instance.name}: {self.title()}\n\n{table}"


def run_demo(
    instances: Sequence[Instance] = (),
    solvers: Sequence[str] = DEMO_SOLVERS,
    *,
    seconds: float = DEMO_SECONDS,
    seed: int = 0,
    report: Callable[[Result], None] = lambda result: None,
) -> list[DemoRound]:
    """Solve every round, by default those of `DEMO_INSTANCES`, with every solver.

    An interrupt leaves the results so far.

    Raises
    ------
    ValueError
        If a solver is unknown or `seconds` is not above 0.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.gap import run_demo
    >>> (one,) = run_demo([load_benchmark("tiny-cold")], solvers=("highs", "greedy"), seconds=10.0)
    >>> one.best.solver
    'highs'
    """
    chosen = instances or [load_benchmark(name) for name in DEMO_INSTANCES]
    stop = Stop(seconds=seconds)
    found: list[DemoRound] = []
    for instance in chosen:
        try:
            results = compare(instance, solvers, (seed,), stop=stop, report=report)
        except KeyboardInterrupt:
            if not found:
                raise
            break
        found.append(DemoRound(instance, results))
        if cut_short(results, len(solvers)):
            break
    return found


def write_demo(rounds: Sequence[DemoRound], folder: Path) -> tuple[Path, Path]:
    """Write the table and the picture; returns their paths.

    Raises
    ------
    ValueError
        If a file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.experiments.gap import run_demo, write_demo
    >>> rounds = run_demo([load_benchmark("tiny-cold")], solvers=("highs", "greedy"), seconds=10.0)
    >>> [path.name for path in write_demo(rounds, Path())]
    ['demo.csv', 'demo.png']
    """
    from goodalloc.experiments.reporting.plots import save

    table, picture = folder / "demo.csv", folder / "demo.png"
    rows = [row for demo_round in rounds for row in demo_round.rows()]
    write_atomically(table, csv_text(rows, tuple(rows[0])))
    save(demo_figure(rounds), picture)
    return table, picture


def demo_figure(rounds: Sequence[DemoRound]) -> Figure:
    """Draw for every round its best allocation, the final gaps, and the gaps over time."""
    from matplotlib.figure import Figure

    from goodalloc.experiments.gap.allocation_plot import plot_allocation
    from goodalloc.experiments.reporting.plots import plot_comparison

    figure = Figure(figsize=(15.0, 5.5 * len(rounds)), layout="constrained")
    panels = figure.subplots(len(rounds), 3, squeeze=False, width_ratios=[1, 0.8, 1])
    for demo_round, (who, gaps, time) in zip(rounds, panels, strict=True):
        plot_comparison(demo_round.results, gaps, time)
        best = demo_round.best
        if best is not None and best.allocation is not None:
            plot_allocation(demo_round.instance, best.allocation, who)
            who.set_title(f"{demo_round.title()}: {best.solver}'s allocation", fontsize="medium")
    return figure
