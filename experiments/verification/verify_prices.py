"""Part of the stand-alone checker `verify.py`: lower bounds on the cost of allocations, by prices.

Jobs pay for their pieces of nodes, in any allocation at most the largest value of the nodes. The
total cost of all jobs is thus at least the sum of the least cost plus payment of each job, less
the value of the nodes. Prices become whole multiples of a power of 2, to which costs are rounded
down, so that sums are exact.
"""

import importlib
import math
from fractions import Fraction
from operator import le, sub
from types import SimpleNamespace
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify_domains: Any = importlib.import_module(f"{PACKAGE}verify_domains")
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
checked, fields = verify_round.checked, verify_round.fields
numbers, require = verify_round.numbers, verify_round.require


def divide(r: Any, given: Any, item: str) -> Any:
    """Return room of nodes and demand of replicas in units, rounded in favour of fitting."""
    unit = np.array(numbers(f"Certificate: {item}", given, "float+"))
    require(unit.size == r.has.shape[1], f"Certificate: {item} are not one for every resource.")
    room = np.floor(r.has * verify_round.GRANTED * verify_round.SLACK / unit)
    require(room.max() < 1e9, f"Certificate: {item} are too small.")
    each = np.minimum(np.rint(r.demand / unit), 2**31)
    whole = (abs(r.demand - each * unit) <= 1e-12 * r.demand).all(axis=0)

    def taken(kind: Any, k: Any) -> Any:
        rounded = np.floor(r.demand[kind] * k[:, None] * (1 - 1e-12) / unit)
        return np.where(whole, each[kind] * k[:, None], rounded).astype(int)

    held = taken(r.entry_kind, r.entry_count)
    gpu = math.floor(min(verify_round.GRANTED * verify_round.SLACK / unit[0], 1e9))
    return SimpleNamespace(room=room.astype(int), taken=taken, held=held, gpu=gpu)


def read_units(r: Any, units: Any, grid: Any) -> None:
    """Set the room in units of resources and parts (`fine`), and of pieces (`grid`)."""
    entries = [(j, v, k) for j, job in enumerate(r.jobs) for v, k in job.place.items()]
    r.entry_job, r.entry_node, r.entry_count = np.array(entries, dtype=int).reshape(-1, 3).T
    r.entry_kind, r.entry_group = r.kind[r.at[r.entry_job]], r.group_of[r.entry_node]
    r.fine, r.grid = divide(r, units, "units"), divide(r, grid, "grid")


def read_prices(r: Any, given: Any) -> Any:
    """Return the prices of a leaf; those of pieces that fit as lists of (units, price) by group."""
    p, (groups, width) = fields("Prices", given, "prices"), r.has.shape
    p.resources = p.resources or [[0.0] * width] * groups
    p.resources = [numbers("Prices: resources", row) for row in p.resources]
    p.stays = numbers("Prices: stays", p.stays or [0.0] * r.entry_job.size, "float~")
    p.values = [fields("Prices: values", value, "value") for value in p.values]
    rooms = r.grid.room.tolist()
    for value in p.values:
        value.pieces = read_seeds("pieces", value.pieces, rooms)
        value.distributed = read_seeds("distributed", value.distributed, rooms)
    p.parts = read_seeds("parts", p.parts, [[r.fine.gpu]] * groups)
    verify_domains.read_prices(r, p)
    right = len(p.resources) == groups and {len(row) for row in p.resources} == {width}
    require(right, "Prices: resources are not a number for every group and resource.")
    require(len(p.stays) == r.entry_job.size, "Prices: stays are not one for every entry.")
    avoided, whole = r.rules.interference_avoidance, (r.demand[:, 0] == 1).all()
    apart = any(any(value.distributed) for value in p.values)
    require(avoided or not apart, "Prices: distributed pieces are like all others.")
    require(not (whole and any(p.parts)), "Prices: no replica takes a part of a GPU.")
    return p


def read_seeds(key: str, given: Any, rooms: Any) -> Any:
    """Return the pieces that fit, as (units, price) by group."""
    lists = given or [[]] * len(rooms)
    for seed in (x for group in lists for x in checked(f"Prices: {key}", group, "list")):
        units = numbers(f"Prices: {key}", seed)[:-1]
        numbers(f"Prices: units of {key}", seed[:-1], "int")
        right = len(units) == len(rooms[0]) and (any(units) or key == "distributed")
        require(right, f"Prices: a piece of {key} takes {seed[:-1]}.")
    require(len(lists) == len(rooms), f"Prices: {key} are not a list for every group.")
    pairs = zip(lists, rooms, strict=True)
    return [[(x[:-1], x[-1]) for x in seeds if all(map(le, x, n))] for seeds, n in pairs]


def leaf_cost(r: Any, p: Any, costs: Any, may: Any, exact: bool) -> Any:
    """Return the least cost of allocations of the allowed choices; infinite if there is none."""
    own = np.minimum.reduceat(np.where(may, costs, np.inf).min(axis=(1, 2)), r.first)
    if own.max() == np.inf:
        return math.inf
    q = whole_numbers(r, p, abs(own).max(), may.shape[2], exact)
    if exact:
        costs = [math.floor(Fraction(x) * q.scale) for x in costs.ravel().tolist()]
        costs = np.array(costs, dtype=object).reshape(may.shape)
    else:
        costs = np.floor(np.ldexp(np.clip(costs, -q.size, q.size), q.exponent)).astype(q.dtype)
    least = np.where(may, costs + payments(r, q, may.shape[2]), q.big).min(axis=(1, 2))
    least = np.minimum.reduceat(least, r.first)
    given = gifts(r, q, may[r.at, 1, 0]) + verify_domains.gifts(r, q, may[r.at, 1, 0])
    return Fraction(sum(least.tolist()) - given) / q.scale


def whole_numbers(r: Any, p: Any, cost: float, width: int, exact: bool) -> Any:
    """Return prices as whole numbers, and tables of total prices of pieces on nodes and GPUs."""
    groups = range(len(r.groups))
    size = [
        sum(most([*v.pieces[g], *v.distributed[g]], r.grid.room[g]) for v in p.values)
        + np.maximum(r.fine.room[g], 1) @ p.resources[g]
        + r.has[g, 0] * most(p.parts[g], [r.fine.gpu])
        for g in groups
    ]
    total = width * max(size) + math.fsum(map(abs, p.stays)) + verify_domains.most(r, p, width)
    # a choice that costs more than the cheapest plus all payments is not the least: clip it
    q = SimpleNamespace(size=float(3 * total + cost))
    q.exponent, q.dtype = (1074, object) if exact else (58 - math.frexp(q.size)[1], np.int64)
    q.scale, q.big = Fraction(2) ** q.exponent, 1 << (4000 if exact else 62)

    def whole(seeds: Any) -> Any:
        return [(units, int(Fraction(x) * q.scale)) for units, x in seeds]

    q.stays = np.array([int(Fraction(x) * q.scale) for x in p.stays], dtype=q.dtype)
    q.prices = [[int(Fraction(x) * q.scale) for x in row] for row in p.resources]
    q.prices = np.array(q.prices, dtype=q.dtype)
    nothing = SimpleNamespace(pieces=[[]] * len(r.groups), distributed=[[]] * len(r.groups))
    tables = [
        [
            tabulate(r.grid.room[g], whole(v.pieces[g]), whole(v.distributed[g]), q.dtype)
            for v in p.values or [nothing]
        ]
        for g in groups
    ]
    q.tables = [[sum(part[1:], part[0]) for part in zip(*some, strict=True)] for some in tables]
    parts = [tabulate([r.fine.gpu], whole(p.parts[g]), [], q.dtype)[0] for g in groups]
    one = r.fine.taken(np.arange(len(r.types)), np.ones(len(r.types)))[:, :1]
    q.share = np.array([at(part, one) for part in parts], dtype=q.dtype)
    q.gpu = [int(part[-1]) for part in parts]
    verify_domains.whole(q, p, lambda x: int(Fraction(x) * q.scale))
    return q


def payments(r: Any, q: Any, width: int) -> Any:
    """Return the least payment of every choice over the places of its pieces."""
    pay, piece = np.zeros((len(r.types), 2, width), dtype=q.dtype), np.zeros((2, 0), dtype=q.dtype)
    for kind in range(len(r.types)):
        piece = np.full((2, width), q.big, dtype=q.dtype)
        for g in range(len(r.groups)):
            k = np.arange(1, min(r.most[kind, g], width - 1) + 1)
            units, to = r.grid.taken(kind, k), slice(1, k.size + 1)
            each = r.fine.taken(kind, k) @ q.prices[g] + k.astype(q.dtype) * q.share[g, kind]
            found = np.stack([each + at(table, units) for table in q.tables[g]])
            piece[:, to] = np.minimum(piece[:, to], found)
        nodes = min(r.rules.max_nodes_per_job, int((r.most[kind] > 0) @ r.nodes), width - 1)
        pay[kind] = piece[0], verify_domains.least_split(piece[1], nodes, q.big)
    pays = np.where(pay < q.big, pay, 0)[r.kind]
    if r.tree:  # where all replicas are of one kind
        verify_domains.payments(r, q, pays, piece[1])
    stays = q.stays + (r.fine.held * q.prices[r.entry_group]).sum(axis=1)
    stays = stays + r.entry_count * q.share[r.entry_group, r.entry_kind]
    pinned = np.array([job.pinned for job in r.jobs])[r.entry_job]
    np.add.at(pays, (r.at[r.entry_job], 1, 0), np.where(pinned, 0, stays))
    return pays


def gifts(r: Any, q: Any, keeps: Any) -> int:
    """Return the largest value of all nodes, of pieces and of jobs that may keep theirs."""
    gpus, empty = r.has[:, 0].astype(int).tolist(), r.nodes.tolist()
    on_node: dict[int, list[int]] = {}
    for i, v in enumerate(r.entry_node.tolist()):
        on_node.setdefault(v, []).append(i)
    nodes = [(1, int(r.group_of[v]), entries) for v, entries in on_node.items()]
    for _, g, _ in nodes:
        empty[g] -= 1
    nodes += [(count, g, []) for g, count in enumerate(empty)]
    given = 0
    for number, g, entries in nodes:
        fine, room, free, open_, stay = r.fine.room[g], r.grid.room[g], gpus[g], True, []
        for i in entries:
            job, units = r.jobs[r.entry_job[i]], r.grid.held[i]
            several = r.rules.interference_avoidance and len(job.place) > 1
            if job.pinned:
                fine, room, open_ = fine - r.fine.held[i], room - units, open_ and not several
                free -= int(r.entry_count[i]) * int(r.demand[r.entry_kind[i], 0] == 1)
            elif keeps[r.entry_job[i]] and q.stays[i] > 0:
                stay.append((int(q.stays[i]), units.tolist(), several))
        require(min(*room, *fine) >= 0, "Instance: jobs that are not preemptible overfill a node.")
        one = int(fine @ q.prices[g]) + free * q.gpu[g]
        given += number * (one + node_value(q.tables[g], tuple(room.tolist()), open_, stay))
    return given


def node_value(tables: Any, room: Any, open_: bool, stay: Any) -> int:
    """Return the largest value of stays and pieces on a node, at most one of them distributed."""
    states = {(room, open_): 0}
    for worth, units, several in stay:
        for (free, still), total in list(states.items()):
            rest = tuple(map(sub, free, units))
            if min(rest) >= 0 and (still or not several):
                key = rest, still and not several
                states[key] = max(states.get(key, 0), total + worth)
    return max(total + int(at(tables[still], [free])[0]) for (free, still), total in states.items())


def most(seeds: Any, room: Any) -> Any:
    """Return an upper bound on the value of pieces on a node."""
    some = [(x, [n // k for k, n in zip(units, room, strict=True) if k]) for units, x in seeds]
    return sum(x * min(number or [1]) for x, number in some)


def tabulate(room: Any, seeds: Any, extras: Any, dtype: Any) -> Any:
    """Return the largest value of pieces in every part of a room; and with at most one extra."""
    used = np.array([units for units, _ in (*seeds, *extras)]).reshape(-1, len(room)).any(axis=0)
    shape = np.where(used, np.array(room) + 1, 1).tolist()
    require(math.prod(shape) <= 1e7, "Certificate: units are too small for tables.")
    table = np.zeros(shape, dtype=dtype)

    def add(to: Any, units: Any, price: Any) -> None:
        higher = tuple(slice(k, None) for k in units)
        lower = tuple(slice(0, n - k) for k, n in zip(units, table.shape, strict=True))
        to[higher] = np.maximum(to[higher], table[lower] + price)

    for units, price in seeds:
        number = 1
        while all(k * number < n or not k for k, n in zip(units, table.shape, strict=True)):
            add(table, [k * number for k in units], price * number)
            number *= 2
    other = table.copy()
    for units, price in extras:
        add(other, units, price)
    return table, other


def at(table: Any, units: Any) -> Any:
    """Return the entries of a table at rows of units; axes of length 1 are ignored."""
    return table[tuple(np.minimum(units, np.array(table.shape) - 1).T)]
