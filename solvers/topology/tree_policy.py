"""Policies that know the tree of the cluster: Pollux on it, and any policy with its placements.

`PolluxOnTree` decides numbers of GPUs and nodes together, exactly, with speedups by level.
`PlacedOnTree` lets another policy decide how many GPUs every job gets, as it would without the
tree, and places these one job after the other, as schedulers of Kubernetes do.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.rules import OSDI21
from goodalloc.solvers.interface.bounds import Bound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.pollux import decision_of, stay
from goodalloc.solvers.topology.kueue_placement import Algorithm, greedy_placement

if TYPE_CHECKING:
    from goodalloc.models.round.rules import Rules
    from goodalloc.models.topology.tree_wishes import TreeWishes
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Policy, Round

#: Way in which jobs are placed on a tree: with the decision, or after it by an algorithm.
Placing = Literal["exact"] | Algorithm

#: All of them.
PLACINGS: tuple[Placing, ...] = ("exact", *get_args(Algorithm))

#: Relative gap at which a round of a replay counts as decided.
GAP = 1e-4


@dataclass
class PolluxOnTree:
    """Pollux with speedups by level: every round on the tree is decided exactly.

    Parameters
    ----------
    wishes
        The tree, and what jobs ask of its levels.
    rules
        Objective and constraints.
    seconds
        Time limit of each round; when time runs out the best allocation so far is taken.

    Attributes
    ----------
    batch_sizes
        Batch sizes follow the goodput.
    """

    wishes: TreeWishes
    rules: Rules = OSDI21
    seconds: float | None = None

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes by goodput."""
        return "goodput"

    def decide(self, round_: Round) -> Decision:
        """Solve the round on the tree; jobs stay where they are if nothing is found."""
        from goodalloc.solvers.topology.exact_tree import solve_tree  # a long chain of imports

        instance = round_.instance(self.rules)
        stop = Stop(seconds=self.seconds, gap=GAP)
        result = solve_tree(self.wishes.round_of(instance), stop=stop)
        if result.allocation is None:
            return stay(round_)
        decision = decision_of(instance, result.allocation, Bound.of(result))
        return decision._replace(instance=None)  # the bound is that of the round on the tree


@dataclass
class PlacedOnTree:
    """Policy whose numbers of GPUs are those of another, placed on a tree by an algorithm.

    Jobs that the other policy leaves where they are stay.

    Parameters
    ----------
    policy
        The other policy.
    wishes
        The tree, and what jobs ask of its levels.
    algorithm
        The algorithm.
    rigid
        Whether a job gets as many GPUs as the other policy gave it, or none; else it gets as many
        of them as there is room for.
    interference_avoidance
        Whether at most one job on several nodes uses each node.

    Attributes
    ----------
    batch_sizes
        Those of the other policy.

    Raises
    ------
    ValueError
        If jobs share GPUs under the other policy.
    """

    policy: Policy
    wishes: TreeWishes
    algorithm: Algorithm = "best_fit"
    rigid: bool = False
    interference_avoidance: bool = False

    def __post_init__(self) -> None:
        if getattr(self.policy, "sharing", None) is not None:
            raise ValueError(
                f"Policy of type {type(self.policy).__name__}: its jobs share GPUs; expected one "
                "whose jobs have GPUs of their own, to be placed on a tree."
            )

    @property
    def batch_sizes(self) -> BatchSizes:
        """Batch sizes by the rule of the other policy."""
        return self.policy.batch_sizes

    def decide(self, round_: Round) -> Decision:
        """Decide by the other policy, and place its numbers of GPUs."""
        decision = self.policy.decide(round_)
        given = [decision.placements.get(job.name, ()) for job in round_.jobs]
        wanted = Allocation.from_placements(given, round_.cluster.num_nodes)
        rules = OSDI21.replace(interference_avoidance=self.interference_avoidance)
        jobs = tuple(map(self._job, round_.jobs, wanted.job_replicas.tolist()))
        on_tree = self.wishes.round_of(Instance(round_.cluster, jobs, rules))
        placed = greedy_placement(on_tree, wanted, self.algorithm).placements()
        names = (job.name for job in round_.jobs)
        return Decision(dict(zip(names, placed, strict=True)), nodes=decision.nodes)

    def _job(self, job: ActiveJob, gpus: int) -> Job:
        """Return a job that is to be placed on a number of GPUs."""
        most = max(gpus, 1)
        return Job(
            job.name,
            placement=tuple(sorted(job.placement)),
            min_replicas=most if self.rigid else 0,
            max_replicas=most,
        )


def placed_by(name: str) -> tuple[str, Placing | None]:
    """Return the policy and the placing of a name such as ``tiresias@best_fit``.

    Parameters
    ----------
    name
        Name of a policy, alone or with a placing.

    Raises
    ------
    ValueError
        If there is no such placing, or a policy other than Pollux is to be placed exactly.

    Examples
    --------
    >>> from goodalloc.solvers.topology.tree_policy import placed_by
    >>> placed_by("tiresias@best_fit"), placed_by("pollux")
    (('tiresias', 'best_fit'), ('pollux', None))
    """
    policy, at, asked = name.partition("@")
    if not at:
        return policy, None
    for placing in PLACINGS:
        if asked == placing and (placing != "exact" or policy == "pollux"):
            return policy, placing
    known = PLACINGS if policy == "pollux" else PLACINGS[1:]
    raise ValueError(
        f"Policy '{name}': its placing is '{asked}'; expected one of {', '.join(known)} for "
        f"'{policy}'."
    )
