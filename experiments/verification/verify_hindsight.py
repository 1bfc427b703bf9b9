"""Check a bound on all schedules of an offline problem, with only this file, Python and NumPy.

    python verify_hindsight.py PROBLEM SCHEDULE CERTIFICATE

The files are those of `data/FORMAT.md`; exit code 0: verified, 1: refused, 2: bad input. With W, g
and k work, rates and numbers of GPUs of a training, r, b and w release, begin and weight of a job,
lambda prices, G the GPUs that are there, and mu multipliers of a training, none below 0, no
schedule has a weighted sum of completion times below

    sum_j min { w (T - r), min_t max_mu min { v(start of t), v(end of t) } } - sum lambda G,  (1)

    v(C) = w (C - r) + mu W - (integral of h from b to C),
    h = max { 0, mu_q g_aq(k) - lambda_a k } over types a, phases q and numbers k,            (2)

with T the last edge (`formulations/HINDSIGHT.md` proves it). If the jobs are due, by d, the jobs
that end later have no weight in all below

    sum_j min { w, max_mu max { 0, v(d) with w = 0 } } - sum lambda G,                        (3)

where a job that is due behind the last edge counts 0. The multipliers need not be the best: any
prove (1) and (3), so that nothing of the search is trusted. A schedule, if there is one, is
checked, too: whether every job is done, phase after phase, on GPUs that are there, to TOLERANCE of
the time that a phase takes and of the GPUs, and not below the bound by more than BELOW.

Rounding: every term of (1) to (3) is a sum of at most n products of numbers of at least 0, which
is within (n + 4) * 2^-53 of itself; what is subtracted is made larger by that, and what is added
less. No product of three numbers underflows, as all are 0 or at least LEAST; smaller prices and
multipliers count as 0.
"""

import argparse
import hashlib
import json
import math
import sys
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

UNIT, TOLERANCE, BELOW, LEAST = 2.0**-53, 1e-9, 1e-6, 1e-100
KEYS = {
    "offline-problem": "trainings jobs types times gpus",
    "offline-schedule": "segments",
    "hindsight-bound": "digest bound edges prices multipliers",
    "late-bound": "digest bound due edges prices multipliers",
}


class Verdict(NamedTuple):
    """Result of a check: value of the schedule, bound that is proved here, and claimed bound."""

    verified: bool
    value: float
    proved: float
    claimed: float
    gap: float
    message: str


def verify(problem: Any, schedule: Any, certificate: Any) -> Verdict:
    """Check a certificate, given the documents in the three files.

    Raises
    ------
    ValueError
        If a document is malformed.
    """
    late = isinstance(certificate, dict) and "due" in certificate
    form = "late-bound" if late else "hindsight-bound"
    case, claim = _document(problem, "offline-problem"), _document(certificate, form)
    answer = _document(schedule, "offline-schedule")["segments"]
    claimed, value, proved = claim["bound"], math.nan, math.nan
    if type(claimed) is not float or not math.isfinite(claimed):
        raise ValueError("bound: expected a finite number.")
    broken = ""
    if claim["digest"] != digest(problem):
        broken = "the certificate is of another problem"
    try:
        with np.errstate(over="raise", invalid="raise"):
            proved = math.nan if broken else _proved(case, claim)
            if not broken and answer is not None:
                value, broken = _judged(case, answer, _due(case, claim))
    except ArithmeticError:
        broken = "a number is too large"
    if not broken and not claimed <= proved:  # also if nothing is proved
        broken = "the prices prove a smaller bound"
    if not broken and value < claimed - BELOW * abs(claimed):
        broken = "the schedule is below the bound: it is none of this problem"
    gap = 1 - claimed / value if value > 0 else math.nan
    return Verdict(not broken, value, proved, claimed, gap, broken or "the bound is proved")


def digest(problem: Any) -> str:
    """Return the digest of a problem by which its certificates name it."""
    even = json.loads(json.dumps(problem), parse_int=float)
    text = json.dumps(even, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def _due(case: Any, claim: Any) -> dict[str, float]:
    """Return when every job is due; nothing if completion times are to be short."""
    if "due" not in claim:
        return {}
    due, jobs = claim["due"], _named(case, "jobs")
    if not isinstance(due, dict) or {*due} != {*jobs}:
        raise ValueError("due: expected seconds for every job, by its name.")
    return {name: _number(due, name) for name in jobs}


def _judged(case: Any, answer: Any, due: dict[str, float]) -> tuple[float, str]:
    """Return the objective of a schedule, and the rule that it breaks."""
    jobs = _named(case, "jobs")
    if not isinstance(answer, dict) or {*answer} != {*jobs}:
        raise ValueError("segments: expected those of every job, by its name.")
    trainings = _named(case, "trainings")
    held: list[list[tuple[float, float, float]]] = [[] for _ in _listed(case, "types")]
    values = []
    for name, job in jobs.items():
        training = trainings[job["training"]]
        own = _array("segments", answer[name], (-1, 4)) if answer[name] else np.zeros((0, 4))
        end, last = math.inf, _number(job, "begin")
        work, phase = [*training["work"]], 0
        for start, stop, row, gpus in own.tolist():
            known = row < len(held) and row == int(row) and gpus in training["gpus"]
            if not known or not last <= start < stop:
                return math.nan, f"a segment of '{name}' is impossible"
            last, now = stop, start
            held[int(row)].append((start, stop, gpus))
            column = training["gpus"].index(gpus)
            while now < stop and math.isinf(end):
                rate = training["rates"][int(row)][phase][column]
                needed = work[phase] / rate if rate > 0 else math.inf
                if needed > (stop - now) * (1 + TOLERANCE) + 64 * UNIT * stop:
                    work[phase] -= rate * (stop - now)
                    break
                now, phase = now + needed, phase + 1
                end = now if phase == len(work) else math.inf
        if math.isinf(end):
            return math.nan, f"'{name}' is never complete"
        late = not due or end > due[name] * (1 + TOLERANCE)
        values.append(job["weight"] * (late if due else end - job["release"]))
    times, there = np.array(case["times"]), np.array(case["gpus"])
    for row, segments in enumerate(held):
        starts, stops, gpus = np.array(segments or [(0.0, 0.0, 0.0)]).T
        moments = np.unique(np.concatenate([times, starts]))
        used = _up_to(moments, starts, gpus) - _up_to(moments, stops, gpus)
        supply = there[np.searchsorted(times, moments, side="right") - 1, row]
        lost = 2 * (gpus.size + 2) * UNIT * gpus.sum()
        if (used > supply * (1 + TOLERANCE) + lost).any():
            return math.nan, "more GPUs are held than there are"
    return math.fsum(values), ""


def _up_to(moments: Any, times: Any, numbers: Any) -> Any:
    """Return the sum of the numbers whose times are not after each moment."""
    order = np.argsort(times, kind="stable")
    total = np.concatenate([[0.0], np.cumsum(numbers[order])])
    return total[np.searchsorted(times[order], moments, side="right")]


def _proved(case: Any, claim: Any) -> float:
    """Return the bound (1) or (3), rounded downwards."""
    types = len(_listed(case, "types"))
    times = _array("times", case["times"], (-1,))
    there = _array("gpus", case["gpus"], (times.size, types))
    edges = _array("edges", claim["edges"], (-1,))
    if not times.size or times[0] or edges.size < 2 or edges[0]:
        raise ValueError("times and edges: expected to begin with 0, edges with another.")
    if not (np.diff(times) > 0).all() or not (np.diff(edges) > 0).all():
        raise ValueError("times and edges: expected to ascend.")
    prices = _free("prices", claim["prices"], (edges.size - 1, types))
    trainings = {}
    for name, one in _named(case, "trainings").items():
        work, gpus = _array("work", one["work"], (-1,)), _array("gpus", one["gpus"], (-1,))
        rates = _array("rates", one["rates"], (types, work.size, gpus.size))
        own = claim["multipliers"].get(name, [])
        multipliers = _free("multipliers", own, (-1, work.size) if own else (0,))
        multipliers = np.concatenate([np.zeros((1, work.size)), multipliers.reshape(-1, work.size)])
        trainings[name] = _Lines(work, gpus, rates, multipliers, edges, prices)
    jobs, due = [], _due(case, claim)
    for name, job in _named(case, "jobs").items():
        release, begin, weight = (_number(job, key) for key in ("release", "begin", "weight"))
        lines = trainings[job["training"]]
        own = lines.late(begin, due[name], weight) if due else lines.least(release, begin, weight)
        jobs.append(own)
    terms = _supplied(times, there, edges) * prices
    worth = math.fsum(terms.ravel()) * (1 + (times.size + 8) * UNIT)
    total = math.fsum(jobs)
    return float(total - worth - 4 * UNIT * (abs(total) + worth))


def _supplied(times: Any, there: Any, edges: Any) -> Any:
    """Return GPU-seconds of every interval and type, not rounded."""
    starts = np.maximum(edges[:-1, None], times[None, :])
    ends = np.minimum(edges[1:, None], np.append(times[1:], np.inf)[None, :])
    return np.clip(ends - starts, 0.0, None) @ there


class _Lines:
    """Lines (2) of a training, one for every row of multipliers."""

    def __init__(
        self, work: Any, gpus: Any, rates: Any, multipliers: Any, edges: Any, prices: Any
    ) -> None:
        self.edges, size = edges, edges.size + work.size + 8
        self.less, self.more = 1 - size * UNIT, 1 + size * UNIT
        self.worth = (multipliers @ work) * self.less
        earned = np.zeros((len(multipliers), edges.size - 1))
        for row, own in enumerate(rates):
            best = np.max(multipliers[:, :, None] * own[None], axis=1)  # patterns, numbers
            for column, number in enumerate(gpus.tolist()):
                paid = number * prices[:, row] * (1 - 2 * UNIT)
                np.maximum(earned, best[:, column, None] * (1 + 2 * UNIT) - paid, out=earned)
        self.earned = earned * (1 + 4 * UNIT)

    def least(self, release: float, begin: float, weight: float) -> float:
        """Return the bound of a job, rounded downwards."""
        edges = self.edges
        if not release <= begin:
            raise ValueError("jobs: expected to begin after their release.")
        behind = weight * max(float(edges[-1]) - release, 0.0) * (1 - 4 * UNIT)
        first = int(np.searchsorted(edges, begin, side="right")) - 1
        if first >= edges.size - 1:
            return behind
        starts = np.concatenate([[begin], edges[first + 1 : -1]])
        ends = edges[first + 1 :]
        total = np.cumsum(self.earned[:, first:] * (ends - starts), axis=1) * self.more
        before = np.concatenate([np.zeros((len(total), 1)), total[:, :-1]], axis=1)
        cost = weight * (np.stack([starts, ends]) - release) * (1 - 4 * UNIT)
        at = np.minimum(cost[0] - before, cost[1] - total) + self.worth[:, None]
        at -= 4 * UNIT * (np.maximum(cost[1], total) + self.worth[:, None])
        return min(behind, float(at.max(axis=0).min()))

    def late(self, begin: float, due: float, weight: float) -> float:
        """Return the term of a job in (3), rounded downwards."""
        edges = self.edges
        if due > edges[-1]:
            return 0.0
        seconds = np.clip(np.minimum(edges[1:], due) - np.maximum(edges[:-1], begin), 0.0, None)
        total = (self.earned * seconds).sum(axis=1) * self.more
        at = self.worth - total - 4 * UNIT * (self.worth + total)
        return min(weight, max(float(at.max()), 0.0))


def _document(document: Any, form: str) -> Any:
    """Return a document of a format, with all its numbers as floats."""
    head = {"format": f"goodalloc-{form}", "version": 1.0}
    even = json.loads(json.dumps(document), parse_int=float)
    if not isinstance(even, dict) or {*even} != {*head, *KEYS[form].split()} or even | head != even:
        raise ValueError(f"a goodalloc-{form}, version 1: expected this and the keys {KEYS[form]}.")
    return even


def _listed(document: Any, key: str) -> Any:
    """Return a list that is not empty."""
    found = document[key]
    if not isinstance(found, list) or not found:
        raise ValueError(f"{key}: expected a list that is not empty.")
    return found


def _named(document: Any, key: str) -> dict[str, Any]:
    """Return the objects of a list by their names, of which no two are equal."""
    found = {one["name"]: one for one in _listed(document, key)}
    if len(found) < len(document[key]):
        raise ValueError(f"{key}: expected different names.")
    return found


def _number(document: Any, key: str) -> float:
    """Return a number of at least 0."""
    found = document[key]
    if type(found) is not float or not 0 <= found < math.inf or 0 < found < LEAST:
        few = f"none between 0 and {LEAST:g}"
        raise ValueError(f"{key}: expected a finite number of at least 0, {few}.")
    return found


def _free(name: str, values: Any, shape: tuple[int, ...]) -> Any:
    """Return an array of numbers that a certificate may choose, those below `LEAST` as 0."""
    array = _array(name, values, shape, 0.0)
    return np.where(array < LEAST, 0.0, array)


def _array(name: str, values: Any, shape: tuple[int, ...], least: float = LEAST) -> Any:
    """Return an array of numbers of at least 0; -1 in its shape stands for any length."""
    try:
        array = np.array(values, dtype=float)
    except (TypeError, ValueError):
        array = np.full(1, -1.0)
    right = array.ndim == len(shape)
    right = right and all(want in (-1, have) for want, have in zip(shape, array.shape, strict=True))
    if not right or not (((array >= least) | (array == 0)) & (array < np.inf)).all():
        few = f"none between 0 and {least:g}, " if least else ""
        raise ValueError(f"{name}: expected finite numbers of at least 0, {few}shape {shape}.")
    return array


def _read(path: str) -> Any:
    """Return the document in a file, in which no key stands twice."""
    return json.loads(Path(path).read_text("utf-8"), object_pairs_hook=_each_once)


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError(
            f"keys: expected each once, of {', '.join(key for key, _ in pairs)[:200]}."
        )
    return found


def main() -> int:
    """Check three files and return the exit code."""
    parser = argparse.ArgumentParser(description="Check a bound on all schedules of a trace.")
    for name in ("problem", "schedule", "certificate"):
        parser.add_argument(name)
    names = vars(parser.parse_args()).values()
    try:
        verdict = verify(*map(_read, names))
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        sys.stderr.write(f"error: {type(error).__name__}: {error}\n")
        return 2
    sys.stdout.write("".join(f"{key}: {value}\n" for key, value in verdict._asdict().items()))
    return 0 if verdict.verified else 1


if __name__ == "__main__":
    sys.exit(main())
