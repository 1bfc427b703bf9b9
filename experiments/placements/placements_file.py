"""File of the placements of a replay: written where a decision changes them, and read back."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.csv_writing import csv_text
from goodalloc.models.round.cluster import MOST_GPUS

if TYPE_CHECKING:
    from pathlib import Path

    from goodalloc.models.round.allocation import Placement
    from goodalloc.solvers.policies.policy import BatchSizes, Decision, Policy, Round

#: Name of the file, and its columns (schema in data/FORMAT.md).
PLACEMENTS = "placements.csv"
COLUMNS = ("time", "job", "placement", "host")

#: GPUs of one node, of a job.
PAIR = re.compile(r"([0-9]{1,9}):([0-9]{1,9})")


class Change(NamedTuple):
    """Change of the placement of a job.

    Attributes
    ----------
    time
        Seconds from the start.
    job
        Name of the job.
    placement
        The GPUs that it holds from then on.
    host
        Name of the job on whose GPUs it runs; empty where it has its own.
    """

    time: float
    job: str
    placement: Placement
    host: str


@dataclass
class PlacementWriter:
    """Policy whose placements are written to a file where they change.

    A replay that is resumed goes on with the file as it was at the checkpoint, which keeps `_size`.

    Parameters
    ----------
    policy
        Policy that decides; writing changes none of its decisions.
    file
        The file.
    """

    policy: Policy
    file: Path
    _held: dict[str, tuple[str, str]] = field(default_factory=dict, init=False, repr=False)
    _size: int = field(default=0, init=False, repr=False)

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes of the policy."""
        return self.policy.batch_sizes

    @property
    def sharing(self) -> object:
        """Sharing of GPUs by the policy; None where its jobs share none."""
        return getattr(self.policy, "sharing", None)

    @property
    def pooled(self) -> bool:
        """Whether the agents of its jobs pool their measurements of all types of GPU."""
        return bool(getattr(self.policy, "pooled", False))

    def decide(self, round_: Round) -> Decision:
        """Return the decision of the policy, and write the placements that it changes.

        Raises
        ------
        ValueError
            If the file cannot be written, or is gone or shorter than it was.
        """
        decision = self.policy.decide(round_)
        held = {
            job.name: (
                placement_text(decision.placements.get(job.name, ())),
                decision.beside.get(job.name, ""),
            )
            for job in round_.jobs
        }
        rows = [
            {"time": round_.time, "job": name, "placement": placement, "host": host}
            for name, (placement, host) in held.items()
            if self._held.get(name, ("", "")) != (placement, host)
        ]
        self._held = held
        if rows or not self._size:
            self._append(rows)
        return decision

    def _append(self, rows: list[dict[str, object]]) -> None:
        """Write rows after those that the last checkpoint knows; the heading before the first."""
        there = self.file.exists()
        if self._size and (not there or self.file.stat().st_size < self._size):
            fault = "shorter than its checkpoint says" if there else "gone"
            raise ValueError(
                f"File '{self.file}' is {fault}; expected the file as it was written; remove the "
                "folder or take another."
            )
        if there:
            os.truncate(self.file, self._size)
        heading, _, lines = csv_text(rows, COLUMNS).partition("\n")
        append_lines(self.file, lines, f"{heading}\n")
        self._size = self.file.stat().st_size


def writing_placements(policy: Policy, file: Path) -> Policy:
    """Return a policy that decides as `policy`, and writes its placements to a file.

    Parameters
    ----------
    policy
        The policy.
    file
        The file.
    """
    # a replay that fails names the class of its policy: this one has the same name
    kind = type(type(policy).__name__, (PlacementWriter,), {"__module__": __name__})
    made: Policy = kind(policy, file)
    return made


def read_changes(path: Path) -> list[Change]:
    """Read the placements of a replay, in order of time.

    Parameters
    ----------
    path
        The file (schema in data/FORMAT.md).

    Raises
    ------
    ValueError
        If it cannot be read, lacks a column, or a cell of it is malformed.
    """
    table = read_table(path, COLUMNS, least=0)
    times, found = table.numbers("time", 0.0).tolist(), list[Change]()
    for row, time in enumerate(times):
        if row and time < times[row - 1]:
            raise table.refusal(row, "time", "seconds in order")
        _, job, placement, host = (table.columns[column][row] for column in COLUMNS)
        try:
            found.append(Change(time, job, read_placement(placement), host))
        except ValueError:
            raise table.refusal(row, "placement", "node:GPUs pairs such as 0:4 3:2") from None
    return found


def placement_text(placement: Placement) -> str:
    """Return a placement as ``node:GPUs`` pairs.

    Examples
    --------
    >>> from goodalloc.experiments.placements.placements_file import placement_text
    >>> placement_text(((3, 4), (0, 2)))
    '0:2 3:4'
    """
    return " ".join(f"{node}:{gpus}" for node, gpus in sorted(placement))


def read_placement(text: str) -> Placement:
    """Return the placement that `placement_text` wrote.

    Raises
    ------
    ValueError
        If the text is none.
    """
    pairs = [PAIR.fullmatch(part) for part in text.split()]
    placement = tuple((int(pair[1]), int(pair[2])) for pair in pairs if pair)
    nodes, counts = {node for node, _ in placement}, {gpus for _, gpus in placement}
    if not all(pairs) or len(nodes) < len(pairs) or not all(1 <= n <= MOST_GPUS for n in counts):
        raise ValueError(f"placement is '{text}'; expected node:GPUs pairs as '0:4 3:2'.")
    return placement
