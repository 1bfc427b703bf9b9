"""A scheduler of real jobs: reads what they publish, asks a policy, writes what they get.

Nothing that matters is kept in memory. What the jobs have is in the file of the allocation, what is
known of them in theirs: a scheduler that was killed goes on from there, and jobs train meanwhile.
(What a policy remembers, such as the queues of Tiresias, begins anew.) An allocation that cannot be
read counts as none, and the jobs then have what their states say.

A job whose files make no sense keeps what it has; the others share the rest. A decision that breaks
a rule, by the independent checker, is said and not written. The file is written only when somebody
gets something else, so that nobody is restarted without need.
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
from goodalloc.experiments.live.jobs import find_jobs
from goodalloc.experiments.support.folder_lock import LOCK_SECONDS, locked, require_locks
from goodalloc.solvers.interface.result import Evidence, relative_gap
from goodalloc.solvers.registry import POLICIES, make_policy

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.experiments.live.decision import Nodes
    from goodalloc.experiments.live.jobs import LiveJobs
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.solvers.policies.policy import Policy
    from goodalloc.solvers.registry import PolicyOptions

#: Those that need no oracle, no modes, and no nodes that come and go.
LIVE = (
    "pollux",
    "pollux-untied",
    "pollux-goodput",
    "pollux-genetic",
    "pollux-greedy",
    "equal",
    "tiresias",
    "tiresias-gittins",
    "fifo",
)

#: What the others need and real jobs do not have.
_NEEDS = {
    "an oracle": (
        "pollux-remaining",
        "optimus",
        "srtf",
        "allox",
        "hesrpt",
        "gavel",
        "gavel-blind",
        "gavel-makespan",
        "gavel-finish-time",
        "gavel-completion",
        "gavel-throughput",
        "gavel-levels",
        "gavel-cost",
        "gavel-packed",
        "themis",
        "themis-exact",
        "themis-maxmin",
    ),
    "losses": ("slaq", "slaq-exact"),
    "GPUs that are shared": ("gandiva", "gandiva-exact", "antman", "antman-exact"),
    "nodes that come and go": ("autoscaling-goodput", "autoscaling-throughput"),
    "types of GPU or cores": ("sia", "sia-exact", "pollux-proportional", "synergy-tune"),
}

#: A relative gap below this counts as none.
OPTIMAL = 1e-9


def live_policy(name: str, options: PolicyOptions) -> Policy:
    """A policy for real jobs.

    Raises
    ------
    ValueError
        If it is unknown, or needs what real jobs do not have.
    """
    for need, names in _NEEDS.items():
        if name in names:
            raise ValueError(
                f"Policy '{name}' needs {need}, which real jobs do not have; expected one of "
                f"{', '.join(LIVE)}."
            )
    if name not in POLICIES and ":" not in name:
        raise ValueError(
            f"Policy is '{name}'; expected one of {', '.join(LIVE)}, or package.module:name."
        )
    return make_policy(name, options)


class Totals(NamedTuple):
    """What a scheduler did.

    Attributes
    ----------
    decisions, changes
        How many, and how many of them gave somebody something else.
    jobs
        That it saw.
    seconds
        From its start to its end.
    """

    decisions: int
    changes: int
    jobs: int
    seconds: float


@dataclass
class LiveScheduler:
    """Decides when a job comes or goes, and every so many seconds.

    Parameters
    ----------
    folder
        Of the cluster; exists.
    cluster
        The nodes.
    policy
        Who decides.
    interval
        Seconds between decisions where nothing happens.
    until_done
        Whether to end as soon as there was a job and none is left.
    stopped
        Whether the scheduler is asked to end.
    say
        Takes a line for people.
    glance
        Seconds between two looks at the files.
    trusting
        Whether the policy ships, so that its bounds are believed.
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
    _said: set[str] = field(default_factory=set, init=False)
    _decisions: int = field(default=0, init=False)
    _changes: int = field(default=0, init=False)
    _seen: set[str] = field(default_factory=set, init=False)

    def run(self) -> Totals:
        """Decide until it is asked to end, or all is done.

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
                    self.round(found)  # nobody has anything any more
                    break
                if found.names != last or (found.names and time.monotonic() >= due):
                    self.round(found)
                    last, due = found.names, time.monotonic() + self.interval
                self._sleep()
        seconds = time.monotonic() - begin
        return Totals(self._decisions, self._changes, len(self._seen), seconds)

    def round(self, found: LiveJobs) -> None:
        """Decide once, and write what came out; what went wrong is said.

        Parameters
        ----------
        found
            The jobs that are there.
        """
        begin, now = time.monotonic(), time.time()
        self._seen |= found.names
        self._warn(*found.unreadable.values())
        written = self._written()
        states = {job.submission.name: job.state for job in found.jobs}
        told = {name: state.placement for name, state in states.items() if state}
        current = told if written is None else written
        trouble = ""
        try:
            decided = decide(found, current, self.cluster, self.policy, now, trusting=self.trusting)
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
        """The allocation as it was last decided; None if it cannot be read."""
        path = allocation_file(self.folder)
        if not path.exists():
            return None
        try:
            return read_placements(path)
        except ValueError as error:
            self._warn(str(error))
            return None

    def _interrupted(self) -> bool:
        """Whether a former scheduler was killed after its last jobs finished, before it saw that.

        Where one of them did not finish, somebody may be about to start it again.
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
        """Keep a decision, and tell people."""
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
        """Say each complaint once."""
        for sentence in sentences:
            if sentence not in self._said:
                self._said.add(sentence)
                self.say(sentence)

    def _sleep(self) -> None:
        """A moment, less if the scheduler is asked to end."""
        end = time.monotonic() + self.glance
        while not self.stopped() and (left := end - time.monotonic()) > 0.0:
            time.sleep(min(left, 0.1))
