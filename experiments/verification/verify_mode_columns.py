"""Check a certificate of a round of modes in columns: an upper bound on the fitness.

    python verify_mode_columns.py ROUND.parquet ALLOCATION.csv CERTIFICATE.json [--json]

This file needs what `verify_columns.py` needs, and that file beside it. Jobs pay for GPUs and
resources, and for the pieces of nodes that they are on, as in (1) of `formulations/CERTIFICATE.md`,
where nodes are alike within a group. A job that can stay on its one node does so at the price at
which it is indifferent; a distributed one that stays pays for its pieces as they are. Prices,
tables and sums are whole numbers, as in `verify_prices.py`. `data/FORMAT.md` describes the files.
Exit code 0: verified; 1: not; 2: a file cannot be read.
"""

import importlib
import math
import sys
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
columns_checker: Any = importlib.import_module(f"{PACKAGE}verify_columns")
verify: Any = importlib.import_module(f"{PACKAGE}verify")
verify_prices: Any = importlib.import_module(f"{PACKAGE}verify_prices")
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
verify_utilities: Any = importlib.import_module(f"{PACKAGE}verify_utilities")
require = verify_round.require

#: Choices that are looked at together.
CHUNK = 4_000_000

#: Keys of a certificate that those of rounds without modes lack.
OWN_KEYS = ["units", "grid", "prices"]


def verify_mode_columns(table: Any, digest: str, rows: Any, certificate: Any) -> Any:
    """Check that no allocation of a round has a fitness above the bound of a certificate.

    Parameters
    ----------
    table
        Table that pyarrow read from the file of the round.
    digest
        SHA-256 of that file.
    rows
        Rows of the allocation, with `job`, `node`, `gpus` and `mode`.
    certificate
        Content of its file.
    """
    return columns_checker.guarded(lambda: judge(read_modes(table), digest, rows, certificate))


def judge(r: Any, digest: str, rows: Any, certificate: Any) -> Any:
    """Check as `verify_mode_columns`, but raise an error if a file is malformed."""
    claimed = columns_checker.claimed_bound(certificate, digest, "mode-columns", OWN_KEYS)
    set_utilities(r)
    job, node, gpus = columns_checker.read_allocation(r, rows)
    mode = modes_of_jobs(r, rows)

    def value() -> float:
        check_allocation(r, job, node, gpus, mode)
        return float(verify.power_mean(allocated(r, job, node, gpus, mode), r.power))

    return columns_checker.verdict(value, prove(r, certificate), claimed)


def read_modes(table: Any) -> Any:
    """Return the round of a table, with the present mode of every job, 0 where it does not run."""
    r = columns_checker.read_columns(table)
    names = r.jobs[0].modes
    require(names[0], "Round: its jobs have no modes; expected verify_columns.py.")
    require((r.demand[:, 0] == 1).all(), "Round: a mode takes part of a GPU.")
    index = {name: place for place, name in enumerate(names)} | {None: 0}
    present = table["mode"].to_pylist()
    verify_round.known("Round: mode", present, index)
    r.mode = np.array([index[name] for name in present])
    r.example = SimpleNamespace(**vars(r))  # the round of the metadata: a job with these modes
    r.example.kind, r.example.jobs[0].max_replicas = r.replica, int(r.max_replicas.max())
    verify_utilities.choices(r.example)
    r.may = r.example.may
    return r


def modes_of_jobs(r: Any, rows: Any) -> Any:
    """Return the mode of every job under an allocation, 0 of jobs that hold nothing."""
    require(not rows or "mode" in rows[0], "Allocation: expected a column mode.")
    index = {name: place for place, name in enumerate(r.jobs[0].modes)}
    verify_round.known("Allocation: mode", [row["mode"] for row in rows], index)
    found = np.full(r.kind.size, -1)
    for row in rows:
        job, mode = int(row["job"]), index[row["mode"]]
        require(found[job] in (-1, mode), f"Allocation: job {job} has two modes.")
        found[job] = mode
    return np.maximum(found, 0)


def set_utilities(r: Any) -> None:
    """Set the speedups of kinds in modes, the factors of jobs, and what staying is worth."""
    jobs, gpus = r.kind.size, int(r.has[:, 0] @ r.nodes)
    modes, width = len(r.rows), r.may.shape[2]
    k = np.arange(width)
    fair = 1 if r.rules.fair_share == "one_gpu" else -(-gpus // jobs)
    models = r.kinds.reshape(-1, len(columns_checker.NUMBERS)).T[:, :, None, None]
    table = verify_utilities.goodput(r, models, np.array([[0], [1]]), k)
    packed = r.rules.fair_share == "packed" and fair > r.sizes.max()
    base = verify_utilities.goodput(r, models, np.array([[int(packed)]]), np.array([fair]))
    base = base[:, 0, 0]
    base = np.where(base > 0, base, table[:, :, : fair + 1].max(axis=(1, 2)))
    base = base.reshape(-1, modes).max(axis=1)
    table = table.reshape(-1, modes, 2, width)
    new = np.broadcast_to(k / fair, (1, modes, 2, width)).copy()
    new[:, :, 1, :2] = 0
    r.speed = np.concatenate([table / np.where(base > 0, base, 1)[:, None, None, None], new])
    scale = r.sizes.size / gpus if r.rules.speedup_scale == "node" else 1.0
    r.held, r.spread = columns_checker.held_by(r, *r.current[::2])
    r.factor = scale * columns_checker.restart_factors(r)
    r.least = r.rules.floor or verify_utilities.LEAST
    several = (r.spread > 1).astype(int)
    kept = scale * r.speed[r.kind, r.mode, several, np.minimum(r.held, width - 1)] + r.rules.floor
    r.kept = np.where(r.held > 0, np.maximum(kept, r.least), r.idle)


def best_utilities(r: Any, part: slice) -> Any:
    """Return the utilities of some jobs placed anew; -inf where there is no such choice."""
    found = r.speed[r.kind[part]] * r.factor[part, None, None, None] + r.rules.floor
    found = np.maximum(found, r.least)
    found[:, 0, 0, 0] = r.idle
    k = np.arange(found.shape[3])
    within = k <= r.max_replicas[part, None, None, None]
    return np.where(r.may & within, found, -np.inf)


def stays(r: Any) -> Any:
    """Return which jobs may stay where they are."""
    may = (r.held > 0) & (r.held <= r.max_replicas)
    return may & (r.spread <= r.rules.max_nodes_per_job)


def check_allocation(r: Any, job: Any, node: Any, gpus: Any, mode: Any) -> None:
    """Refuse an allocation that breaks a rule."""
    columns_checker.check_allocation(r, job, node, gpus)
    replica, group = r.replica[mode[job]], r.group_of[node]
    serves = np.array([[kind in ("", one.gpu_type) for one in r.groups] for kind in r.types])
    wrong = ~serves[replica, group]
    require(not wrong.any(), f"Job {job[np.argmax(wrong)]} is on GPUs of another type.")
    for x, name in enumerate(r.names, start=1):
        used = np.bincount(node, weights=gpus * r.demand[replica, x], minlength=r.sizes.size)
        over = used > r.has[r.group_of, x] * verify_round.GRANTED
        require(not over.any(), f"Node {int(np.argmax(over))} gives more {name} than it has.")


def allocated(r: Any, job: Any, node: Any, gpus: Any, mode: Any) -> Any:
    """Return the utility of every job under an allocation."""
    held, nodes = columns_checker.held_by(r, job, gpus)
    found = r.factor * r.speed[r.kind, mode, (nodes > 1).astype(int), held] + r.rules.floor
    found = np.where(held > 0, np.maximum(found, r.least), r.idle)
    same = columns_checker.unchanged(r, job, node, gpus, nodes) & (mode == r.mode)
    return np.where(same, r.kept, found)


def prove(r: Any, certificate: Any) -> float:
    """Return the bound that a certificate proves."""
    require(math.isfinite(r.power), "Certificate: there is none in columns of modes at p = ±inf.")
    reference = verify_round.checked("Certificate: reference", certificate["reference"], "float+")
    verify_prices.read_units(r.example, certificate["units"], certificate["grid"])
    p = verify_prices.read_prices(r.example, certificate["prices"])
    require(not p.counts, "Prices: there are no counts of rounds in columns.")
    jobs, (_, _, width) = r.kind.size, r.may.shape
    size = max(CHUNK // r.may.size, 1)
    parts = [slice(i, i + size) for i in range(0, jobs, size)]
    up, may_stay = 1 + verify.ERROR, stays(r)
    kept = np.where(may_stay, r.kept, r.idle)
    best = np.concatenate([best_utilities(r, part).max(axis=(1, 2, 3)) for part in parts])
    own = verify.cost(np.maximum(best, kept) * up, r.power, reference)
    q = verify_prices.whole_numbers(r.example, p, float(abs(own).max()), width, exact=False)
    pays, (linear, stay) = verify_prices.payments(r.example, q, width), staying(r, q)
    keeping = whole(q, verify.cost(kept * up, r.power, reference))
    apart, least = may_stay & (r.spread > 1), np.empty(jobs, dtype=q.dtype)
    for part in parts:
        utility = best_utilities(r, part)
        may = np.isfinite(utility)
        cost = whole(q, verify.cost(np.where(may, utility * up, reference), r.power, reference))
        found = np.where(may, cost + pays, q.big).min(axis=(1, 2, 3))
        total = keeping[part] + stay[part]
        least[part] = np.where(apart[part], np.minimum(found, total), found)
    gain = np.where(may_stay & ~apart, least - keeping - linear, 0)
    given = verify_prices.gifts(r.example, q, np.zeros(1, dtype=bool)) + from_stays(r, q, gain)
    total = Fraction(sum(least.tolist()) - given) / q.scale
    return float(verify.highest(total / jobs, r.power, reference))


def from_stays(r: Any, q: Any, gain: Any) -> int:
    """Return what nodes are worth more if jobs may stay there, at the given gains of these."""
    job, node, gpus = r.current
    here = np.flatnonzero(gain[job] > 0)
    here = here[np.argsort(node[here], kind="stable")]
    units = r.example.grid.taken(r.replica[r.mode[job[here]]], gpus[here])
    ends = np.flatnonzero(np.append(node[here][1:] != node[here][:-1], True)) + 1
    more, start = 0, 0
    for end in ends.tolist() if here.size else []:
        g = int(r.group_of[node[here[start]]])
        room = tuple(r.example.grid.room[g].tolist())
        one = zip(gain[job[here[start:end]]].tolist(), units[start:end].tolist(), strict=True)
        stays = [(worth, taken, False) for worth, taken in one]
        more += verify_prices.node_value(q.tables[g], room, True, stays)
        more -= verify_prices.node_value(q.tables[g], room, True, [])
        start = end
    return more


def whole(q: Any, costs: Any) -> Any:
    """Return costs as whole numbers, rounded down."""
    return np.floor(np.ldexp(np.clip(costs, -q.size, q.size), q.exponent)).astype(q.dtype)


def staying(r: Any, q: Any) -> Any:
    """Return what every job pays that keeps its placement: for GPUs and resources, and in all."""
    job, node, gpus = r.current
    replica, group, several = r.replica[r.mode[job]], r.group_of[node], r.spread[job] > 1
    linear, paid = np.zeros((2, r.kind.size), dtype=q.dtype)
    for g in range(len(r.groups)):
        for apart in (False, True):
            here = np.flatnonzero((group == g) & (several == apart))
            units = r.example.grid.taken(replica[here], gpus[here])
            pay = r.example.fine.taken(replica[here], gpus[here]) @ q.prices[g]
            np.add.at(linear, job[here], pay)
            np.add.at(paid, job[here], pay + verify_prices.at(q.tables[g][int(apart)], units))
    return linear, paid


def main(arguments: list[str]) -> int:
    """Verify three files, print the result and return the exit code."""
    return int(columns_checker.main(arguments, verify_mode_columns, __doc__))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
