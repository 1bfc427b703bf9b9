"""Rounds on trees of islands, racks and pods: the exact road, and Kubernetes' placements beside it.

Settled rounds, in which a tenth of the jobs require one rack: with many jobs (by number, three
sizes, with and without gangs of two nodes), and with few (by load, the GPUs that jobs ask for over
those that there are). Each is decided by a task of its own. The heuristics place the numbers of
GPUs of the optimum of the round without its tree, which stands beside them.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.experiments.reporting.plots import COLOURS
from goodalloc.experiments.reporting.table_numbers import rounded
from goodalloc.experiments.studies.framework.reproduction import Reproduction
from goodalloc.experiments.studies.framework.row_task import RowTask
from goodalloc.experiments.studies.topology.drawn_rounds import rounds_on_equal_nodes
from goodalloc.experiments.studies.topology.published_nodes import rounds_on_published_nodes
from goodalloc.models.topology.topology_feasibility import topology_violations
from goodalloc.models.topology.topology_round import topology_fitness, topology_utilities
from goodalloc.solvers.certificates.tree_certificate import certify_tree
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.topology.exact_tree import flat_optimum, solve_tree
from goodalloc.solvers.topology.kueue_placement import ALGORITHMS, greedy_placement

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.studies.framework.reproduction import Plan
    from goodalloc.experiments.studies.topology.drawn_rounds import RoundRecipe
    from goodalloc.models.topology.topology_round import TopologyRound

#: Format of the record of a round.
FORM = "goodalloc-tree-round"

#: Gap at which a round counts as decided, and the time that it may take.
GAP, SECONDS = 1e-6, 30.0


class TreeRow(NamedTuple):
    """One round.

    Attributes
    ----------
    nodes, gpus_per_node, seed
        The cluster, with the GPUs of its largest nodes.
    load
        GPUs asked for over those there are; None for rounds by number.
    jobs, gangs
        Number of jobs, and the share of gangs among them.
    fitness, bound
        Fitness of the exact road, and its bound.
    stage
        What proved it.
    table_seconds, exact_seconds
        Time for the utilities by level, and for the decision.
    certified_bound, certificate_seconds
        Bound that a certificate of the decision proves, and the time to find it.
    flat, best_fit, least_free, most_free, balanced
        Fitness of the placements; `flat` is the optimum without the tree, empty where that breaks a
        rule of the tree.
    gpu_type, racks
        Type of the GPUs of a published list of nodes, and how its racks were made; empty for equal
        nodes.
    """

    nodes: int
    gpus_per_node: int
    seed: int
    load: float | None
    jobs: int
    gangs: float
    fitness: float
    bound: float
    stage: str
    table_seconds: float
    exact_seconds: float
    certified_bound: float
    certificate_seconds: float
    flat: float | None
    best_fit: float | None
    least_free: float | None
    most_free: float | None
    balanced: float | None
    gpu_type: str = ""
    racks: str = ""


def tree_row(recipe: RoundRecipe) -> TreeRow:
    """Return one round, decided exactly and by each placement.

    Parameters
    ----------
    recipe
        What it is drawn from.
    """
    round_ = recipe.draw()
    wanted = flat_optimum(round_)
    assert wanted is not None  # without a limit of time
    table_seconds = _timed_table(round_)
    greedy = {name: greedy_placement(round_, wanted, name) for name in ALGORITHMS}
    placed = {"flat": wanted} | greedy
    reached = {
        name: None if topology_violations(round_, one) else topology_fitness(round_, one)
        for name, one in placed.items()
    }
    stop = Stop(seconds=SECONDS, gap=GAP)
    exact = solve_tree(round_, stop=stop).raise_for_status()
    begin = time.perf_counter()
    certificate = certify_tree(round_, exact.fitness, stop)
    certificate_seconds = time.perf_counter() - begin
    return TreeRow(
        nodes=round_.instance.cluster.num_nodes,
        gpus_per_node=int(round_.instance.cluster.node_gpus.max()),
        seed=recipe.seed,
        load=recipe.load,
        jobs=round_.instance.num_jobs,
        gangs=recipe.gangs,
        fitness=rounded(exact.fitness, 12),
        bound=rounded(exact.bound, 12),
        stage=exact.bound_source,
        table_seconds=rounded(table_seconds, 4),
        exact_seconds=rounded(exact.solve_seconds, 4),
        certified_bound=rounded(certificate.bound, 12),
        certificate_seconds=rounded(certificate_seconds, 4),
        **{n: None if f is None else rounded(f, 12) for n, f in reached.items()},
        gpu_type=recipe.gpu_type,
        racks=recipe.racks,
    )


def _timed_table(round_: TopologyRound) -> float:
    """Return the seconds in which the utilities by level are worked out, for the first time."""
    begin = time.perf_counter()
    topology_utilities(round_, round_.instance.current)
    return time.perf_counter() - begin


def gap_percent(row: TreeRow, name: str) -> float:
    """Return the proven gap of a placement in per cent; NaN where it breaks a rule."""
    reached = getattr(row, name)
    return math.nan if reached is None else 100.0 * (1.0 - reached / row.bound)


def _label(row: TreeRow) -> str:
    if row.load is not None:
        return f"load {row.load:g}"
    return f"{row.jobs} jobs, {100 * row.gangs:g} % gangs"


def _key(row: TreeRow) -> tuple[str, str, int, int, str]:
    return row.gpu_type, row.racks, row.nodes, row.gpus_per_node, _label(row)


#: Columns of `_key`.
KEYS = ("gpu_type", "racks", "nodes", "gpus_per_node", "round")


def summarise_trees(rows: list[TreeRow]) -> Rows:
    """Return a row for every size or load of every list of nodes."""
    shown = []
    for key in dict.fromkeys(map(_key, rows)):
        group = [row for row in rows if _key(row) == key]
        proved = sum(row.fitness >= row.bound * (1 - GAP) for row in group)
        certified = sum(row.fitness >= row.certified_bound * (1 - GAP) for row in group)
        certificate_seconds = [row.certificate_seconds for row in group]
        gaps = {name: [gap_percent(row, name) for row in group] for name in ("flat", *ALGORITHMS)}
        gaps = {name: [one for one in each if not math.isnan(one)] for name, each in gaps.items()}
        shown.append(
            {
                **dict(zip(KEYS, key, strict=True)),
                "proved": f"{proved}/{len(group)}",
                "largest_gap": max(1.0 - row.fitness / row.bound for row in group),
                "exact_(s)": rounded(float(np.median([r.exact_seconds for r in group])), 3),
                "worst_(s)": rounded(max(r.exact_seconds for r in group), 3),
                "certified": f"{certified}/{len(group)}",
                "largest_certified_gap": max(1.0 - r.fitness / r.certified_bound for r in group),
                "certificate_(s)": rounded(float(np.median(certificate_seconds)), 3),
                "worst_certificate_(s)": rounded(max(certificate_seconds), 3),
                "table_(s)": rounded(max(r.table_seconds for r in group), 3),
                "flat_allowed": f"{len(gaps['flat'])}/{len(group)}",
                **{
                    f"{name}_%": rounded(float(np.mean(each)), 4) if each else None
                    for name, each in gaps.items()
                },
                **{
                    f"{name}_worst_%": rounded(max(each), 4) if each else None
                    for name, each in gaps.items()
                },
            }
        )
    return shown


def plot_trees(rows: list[TreeRow]) -> Figure:
    """Draw the proven gaps by load, a panel for each list of nodes."""
    from matplotlib.figure import Figure

    by_load = [row for row in rows if row.load is not None]
    lists = list(dict.fromkeys(map(_list_of, by_load)))
    across = min(len(lists), 3)
    down = -(-len(lists) // across)
    size = (8.0, 4.2) if across == 1 else (4.2 * across, 3.2 * down)
    figure = Figure(figsize=size, layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for ax, one in zip(panels, lists, strict=False):
        _draw_gaps(ax, [row for row in by_load if _list_of(row) == one])
        ax.set_title(one, fontsize="medium")
    for ax in panels[len(lists) :]:
        ax.set_axis_off()
    panels[0].legend(fontsize="small")
    return figure


def _list_of(row: TreeRow) -> str:
    """Return the name of the nodes of a round."""
    if row.gpu_type:
        return f"{row.gpu_type}, {row.racks}"
    return f"{row.nodes} nodes of {row.gpus_per_node} GPUs"


def _draw_gaps(ax: Axes, by_load: list[TreeRow]) -> None:
    """Draw the proven gaps of the placements of one list: their means and every round."""
    loads = sorted({row.load for row in by_load if row.load is not None})
    names = {"flat": "optimum without the tree"} | {
        name: name.replace("_", " ") for name in ALGORITHMS
    }
    for index, (name, label) in enumerate(names.items()):
        offset = 0.12 * (index - 2)
        every = [(loads.index(row.load), gap_percent(row, name)) for row in by_load if row.load]
        means = [
            np.mean([gap for at, gap in every if at == place and not math.isnan(gap)] or [np.nan])
            for place in range(len(loads))
        ]
        ax.plot(
            [at + offset for at, _ in every],
            [gap for _, gap in every],
            marker="os^Dv"[index],
            color=COLOURS[index],
            linestyle="none",
            alpha=0.35,
        )
        ax.plot(
            [place + offset for place in range(len(loads))],
            means,
            marker="os^Dv"[index],
            color=COLOURS[index],
            label=label,
        )
    ax.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
    ax.set_xlabel("GPUs that jobs ask for over those of the cluster")
    ax.set_ylabel("proven gap (%)")
    ax.set_ylim(bottom=0.0)
    ax.grid(axis="y", color="0.9")
    ax.set_axisbelow(True)


def _study(
    title: str, recipes: Callable[[Plan], Iterable[RoundRecipe]], **given: Any
) -> Reproduction[TreeRow]:
    """Return a study of drawn rounds."""

    def tasks(plan: Plan) -> list[RowTask]:
        drawn = [RowTask(plan.folder, FORM, one, tree_row) for one in recipes(plan)]
        return [task.among(plan.folder, "tree") for task in drawn]

    def rows(plan: Plan) -> list[TreeRow]:
        return [TreeRow(**task.record()) for task in tasks(plan)]

    return Reproduction(
        title,
        tasks,
        rows,
        lambda _, found: plot_trees(found),
        shown=summarise_trees,
        ignores=("pollux", "seeds", "artifact", "gaps"),
        quick_workloads=(1,),
        times=True,
        **given,
    )


ON_TREES = _study(
    "Rounds on trees of racks and pods: exact decisions beside the placements of Kubernetes",
    rounds_on_equal_nodes,
    workloads=(1, 2, 3, 4, 5),
)

NOTE = """\
Nodes and their GPUs are published ones; racks are made, of nodes alike or mixed. Jobs are drawn,
as fast as on the GPUs of the shipped profiles. Gaps are to the bound that was proved, so where not
all rounds are proved the optimum may be closer."""

ON_PUBLISHED_NODES = _study(
    "Nodes of a real cluster in made racks: exact decisions beside placements of Kubernetes",
    rounds_on_published_nodes,
    workloads=(1, 2, 3),
    note=NOTE,
)
