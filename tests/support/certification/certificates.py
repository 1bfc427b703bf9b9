"""Certificates of rounds for testing the checker: documents, and random prices."""

from __future__ import annotations

import hashlib
import json
import math
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.files.allocation import allocation_to_dict
from goodalloc.data.files.instance import instance_to_dict
from goodalloc.formulations.gpu_rounds.choices import Kind

if TYPE_CHECKING:
    from goodalloc.formulations.gpu_rounds.choices import Choices
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance

Document = dict[str, Any]

#: Demands of the random rounds are multiples of these.
GPU_UNIT, RESOURCE_UNIT = 0.05, 0.5


def instance_document(instance: Instance) -> Document:
    """The instance as its file has it."""
    document: Document = json.loads(json.dumps(instance_to_dict(instance)))
    return document


def allocation_document(allocation: Allocation, instance: Instance) -> Document:
    """The allocation as its file has it."""
    document: Document = json.loads(json.dumps(allocation_to_dict(allocation, instance)))
    return document


def digest(document: Document) -> str:
    """What a certificate says of its instance."""
    text = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def certificate(
    instance: Instance, tree: Document, bound: float, reference: float | None
) -> Document:
    """A certificate around a tree whose leaves have prices, and pieces among them.

    Parameters
    ----------
    instance, bound
        The round and the claim.
    tree
        Splits, and leaves of prices alone; `pieces` and `distributed` make one value function.
    reference
        Of all leaves; None at infinite powers.
    """
    return {
        "format": "goodalloc-certificate",
        "version": 1,
        "kind": "round",
        "instance": instance.name,
        "digest": digest(instance_document(instance)),
        "bound": bound,
        "units": units(instance),
        "grid": units(instance),
        "tree": _finished(tree, {} if reference is None else {"reference": reference}),
    }


def _finished(node: Document, reference: Document) -> Document:
    """A tree with the reference in every leaf, and pieces in a value function."""
    if "prices" not in node:
        inside, outside = (_finished(node[key], reference) for key in ("inside", "outside"))
        return node | {"inside": inside, "outside": outside}
    return {**reference, "prices": with_values(node["prices"])}


def with_values(prices: Document) -> Document:
    """Prices whose pieces, if there are any, make one value function."""
    apart = ("pieces", "distributed")
    value = {key: seeds for key, seeds in prices.items() if key in apart}
    others = {key: numbers for key, numbers in prices.items() if key not in apart}
    return others | ({"values": [value]} if value else {})


def units(instance: Instance) -> list[float]:
    """Units in which all that the random rounds ask for is whole."""
    gpu = GPU_UNIT if instance.shares_gpus else 1.0
    return [gpu, *[RESOURCE_UNIT] * len(instance.cluster.resource_names)]


def choice_name(instance: Instance, choices: Choices, choice: int) -> list[Any]:
    """A choice as a split has it."""
    kind, job = Kind(choices.kind[choice]), int(choices.job[choice])
    mode = 0 if kind is Kind.IDLE else int(choices.mode[choice] - instance.first_mode[job])
    return [mode, kind.name.lower(), int(choices.replicas[choice])]


def random_certificate(
    instance: Instance, choices: Choices, best: float, random: np.random.Generator
) -> Document:
    """A certificate with random prices, units, reference, bound and tree.

    Parameters
    ----------
    instance, choices
        The round, and all its choices.
    best
        About what its best allocation is worth.
    random
        Decides everything.
    """
    unit = random_units(instance, random)
    scale, depth = float(10 ** random.uniform(-2, 1)), int(random.integers(3))
    tree = _random_tree(instance, choices, unit, scale, depth, random)
    reference = best * float(10 ** random.uniform(-0.5, 0.5))
    finite = math.isfinite(instance.rules.power)
    claim = best * float(random.uniform(0.8, 1.5))
    found = certificate(instance, tree, claim, reference if finite else None)
    return found | {"units": unit, "grid": unit}


def random_units(instance: Instance, random: np.random.Generator) -> list[float]:
    """Units of which some make whole numbers of all that replicas take, and some do not."""
    gpus = [1.0, 0.05, 0.1, 0.3] if instance.shares_gpus else [1.0]
    names = instance.cluster.resource_names
    resources = [float(random.choice([0.25, 0.3, 0.5, 1.0, 1.7])) for _ in names]
    return [float(random.choice(gpus)), *resources]


def _random_tree(
    instance: Instance,
    choices: Choices,
    unit: list[float],
    scale: float,
    depth: int,
    random: np.random.Generator,
) -> Document:
    if depth == 0 or random.random() < 0.4:
        return {"prices": random_prices(instance, unit, scale, random)}
    job = int(random.integers(instance.num_jobs))
    picked = [i for i in np.flatnonzero(choices.job == job) if random.random() < 0.5]
    inside, outside = (
        _random_tree(instance, choices, unit, scale, depth - 1, random) for _ in range(2)
    )
    listed = [choice_name(instance, choices, int(i)) for i in picked]
    return {"job": job, "choices": listed, "inside": inside, "outside": outside}


def random_prices(
    instance: Instance, unit: list[float], scale: float, random: np.random.Generator
) -> Document:
    """Prices of every kind that the rules of a round allow, each there or not."""
    rooms = [
        [int(amount / size) for amount, size in zip(row, unit, strict=True)]
        for row in group_capacity(instance)
    ]

    def pieces() -> list[list[list[float]]]:
        found: list[list[list[float]]] = []
        for room in rooms:
            sizes = [
                [int(random.integers(max(n, 1) + 1)) for n in room]
                for _ in range(random.integers(4))
            ]
            found.append(
                [
                    [*size, float(random.uniform(0, scale * sum(size)))]
                    for size in sizes
                    if any(size)
                ]
            )
        return found

    prices: Document = {
        "resources": [
            (random.uniform(0, scale, len(unit)) * (random.random(len(unit)) < 0.6)).tolist()
            for _ in rooms
        ],
        "pieces": pieces(),
        "stays": random.uniform(-scale, 2 * scale, instance.current.job.size).tolist(),
    }
    if instance.rules.interference_avoidance:
        prices["distributed"] = pieces()
    if instance.shares_gpus:
        most = int((1 + 1e-9) / unit[0])
        prices["parts"] = [
            [
                [int(random.integers(1, most + 1)), float(random.uniform(0, scale))]
                for _ in range(random.integers(4))
            ]
            for _ in rooms
        ]
    return {key: value for key, value in prices.items() if random.random() < 0.7}


def group_capacity(instance: Instance) -> list[list[float]]:
    """What a node of every group has, GPUs first."""
    names = instance.cluster.resource_names
    return [
        [float(group.gpus), *(dict(group.resources).get(name, 0.0) for name in names)]
        for group in instance.cluster.groups
    ]
