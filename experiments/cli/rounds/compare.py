"""Commands that run many solvers: compare, gap, demo."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.data.rounds.benchmark_set import benchmark_names, find_instance
from goodalloc.experiments.cli.output import (
    FAILED,
    INTERRUPTED,
    Output,
    counted,
    drawing,
    flat,
    make_folder,
)
from goodalloc.experiments.cli.rounds.columns import comparable_round
from goodalloc.experiments.gap.comparison import check_solvers, compare, usual_solvers
from goodalloc.experiments.gap.gap import (
    GapPlan,
    check_seeds,
    comparable_rows,
    run_gap,
    runs_left,
    smallest,
    typed_rows,
    unpack_history,
)
from goodalloc.experiments.gap.gap_bounds import bounds_text
from goodalloc.experiments.reporting.progress import progress_bar
from goodalloc.experiments.reporting.report import (
    GAP_SHIFT,
    SECONDS_SHIFT,
    STARVED_LEGEND,
    SUMMARY_COLUMNS,
    comparison_rows,
    comparison_text,
    cut_short,
    for_machines,
    solver_averages,
    text_table,
)
from goodalloc.solvers.interface.result import refutes
from goodalloc.solvers.interface.result_file import COLUMNS, result_row, write_result
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from matplotlib.axes import Axes

    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: Table of the results of a comparison.
COMPARED = "compare.csv"

#: What is said of a comparison that was interrupted.
UNFINISHED = "interrupted before all solvers had run to their end"

#: Gap within which a run counts as solved in the performance profile.
SOLVED_GAP = 0.01


def compare_command(arguments: argparse.Namespace) -> Output:
    """Solve an instance with several solvers and seeds."""
    instance = comparable_round(arguments.file)
    given, seeds = arguments.solvers, flat(arguments.seeds)
    solvers = usual_solvers(instance) if given is None else flat(given)
    check_seeds(seeds)
    check_solvers(solvers)
    folder = None if arguments.out is None else make_folder(arguments.out)
    if folder is not None:
        _refuse_another_round(folder / COMPARED, instance)
    stop = Stop(seconds=arguments.seconds, gap=arguments.gap)
    with progress_bar(arguments.command, len(solvers) * len(seeds), quiet=arguments.json) as bar:
        results = compare(instance, solvers, seeds, stop=stop, report=lambda _: bar.update())
    rows = comparison_rows(results)
    text = f"{instance.name}\n\n{comparison_text(rows, results, SUMMARY_COLUMNS)}"
    if folder is not None:
        write_atomically(folder / COMPARED, csv_text([result_row(r) for r in results], COLUMNS))
        for result in results:
            name = "".join(c if c.isalnum() else "-" for c in result.solver)
            write_result(result, instance, folder / f"{name}-seed-{result.seed}.json")
        with drawing(f"the results are in {folder}"):
            _draw_comparison(results, folder / "compare.png")
        text += f"\n\nwritten to {folder}: compare.csv, compare.png and a file for every result"
    found = any(result.allocation is not None for result in results)
    code = 0 if found else FAILED
    if cut_short(results, len(solvers) * len(seeds)):
        code, text = INTERRUPTED, f"{text}\n\n{UNFINISHED}"
    return Output(text, for_machines(rows), code)


def _refuse_another_round(table: Path, instance: Instance) -> None:
    """Refuse a table of results of another round, whose files would stand beside new ones."""
    if not table.is_file():
        return
    names = {*read_table(table, ("instance",), least=0).columns["instance"]}
    if others := sorted(names - {instance.name}):
        raise ValueError(
            f"Folder '{table.parent}' holds results of '{others[0]}'; expected one for those of "
            f"'{instance.name}' with --out."
        )


def _draw_comparison(results: Sequence[Result], path: Path) -> None:
    """Draw final gaps beside gaps over time."""
    from matplotlib.figure import Figure

    from goodalloc.experiments.reporting.plots import save

    solvers = {result.solver for result in results}
    figure = Figure(figsize=(11.0, 2.8 + 0.3 * max(len(solvers), 4)), layout="constrained")
    draw_comparison(results, *figure.subplots(1, 2))
    save(figure, path)


def draw_comparison(results: Sequence[Result], left: Axes, right: Axes) -> None:
    """Draw final gaps in one axes, and gaps over time in another whose times can be read."""
    from goodalloc.experiments.reporting.plots import plot_comparison

    plot_comparison(results, left, right)
    first, last = right.get_xlim()
    if sum(first <= tick <= last for tick in right.get_xticks()) < 2:
        right.xaxis.set_minor_formatter("{x:g}")  # about a decade, of which one power is shown


def gap_command(arguments: argparse.Namespace) -> Output:
    """Run the missing runs of the gap benchmark, and summarise all runs."""
    instances = benchmark_names() if arguments.instances is None else flat(arguments.instances)
    solvers = None if arguments.solvers is None else flat(arguments.solvers)
    plan = GapPlan(instances, solvers, flat(arguments.seeds), arguments.seconds, arguments.gap)
    for source in plan.instances:
        find_instance(source)
    if arguments.subset is not None:
        plan = replace(plan, instances=smallest(plan.instances, arguments.subset))
    if arguments.dry_run:
        return _planned(plan, Path(arguments.out) / "gap.csv")
    folder = make_folder(arguments.out)
    table = folder / "gap.csv"
    interrupted = False
    with progress_bar(arguments.command, len(plan.tasks()), quiet=arguments.json) as bar:
        try:
            rows = run_gap(plan, table, report=lambda _: bar.update())
        except KeyboardInterrupt:
            rows = comparable_rows(plan, table)
            if not rows:
                raise
            interrupted = True
    averages = solver_averages(rows)
    write_atomically(folder / "averages.csv", csv_text(averages, tuple(averages[0])))
    with drawing(f"{table} and averages.csv are whole"):
        draw_gap_benchmark(rows, folder)
    if interrupted:
        there = counted(len(rows), "run", ("is", "are"))
        raise KeyboardInterrupt(
            f"interrupted; {there} in {table}, summed up in averages.csv, and the same command "
            "goes on from there."
        )
    complaints = {
        row["solver"]: f"{row['solver']} on {row['instance']}: {row['message']}\n"
        for row in reversed(rows)
        if row["status"] == "failed" or "bound" in row["message"]
    }
    text = (
        f"{text_table(averages, tuple(averages[0]))}\n\n{''.join(complaints.values())}"
        f"bounds, on so many instances: {bounds_text(rows) or 'none'}\n"
        f"{STARVED_LEGEND}\n"
        f"geometric means are shifted, by {GAP_SHIFT:g} (gaps) and {SECONDS_SHIFT:g} s\n"
        f"written to {folder}: gap.csv, averages.csv"
    )
    return Output(f"{text} and pictures", for_machines(averages))


def _planned(plan: GapPlan, table: Path) -> Output:
    """List the runs of `plan` that `table` lacks, by instance."""
    left = runs_left(plan, table)
    rows: list[dict[str, object]] = []
    for name in plan.instances:
        instance, solvers = find_instance(name), plan.solvers_of(name)
        own = [task for task in left if task.instance == name]
        rows.append(
            {
                "instance": name,
                "jobs": instance.num_jobs,
                "nodes": instance.cluster.num_nodes,
                "solvers": len(solvers),
                "runs": len(solvers) * len(plan.seeds),
                "left": len(own),
                "most_minutes": len(own) * plan.seconds / 60.0,
            }
        )
    most = sum(task.stop.seconds or 0.0 for task in left) / 60.0
    text = (
        f"{text_table(rows, tuple(rows[0]))}\n\n{counted(len(left), 'run')}, {most:.0f} min at most"
    )
    return Output(text, for_machines(rows))


def draw_gap_benchmark(rows: Sequence[dict[str, str]], folder: Path) -> None:
    """Draw the profiles of all runs, and the gap over time on every instance.

    The profiles compare solvers on the instances and seeds that all of them ran. The
    performance profile counts only runs that ended within `SOLVED_GAP` as solved.
    """
    from goodalloc.experiments.reporting import plots

    typed: list[dict[str, Any]] = typed_rows(rows)
    by_run: dict[tuple[str, str], dict[str, Any]] = {}
    for row in typed:
        by_run.setdefault((row["instance"], row["seed"]), {})[row["solver"]] = row
    solvers = list(dict.fromkeys(row["solver"] for row in typed))
    shared = [runs for runs in by_run.values() if len(runs) == len(solvers)]
    gaps = {s: [runs[s]["gap"] for runs in shared] for s in solvers}
    if shared:
        plots.save(plots.plot_gap_profile(gaps), folder / "gap_profile.png")
    seconds = {
        s: [r[s]["solve_seconds"] if r[s]["gap"] <= SOLVED_GAP else math.nan for r in shared]
        for s in solvers
    }
    if any(math.isfinite(value) for times in seconds.values() for value in times):
        axes = plots.plot_performance_profile(seconds)
        axes.set_ylabel(f"share of runs solved to {SOLVED_GAP:.0%} within the factor")
        plots.save(axes, folder / "performance_profile.png")
    for instance in dict.fromkeys(row["instance"] for row in typed):
        _draw_over_time([row for row in typed if row["instance"] == instance], folder)


def _draw_over_time(rows: Sequence[dict[str, Any]], folder: Path) -> None:
    """Draw the gap over time on one instance, each solver with its first seed."""
    from goodalloc.experiments.reporting import plots

    histories: dict[str, list[tuple[float, float]]] = {}
    for row in rows:
        if math.isfinite(row["fitness"]) and row["solver"] not in histories:
            last = (row["solve_seconds"], row["fitness"])
            told = unpack_history(row["history"])
            histories[row["solver"]] = [p for p in told if not refutes(p[1], last[1])] or [last]
    bound = min((row["bound"] for row in rows if math.isfinite(row["bound"])), default=math.inf)
    if histories and math.isfinite(bound):
        axes = plots.plot_gap_over_time(histories, bound)
        name = Path(rows[0]["instance"]).stem
        axes.set_title(name, fontsize="medium")
        plots.save(axes, folder / f"gap_over_time-{name}.png")


def demo_command(arguments: argparse.Namespace) -> Output:
    """Solve two of Pollux's rounds with every solver; write a table and a figure."""
    from goodalloc.experiments.gap.demo import DEMO_INSTANCES, DEMO_SOLVERS, run_demo, write_demo

    solvers = DEMO_SOLVERS if arguments.solvers is None else flat(arguments.solvers)
    folder = make_folder(arguments.out)
    runs = len(DEMO_INSTANCES) * len(solvers)
    with progress_bar(arguments.command, runs, quiet=arguments.json) as bar:
        rounds = run_demo(
            solvers=solvers,
            seconds=arguments.seconds,
            seed=arguments.seed,
            report=lambda _: bar.update(),
        )
    with drawing(f"the table is in {folder}"):
        table, picture = write_demo(rounds, folder)
    text = "\n\n".join([*(r.text() for r in rounds), f"written: {table}, {picture}"])
    rows = [row for demo_round in rounds for row in demo_round.rows()]
    code = 0 if all(r.best for r in rounds) else FAILED
    if len(rounds) < len(DEMO_INSTANCES) or cut_short(rounds[-1].results, len(solvers)):
        code, text = INTERRUPTED, f"{text}\n\n{UNFINISHED}"
    return Output(text, for_machines(rows), code)
