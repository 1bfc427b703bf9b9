"""Topologies as files: versioned JSON beside the round, documented in `FORMAT.md`."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_format,
    check_keys,
    check_list,
    check_text,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.data.files.instance import instance_to_dict
from goodalloc.data.topology.tree_rounds import standard_tree
from goodalloc.models.round.instance import Instance
from goodalloc.models.round.job import Job
from goodalloc.models.support.validation import require_count
from goodalloc.models.topology.topology import Level, Topology
from goodalloc.models.topology.topology_round import TopologyRound
from goodalloc.models.topology.tree_wishes import TreeWishes

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.cluster import Cluster

TOPOLOGY_FORMAT = "goodalloc-topology"
VERSION = 1

#: Name of the tree of islands, racks and pods of equal nodes, in place of a file.
STANDARD = "standard"


def read_topology(path: str | os.PathLike[str], instance: Instance) -> TopologyRound:
    """Read a topology, and what jobs ask of it, from a file.

    Parameters
    ----------
    path, instance
        The file, and the round whose nodes and jobs it names.

    Raises
    ------
    ValueError
        If the file cannot be read or is malformed; one sentence that names the file, the item, its
        value and what was expected.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree, read_topology, write_topology
    >>> round_ = generate_on_tree(0, nodes=16, load=0.5)
    >>> write_topology(round_, "tree.json")
    >>> read_topology("tree.json", round_.instance) == round_
    True
    """
    document = read_document(path, (TOPOLOGY_FORMAT,))
    try:
        return topology_from_dict(document, instance)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error


def read_wishes(path: str | os.PathLike[str], cluster: Cluster, jobs: Sequence[str]) -> TreeWishes:
    """Read the tree of a cluster over many rounds, and what jobs ask of it, from a file.

    Parameters
    ----------
    path
        The file, or `STANDARD` for islands, racks and pods of equal nodes.
    cluster, jobs
        The nodes that it names, and the names of all jobs that may be there.

    Raises
    ------
    ValueError
        As `read_topology`.

    Examples
    --------
    >>> from goodalloc.data.topology import read_wishes
    >>> from goodalloc.models import Cluster
    >>> read_wishes("standard", Cluster.uniform(16, 4), ["a"]).topology.level_names
    ('node', 'island', 'rack', 'pod', 'cluster')
    """
    if path == STANDARD:
        return TreeWishes(standard_tree(cluster.num_nodes))
    return TreeWishes.of(read_topology(path, Instance(cluster, tuple(map(Job, jobs)))))


def write_topology(round_: TopologyRound, path: str | os.PathLike[str]) -> None:
    """Write the topology of a round, and what jobs ask of it, to a file, atomically."""
    document = topology_to_dict(round_)
    write_atomically(path, rows_text(document, {"levels": document.pop("levels")}))


def topology_to_dict(round_: TopologyRound) -> Document:
    """Return the topology of a round as JSON has it; see `FORMAT.md`.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree, topology_to_dict
    >>> topology_to_dict(generate_on_tree(0, nodes=16, load=0.5))["slowdown"]
    4.0
    """
    topology, instance = round_.topology, round_.instance
    names = [job.name for job in instance.jobs]
    document: Document = {
        "format": TOPOLOGY_FORMAT,
        "version": VERSION,
        "slowdown": topology.slowdown,
        "discount": round_.discount,
        "levels": [],
    }
    for wish in ("requires", "prefers"):
        levels = zip(names, getattr(round_, wish), strict=False)
        document[wish] = {name: level for name, level in levels if level}
    for level, domains in zip(topology.levels, topology.domains, strict=True):
        entry: Document = {"name": level.name, "slowdown": level.slowdown}
        if level.uplink_jobs is not None:
            entry["uplink_jobs"] = level.uplink_jobs
        nodes: dict[str, list[str]] = {}
        for node, domain in zip(instance.cluster.node_names, domains, strict=True):
            nodes.setdefault(domain, []).append(node)
        document["levels"].append({**entry, "domains": nodes})
    return document


def tree_round_digest(round_: TopologyRound) -> str:
    """Return the SHA-256 of the JSON of a round and its topology, keys sorted, in hex.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree, tree_round_digest
    >>> len(tree_round_digest(generate_on_tree(0, nodes=16, load=0.5)))
    64
    """
    documents = [instance_to_dict(round_.instance), topology_to_dict(round_)]
    text = json.dumps(documents, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def topology_from_dict(document: object, instance: Instance) -> TopologyRound:
    """Return the round of a document of `topology_to_dict`.

    Parameters
    ----------
    document, instance
        The document, and the round whose nodes and jobs it names.

    Raises
    ------
    ValueError
        If the document is malformed, or names unknown levels, nodes or jobs.
    """
    checked = check_format(document, (TOPOLOGY_FORMAT,), VERSION)
    optional = ("slowdown", "discount", "requires", "prefers")
    check_keys("Topology", checked, ("format", "version", "levels"), optional)
    entries = check_list("Topology: levels", checked["levels"])
    found = [_level(place, entry, instance) for place, entry in enumerate(entries)]
    levels, domains = tuple(level for level, _ in found), tuple(names for _, names in found)
    highest = levels[-1].slowdown if levels else 1.0
    topology = Topology(levels, domains, as_float(checked.get("slowdown", highest)))
    wishes = {wish: _wishes(wish, checked.get(wish, {}), instance) for wish in optional[2:]}
    discount = as_float(checked.get("discount", TopologyRound.discount))
    return TopologyRound(instance, topology, discount=discount, **wishes)


def _level(place: int, entry: Any, instance: Instance) -> tuple[Level, tuple[str, ...]]:
    """Return a level and the domain of every node."""
    item = f"Topology: level {place}"
    checked = check_keys(item, entry, ("name",), ("slowdown", "uplink_jobs", "nodes", "domains"))
    name = check_text(f"{item}: name", checked["name"])
    level = Level(name, as_float(checked.get("slowdown", 1.0)), checked.get("uplink_jobs"))
    item = f"Level '{name}'"
    if ("nodes" in checked) == ("domains" in checked):
        raise ValueError(
            f"{item}: expected either nodes, the number of nodes of each domain, or domains."
        )
    if "nodes" in checked:
        size = checked["nodes"]
        require_count(f"{item}: nodes", size, minimum=1)
        count = instance.cluster.num_nodes
        return level, tuple(f"{name}-{node // size}" for node in range(count))
    return level, _domains(item, checked["domains"], instance)


def _domains(item: str, value: object, instance: Instance) -> tuple[str, ...]:
    """Return the domain of every node from the nodes of every domain."""
    if not isinstance(value, dict):
        raise ValueError(f"{item}: domains is {shown(value)}; expected an object.")
    index, found = instance.cluster.node_index, [""] * instance.cluster.num_nodes
    for domain, nodes in value.items():
        for node in check_list(f"{item}: domain '{domain}'", nodes):
            if not isinstance(node, str) or node not in index:
                raise ValueError(
                    f"{item}: domain '{domain}' has node {shown(node)}; expected one of the "
                    "cluster's."
                )
            if found[index[node]]:
                raise ValueError(
                    f"{item}: node '{node}' is in '{found[index[node]]}' and in '{domain}'; "
                    "expected one domain."
                )
            found[index[node]] = domain
    for node, domain in zip(instance.cluster.node_names, found, strict=True):
        if not domain:
            raise ValueError(f"{item}: node '{node}' is in no domain; expected one.")
    return tuple(found)


def _wishes(wish: str, value: object, instance: Instance) -> tuple[str, ...]:
    """Return the level that each job requires or prefers; none of all if nothing is asked."""
    if not isinstance(value, dict):
        raise ValueError(f"Topology: {wish} is {shown(value)}; expected an object.")
    names = [job.name for job in instance.jobs]
    for job, level in value.items():
        if job not in names:
            raise ValueError(f"Topology: {wish} names job '{job}'; expected one of the round.")
        if not check_text(f"Job '{job}': {wish}", level):
            raise ValueError(f"Job '{job}': {wish} is empty; expected the name of a level.")
    return tuple(value.get(name, "") for name in names) if value else ()
