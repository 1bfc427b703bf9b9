"""The policies that a replay knows by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.models.rules import OSDI21
from goodalloc.models.validation import require_choice
from goodalloc.solvers.autoscaling import Autoscaling
from goodalloc.solvers.optimus import Optimus
from goodalloc.solvers.pollux import Pollux, PolluxGenetic, shortest_remaining_time
from goodalloc.solvers.queueing import (
    EqualShare,
    FirstComeFirstServed,
    ShortestRemainingTimeFirst,
)
from goodalloc.solvers.stop import Stop
from goodalloc.solvers.tiresias import Tiresias

if TYPE_CHECKING:
    from goodalloc.models.rules import Rules
    from goodalloc.solvers.policy import BatchSizes, Policy

#: What each name stands for.
POLICIES = {
    "pollux": "every round of Pollux decided exactly",
    "pollux-untied": "the same, with whichever of equal optima the solver meets first",
    "pollux-goodput": "exactly, the sum of the goodputs in units of a single GPU's",
    "pollux-remaining": "exactly, p-mean of speedup over remaining time, told by an oracle",
    "pollux-genetic": "Pollux with its genetic algorithm, as published",
    "pollux-greedy": "Pollux's objective by greedy marginal gain",
    "autoscaling-goodput": "exactly, on as many nodes as the goodput is worth",
    "autoscaling-throughput": "the same by throughput: its jobs ignore statistical efficiency",
    "optimus": "Optimus with an oracle for steps and step times",
    "tiresias": "Tiresias: two queues by attained service",
    "tiresias-gittins": "Tiresias, each queue by the Gittins index of the jobs that ended so far",
    "fifo": "first come, first served",
    "srtf": "shortest remaining time first, with an oracle",
    "equal": "equal shares of the GPUs",
}


#: What the number of nodes follows.
AUTOSCALING: dict[str, BatchSizes] = {
    "autoscaling-goodput": "goodput", "autoscaling-throughput": "throughput",
}  # fmt: skip

#: GPU-seconds that 2D-Gittins looks ahead, as in Tiresias's simulator.
GITTINS_DELTA = 3250.0


def make_policy(
    name: str, *, seed: int = 0, seconds: float | None = None, rules: Rules = OSDI21,
    utility: tuple[float, float] | None = None,
) -> Policy:  # fmt: skip
    """A new policy of that name.

    Parameters
    ----------
    name
        One of `POLICIES`.
    seed
        Seed of the genetic algorithm.
    seconds
        Time limit of every round, for the exact one.
    rules
        Objective and constraints of Pollux.
    utility
        L and U of `Autoscaling`, None for the published ones.

    Raises
    ------
    ValueError
        If the name is unknown, or a limit makes no sense.
    """
    require_choice("Policy", name, tuple(POLICIES))
    exact = Pollux("highs", rules, Stop(seconds=seconds), seed)
    if name == "pollux":
        return exact
    if name in AUTOSCALING:
        low, high = utility or (Autoscaling.low, Autoscaling.high)
        return Autoscaling(exact, AUTOSCALING[name], low, high)
    if name == "pollux-untied":
        return Pollux("highs", rules, Stop(seconds=seconds), seed, {"break_ties": False})
    if name == "pollux-goodput":
        total = rules.replace(power=1.0, fair_share="one_gpu")
        return Pollux("highs", total, Stop(seconds=seconds), seed)
    if name == "pollux-remaining":
        rules = rules.replace(fair_share="one_gpu")
        return Pollux("highs", rules, Stop(seconds=seconds), seed, weight=shortest_remaining_time)
    if name == "pollux-greedy":
        return Pollux("greedy", rules, Stop(seconds=seconds), seed)
    if name == "pollux-genetic":
        return PolluxGenetic(rules, seed=seed)
    if name == "tiresias-gittins":
        return Tiresias(gittins_delta=GITTINS_DELTA)
    plain = {
        "optimus": Optimus, "tiresias": Tiresias, "fifo": FirstComeFirstServed,
        "srtf": ShortestRemainingTimeFirst, "equal": EqualShare,
    }  # fmt: skip
    policy: Policy = plain[name]()
    return policy
