"""Quality of a decision of any policy by the objective of Pollux.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import fitness
from goodalloc.models.round.starved_jobs import starvation_of
from goodalloc.solvers.interface.bounds import NO_BOUND, Bound, believed_bound, least_bound
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.policies.decided_modes import decided_modes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from goodalloc.models.round.allocation import Placement
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.round.rules import Rules
    from goodalloc.solvers.interface.result import Evidence
    from goodalloc.solvers.policies.policy import Decision, Round


#: Largest relative gap of a decision that counts as optimal.
OPTIMAL = 1e-9


class Verdict(NamedTuple):
    """Fitness of a decision, an upper bound on any fitness, and the relative gap between them.

    Attributes
    ----------
    fitness
        Fitness of the decision, computed by the judge.
    bound, bound_source, evidence
        A believed bound, its source, and the kind of evidence for it.
    gap
        Relative gap from the fitness to the bound.
    starved, served_fitness
        Parts of the fitness (`goodalloc.models.round.starved_jobs`); the latter is None if all jobs
        starve.
    best_starved, best_served_fitness
        The same parts of the best known answer: that of the proof, or the decision itself if it is
        optimal; None where the bound of the policy is taken over and the decision may not be
        optimal.
    """

    fitness: float
    bound: float
    gap: float
    bound_source: str
    evidence: Evidence
    starved: int
    served_fitness: float | None
    best_starved: int | None
    best_served_fitness: float | None


def _known(value: float) -> float | None:
    """Return `value`, None in place of NaN."""
    return None if math.isnan(value) else value


def own_placements(decision: Decision) -> dict[str, Placement]:
    """Return the placements of jobs that are no guests: Pollux's objective has no shared GPUs."""
    return {
        name: placement
        for name, placement in decision.placements.items()
        if name not in decision.beside
    }


class Judge:
    """Judge of decisions by the objective of Pollux, as the fitted models of the jobs predict it.

    Other policies may break the rules of Pollux: distributed jobs share nodes, and jobs take more
    GPUs than they have explored. A constraint that a decision breaks is lifted for its round, so
    that the decision is compared with the best of a set that contains it.

    Parameters
    ----------
    rules
        Objective and constraints.
    seconds
        Time limit of every proof; the gap is then to the best bound found.
    trusting
        Whether a bound that the policy proved for the same instance is taken over, unless the
        decision refutes it. It should be set for the shipped policies only.
    """

    def __init__(
        self, rules: Rules, seconds: float | None = None, *, trusting: bool = False
    ) -> None:
        self.rules = rules
        self.stop = Stop(seconds=seconds)
        self.trusting = trusting

    def __call__(self, round_: Round, decision: Decision) -> Verdict:
        """Return the verdict on `decision` in `round_`."""
        from goodalloc.solvers.certificates.solve import (
            solve,
        )  # not imported by replays without gaps

        instance, told = self._instance(round_, decision), NO_BOUND
        if self.trusting and decision.instance is not None and decision.instance == instance:
            instance = decision.instance  # its utilities are computed already
            if decision.bound is not None:
                told = Bound(decision.bound, decision.bound_source, decision.evidence)
        held = own_placements(decision)
        placements = [tuple(sorted(held.get(job.name, ()))) for job in round_.jobs]
        allocation = Allocation.from_placements(
            placements, round_.cluster.num_nodes, self._modes(round_, decision, instance)
        )
        value, parts = fitness(instance, allocation), starvation_of(instance, allocation)
        own = (parts.starved, _known(parts.served))
        bound, best = least_bound([told], value), None
        if bound is NO_BOUND:
            proof = solve(instance, "highs", stop=self.stop, start=allocation, break_ties=False)
            bound = believed_bound(instance, [Bound.of(proof)], value)
            best = (proof.starved, _known(proof.served_fitness))
        gap = max(1.0 - value / bound.value, 0.0)
        if gap <= OPTIMAL:
            best = own
        return Verdict(
            value, bound.value, gap, bound.source, bound.evidence, *own, *(best or (None, None))
        )

    @staticmethod
    def _modes(round_: Round, decision: Decision, instance: Instance) -> NDArray[np.int64] | None:
        """Return the index of the mode of every job, None where jobs have no modes."""
        if instance.plain:
            return None
        decided = decided_modes(round_, decision)
        index = [
            [mode.name for mode in job.modes].index(decided[job.name].name)
            if job.name in decided
            else 0
            for job in instance.jobs
        ]
        return np.array(index, dtype=np.int64)

    def _instance(self, round_: Round, decision: Decision) -> Instance:
        """Return the instance of `round_` without the constraints that `decision` breaks."""
        own = own_placements(decision)
        wanted = [own.get(job.name, ()) for job in round_.jobs]
        limits = {
            job.name: max(job.max_replicas, sum(gpus for _, gpus in pairs))
            for job, pairs in zip(round_.jobs, wanted, strict=True)
        }
        nodes = max((len(pairs) for pairs in wanted), default=0)
        distributed = [node for pairs in wanted if len(pairs) > 1 for node, _ in pairs]
        shared = len(distributed) > len(set(distributed))
        rules = self.rules.replace(
            interference_avoidance=self.rules.interference_avoidance and not shared,
            max_nodes_per_job=max(self.rules.max_nodes_per_job, nodes),
        )
        return round_.instance(rules, limits)
