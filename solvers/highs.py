"""The exact solver: HiGHS, through prices and a core, on the program that suits the round.

Where GPUs are all that counts, that is the pattern program; where jobs have modes, the aggregate
with its packing and its cuts.
"""

import math
from contextlib import suppress

from goodalloc.formulations.choices import enumerate_choices
from goodalloc.formulations.knapsack import knapsack_bound
from goodalloc.formulations.mode_choices import enumerate_mode_choices
from goodalloc.formulations.price_bound import PriceBound
from goodalloc.models.allocation import Allocation
from goodalloc.models.feasibility import violations
from goodalloc.models.instance import Instance, require_whole_gpus
from goodalloc.models.objective import fitness
from goodalloc.solvers.greedy import solve_greedy
from goodalloc.solvers.hierarchy import maximise_power_mean
from goodalloc.solvers.highs_program import Watch
from goodalloc.solvers.mode_oracle import ModeOracle
from goodalloc.solvers.pattern_oracle import PatternOracle
from goodalloc.solvers.proofs import as_good, strongest
from goodalloc.solvers.result import Answer, Incumbent, Limit
from goodalloc.solvers.rounding import round_and_place
from goodalloc.solvers.sharing import knapsack_replicas
from goodalloc.solvers.stop import Stop, proves
from goodalloc.solvers.ties import canonical

#: Time for the greedy allocation that may stand in after a limit: little after a promised time.
FALL_BACK_SECONDS = {Limit.TIME: 0.3, Limit.INTERRUPTED: 3.0}


def solve_highs(
    instance: Instance,
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    leximin: bool = False,
    break_ties: bool = True,
) -> Answer:
    """Decide a round to proven optimality, for every power.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits; on time or Ctrl-C the best allocation so far is returned, with its bound.
    start
        An allocation to fall back on.
    leximin
        At p = -inf: also maximise the second-least utility, then the third, …
    break_ties
        Among equally good allocations return the one that the stated rule prefers (see `ties`).
    """
    stop = stop or Stop()
    watch = Watch(stop)
    oracle: PatternOracle | ModeOracle
    if instance.plain:
        choices = enumerate_choices(instance)
        oracle = PatternOracle(instance, choices, watch)
    else:
        require_whole_gpus(instance)
        choices = enumerate_mode_choices(instance)
        oracle = ModeOracle(instance, choices, watch)
    oracle.build_seconds = watch.seconds
    usable = start if start is not None and not violations(instance, start) else None
    outcome = maximise_power_mean(
        oracle, instance, choices.job, choices.utility, start=usable, gap=stop.gap, leximin=leximin
    )
    allocation, bound = outcome.allocation, outcome.bound
    source = "pattern program" if instance.plain else "aggregate with cuts"
    limit = watch.limit
    value = fitness(instance, allocation) if allocation is not None else 0.0
    priced = PriceBound(instance, choices, oracle.grid)
    certificate = strongest(oracle.proofs, priced, value, stop.gap)
    if certificate is not None and as_good(certificate.bound, bound, value, stop.gap):
        bound = certificate.bound
    else:
        certificate = None
    if limit is not None or not proves(bound, value, stop.gap):
        allocation = _fall_back(instance, allocation, _seconds_left(watch, limit))
        knapsack = knapsack_bound(instance)
        if knapsack < bound:
            bound, source, certificate = knapsack, "knapsack", None
    value = fitness(instance, allocation) if allocation is not None else 0.0
    proven = allocation is not None and proves(bound, value, stop.gap)
    if proven and not leximin:  # whose other ranks no bound covers
        limit = None
    if allocation is not None and proven and break_ties:
        with suppress(KeyboardInterrupt):  # a proven optimum is there already
            allocation = canonical(instance, allocation, watch, leximin=leximin)
        value = fitness(instance, allocation)
    history = () if allocation is None else (Incumbent(watch.seconds, oracle.nodes, value, bound),)
    return Answer(
        allocation, bound, source, proven, limit, history, oracle.nodes,
        oracle.build_seconds, certificate=certificate,
    )  # fmt: skip


def _seconds_left(watch: Watch, limit: Limit | None) -> float | None:
    """Time for the greedy allocation, None for any."""
    if limit is not None:
        return FALL_BACK_SECONDS[limit]
    return max(watch.left, 0.1) if math.isfinite(watch.left) else None


def _fall_back(
    instance: Instance, allocation: Allocation | None, seconds: float | None
) -> Allocation | None:
    """The best of what was found in time, the rounded knapsack and the greedy allocation."""
    greedy = solve_greedy(instance, stop=Stop(seconds=seconds)).allocation
    rounded = None
    if instance.plain:
        rounded = round_and_place(instance, knapsack_replicas(instance))
    candidates = [a for a in (allocation, rounded, greedy) if a is not None]
    return max(candidates, key=lambda a: fitness(instance, a), default=None)
