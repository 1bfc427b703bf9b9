"""What Sia's restrictions cost a round: shapes, rounded coefficients, placement after the decision.

Sia (SOSP'23) decides types and numbers of GPUs exactly, but only among a few shapes, with
coefficients rounded to two decimals, and finds nodes afterwards. Here each is lifted in turn, on
rounds drawn on its cluster of three types, scaled: coefficients as they are; then every number of
GPUs; at last nodes inside the program (`highs`), whose proven bound all are measured by.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.typed_rounds import generate_typed, sia_cluster
from goodalloc.experiments.range_plot import plot_ranges
from goodalloc.experiments.replay_report import rounded
from goodalloc.experiments.reproduction import Reproduction
from goodalloc.models.objective import mode_utilities
from goodalloc.solvers.solve import solve
from goodalloc.solvers.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Mapping

    from matplotlib.figure import Figure

    from goodalloc.data.typed_rounds import TypedState
    from goodalloc.experiments.reproduction import Plan, Rows

#: Jobs, and how many times Sia's cluster of 64 GPUs.
SIZES = ((40, 1), (160, 8), (500, 16), (1000, 32))
STATES: tuple[TypedState, ...] = ("cold", "running")
SEEDS = range(5)

#: Gap to which the program with nodes inside is decided, and its limit in seconds.
GAP, SECONDS = 1e-4, 30.0

#: Options of the solver `sia` by the name of the column.
ROADS: Mapping[str, Mapping[str, Any]] = {
    "published": {},
    "unrounded": {"decimals": None},
    "every_count": {"shapes": "any", "decimals": None},
}


def round_row(jobs: int, scale: int, state: TypedState, seed: int) -> dict[str, Any]:
    """Fitness of every road on one round, and the proven bound.

    Parameters
    ----------
    jobs, scale, state, seed
        Jobs, times Sia's cluster, and the arguments of `generate_typed`.
    """
    instance = generate_typed(seed, jobs, cluster=sia_cluster(scale), state=state)
    mode_utilities(instance)
    placed = solve(instance, "highs", stop=Stop(seconds=SECONDS, gap=GAP))
    roads = {name: solve(instance, "sia", **options) for name, options in ROADS.items()}
    return {
        "jobs": jobs, "gpus": instance.cluster.num_gpus, "state": state, "seed": seed,
        **{name: rounded(result.fitness, 8) for name, result in roads.items()},
        "placed": rounded(placed.fitness, 8), "bound": rounded(placed.bound, 8),
        "status": str(placed.status), "placed_seconds": rounded(placed.solve_seconds, 4),
    }  # fmt: skip


def _rows(_: Plan) -> Rows:
    """A row for every round."""
    return [
        round_row(jobs, scale, state, seed)
        for jobs, scale in SIZES for state in STATES for seed in SEEDS
    ]  # fmt: skip


def loss(row: Mapping[str, Any], road: str) -> float:
    """How far a road is below the bound, in per cent of fitness."""
    return float(100.0 * (1.0 - row[road] / row["bound"]))


def summarise_rounds(rows: Rows) -> Rows:
    """A row for every size: mean and worst losses against the proven bound."""
    shown = []
    for jobs, gpus in dict.fromkeys((row["jobs"], row["gpus"]) for row in rows):
        group = [row for row in rows if (row["jobs"], row["gpus"]) == (jobs, gpus)]
        shown.append({
            "jobs": jobs, "gpus": gpus,
            **{
                f"{road}_below_%": rounded(float(np.mean([loss(row, road) for row in group])), 3)
                for road in (*ROADS, "placed")
            },
            "worst_published_%": rounded(max(loss(row, "published") for row in group), 3),
            "proved": f"{sum(row['status'] == 'optimal' for row in group)}/{len(group)}",
            "median_seconds": rounded(float(np.median([r["placed_seconds"] for r in group])), 3),
            "worst_seconds": max(row["placed_seconds"] for row in group),
        })  # fmt: skip
    return shown


#: Lines of the picture: column, label.
LINES = {
    "published": "Sia as published",
    "unrounded": "coefficients not rounded",
    "every_count": "… and every number of GPUs",
    "placed": "… and nodes inside the program",
}


def plot_restrictions(rows: Rows) -> Figure:
    """Losses against the GPUs: means, with whiskers from the least to the greatest."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.0, 4.2), layout="constrained")
    ax = figure.subplots()
    gpus = list(dict.fromkeys(row["gpus"] for row in rows))
    losses = {
        label: {size: [loss(row, road) for row in rows if row["gpus"] == size] for size in gpus}
        for road, label in LINES.items()
    }
    plot_ranges(ax, losses)
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel("GPUs of three types")
    ax.set_ylabel("fitness below the proven bound (%)")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


RESTRICTIONS = Reproduction(
    "What Sia's shapes, rounding and later placement cost a round",
    lambda _: (), _rows, lambda _, rows: plot_restrictions(rows), shown=summarise_rounds,
    ignores=("workloads", "pollux", "seeds", "artifact", "quick"),
)  # fmt: skip
