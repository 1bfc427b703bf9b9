"""Recipes: how a round of the library is made anew, to the byte, from what ships.

A recipe is a line of text, a name and flat arguments: ``pollux seed=3 jobs=160 nodes=16``. Numbers,
``yes`` and ``no`` are read as such, everything else is a word; groups of nodes are written as
``groups=small:8:2+large:6:8`` (name, nodes, GPUs of each, and their type where there are several).
"""

from __future__ import annotations

import inspect
import re
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeVar

from goodalloc.data.plans.plan_workload import draw_plan_jobs
from goodalloc.data.plans.shipped_plans import shipped_plan_times
from goodalloc.data.pods.generator import draw_machines, draw_pods
from goodalloc.data.pods.openb import pods_instance
from goodalloc.data.rounds.awkward import awkward_round
from goodalloc.data.rounds.benchmark_set import load_benchmark
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.scattered import generate_scattered
from goodalloc.data.rounds.synergy import PUBLISHED_GPUS, synergy_round
from goodalloc.data.rounds.typed import generate_typed, sia_cluster
from goodalloc.models.plans.plan_job import PlanRound, PlanState
from goodalloc.models.plans.plans_as_modes import plan_instance
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.validation import did_you_mean, literal, require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

#: A round with or without a tree.
Made = TypeVar("Made")

#: Value of an argument of a recipe.
Value = int | float | bool | str

#: Rules under which a round of jobs with plans means what it means to their own solvers.
PLAN_RULES = Rules(power=-1.0, restart_delay=0.0, speedup_scale="job", interference_avoidance=False)

_WHOLE = re.compile(r"-?[0-9]+")
_NUMBER = re.compile(r"-?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|-?inf")


def parse_recipe(text: str) -> tuple[str, dict[str, Value]]:
    """Return the name and the arguments of a recipe.

    Raises
    ------
    ValueError
        If a word is no ``name=value``, or a name is there twice.

    Examples
    --------
    >>> from goodalloc.data.library import parse_recipe
    >>> parse_recipe("pollux seed=3 jobs=40 state=running power=-inf interference=no")[1]["power"]
    -inf
    """
    name, *words = text.split() or [""]
    arguments: dict[str, Value] = {}
    for word in words:
        key, mark, value = word.partition("=")
        if not mark or not key.isidentifier() or not value:
            raise ValueError(f"Recipe: {literal(word)} is no argument; expected name=value.")
        if key in arguments:
            raise ValueError(f"Recipe: argument '{key}' is given twice; expected it once.")
        arguments[key] = _value(value)
    return name, arguments


def _value(text: str) -> Value:
    if text in ("yes", "no"):
        return text == "yes"
    if _WHOLE.fullmatch(text):
        return int(text)
    return float(text) if _NUMBER.fullmatch(text) else text


def recipe_text(name: str, arguments: Mapping[str, Value]) -> str:
    """Return a recipe as text; the reverse of `parse_recipe`.

    Examples
    --------
    >>> from goodalloc.data.library import recipe_text
    >>> recipe_text("pollux", {"seed": 3, "jobs": 40, "power": 0.0, "interference": False})
    'pollux seed=3 jobs=40 power=0.0 interference=no'
    """
    words = [
        f"{key}={('yes' if value else 'no') if isinstance(value, bool) else value}"
        for key, value in arguments.items()
    ]
    return " ".join([name, *words])


def make_round(recipe: str, name: str) -> Instance:
    """Make a round by its recipe.

    Parameters
    ----------
    recipe
        The text.
    name
        Name of the instance.

    Raises
    ------
    ValueError
        If no recipe has that name, it does not take one of the arguments or lacks one, or a value
        is out of range.

    Examples
    --------
    >>> from goodalloc.data.library import make_round
    >>> make_round("pollux seed=1 jobs=8 nodes=2", "mine").num_jobs
    8
    """
    return follow(recipe, RECIPES).replace(name=name)


def follow(recipe: str, recipes: Mapping[str, Callable[..., Made]]) -> Made:
    """Return what the function of a recipe's name makes of its arguments.

    Parameters
    ----------
    recipe
        The text.
    recipes
        Functions by the name of the recipe.

    Raises
    ------
    ValueError
        As `make_round`.
    """
    kind, arguments = parse_recipe(recipe)
    if kind not in recipes:
        closest = did_you_mean(kind, tuple(recipes))
        known = ", ".join(recipes)
        raise ValueError(f"Recipe {literal(kind)} is unknown{closest}; expected one of {known}.")
    function = recipes[kind]
    try:
        inspect.signature(function).bind(**arguments)
    except TypeError as error:
        raise ValueError(f"Recipe '{kind}': {error}.") from error
    return function(**arguments)


def _cluster(groups: str, nodes: int, gpus: int) -> Cluster:
    """Return equal nodes, or the groups of a text."""
    if not groups:
        return Cluster.uniform(nodes, gpus)
    found = []
    for text in groups.split("+"):
        parts = text.split(":")
        if len(parts) not in (3, 4) or not (parts[1].isdigit() and parts[2].isdigit()):
            raise ValueError(
                f"Recipe: group {literal(text)}; expected name:nodes:gpus or name:nodes:gpus:type."
            )
        gpu_type = parts[3] if len(parts) == 4 else ""
        found.append(NodeGroup(parts[0], int(parts[1]), int(parts[2]), gpu_type))
    return Cluster(tuple(found))


def _pollux(
    seed: int,
    jobs: int,
    nodes: int = 16,
    gpus: int = 4,
    groups: str = "",
    *,
    state: Any = "cold",
    power: float = -1.0,
    interference: bool = True,
    delay: float = 30.0,
    spread: int = 16,
    distributed: float = 0.0,
) -> Instance:
    """Jobs of Pollux's evaluation; `interference` says whether it is avoided.

    With `distributed`, that weight of the mix is of imagenet, which asks for 8 to 32 GPUs.
    """
    rules = Rules(
        power=float(power),
        interference_avoidance=interference,
        restart_delay=float(delay),
        max_nodes_per_job=spread,
    )
    cluster = _cluster(groups, nodes, gpus)
    mix = {"imagenet": distributed, "cifar10": 1.0 - distributed} if distributed else None
    return generate(seed, jobs, cluster=cluster, state=state, rules=rules, mix=mix)


def _equipped(
    seed: int,
    jobs: int,
    nodes: int,
    gpus: int,
    cores: int,
    memory: int = 0,
    *,
    state: Any = "cold",
    power: float = -1.0,
) -> Instance:
    """The same on nodes with cores, and memory in GB unless 0."""
    plain = _pollux(seed, jobs, nodes, gpus, state=state, power=power)
    return equip(plain, seed, cores=float(cores), memory=float(memory) or None)


def _sia(
    seed: int, jobs: int, scale: int = 1, *, state: Any = "cold", groups: str = ""
) -> Instance:
    """Jobs of Sia's kind on its cluster of three types of GPU, `scale` times."""
    cluster = _cluster(groups, 0, 0) if groups else sia_cluster(scale)
    return generate_typed(seed, jobs, cluster=cluster, state=state)


def _synergy(seed: int, jobs: int, servers: int, *, several: bool = False) -> Instance:
    """Jobs of Synergy's profiles on its servers; `several`: of 1, 2, 4 and 8 GPUs."""
    if several:
        return synergy_round(seed, servers, jobs, gpus=PUBLISHED_GPUS)
    return synergy_round(seed, servers, jobs)


def _openb(seed: int, pods: int, nodes: int) -> Instance:
    """Pods and nodes like those of Alibaba's openb cluster."""
    return pods_instance(draw_machines(nodes), draw_pods(seed, pods), "openb")


def _arena(seed: int, jobs: int, a100: int, a40: int, a10: int) -> Instance:
    """Large models that choose their plans, all waiting, on nodes of Arena's three types."""
    sizes = {"a100": (a100, 4), "a40": (a40, 2), "a10": (a10, 2)}
    node_gpus = {kind: gpus for kind, (_, gpus) in sizes.items()}
    capacity = {kind: nodes * gpus for kind, (nodes, gpus) in sizes.items()}
    times = shipped_plan_times()
    states = []
    for job in draw_plan_jobs(seed, jobs, times, node_gpus):
        speeds = times.speeds(job.training, node_gpus)
        fitting = {one: s for one, s in speeds.items() if one.gpus <= capacity[one.gpu_type]}
        states.append(PlanState(job, fitting, None, job.steps, 0.0, -1))
    return plan_instance(PlanRound(0.0, capacity, tuple(states)), node_gpus, PLAN_RULES)


def _equal(
    seed: int,
    jobs: int,
    nodes: int,
    gpus: int,
    exponent: float = 0.8,
    apart: float = 0.7,
    *,
    kinds: int = 1,
    least: int = 1,
    power: float = -1.0,
) -> Instance:
    """Jobs of a few kinds, so that all but a few of the optima are equal.

    On *K* GPUs of a node jobs of the first kind have the speed K^exponent, of the *i*-th that to
    the power i / kinds; on several nodes `apart` times as much. `seed` is not used by one kind.
    """
    require_count("Recipe 'equal': kinds", kinds, minimum=1)
    tables = []
    for kind in range(kinds):
        reach = exponent * (kind + 1) / kinds
        near = tuple(float(size**reach) for size in range(1, gpus + 1))
        far = tuple(float(apart * size**reach) for size in range(1, 2 * gpus + 1))
        tables.append(SpeedupTable(near, far))
    rules = Rules(power=float(power), restart_delay=0.0, speedup_scale="job")
    most = 2 * gpus
    found = tuple(
        Job(
            f"job-{index}",
            tables[(index + seed) % kinds],
            min_replicas=least,
            max_replicas=most,
        )
        for index in range(jobs)
    )
    return Instance(Cluster.uniform(nodes, gpus), found, rules)


#: Functions by the name of the recipe; each is documented above.
RECIPES: Mapping[str, Callable[..., Instance]] = MappingProxyType(
    {
        "benchmark": load_benchmark,
        "pollux": _pollux,
        "scattered": lambda seed, jobs, nodes, gpus: generate_scattered(seed, jobs, nodes, gpus),
        "equipped": _equipped,
        "sia": _sia,
        "synergy": _synergy,
        "openb": _openb,
        "arena": _arena,
        "awkward": lambda seed, jobs, nodes: awkward_round(seed, jobs, nodes),
        "equal": _equal,
    }
)
