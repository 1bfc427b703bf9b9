"""Check a certificate of time shares, with only this file, Python and NumPy.

    python verify_time_shares.py PROBLEM SHARES CERTIFICATE [--exact]

The files are those of `data/FORMAT.md`; exit code 0: verified, 1: refused, 2: bad input. With X the
shares, T the rates, s, N and r GPUs of a line, GPUs of a type and promised rates, a bound is proved
by prices nu of rates, kappa of promises, pi of GPUs and mu of time, none below 0, with

    g_lw + sum_{j in l} (nu_j + kappa_j) T_lwj <= s_l pi_w + sum_{j in l} mu_j,              (1)

since then sum g X + (nu + kappa) tau <= V = sum mu + N pi, so that it is enough that

    gain:   V <= bound + kappa r,
    total:  V + bound <= kappa r + sum a + 2 sqrt(nu b),
    level:  V <= kappa r + sum nu (a + bound b)         over jobs with b > 0, of which some nu > 0,
    worst:  V <= kappa r + sum nu b / (bound - a)       likewise, or bound <= a of some job,
    infinite, as no shares keep the promises:  V < kappa r, without g and nu.                (2)

Shares may exceed limits by TOLERANCE and miss promises by PROMISE_TOLERANCE, relative; the bound is
for shares that do not. Rounding: both sides of (1) and (2) are sums of numbers of at least 0, and
within ERROR = 8 * 2^-53 of themselves, as a number takes at most four operations and `math.fsum`
rounds once; other sums of n numbers are within (n + 8) * 2^-53. Roots and quotients are made less
by ERROR. Under- and overflow are refused. With --exact only roots and quotients are rounded at all.
"""

import argparse
import hashlib
import json
import math
import sys
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

TOLERANCE, PROMISE_TOLERANCE, OPTIMAL_GAP, ERROR = 1e-9, 1e-6, 1e-5, 8 * 2.0**-53
PRICES = ("rates", "promises", "gpus", "time")
GOALS = {"gain": "worth", "level": "floor step", "total": "delay work", "worst": "delay work"}
KEYS = {
    "time-sharing": "names rate gpus replicas pairs pair_rate cluster_gpus goal promised",
    "time-shares": "names shares",
    "certificate": "kind digest bound prices",
}


class Verdict(NamedTuple):
    """Result of a check: the value of the shares and, if it is proved, the claimed bound."""

    verified: bool
    status: str
    value: float
    bound: float
    gap: float
    message: str


def verify(problem: Any, shares: Any, certificate: Any, exact: bool = False) -> Verdict:
    """Check a certificate, given the documents in the three files.

    Raises
    ------
    ValueError
        If a document is malformed.
    """
    case = Case(_document(problem, "time-sharing"), exact)
    answer, claim = _document(shares, "time-shares"), _document(certificate, "certificate")
    found, bound, prices = case.read(answer, claim)
    value, broken = math.nan, ""
    try:
        with np.errstate(all="raise"):
            if claim["digest"] != case.digest:
                broken = "the certificate is of another problem"
            elif found is not None:
                value, broken = _judged(case, found)
            elif bound != case.impossible:
                broken = "there are no shares"
            broken = broken or _unproved(case, bound, *prices)
    except ArithmeticError:
        broken = "a number is too large or too small"
    if broken:
        return Verdict(False, "refused", value, math.nan, math.nan, broken)
    if found is None:
        return Verdict(True, "infeasible", value, bound, math.nan, "no shares keep the promises")
    better, worse = (bound, value) if case.impossible < 0 else (value, bound)
    size = max(abs(better), abs(worse))
    gap = max(better - worse, 0.0) / size if size > 0 else 0.0
    status = "optimal" if gap <= OPTIMAL_GAP else "feasible"
    return Verdict(True, status, value, bound, gap, "the bound is proved")


class Case:
    """Arrays of a problem: lines of single jobs before those of pairs; index `jobs` is no job."""

    def __init__(self, even: Any, exact: bool) -> None:
        self.names, goal, lists = even["names"], even["goal"], ("names", "gpus", "pairs")
        jobs, types, pairs = (len(even[k]) if isinstance(even[k], list) else 0 for k in lists)
        if not (jobs and types):
            raise ValueError("names and gpus: expected lists of at least one.")
        self.shape = jobs + pairs, types
        gpus, cluster = (_array(even, key, (types,)) for key in ("gpus", "cluster_gpus"))
        replicas, paired = _array(even, "replicas", (jobs,)), _array(even, "pairs", (pairs, 2))
        both = np.minimum(paired, jobs - 1).astype(int)
        if (both != paired).any() or np.diff(replicas[both]).any() or not np.diff(both).all():
            raise ValueError("pairs: expected places of two jobs of as many GPUs each.")
        self.members = np.concatenate([np.arange(jobs)[:, None] * [1, 0] + [0, jobs], both])
        taken = replicas[self.members[:, 0]]
        together = _array(even, "pair_rate", (pairs, types, 2))
        rate = np.concatenate([np.zeros((jobs, types, 2)), together])
        rate[:jobs, :, 0] = _array(even, "rate", (jobs, types))
        rate[taken[:, None] > cluster] = 0.0
        self.kind = str(goal.get("kind")) if isinstance(goal, dict) else ""
        fields = GOALS.get(self.kind, "").split()
        if not fields or {*goal} != {"kind", *fields}:
            raise ValueError(f"goal: expected one of {', '.join(GOALS)} with its numbers.")
        wanted = self.shape if self.kind == "gain" else (jobs,)
        first, second = (_array(goal, field, wanted) for field in (fields[0], fields[-1]))
        none = {"promised": [0.0] * jobs}
        promised = _array(none if even["promised"] is None else even, "promised", (jobs,))
        self.number: Any = np.frompyfunc(Fraction, 1, 1) if exact else np.asarray
        self.error: Any = Fraction(0) if exact else ERROR
        self.sum: Any = np.sum if exact else math.fsum
        arrays = map(self.number, (rate, taken, gpus, first, second, promised))
        self.rate, self.taken, self.gpus, self.first, self.second, self.promised = arrays
        self.impossible = -math.inf if self.kind in ("gain", "level") else math.inf
        text = json.dumps(even, sort_keys=True, separators=(",", ":"))
        self.digest = hashlib.sha256(text.encode()).hexdigest()

    def read(self, answer: Any, claim: Any) -> tuple[Any, float, list[Any]]:
        """Return shares, bound and prices."""
        found, prices, bound = answer["shares"], claim["prices"], claim["bound"]
        if answer["names"] != self.names:
            raise ValueError("shares: expected the names of the problem.")
        if found is not None:
            found = self.number(_array(answer, "shares", self.shape))
        if claim["kind"] != "time shares" or not isinstance(prices, dict) or {*prices} != {*PRICES}:
            raise ValueError(f"certificate: expected prices {', '.join(PRICES)} of time shares.")
        bound = float(bound) if bound == str(self.impossible) else bound
        if type(bound) is not float or not (math.isfinite(bound) or bound == self.impossible):
            raise ValueError(f"bound: expected a number or '{self.impossible}'.")
        sizes = {key: self.shape[1:] if key == "gpus" else self.promised.shape for key in PRICES}
        return found, bound, [self.number(_array(prices, *item)) for item in sizes.items()]


def _document(document: Any, form: str) -> Any:
    """Return a document of a format, with all its numbers as floats."""
    head = {"format": f"goodalloc-{form}", "version": 1.0}
    even = json.loads(json.dumps(document), parse_int=float)
    if not isinstance(even, dict) or {*even} != {*head, *KEYS[form].split()} or even | head != even:
        raise ValueError(f"a goodalloc-{form}, version 1: expected this and the keys {KEYS[form]}.")
    return even


def _array(table: Any, key: str, shape: tuple[int, ...]) -> Any:
    """Return an array of numbers of at least 0."""
    array = np.array(table[key])
    array = array.reshape(shape) if table[key] == [] and 0 in shape else array
    if array.dtype != float or array.shape != shape or not ((array >= 0) & (array < np.inf)).all():
        raise ValueError(f"{key}: expected finite numbers of at least 0, shape {shape}.")
    return array


def _judged(case: Case, shares: Any) -> tuple[float, str]:
    """Return the value of shares, rounded for the worse, and the rule that they break."""
    places = np.broadcast_to(case.members[:, None, :], case.rate.shape)
    kinds = np.broadcast_to(np.arange(case.shape[1]), case.shape)
    time = _sums(case, 1, places, np.broadcast_to(shares[..., None], case.rate.shape))[:-1]
    used = _sums(case, 1, kinds, case.taken[:, None] * shares)
    tau = _sums(case, -1, places, case.rate * shares[..., None])[:-1]
    more, less = case.number(1 + TOLERANCE), case.number(1 - PROMISE_TOLERANCE)
    for broken, rule in (
        (time > more, "a job has more than all its time"),
        (used > case.gpus * more, "more GPUs are taken than there are"),
        (tau < case.promised * less, "a promised rate is missed"),
    ):
        if broken.any():
            return math.nan, rule
    if case.kind == "gain":
        return float(case.sum((case.first * shares).ravel()) * (1 - case.error)), ""
    counts = case.second > 0
    first, second, tau = case.first[counts], case.second[counts], tau[counts]
    if case.kind == "level":
        level = ((tau - first) / second).min()
        return float(level - abs(level) * case.error), ""
    delays = np.append(case.first[~counts], first + second / tau)
    value = delays.max() if case.kind == "worst" else case.sum(delays)
    return float(value * (1 + case.error)), ""


def _unproved(case: Case, bound: float, rates: Any, promises: Any, gpus: Any, time: Any) -> str:
    """Return the reason why prices do not prove a bound; empty if they do."""
    finite = bound != case.impossible
    rates = rates * int(finite)
    worth = (case.rate * np.append(rates + promises, 0)[case.members][:, None, :]).sum(axis=2)
    if case.kind == "gain" and finite:
        worth = worth + case.first
    paid = case.taken[:, None] * gpus + np.append(time, 0)[case.members].sum(1, keepdims=True)
    if not (worth * (1 + case.error) <= paid * (1 - case.error)).all():
        return "the prices break (1)"
    terms = [time, case.gpus * gpus, -promises * case.promised]
    terms += _of_goal(case, case.number(bound), rates) if finite else []
    found = np.concatenate([np.ravel(part) for part in terms])
    left = case.sum(found[found > 0]) * (1 + case.error)
    right = case.sum(-found[found < 0]) * (1 - case.error)
    return "" if left < right or (finite and left == right) else "the prices break (2)"


def _of_goal(case: Case, claim: Any, rates: Any) -> list[Any]:
    """Return the terms of (2) for a goal, on the left; infinite if (2) always or never holds."""
    if case.kind == "gain":
        return [-claim]
    spent = rates * case.second
    if case.kind == "total":
        return [claim, -case.first, -2 * case.number(np.sqrt(spent.astype(float) * (1 - ERROR)))]
    if case.kind == "worst" and (claim <= case.first).any():
        return [-math.inf]
    if not spent.any():
        return [math.inf]
    if case.kind == "level":
        return [-(rates * case.first)[case.second > 0], -claim * spent]
    return [-case.number((spent / (claim - case.first)).astype(float) * (1 - ERROR))]


def _sums(case: Case, side: int, places: Any, values: Any) -> Any:
    """Return sums of numbers >= 0 by place, rounded upwards (side 1) or downwards (-1)."""
    found = np.full(places.max() + 1, values.flat[0] * 0)
    np.add.at(found, places, values)
    terms = int(np.bincount(places.ravel()).max()) + 8
    return found * (1 + side * terms * case.error / 8)


def main() -> int:
    """Check three files and return the exit code."""
    parser = argparse.ArgumentParser(description="Check a certificate of time shares.")
    for name in ("problem", "shares", "certificate"):
        parser.add_argument(name)
    parser.add_argument("--exact", action="store_true", help="in rational numbers")
    *names, exact = vars(parser.parse_args()).values()
    try:
        problem, shares, claim = (json.loads(Path(name).read_text("utf-8")) for name in names)
        verdict = verify(problem, shares, claim, exact)
    except (OSError, ValueError, RecursionError) as error:
        sys.stderr.write(f"error: {error}\n")
        return 2
    sys.stdout.write("".join(f"{key}: {value}\n" for key, value in verdict._asdict().items()))
    return 0 if verdict.verified else 1


if __name__ == "__main__":
    sys.exit(main())
