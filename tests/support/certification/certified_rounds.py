"""Rounds of every kind and power, decided and certified, for the tests of certificates."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.typed import generate_typed
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.rules import PRESETS
from goodalloc.solvers.certificates.solve import solve
from goodalloc.solvers.interface.stop import Stop
from tests.support.random_instances import (
    POWERS,
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.data.rounds.typed import TypedState
    from goodalloc.models.round.instance import Instance
    from goodalloc.solvers.interface.result import Result

#: Powers beside those of the tiny rounds.
MORE_POWERS = (*POWERS, -1e4, -100.0, -0.5, 1e-9, 30.0, 1e4)

STATES: tuple[State, ...] = ("cold", "running", "disturbed", "settled")

TYPED = Cluster((NodeGroup("t4", 3, 4, "t4"), NodeGroup("a100", 2, 8, "a100")))


@dataclass(frozen=True)
class Kind:
    """A kind of round, and a solver that is exact on it.

    Parameters
    ----------
    name, make, solver
        What it is called, a round by its seed, and the solver.
    """

    name: str
    make: Callable[[int], Instance]
    solver: str = "highs"


def _power(seed: int) -> float:
    return MORE_POWERS[seed % len(MORE_POWERS)]


def _generated(seed: int) -> Instance:
    round_ = generate(seed, 8 + seed % 25, 3 + seed % 7, 4, state=STATES[seed % 4])
    return round_.replace(rules=round_.rules.replace(power=_power(seed)))


def _equipped(seed: int) -> Instance:
    memory = 256.0 if seed % 2 else None
    round_ = generate(seed, 6 + seed % 12, 3 + seed % 3, 4, state=STATES[seed % 4])
    equipped = equip(round_, seed, cores=24.0, memory=memory)
    return equipped.replace(rules=equipped.rules.replace(power=_power(seed // 2)))


def _typed(seed: int) -> Instance:
    rules = PRESETS["sia"] if seed % 2 else PRESETS["default"].replace(power=_power(seed // 2))
    state: TypedState = "running" if seed % 4 > 1 else "cold"
    return generate_typed(seed, 5 + seed % 14, cluster=TYPED, state=state, rules=rules)


KINDS = (
    Kind("GPUs only, tiny", lambda seed: random_instance(seed, _power(seed))),
    Kind("GPUs only", _generated),
    Kind("modes, tiny", lambda seed: random_mode_instance(seed, _power(seed))),
    Kind("cores and memory", _equipped),
    Kind("types, Sia's rules", _typed),
    Kind("shares of GPUs", random_share_instance, "brute_force"),
    Kind("pods", random_pod_instance, "brute_force"),
)


def certified(seeds: range, seconds: float = 10.0) -> Iterator[tuple[Kind, Instance, Result]]:
    """Rounds of all kinds in turn, decided and certified."""
    for seed in seeds:
        kind = KINDS[seed % len(KINDS)]
        instance = kind.make(seed // len(KINDS))
        stop = Stop(seconds=seconds)
        yield kind, instance, solve(instance, kind.solver, stop=stop, certificate=True)


def gap_left(result: Result) -> float:
    """Relative gap of a certificate; NaN without an allocation."""
    assert result.certificate is not None
    return float(np.maximum(result.bound - result.fitness, 0.0) / result.bound)
