"""Pods and nodes like those of the published openb lists, drawn from shipped statistics.

Also how a list of pods is made longer than it is: as in the paper (Weng et al., ATC'23, section 6),
the pods come in random order and further ones are drawn among them.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.data.pods.openb import Machine, Pod
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

FORMAT, VERSION = "goodalloc-openb-statistics", 1

#: Where the statistics ship.
SHIPPED = "openb_statistics.json"

#: Nodes of the published cluster.
PUBLISHED_NODES = 1523

#: Pods of the published list.
PUBLISHED_PODS = 8152


@lru_cache(maxsize=1)
def statistics() -> Any:
    """Return the frequencies of nodes and pods in the lists (`data/derivation/fit_openb.py`)."""
    return parse_document(read_shipped(SHIPPED), FORMAT, VERSION)


def draw_machines(nodes: int = PUBLISHED_NODES) -> list[Machine]:
    """Return nodes in the published proportions, by the largest remainders; nothing is random.

    Raises
    ------
    ValueError
        If the number of nodes is not a whole number of at least 1.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_machines
    >>> machines = draw_machines()
    >>> len(machines), sum(machine.gpus for machine in machines)
    (1523, 6212)
    """
    require_count("Openb: nodes", nodes, minimum=1, maximum=1_000_000)
    rows = statistics()["nodes"]
    wanted = np.array([row[-1] for row in rows]) * (nodes / sum(row[-1] for row in rows))
    counts = np.floor(wanted).astype(int)
    short = nodes - int(counts.sum())
    counts[np.argsort(counts - wanted, kind="stable")[:short]] += 1
    return [
        Machine(float(cores), float(memory), int(gpus), str(model))
        for (cores, memory, gpus, model, _), count in zip(rows, counts.tolist(), strict=True)
        for _ in range(count)
    ]


def draw_pods(seed: int, pods: int = PUBLISHED_PODS) -> list[Pod]:
    """Draw pods by their frequencies in the published list.

    Raises
    ------
    ValueError
        If a number is not a whole one in its range.

    Examples
    --------
    >>> from goodalloc.data.pods import draw_pods
    >>> len(draw_pods(0, pods=100))
    100
    """
    require_count("Openb: seed", seed, minimum=0)
    require_count("Openb: pods", pods, minimum=1, maximum=1_000_000)
    rows = statistics()["pods"]
    frequency = np.array([row[-1] for row in rows], dtype=float)
    generator = np.random.default_rng(seed)
    drawn = generator.choice(len(rows), size=pods, p=frequency / frequency.sum())
    found = []
    for number, row in enumerate(drawn.tolist()):
        cores, memory, gpus, share, _ = rows[row]
        found.append(Pod(f"pod-{number}", float(cores), float(memory), int(gpus), float(share)))
    return found


def arrivals(pods: Sequence[Pod], seed: int, gpus: float) -> list[Pod]:
    """Draw pods in random order, some repeatedly, until they request a number of GPUs.

    Every pod comes once before any comes again; what is drawn for fewer GPUs is the beginning of
    what is drawn for more.

    Parameters
    ----------
    pods
        The list.
    seed
        Seed of all random numbers.
    gpus
        GPUs at which to stop: no pod comes that would make it more.

    Raises
    ------
    ValueError
        If no pod requests a GPU, or a number is out of range.

    Examples
    --------
    >>> from goodalloc.data.pods import arrivals, draw_pods
    >>> pods = arrivals(draw_pods(0), seed=1, gpus=50.0)
    >>> len(pods) > 50
    True
    """
    require_count("Openb: seed", seed, minimum=0)
    require_number("Openb: gpus", gpus, minimum=0.0, strict=True)
    if not any(pod.gpus for pod in pods):
        raise ValueError("Openb: no pod takes a GPU; expected at least one.")
    generator = np.random.default_rng(seed)
    order = generator.permutation(len(pods)).tolist()
    found: list[Pod] = []
    asked, again = 0.0, 0
    while True:
        for index in order:
            pod = pods[index]
            asked += pod.gpus * pod.gpu_share
            if asked > gpus + 1e-9:
                return found
            found.append(pod._replace(name=f"{pod.name}-again-{again}") if again else pod)
            again += again > 0
        again = max(again, 1)
        order = generator.integers(len(pods), size=len(pods)).tolist()
