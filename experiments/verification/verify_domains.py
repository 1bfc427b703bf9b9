"""Part of the stand-alone checker `verify.py`: what jobs pay for the domains of a tree.

Jobs on several nodes pay for the nodes of domains and for uplinks. By *nested* prices jobs pay for
their GPUs, by the level that holds them; nodes pass GPUs on to the domains above. No allocation
pays more than the largest values below; `formulations/CERTIFICATE.md` has the proof.
"""

import importlib
import math
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
verify_tree: Any = importlib.import_module(f"{PACKAGE}verify_tree")
checked, fields = verify_round.checked, verify_round.fields
numbers, require = verify_round.numbers, verify_round.require


#: Most GPUs of a domain with nested prices, whose tables grow with their square.
MOST_GPUS = 4096


def read_prices(r: Any, p: Any) -> None:
    """Check the prices of domains, uplinks and nested knapsacks of a leaf."""
    levels = [] if r.tree is None else r.tree.levels
    require(r.tree or not (p.domains or p.uplinks or p.nested), "Prices: there is no tree.")
    p.domains = [sizes("domains", seeds) for seeds in p.domains or [[]] * len(levels)]
    p.uplinks = numbers("Prices: uplinks", p.uplinks or [0.0] * len(levels))
    p.nested = [fields("Prices: nested", one, "nested") for one in p.nested]
    right = len(p.domains) == len(p.uplinks) == len(levels)
    require(right, "Prices: domains or uplinks are not one for every level.")
    for level, price in zip(levels, p.uplinks, strict=True):
        free = level.uplink_jobs is None and price > 0
        require(not free, f"Prices: uplinks of {level.name!r} have no limit.")
    for one in p.nested:
        one.one_node = sizes("one_node", one.one_node)
        one.levels = [sizes("levels", seeds) for seeds in one.levels]
        one.stays = numbers("Prices: nested stays", one.stays or [0.0] * r.entry_job.size)
        right = 0 < len(one.levels) <= len(levels) + 1 and len(one.stays) == r.entry_job.size
        require(right, "Prices: nested has other levels or entries.")
        gpus = largest(r, one)
        require(gpus <= MOST_GPUS, f"Prices: nested of domains of {gpus} GPUs are too many.")


def sizes(item: str, seeds: Any) -> list[tuple[int, float]]:
    """Return sizes with their prices."""
    for seed in checked(f"Prices: {item}", seeds, "list"):
        require(len(checked(f"Prices: {item}", seed, "list")) == 2, f"Prices: {item} is {seed}.")
        checked(f"Prices: size of {item}", seed[0], "int+")
        checked(f"Prices: {item}", seed[1], "float")
    return [(size, float(price)) for size, price in seeds]


def most(r: Any, p: Any, width: int) -> float:
    """Return an upper bound on what a choice pays for the tree, and on the value of a domain."""
    nodes = max(width, int(r.nodes.sum()))
    total = nodes * math.fsum([*(x for level in p.domains for _, x in level), *p.uplinks])
    for one in p.nested:
        seeds = [x for level in (one.one_node, *one.levels) for _, x in level]
        total += max(width, largest(r, one)) * math.fsum([*seeds, one.above, *one.stays])
    return total


def largest(r: Any, nested: Any) -> int:
    """Return the GPUs of the largest domain of the highest level with nested prices."""
    return int(np.bincount(r.tree.domain[len(nested.levels)], r.tree.gpus).max())


def whole(q: Any, p: Any, rounded: Any) -> None:
    """Set the prices of the tree as whole numbers.

    What has a nested price at a level has it at all lower ones, too, and one GPU of one node has
    it at every level: a domain that gives a GPU to a higher level could earn the price itself.
    """
    q.domains = [[(size, rounded(x)) for size, x in seeds] for seeds in p.domains]
    q.uplinks, q.nested = [rounded(x) for x in p.uplinks], []
    for one in p.nested:
        alone = [(size, rounded(x)) for size, x in one.one_node]
        above = max([rounded(one.above), *(x for size, x in alone if size == 1)])
        levels = [[(1, above)]]
        for seeds in one.levels[::-1]:
            levels.insert(0, levels[0] + [(size, rounded(x)) for size, x in seeds])
        q.nested.append((alone, levels, above, [rounded(x) for x in one.stays]))


def knapsack(seeds: Any, room: int, dtype: Any) -> Any:
    """Return the most that any number of pieces is worth, by the room for them."""
    table = np.zeros(room + 1, dtype=dtype)
    for n in range(1, room + 1):
        table[n] = max([table[n - 1], *(table[n - size] + x for size, x in seeds if size <= n)])
    return table


def least_split(piece: Any, number: int, big: int) -> Any:
    """Return the least total of 2 to `number` pieces, by the number of replicas."""

    def longer(sums: Any) -> Any:
        found = np.full_like(sums, big)
        for k in np.flatnonzero(piece < big).tolist():
            found[k:] = np.minimum(found[k:], sums[: sums.size - k] + piece[k])
        return np.minimum(found, big)

    sums = piece if number > 1 else np.full_like(piece, big)
    for _ in range(number - 2):
        better = np.minimum(sums, longer(sums))
        if (better == sums).all():
            break
        sums = better
    return longer(sums)


def payments(r: Any, q: Any, pays: Any, piece: Any) -> None:
    """Set what choices on several nodes pay for pieces, no more than a domain of their level has
    nodes, and add what all choices pay for domains, uplinks and nested knapsacks.
    """
    tree, width = r.tree, pays.shape[2]
    for level, most_nodes in enumerate(tree.most_nodes):
        split = least_split(piece, min(most_nodes, width - 1), q.big)
        pays[tree.level == level, 1] = np.where(split < q.big, split, 0)
    least = np.maximum(2, -(-np.arange(width) // int(tree.gpus.max())))  # nodes of a job on several
    spread = np.array([len(job.place) for job in r.jobs])
    pinned = np.array([job.pinned for job in r.jobs])
    for level, (seeds, price) in enumerate(zip(q.domains, q.uplinks, strict=True), start=1):
        value = knapsack(seeds, int(max(least.max(), spread.max())), q.dtype)
        pays[tree.level <= level, 1, 2:] += value[least[2:]]
        uplinks = np.maximum(2, -(-least // int(np.bincount(tree.domain[level]).max())))
        pays[tree.level > level, 1, 2:] += (uplinks.astype(q.dtype) * price)[2:]
        for j in np.flatnonzero(~pinned & (spread > 1)).tolist():
            crossed = len(verify_tree.domains_of(tree, r.jobs[j].place, level))
            inside = tree.held[j] <= level
            pays[r.at[j], 1, 0] += value[spread[j]] if inside else crossed * price
    for alone, levels, _, entries in q.nested:
        pays[:, 0, 1:] += knapsack(alone, width - 1, q.dtype)[1:]
        for level in range(1, len(tree.domain)):
            seeds = levels[min(level, len(levels)) - 1]
            pays[tree.level == level, 1, 2:] += knapsack(seeds, width - 1, q.dtype)[2:]
        for i, j in enumerate(r.entry_job.tolist()):
            pays[r.at[j], 1, 0] += 0 if pinned[j] else entries[i]


def gifts(r: Any, q: Any, keeps: Any) -> int:
    """Return the largest value of all domains, uplinks and nested knapsacks."""
    if r.tree is None:
        return 0
    tree, given = r.tree, 0
    closed = {v for job in r.jobs if job.pinned and len(job.place) > 1 for v in job.place}
    is_open = (tree.gpus > 0) & ~np.isin(np.arange(tree.gpus.size), [*closed])
    for level, (seeds, price) in enumerate(zip(q.domains, q.uplinks, strict=True), start=1):
        nodes = np.bincount(tree.domain[level], is_open).astype(int).tolist()
        value = knapsack(seeds, max(nodes), q.dtype)
        given += sum(int(value[number]) for number in nodes)
        pinned = [
            job.place
            for job, held in zip(r.jobs, tree.held, strict=True)
            if job.pinned and held > level
        ]
        taken = sum(len(verify_tree.domains_of(tree, place, level)) for place in pinned)
        uplinks = len({*tree.domain[level].tolist()}) * (tree.levels[level - 1].uplink_jobs or 0)
        given += (uplinks - taken) * price
    return given + sum(Nested(r, q, keeps, one).value() for one in q.nested)


class Nested:
    """Domains at nested prices, by the GPUs that they give to jobs that they do not hold."""

    def __init__(self, r: Any, q: Any, keeps: Any, prices: Any) -> None:
        alone, levels, self.above, paid = prices
        self.domain, self.q, self.levels = r.tree.domain, q, levels[:-1]
        self.free = r.tree.gpus.copy()
        self.stays: list[list[tuple[int, int]]] = [[] for _ in r.tree.gpus]
        for i, (j, v) in enumerate(zip(r.entry_job.tolist(), r.entry_node.tolist(), strict=True)):
            if r.jobs[j].pinned:
                self.free[v] -= r.entry_count[i]
            elif keeps[j] and paid[i] > 0:
                self.stays[v].append((int(r.entry_count[i]), paid[i]))
        self.one = knapsack(alone, int(self.free.max()), q.dtype)
        self.known: dict[Any, Any] = {}

    def value(self) -> int:
        """Return the largest value of all domains of the highest of the levels."""
        top, given = self.domain[len(self.levels)], 0
        order = np.argsort(top, kind="stable")
        for nodes in np.split(order, np.flatnonzero(np.diff(top[order])) + 1):
            curve = self.part(nodes, len(self.levels))
            given += int((curve + self.above * np.arange(curve.size).astype(self.q.dtype)).max())
        return given

    def node(self, v: int) -> Any:
        """Return the value of a node."""
        states = {int(self.free[v]): 0}
        for count, price in self.stays[v]:
            for left, total in list(states.items()):
                if left >= count:
                    states[left - count] = max(states.get(left - count, 0), total + price)
        curve = np.full(int(self.free[v]) + 1, -self.q.big, dtype=self.q.dtype)
        for left, total in states.items():
            np.maximum(curve[: left + 1], self.one[left::-1] + total, out=curve[: left + 1])
        return curve

    def part(self, nodes: Any, level: int) -> Any:
        """Return the value of a domain; of equal empty ones it is worked out once."""
        if level == 0:
            return self.node(int(nodes[0]))
        below = self.domain[level - 1][nodes]
        groups = [nodes[below == d] for d in dict.fromkeys(below.tolist())]
        key = None if any(self.stays[v] for v in nodes) else (level, self.shape(nodes, level))
        if key is None or key not in self.known:
            inside = self.part(groups[0], level - 1)
            for group in groups[1:]:
                inside = self.together(inside, self.part(group, level - 1))
            value = knapsack(self.levels[level - 1], inside.size - 1, self.q.dtype)
            curve = inside.copy()
            for used in range(1, curve.size):
                to = curve[: curve.size - used]
                np.maximum(to, inside[used:] + value[used], out=to)
            self.known[key] = curve
        return self.known[key]

    def shape(self, nodes: Any, level: int) -> Any:
        """Return the free GPUs of the nodes of a domain, part by part."""
        if level == 0:
            return int(self.free[nodes[0]])
        below = self.domain[level - 1][nodes]
        parts = dict.fromkeys(below.tolist())
        return tuple(self.shape(nodes[below == d], level - 1) for d in parts)

    def together(self, first: Any, second: Any) -> Any:
        """Return the value of two parts."""
        found = np.full(first.size + second.size - 1, -self.q.big, dtype=self.q.dtype)
        for given in range(second.size):
            to = found[given : given + first.size]
            np.maximum(to, first + second[given], out=to)
        return found
