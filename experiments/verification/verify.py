"""Check a certificate of a round: an upper bound on the fitness of any allocation.

    python verify.py INSTANCE ALLOCATION CERTIFICATE [--exact] [--json]

It needs NumPy and the files that it imports beside it, and no solver. INSTANCE has all models and
rules resolved, as `goodalloc verify --resolved FILE` writes it. `formulations/CERTIFICATE.md` has
the proof, `data/FORMAT.md` the files. Exit code 0: verified; 1: not; 2: a file cannot be read.
"""

import hashlib
import importlib
import json
import math
import pathlib
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify_counts: Any = importlib.import_module(f"{PACKAGE}verify_counts")
verify_prices: Any = importlib.import_module(f"{PACKAGE}verify_prices")
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
verify_tree: Any = importlib.import_module(f"{PACKAGE}verify_tree")
verify_utilities: Any = importlib.import_module(f"{PACKAGE}verify_utilities")
checked, fields = verify_round.checked, verify_round.fields
numbers, require = verify_round.numbers, verify_round.require

#: Relative error of a utility and of a power mean: some hundred roundings of 1.1e-16 each.
ERROR = 1e-13

#: Kinds of choice: 1 if on several nodes (or kept), and 1 if newly placed.
KINDS = {"idle": (0, 0), "keep": (1, 0), "one_node": (0, 1), "several_nodes": (1, 1)}


@dataclass(frozen=True)
class Verdict:
    """Result of a check: `bound` is proved here, `claimed` is that of the certificate."""

    verified: bool
    reasons: tuple[str, ...]
    feasible: bool = False
    fitness: float = math.nan
    fitness_error: float = math.nan
    bound: float = math.inf
    claimed: float = math.nan
    gap: float = math.nan

    @property
    def data(self) -> dict[str, Any]:
        """Fields in terms of JSON: null where a number is unknown or infinite."""
        known = {k: v for k, v in vars(self).items() if type(v) is not float or math.isfinite(v)}
        return dict.fromkeys(vars(self)) | known

    @property
    def text(self) -> str:
        """Text for a terminal."""
        if math.isnan(self.claimed):  # a file is malformed: nothing was computed
            return "\n".join([f"{'verified':<14} False", *self.reasons])
        lines = [f"{name:<14} {value}" for name, value in vars(self).items() if name != "reasons"]
        if self.verified:
            lines.append(f"No allocation is worth more than {self.claimed!r}; this one is at most")
            lines.append(f"{100 * max(self.gap, 0.0):.3g} % below the greatest possible fitness.")
        return "\n".join([*lines, *self.reasons])


def verify(instance: Any, allocation: Any, certificate: Any, *, exact: bool = False) -> Verdict:
    """Check that no allocation of an instance has a fitness above the bound of a certificate.

    Parameters
    ----------
    instance, allocation, certificate
        Contents of their files.
    exact
        Whether prices and costs are added as rational numbers. Otherwise they are first rounded
        to multiples of a power of 2, costs downwards; sums are exact in both cases.
    """
    try:
        with np.errstate(all="ignore"):
            return judge(instance, allocation, certificate, exact)
    except Exception as error:  # any malformed file gives a sentence, never a traceback
        return Verdict(False, (" ".join(f"{error}".split()) or f"{type(error).__name__}.",))


def judge(instance: Any, allocation: Any, certificate: Any, exact: bool) -> Verdict:
    """Check as `verify`, but raise an error if a file is malformed."""
    r, c = verify_round.read_round(instance), fields("Certificate", certificate, "certificate")
    text = json.dumps(instance, sort_keys=True, separators=(",", ":"))
    digest = hashlib.sha256(text.encode()).hexdigest()
    require(c.digest == digest, "Certificate: its digest is not that of the instance.")
    require(c.instance == r.name, f"Certificate: instance is {c.instance[:40]!r}.")
    r.tree = verify_tree.read_tree(r)
    verify_utilities.choices(r)
    verify_tree.restrict(r)
    r.utility = verify_utilities.utilities(r)
    rows, modes = verify_round.read_allocation(r, allocation)
    reasons, value = [], 0.0
    try:
        modes = verify_tree.check(r, rows) or modes
        verify_round.check_allocation(r, rows, modes)
        value = power_mean(allocated(r, rows, modes), r.power)
    except ValueError as error:
        reasons.append(str(error))
    bound = max(prove(r, c, value * (1 - 3 * ERROR), exact), value * (1 + 3 * ERROR))
    if not bound <= c.bound:
        reasons.append(f"A bound of {bound!r} is proved; {c.bound!r} is claimed.")
    reasons += misstated(allocation, value) if value else []
    known = value or math.nan
    found = (value > 0, known, 3 * ERROR * known, bound, c.bound, 1 - known / bound)
    return Verdict(not reasons, tuple(reasons), *found)


def misstated(document: Any, value: float) -> list[str]:
    """Return the wrong statements of a result file: its fitness, or a bound below it."""
    said = [document.get(key) for key in ("fitness", "bound")]
    worth, bound = (x if type(x) in (int, float) else None for x in said)
    reasons = []
    if worth is not None and not abs(worth - value) <= 1e-9 * value:
        reasons.append(f"Result: fitness is {worth!r}; the allocation is worth {value!r}.")
    if bound is not None and not bound >= value * (1 - 1e-9):
        reasons.append(f"Result: bound is {bound!r}; the allocation is worth {value!r}.")
    return reasons


def allocated(r: Any, rows: list[dict[int, int]], modes: list[int]) -> Any:
    """Return the utility of every job under an allocation."""
    found = []
    for job, first, row, mode in zip(r.jobs, r.first, rows, modes, strict=True):
        place = (first + mode, int(len(row) > 1), sum(row.values()))
        kept = (row, first + mode) == (job.place, job.at) and row
        found.append(r.utility[(job.at, 1, 0) if kept else place])
    return np.array(found)


def power_mean(values: Any, p: float) -> float:
    """Return (mean of u^p)^(1 / p), with the largest term taken out of the root."""
    extreme = float(values.max() if p > 0 else values.min())
    if math.isinf(p):
        return extreme
    logs = np.log(values / extreme)
    if p == 0:
        return extreme * math.exp(math.fsum(logs) / logs.size)
    return extreme * math.exp(math.log1p(math.fsum(np.expm1(p * logs)) / logs.size) / p)


def prove(r: Any, c: Any, value: float, exact: bool) -> float:
    """Return the bound that a certificate proves, given the value of an allocation."""
    n, p, u, may = len(r.jobs), r.power, r.utility * (1 + ERROR), r.may
    if -math.inf < p < 0:  # with a lower utility, the job alone would make the mean lower
        may = may & (u >= value * math.exp(math.log(n) / p) * (1 - 1e-12))
    verify_prices.read_units(r, c.units, c.grid)
    require(not (c.counts and math.isinf(p)), "Certificate: counts are for finite powers.")
    counts = verify_counts.read_counts(r, c.counts, u, may, exact)
    bound, stack = 0.0, [(c.tree, may)]
    while stack:
        node, may = stack.pop()
        if "prices" in node:
            leaf = fields("Leaf", node, "leaf")
            infinite = math.isinf(p)
            require((leaf.reference is None) == infinite, "Leaf: reference and power disagree.")
            here = np.where(may, u, leaf.reference or 1.0)
            costs = np.where(u <= c.bound, 1.0, 0.0) if infinite else cost(here, p, leaf.reference)
            prices = verify_prices.read_prices(r, leaf.prices)
            least = verify_counts.leaf_cost(r, counts, prices, costs, may, exact)
            met = c.bound if least > (0 if p < 0 else n - 1) else math.inf
            bound = max(bound, met if infinite else highest(least / n, p, leaf.reference))
        else:
            split = fields("Split", node, "split")
            chosen, own = split_choices(r, split)
            stack += [(split.inside, may & (chosen | ~own)), (split.outside, may & ~chosen)]
    return bound


def cost(u: Any, p: float, reference: float) -> Any:
    """Return lower bounds on the costs of utilities, (1 - (u / r)^p) / p."""
    logs = np.log(u / reference)
    logs += 1e-15 + 4e-15 * abs(logs)
    found = np.minimum(-np.expm1(p * logs) / p if p else -logs, 1e200)
    require(found.min() > -1e200, "Certificate: reference is too small.")
    return found - 4e-15 * abs(found)


def highest(mean: Any, p: float, reference: float) -> float:
    """Return an upper bound on the power mean of utilities with a mean cost of at least `mean`."""
    if mean == math.inf:
        return 0.0
    mean = float(mean) - 4e-16 * abs(float(mean))
    x = -p * mean + math.copysign(4e-16 * p * mean, p)
    if p and x <= -1:
        return math.inf if p < 0 else 0.0
    exponent = math.log1p(x) / p if p else -mean
    exponent += 4e-15 + 4e-15 * abs(exponent)
    return reference * math.exp(exponent) if exponent < 600 else math.inf


def split_choices(r: Any, split: Any) -> Any:
    """Return the choices that a split lists, and all choices of its job."""
    require(split.job < len(r.jobs), f"Split: job {split.job} does not exist.")
    job, chosen = r.jobs[split.job], np.zeros_like(r.may)
    own = (r.may | r.within) & (r.job == split.job)[:, None, None]
    for entry in split.choices:
        require(len(checked("Split: choice", entry, "list")) == 3, f"Split: choice is {entry}.")
        mode, kind, k = entry
        numbers("Split: mode and replicas", [mode, k], "int")
        several, anew = KINDS[checked("Split: kind", kind, "|".join(KINDS))]
        place = r.first[split.job] + mode, several, k * anew
        right = k > 0 if anew else k == several * sum(job.place.values())
        right = right and place[0] < len(own) and place[2] < own.shape[2] and own[place]
        require(right, f"Split: job {job.name!r} has no choice {entry}.")
        chosen[place] = True
    return chosen, own


def read(path: str) -> Any:
    """Return the JSON in a file; refuse duplicate keys, and numbers that JSON does not have."""

    def unique(pairs: Any) -> Any:
        require(len(dict(pairs)) == len(pairs), "a key is given twice.")
        return dict(pairs)

    def refuse(text: str) -> None:
        raise ValueError(f"{text} is no number of JSON.")

    require(pathlib.Path(path).is_file() or not pathlib.Path(path).exists(), "it is no file.")
    with open(path, encoding="utf-8") as stream:
        return json.load(stream, object_pairs_hook=unique, parse_constant=refuse)


def main(arguments: list[str]) -> int:
    """Verify three files, print the result and return the exit code."""
    flags = {word for word in arguments if word.startswith("--")}
    paths = [word for word in arguments if word not in flags]
    if len(paths) != 3 or flags - {"--exact", "--json"}:
        print(__doc__, file=sys.stderr)
        return 2
    documents = []
    for path in paths:
        try:
            documents.append(read(path))
        except (OSError, ValueError, RecursionError) as error:
            print(f"File '{path}' cannot be read: {error}", file=sys.stderr)
            return 2
    verdict = verify(*documents, exact="--exact" in flags)
    print(json.dumps(verdict.data) if "--json" in flags else verdict.text)
    return 0 if verdict.verified else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
