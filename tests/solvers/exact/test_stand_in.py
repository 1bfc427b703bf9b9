"""Under a limit the exact solver returns no less than the heuristics that end within it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.formulations.gpu_rounds.choices import enumerate_choices
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness, mode_utilities
from goodalloc.models.round.rules import Rules
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.exact import highs
from goodalloc.solvers.exact.highs import solve_highs
from goodalloc.solvers.exact.stand_in import StandIn
from goodalloc.solvers.heuristics.greedy import solve_greedy
from goodalloc.solvers.heuristics.greedy_modes import mode_greedy
from goodalloc.solvers.heuristics.local_search import solve_local_search
from goodalloc.solvers.interface.result import Limit
from goodalloc.solvers.interface.stop import Stop
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.power_mean.oracle import Outcome
from tests.support.small_rounds import gpu_round, mode_round

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Answer

MAKERS = (gpu_round, mode_round)
SEEDS = range(24)
STATES: tuple[State, ...] = ("cold", "running")
POWERS = (-10.0, -1.0, 1.0)
#: Large for a second: (kind, nodes).
LARGE = (
    ("cores", 64),
    ("cores", 150),
    ("memory", 64),
    ("memory", 150),
    ("plain", 512),
    ("alone", 300),
)
Search = Callable[..., Outcome]


def worth(instance: Instance, answer: Answer) -> float:
    """The fitness of an answer, which obeys the rules."""
    assert answer.allocation is not None
    assert not violations(instance, answer.allocation)
    return fitness(instance, answer.allocation)


def heuristics(instance: Instance) -> list[float]:
    """What they come to without a limit."""
    found = [solve_greedy(instance)]
    if instance.plain:
        found.append(solve_local_search(instance))
    return [worth(instance, answer) for answer in found]


def searching(seconds_left: list[float], *, ends: bool) -> Search:
    """A search that takes all its time and finds nothing, or ends without a proof at once."""

    def search(oracle: Any, *_: Any, start: Any, **__: Any) -> Outcome:
        seconds_left.append(oracle.watch.left)
        if not ends:
            oracle.watch = Watch(oracle.watch.stop, -math.inf)
        return Outcome(start, math.inf, 0)

    return search


@pytest.mark.parametrize("maker", MAKERS)
@pytest.mark.parametrize("ends", [True, False])
def test_a_search_in_vain_leaves_the_heuristics_their_time(
    maker: Callable[[int], Instance], ends: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever the round: a minute is far more than they need, and they have what they need."""
    for seed in SEEDS:
        instance, left = maker(seed), list[float]()
        monkeypatch.setattr(highs, "maximise_power_mean", searching(left, ends=ends))
        answer = solve_highs(instance, stop=Stop(seconds=60.0), by_price=False)
        needed = StandIn(instance, enumerate_mode_choices(instance), Watch(Stop())).seconds
        assert left[0] <= 60.0 - needed
        assert worth(instance, answer) >= max(heuristics(instance)) * (1 - 1e-9)
        assert answer.limit is (None if ends or answer.proven else Limit.TIME)


@pytest.mark.parametrize("maker", MAKERS)
def test_without_time_for_a_search_there_is_none(
    maker: Callable[[int], Instance], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is known is then what greedy finds in the little time after the limit."""
    left: list[float] = []
    monkeypatch.setattr(highs, "maximise_power_mean", searching(left, ends=False))
    for seed in SEEDS:
        instance = maker(seed)
        answer = solve_highs(instance, stop=Stop(seconds=1e-9), by_price=False)
        assert not left
        assert worth(instance, answer) >= heuristics(instance)[0] * (1 - 1e-9)
        assert answer.bound < math.inf


def test_the_heuristics_come_first_where_little_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice their time is the mark; the search begins from what they found."""
    starts: list[Any] = []

    def search(oracle: Any, *_: Any, start: Any, **__: Any) -> Outcome:
        starts.append(start)
        return Outcome(start, math.inf, 0)

    monkeypatch.setattr(highs, "maximise_power_mean", search)
    for instance in (generate(0, 160, 16, 4), equip(generate(0, 60, 16, 4), 0)):
        mode_utilities(instance)
        choices = (enumerate_choices if instance.plain else enumerate_mode_choices)(instance)
        for times, first in ((4.0, False), (1.9, True)):
            seconds = StandIn(instance, choices, Watch(Stop())).seconds
            watch = Watch(Stop(seconds=times * seconds))
            assert StandIn(instance, choices, watch).first is first
        solve_highs(instance, by_price=False)  # no limit, no start
        assert starts.pop() is None
        monkeypatch.setattr(StandIn, "first", True)
        solve_highs(instance, stop=Stop(seconds=60.0), by_price=False)
        assert fitness(instance, starts.pop()) >= heuristics(instance)[0] * (1 - 1e-9)
        monkeypatch.undo()
        monkeypatch.setattr(highs, "maximise_power_mean", search)


def test_ctrl_c_ends_the_heuristics_and_leaves_an_allocation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Pressed while jobs with modes are placed: no search is begun after it."""
    begun: list[float] = []
    monkeypatch.setattr(highs, "maximise_power_mean", searching(begun, ends=True))
    monkeypatch.setattr(StandIn, "first", True)
    pressed = iter([True])

    def interrupted(*arguments: Any, **options: Any) -> Any:
        if next(pressed, False):
            raise KeyboardInterrupt
        return mode_greedy(*arguments, **options)

    monkeypatch.setattr("goodalloc.solvers.exact.stand_in.mode_greedy", interrupted)
    instance = equip(generate(0, 20, 4, 4), 0)
    answer = solve_highs(instance, stop=Stop(seconds=60.0), by_price=False)
    assert not begun
    assert answer.limit is (None if answer.proven else Limit.INTERRUPTED)
    assert worth(instance, answer) > 0


def large_round(kind: str, nodes: int, state: State, power: float) -> Instance:
    """With cores, with memory too, or of GPUs alone: on many nodes, or a job on one node only."""
    rules = Rules(power=power)
    if kind == "plain":
        return generate(0, 2_000, nodes, 8, state=state, rules=rules)
    if kind == "alone":
        one = rules.replace(max_nodes_per_job=1)
        return generate(0, 600, nodes, 3, state=state, rules=one)
    drawn = generate(0, 600, nodes, 8, state=state, rules=rules)
    return equip(drawn, 0, memory=512.0 if kind == "memory" else None)


@pytest.mark.slow
@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize(("kind", "nodes"), LARGE)
@pytest.mark.parametrize(("power", "seconds"), [(-10.0, 1.0), (-1.0, 1.0), (1.0, 1.0), (-1.0, 4.0)])
def test_highs_is_no_worse_than_greedy_under_the_same_limit(
    kind: str, nodes: int, state: State, power: float, seconds: float
) -> None:
    """Each on a round of its own, so that neither finds tables of utilities that the other made.

    What greedy has when it is cut short depends on the moment, so that it is told apart.
    """
    exact, greedy = (
        solve(large_round(kind, nodes, state, power), name, stop=Stop(seconds=seconds))
        for name in ("highs", "greedy")
    )
    cut_short = greedy.limit is Limit.TIME
    assert exact.fitness >= greedy.fitness * (0.95 if cut_short else 1 - 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("power", POWERS)
@pytest.mark.parametrize("state", ["cold", "running", "disturbed", "settled"])
def test_highs_is_no_worse_than_local_search_that_ends(power: float, state: State) -> None:
    """Where GPUs are all that counts, at a limit within which the local search ends."""
    instance = generate(0, 300, 80, 8, state=state, rules=Rules(power=power))
    exact, local = (
        solve(instance, name, stop=Stop(seconds=8.0)) for name in ("highs", "local_search")
    )
    assert local.limit is None
    assert exact.fitness >= local.fitness * (1 - 1e-9)
