"""Scheduler of real jobs: it reads their states, asks a policy, and writes their allocation.

No essential state is kept in memory. Placements are in the file of the allocation, and states in
files of the jobs: a scheduler that was killed resumes from them, and jobs train meanwhile. (The
memory of a policy, such as the queues of Tiresias, is reset.) An allocation that cannot be read
counts as none, and placements are then taken from the states of the jobs.

A job with a malformed file keeps its placement; the others share the rest. A decision that breaks a
rule, according to the independent checker, is reported and not written. The file is written only
when a placement changes, so that no job is restarted without need.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.documents.append_lines import append_lines
from goodalloc.data.documents.json_file import dump, pack_number, read_text
from goodalloc.data.files.allocation import write_placements
from goodalloc.data.files.job_state import read_job_state, read_placements
from goodalloc.experiments.agent.cluster_folder import DECISIONS, STATE, allocation_file, job_folder
from goodalloc.experiments.live.decision import LiveDecision, decide, keep
from goodalloc.experiments.live.gpu_types import relative_speeds
from goodalloc.experiments.live.jobs import every_job, find_jobs, too_large
from goodalloc.experiments.live.similar_jobs import find_experiences, with_predictions
from goodalloc.experiments.support.folder_lock import LOCK_SECONDS, locked, require_locks
from goodalloc.solvers.interface.result import Evidence, relative_gap

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.live.decision import Nodes
    from goodalloc.experiments.live.jobs import LiveJobs
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.round.mode import Resources
    from goodalloc.solvers.policies.policy import Policy

#: Relative gaps below this count as zero.
OPTIMAL = 1e-9


class Totals(NamedTuple):
    """Summary of the run of a scheduler.

    Attributes
    ----------
    decisions, changes
        Number of decisions, and of those that changed a placement.
    jobs
        Number of jobs seen.
    seconds
        Seconds from its start to its end.
    """

    decisions: int
    changes: int
    jobs: int
    seconds: float


@dataclass
class LiveScheduler:
    """Scheduler that decides when a job arrives or leaves, and at intervals.

    Parameters
    ----------
    folder
        Folder of the cluster, which exists.
    cluster
        The nodes.
    policy
        The policy.
    interval
        Seconds between decisions while no job arrives or leaves.
    until_done
        Whether to end as soon as there was a job and none remains.
    stopped
        Function that returns whether the scheduler is asked to end.
    say
        Function that shows a line of text.
    glance
        Seconds between two looks at the files.
    trusting
        Whether bounds of the policy are believed, as those of the shipped ones.
    similar
        Whether finished jobs that are similar tell what a job has not measured.
    watch
        Function that returns the nodes that are there now, None while there is none; jobs on
        others lose what they had there. Where it raises a ValueError, the nodes stay as they were,
        and its message is shown. None where nodes stay.
    least
        Function that returns what every replica takes of its node's resources at least.
    """

    folder: Path
    cluster: Cluster
    policy: Policy
    interval: float = 60.0
    until_done: bool = False
    stopped: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None
    glance: float = 1.0
    trusting: bool = False
    similar: bool = False
    watch: Callable[[], Cluster | None] | None = None
    least: Callable[[], Resources] = tuple
    _said: set[str] = field(default_factory=set, init=False)
    _decisions: int = field(default=0, init=False)
    _changes: int = field(default=0, init=False)
    _seen: set[str] = field(default_factory=set, init=False)

    def run(self) -> Totals:
        """Decide until the scheduler is asked to end, or all jobs are done.

        Raises
        ------
        ValueError
            If the cluster has a scheduler already, or files cannot be written.
        """
        require_locks("A scheduler")
        refusal = f"Cluster '{self.folder}' has a scheduler already; expected one."
        begin = time.monotonic()
        with locked(self.folder, refusal, LOCK_SECONDS):
            last, due = frozenset[str](), begin
            begun = self._interrupted()
            while not self.stopped():
                found = find_jobs(self.folder)
                if self.until_done and (begun or self._seen) and not found.names:
                    self.round(found)  # an empty allocation
                    break
                changed = self._nodes_changed() or found.names != last
                if changed or (found.names and time.monotonic() >= due):
                    self.round(found)
                    last, due = found.names, time.monotonic() + self.interval
                self._sleep()
        seconds = time.monotonic() - begin
        return Totals(self._decisions, self._changes, len(self._seen), seconds)

    def _nodes_changed(self) -> bool:
        """Take the nodes that are there now; return whether they are others than before."""
        try:
            there = None if self.watch is None else self.watch()
        except ValueError as error:
            self._warn(str(error))
            return False
        if there is None or there == self.cluster:
            return False
        names = ", ".join(f"{node}: {gpus}" for node, gpus in _slots(there).items())
        self.say(f"nodes: {names}")
        self.cluster = there
        return True

    def round(self, found: LiveJobs) -> None:
        """Decide once and write the decision; failures are reported.

        Parameters
        ----------
        found
            The present jobs.
        """
        begin, now = time.monotonic(), time.time()
        self._seen |= found.names
        self._warn(*found.unreadable.values(), *too_large(found, self.cluster))
        written = self._written()
        if self.similar:
            found = with_predictions(found, find_experiences(self.folder))
        states = {job.submission.name: job.state for job in found.jobs}
        told = {name: state.placement for name, state in states.items() if state}
        current = told if written is None else written
        named, trouble = any(self.cluster.gpu_types), ""
        try:
            decided = decide(
                found,
                current,
                self.cluster,
                self.policy,
                now,
                trusting=self.trusting,
                speeds=relative_speeds(every_job(self.folder)) if named else {},
                least=self.least(),
            )
        except ValueError as error:
            trouble = str(error)
            self.say(f"{trouble} Everybody keeps what they have.")
            there = {name: nodes for name, nodes in current.items() if name in found.names}
            decided = LiveDecision(keep(there, self.cluster))
        if decided.placements != written:
            path = allocation_file(self.folder)
            write_placements(path, f"round-{int(now)}", decided.placements)
        before = written or {}
        changed = any(before.get(name) != decided.placements.get(name) for name in found.names)
        self._record(now, found, decided, changed, time.monotonic() - begin, trouble)

    def _written(self) -> dict[str, Nodes] | None:
        """Return the last decided allocation; None if it cannot be read."""
        path = allocation_file(self.folder)
        if not path.exists():
            return None
        try:
            return read_placements(path)
        except ValueError as error:
            self._warn(str(error))
            return None

    def _interrupted(self) -> bool:
        """Return whether a former scheduler was killed after its last jobs finished.

        A job that did not finish may be about to be restarted.
        """
        try:
            lines = read_text(self.folder / DECISIONS).splitlines()
            jobs = json.loads(lines[-1])["jobs"]
            states = [read_job_state(job_folder(self.folder, name) / STATE) for name in jobs]
        except (ValueError, LookupError, TypeError):
            return False
        return bool(states) and all(state.finished for state in states)

    def _record(
        self,
        now: float,
        found: LiveJobs,
        decided: LiveDecision,
        changed: bool,
        seconds: float,
        trouble: str,
    ) -> None:
        """Record a decision, and report it."""
        self._decisions += 1
        self._changes += changed
        value, bound = decided.fitness, decided.bound
        proved = value is not None and bound.evidence is not Evidence.NONE
        gap = relative_gap(value, bound.value) if value is not None and proved else None
        row: dict[str, Any] = {
            "time": now,
            "jobs": sorted(found.names),
            "placements": decided.placements,
            "changed": changed,
            "fitness": value,
            "bound": pack_number(bound.value) if proved else None,
            "gap": gap,
            "bound_source": bound.source,
            "evidence": str(bound.evidence),
            "seconds": seconds,
            "trouble": trouble,
            "predicted": dict(decided.predicted),
            "progress": {
                job.submission.name: [job.state.published, job.state.scale_invariant_steps]
                for job in found.jobs
                if job.state is not None
            },
        }
        append_lines(self.folder / DECISIONS, dump(row) + "\n")
        given = {name: sum(decided.placements.get(name, {}).values()) for name in row["jobs"]}
        texts = [", ".join(f"{name} {gpus}" for name, gpus in given.items()) or "no job"]
        if value is not None:
            proof = "" if gap is None else f", gap {gap:.2%}" if gap > OPTIMAL else ", optimal"
            texts.append(f"fitness {value:.4g}{proof}")
        texts += [f"{seconds:.2f} s", "changed" if changed else "as before"]
        self.say("; ".join(texts))

    def _warn(self, *sentences: str) -> None:
        """Report each sentence once."""
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                self.say(sentence)

    def _sleep(self) -> None:
        """Wait for `glance` seconds, or until the scheduler is asked to end."""
        end = time.monotonic() + self.glance
        while not self.stopped() and (remaining := end - time.monotonic()) > 0.0:
            time.sleep(min(remaining, 0.1))


def _slots(cluster: Cluster) -> dict[str, int]:
    """Return the GPUs of every node by its name."""
    return dict(zip(cluster.node_names, cluster.node_gpus.tolist(), strict=True))
