"""Solvers that lie about their bounds; a module of its own, so that worker processes find them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.exact.brute_force import solve_brute_force
from goodalloc.solvers.interface.result import Answer, Incumbent

if TYPE_CHECKING:
    from collections.abc import Callable

#: Three jobs want two GPUs of one node each: two can have them, though there are six.
INSTANCE = Instance(
    Cluster.uniform(2, 3),
    tuple(Job(f"job{i}", SpeedupTable((1.0, 3.0), ()), age=1e5, max_replicas=2) for i in range(3)),
    name="torn",
)


def one_gpu_each(instance: Instance) -> Allocation:
    """First come, first served: the README's heuristic."""
    matrix = np.zeros((instance.num_jobs, instance.cluster.num_nodes), dtype=int)
    slots = np.repeat(np.arange(instance.cluster.num_nodes), instance.cluster.node_gpus)
    for job, node in zip(range(instance.num_jobs), slots, strict=False):
        matrix[job, node] = 1
    return Allocation.from_matrix(matrix)


def honest(_: Instance) -> Allocation:
    """Better than what the liars answer, and not the best."""
    return Allocation.from_matrix(np.array([[2, 0], [1, 0], [0, 1]]))


def worth(instance: Instance) -> float:
    """The fitness of what every liar answers."""
    return fitness(instance, one_gpu_each(instance))


def _of_another(_: Instance) -> float:
    other = Instance(Cluster.uniform(1, 1), tuple(Job(f"job{i}", age=1e5) for i in range(9)))
    return solve_brute_force(other).bound


#: What each of them says is a bound.
BOUNDS: dict[str, Callable[[Instance], Any]] = {
    "below_its_own_fitness": lambda instance: 0.5 * worth(instance),
    "below_the_optimum": lambda instance: 0.9 * fitness(instance, honest(instance)),
    "its_own_fitness": worth,
    "far_too_high": lambda _: 1e9,
    "not_a_number": lambda _: math.nan,
    "minus_infinity": lambda _: -math.inf,
    "infinity": lambda _: math.inf,
    "negative": lambda _: -1.0,
    "zero": lambda _: 0.0,
    "of_another_instance": _of_another,
    "right_by_chance": lambda instance: solve_brute_force(instance).bound,
    "text": lambda _: "0.1",
    "nothing": lambda _: None,
    "an_array": lambda instance: np.full(3, worth(instance)),
    "a_flag": lambda _: True,
    "beyond_floats": lambda _: 10**400,
}


def _liar(bound: Callable[[Instance], Any]) -> Callable[[Instance], Answer]:
    return lambda instance: Answer(one_gpu_each(instance), bound(instance), "program", proven=True)


LIARS: dict[str, Callable[[Instance], Answer]] = {n: _liar(b) for n, b in BOUNDS.items()}


def claims_a_proof(instance: Instance) -> Answer:
    """No bound, and yet proven."""
    return Answer(one_gpu_each(instance), proven=True)


def makes_up_history(instance: Instance) -> Answer:
    """Was at the optimum at once, with a proof, and before the start; and things that are none."""
    value = worth(instance)
    word: Any = "soon"
    history: Any = (
        Incumbent(0.0, 0, 0.5 * value, value),
        Incumbent(0.001, 1, 10 * value, 10 * value),
        Incumbent(-1.0, 2, value, value),
        Incumbent(0.1, 3, math.nan, value),
        word,
        None,
        Incumbent(0.1, word, value),
        Incumbent(word, 5, value),
        Incumbent(0.2, 6, value, value),
    )
    return Answer(one_gpu_each(instance), value, proven=True, history=history)


def highs(instance: Instance) -> Answer:
    """Has the name of a solver that ships."""
    return LIARS["its_own_fitness"](instance)


LIARS |= {liar.__name__: liar for liar in (claims_a_proof, makes_up_history, highs)}
globals().update({name: liar for name, liar in LIARS.items() if name not in globals()})


def raises(_: Instance) -> Answer:
    """No liar: it says nothing at all."""
    raise RuntimeError("it broke")
