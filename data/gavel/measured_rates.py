"""Throughputs that a user measured, and jobs that train with them, from two CSV tables.

The table of rates has the columns ``model, gpu_type, gpus, nodes, steps_per_s``: how many steps a
second a model makes on a number of GPUs of a type, spread over a number of nodes. Of a model, a
type and a number of GPUs there are one or two rows. That on the fewest nodes is the rate on
*consolidated* GPUs, which all models must have; that on more nodes the rate on *spread* ones. What
has no row does not run. The table of jobs has the columns ``job, submit_s, gpus, model`` and either
``steps`` or ``duration_s``. Steps are counted as those of the rates: whatever one replica's step
is, of all replicas together. A duration is that on the type of GPU on which the job is fastest, on
consolidated GPUs, and stands for as many steps. Further columns are passed over.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.gavel.workload import GavelJob
from goodalloc.models.gavel.rate_table import Configuration, RateTable
from goodalloc.models.support.validation import require_name

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.csv_table import Table

RATE_COLUMNS = ("model", "gpu_type", "gpus", "nodes", "steps_per_s")
JOB_COLUMNS = ("job", "submit_s", "gpus", "model")

#: How much work a job is: one of these columns.
WORK_COLUMNS = ("steps", "duration_s")

#: Most GPUs of a row: far more than any job of the field takes.
MOST_GPUS = 100_000

#: Most steps a second, and latest submission: ten years after the start of the trace.
MOST_RATE, LATEST = 1e9, 315_360_000.0

#: Most rates of pairs of models, of which a table has one for each number and type of GPUs.
MOST_PAIRS = 100_000_000

#: A model, a type of GPU and a number of GPUs.
_Key = tuple[str, str, int]


def read_rate_table(path: str | os.PathLike[str]) -> RateTable:
    """Read measured rates; no two models share GPUs.

    Parameters
    ----------
    path
        CSV with the columns `RATE_COLUMNS`.

    Returns
    -------
    RateTable
        Types of GPU and models in the order in which the file first names them, a model as a
        `Configuration` of batch size 0.

    Raises
    ------
    ValueError
        If the file cannot be read, a number or a name is not one, a row is there twice, a model has
        three rows for as many GPUs of a type, or lacks the row on as few nodes as other models
        have; the sentence names the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rates.csv"
    >>> _ = path.write_text(
    ...     "model,gpu_type,gpus,nodes,steps_per_s\\n"
    ...     "bert,a100,1,1,4.0\\nbert,a100,2,1,7.6\\nbert,a100,2,2,6.1\\nbert,t4,1,1,0.9\\n"
    ... )
    >>> rates = read_rate_table(path)
    >>> rates.types, rates.replicas
    (('a100', 't4'), (1, 2))
    >>> rates.rate(rates.configurations[0], 2, "a100", consolidated=False)
    6.1
    """
    table = read_table(path, RATE_COLUMNS)
    by_key = _rows_of(table)
    fewest: dict[tuple[str, int], int] = {}
    for (_, kind, gpus), rows in by_key.items():
        fewest[kind, gpus] = min(min(rows), fewest.get((kind, gpus), MOST_GPUS))
    models, types = (tuple(dict.fromkeys(table.columns[name])) for name in RATE_COLUMNS[:2])
    replicas = tuple(sorted({gpus for _, _, gpus in by_key}))
    shape = (len(models), len(replicas), len(types))
    if (pairs := len(models) * math.prod(shape)) > MOST_PAIRS:
        raise ValueError(
            f"File '{path}': it has {len(models)} models, {len(replicas)} numbers of GPUs and "
            f"{len(types)} types, {pairs:,} rates of pairs in all; expected at most {MOST_PAIRS:,}."
        )
    alone, speeds = np.zeros((*shape, 2)), table.numbers("steps_per_s", 0.0, strict=True)
    if (speeds > MOST_RATE).any():
        raise table.refusal(int(np.argmax(speeds)), "steps_per_s", f"at most {MOST_RATE:g}")
    for (model, kind, gpus), rows in by_key.items():
        together, *spread = sorted(rows)
        first = rows[together]
        if len(spread) > 1:
            expected = f"at most two rows for {gpus} GPUs of type '{kind}', by nodes"
            raise table.refusal(max(rows.values()), "nodes", expected)
        if together > fewest[kind, gpus]:
            expected = f"a row on {fewest[kind, gpus]}, as another model has, before one on more"
            raise table.refusal(first, "nodes", expected)
        place = (models.index(model), replicas.index(gpus), types.index(kind))
        alone[place] = [speeds[first], speeds[rows[spread[0]]] if spread else 0.0]
    if 1 in replicas:
        alone[:, 0, :, 1] = alone[:, 0, :, 0]
    configurations = tuple(Configuration(model, 0) for model in models)
    return RateTable(types, configurations, replicas, alone, np.zeros((len(models), *shape)))


def _rows_of(table: Table) -> dict[_Key, dict[int, int]]:
    """Return the row of every model, type of GPU and number of GPUs, by its number of nodes."""
    found: dict[_Key, dict[int, int]] = {}
    gpus, nodes = _gpus(table), table.counts("nodes")
    models, types = (table.columns[name] for name in RATE_COLUMNS[:2])
    for row, key in enumerate(zip(models, types, gpus, strict=True)):
        for column, name in zip(RATE_COLUMNS, key[:2], strict=False):
            _require_name(table, row, column, name)
        if nodes[row] > gpus[row]:
            raise table.refusal(row, "nodes", f"at most the {gpus[row]} GPUs")
        rows = found.setdefault(key, {})
        if nodes[row] in rows:
            line = table.lines[rows[nodes[row]]]
            raise table.refusal(row, "nodes", f"another number than line {line} has for the same")
        rows[nodes[row]] = row
    return found


def read_rate_jobs(path: str | os.PathLike[str], rates: RateTable) -> tuple[GavelJob, ...]:
    """Read jobs that train with measured rates.

    Parameters
    ----------
    path
        CSV with the columns `JOB_COLUMNS` and one of `WORK_COLUMNS`; `submit_s` in seconds from the
        start of the trace, `gpus` those that the job takes, all or none.
    rates
        Configurations of the models.

    Returns
    -------
    tuple of GavelJob
        In order of submission, jobs submitted together in the order of the file.

    Raises
    ------
    ValueError
        If the file cannot be read, both of `WORK_COLUMNS` are there or none, a number or a name is
        not one, a job is there twice, or runs on no type of GPU by the rates; the sentence names
        the line.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from goodalloc.data.gavel import gavel_rates
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "jobs.csv"
    >>> _ = path.write_text("job,submit_s,steps,gpus,model\\nfirst,0,5000,1,CycleGAN\\n")
    >>> read_rate_jobs(path, gavel_rates(None))[0].configuration.family
    'CycleGAN'
    """
    table = read_table(path, JOB_COLUMNS, WORK_COLUMNS)
    names, models, gpus = table.columns["job"], table.columns["model"], _gpus(table)
    given = [name for name in WORK_COLUMNS if name in table.columns]
    if len(given) != 1:
        raise ValueError(
            f"File '{path}': it has {' and '.join(map(repr, given)) or 'neither'}; expected one of "
            "the columns 'steps' and 'duration_s'."
        )
    submissions = table.numbers("submit_s", 0.0, LATEST).tolist()
    work = table.numbers(given[0], 0.0, strict=True).tolist()
    known = {one.name: one for one in rates.configurations}
    jobs, lines = list[GavelJob](), dict[str, int]()
    for row, (name, model) in enumerate(zip(names, models, strict=True)):
        _require_name(table, row, "job", name)
        if name in lines:
            raise table.refusal(row, "job", f"another name than that of line {lines[name]}")
        lines[name] = table.lines[row]
        if model not in known:
            raise table.refusal(row, "model", f"one of {', '.join(known)}")
        fastest = 0.0
        if gpus[row] in rates.replicas:
            fastest = float(rates.alone_rates([known[model]], [gpus[row]]).max())
        if fastest <= 0:
            raise table.refusal(row, "gpus", f"a number on which a rate of '{model}' is known")
        steps = work[row] * (fastest if given[0] == "duration_s" else 1.0)
        if steps > LATEST * fastest:
            raise table.refusal(row, given[0], f"at most ten years of training, {LATEST:,.0f} s")
        jobs.append(GavelJob(name, submissions[row], known[model], gpus[row], steps))
    return tuple(sorted(jobs, key=lambda job: job.submission))


def _gpus(table: Table) -> list[int]:
    """Return the column of numbers of GPUs."""
    numbers: list[int] = table.numbers("gpus", 1, MOST_GPUS, whole=True).astype(int).tolist()
    return numbers


def _require_name(table: Table, row: int, column: str, name: str) -> None:
    """Refuse a name that no instance could have."""
    try:
        require_name("Name", name)
    except ValueError as error:
        raise table.refusal(row, column, "a name of printable characters") from error
