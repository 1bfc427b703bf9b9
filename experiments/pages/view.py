"""Page of whatever a path names: a round, a replay, several replays, or runs of the benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.data.rounds import read_round
from goodalloc.experiments.pages.gap_profiles import GAPS, gap_page, read_gaps
from goodalloc.experiments.pages.gpus_of_nodes import round_page
from goodalloc.experiments.pages.jobs_over_time import replay_page
from goodalloc.experiments.pages.replay_files import JOBS, SAMPLES, read_replay
from goodalloc.models.support.validation import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

#: File of a comparison of solvers on one round.
COMPARED = "compare.csv"


def view(path: str, policies: Sequence[str] = ()) -> str:
    """Return the page of a file or a folder.

    Parameters
    ----------
    path
        An instance file, the name of a shipped one or a round in columns, of which the present
        allocation is shown; a folder of replays or of one, or that of a gap benchmark or its file.
    policies
        Names of the replays to show, of those in the folder; all if empty.

    Raises
    ------
    ValueError
        If the path is none of these, or an argument does not suit it.
    """
    folder = Path(path)
    if folder.name == GAPS and folder.is_file():
        folder = folder.parent
    if not folder.is_dir():
        if policies:
            raise ValueError("argument --policies: expected a folder of replays with it.")
        instance = read_round(path)
        return round_page(instance, instance.current)
    if policies and ((folder / GAPS).is_file() or (folder / SAMPLES).is_file()):
        raise ValueError("argument --policies: expected a folder of several replays with it.")
    if (folder / GAPS).is_file():
        return gap_page(read_gaps(folder / GAPS))
    if (folder / SAMPLES).is_file():
        return replay_page({folder.name: read_replay(folder)})
    names = sorted(one.name for one in folder.iterdir() if (one / JOBS).is_file())
    if not names and (folder / COMPARED).is_file():
        raise ValueError(
            f"Folder '{path}' holds a comparison of one round; expected the round itself, with "
            "--allocation one of the results of the folder."
        )
    if not names:
        raise ValueError(
            f"Folder '{path}' has neither {GAPS} nor a replay; expected what `goodalloc gap` or "
            "`goodalloc simulate` wrote."
        )
    wanted = [policy.replace(":", ".") for policy in policies]  # as `simulate` names the folders
    for policy in wanted:
        if policy not in names:
            closest = did_you_mean(policy, names)
            raise ValueError(
                f"Folder '{path}' has no replay '{policy}'{closest}; expected {', '.join(names)}."
            )
    return replay_page({name: read_replay(folder / name) for name in wanted or names})
