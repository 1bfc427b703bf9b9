"""Shipped instances: named, generated from fixed arguments, from tiny to 500 jobs.

`python -m goodalloc.experiments.gap.make_benchmark_set` writes them, and the best known values.
"""

from __future__ import annotations

import csv
import math
import os
from dataclasses import dataclass
from functools import cache
from importlib.resources import as_file, files
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.instance import read_instance
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.rules import OSDI21, Rules
from goodalloc.models.support.validation import did_you_mean, literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from importlib.resources.abc import Traversable

    from goodalloc.models.round.instance import Instance

_MIXED = Cluster((NodeGroup("small", 8, 2), NodeGroup("node", 12, 4), NodeGroup("large", 6, 8)))
_WIDE = Cluster((NodeGroup("node", 6, 16), NodeGroup("spare", 4, 3)))

#: Arguments of `goodalloc.data.rounds.generator.generate` for every instance, smallest first.
BENCHMARKS: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "tiny-cold": {"seed": 1, "jobs": 4, "nodes": 2},
        "tiny-disturbed": {"seed": 2, "jobs": 6, "nodes": 3, "state": "disturbed"},
        "small-running": {"seed": 3, "jobs": 12, "nodes": 4, "state": "running"},
        "under-cold": {"seed": 4, "load": 0.5, "nodes": 16},
        "under-running": {"seed": 5, "jobs": 20, "nodes": 16, "state": "running"},
        "even-disturbed": {"seed": 6, "jobs": 40, "nodes": 16, "state": "disturbed"},
        "even-settled": {"seed": 7, "jobs": 40, "nodes": 16, "state": "settled"},
        "even-osdi21": {"seed": 8, "jobs": 40, "nodes": 16, "state": "disturbed", "rules": OSDI21},
        "even-geometric": {"seed": 9, "jobs": 40, "nodes": 16, "rules": Rules(power=0.0)},
        "even-maxmin": {
            "seed": 10,
            "jobs": 40,
            "nodes": 16,
            "state": "running",
            "rules": Rules(power=-math.inf),
        },
        "over-cold": {"seed": 11, "load": 4.0, "nodes": 16},
        "over-disturbed": {"seed": 12, "jobs": 160, "nodes": 16, "state": "disturbed"},
        "eight-gpus": {
            "seed": 13,
            "jobs": 60,
            "nodes": 16,
            "gpus_per_node": 8,
            "state": "disturbed",
        },
        "wide-nodes": {"seed": 14, "jobs": 50, "cluster": _WIDE, "state": "running"},
        "mixed-nodes": {"seed": 15, "jobs": 80, "cluster": _MIXED, "state": "disturbed"},
        "interfering": {
            "seed": 16,
            "jobs": 30,
            "nodes": 16,
            "state": "disturbed",
            "rules": Rules(interference_avoidance=False),
        },
        "medium-cold": {"seed": 17, "jobs": 160, "nodes": 64},
        "medium-disturbed": {"seed": 18, "jobs": 160, "nodes": 64, "state": "disturbed"},
        "large-disturbed": {"seed": 19, "jobs": 500, "nodes": 128, "state": "disturbed"},
        "large-settled": {"seed": 20, "jobs": 500, "nodes": 128, "state": "settled"},
    }
)


@dataclass(frozen=True, slots=True)
class BestKnown:
    """Best known allocation of an instance: its fitness and a bound."""

    instance: str
    fitness: float
    bound: float
    gap: float
    solver: str
    version: str


def benchmark_names() -> tuple[str, ...]:
    """Return the names of the instances that ship, smallest first.

    Examples
    --------
    >>> from goodalloc.data import benchmark_names
    >>> benchmark_names()[:2]
    ('tiny-cold', 'tiny-disturbed')
    """
    return tuple(BENCHMARKS)


def instance_folder() -> Traversable:
    """Return the folder of the instances that ship."""
    return files("goodalloc.data") / "instances"


def load_benchmark(name: str) -> Instance:
    """Return an instance that ships.

    Parameters
    ----------
    name
        One of `benchmark_names()`.

    Raises
    ------
    ValueError
        If no instance of that name ships.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> instance = load_benchmark("tiny-cold")
    >>> instance.num_jobs, instance.cluster.num_nodes, instance.cluster.num_gpus
    (4, 2, 8)
    """
    if name not in BENCHMARKS:
        known = ", ".join(benchmark_names())
        closest = did_you_mean(name, benchmark_names())
        raise ValueError(
            f"Benchmark instance {literal(name)} is unknown{closest}; expected one of {known}."
        )
    with as_file(instance_folder() / f"{name}.json") as path:
        return read_instance(path)


def find_instance(source: str) -> Instance:
    """Read an instance file or, without such a file, load the shipped instance of that name.

    Raises
    ------
    ValueError
        If `source` is neither, or the file is malformed.

    Examples
    --------
    >>> from goodalloc.data.rounds import find_instance
    >>> find_instance("tiny-cold").name
    'tiny-cold'
    """
    if source in benchmark_names() and not os.path.exists(source):
        return load_benchmark(source)
    if not os.path.exists(source) and os.sep not in source and "." not in source:
        known = ", ".join(benchmark_names())
        closest = did_you_mean(source, benchmark_names())
        raise ValueError(
            f"Instance {literal(source)} is neither a file nor one that ships{closest}; expected a "
            f"file or one of {known}."
        )
    return read_instance(source)


@cache
def best_known_values() -> Mapping[str, BestKnown]:
    """Return the best known value of every instance that has one."""
    source = instance_folder() / "best_known.csv"
    if not source.is_file():
        return MappingProxyType({})
    return MappingProxyType(parse_best_known(source.read_text(encoding="utf-8")))


def best_known(source: str) -> BestKnown | None:
    """Return the best known value of what `find_instance` finds, or None.

    Examples
    --------
    >>> from goodalloc.data.rounds import best_known
    >>> known = best_known("tiny-cold")
    >>> 0 < known.fitness <= known.bound
    True
    """
    return None if os.path.exists(source) else best_known_values().get(source)


def parse_best_known(text: str) -> dict[str, BestKnown]:
    """Parse the text of a table of best known values.

    Examples
    --------
    >>> from goodalloc.data.documents import read_shipped
    >>> from goodalloc.data.rounds import parse_best_known
    >>> "tiny-cold" in parse_best_known(read_shipped("instances/best_known.csv"))
    True
    """
    return {
        row["instance"]: BestKnown(
            row["instance"],
            float(row["fitness"]),
            float(row["bound"]),
            float(row["gap"]),
            row["solver"],
            row["version"],
        )
        for row in csv.DictReader(text.splitlines())
    }
