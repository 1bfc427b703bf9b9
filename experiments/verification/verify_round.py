"""Part of the checker `verify.py`: reading a round strictly, as `data/FORMAT.md` describes it with
presets and models resolved, and checking allocations of it.
"""

import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np

#: Factors by which a node may be exceeded, and of rounding errors beside that.
GRANTED, SLACK = 1 + 1e-9, 1 + 2e-12

TYPES = {kind.__name__: kind for kind in (int, float, bool, str, dict, list)}

#: Objects and their fields `key:kind=default`. Numbers are at least 0; + means above 0 and ~ any
#: sign; ? means or null; | separates kinds; a kind that is no type is a literal word.
OBJECTS = """
instance format:goodalloc-instance version:int+ name:str cluster:list rules:dict models:dict
  jobs:list topology:dict?=null
topology levels:list requires:list
level name:str domains:list uplink_jobs:int?=null
group name:str nodes:int+ gpus:int gpu_type:str="" resources:dict={}
rules power:float~|inf|-inf floor:float restart_delay:float max_nodes_per_job:int+
  interference_avoidance:bool fair_share:one_node|packed|one_gpu|least speedup_scale:node|job
  batch_search:integer|grid grid_points:int+ idle_utility:float+?=null
  restart_penalty:all|running="all"
goodput throughput:dict gradient:dict batch:dict
throughput alpha_grad:float beta_grad:float alpha_local:float beta_local:float alpha_node:float
  beta_node:float gamma:float+
gradient square:float variance:float
batch initial:int+ maximum:int+ atomic_minimum:int+ atomic_maximum:int+ accumulation:bool
table one_node:list several_nodes:list
job name:str model:str?="" modes:dict={} mode:str="" age:float=0 restarts:int=0
  placement:dict={} min_replicas:int=0 max_replicas:int+=64 preemptible:bool=true
  attained_service:float=0 restart_delay:float?=null weight:float+=1 application:str=""
mode model:str? gpu_type:str="" resources:dict={} gpu_share:float=1
allocation format:goodalloc-allocation version:int+ instance:str placements:dict modes:dict={}
certificate format:goodalloc-certificate version:int+ kind:round instance:str digest:str
  bound:float units:list grid:list tree:dict counts:list=[]
count level:float+ least:int+ prices:dict
split job:int choices:list inside:dict outside:dict
leaf reference:float+?=null prices:dict
prices resources:list=[] values:list=[] stays:list=[] parts:list=[] domains:list=[]
  uplinks:list=[] nested:list=[] counts:list=[]
value pieces:list=[] distributed:list=[]
nested one_node:list levels:list above:float stays:list=[]
"""
LINES = OBJECTS.strip().replace("\n  ", " ").splitlines()
SCHEMA = {words[0]: words[1:] for words in map(str.split, LINES)}


def require(holds: Any, sentence: str) -> None:
    """Raise an error with `sentence` unless `holds`."""
    if not holds:
        raise ValueError(sentence)


def checked(item: str, value: Any, kinds: str) -> Any:
    """Return the value if it is of one of its kinds; a whole number may stand for a float."""
    expected, null = [], value is None
    for kind in kinds.split("|"):
        name = kind.rstrip("+~?")
        wanted: Any = TYPES.get(name)
        low, high = -1e100 if "~" in kind else 0, 1e100
        good = value == kind if wanted is None else type(value) is wanted
        if wanted in (int, float):
            high = 2**31 if wanted is int else high
            good = type(value) in (int, wanted) and low <= value <= high
            good = good and (value > 0 or "+" not in kind)
            name += f" {'above' if '+' in kind else 'from'} {low:g} to {high:g}"
        if good or (null and "?" in kind):
            return float(value) if good and wanted is float else value
        expected.append(name)
    raise ValueError(f"{item} is {repr(value)[:40]}; expected {' or '.join(expected)}.")


def fields(item: str, value: Any, name: str) -> Any:
    """Return the fields of an object with defaults; refuse missing and unknown keys."""
    given, found = dict(checked(item, value, "dict")), SimpleNamespace()
    for words in SCHEMA[name]:
        key, _, kind = words.partition(":")
        kind, _, default = kind.partition("=")
        require(key in given or default, f"{item}: key '{key}' is missing.")
        content = given.pop(key) if key in given else json.loads(default)
        setattr(found, key, checked(f"{item}: {key}", content, kind))
    require(not given, f"{item}: key {next(iter(given), '')!r} is unknown.")
    require(getattr(found, "version", 1) == 1, f"{item}: version is not 1.")
    return found


def numbers(item: str, value: Any, kind: str = "float") -> Any:
    """Return the numbers of a list, or of an object by name."""
    if type(value) is dict:
        return {key: checked(f"{item}: {key!r}", x, kind) for key, x in value.items()}
    return [checked(item, x, kind) for x in checked(item, value, "list")]


def known(item: str, names: Any, table: Any) -> None:
    """Refuse a name that is not in a table."""
    for name in names:
        require(name in table, f"{item} {str(name)[:40]!r} is unknown.")


def read_model(item: str, entry: Any) -> Any:
    """Return a goodput model as a tuple of 14 numbers, or a table of speedups as two lists."""
    if "one_node" in checked(item, entry, "dict"):
        return [numbers(item, row) for row in vars(fields(item, entry, "table")).values()]
    parts = vars(fields(item, entry, "goodput")).items()
    model = tuple(float(x) for key, part in parts for x in vars(fields(item, part, key)).values())
    initial, maximum, least, most = model[9:13]
    ordered = model[0] + model[1] >= 1e-12 and initial <= maximum >= least <= most
    require(ordered and model[6] >= 1, f"{item}: times, gamma or batch limits are out of order.")
    return model


def read_round(document: Any) -> Any:
    """Return the instance.

    The modes of all jobs are *rows*, those of job j from `first[j]`; the demand and the type of
    GPU of a row are a *kind* of replica, `demand[kind]` with GPUs first; `most` is the number of
    replicas of a kind that fit on an empty node of every group.
    """
    r = fields("Instance", document, "instance")
    r.rules, r.tree = fields("Rules", r.rules, "rules"), None
    r.power, r.idle = float(r.rules.power), r.rules.idle_utility or r.rules.floor
    require(r.power == 0 or abs(r.power) >= 1e-9, "Rules: power is too near 0.")
    r.groups = [fields(f"Group {i}", group, "group") for i, group in enumerate(r.cluster)]
    had = [numbers(f"Group '{group.name}'", group.resources, "float+") for group in r.groups]
    r.names = sorted({name for amounts in had for name in amounts})
    has = zip(r.groups, had, strict=True)
    r.has = np.array([[group.gpus, *(a.get(x, 0.0) for x in r.names)] for group, a in has])
    r.nodes = np.array([group.nodes for group in r.groups])
    require(r.nodes.sum() <= 1e7 and r.has.any(), "Cluster: expected GPUs, on at most 1e7 nodes.")
    places = [f"{group.name}-{i}" for group in r.groups for i in range(group.nodes)]
    r.node = {place: v for v, place in enumerate(places)}
    require(len(r.node) == len(places), "Cluster: two groups have the same name.")
    r.group_of = np.repeat(np.arange(len(r.groups)), r.nodes)
    r.models = {key: read_model(f"Model {key!r}", entry) for key, entry in r.models.items()}
    r.jobs = [fields(f"Job {j}", job, "job") for j, job in enumerate(r.jobs)]
    r.rows, r.kinds = [], {}
    r.first = [read_modes(r, j, job) for j, job in enumerate(r.jobs)]
    distinct = len({job.name for job in r.jobs}) == len(r.jobs)
    require(r.jobs and distinct, "Instance: expected jobs, of different names.")
    r.job, r.kind = np.array([row[:2] for row in r.rows]).T
    r.at = np.array([job.at for job in r.jobs])
    r.types, r.demand = [key[0] for key in r.kinds], np.array([key[1:] for key in r.kinds])
    takes = r.demand[:, None] > 0
    room = r.has * GRANTED * SLACK / np.where(takes, r.demand[:, None], 1)
    one = np.floor(GRANTED * SLACK / np.where(takes[:, :, 0], r.demand[:, :1], 1))
    room[:, :, 0] = one * r.has[:, 0]  # no replica takes parts of two GPUs
    room = np.minimum(np.where(takes, room, 2**31).min(axis=2), 2**31)
    serves = [[kind in ("", group.gpu_type) for group in r.groups] for kind in r.types]
    r.most = np.where(serves, room, 0).astype(int)
    return r


def read_modes(r: Any, j: int, job: Any) -> int:
    """Add the rows of a job, and set its present placement (`place`) and row (`at`)."""
    item, first = f"Job {job.name!r}", len(r.rows)
    require(bool(job.modes) == (job.model == ""), f"{item}: expected a model or modes.")
    for name, entry in job.modes.items() or [("", {"model": job.model})]:
        mode = fields(f"{item}: mode {name!r}", entry, "mode")
        taken = numbers(item, mode.resources, "float+")
        known(f"{item}: resource", taken, r.names)
        right = mode.gpu_share <= 1 and (mode.gpu_share or taken)
        require(right, f"{item}: mode {name!r} takes no part of a GPU.")
        key = mode.gpu_type, mode.gpu_share, *(taken.get(x, 0.0) for x in r.names)
        known(f"{item}: model", [mode.model], [None, *r.models])
        r.rows.append((j, r.kinds.setdefault(key, len(r.kinds)), r.models.get(mode.model)))
    job.modes, job.place = [*job.modes] or [""], placed(r, item, job.placement)
    known(f"{item}: mode", [job.mode] if job.place else [], job.modes)
    job.at = first + (job.modes.index(job.mode) if job.place else 0)
    job.pinned = bool(job.place) and not job.preemptible
    return first


def placed(r: Any, item: str, placement: Any) -> dict[int, int]:
    """Return the replicas by node, in the order of the nodes."""
    known(f"{item}: node", checked(item, placement, "dict"), r.node)
    counts = numbers(f"{item}: replicas", placement, "int+")
    return dict(sorted((r.node[name], count) for name, count in counts.items()))


def read_allocation(r: Any, document: Any) -> Any:
    """Return replicas by node, and modes, of every job in an allocation or a result."""
    document = checked("Allocation", document, "dict")
    if document.get("format") == "goodalloc-result":
        kept = ("version", "instance", "placements", "modes")
        document = {key: x for key, x in document.items() if key in kept}
        document["format"] = "goodalloc-allocation"
    found = fields("Allocation", document, "allocation")
    require(found.instance == r.name, f"Allocation: instance is {found.instance!r}.")
    known("Allocation: job", [*found.placements, *found.modes], {job.name for job in r.jobs})
    rows, modes = [], []
    for job in r.jobs:
        item = f"Job {job.name!r}"
        rows.append(placed(r, item, found.placements.get(job.name, {})))
        named = not rows[-1] or r.topology  # on a tree the levels tell the modes
        mode = found.modes.get(job.name, job.modes[0] if named else "")
        known(f"{item}: mode", [mode], job.modes)
        modes.append(job.modes.index(mode) if rows[-1] else 0)
    return rows, modes


def check_allocation(r: Any, rows: list[dict[int, int]], modes: list[int]) -> None:
    """Refuse an allocation that breaks a rule."""
    held: dict[int, list[Any]] = {}
    for job, row, mode, first in zip(r.jobs, rows, modes, r.first, strict=True):
        item, total, kind = f"Job {job.name!r}", sum(row.values()), r.kind[first + mode]
        require(total <= job.max_replicas, f"{item} has {total} replicas, too many.")
        require(not 0 < total < job.min_replicas, f"{item} has {total} replicas, too few.")
        require(len(row) <= r.rules.max_nodes_per_job, f"{item} is on {len(row)} nodes, too many.")
        stays = (row, first + mode) == (job.place, job.at)
        require(stays or not job.pinned, f"{item} is not preemptible and was moved or stopped.")
        for v, count in row.items():
            serves = r.types[kind] in ("", r.groups[r.group_of[v]].gpu_type)
            require(serves, f"{item} is on GPUs of another type than its mode's.")
            held.setdefault(v, []).append((count, r.demand[kind].tolist(), len(row) > 1))
    for v, entries in held.items():
        group, has = r.groups[r.group_of[v]], r.has[r.group_of[v]]
        item = f"A node of group {group.name!r}"
        for x in range(1, has.size):
            used = math.fsum(count * demand[x] for count, demand, _ in entries)
            require(used <= has[x] * GRANTED, f"{item} gives {used:g} of {r.names[x - 1]}.")
        shares = [demand[0] for count, demand, _ in entries for _ in range(count)]
        require(packs(shares, group.gpus), f"{item} has too few GPUs for {len(shares)} replicas.")
        alone = not r.rules.interference_avoidance or sum(entry[2] for entry in entries) <= 1
        require(alone, f"{item} is shared by distributed jobs.")


def packs(shares: list[float], gpus: int) -> bool:
    """Return whether shares fit on GPUs, none on two; by search, the fullest GPU first."""
    parts = sorted((share for share in shares if 0 < share < 1), reverse=True)
    free = gpus - sum(share == 1 for share in shares)
    if free < 0 or math.fsum(parts) > free * GRANTED:
        return False
    seen: set[Any] = set()
    stack: list[Any] = [(0, (0.0,) * free)]
    while stack and len(seen) < 100_000:
        at, loads = stack.pop()
        if at == len(parts):
            return True
        for load in sorted({x for x in loads if x + parts[at] <= GRANTED}):
            i = loads.index(load)
            state = at + 1, tuple(sorted((*loads[:i], load + parts[at], *loads[i + 1 :])))
            stack += [] if state in seen else [state]
            seen.add(state)
    return False
