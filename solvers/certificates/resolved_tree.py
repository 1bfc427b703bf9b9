"""Rounds on trees with all models and speeds spelt out, as the stand-alone checker reads them."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import rows_text
from goodalloc.data.files.instance import instance_to_dict

if TYPE_CHECKING:
    import os

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.topology.topology_round import TopologyRound


def resolved_to_dict(round_: TopologyRound) -> Document:
    """Return a round on a tree as one document; see `FORMAT.md`.

    Every job has a mode for each level, with its speedups there, and the key ``topology`` has the
    levels, the domains of the nodes, and the levels that jobs require.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.certificates import resolved_to_dict
    >>> document = resolved_to_dict(generate_on_tree(0, nodes=16, load=0.5))
    >>> [level["name"] for level in document["topology"]["levels"]]
    ['island', 'rack', 'pod']
    """
    topology = round_.topology
    levels = [
        {"name": level.name, "uplink_jobs": level.uplink_jobs, "domains": domains}
        for level, domains in zip(topology.levels, round_.domain[1:-1].tolist(), strict=True)
    ]
    tree = {"levels": levels, "requires": round_.required.tolist()}
    return {**instance_to_dict(round_.leveled), "topology": tree}


def write_resolved(round_: TopologyRound, path: str | os.PathLike[str]) -> None:
    """Write the document of `resolved_to_dict` to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.certificates import write_resolved
    >>> write_resolved(generate_on_tree(0, nodes=16, load=0.5), "resolved.json")
    """
    document = resolved_to_dict(round_)
    rows = {key: document.pop(key) for key in ("models", "jobs")}
    write_atomically(path, rows_text(document, rows))


def resolved_digest(round_: TopologyRound) -> str:
    """Return the SHA-256 of the JSON of `resolved_to_dict`, keys sorted, without blanks, in hex.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.solvers.certificates import resolved_digest
    >>> len(resolved_digest(generate_on_tree(0, nodes=16, load=0.5)))
    64
    """
    text = json.dumps(resolved_to_dict(round_), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
