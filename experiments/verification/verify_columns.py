"""Check a certificate of a round in columns: an upper bound on the fitness of any allocation.

    python verify_columns.py ROUND.parquet ALLOCATION.csv CERTIFICATE.json [--json]

This file needs NumPy, pyarrow for Parquet, and `verify.py` with its files beside it; no solver.
The cluster counts as one pool of G GPUs, so that for any price *λ* of a GPU and every allocation

    sum of c(u_j) >= sum over jobs of the least (c(u_jk) + λ k) - λ G                            (1)

bounds the mean, as (1) and (2) of `formulations/CERTIFICATE.md`; prices of slots, of some numbers
of GPUs of one node, take the place of *λ* as that file says. At p = -inf there is no price: some
job stays at or below the bound, since the fewest GPUs of all jobs above it do not fit.
`data/FORMAT.md` describes the files. Exit code 0: verified; 1: not; 2: a file cannot be read.
"""

import csv
import hashlib
import importlib
import io
import json
import math
import pathlib
import sys
from fractions import Fraction
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify: Any = importlib.import_module(f"{PACKAGE}verify")
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
verify_utilities: Any = importlib.import_module(f"{PACKAGE}verify_utilities")
fields, require = verify_round.fields, verify_round.require

#: Jobs whose choices are looked at together.
CHUNK = 16_384

#: Part of an age below which what a job has trained without restarts is worked out exactly.
SMALL = 1e-2

#: Names of the 14 numbers of a goodput model, by part.
PARTS = {
    part: [word.partition(":")[0] for word in verify_round.SCHEMA[part]]
    for part in ("throughput", "gradient", "batch")
}
NUMBERS = [name for names in PARTS.values() for name in names]


def verify_columns(table: Any, digest: str, rows: Any, certificate: Any) -> Any:
    """Check that no allocation of a round has a fitness above the bound of a certificate.

    Parameters
    ----------
    table
        Table that pyarrow read from the file of the round.
    digest
        SHA-256 of that file.
    rows
        Rows of the allocation, with `job`, `node` and `gpus`.
    certificate
        Content of its file.
    """
    return guarded(lambda: judge(read_columns(table), digest, rows, certificate))


def guarded(judged: Any) -> Any:
    """Return a verdict; any malformed file gives one with a sentence, never a traceback."""
    try:
        with np.errstate(all="ignore"):
            return judged()
    except Exception as error:
        text = " ".join(f"{error}".split()) or f"{type(error).__name__}."
        return verify.Verdict(False, (text,))


def judge(r: Any, digest: str, rows: Any, certificate: Any) -> Any:
    """Check as `verify_columns`, but raise an error if a file is malformed."""
    require(not r.jobs[0].modes[0], "Round: its jobs have modes; expected verify_mode_columns.py.")
    own = "slots" if type(certificate) is dict and "slots" in certificate else "price"
    claimed = claimed_bound(certificate, digest, "columns", [own])
    set_utilities(r)
    job, node, gpus = read_allocation(r, rows)

    def value() -> float:
        check_allocation(r, job, node, gpus)
        return float(verify.power_mean(allocated(r, job, node, gpus), r.power))

    return verdict(value, prove(r, certificate, claimed), claimed)


def claimed_bound(certificate: Any, digest: str, kind: str, own: list[str]) -> float:
    """Return the bound of a certificate; refuse one of another round or kind, or other keys."""
    known = ["format", "version", "kind", "digest", "bound", "reference", *own]
    require(type(certificate) is dict, "Certificate: expected an object.")
    require(sorted(certificate) == sorted(known), f"Certificate: expected the keys {known}.")
    stated = [certificate[key] for key in known[:3]]
    require(stated == ["goodalloc-certificate", 1, kind], "Certificate: of another kind.")
    require(certificate["digest"] == digest, "Certificate: its digest is not that of the round.")
    return float(verify_round.checked("Certificate: bound", certificate["bound"], "float+"))


def verdict(worth: Any, proved: float, claimed: float) -> Any:
    """Return the verdict on an allocation, whose worth is an error if it breaks a rule."""
    reasons, value = [], 0.0
    try:
        value = worth()
    except ValueError as error:
        reasons.append(str(error))
    if proved < value * (1 - 3 * verify.ERROR):
        reasons.append(f"The bound of {proved!r} that is proved is below the fitness {value!r}.")
    bound = max(proved, value * (1 + 3 * verify.ERROR))
    if not bound <= claimed:
        reasons.append(f"A bound of {bound!r} is proved; {claimed!r} is claimed.")
    found = value or math.nan
    numbers = found, 3 * verify.ERROR * found, bound, claimed, 1 - found / bound
    return verify.Verdict(not reasons, tuple(reasons), value > 0, *numbers)


def read_columns(table: Any) -> Any:
    """Return the round of a table, with the present placements as three arrays.

    Kinds are rows of the numbers of their models, one after the other if jobs have modes.
    """
    metadata = table.schema.metadata or {}
    require(b"goodalloc" in metadata, "Round: its metadata has no key 'goodalloc'.")
    r = verify_round.read_round(json.loads(metadata[b"goodalloc"]))
    require(r.rules.fair_share != "least", "Round: fair_share is 'least'.")
    plain = len(r.jobs) == 1 and not r.jobs[0].place and r.jobs[0].min_replicas == 0
    require(plain and r.jobs[0].preemptible, "Round: the job of its metadata is not a plain one.")
    names = [f"{mode}." * bool(mode) + name for mode in r.jobs[0].modes for name in NUMBERS]
    models = [np.asarray(table[name].to_numpy(), dtype=float) for name in names]
    columns = np.stack(models, axis=1)
    r.ran = np.isfinite(columns).all(axis=1)
    require((r.ran | np.isnan(columns).all(axis=1)).all(), "Round: a part of a model is empty.")
    kinds, kind = np.unique(columns[r.ran], axis=0, return_inverse=True)
    for one in kinds.reshape(-1, len(NUMBERS)).tolist():
        entry: dict[str, Any] = dict(zip(NUMBERS, one, strict=True))
        entry |= {name: int(entry[name]) for name in PARTS["batch"]}
        entry["accumulation"] = bool(entry["accumulation"])
        parts = {part: {name: entry[name] for name in names} for part, names in PARTS.items()}
        verify_round.read_model("Kind", parts)
    r.replica, r.kinds, r.kind = r.kind, kinds, np.full(len(columns), len(kinds))
    r.kind[r.ran] = kind.ravel()
    for name, least in (("age", 0), ("restarts", 0), ("max_replicas", 1)):
        values = np.asarray(table[name].to_numpy())
        require(((values >= least) & (values < 1e100)).all(), f"Round: {name} is out of range.")
        setattr(r, name, values)
    lists = [table[name].combine_chunks() for name in ("nodes", "gpus")]
    ends = [np.asarray(one.offsets, dtype=np.int64) for one in lists]
    length = ends[0][1:] - ends[0][:-1]
    require(np.array_equal(length, ends[1][1:] - ends[1][:-1]), "Round: lists differ.")
    node, gpus = (np.asarray(one.flatten()) for one in lists)
    r.current = in_order(r, np.repeat(np.arange(len(columns)), length), node, gpus)
    r.sizes = r.has[r.group_of, 0].astype(int)
    return r


def in_order(r: Any, job: Any, node: Any, gpus: Any) -> Any:
    """Return placements by job, then node; refuse what does not exist, and pairs given twice."""
    nodes = r.group_of.size
    for name, given, most in (("job", job, len(r.kind) - 1), ("node", node, nodes - 1)):
        require(((given >= 0) & (given <= most)).all(), f"A {name} is none of 0 to {most}.")
    require(((gpus > 0) & (gpus < 2**31)).all(), "A number of GPUs is below 1.")
    key = job.astype(np.int64) * nodes + node
    order = np.argsort(key, kind="stable")
    require((np.diff(key[order]) > 0).all(), "A job is on one node twice.")
    return job[order].astype(np.int64), node[order].astype(np.int64), gpus[order].astype(np.int64)


def read_allocation(r: Any, rows: Any) -> Any:
    """Return the placements of an allocation, in order."""
    names = ("job", "node", "gpus")
    require(not rows or {*names} <= {*rows[0]}, "Allocation: expected columns job, node, gpus.")
    for name, one in ((name, row[name]) for row in rows for name in names):
        require(str(one).isdecimal(), f"Allocation: {name} is {one!r}; expected a whole number.")
    return in_order(r, *(np.array([int(row[name]) for row in rows], int) for name in names))


def held_by(r: Any, job: Any, gpus: Any) -> Any:
    """Return the GPUs and the nodes of every job."""
    held = np.bincount(job, weights=gpus, minlength=r.kind.size).astype(np.int64)
    return held, np.bincount(job, minlength=r.kind.size)


def check_allocation(r: Any, job: Any, node: Any, gpus: Any) -> None:
    """Refuse an allocation that breaks a rule."""
    held, nodes = held_by(r, job, gpus)
    used = np.bincount(node, weights=gpus, minlength=r.sizes.size)
    apart = np.bincount(node[nodes[job] > 1], minlength=r.sizes.size)
    limit = r.rules.max_nodes_per_job
    for broken, item, what in (
        (held > r.max_replicas, "Job", "has too many GPUs"),
        (nodes > limit, "Job", "is on too many nodes"),
        (used > r.sizes, "Node", "gives more GPUs than it has"),
        (r.rules.interference_avoidance * apart > 1, "Node", "is shared by distributed jobs"),
    ):
        require(not np.any(broken), f"{item} {int(np.argmax(broken))} {what}.")


def set_utilities(r: Any) -> None:
    """Set the speedups of kinds, the factors of jobs, and what present placements are worth."""
    jobs, gpus = r.kind.size, int(r.has[:, 0] @ r.nodes)
    r.gpus, limit = gpus, r.rules.max_nodes_per_job
    largest = np.sort(r.sizes)[::-1][:limit]
    r.room = int(largest[0]), int(largest.sum()) if largest.size > 1 else 0
    width = min(int(r.max_replicas.max()), gpus) + 1
    k = np.arange(width)
    fair = 1 if r.rules.fair_share == "one_gpu" else -(-gpus // jobs)
    models = r.kinds.T[:, :, None, None]
    table = verify_utilities.goodput(r, models, np.array([[0], [1]]), k)
    packed = r.rules.fair_share == "packed" and fair > r.sizes.max()
    base = verify_utilities.goodput(r, models, np.array([[int(packed)]]), np.array([fair]))
    base = base[:, 0, 0]
    base = np.where(base > 0, base, table[:, :, : fair + 1].max(axis=(1, 2)))
    new = np.broadcast_to(k / fair, (1, 2, width)).copy()
    new[:, 1, :2] = 0
    r.speed = np.concatenate([table / np.where(base > 0, base, 1)[:, None, None], new])
    scale = r.sizes.size / gpus if r.rules.speedup_scale == "node" else 1.0
    r.held, r.spread = held_by(r, *r.current[::2])
    r.factor = scale * restart_factors(r)
    r.least = r.rules.floor or verify_utilities.LEAST
    several = (r.spread > 1).astype(int)
    kept = scale * r.speed[r.kind, several, np.minimum(r.held, width - 1)] + r.rules.floor
    r.kept = np.where(r.held > 0, np.maximum(kept, r.least), r.idle)


def restart_factors(r: Any) -> Any:
    """Return max(age - delay * restarts, 0) / (age + delay) of every job."""
    delay, age = float(r.rules.restart_delay), r.age.astype(float)
    useful = age - delay * r.restarts
    for job in np.flatnonzero((r.restarts > 0) & (abs(useful) < SMALL * age)).tolist():
        useful[job] = float(Fraction(age[job]) - Fraction(delay) * int(r.restarts[job]))
    rho = np.maximum(useful, 0) / np.where(age + delay > 0, age + delay, 1)
    pays = (r.held > 0) & (age >= delay) | (r.rules.restart_penalty == "all")
    return np.where(pays & (age + delay > 0), rho, 1.0)


def anew(r: Any, part: slice) -> Any:
    """Return the utilities of some jobs on k GPUs placed anew, on one node and on several; -inf
    where there is no such choice.
    """
    rows = r.speed[r.kind[part]] * r.factor[part, None, None] + r.rules.floor
    rows = np.maximum(rows, r.least)
    k = np.arange(rows.shape[2])
    rows[:, 0, k > r.room[0]] = rows[:, 1, (k < 2) | (k > r.room[1])] = -np.inf
    rows[:, 0, 0] = r.idle
    return np.where((k > r.max_replicas[part, None])[:, None], -np.inf, rows)


def best_utilities(r: Any, part: slice) -> Any:
    """Return the best utility of some jobs on k GPUs; -inf where there is no such choice."""
    found = anew(r, part).max(axis=1)
    stays = np.flatnonzero(may_stay(r, part))
    held = r.held[part]
    found[stays, held[stays]] = np.maximum(found[stays, held[stays]], r.kept[part][stays])
    return found


def may_stay(r: Any, part: slice) -> Any:
    """Return which jobs may stay where they are."""
    limits = (r.held <= r.max_replicas) & (r.spread <= r.rules.max_nodes_per_job)
    return ((r.held > 0) & limits)[part]


def allocated(r: Any, job: Any, node: Any, gpus: Any) -> Any:
    """Return the utility of every job under an allocation."""
    held, nodes = held_by(r, job, gpus)
    found = r.factor * r.speed[r.kind, (nodes > 1).astype(int), held] + r.rules.floor
    found = np.where(held > 0, np.maximum(found, r.least), r.idle)
    return np.where(unchanged(r, job, node, gpus, nodes), r.kept, found)


def unchanged(r: Any, job: Any, node: Any, gpus: Any, nodes: Any) -> Any:
    """Return which jobs have the placement that they have now."""
    now, then = (x * r.sizes.size + y for x, y in ((job, node), r.current[:2]))
    _, mine, former = np.intersect1d(now, then, assume_unique=True, return_indices=True)
    same = mine[gpus[mine] == r.current[2][former]]
    equal = np.bincount(job[same], minlength=r.kind.size)
    return (equal == nodes) & (equal == r.spread)


def prove(r: Any, certificate: Any, claimed: float) -> float:
    """Return the bound that a certificate proves."""
    jobs, up = r.kind.size, 1 + verify.ERROR
    parts = [slice(i, i + CHUNK) for i in range(0, jobs, CHUNK)]
    reference, price = certificate["reference"], certificate.get("price")
    require(r.power < math.inf, "Certificate: at p = inf there is none in columns.")
    if r.power == -math.inf:
        require(reference is None and price is None, "Certificate: at p = -inf it has no price.")
        needed = 0.0
        for part in parts:
            above = best_utilities(r, part) * up > claimed
            fewest = np.where(above.any(axis=1), np.argmax(above, axis=1), np.inf)
            needed += float(fewest.sum())
        return claimed if needed > r.gpus else math.inf
    reference = verify_round.checked("Certificate: reference", reference, "float+")
    if "slots" in certificate:
        total = slot_total(r, read_slots(r, certificate["slots"]), reference)
        return float(verify.highest(total / jobs, r.power, reference))
    price = verify_round.checked("Certificate: price", price, "float")
    sums, sizes = [], []
    for part in parts:
        costs = cost_of(r, best_utilities(r, part), reference)
        paid = price * np.arange(costs.shape[1]) * (1 - 1e-15)
        paid = np.where(np.isfinite(costs), paid - 4e-16 * (abs(costs) + paid), 0)
        least = (costs + paid).min(axis=1)
        sums.append(math.fsum(least))
        sizes.append(math.fsum(abs(least)))
    yielded = price * r.gpus
    total = math.fsum(sums) - yielded
    total -= 1e-15 * (math.fsum(sizes) + yielded)
    return float(verify.highest(total / jobs, r.power, reference))


def cost_of(r: Any, utility: Any, reference: float) -> Any:
    """Return the costs of utilities, rounded down; infinite where there is no such choice."""
    may = np.isfinite(utility)
    up = np.where(may, utility * (1 + verify.ERROR), reference)
    return np.where(may, verify.cost(up, r.power, reference), np.inf)


def read_slots(r: Any, slots: Any) -> Any:
    """Return the worth of 0, 1, … GPUs of a node: the most that slots within them cost."""
    price = np.zeros(int(r.sizes.max()) + 1)
    for slot in slots if type(slots) is list else [slots]:
        pair = type(slot) is list and len(slot) == 2 and type(slot[0]) is int
        require(pair and 0 < slot[0] < price.size, f"Certificate: {slot!r} is no slot of a node.")
        price[slot[0]] = verify_round.checked("Certificate: price of a slot", slot[1], "float")
    worth = np.zeros(price.size)
    for gpus in range(1, worth.size):
        worth[gpus] = (worth[:gpus][::-1] + price[1 : gpus + 1]).max()
    return worth


def slot_total(r: Any, worth: Any, reference: float) -> float:
    """Return the bound on the total cost by the worth of slots, less what rounding may hide."""
    most, width = worth.size - 1, r.speed.shape[2]
    cheapest, split = np.zeros(width), np.zeros(width)
    for k in range(1, width):  # pieces of k GPUs: the first of them, and the others
        ways = [worth[one] + cheapest[k - one] for one in range(1, min(k, most) + 1)]
        cheapest[k], split[k] = min(ways), min(ways[: k - 1], default=0.0)
    paid = np.stack([np.pad(worth, (0, width))[:width], split])  # no choice is beyond `most`
    parts = [slice(i, i + CHUNK) for i in range(0, r.kind.size, CHUNK)]
    priced = [(cost_of(r, anew(r, part), reference) + paid).min(axis=(1, 2)) for part in parts]
    least, may, (job, node, gpus) = np.concatenate(priced), may_stay(r, slice(None)), r.current
    stays = cost_of(r, np.where(may, r.kept, np.inf), reference)
    far = stays + np.bincount(job, weights=worth[gpus], minlength=stays.size)
    least = np.where(r.spread > 1, np.minimum(least, far), least)
    near = np.flatnonzero((may & (r.spread == 1))[job])
    near = near[np.argsort(node[near], kind="stable")]
    turn = np.arange(near.size) - np.searchsorted(node[near], node[near])
    best = np.full((r.sizes.size, most + 1), -np.inf)  # by what those that stay hold of a node
    best[:, 0] = 0
    for at in (near[turn == now] for now in range(int(turn.max(initial=-1)) + 1)):
        gain = least[job[at]] - stays[job[at]]  # of one job of every node
        for held in range(most, 0, -1):
            fits = gpus[at] <= held
            line = node[at[fits]]
            with_it = best[line, held - gpus[at[fits]]] + gain[fits]
            best[line, held] = np.maximum(best[line, held], with_it)
    left = r.sizes[:, None] - np.arange(most + 1)
    yielded = np.where(left >= 0, best + worth[np.maximum(left, 0)], -np.inf).max(axis=1)
    size = sum(math.fsum(abs(terms)) for terms in (least, yielded, stays[may]))
    return math.fsum(least) - math.fsum(yielded) - 2e-14 * size


def read_round(path: Any) -> Any:
    """Return the table of a Parquet file, and the digest of the file."""
    parquet: Any = importlib.import_module("pyarrow.parquet")
    content = pathlib.Path(path).read_bytes()
    return parquet.read_table(io.BytesIO(content)), hashlib.sha256(content).hexdigest()


def read(round_path: Any, allocation_path: Any, certificate_path: Any) -> Any:
    """Return what `verify_columns` takes, of three files."""
    with open(allocation_path, encoding="utf-8", newline="") as stream:
        table = csv.DictReader(stream)
        rows = list(table) if {"job", "node", "gpus"} <= {*(table.fieldnames or ())} else [{}]
    return *read_round(round_path), rows, verify.read(certificate_path)


def main(arguments: list[str], check: Any = verify_columns, usage: Any = __doc__) -> int:
    """Verify three files, print the result and return the exit code."""
    flags = {word for word in arguments if word.startswith("--")}
    paths = [word for word in arguments if word not in flags]
    if len(paths) != 3 or flags - {"--json"}:
        print(usage, file=sys.stderr)
        return 2
    try:
        found = read(*paths)
    except (OSError, ValueError, RecursionError, csv.Error, ImportError) as error:
        print(f"A file cannot be read: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    verdict = check(*found)
    print(json.dumps(verdict.data) if "--json" in flags else verdict.text)
    return 0 if verdict.verified else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
