"""Part of the stand-alone checker `verify.py`: choices of jobs, and their utilities.

A utility is scale * weight * speedup * rho + floor, a speedup goodput at the best batch size over
that of the job's fair share (sections 3 and 4.2 of Pollux); `data/FORMAT.md` has the rules.

Choices are arrays of shape (rows, one node | several, k): a row is a mode of a job, newly placed on
k replicas. Of entries that cannot occur, `[row, 0, 0]` of the first row of a job means to hold
nothing, and `[row, 1, 0]` of the row in which it runs means to keep its placement.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, sections 3 and 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from fractions import Fraction
from typing import Any

import numpy as np

#: Least utility of a running job under rules without a floor.
LEAST = 1e-7


def choices(r: Any) -> None:
    """Set the possible choices (`may`) and those within the limits of their job (`within`)."""
    limit, gpus = r.rules.max_nodes_per_job, r.has[:, 0] @ r.nodes
    order = np.argsort(-r.most, axis=1)
    nodes = np.diff(np.minimum(np.cumsum(r.nodes[order], axis=1), limit), axis=1, prepend=0)
    together = (nodes * np.take_along_axis(r.most, order, 1)).sum(axis=1)
    together *= ((r.most > 0) @ r.nodes > 1) & (limit > 1)
    room = np.stack([r.most.max(axis=1), together], axis=1)[r.kind]
    total = np.where(r.demand[:, 0] == 1, gpus, r.most @ r.nodes)[r.kind]
    most = np.minimum([job.max_replicas for job in r.jobs], np.maximum.reduceat(total, r.first))
    least = np.array([max(job.min_replicas, 1) for job in r.jobs])
    k = np.arange(int(most.max()) + 1)
    if len(r.rows) * k.size > 5e7:
        raise ValueError("Instance: there are more than 100 million choices.")
    r.within = (k >= least[r.job, None, None]) & (k <= most[r.job, None, None]) & (k > [[0], [1]])
    held = np.array([sum(job.place.values()) for job in r.jobs])
    spread = np.array([len(job.place) for job in r.jobs])
    pinned = np.array([job.pinned for job in r.jobs])
    keeps = (held >= least) & (held <= most) & (spread <= limit)
    if r.rules.interference_avoidance:
        closed = {v for job in r.jobs if job.pinned and len(job.place) > 1 for v in job.place}
        keeps &= [len(job.place) < 2 or closed.isdisjoint(job.place) for job in r.jobs]
    r.may = r.within & (k <= room[:, :, None]) & ~pinned[r.job, None, None]
    r.may[r.first, 0, 0], r.may[r.at, 1, 0] = ~pinned, keeps | pinned


def utilities(r: Any) -> Any:
    """Return the utility of every choice."""
    speed, floor, rho = speedups(r), r.rules.floor, np.array([factor(r, job) for job in r.jobs])
    scale = np.array([job.weight for job in r.jobs])
    if r.rules.speedup_scale == "node":
        scale *= r.nodes.sum() / (r.has[:, 0] @ r.nodes)
    found = np.maximum((scale * rho)[r.job, None, None] * speed + floor, floor or LEAST)
    held, several = np.array([(sum(x.place.values()), len(x.place) > 1) for x in r.jobs]).T
    kept = scale * speed[r.at, several, np.minimum(held, speed.shape[2] - 1)] + floor
    found[:, 0, 0], found[r.at, 1, 0] = r.idle, np.maximum(kept, floor or LEAST)
    if not 1e-100 < found.min() <= found.max() < 1e100:
        raise ValueError("Instance: a utility is not between 1e-100 and 1e100.")
    return found


def factor(r: Any, job: Any) -> float:
    """Return the factor of a restart: max(age - delay * restarts, 0) / (age + delay)."""
    delay = r.rules.restart_delay if job.restart_delay is None else job.restart_delay
    running = bool(job.place) and job.age >= delay
    if job.age + delay == 0 or not (running or r.rules.restart_penalty == "all"):
        return 1.0
    useful = Fraction(job.age) - Fraction(delay) * job.restarts
    return float(max(useful, Fraction(0))) / float(job.age + delay)


def speedups(r: Any) -> Any:
    """Return speedups of newly placed rows; k over the fair share for jobs that never ran."""
    gpus, sizes, rule = int(r.has[:, 0] @ r.nodes), r.has[:, 0], r.rules.fair_share
    fair = 1 if rule in ("one_gpu", "least") else -(-gpus // len(r.jobs))
    speed, k = np.zeros(r.within.shape), np.arange(r.within.shape[2])
    for row, (_, _, model) in enumerate(r.rows):
        if model is None:
            speed[row] = k / fair
        elif type(model) is list:
            for several in (0, 1):
                given = model[several][: k.size - 1]
                speed[row, several, 1 : len(given) + 1] = given
    speed[:, 1, :2] = 0
    number: dict[Any, int] = {}
    rows = np.array([i for i, row in enumerate(r.rows) if type(row[2]) is tuple], dtype=int)
    if not rows.size:
        return speed
    which = np.array([number.setdefault(r.rows[row][2], len(number)) for row in rows])
    models = np.array(list(number)).T[:, :, None, None]
    table = goodput(r, models, np.array([[0], [1]]), k)
    packed = rule == "packed" and fair > sizes.max()
    base = goodput(r, models, np.array([[int(packed)]]), np.array([fair]))[:, 0, 0]
    base = np.where(base > 0, base, table[:, :, : fair + 1].max(axis=(1, 2)))
    share = np.zeros(len(r.jobs))
    np.maximum.at(share, r.job[rows], base[which])
    if rule == "least":
        share = least_share(r, rows, table[which])
    speed[rows] = table[which] / np.where(share > 0, share, 1)[r.job[rows], None, None]
    return speed


def least_share(r: Any, rows: Any, table: Any) -> Any:
    """Return the least goodput of a job in whole-node shapes of Sia over their fewest replicas.

    If none of these within its limits runs, all shapes are taken.
    """
    share, k, job = np.zeros(len(r.jobs)), np.arange(table.shape[2]), r.job[rows]
    for whole in (False, True):
        known = {name: shapes(r, name, k.size, whole) for name in {*r.types}}
        allowed = np.array([known[r.types[kind]] for kind in r.kind[rows]])
        runs = allowed & r.within[rows] & (table > 0)
        least, fewest = np.full((2, share.size), np.inf)
        np.minimum.at(least, job, np.where(runs, table, np.inf).min(axis=(1, 2)))
        np.minimum.at(fewest, job, np.where(runs, k, np.inf).min(axis=(1, 2)))
        share = np.where(least < np.inf, least / fewest, share)
    return share


def shapes(r: Any, name: str, width: int, whole: bool) -> Any:
    """Return shapes on nodes of a type of GPU (any if empty), whole-node ones or all: (2, k).

    Whole-node shapes are powers of two on one node, or all of it, and all of several equal nodes.
    """
    found, limit = np.zeros((2, width), dtype=bool), r.rules.max_nodes_per_job
    for own in {group.gpu_type for group in r.groups} if name == "" else {name}:
        groups, left, total = [g for g in r.groups if g.gpu_type == own], limit, 0
        for size in sorted({group.gpus for group in groups}, reverse=True):
            count = min(sum(g.nodes for g in groups if g.gpus == size), limit)
            left, total = max(left - count, 0), total + min(count, left) * size
            one: Any = range(1, size + 1)
            many = range(2, total + 1 if limit - left > 1 else 2)
            if whole:
                one = [*(2**i for i in range(size.bit_length())), size]
                many = range(2 * size, count * size + 1, max(size, 1))
            found[0, [k for k in one if k < width]] = True
            found[1, [k for k in many[:width] if k < width]] = True
    return found


def goodput(r: Any, models: Any, several: Any, replicas: Any) -> Any:
    """Return the goodput of models (arrays of 14 numbers) on k replicas of one node or several."""
    shape = np.broadcast_shapes(models.shape[1:], several.shape, replicas.shape)
    several, k, *models = (np.broadcast_to(x, shape).ravel() for x in (several, replicas, *models))
    alpha, beta, al, bl, an, bn, gamma, square, variance, initial, *limits = models
    beyond = np.maximum(k - 2.0, 1e-8)
    s = np.where(several > 0, an + bn * beyond, al + bl * beyond)
    s = np.where(k > 1, s, 1e-8 * (1 + 1e-8))
    total = square + variance
    A, B = np.where(total > 0, [variance, square], [[0.0], [1.0]]) / np.where(total > 0, total, 1)
    lanes = np.array([alpha, beta, s, gamma, A, B / initial, np.maximum(k, 1), initial, *limits])
    best = np.empty(k.size)
    for i in range(0, k.size, 8192):
        grid, x = r.rules.batch_search == "grid", lanes[:, i : i + 8192]
        best[i : i + 8192] = best_grid(x, r.rules.grid_points) if grid else best_whole(x)
    return np.where(k > several, 1 / best, 0).reshape(shape)


def cost(lanes: Any, m: Any, w: Any) -> Any:
    """Return 1 / goodput = (A / M + B) T, its slope in ln m, and f / g - 1, for M = k m w.

    T = (w - 1) g + f, f = (g^gamma + s^gamma)^(1 / gamma), g = alpha + beta m, s to synchronise;
    A = variance / (variance + square), B = (1 - A) / M0.
    """
    alpha, beta, s, gamma, A, B, k = lanes[:7]
    g, M = alpha + beta * m, k * m * w
    x = gamma * np.log(np.maximum(s, 1e-300) / g)
    e = np.exp(-abs(x))
    f = np.maximum(g, s) * np.exp(np.log1p(e) / gamma)
    own, other = np.where(x > 0, [e, e**0], [e**0, e]) / (1 + e)
    T, rate = (w - 1) * g + f, w - 1 + own * f / g
    rise, fall = B * M * beta * m * rate, A * (alpha * rate + other * f)
    return (A / M + B) * T, (rise - fall) / ((A + B * M) * T), f / g - 1


def best_grid(lanes: Any, points: int) -> Any:
    """Return the least cost on the published grid of batches, from max(M0, k m_min) to M_max."""
    k, initial, maximum, least, most, accumulates = lanes[6:]
    first, best = np.maximum(initial, least * k), np.full(k.size, np.inf)
    for i in range(points):
        inner = np.exp(np.log(first) + (np.log(maximum) - np.log(first)) / max(points - 1, 1) * i)
        local = (first if i == 0 else maximum if i == points - 1 else inner) / k
        w = np.maximum(np.ceil(local / most - 1e-8), 1 + ((k == 1) & (local > initial + 1e-8)))
        w = np.where(accumulates > 0, w, 1)
        m = np.ceil(local / w - 1e-8)
        best = np.where((least <= m) & (m <= most), np.minimum(best, cost(lanes, m, w)[0]), best)
    return best


def best_whole(lanes: Any) -> Any:
    """Return the least cost over whole m and w.

    Feasibility and proof are in `batch_integer.py`: up to w* more passes of m_max are better;
    beyond, the least cost over real m rises with w by alpha (A / M + B) or more. Passes are
    therefore tried from w* on until that bound exceeds the best.
    """
    k, initial, maximum, least, most, accumulates = lanes[6:]
    alone, several = (k == 1) & (accumulates > 0), (accumulates > 0) & (k * least <= maximum)
    top = np.maximum(np.ceil(maximum / (k * most)), 1 + (alone & (maximum > initial)))
    final = np.where(several, np.maximum(np.floor(maximum / (k * least)), top), 1)
    start = np.where(several, np.maximum(np.ceil(initial / (k * most)), 1 + alone), 1)
    single = alone & (least <= initial) & (initial <= most)
    top, final = np.where(several, top, 1), np.where(single & (maximum == initial), 1, final)
    w = lanes[4] * cost(lanes, most, 1)[2] / np.maximum(k * most * lanes[5], 1e-150)
    w = np.clip(np.ceil(np.sqrt(np.maximum(w, 0))), start, np.maximum(start, top))
    best = np.where(w > start, cost(lanes, most, np.maximum(w - 1, 1))[0], np.inf)
    best = np.where(single, np.minimum(best, cost(lanes, initial, 1)[0]), best)
    bound = np.full(k.size, -np.inf)
    for _ in range(5000):
        on = np.flatnonzero((w <= final) & (best > bound * (1 + 1e-14)))
        if not on.size:
            return best
        found, beyond = best_examples(lanes[:, on], w[on], top[on])
        best[on], bound[on] = np.minimum(best[on], found), np.maximum(bound[on], beyond)
        w[on] += 1
    raise ValueError("Instance: a model may accumulate more passes than are compared here.")


def best_examples(lanes: Any, w: Any, top: Any) -> Any:
    """Return the least cost of w passes over whole m, and a bound on the cost of more passes.

    The cost has one valley in m and is convex in 1 / m, so that a tangent bounds it.
    """
    alpha, _, _, _, A, B, k, initial, maximum, least, most, _ = lanes
    share, lowest = maximum / (k * w), np.maximum(least, initial / (k * w))
    high = np.where(w <= top, np.ceil(share), np.floor(share))
    high = np.minimum(np.where(k * least > maximum, least, high), most)
    a, b = np.ceil(lowest), np.maximum(np.ceil(lowest), high)
    while np.any(b - a > 1):  # the best m stays between a and b
        m = np.floor((a + b) / 2)
        falls = cost(lanes, m, w)[1] < 0
        a, b = np.where(falls, m, a), np.where(falls, b, m)
    left, right = cost(lanes, a, w), cost(lanes, b, w)
    m, value, slope, _ = np.where(left[0] <= right[0], [a, *left], [b, *right])
    far = np.where(slope > 0, np.maximum(m - 1, lowest), np.minimum(m + 1, np.maximum(m, share)))
    beyond = value * (1 - slope * (m / far - 1)) + alpha * (A / (maximum + k * top) + B)
    beyond = np.where((w == 1) | (slope < 0) & (m == most) & (w < top), np.inf, beyond)
    empty = np.ceil(lowest) > high
    return np.where(empty, np.inf, value), np.where(empty, -np.inf, beyond)
