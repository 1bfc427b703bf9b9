"""Results of a command as tables of pandas: every CSV file in the folder that it wrote.

A file that `goodalloc compare`, `gap`, `simulate` or `reproduce` writes about all its runs becomes
a table of its name. Replays, searches and trainings have a folder of their own each (it holds
``replay.json`` or ``search.json``), with files of the same names; their rows are concatenated, with
their origin in the columns ``folder`` and ``policy``.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import in_file, parse, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    import pandas as pd

#: Files that describe a folder of records.
DESCRIPTIONS = ("replay.json", "search.json")

#: Files that grow while a replay runs, and the file that exists once it has ended.
GROWING, LAST = ("placements", "rounds", "samples", "timing"), "jobs"


def load_results(
    folder: str | os.PathLike[str], only: str | Collection[str] | None = None
) -> dict[str, pd.DataFrame]:
    """Load the results in a folder.

    Parameters
    ----------
    folder
        The argument `--out` of `goodalloc compare`, `gap`, `simulate` or `reproduce`, or the
        folder of a single replay.
    only
        Name or names of the tables to load; all if None. The samples of long replays are large.

    Returns
    -------
    dict of str to DataFrame
        Tables by name, in alphabetical order, with the columns of `data/FORMAT.md`; blanks are NaN.

        ===============  =======================================================================
        `compare`        a row per solver and seed
        `gap`            a row per instance, solver and seed
        `averages`       of `gap`, a row per solver
        `summary`        of `simulate`, a row per policy
        `rounds`         a row per policy and decision
        `samples`        a row per policy, decision and active job
        `jobs`           a row per policy and job
        `placements`     a row per policy and change of a job's placement
        `timing`         a row per policy and decision, wall seconds
        name of a study  of `reproduce`, such as `table2` or `fig5-quick`
        ===============  =======================================================================

        Tables of replays begin with the columns `folder` (relative to the given one) and `policy`.
        Replays that have not ended are omitted.

    Raises
    ------
    ValueError
        If `folder` is no folder, holds no results, lacks a table that `only` names, or holds a CSV
        file that is no table.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> from goodalloc.experiments import load_results
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> _ = (folder / "summary.csv").write_text("policy,mean_gap\\npollux,0.0\\nfifo,\\n")
    >>> load_results(folder)["summary"].set_index("policy").mean_gap.to_dict()
    {'pollux': 0.0, 'fifo': nan}
    """
    import pandas as pd

    root, only = Path(folder), [only] if isinstance(only, str) else only
    if not root.is_dir():
        raise ValueError(f"Folder '{root}' is none; expected one that a command wrote.")
    found: dict[str, list[pd.DataFrame]] = {}
    for path in _files(root):
        if only is None or path.stem in only:
            found.setdefault(path.stem, []).append(_table(path, root))
    if only is None and not found:
        raise ValueError(f"Folder '{root}' holds no results; expected one that a command wrote.")
    for name in only or ():
        if name not in found:
            raise ValueError(f"Folder '{root}' has no table '{name}'; expected {name}.csv in it.")
    return {name: pd.concat(found[name], ignore_index=True) for name in sorted(found)}


def _files(root: Path) -> list[Path]:
    """Return the tables of a folder and of finished records in it, in the order of their paths."""
    records = {path.parent for name in DESCRIPTIONS for path in root.rglob(name)}
    found = [path for folder in sorted({root, *records}) for path in sorted(folder.glob("*.csv"))]
    return [
        path
        for path in found
        if path.stem not in GROWING or (path.parent / f"{LAST}.csv").is_file()
    ]


def _table(path: Path, root: Path) -> pd.DataFrame:
    """Return a file as a table; rows of a folder of records name that folder."""
    import pandas as pd

    try:
        table = pd.read_csv(path, keep_default_na=False, na_values=[""], low_memory=False)
    except OSError as error:
        raise ValueError(f"File '{path}' cannot be read ({error.strerror}).") from error
    except ValueError as error:
        raise ValueError(in_file(path, ValueError(f"it is no table ({error})."))) from error
    described = [path.parent / name for name in DESCRIPTIONS if (path.parent / name).is_file()]
    if described:
        description = parse(read_text(described[0]))
        policy = description.get("policy") if isinstance(description, dict) else None
        if policy is not None and "policy" not in table:
            table.insert(0, "policy", policy)
        table.insert(0, "folder", path.parent.relative_to(root).as_posix())
    return table
