"""Exact solver: the cheapest proof first, then HiGHS on the program that suits the round.

The cheapest is that of one price of a GPU (`by_price.py`). Where it does not meet the bound, HiGHS
decides through prices and a core: for jobs without modes the pattern program; for jobs with modes
the aggregate with its packing and its cuts.
"""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from goodalloc.formulations.certificates.price_bound import PriceBound
from goodalloc.formulations.gpu_rounds.choices import enumerate_choices
from goodalloc.formulations.gpu_rounds.knapsack import knapsack_bound
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.round.requirements import require_whole_gpus
from goodalloc.solvers.certificates.proofs import as_good, strongest
from goodalloc.solvers.exact.by_price import decide_by_price, price_certificate
from goodalloc.solvers.exact.pattern_oracle import PatternOracle
from goodalloc.solvers.exact.stand_in import StandIn
from goodalloc.solvers.exact.ties import canonical
from goodalloc.solvers.interface.bounds import KNAPSACK
from goodalloc.solvers.interface.result import Answer, Incumbent
from goodalloc.solvers.interface.stages import StageLog
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.modes.oracle import ModeOracle
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.power_mean.oracle import Outcome

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.exact.by_price import PricedDecision

#: Name of the stage in which heuristics stand in.
HEURISTICS = "heuristics"

#: Share of the time in which dominated choices of jobs with modes are sought, and its minimum.
OF_TIME, LEAST_SECONDS = 0.5, 0.3


def solve_highs(
    instance: Instance,
    *,
    stop: Stop | None = None,
    start: Allocation | None = None,
    leximin: bool = False,
    break_ties: bool = True,
    by_price: bool = True,
    log: StageLog | None = None,
) -> Answer:
    """Decide a round to proven optimality, for every power.

    Parameters
    ----------
    instance
        The round.
    stop
        Limits; at the time limit or at Ctrl-C the best allocation so far is returned, with its
        bound. It is no worse than what the heuristics find in the same time (`stand_in`).
    start
        An allocation to fall back on.
    leximin
        At p = -inf: also maximise the second-least utility, then the third, …
    break_ties
        Whether to return, among equally good allocations, the one that the stated rule prefers (see
        `ties`).
    by_price
        Whether one price of a GPU is tried before the programs; the optimum is the same.
    log
        Record in which the stages of the solve are written: what each proved, in how many seconds,
        and whether the rule between equally good allocations was applied.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.exact import solve_highs
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> instance = Instance(Cluster.uniform(1, 2), (Job("a", table),), Rules(restart_delay=0.0))
    >>> answer = solve_highs(instance)
    >>> answer.allocation.placements(), answer.proven
    ([((0, 2),)], True)
    """
    watch = Watch(stop or Stop())
    log = log or StageLog()
    log.begin()
    priced = None
    if by_price and not leximin:
        with suppress(KeyboardInterrupt):
            priced = decide_by_price(instance)
        outcome = "no allocation" if priced is None else _outcome(priced.proves(watch.stop.gap))
        log.add("one price", outcome, math.inf if priced is None else priced.bound)
    if priced is not None and priced.proves(watch.stop.gap):
        answer = _by_price(instance, priced, watch)
    else:
        answer = _by_programs(instance, start, watch, priced, log=log, leximin=leximin)
    allocation = answer.allocation
    if allocation is not None and answer.proven and break_ties:
        with suppress(KeyboardInterrupt):  # a proven optimum is there already
            allocation, rule = canonical(instance, allocation, watch, leximin=leximin)
            log.add("ties", rule)
    if allocation is None:
        return answer
    last = Incumbent(watch.seconds, answer.iterations, fitness(instance, allocation), answer.bound)
    return replace(answer, allocation=allocation, history=(last,))


def _outcome(proven: bool) -> str:
    return "proved" if proven else "no proof"


def _by_price(instance: Instance, priced: PricedDecision, watch: Watch) -> Answer:
    """Return the answer that a price proves."""
    certificate = price_certificate(instance, priced, watch.stop.gap)
    bound = priced.bound if certificate is None else certificate.bound
    return Answer(priced.allocation, bound, KNAPSACK, proven=True, certificate=certificate)


def _by_programs(
    instance: Instance,
    start: Allocation | None,
    watch: Watch,
    priced: PricedDecision | None,
    *,
    log: StageLog,
    leximin: bool,
) -> Answer:
    """Return the answer of the programs, with the heuristics' help where time is short."""
    oracle = _oracle(instance, watch)
    oracle.build_seconds = watch.seconds
    found = start if start is not None and not violations(instance, start) else None
    stand_in = StandIn(instance, oracle.choices, watch)
    log.add("choices", f"{len(oracle.choices)} found")
    if stand_in.first:
        found = stand_in.before(found)
        log.add(HEURISTICS, "little time")
    oracle.watch = stand_in.search_watch()
    answer = _searched(instance, oracle, found, leximin=leximin)
    watch.interrupted |= oracle.watch.interrupted
    log.add(answer.bound_source, _outcome(answer.proven), answer.bound)
    if not (answer.proven or stand_in.first):
        found = stand_in.after(answer.allocation, answer.limit)
        answer = replace(answer, allocation=found)
        log.add(HEURISTICS, "no time left for the program")
    if priced is not None and not answer.proven:
        answer = _with_priced(instance, answer, priced)
    answer = _with_knapsack(instance, answer, watch.stop.gap)
    if answer.proven and not leximin:  # the bound covers only the first leximin rank
        answer = replace(answer, limit=None)
    return answer


def _with_priced(instance: Instance, answer: Answer, priced: PricedDecision) -> Answer:
    """Return an answer without a proof with the allocation by price, if that is fitter."""
    if answer.allocation is not None and fitness(instance, answer.allocation) >= priced.fitness:
        return answer
    return replace(answer, allocation=priced.allocation)


def _oracle(instance: Instance, watch: Watch) -> PatternOracle | ModeOracle:
    """Return the oracle that answers requests about a round, with all choices of its jobs."""
    if instance.plain:
        return PatternOracle(instance, enumerate_choices(instance), watch)
    require_whole_gpus(instance)
    mode_utilities(instance)  # whose time is not that of looking through choices
    seconds = max(OF_TIME * watch.left, LEAST_SECONDS)
    choices = enumerate_mode_choices(instance, deadline=time.perf_counter() + seconds)
    return ModeOracle(instance, choices, watch)


def _searched(
    instance: Instance,
    oracle: PatternOracle | ModeOracle,
    start: Allocation | None,
    *,
    leximin: bool,
) -> Answer:
    """Return the answer of the exact search from a start, with its proof, if time remains."""
    gap, choices = oracle.watch.stop.gap, oracle.choices
    outcome = Outcome(start, math.inf, 0)
    if oracle.watch.limit is None:
        outcome = maximise_power_mean(
            oracle, instance, choices.job, choices.utility, start=start, gap=gap, leximin=leximin
        )
    allocation, bound = outcome.allocation, outcome.bound
    value = 0.0 if allocation is None else fitness(instance, allocation)
    source = "pattern program" if instance.plain else "aggregate with cuts"
    priced = PriceBound(instance, choices, oracle.grid)
    certificate = strongest(oracle.proofs, priced, value, gap)
    if certificate is not None and as_good(certificate.bound, bound, value, gap):
        bound = certificate.bound
    else:
        certificate = None
    proven = allocation is not None and proves(bound, value, gap) and oracle.watch.limit is None
    return Answer(
        allocation,
        bound,
        source,
        proven,
        oracle.watch.limit,
        iterations=oracle.nodes,
        build_seconds=oracle.build_seconds,
        certificate=certificate,
    )


def _with_knapsack(instance: Instance, answer: Answer, gap: float) -> Answer:
    """Return the answer with the knapsack's bound where that is less and nothing is proved."""
    if answer.proven:
        return answer
    knapsack = knapsack_bound(instance)
    if knapsack < answer.bound:
        answer = replace(answer, bound=knapsack, bound_source="knapsack", certificate=None)
    if answer.allocation is None:
        return answer
    return replace(answer, proven=proves(answer.bound, fitness(instance, answer.allocation), gap))
