"""GPUs of every node over time, and the job that held each of them, from placements of a replay.

A decision gives a job so many GPUs of a node. Which of them is nowhere decided, as the GPUs of a
node are alike: a job keeps the ones that it has, and gets free ones side by side if it can.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.experiments.placements.placements_file import Change

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


class Held(NamedTuple):
    """GPUs side by side on a node that a job holds.

    Attributes
    ----------
    node, first, gpus
        The node, the first of the GPUs on it, and their number.
    begin, end
        Seconds from the start.
    job
        Name of the job.
    guest
        Whether it shares them with another job, whose own they are.
    """

    node: int
    first: int
    gpus: int
    begin: float
    end: float
    job: str
    guest: bool


def held_gpus(
    changes: Sequence[Change],
    completions: Mapping[str, float],
    last: float,
    gpus: Sequence[int] = (),
) -> list[Held]:
    """Return who held which GPUs when.

    Parameters
    ----------
    changes
        Changes of placements, in order of time.
    completions
        Completion of every job that ended, in seconds; after it the job holds nothing.
    last
        End of what is held by a job that did not end, in seconds.
    gpus
        GPUs of every node; of other nodes, as many as were held at once.

    Raises
    ------
    ValueError
        If a job is on GPUs of another that does not have them.

    Examples
    --------
    >>> from goodalloc.experiments.placements.gpus_held import held_gpus
    >>> from goodalloc.experiments.placements.placements_file import Change
    >>> changes = [Change(60, "a", ((0, 2),), ""), Change(60, "b", ((0, 1),), "")]
    >>> changes.append(Change(120, "b", ((0, 2),), ""))
    >>> for one in held_gpus(changes, {"a": 100.0}, 180.0):
    ...     print(one.job, one.first, one.gpus, one.begin, one.end)
    a 0 2 60 100.0
    b 2 1 60 120
    b 1 2 120 180.0
    """
    nodes = _Nodes(gpus)
    groups: dict[float, list[Change]] = {}
    for change in changes:
        groups.setdefault(change.time, []).append(change)
    for time, group in groups.items():
        for job in nodes.jobs():
            if completions.get(job, math.inf) <= time:
                nodes.release(job, completions[job])
        nodes.change(time, group)
    for job in nodes.jobs():
        nodes.release(job, completions.get(job, last))
    return sorted(nodes.found, key=lambda one: (one.begin, one.node, one.first, one.guest))


class _Part(NamedTuple):
    """GPUs of a node that a job holds, and since when."""

    gpus: tuple[int, ...]
    begin: float


class _Nodes:
    """Nodes, and who holds which of their GPUs."""

    def __init__(self, gpus: Sequence[int]) -> None:
        self.found: list[Held] = []
        self._held: dict[str, dict[int, _Part]] = {}
        self._hosts: dict[str, str] = {}
        self._taken: defaultdict[int, set[int]] = defaultdict(set)
        self._gpus: defaultdict[int, int] = defaultdict(int, enumerate(gpus))

    def jobs(self) -> list[str]:
        """Return the jobs that hold GPUs."""
        return list(self._held)

    def release(self, job: str, time: float) -> None:
        """Take all GPUs from a job."""
        for node in list(self._held[job]):
            self._close(job, node, time)
        del self._held[job]

    def change(self, time: float, changes: list[Change]) -> None:
        """Apply changes that happen at the same time: GPUs are freed first, guests come last."""
        moved = {change.job for change in changes}
        follow = [
            Change(time, job, tuple((node, len(part.gpus)) for node, part in held.items()), host)
            for job, held in self._held.items()
            if job not in moved and (host := self._hosts[job]) in moved
        ]
        own = [(change, self._kept(time, change)) for change in changes if not change.host]
        guests = [change for change in [*changes, *follow] if change.host]
        for change in guests:
            if change.job in self._held:
                self.release(change.job, time)
        for change, kept in own:
            self._hosts[change.job] = ""
            held = self._held.setdefault(change.job, {})
            for node, gpus in change.placement:
                if node not in held:
                    own_there = kept.get(node, ())
                    more = self._free(node, gpus - len(own_there), own_there)
                    held[node] = _Part((*own_there, *more), time)
            if not held:
                del self._held[change.job]
        for change in guests:
            self._hosts[change.job] = change.host
            self._held[change.job] = {
                node: _Part(self._shared(change, node, gpus), time)
                for node, gpus in change.placement
            }

    def _kept(self, time: float, change: Change) -> dict[int, tuple[int, ...]]:
        """Free the GPUs that a job loses; return those that it keeps where their number changes."""
        wanted, kept = dict(change.placement), {}
        if self._hosts.get(change.job) and change.job in self._held:
            self.release(change.job, time)
        for node, part in list(self._held.get(change.job, {}).items()):
            if wanted.get(node) == len(part.gpus):
                continue
            self._close(change.job, node, time)
            kept[node] = part.gpus[: wanted.get(node, 0)]
            self._taken[node].update(kept[node])
        return kept

    def _close(self, job: str, node: int, time: float) -> None:
        """Take the GPUs of a node from a job."""
        gpus, begin = self._held[job].pop(node)
        guest = bool(self._hosts[job])
        if not guest:
            self._taken[node].difference_update(gpus)
        if time > begin:
            for first, count in [(gpu, 1) for gpu in gpus] if guest else _runs(gpus):
                self.found.append(Held(node, first, count, begin, time, job, guest))

    def _free(self, node: int, gpus: int, beside: tuple[int, ...]) -> tuple[int, ...]:
        """Take free GPUs of a node: those nearest to others, or the shortest row that is enough."""
        taken = self._taken[node]
        self._gpus[node] = max(self._gpus[node], len(taken) + gpus)
        free = [gpu for gpu in range(self._gpus[node]) if gpu not in taken]
        if beside:
            found = tuple(
                sorted(free, key=lambda gpu: min(abs(gpu - own) for own in beside))[:gpus]
            )
            taken.update(found)
            return found
        rows = [(count, first) for first, count in _runs(free) if count >= gpus]
        first = min(rows)[1] if rows else free[0] if free else 0
        found = tuple([gpu for gpu in free if gpu >= first or not rows][:gpus])
        taken.update(found)
        return found

    def _shared(self, change: Change, node: int, gpus: int) -> tuple[int, ...]:
        """Return GPUs of the host of a job that no other guest has."""
        host = self._held.get(change.host, {}).get(node)
        others = {
            gpu
            for job, held in self._held.items()
            if self._hosts[job] == change.host and job != change.job and node in held
            for gpu in held[node].gpus
        }
        found = [gpu for gpu in (host.gpus if host else ()) if gpu not in others][:gpus]
        if len(found) < gpus:
            raise ValueError(
                f"Placements at {change.time:g} s: job '{change.job}' has {gpus} GPUs of job "
                f"'{change.host}' on node {node}; expected at most the {len(found)} that it has "
                "there."
            )
        return tuple(found)


def _runs(gpus: Iterable[int]) -> list[tuple[int, int]]:
    """Return the first and the number of GPUs side by side, for each such row."""
    found: list[tuple[int, int]] = []
    for gpu in sorted(gpus):
        if found and sum(found[-1]) == gpu:
            found[-1] = (found[-1][0], found[-1][1] + 1)
        else:
            found.append((gpu, 1))
    return found
