"""What the library of rounds holds, by origin: counts of its table and of the stored first rows."""

from __future__ import annotations

from importlib.resources import as_file
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.library.catalogue import library_rounds
from goodalloc.data.library.library_round import CATEGORIES
from goodalloc.experiments.library.protocol import LONG
from goodalloc.experiments.library.stored_rows import STUDIES, stored_table
from goodalloc.experiments.reporting.plots import COLOURS, figure_of, new_axes
from goodalloc.experiments.studies.framework.reproduction import Reproduction

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from goodalloc.experiments.studies.framework.reproduction import Plan


class ContentsRow(NamedTuple):
    """Rounds of one origin.

    Attributes
    ----------
    origin
        The origin, or "all".
    rounds, recorded
        Number of rounds, and of those recorded in replays.
    easy, hard, degenerate, large
        Number of rounds of each class.
    proved, certified
        Number of rounds whose optimum is proved, and whose bound has a certificate.
    long
        Number of rounds that some exact solver did not solve in `LONG` seconds (`long_rounds`).
    most_jobs, most_gpus
        Greatest sizes.
    """

    origin: str
    rounds: int
    recorded: int
    easy: int
    hard: int
    degenerate: int
    large: int
    proved: int
    certified: int
    long: int
    most_jobs: int
    most_gpus: int


def long_rounds() -> set[str]:
    """Return the rounds that some exact solver did not solve in `LONG` seconds.

    By the table of the library, whose values are those of the package's exact solver, by the stored
    rows of `STUDIES`, and by those of the node-indexed program in `library-ablation`.
    """
    known = library_rounds().values()
    found = {one.name for one in known if not one.closed or one.seconds > LONG}
    tables = [*((name, "long", "1") for name in STUDIES), ("library-ablation", "solved", "0")]
    for name, column, chosen in tables:
        path = stored_table(name)
        if path.is_file():
            with as_file(path) as file:
                table = read_table(file, ("round", column))
            pairs = zip(table.columns["round"], table.columns[column], strict=True)
            found |= {round_ for round_, cell in pairs if cell == chosen}
    return found


def _rows(_: Plan) -> list[ContentsRow]:
    """Return a row for each origin, and one for all."""
    every, slow = tuple(library_rounds().values()), long_rounds()
    rows = []
    for origin in (*dict.fromkeys(one.origin for one in every), "all"):
        mine = [one for one in every if origin in ("all", one.origin)]
        counts = {name: sum(one.category == name for one in mine) for name in CATEGORIES}
        rows.append(
            ContentsRow(
                origin=origin,
                rounds=len(mine),
                recorded=sum(one.recorded for one in mine),
                **counts,
                proved=sum(one.closed for one in mine),
                certified=sum(one.proof == "certificate" for one in mine),
                long=sum(one.name in slow for one in mine),
                most_jobs=max(one.jobs for one in mine),
                most_gpus=max(one.gpus for one in mine),
            )
        )
    return rows


def plot_contents(rows: list[ContentsRow]) -> Figure:
    """Draw the rounds of each origin by class."""
    mine = [row for row in rows if row.origin != "all"]
    ax, bottom = new_axes(9.0, 4.2), [0] * len(mine)
    for index, category in enumerate(CATEGORIES):
        counts = [int(getattr(row, category)) for row in mine]
        ax.bar(
            [row.origin for row in mine],
            counts,
            bottom=bottom,
            color=COLOURS[index],
            label=category,
        )
        bottom = [low + count for low, count in zip(bottom, counts, strict=True)]
    ax.set_ylabel("rounds")
    ax.tick_params(axis="x", rotation=40)
    ax.legend()
    return figure_of(ax)


CONTENTS = Reproduction(
    "What the library of rounds holds, by origin and class",
    lambda _: (),
    _rows,
    lambda _, rows: plot_contents(rows),
    ignores=("pollux", "seeds", "artifact", "gaps", "workloads", "quick"),
)
