"""Rounds of the library on trees: made anew by recipes, or read, and checked by their digests."""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import check_keys
from goodalloc.data.files.instance import instance_from_dict, instance_to_dict
from goodalloc.data.library.catalogue import check_digest, find_round
from goodalloc.data.library.library_round import TREE, features_of
from goodalloc.data.library.recipes import follow
from goodalloc.data.library.stored_files import file_of, read_compressed
from goodalloc.data.topology.topology_file import (
    topology_from_dict,
    topology_to_dict,
    tree_round_digest,
)
from goodalloc.data.topology.tree_rounds import generate_on_tree

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.topology.topology_round import TopologyRound


def load_tree_round(name: str) -> TopologyRound:
    """Return a round of the library on a tree: made anew, or read, and checked by its digest.

    Raises
    ------
    ValueError
        If the library has no round of that name, it is on no tree, or what was made has another
        digest.

    Examples
    --------
    >>> from goodalloc.data.topology import load_tree_round
    >>> load_tree_round("tree-40x16-settled-1").instance.num_jobs
    40
    """
    known = find_round(name)
    if not known.on_tree:
        raise ValueError(
            f"Round '{name}' is on no tree; expected one on a tree (`load_round` loads it)."
        )
    if known.recorded:
        round_ = tree_round_from_dict(read_compressed(file_of("rounds", name)))
    else:
        round_ = make_tree_round(known.recipe, name)
    check_digest(known, tree_round_digest(round_))
    return round_


def tree_round_to_dict(round_: TopologyRound) -> Document:
    """Return a round and its tree as the file of a recorded one has them.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree, tree_round_to_dict
    >>> list(tree_round_to_dict(generate_on_tree(0, nodes=16, load=0.5)))
    ['round', 'tree']
    """
    return {"round": instance_to_dict(round_.instance), "tree": topology_to_dict(round_)}


def tree_round_from_dict(document: object) -> TopologyRound:
    """Return the round of a document of `tree_round_to_dict`.

    Raises
    ------
    ValueError
        If the document is malformed.

    Examples
    --------
    >>> from goodalloc.data.topology import generate_on_tree
    >>> from goodalloc.data.topology import tree_round_from_dict, tree_round_to_dict
    >>> round_ = generate_on_tree(0, nodes=16, load=0.5)
    >>> tree_round_from_dict(tree_round_to_dict(round_)) == round_
    True
    """
    parts = check_keys("Recorded round", document, ("round", "tree"))
    return topology_from_dict(parts["tree"], instance_from_dict(parts["round"]))


def make_tree_round(recipe: str, name: str) -> TopologyRound:
    """Make a round on a tree by its recipe.

    Parameters
    ----------
    recipe, name
        As of `make_round`.

    Raises
    ------
    ValueError
        As `make_round`.

    Examples
    --------
    >>> from goodalloc.data.topology import make_tree_round
    >>> make_tree_round("tree seed=1 jobs=8 nodes=8", "mine").topology.level_names
    ('node', 'island', 'rack', 'pod', 'cluster')
    """
    made = follow(recipe, TREE_RECIPES)
    return replace(made, instance=made.instance.replace(name=name))


def features_on_tree(round_: TopologyRound) -> tuple[str, ...]:
    """Return what a round on a tree has, as `features_of`.

    Examples
    --------
    >>> from goodalloc.data.topology import features_on_tree, generate_on_tree
    >>> features_on_tree(generate_on_tree(0, nodes=16, load=0.5, state="cold", uplink_jobs=4))
    ('tree', 'requires', 'uplinks')
    """
    found = {
        TREE: True,
        "requires": any(round_.requires),
        "uplinks": bool(round_.topology.limited_levels),
        "gangs": any(job.min_replicas > 1 for job in round_.instance.jobs),
    }
    features = tuple(name for name, holds in found.items() if holds)
    return (*features_of(round_.instance), *features)


def _tree(
    seed: int,
    jobs: int,
    nodes: int,
    gpus: int = 4,
    *,
    state: Any = "settled",
    requiring: float = 0.1,
    gangs: float = 0.0,
    uplinks: int = 0,
) -> TopologyRound:
    """Jobs of Pollux's evaluation on islands, racks and pods of equal nodes.

    Shares of the jobs require one rack, or the GPUs of two nodes; `uplinks` is the greatest number
    of jobs that share the uplink of a rack, 0 for any.
    """
    return generate_on_tree(
        seed,
        nodes,
        gpus,
        jobs=jobs,
        state=state,
        requiring=requiring,
        gangs=gangs,
        uplink_jobs=uplinks or None,
    )


#: Functions by the name of the recipe.
TREE_RECIPES: Mapping[str, Callable[..., TopologyRound]] = MappingProxyType({"tree": _tree})
