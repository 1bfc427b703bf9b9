"""Results of a command as tables of pandas: every CSV file in the folder that it wrote.

What `goodalloc compare`, `gap`, `simulate` and `reproduce` write for all that they ran is one table
each, by the name of its file. Replays, searches and trainings have a folder of their own each (it
holds ``replay.json`` or ``search.json``), with files of the same names; their rows are put
together, and say in the columns ``folder`` and ``policy`` where they come from.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.documents.json_file import in_file, parse, read_text

if TYPE_CHECKING:
    import os
    from collections.abc import Collection

    import pandas as pd

#: What says what a folder of records is for.
DESCRIPTIONS = ("replay.json", "search.json")

#: Files that grow while a replay runs; they count once the last one is there.
GROWING, LAST = ("rounds", "samples", "timing"), "jobs"


def load_results(
    folder: str | os.PathLike[str], only: str | Collection[str] | None = None
) -> dict[str, pd.DataFrame]:
    """Load the results in a folder.

    Parameters
    ----------
    folder
        What was given as `--out` to `goodalloc compare`, `gap`, `simulate` or `reproduce`, or the
        folder of a single replay.
    only
        Name or names of the tables to load; all if None. The samples of long replays are large.

    Returns
    -------
    dict of str to DataFrame
        By name, in alphabetical order, with the columns of `data/FORMAT.md`; what is blank is NaN.

        ===============  =======================================================================
        `compare`        a row a solver and seed
        `gap`            a row an instance, solver and seed
        `averages`       of `gap`, a row a solver
        `summary`        of `simulate`, a row a policy
        `rounds`         a row a policy and decision
        `samples`        a row a policy, decision and active job
        `jobs`           a row a policy and job
        `timing`         a row a policy and decision, wall seconds
        a study's name   of `reproduce`, such as `table2` or `fig5-quick`
        ===============  =======================================================================

        Tables of replays begin with the columns `folder` (relative to the given one) and `policy`.
        Replays that have not ended are left out.

    Raises
    ------
    ValueError
        If the folder is none, holds no results, lacks a table that `only` names, or holds a file
        that is no table.

    Examples
    --------
    >>> import pathlib, tempfile
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
    """The tables in a folder and in those of what has ended, in the order of their paths."""
    records = {path.parent for name in DESCRIPTIONS for path in root.rglob(name)}
    found = [path for folder in sorted({root, *records}) for path in sorted(folder.glob("*.csv"))]
    return [
        path
        for path in found
        if path.stem not in GROWING or (path.parent / f"{LAST}.csv").is_file()
    ]


def _table(path: Path, root: Path) -> pd.DataFrame:
    """A file as a table; of one in a folder of records every row says which."""
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
