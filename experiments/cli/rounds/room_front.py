"""Option `--front` of the command `room`: moves against the nodes that a gang gets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.experiments.cli.output import (
    FAILED,
    INTERRUPTED,
    Output,
    counted,
    drawing,
    make_folder,
)
from goodalloc.experiments.reporting.report import for_machines, text_table
from goodalloc.experiments.support.stop_request import whole_interrupt
from goodalloc.solvers.making_room.defragment import fewest_moves, greedy_moves

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from matplotlib.figure import Figure

    from goodalloc.models.round.instance import Instance


def front_output(
    instance: Instance, arguments: argparse.Namespace, costs: Mapping[int, float], unit: str
) -> Output:
    """Return the cheapest moves for each number of nodes, beside greedy ones; exit code 1 if none.

    Parameters
    ----------
    instance, arguments
        The round, and the arguments of the command.
    costs
        Cost of moving each running job.
    unit
        Unit of the costs.

    Raises
    ------
    ValueError
        If jobs are to be stopped, or an option is given that a front has no use for.
    """
    for option, used in (
        ("by", arguments.by != "moves"),
        ("greedy", arguments.greedy),
        ("seconds", arguments.seconds is not None),
    ):
        if used:
            raise ValueError(f"argument --{option}: expected none with --front, which is of moves.")
    wanted = sorted(set(arguments.front))
    if wanted[0] < 1:
        raise ValueError(f"argument --front: got {wanted[0]}; expected numbers of nodes above 0.")
    gang = arguments.gang
    rows: list[dict[str, Any]] = []
    ended, code = "", 0
    for nodes in wanted:
        larger = replace(gang, nodes=nodes)
        try:
            with whole_interrupt():  # which the search would take for the end of its time
                plan = fewest_moves(instance, larger, costs=costs)
                greedy = greedy_moves(instance, larger, costs=costs)
        except KeyboardInterrupt:
            if not rows:
                raise
            ended, code = f"interrupted before {counted(nodes, 'node')}", INTERRUPTED
            break
        if not plan.found:
            proof = "which is proved" if plan.proven else "as far as was searched"
            ended = f"no moves make room for {counted(nodes, 'node')}, {proof}"
            break
        rows.append(
            {
                "nodes": nodes,
                "moves": len(plan.moves),
                "cost": plan.cost,
                "proven": plan.proven,
                "greedy_cost": greedy.cost if greedy.found else None,
                "seconds": plan.seconds,
            }
        )
    if not rows:
        return Output(ended, [], FAILED)
    folder = make_folder(arguments.out)
    columns = tuple(rows[0])
    write_atomically(folder / "front.csv", csv_text(rows, columns))
    with drawing(f"the table is in {folder}"):
        from goodalloc.experiments.reporting.plots import save

        save(plot_front(rows, unit), folder / "front.png")
    text = text_table(rows, columns)
    if ended:
        text += f"\n\n{ended}"
    return Output(f"{text}\n\nwritten to {folder}: front.csv, front.png", for_machines(rows), code)


def plot_front(rows: Sequence[Mapping[str, Any]], unit: str) -> Figure:
    """Draw the cost of the moves against the nodes of the gang, exact and greedy.

    Parameters
    ----------
    rows
        Rows with `nodes`, `cost` and `greedy_cost`.
    unit
        Unit of the costs.
    """
    from matplotlib.ticker import MaxNLocator

    from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes

    ax = new_axes(6.0, 3.6)
    nodes = [row["nodes"] for row in rows]
    greedy = [(row["nodes"], row["greedy_cost"]) for row in rows if row["greedy_cost"] is not None]
    ax.plot(
        [at for at, _ in greedy],
        [cost for _, cost in greedy],
        "s--",
        color=COLOURS[1],
        markerfacecolor="white",
        label="greedily",
    )
    ax.plot(nodes, [row["cost"] for row in rows], "o-", color=COLOURS[0], label="the least")
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))
    ax.set_xlabel("nodes of the gang")
    ax.set_ylabel(f"cost of the moves ({unit})")
    ax.set_ylim(bottom=0.0)
    ax.legend(frameon=False)
    return figure_of(ax)
