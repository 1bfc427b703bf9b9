"""Packing of a batch of pods for the most utility, with a proven bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.formulations.pods.packing import (
    build_packing,
    by_node,
    class_program,
    dual_bound,
    node_program,
    pattern_program,
    price_bound,
)
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.objective import fitness
from goodalloc.models.support.tolerances import LEAST_GAP, ROUNDING
from goodalloc.solvers.interface.result import Answer, Incumbent
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.milp.highs_program import run_mixed_integer, run_relaxation
from goodalloc.solvers.pods.best_fit import place_by_best_fit, solve_best_fit
from goodalloc.solvers.pods.fragmentation import solve_fgd
from goodalloc.solvers.pods.node_room import NodeRoom
from goodalloc.solvers.pods.patterns import pattern_that_fits, patterns_of, place_patterns

if TYPE_CHECKING:
    from goodalloc.formulations.pods.packing import Pattern, PodPacking
    from goodalloc.models.round.instance import Instance
    from goodalloc.models.support.array_types import Floats


#: Relative gap at which prices of patterns suffice, and whole patterns are chosen.
PATTERN_GAP = 1e-6
#: A pattern must be worth this much more than its class's price, in utility.
WORTHWHILE = 1e-7
#: Options times nodes up to which a round is small, …
MOST_PLACES = 5000
#: … in all, and for each second that is left, …
PLACES_A_SECOND = 300
#: … and the share of that time which one program of all its nodes may take.
SMALL_SHARE = 0.6
#: Most seconds of that program, and of choosing whole patterns: the last digits may take very long.
CHOICE_SECONDS = 60.0


def solve_pods(
    instance: Instance,
    *,
    stop: Stop | None = None,
    patterns: bool = True,
    most_places: int = MOST_PLACES,
) -> Answer:
    """Decide which pods of a batch run, and where: best and proven, or nearly so.

    Best fit and FGD give a first answer and patterns of nodes. The relaxation by classes bounds the
    optimum. One program of all nodes, in which equal pods are counted, decides a small round.
    Where it does not in its share of the time, and of larger rounds, patterns are priced out, each
    by an exact program of one node, until they reach the bound or no pattern is missing, which
    bounds it again; whole patterns are then chosen, and best fit puts the remaining pods into the
    remaining room.

    Parameters
    ----------
    instance
        The round: p = 1, every job on one node, nothing running.
    stop
        Limits on the search: the time, and the relative gap at which to stop.
    patterns
        Whether patterns of nodes are priced and chosen.
    most_places
        Options of pods times nodes up to which a round counts as small.

    Raises
    ------
    ValueError
        If the power is not 1, a job runs already, or a job may span several nodes.

    Examples
    --------
    >>> from goodalloc.models import Cluster, Instance, Job, Rules, SpeedupTable
    >>> from goodalloc.solvers.pods import solve_pods
    >>> table = SpeedupTable((1.0, 1.8), (1.0, 1.5))
    >>> jobs = tuple(Job(name, table, min_replicas=2, max_replicas=2) for name in "ab")
    >>> rules = Rules(power=1.0, max_nodes_per_job=1)
    >>> answer = solve_pods(Instance(Cluster.uniform(1, 3), jobs, rules))
    >>> answer.proven
    True
    """
    require_pods(instance)
    stop = stop or Stop()
    search = PodSearch(instance, build_packing(instance), Watch(stop), max(stop.gap, LEAST_GAP))
    for heuristic in (solve_best_fit, solve_fgd):
        search.offer(heuristic(instance, stop=_left(search.watch)).allocation)
        if search.watch.limit is not None:
            break
    search.bound_by_classes()
    most = min(most_places, PLACES_A_SECOND * search.watch.left if patterns else math.inf)
    if not search.closed and search.places <= most:
        search.place_exactly(_some_time(search.watch, SMALL_SHARE if patterns else 1.0))
    if patterns and not search.closed:
        search.price_patterns()
    choosing = _some_time(search.watch, 1.0)
    while patterns and not search.closed and search.choose_patterns(choosing):
        pass  # what best fit put beside the patterns made new ones
    value = fitness(instance, search.best)
    proven = proves(search.fitness_bound, value, stop.gap)
    return Answer(
        search.best,
        search.fitness_bound,
        search.source,
        proven=proven,
        limit=None if proven else search.watch.limit,
        history=tuple(search.history),
        iterations=search.rounds,
    )


def require_pods(instance: Instance) -> None:
    """Refuse rounds that are not a batch of one-node jobs worth the sum of their utilities.

    Raises
    ------
    ValueError
        If the power is not 1, a job runs already, or a job may span several nodes.
    """
    if instance.rules.power != 1:
        raise ValueError(
            f"Rules: power is {instance.rules.power:g}; packing pods maximises the mean utility, "
            "so expected 1."
        )
    for job in instance.jobs:
        if job.placement:
            raise ValueError(
                f"Job '{job.name}': runs already; packing pods expects a batch that waits."
            )
        if instance.rules.max_nodes_per_job > 1 and job.max_replicas > 1:
            raise ValueError(
                f"Job '{job.name}': may span {instance.rules.max_nodes_per_job} nodes; "
                "packing pods expects max_nodes_per_job 1."
            )


def _some_time(watch: Watch, share: float) -> Watch:
    """Return a clock that ends after a share of the time that is left, or `CHOICE_SECONDS`."""
    return Watch(Stop(seconds=min(max(share * watch.left, 1e-9), CHOICE_SECONDS)))


def _left(watch: Watch) -> Stop:
    """Return the limit of the remaining time."""
    return Stop() if math.isinf(watch.left) else Stop(seconds=max(watch.left, 1e-9))


@dataclass
class PodSearch:
    """State of a search: the best allocation, the bound, the patterns.

    Values and bounds are sums of gains over idling.

    Parameters
    ----------
    instance, packing
        The round, and its jobs and nodes in groups.
    watch
        The clock.
    gap
        Relative gap on the fitness at which to stop.
    """

    instance: Instance
    packing: PodPacking
    watch: Watch
    gap: float
    best: Allocation = field(init=False)
    value: float = field(init=False, default=-math.inf)
    bound: float = field(init=False, default=math.inf)
    source: str = field(init=False, default="")
    rounds: int = field(init=False, default=0)
    patterns: dict[Pattern, None] = field(init=False, default_factory=dict)
    history: list[Incumbent] = field(init=False, default_factory=list)

    def __post_init__(self) -> None:
        nodes = self.instance.cluster.num_nodes
        self.offer(Allocation.empty(self.instance.num_jobs, nodes))

    @property
    def fitness_bound(self) -> float:
        """Bound on the fitness."""
        if math.isinf(self.bound):
            return math.inf
        return self.bound * (1 + ROUNDING) / self.instance.num_jobs + self.instance.rules.idle

    @property
    def closed(self) -> bool:
        """Whether the search is over: the gap is reached, or the time is up."""
        value = self.value / self.instance.num_jobs + self.instance.rules.idle
        return self.watch.limit is not None or proves(self.fitness_bound, value, self.gap)

    def offer(self, allocation: Allocation | None) -> None:
        """Take an allocation if it is better, and the patterns of its nodes in any case."""
        if allocation is None:
            return
        reached = fitness(self.instance, allocation)
        value = (reached - self.instance.rules.idle) * self.instance.num_jobs
        if value > self.value:
            self.best, self.value = allocation, value
            seconds = self.watch.seconds
            self.history.append(Incumbent(seconds, self.rounds, reached, self.fitness_bound))
        self.patterns.update(dict.fromkeys(patterns_of(self.packing, self.instance, allocation)))

    def tighten(self, bound: float, source: str) -> None:
        """Take a bound if it is tighter."""
        if bound < self.bound:
            self.bound, self.source = bound, source

    def bound_by_classes(self) -> None:
        """Bound the value by the relaxation by classes, from its prices."""
        program = class_program(self.packing)
        if not program.num_columns:
            self.tighten(0.0, "no pod fits")
            return
        outcome = run_relaxation(program, np.ones(program.num_columns, dtype=bool), self.watch)
        if outcome.duals is not None:
            self.tighten(-dual_bound(program, outcome.duals), "classes of nodes")

    def price_patterns(self) -> None:
        """Add patterns until they reach the bound, none is missing, or the time is up."""
        while not self.closed:
            master = pattern_program(self.packing, list(self.patterns))
            everything = np.ones(master.program.num_columns, dtype=bool)
            outcome = run_relaxation(master.program, everything, self.watch)
            if outcome.duals is None:
                return
            self.rounds += 1
            reached = -outcome.objective
            if reached >= self.bound - PATTERN_GAP * abs(self.bound):
                return
            prices = np.maximum(-outcome.duals[master.supply], 0.0)
            before = len(self.patterns)
            worth = np.array(
                [self._price(index, prices) for index in range(len(self.packing.classes))]
            )
            self.tighten(price_bound(self.packing, prices, worth), "patterns of nodes")
            if len(self.patterns) == before:
                return

    def _price(self, node_class: int, prices: Floats) -> float:
        """Add the best pattern of a class at these prices; return a bound on its worth."""
        program, paying = node_program(self.packing, node_class, prices)
        if not paying.size:
            return 0.0
        outcome = run_mixed_integer(program, self.watch, gap=WORTHWHILE)
        if outcome.values is not None:
            numbers = np.rint(outcome.values[: paying.size]).astype(int).tolist()
            pods = {o: n for o, n in zip(paying.tolist(), numbers, strict=True) if n > 0}
            pattern = pattern_that_fits(self.packing, node_class, pods, prices)
            self.patterns[pattern] = None
        return -outcome.bound if math.isfinite(outcome.bound) else math.inf

    def choose_patterns(self, choosing: Watch) -> bool:
        """Choose whole patterns, place their pods, and the others where there is room.

        Returns
        -------
        bool
            Whether the allocation is better and there is time for another choice.
        """
        before, patterns = self.value, list(self.patterns)
        master = pattern_program(self.packing, patterns)
        gap = max(self.gap, PATTERN_GAP) * max(abs(self.bound), 1e-9)
        outcome = run_mixed_integer(master.program, choosing, gap=gap)
        self.watch.interrupted |= choosing.interrupted
        if outcome.values is None:
            return False
        values = np.rint(outcome.values).astype(int)
        options = len(self.packing.options)
        start = place_patterns(
            self.packing, zip(patterns, values[options:].tolist(), strict=True), values[:options]
        )
        room = NodeRoom(self.instance, start)
        most = np.zeros(len(self.packing.kinds))
        np.maximum.at(most, self.packing.kind, self.packing.gain)
        gain = {job: most[t] for t, jobs in enumerate(self.packing.kinds) for job in jobs}
        place_by_best_fit(room, sorted(room.waiting, key=lambda job: -gain[job]), self.watch)
        self.offer(room.allocation())
        return self.value > before + gap and choosing.limit is None

    @property
    def places(self) -> int:
        """Options of pods times nodes, the size of a program of all nodes."""
        return int(self.packing.gain.size) * self.instance.cluster.num_nodes

    def place_exactly(self, choosing: Watch) -> None:
        """Place the pods by the exact program, node by node."""
        packing = by_node(self.packing)
        program = class_program(packing)
        outcome = run_mixed_integer(program, choosing, gap=self.gap * abs(self.bound) / 2)
        self.watch.interrupted |= choosing.interrupted
        self.tighten(-outcome.bound, "program of all nodes")
        if outcome.values is None:
            return
        held: list[dict[int, int]] = [{} for _ in packing.classes]
        option, node = np.nonzero(packing.most)
        numbers = np.rint(outcome.values[: option.size]).astype(int).tolist()
        for which, where, number in zip(option.tolist(), node.tolist(), numbers, strict=True):
            if number > 0:
                held[where][which] = number
        patterns = [
            pattern_that_fits(packing, index, pods, packing.gain) for index, pods in enumerate(held)
        ]
        quota = np.full(packing.gain.size, self.instance.num_jobs)
        start = place_patterns(packing, ((pattern, 1) for pattern in patterns), quota)
        self.offer(NodeRoom(self.instance, start).allocation())
