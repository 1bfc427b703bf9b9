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

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.allocation_file import write_placements
from goodalloc.data.job_state import read_placements
from goodalloc.data.json_file import dump, pack_number
from goodalloc.experiments.cluster_folder import DECISIONS, allocation_file
from goodalloc.experiments.folder_lock import locked, require_locks
from goodalloc.experiments.live_jobs import LiveJobs, find_jobs, fitting
from goodalloc.experiments.policies import POLICIES, PolicyOptions, make_policy
from goodalloc.models.allocation import Allocation
from goodalloc.models.cluster import Cluster, NodeGroup
from goodalloc.models.feasibility import violations
from goodalloc.models.objective import fitness
from goodalloc.models.rules import OSDI21
from goodalloc.solvers.check_decision import check_decision
from goodalloc.solvers.policy import Round

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from goodalloc.models.allocation import Placement
    from goodalloc.solvers.policy import Decision, Policy

#: Those that need no oracle, no modes, and no nodes that come and go.
LIVE = (
    "pollux", "pollux-untied", "pollux-goodput", "pollux-genetic", "pollux-greedy", "equal",
    "tiresias", "tiresias-gittins", "fifo",
)  # fmt: skip

#: A relative gap below this counts as none.
OPTIMAL = 1e-9

Nodes = dict[str, int]
"""GPUs by name of node."""


def live_policy(name: str, options: PolicyOptions) -> Policy:
    """A policy for real jobs.

    Raises
    ------
    ValueError
        If it is unknown, or needs what real jobs do not have.
    """
    if name in POLICIES and name not in LIVE:
        raise ValueError(
            f"Policy '{name}' needs an oracle, modes, or nodes that come and go, which real jobs "
            f"do not have; expected one of {', '.join(LIVE)}."
        )
    return make_policy(name, options)


class LiveDecision(NamedTuple):
    """What was decided for everybody.

    Attributes
    ----------
    placements
        GPUs by name of node, by job; of those that get some.
    fitness, bound
        Of what the policy put to a solver; None where it did not, or nothing was proved.
    """

    placements: dict[str, Nodes]
    fitness: float | None = None
    bound: float | None = None


def decide(
    found: LiveJobs, current: Mapping[str, Nodes], cluster: Cluster, policy: Policy, now: float
) -> LiveDecision:
    """Decide for the jobs that are there.

    Parameters
    ----------
    found
        The jobs.
    current
        What they have, GPUs by name of node.
    cluster
        The nodes.
    policy
        Who decides.
    now
        In seconds since 1970.

    Raises
    ------
    ValueError
        If the policy fails, or what it decides is impossible or breaks a rule.
    """
    keeping = {name: current[name] for name in sorted(found.unreadable) if name in current}
    kept = fitting(keeping, cluster)
    placements = {name: _by_name(pairs, cluster) for name, pairs in kept.items()}
    rest = _without(cluster, kept)
    if not found.jobs or rest is None:
        return LiveDecision(placements)
    names = [job.submission.name for job in found.jobs]
    # by index, which is the same in what is left of the cluster
    held = {name: current[name] for name in names if name in current}
    had = {name: pairs for name, pairs in fitting(keeping | held, cluster).items() if name in held}
    jobs = tuple(job.active(now, had.get(job.submission.name, ())) for job in found.jobs)
    round_ = Round(int(now), rest, jobs)
    try:
        decision = policy.decide(round_)
    except Exception as error:  # whatever somebody's code does, the scheduler goes on
        text = f"{type(error).__name__}: {error}".rstrip(".")
        raise ValueError(f"Policy failed ({text}).") from error
    check_decision(round_, decision)
    value = _checked(round_, decision)
    for name in names:
        if pairs := decision.placements.get(name, ()):
            placements[name] = _by_name(tuple(sorted(pairs)), cluster)
    return LiveDecision(placements, value, None if value is None else decision.bound)


def _by_name(pairs: Placement, cluster: Cluster) -> Nodes:
    return {cluster.node_names[node]: int(gpus) for node, gpus in pairs}


def _without(cluster: Cluster, kept: Mapping[str, Placement]) -> Cluster | None:
    """The cluster without the GPUs that some jobs keep; None if no other is left."""
    if not kept:
        return cluster
    left = cluster.node_gpus.tolist()
    for pairs in kept.values():
        for node, gpus in pairs:
            left[node] -= gpus
    if not any(left):
        return None
    nodes = zip(cluster.node_names, left, strict=True)
    return Cluster(tuple(NodeGroup(name, 1, gpus) for name, gpus in nodes))


def _checked(round_: Round, decision: Decision) -> float | None:
    """The fitness of a decision on the policy's own instance, if it has one.

    Raises
    ------
    ValueError
        If it breaks a rule: of that instance, or else of nodes alone.
    """
    pairs = [tuple(sorted(decision.placements.get(job.name, ()))) for job in round_.jobs]
    instance = decision.instance
    if instance is None:
        nodes = round_.cluster.num_nodes
        free = OSDI21.replace(interference_avoidance=False, max_nodes_per_job=nodes)
        most = {job.name: round_.cluster.num_gpus for job in round_.jobs}
        instance = round_.instance(free, most)
    allocation = Allocation.from_placements(pairs, round_.cluster.num_nodes)
    if broken := violations(instance, allocation):
        raise ValueError(f"Decision breaks a rule: {broken[0]}")
    return None if decision.instance is None else fitness(instance, allocation)


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
    """

    folder: Path
    cluster: Cluster
    policy: Policy
    interval: float = 60.0
    until_done: bool = False
    stopped: Callable[[], bool] = lambda: False
    say: Callable[[str], None] = lambda _: None
    glance: float = 1.0
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
        with locked(self.folder, refusal):
            last, due = frozenset[str](), begin
            while not self.stopped():
                found = find_jobs(self.folder)
                if self.until_done and self._seen and not found.names:
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
            decided = decide(found, current, self.cluster, self.policy, now)
        except ValueError as error:
            trouble = str(error)
            self.say(f"{trouble} Everybody keeps what they have.")
            there = {name: current[name] for name in current if name in found.names}
            fits = fitting(there, self.cluster)
            decided = LiveDecision({name: _by_name(fits[name], self.cluster) for name in fits})
        changed = decided.placements != written
        if changed:
            write_placements(
                allocation_file(self.folder), f"round-{int(now)}", decided.placements
            )  # fmt: skip
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

    def _record(
        self, now: float, found: LiveJobs, decided: LiveDecision, changed: bool, seconds: float,
        trouble: str,
    ) -> None:  # fmt: skip
        """Keep a decision, and tell people."""
        self._decisions += 1
        self._changes += changed
        value, bound = decided.fitness, decided.bound
        gap = None if value is None or bound is None else max(1.0 - value / bound, 0.0)
        row: dict[str, Any] = {
            "time": now, "jobs": sorted(found.names), "placements": decided.placements,
            "changed": changed, "fitness": value,
            "bound": None if bound is None else pack_number(bound), "gap": gap,
            "seconds": seconds, "trouble": trouble,
        }  # fmt: skip
        with (self.folder / DECISIONS).open("a", encoding="utf-8") as stream:
            stream.write(dump(row) + "\n")
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
