"""Records of a replay as its page reads them, and who held which GPUs when."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.pages.page_parts import read_frame
from goodalloc.experiments.placements.gpus_held import held_gpus
from goodalloc.experiments.placements.placements_file import PLACEMENTS, read_changes
from goodalloc.models.round.cluster import Cluster, NodeGroup

if TYPE_CHECKING:
    from pathlib import Path

    import pandas as pd

    from goodalloc.experiments.placements.gpus_held import Held
    from goodalloc.experiments.placements.placements_file import Change

#: Files of a replay; its description is that of `goodalloc.experiments.support.records`.
JOBS, ROUNDS, SAMPLES, DESCRIPTION = "jobs.csv", "rounds.csv", "samples.csv", "replay.json"


class Replayed(NamedTuple):
    """Records of a replay.

    Attributes
    ----------
    jobs, rounds, samples
        Its tables, as `goodalloc simulate` writes them.
    changes
        Changes of the placements of jobs; none where they were not written.
    cluster
        The nodes, None where they are not known.
    """

    jobs: pd.DataFrame
    rounds: pd.DataFrame
    samples: pd.DataFrame
    changes: tuple[Change, ...] = ()
    cluster: Cluster | None = None


def read_replay(folder: Path) -> Replayed:
    """Read the records of a replay.

    Raises
    ------
    ValueError
        If a file is missing, or lacks a column.
    """
    wanted = {
        JOBS: ("job", "application", "submission", "start", "completion", "jct", "restarts"),
        ROUNDS: ("time", "active_jobs", "running_jobs", "allocated_gpus"),
        SAMPLES: ("time", "job", "gpus", "restarts"),
    }
    found = []
    for name, columns in wanted.items():
        path = folder / name
        if not path.is_file():
            raise ValueError(
                f"Folder '{folder}' has no {name}; expected a replay that `goodalloc simulate` "
                "wrote."
            )
        found.append(read_frame(path, columns))
    written = folder / PLACEMENTS
    changes = read_changes(written) if written.is_file() else []
    jobs, rounds, samples = found
    return Replayed(jobs, rounds, samples, tuple(changes), _cluster(folder / DESCRIPTION))


def _cluster(path: Path) -> Cluster | None:
    """Return the cluster of the description of a replay, None without one."""
    if not path.is_file():
        return None
    try:
        groups = json.loads(path.read_text(encoding="utf-8"))["cluster"]["groups"]
        keys = ("name", "nodes", "gpus", "gpu_type")
        return Cluster(tuple(NodeGroup(*(group[key] for key in keys)) for group in groups))
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"File '{path}' has no cluster ({error}); expected the file as `goodalloc simulate` "
            "wrote it."
        ) from error


def held_by_jobs(replayed: Replayed) -> list[Held]:
    """Return who held which GPUs when, in a replay whose placements were written.

    Parameters
    ----------
    replayed
        The records.

    Raises
    ------
    ValueError
        If a job is unknown, has more GPUs of a node than there are, or is on GPUs of another that
        does not have them.
    """
    known = set(replayed.jobs["job"])
    there = replayed.cluster.node_gpus.tolist() if replayed.cluster else []
    for change in replayed.changes:
        if change.job not in known:
            raise ValueError(
                f"Placements at {change.time:g} s: job '{change.job}' is not in {JOBS}; expected "
                "files of one replay."
            )
        for node, gpus in change.placement:
            if node < len(there) and gpus > there[node]:  # others were rented meanwhile
                raise ValueError(
                    f"Placements at {change.time:g} s: job '{change.job}' has {gpus} GPUs of node "
                    f"{node}, which has {there[node]}; expected files of one replay."
                )
    ended = replayed.jobs[replayed.jobs["completion"].notna()]
    completions = dict(zip(ended["job"], ended["completion"].astype(float), strict=True))
    last = float(replayed.rounds["time"].max())
    return held_gpus(replayed.changes, completions, last, there)
