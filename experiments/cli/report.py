"""Command `report`: write the numbers of all documents from stored results."""

from __future__ import annotations

import contextlib
import platform
import re
import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import in_file, read_text
from goodalloc.experiments.cli.output import FAILED, Output, counted, drawing, make_folder
from goodalloc.experiments.reporting.progress import progress_bar
from goodalloc.experiments.reporting.report import text_table
from goodalloc.experiments.studies.catalogue import ENTRIES, REPRODUCTIONS
from goodalloc.experiments.studies.documents import (
    BENCH,
    ORIGINS,
    QUICK,
    benchmark_names,
    documents,
    repository,
    results_folder,
    stored_names,
    stored_result,
    stored_rows,
)
from goodalloc.experiments.studies.framework.reproduction import Plan
from goodalloc.experiments.studies.framework.result_document import renewed
from goodalloc.experiments.studies.framework.stored_result import (
    Confirmation,
    ResultOrigin,
    confirm_stored,
    spent_on,
    write_stored,
)
from goodalloc.experiments.studies.renewal import DONE, Renewal, renew, stale_results
from goodalloc.experiments.support.machine_description import machine, processor
from goodalloc.experiments.support.module_code import code_digests, taking_part, used_modules
from goodalloc.experiments.support.stop_request import interrupted_keeping

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

    from goodalloc.experiments.studies.framework.records import Rows
    from goodalloc.experiments.support.tasks import Task

#: Libraries whose version may change a result.
LIBRARIES = ("numpy", "scipy", "pandas", "jax", "highspy", "cvxpy", "pyomo", "torch")


def report_command(arguments: argparse.Namespace) -> Output:
    """Write documents anew, check them, or list the stored results that are stale."""
    if arguments.artifact and not arguments.renew:
        raise ValueError("argument --artifact: expected --renew, too; nothing else reads data.")
    if arguments.documents and (arguments.stale or arguments.renew or arguments.figures):
        raise ValueError(
            f"File '{arguments.documents[0]}': expected no document with --stale, --renew or "
            "--figures."
        )
    if arguments.stale:
        return _stale()
    if arguments.renew:
        return _renew(arguments)
    if arguments.figures:
        return _figures(make_folder(arguments.figures))
    for name in arguments.documents:
        if not name.endswith(".md"):
            raise ValueError(f"File '{name}': expected a Markdown document, as page.md.")
    paths = tuple(Path(path).absolute() for path in arguments.documents) or documents()
    found: list[dict[str, Any]] = []
    source = cache(stored_rows)
    for path in paths:
        text = read_text(path, "Markdown")
        try:
            new = renewed(text, source)
        except ValueError as error:
            raise ValueError(in_file(path, error)) from error
        found += [{"document": _shown(path), **one._asdict()} for one in new.differences]
        if new.text != text and not arguments.check:
            write_atomically(path, new.text)
    count = counted(len(paths), "document")
    if not found:
        return Output(f"{count}: no difference from the stored results", found)
    short = [{key: shorten(text, 60) for key, text in row.items()} for row in found]
    table = text_table(short, ("document", "study", "written", "expected"))
    what = "to correct" if arguments.check else "corrected"
    code = FAILED if arguments.check else 0
    return Output(f"{table}\n\n{count}, {counted(len(found), 'difference')} {what}", found, code)


def _shown(path: Path) -> str:
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else str(path)


def _stale() -> Output:
    """List the stored results that are older than their code, and studies without one."""
    rows: list[dict[str, Any]] = []
    stored = {name: stored_result(name).origin for name in stored_names()}
    for name, origin in stored.items():
        changed = origin.changed_modules
        if changed:
            why = f"{changed[0]} changed" + (f" and {len(changed) - 1} more" * (len(changed) > 1))
            minutes: float | str = round(origin.processor_seconds / 60, 1)
            command = f"{origin.command} --store"
            if f"{name}{QUICK}" in stored:
                command = f"{stored[f'{name}{QUICK}'].command} --confirm, or {command}"
            rows.append({"result": name, "why": why, "minutes": minutes, "command": command})
    for name in benchmark_names():
        origin = stored_result(name).origin
        if origin.changed_modules:
            minutes = round(origin.processor_seconds / 60, 1)
            why = f"measured at {origin.commit[:7]}"
            rows.append({"result": name, "why": why, "minutes": minutes, "command": origin.command})
    for name in ENTRIES:
        if name not in stored:
            command = f"goodalloc reproduce {name} --store"
            rows.append({"result": name, "why": "never stored", "minutes": "", "command": command})
    if not rows:
        return Output(f"no stored result is older than its code\n{_took()}", rows)
    text = text_table(rows, ("result", "why", "minutes", "command"))
    return Output(f"{text}\n\nminutes: of processor time\n{_took()}", rows)


def _took() -> str:
    """Tell the processor hours of all stored results by their kind."""
    taken: dict[str, list[float]] = {}
    for row in stored_rows(ORIGINS):
        taken.setdefault(row["kind"], []).append(float(row["processor_hours"]))
    told = (f"{len(hours)} {kind} in {sum(hours):.1f}" for kind, hours in taken.items())
    return f"stored results: {', '.join(told)} processor hours; work that some share counts in each"


def _figures(folder: Path) -> Output:
    """Draw the figures that need the stored rows alone."""
    from goodalloc.experiments.reporting.plots import save
    from goodalloc.experiments.studies.stored_figures import DRAWABLE, stored_figure

    found = [{"study": name, "figure": str(folder / f"{name}.png")} for name in DRAWABLE]
    with drawing(f"those written to {folder} are whole"):
        for row in found:
            save(stored_figure(row["study"]), Path(row["figure"]))
    return Output(f"{len(found)} figures written to {folder}", found)


def _renew(arguments: argparse.Namespace) -> Output:
    """Renew the stale results; exit code 1 if some remain."""
    folders = {name: Path(folder).absolute() for name, folder in arguments.artifact}
    renewal = Renewal(folders, Path(arguments.out).absolute())
    results, rows = stale_results(), list[dict[str, Any]]()
    with (
        interrupted_keeping("results that were renewed stay, and the same command goes on"),
        progress_bar("renew", len(results), quiet=arguments.json) as bar,
    ):
        for row in renew(results, renewal):
            rows.append(row._asdict())
            bar.update(1)
    if not rows:
        return Output("no stored result is older than its code", rows)
    left = [row for row in rows if row["outcome"] not in DONE]
    text = text_table(rows, ("result", "outcome", "minutes"))
    count = f"renewed: {len(rows) - len(left)} of {counted(len(rows), 'result')}"
    return Output(f"{text}\n\n{count}", rows, FAILED if left else 0)


class Reproduced(NamedTuple):
    """Outcome of a study.

    Attributes
    ----------
    table, summary
        Its rows, and the table as people read it; None if that is the same.
    tasks
        Tasks whose records the rows are of.
    seconds
        Processor seconds of the rows beside those of the tasks.
    """

    table: Rows
    summary: Rows | None
    tasks: Sequence[Task]
    seconds: float


def store_result(name: str, plan: Plan, found: Reproduced) -> None:
    """Store the rows of a study in the repository, with their origin.

    Parameters
    ----------
    name
        Name of the study.
    plan
        The part of the plan that concerns the study (`Reproduction.own`).
    found
        Its outcome.

    Raises
    ------
    ValueError
        If the code differs from the last commit, or some task ran with other code.
    """
    seconds, modules = _spent(name, found)
    origin = origin_now(_command(name, plan), seconds + found.seconds, modules)
    file = f"{name}{QUICK}" if plan.quick else name
    write_stored(results_folder(name), file, found.table, found.summary, origin)


def origin_now(command: str, processor_seconds: float, modules: Mapping[str, str]) -> ResultOrigin:
    """Return the origin of a result that this machine and the present commit gave.

    Parameters
    ----------
    command, processor_seconds
        Command that repeats it, and what it took.
    modules
        Digests of the code of the modules that took part, by name.

    Raises
    ------
    ValueError
        If the code differs from the last commit.
    """
    return ResultOrigin(
        command=command,
        commit=commit_of_code(),
        machine=f"{machine()['cores']} cores, {processor()}",
        processor_seconds=round(processor_seconds, 1),
        versions=_versions(),
        modules=dict(sorted(modules.items())),
    )


def store_benchmark(
    tables: Mapping[str, Rows], command: str, processor_seconds: float
) -> tuple[str, ...]:
    """Store the rows of a benchmark in the repository; return the names of the results.

    Parameters
    ----------
    tables
        Rows by the name of their result, without prefix.
    command, processor_seconds
        As of `origin_now`.

    Raises
    ------
    ValueError
        If the code differs from the last commit.
    """
    origin = origin_now(command, processor_seconds, code_digests(used_modules()))
    for name, rows in tables.items():
        write_stored(results_folder(BENCH), f"{BENCH}{name}", rows, None, origin)
    return tuple(f"{BENCH}{name}" for name in tables)


def confirm_result(name: str, plan: Plan, found: Reproduced) -> None:
    """Take the stored result of a study for that of the present code if its quick rows are equal.

    Where the stored quick run is one of many workloads, some of them suffice.

    Raises
    ------
    ValueError
        If no quick result is stored, the rows differ, or some task ran with other code.
    """
    sample, command = stored_result(f"{name}{QUICK}"), _command(name, plan)
    part = sample.origin.command != command
    if part and sample.origin.command != re.sub(r" --workloads \S+", "", command):
        raise ValueError(
            f"Result '{sample.name}' is that of `{sample.origin.command}`; expected the same "
            "options, or --workloads as well."
        )
    modules = _spent(name, found)[1]
    study = ENTRIES[name]
    now = Confirmation(found.table, study.clocked, modules, commit_of_code(), study.module, part)
    confirm_stored(results_folder(name), name, sample, now)


def _spent(name: str, found: Reproduced) -> tuple[float, dict[str, str]]:
    """Return the processor seconds of the tasks, and the digests of all code that took part."""
    seconds, modules = spent_on(found.tasks)
    modules |= code_digests(used_modules())
    took_part = taking_part(ENTRIES[name].module, modules)
    return seconds, {one: modules[one] for one in took_part}


def _versions() -> dict[str, str]:
    """Return the versions of Python and of the libraries that are installed."""
    found = {"python": platform.python_version()}
    for name in LIBRARIES:
        with contextlib.suppress(PackageNotFoundError):
            found[name] = version(name)
    return found


def _command(name: str, plan: Plan) -> str:
    """Return the command that repeats a study, without options that make no difference."""
    words = ["goodalloc", "reproduce", name]
    if plan.artifact is not None:
        words += ["--artifact", "ARTIFACT"]
    if plan.pollux != Plan.pollux:
        words += ["--policies", ",".join(plan.pollux)]
    if plan.workloads != REPRODUCTIONS[name].workloads:
        words += ["--workloads", _ranges(plan.workloads)]
    if plan.seeds != Plan.seeds:
        words += ["--seeds", _ranges(plan.seeds)]
    flags = [f"--{flag}" for flag in ("gaps", "quick") if getattr(plan, flag)]
    return " ".join([*words, *flags])


def _ranges(numbers: Sequence[int]) -> str:
    """Return numbers as the command line takes them: ``1-8``, or ``1,4,6``."""
    if len(numbers) > 1 and list(numbers) == list(range(numbers[0], numbers[-1] + 1)):
        return f"{numbers[0]}-{numbers[-1]}"
    return ",".join(map(str, numbers))


def commit_of_code() -> str:
    """Return the commit of the code, which must be that of the working tree."""
    root = repository()

    def git(*words: str) -> str:
        try:
            done = subprocess.run(
                ["git", "-C", str(root), *words], capture_output=True, text=True, check=True
            )
        except (OSError, subprocess.CalledProcessError) as error:
            raise ValueError(
                f"Folder '{root}' has no history of commits ({error}); expected a clone, since "
                "results are stored with their commit."
            ) from error
        return done.stdout

    changed = [line[3:] for line in git("status", "--porcelain").splitlines()]
    changed = [path for path in changed if path.endswith(".py") and not path.startswith("tests/")]
    if changed:
        raise ValueError(
            f"File '{changed[0]}' differs from the last commit; expected all code committed, since "
            "results are stored with their commit."
        )
    return git("rev-parse", "HEAD").strip()
