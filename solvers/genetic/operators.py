"""Crossover, mutation and repair of the genetic algorithm, on whole populations at once.

Arrays are laid out (jobs, members, nodes): a scan over the jobs, in repair order, then reads one
contiguous slice a step, and all data of a job stay in cache.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import jax.numpy as jnp
from jax import lax

from goodalloc.solvers.genetic.modes import fitting_nodes, land, redraw, within
from goodalloc.solvers.genetic.random_numbers import GOLDEN_FACTOR, below, counted, noise

if TYPE_CHECKING:
    from jax import Array

    from goodalloc.solvers.genetic.modes import Modes
    from goodalloc.solvers.genetic.options import GeneticOptions

#: Factor of the modes in the hash of a member: any odd number, so that modes and rows count apart.
MODE_FACTOR = 0x9E3779B1


class Problem(NamedTuple):
    """Arrays of an instance: jobs in repair order, padded with jobs that may hold nothing.

    `gpus` (nodes,); `current` (jobs, nodes); `pinned`, `real` (jobs,) bool; `fewest`, `most`
    (jobs,) replicas; `num_jobs`, `max_nodes` numbers; `exclusive` whether a node may hold one
    distributed job only; `log_moved` (modes, 2, most GPUs + 1) and `log_kept` (jobs,) logarithms of
    the utilities; `speedups` shaped as `log_moved`; `first_mode` (jobs,) a job's first row of these
    two; `node_factor` (nodes,) and `job_factor` (jobs,) random odd numbers for hashing members;
    `modes` demands of the modes, None where no job has any.
    """

    gpus: Array
    current: Array
    pinned: Array
    real: Array
    fewest: Array
    most: Array
    num_jobs: Array
    max_nodes: Array
    exclusive: Array
    log_moved: Array
    log_kept: Array
    speedups: Array
    first_mode: Array
    node_factor: Array
    job_factor: Array
    modes: Modes | None


class Genes(NamedTuple):
    """Genes of a member, or of a population.

    `replicas` (jobs, members, nodes); `modes` (jobs, members): index of every job's mode, None
    where no job has any.
    """

    replicas: Array
    modes: Array | None


class Repaired(NamedTuple):
    """Outcome of the repair, with properties of every row.

    `genes`, in mode 0 where a row holds nothing; `held`, `several`, `unchanged` (jobs, members):
    replicas of each row, whether it spans several nodes, whether it is the current one; `occupied`
    (members, nodes): whether the node holds anything; `digest` (members,): a 64-bit hash of the
    genes.
    """

    genes: Genes
    held: Array
    several: Array
    unchanged: Array
    occupied: Array
    digest: Array


class Load(NamedTuple):
    """Carry of the scan of `recombine`: load of the nodes by the jobs so far.

    `used`, `jobs_on` (members, nodes): replicas, and jobs that hold any.
    """

    used: Array
    jobs_on: Array


class ParentRows(NamedTuple):
    """Input of the scan of `recombine` for one job.

    `place` of the job in the order of repair; `genes` of the parents; `current` (nodes,); `words`
    (3, 2).
    """

    place: Array
    genes: Genes
    current: Array
    words: Array


class RepairState(NamedTuple):
    """Carry of the scan of `grow_and_repair`: state of the nodes after the jobs so far.

    `one_distributed`, `two_distributed` (members, nodes): whether one distributed job, or two, met
    the node; `free` (members, nodes) GPUs; `left` (resources, members, nodes) remaining amounts,
    None where no job has modes; `occupied` (members, nodes).
    """

    one_distributed: Array
    two_distributed: Array
    free: Array
    left: Array | None
    occupied: Array


class RepairInput(NamedTuple):
    """Input of the scan of `grow_and_repair` for one job.

    `place` of the job in the order of repair; `genes` of its rows; fields as of `Problem`;
    `words` (2, 2).
    """

    place: Array
    genes: Genes
    current: Array
    pinned: Array
    real: Array
    fewest: Array
    most: Array
    words: Array


class RepairedRows(NamedTuple):
    """Output of the scan of `grow_and_repair` for one job; fields as of `Repaired`.

    `digest` (members,): 32-bit hash of the row and its mode.
    """

    genes: Genes
    held: Array
    several: Array
    unchanged: Array
    digest: Array


def recombine(
    problem: Problem,
    genes: Genes,
    *,
    own: Array,
    other: Array,
    cut: Array,
    mutate: Array,
    words: Array,
    options: GeneticOptions,
) -> tuple[Genes, Array, Array]:
    """Cross parents, then apply the mutations that take away (section 4.2.1 of Pollux).

    Child *c* has the rows before `cut[c]` of parent `other[c]`, the rest of parent `own[c]`, each
    with its mode. Each row goes back to the current allocation with probability `reset_rate`, and
    in a share `drop_row_rate` of the rows each entry goes to 0 with probability `drop_rate`. Where
    jobs have modes, those of a share `mode_rate` of the rows are redrawn, and those of all rows
    that hold nothing. None of it happens if `mutate` is false. `words` (jobs, 3, 2) are random.

    Returns
    -------
    tuple
        The children, and the replicas and the number of jobs on every node, (members, nodes) each.
    """
    num_jobs, _, nodes = genes.replicas.shape
    members = own.size
    cells, rows = counted(members, nodes), lax.iota(jnp.uint32, members)
    equipped = problem.modes

    def one_job(load: Load, job: ParentRows) -> tuple[Load, Genes]:
        parent, mode = jnp.where(job.place < cut, other, own), job.genes.modes
        row = job.genes.replicas[parent]
        reset = (noise(rows, job.words[0]) < below(options.reset_rate)) & mutate
        row = jnp.where(reset[:, None], job.current, row)
        struck = noise(rows, job.words[1]) < below(options.drop_row_rate)
        drop = (struck & mutate)[:, None] & (noise(cells, job.words[2]) < below(options.drop_rate))
        row = jnp.where(drop, 0, row)
        if equipped is not None and mode is not None:
            mode, vacant = mode[parent], ~jnp.any(row > 0, axis=1)
            drawn = redraw(
                modes=equipped,
                job=job.place,
                mode=mode,
                reset=reset,
                vacant=vacant,
                words=job.words[:2],
                rate=options.mode_rate,
            )
            mode = jnp.where(mutate, drawn, mode)
        used = load.used + row
        jobs_on = load.jobs_on + (row > 0).astype(load.jobs_on.dtype)
        return Load(used, jobs_on), Genes(row, mode)

    empty = jnp.zeros((members, nodes), jnp.int16)
    inputs = ParentRows(jnp.arange(num_jobs), genes, problem.current, words)
    load, children = lax.scan(one_job, Load(empty, empty), inputs)
    return children, load.used, load.jobs_on


def growth_thresholds(problem: Problem, used: Array, jobs_on: Array) -> tuple[Array, Array]:
    """Return the thresholds at which the mutation that adds strikes an empty or a taken entry.

    At each node with a free GPU one job of all strikes on average, and one of those already there.
    Thresholds for `noise`, (members, nodes) each.
    """
    free = (problem.gpus > used).astype(jnp.float32)
    anyone = free / problem.num_jobs.astype(jnp.float32)
    resident = free / jnp.maximum(jobs_on, 1).astype(jnp.float32)
    either = anyone + resident - anyone * resident
    # the largest float32 below 2**32, so that the conversion cannot wrap around
    scale, top = jnp.float32(2.0**32), jnp.float32(2.0**32 - 256.0)
    return (
        jnp.minimum(anyone * scale, top).astype(jnp.uint32),
        jnp.minimum(either * scale, top).astype(jnp.uint32),
    )


def grow_and_repair(
    problem: Problem, genes: Genes, thresholds: tuple[Array, Array], words: Array
) -> Repaired:
    """Apply the mutation that adds, then the repair, in the order of Pollux's artifact.

    An entry that is struck is redrawn uniformly between its value and the GPUs of its node. Then,
    job after job: a pinned row is restored; where a second distributed job meets a node, its entry
    and those of all later jobs go to 0; replicas beyond `most` and nodes beyond `max_nodes` go,
    nodes in random order; replicas beyond the node's GPUs go, earlier jobs first; a row under
    `fewest` goes to 0. Taking away makes every rule but the last easier to satisfy, so that the
    result obeys them all. Where jobs have modes, a pinned job gets its own back; entries on nodes
    without the GPUs of a row's mode first go to 0, or the row moves (`solvers/genetic/modes.py`),
    and nothing grows there; and replicas beyond the other resources of a node go as those beyond
    its GPUs, earlier jobs first. `words` (jobs, 2, 2) are random.
    """
    num_jobs, members, nodes = genes.replicas.shape
    cells, equipped = counted(members, nodes), problem.modes
    per_job = RepairInput(
        place=jnp.arange(num_jobs),
        genes=genes,
        current=problem.current,
        pinned=problem.pinned,
        real=problem.real,
        fewest=problem.fewest,
        most=problem.most,
        words=words,
    )

    def one_job(state: RepairState, job: RepairInput) -> tuple[RepairState, RepairedRows]:
        row, mode, left, real = job.genes.replicas, job.genes.modes, state.left, job.real
        bits, choice = noise(cells, job.words[0]), problem.first_mode[job.place]
        if equipped is not None and mode is not None:
            mode = jnp.where(job.pinned, equipped.current[job.place], mode)
            choice = choice + mode
            fits = fitting_nodes(equipped, choice)
            lots = noise(cells + jnp.uint32(cells.size), job.words[1])
            row = land(row, fits, thresholds[0] > 0, problem.gpus, lots)
            real = real & fits
        struck = bits < jnp.where(row > 0, thresholds[1], thresholds[0])
        # multiplied once more, what lies below a threshold is uniform again: one draw serves both
        room = (problem.gpus - row + 1).astype(jnp.uint32)
        drawn = ((bits * jnp.uint32(GOLDEN_FACTOR) >> 16) * room >> 16).astype(row.dtype)
        row = jnp.where(struck & real, row + drawn, row)
        row = jnp.where(job.pinned, job.current, row)
        distributed = (_count(row)[1] > 1)[:, None] & (row > 0)
        two_distributed = state.two_distributed | (state.one_distributed & distributed)
        one_distributed = state.one_distributed | distributed
        row = jnp.where(two_distributed & problem.exclusive, 0, row)
        row = _limit_row(row, job.most, problem.max_nodes, cells, job.words[1])
        row = jnp.minimum(row, state.free)
        if equipped is not None and left is not None:
            row, left = within(equipped, choice, row, left, job.pinned)
        free = state.free - row
        row = jnp.where((_count(row)[0] < job.fewest)[:, None], 0, row)
        held, spanned = _count(row)
        unchanged = ~jnp.any(row != job.current, axis=1)
        digest = (row.astype(jnp.uint32) * problem.node_factor).sum(1, dtype=jnp.uint32)
        if equipped is not None and mode is not None:
            mode = jnp.where(held > 0, mode, 0)
            unchanged &= (mode == equipped.current[job.place]) | (held == 0)
            digest += mode.astype(jnp.uint32) * jnp.uint32(MODE_FACTOR)
        occupied = state.occupied | (row > 0)
        after = RepairState(one_distributed, two_distributed, free, left, occupied)
        return after, RepairedRows(Genes(row, mode), held, spanned > 1, unchanged, digest)

    nowhere = jnp.zeros((members, nodes), bool)
    everything = jnp.broadcast_to(problem.gpus, (members, nodes))
    resources = None
    if equipped is not None:
        resources = jnp.repeat(equipped.capacity[:, None], members, axis=1)
    start = RepairState(nowhere, nowhere, everything, resources, nowhere)
    end, rows = lax.scan(one_job, start, per_job)
    return Repaired(
        genes=rows.genes,
        held=rows.held,
        several=rows.several,
        unchanged=rows.unchanged,
        occupied=end.occupied,
        digest=(rows.digest.astype(jnp.uint64) * problem.job_factor[:, None]).sum(0),
    )


def _count(row: Array) -> tuple[Array, Array]:
    """Return replicas and nodes of every member's row, in one reduction of packed numbers."""
    packed = row.astype(jnp.int32) + ((row > 0).astype(jnp.int32) << 16)
    total = packed.sum(1, dtype=jnp.int32)
    return total & 0xFFFF, total >> 16


def _limit_row(row: Array, most: Array, max_nodes: Array, cells: Array, words: Array) -> Array:
    """Take away replicas beyond `most` and nodes beyond `max_nodes`, nodes in random order."""
    mask = (1 << row.shape[1].bit_length()) - 1
    number = jnp.arange(1, row.shape[1] + 1, dtype=jnp.uint32)

    def too_much(state: tuple[Array, Array, Array]) -> Array:
        _, held, spanned = state
        return jnp.any((held > most) | (spanned > max_nodes))

    def drop_last(state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        row, held, spanned = state
        # One reduction finds the last node: random bits, then the node's number, so that no two
        # are equal. The order is the same every time round; seldom needed, so not kept ready.
        order = jnp.where(row > 0, noise(cells, words) & ~jnp.uint32(mask) | number, 0)
        last = order.max(1)
        node = jnp.maximum((last & mask).astype(jnp.int32) - 1, 0)
        there = jnp.take_along_axis(row, node[:, None], 1)[:, 0].astype(jnp.int32)
        taken = jnp.where(spanned > max_nodes, there, jnp.clip(held - most, 0, there))
        row = jnp.where(order == last[:, None], row - taken[:, None].astype(row.dtype), row)
        return row, held - taken, spanned - (taken == there)

    limited: Array = lax.while_loop(too_much, drop_last, (row, *_count(row)))[0]
    return limited
