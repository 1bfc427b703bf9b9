"""Commands that run as replicas on the nodes of a cluster, to their end."""

from __future__ import annotations

import shutil
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

from goodalloc.experiments.live.replica_group import last_line, log_of

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.live.engines import Engine
    from goodalloc.models.round.cluster import Cluster

#: Seconds between two looks at the replicas.
GLANCE = 0.5


def equal_slots(
    cluster: Cluster, replicas: int | None, per_node: int | None = None, gpu_type: str | None = None
) -> dict[str, int]:
    """Return equally many slots on each of as few nodes as replicas need, by name of node.

    Parameters
    ----------
    cluster
        The nodes.
    replicas
        Number of replicas that must have a slot; None for all nodes.
    per_node
        Slots of a node; None for those that the smallest of the nodes has.
    gpu_type
        Type of their GPUs; None where all nodes have the same.

    Raises
    ------
    ValueError
        If nodes of several types are left, or they have too few slots.

    Examples
    --------
    >>> from goodalloc.experiments.live import equal_slots
    >>> from goodalloc.models import Cluster, NodeGroup
    >>> cluster = Cluster((NodeGroup("big", 2, 4), NodeGroup("small", 1, 2)))
    >>> equal_slots(cluster, 6)
    {'big-0': 4, 'big-1': 4}
    >>> equal_slots(cluster, 3, per_node=1)
    {'big-0': 1, 'big-1': 1, 'small-0': 1}
    """
    rows = zip(cluster.node_names, cluster.node_gpus.tolist(), cluster.node_types, strict=True)
    nodes = [row for row in rows if row[1] and gpu_type in (None, row[2])]
    kinds = sorted({kind for _, _, kind in nodes})
    if len(kinds) > 1:
        raise ValueError(
            f"Nodes have GPUs of the types {', '.join(kinds)}; expected one of them to be named."
        )
    nodes.sort(key=lambda row: -row[1])  # of equal nodes the first
    counts = range(1, len(nodes) + 1)
    for count in counts if replicas is not None else counts[-1:]:
        least = nodes[count - 1][1]
        slots = least if per_node is None else per_node
        if slots <= least and count * slots >= (replicas or 1):
            return {name: slots for name, _, _ in nodes[:count]}
    there = ", ".join(f"{name}: {gpus}" for name, gpus, _ in nodes) or "none"
    each = "" if per_node is None else f", {per_node} of each node"
    kind = "" if gpu_type is None else f" with GPUs of type '{gpu_type}'"
    raise ValueError(
        f"Nodes{kind} have too few slots for {replicas or 'any'} replicas{each} ({there}); "
        "expected more."
    )


def run_on_nodes(
    engine: Engine,
    command: Sequence[str],
    placement: dict[str, int],
    shared: Path,
    say: Callable[[str], None] = lambda _: None,
) -> None:
    """Run a command in every slot to its end, with the variables of torchrun.

    Parameters
    ----------
    engine
        Engine that starts the replicas.
    command
        Program and arguments of every replica.
    placement
        Number of replicas by node.
    shared
        Folder that all nodes see, in which logs are kept meanwhile.
    say
        Function that is called with every new last line of the first replica.

    Raises
    ------
    ValueError
        If the slots are not free, or a replica fails; the message has its last words.

    Examples
    --------
    >>> import sys
    >>> from pathlib import Path
    >>> from goodalloc.experiments.live import LocalEngine, run_on_nodes
    >>> command = [sys.executable, "-c", "open('was-here', 'w')"]
    >>> run_on_nodes(LocalEngine(Path()), command, {"here": 1}, Path())
    >>> Path("was-here").exists()
    True
    """
    logs = Path(tempfile.mkdtemp(prefix="replicas-", dir=shared))
    try:
        with engine.start(command, placement, logs, {}) as group:
            if group is None:
                where = ", ".join(f"{node}: {slots}" for node, slots in placement.items())
                raise ValueError(f"Slots are taken or gone ({where}); expected them to be free.")
            said = ""
            while None in group.codes and not any(group.codes):
                if (line := last_line(log_of(logs, 0))) != said:
                    said = line
                    say(line)
                time.sleep(GLANCE)
            for rank, code in enumerate(group.codes):
                if code:
                    words = group.last_words(rank) or "nothing was said"
                    raise ValueError(
                        f"Replica {rank} of {len(group.codes)} ended with exit code {code} "
                        f"({words[:500]})."
                    )
    finally:
        shutil.rmtree(logs, ignore_errors=True)
