"""Minimise many fitting losses at once: damped Gauss-Newton steps on smoothed roots, in JAX.

The loss is a sum of two root mean squares, which has a kink where either vanishes, plus smooth
priors. Each root is smoothed to sqrt(mean square + e^2) with e lowered in stages. A root's
Gauss-Newton matrix is that of the quadratic that lies above it and touches it at the present
point, so its steps are safe; they are lengthened along their direction because they are short.

Times are searched by their logarithms, in which the residuals are log-sums of exponentials. Every
step is tried both as a factor exp(p) and as a factor 1 + p: the latter reaches a bound at once.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import jax
import jax.numpy as jnp
from jax import lax

from goodalloc.models.fitting.problem import Found
from goodalloc.models.goodput.throughput_model import (
    REPLICA_FLOOR,
    ThroughputParameters,
    gradient_time,
    overlap,
    synchronisation_time,
)

if TYPE_CHECKING:
    from jax import Array

    from goodalloc.models.fitting.problem import Problem, Settings
    from goodalloc.models.goodput.throughput_model import Overlap
    from goodalloc.models.support.array_types import Numbers

SIZE = len(ThroughputParameters._fields)
FIRST_SMOOTHING = 1e-2
SMOOTHING_FACTOR = 0.1
STAGE_TOLERANCE = 1e-3
"""A stage ends when an iteration gains less than this part of its smoothing."""
PATIENCE = 2
"""Iterations in a row that may gain too little."""
DAMPINGS = (0.01, 3.0)
"""Factors on the last good damping that each iteration tries."""
LENGTHS = (1.0, 4.0, 16.0, 64.0)
"""Multiples of each step that each iteration tries."""
LARGEST_STEP = 3.0
"""Largest rise of a logarithm, and largest change of gamma, in one step."""
LEAST_DAMPING, STAGE_DAMPING, FIRST_DAMPING, LARGEST_DAMPING = 1e-10, 1e-3, 1e-2, 1e8
DAMPING_GROWTH = 100.0
"""Factor on the damping when nothing tried was better."""
LEAST_PIVOT = 1e-14
LEAST_SCALE = 1e-10
TINY = 1e-300


class _State(NamedTuple):
    point: Array
    loss: Array
    damping: Array
    smoothing: Array
    idle: Array
    iterations: Array
    done: Array


class _Work(NamedTuple):
    state: _State
    task: Array
    following: Array
    found: Found


class _Prediction(NamedTuple):
    parameters: ThroughputParameters
    gradient: Numbers
    synchronisation: Numbers
    overlap: Overlap
    roots: tuple[Array, Array]
    residuals: tuple[Array, Array]


def _predict(point: Array, problem: Problem, smoothing: Array | float) -> _Prediction:
    """Predict the times at a point and compare them with those observed."""
    parameters = ThroughputParameters._make([*jnp.exp(point[:-1]), point[-1]])
    gradient = gradient_time(parameters, problem.atomic_batch_size)
    synchronisation = synchronisation_time(parameters, problem.nodes, problem.replicas)
    last = overlap(gradient, synchronisation, jnp.log(synchronisation), parameters.gamma)
    residuals = (
        jnp.log(gradient) - problem.log_gradient_time,
        jnp.log(last.time) - problem.log_step_time,
    )
    squares = [jnp.sum(problem.weight * residual**2) for residual in residuals]
    roots = (jnp.sqrt(squares[0] + smoothing**2), jnp.sqrt(squares[1] + smoothing**2))
    return _Prediction(parameters, gradient, synchronisation, last, roots, residuals)


def _retrogression(point: Array) -> tuple[Array, Array]:
    """Return (beta / alpha)^2 of synchronisation on one node and on several."""
    return jnp.exp(2.0 * (point[3] - point[2])), jnp.exp(2.0 * (point[5] - point[4]))


def fitting_loss(
    point: Array, problem: Problem, settings: Settings, smoothing: Array | float = 0.0
) -> Array:
    """Return the loss of one job at a point (logarithms of the six times, then gamma)."""
    roots = _predict(point, problem, smoothing).roots
    local, node = _retrogression(point)
    overshoot = (point[-1] - settings.gamma_minimum) ** 2
    priors = settings.gamma_weight * overshoot + settings.retrogression_weight * (local + node)
    return roots[0] + roots[1] + priors


def _gauss_newton(
    point: Array, problem: Problem, settings: Settings, smoothing: Array
) -> tuple[Array, Array]:
    """Return the gradient (7,) of the smoothed loss and its Gauss-Newton matrix (7, 7)."""
    now = _predict(point, problem, smoothing)
    parameters, share = now.parameters, now.overlap.synchronisation_share / now.synchronisation
    several = problem.nodes > 1
    local = share * ((problem.replicas > 1) & ~several)
    node = share * several
    excess = jnp.maximum(problem.replicas - 2.0, REPLICA_FLOOR)
    compute = jnp.stack(
        [
            parameters.alpha_grad / now.gradient,
            parameters.beta_grad * problem.atomic_batch_size / now.gradient,
        ]
    )
    mean_log = now.overlap.gradient_share * jnp.log(now.gradient)
    mean_log += now.overlap.synchronisation_share * jnp.log(now.synchronisation)
    step = jnp.concatenate(
        [
            compute * now.overlap.gradient_share,
            jnp.stack(
                [
                    parameters.alpha_local * local,
                    parameters.beta_local * excess * local,
                    parameters.alpha_node * node,
                    parameters.beta_node * excess * node,
                    (mean_log - jnp.log(now.overlap.time)) / parameters.gamma,
                ]
            ),
        ]
    )
    jacobians = (jnp.pad(compute, ((0, SIZE - 2), (0, 0))), step)
    gradient, matrix = _prior_derivatives(point, settings)
    for jacobian, residual, root in zip(jacobians, now.residuals, now.roots, strict=True):
        weighted = jacobian * problem.weight / root
        gradient += weighted @ residual
        matrix += weighted @ jacobian.T
    return gradient, matrix


def _prior_derivatives(point: Array, settings: Settings) -> tuple[Array, Array]:
    """Return the gradient (7,) of the priors and their Hessian (7, 7)."""
    opposite = jnp.array([-1.0, 1.0])
    gradient, matrix = jnp.zeros(SIZE), jnp.zeros((SIZE, SIZE))
    for first, ratio in zip((2, 4), _retrogression(point), strict=True):
        part, slope = slice(first, first + 2), 2.0 * settings.retrogression_weight * ratio
        gradient = gradient.at[part].add(slope * opposite)
        matrix = matrix.at[part, part].add(2.0 * slope * jnp.outer(opposite, opposite))
    slope = 2.0 * settings.gamma_weight
    gradient = gradient.at[-1].add(slope * (point[-1] - settings.gamma_minimum))
    return gradient, matrix.at[-1, -1].add(slope)


def _solve(matrix: Array, right: Array) -> Array:
    """Solve a small positive definite system by elimination; NaN if it is not definite."""
    table = jnp.concatenate([matrix, right[:, None]], axis=1)
    definite = jnp.bool_(True)
    for index in range(SIZE):
        pivot = table[index, index]
        definite &= pivot > LEAST_PIVOT
        factors = table[:, index].at[index].add(-1.0)
        table -= jnp.outer(factors, table[index] / pivot)
    return jnp.where(definite, table[:, -1], jnp.nan)


def _candidates(state: _State, problem: Problem, settings: Settings) -> tuple[Array, Array, Array]:
    """Return points to try (tries, 7), their dampings, and the gain that the first foretells."""
    point = state.point
    gradient, matrix = _gauss_newton(point, problem, settings, state.smoothing)
    blocked = ((point <= problem.lower) & (gradient > 0.0)) | (
        (point >= problem.upper) & (gradient < 0.0)
    )
    moving = jnp.asarray(problem.free & ~blocked)
    gradient = jnp.where(moving, gradient, 0.0)
    diagonal = jnp.where(moving, jnp.diag(matrix), 0.0)
    floor = LEAST_SCALE * jnp.max(diagonal) + TINY
    scale = lax.rsqrt(jnp.maximum(diagonal, floor))
    identity = jnp.eye(SIZE)
    scaled = matrix * jnp.outer(scale, scale)
    scaled = jnp.where(jnp.outer(moving, moving), scaled, identity)
    dampings = state.damping * jnp.array(DAMPINGS)

    def step(damping: Array) -> Array:
        return -scale * _solve(scaled + damping * identity, scale * gradient)

    steps = jax.vmap(step)(dampings)
    gain = -gradient @ steps[0]
    stretched = (jnp.array(LENGTHS)[:, None, None] * steps).reshape(-1, SIZE)
    direct = jnp.clip(stretched, -LARGEST_STEP, LARGEST_STEP)
    linear = jnp.log(jnp.maximum(1.0 + stretched, TINY))
    linear = jnp.minimum(linear, LARGEST_STEP).at[:, -1].set(direct[:, -1])
    tried = jnp.clip(point + jnp.concatenate([direct, linear]), problem.lower, problem.upper)
    tried = jnp.where(jnp.isfinite(tried), tried, point)
    return tried, jnp.tile(dampings, 2 * len(LENGTHS)), gain


def _advance(state: _State, problem: Problem, settings: Settings) -> _State:
    """Take one iteration: the best of all steps tried, if any is better."""
    tried, dampings, foretold = _candidates(state, problem, settings)
    losses = jax.vmap(fitting_loss, (0, None, None, None))(
        tried, problem, settings, state.smoothing
    )
    losses = jnp.where(jnp.isnan(losses), jnp.inf, losses)
    best = jnp.argmin(losses)
    better = losses[best] < state.loss
    gain = jnp.where(better, state.loss - losses[best], 0.0)
    point = jnp.where(better, tried[best], state.point)
    damping = jnp.where(
        better, jnp.maximum(dampings[best], LEAST_DAMPING), state.damping * DAMPING_GROWTH
    )
    enough = jnp.maximum(settings.tolerance * state.loss, STAGE_TOLERANCE * state.smoothing)
    # A failed step counts as idle only if no more than that was to be had: else damp and retry.
    idle = (gain < enough) & (better | (foretold < 10.0 * enough))
    idle_count = jnp.where(idle, state.idle + 1, 0)
    stalled = (idle_count >= PATIENCE) | (damping > LARGEST_DAMPING)
    last = state.smoothing <= settings.smoothing
    lowered = jnp.maximum(state.smoothing * SMOOTHING_FACTOR, settings.smoothing)
    smoothing = jnp.where(stalled & ~last, lowered, state.smoothing)
    return _State(
        point=point,
        loss=fitting_loss(point, problem, settings, smoothing),
        damping=jnp.where(stalled, STAGE_DAMPING, damping),
        smoothing=smoothing,
        idle=jnp.where(stalled, 0, idle_count),
        iterations=state.iterations + 1,
        done=stalled & last,
    )


def _begin(start: Array, problem: Problem, settings: Settings) -> _State:
    """Return the state of a search that starts at a point."""
    smoothing = jnp.maximum(FIRST_SMOOTHING, settings.smoothing)
    loss = fitting_loss(start, problem, settings, smoothing)
    zero = jnp.zeros((), int)
    return _State(
        point=start,
        loss=loss,
        damping=jnp.full_like(loss, FIRST_DAMPING),
        smoothing=smoothing,
        idle=zero,
        iterations=zero,
        done=zero > 0,
    )


_advance_all = jax.vmap(_advance, (0, 0, None))
_begin_all = jax.vmap(_begin, (0, 0, None))


def _pick(task: Array, problems: Problem) -> tuple[Array, Problem]:
    """Return the start point and the problem of each task, (job, start) in row-major order."""
    jobs, starts, _ = problems.starts.shape
    job, start = jnp.divmod(jnp.minimum(task, jobs * starts - 1), starts)
    return problems.starts[job, start], jax.tree.map(lambda leaf: leaf[job], problems)


def _turn(work: _Work, problems: Problem, settings: Settings, total: Array) -> _Work:
    """Advance all lanes by one iteration, and give those that are done their next task."""
    state, task, following, found = work
    none = len(found.loss)
    state = _advance_all(state, _pick(task, problems)[1], settings)
    finished = (state.done | (state.iterations >= settings.iterations)) & (task < none)
    row = jnp.where(finished, task, none)
    results = Found(state.point, state.loss, state.iterations, state.done)
    found = jax.tree.map(lambda old, new: old.at[row].set(new, mode="drop"), found, results)
    task = jnp.where(finished, following + jnp.cumsum(finished) - 1, task)
    task = jnp.where(task < total, task, none)

    def renew(old: _State) -> _State:
        fresh = _begin_all(*_pick(task, problems), settings)
        renewed: _State = jax.tree.map(
            lambda new, kept: jnp.where(jnp.expand_dims(finished, range(1, new.ndim)), new, kept),
            fresh,
            old,
        )
        return renewed

    state = lax.cond(jnp.any(finished), renew, lambda old: old, state)
    return _Work(state, task, following + jnp.sum(finished), found)


@partial(jax.jit, static_argnames="lanes")
def search(problems: Problem, count: Array, settings: Settings, lanes: int) -> Found:
    """Minimise the loss of the first `count` jobs from each of their starts.

    A fixed number of lanes works off the tasks, which are pairs of job and start: a lane that is
    done takes the next one, so that a slow search holds up its own lane only.

    Parameters
    ----------
    problems
        Jobs, padded to any number.
    count
        Number of actual jobs.
    settings
        Numbers that all jobs share.
    lanes
        Number of searches to advance side by side.
    """
    jobs, starts, _ = problems.starts.shape
    total, none = count * starts, jobs * starts
    task = jnp.where(jnp.arange(lanes) < total, jnp.arange(lanes), none)
    empty = Found(
        jnp.zeros((none, SIZE)), jnp.zeros(none), jnp.zeros(none, int), jnp.zeros(none, bool)
    )
    state = _begin_all(*_pick(task, problems), settings)
    work: _Work = lax.while_loop(
        lambda work: jnp.any(work.task < none),
        lambda work: _turn(work, problems, settings, total),
        _Work(state, task, jnp.asarray(lanes), empty),
    )
    found = jax.tree.map(lambda leaf: leaf.reshape(jobs, starts, *leaf.shape[1:]), work.found)
    exact = jax.vmap(jax.vmap(fitting_loss, (0, None, None)), (0, 0, None))
    return Found(
        found.point, exact(found.point, problems, settings), found.iterations, found.converged
    )
