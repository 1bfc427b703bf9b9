"""Part of the stand-alone checker `verify.py`: rounds on trees of racks and pods.

A round on a tree has the key `topology`: levels of domains between the node and the cluster, from
the lowest on, and the level that every job requires. Every job has a mode for each of these levels
and one for the cluster, with its speedups on several nodes that a domain of that level holds.
"""

import importlib
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
fields, numbers, require = verify_round.fields, verify_round.numbers, verify_round.require


def read_tree(r: Any) -> Any:
    """Return the tree of a round; None without one.

    `domain[l]` are the domains of the nodes at level l, the nodes themselves first, the cluster
    last; `level` the level of every row, `held` that of the placement of every job; `most_nodes`
    and `most_gpus` what a domain of a level holds of one job at most.
    """
    if r.topology is None:
        return None
    tree, nodes, jobs = fields("Topology", r.topology, "topology"), int(r.nodes.sum()), len(r.jobs)
    tree.levels = [fields("Level", level, "level") for level in tree.levels]
    rows = [numbers("Level: domains", level.domains, "int") for level in tree.levels]
    require(all(len(row) == nodes for row in rows), "Level: domains are not one for every node.")
    tree.domain = [np.arange(nodes), *map(np.array, rows), np.zeros(nodes, dtype=int)]
    for inner, outer in zip(tree.domain, tree.domain[1:], strict=False):
        require(outer.max() < nodes, "Level: a domain has no number below that of nodes.")
        parents = set(zip(inner.tolist(), outer.tolist(), strict=True))
        require(len(parents) == len({*inner.tolist()}), "Level: a domain lies in two others.")
    tree.requires = np.array(numbers("Topology: requires", tree.requires, "int"))
    require(tree.requires.size == jobs, "Topology: requires is not a level for every job.")
    require(r.rules.interference_avoidance, "Topology: expected interference_avoidance.")
    places, names = len(tree.domain) - 1, [*(level.name for level in tree.levels), "cluster"]
    alone = r.types == [""] and r.demand.shape == (1, 1) and r.demand[0, 0] == 1
    right = all([*job.modes] == names for job in r.jobs)  # the digest knows no order
    require(alone and right, "Topology: expected a mode of one GPU for every job and level.")
    require(tree.requires.max() <= places, "Topology: a job requires a level that does not exist.")
    tree.level, tree.gpus = (
        np.tile(np.arange(1, places + 1), jobs),
        r.has[r.group_of, 0].astype(int),
    )
    limit = r.rules.max_nodes_per_job
    tree.most_nodes = [min(int(np.bincount(row).max()), limit) for row in tree.domain]
    tree.most_gpus = np.array([most_gpus(tree.gpus, row, limit) for row in tree.domain])
    tree.held = np.array([level_of(tree, job.place) for job in r.jobs])
    for job, level, at, first in zip(r.jobs, tree.held, r.at, r.first, strict=True):
        require(at - first == max(level - 1, 0), f"Job {job.name!r} runs in another mode.")
    return tree


def most_gpus(gpus: Any, domain: Any, limit: int) -> int:
    """Return the most GPUs of one job on several nodes of a domain; 0 where there are none."""
    order = np.lexsort((-gpus, domain))
    order = order[gpus[order] > 0]
    rank = np.arange(order.size) - np.searchsorted(domain[order], domain[order])
    counted = order[rank < limit]
    number = np.bincount(domain[counted])
    return int(np.bincount(domain[counted], gpus[counted])[number > 1].max(initial=0))


def level_of(tree: Any, row: dict[int, int]) -> int:
    """Return the lowest level that holds a placement, 0 of nothing or one node."""
    at = [*row]
    return next(i for i, domain in enumerate(tree.domain) if len({*domain[at].tolist()}) <= 1)


def domains_of(tree: Any, row: dict[int, int], level: int) -> set[int]:
    """Return the domains of a level in which a placement has nodes."""
    return {*tree.domain[level][[*row]].tolist()}


def restrict(r: Any) -> None:
    """Drop choices that no domain of their level holds, or that a requirement forbids."""
    if r.tree is None:
        return
    tree, k = r.tree, np.arange(r.may.shape[2])
    r.may[:, 1] &= (tree.level <= tree.requires[r.job])[:, None] | (k == 0)
    r.may[:, 1] &= k <= tree.most_gpus[tree.level, None]
    pinned = np.array([job.pinned for job in r.jobs])
    r.may[r.at, 1, 0] &= (tree.held <= tree.requires) | pinned


def check(r: Any, rows: list[dict[int, int]]) -> list[int]:
    """Return the mode of every job, its level, none without a tree; refuse a broken rule."""
    if r.tree is None:
        return []
    tree = r.tree
    levels = [level_of(tree, row) for row in rows]
    for job, level, most in zip(r.jobs, levels, tree.requires, strict=True):
        require(level <= most, f"Job {job.name!r} is not held by the level that it requires.")
    for place, limited in enumerate(tree.levels, start=1):
        used: dict[int, int] = {}
        for row, level in zip(rows, levels, strict=True):
            for domain in domains_of(tree, row, place) if level > place else ():
                used[domain] = used.get(domain, 0) + 1
        most = max(used.values(), default=0)
        right = limited.uplink_jobs is None or most <= limited.uplink_jobs
        require(right, f"Level {limited.name!r}: {most} jobs share an uplink.")
    return [max(level - 1, 0) for level in levels]
