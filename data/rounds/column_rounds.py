"""Seeded rounds in columns: those of `generator.py`, without an object for every job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.rounds.drawn_jobs import (
    PROGRESS_STEPS,
    STATE_SHAPES,
    application_mix,
    check_arguments,
    draw_demand,
    draw_jobs,
    most_replicas,
    place_jobs,
)
from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns, no_models, stacked_model
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import Rules
from goodalloc.models.support.namespace import leaves
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from goodalloc.data.rounds.drawn_jobs import State
    from goodalloc.models.goodput.model import GoodputModel
    from goodalloc.models.support.array_types import Indices


def generate_columns(
    seed: int,
    jobs: int,
    nodes: int = 16,
    gpus_per_node: int = 4,
    *,
    state: State = "cold",
    rules: Rules | None = None,
    own: float = 0.0,
) -> RoundColumns:
    """Draw a round in columns, of the same jobs as `generate` draws with the same arguments.

    Parameters
    ----------
    seed
        Seed of all draws.
    jobs
        Number of jobs.
    nodes, gpus_per_node
        A cluster of equal nodes.
    state
        What went before, as in `generate`.
    rules
        Rules of the round; the default ones if None.
    own
        Standard deviation of the logarithms of factors that make the model of every job its own: of
        its durations, and of its gradient's variance. At 0 jobs of one application and progress
        share a model.

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1, `own` < 0 or `state` is unknown.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate, generate_columns
    >>> drawn = generate_columns(seed=0, jobs=8, nodes=2, gpus_per_node=4)
    >>> drawn.age.tolist() == generate(seed=0, jobs=8, nodes=2, gpus_per_node=4).age.tolist()
    True
    """
    check_arguments(seed, jobs, None, state)
    require_number("Generator: own", own, minimum=0.0)
    rules, cluster = rules or Rules(), Cluster.uniform(nodes, gpus_per_node)
    applications, weights = application_mix(None)
    random = np.random.default_rng(seed)
    application, requested = draw_demand(
        random, jobs, None, cluster.num_gpus, applications, weights
    )
    draws = draw_jobs(random, application, requested, STATE_SHAPES[state])
    most = most_replicas(draws, applications)
    placed = place_jobs(random, draws, most, cluster, rules, state)
    code = draws.application * PROGRESS_STEPS + draws.progress_step
    code = np.where(draws.largest_run > 0, code, NEVER_RAN)
    codes, kind = np.unique(code, return_inverse=True)
    without = int(codes[0] == NEVER_RAN)
    pairs = [divmod(one, PROGRESS_STEPS) for one in codes[without:].tolist()]
    models = [
        load_profile(applications[index]).goodput_model(step / PROGRESS_STEPS)
        for index, step in pairs
    ]
    stacked, kinds = stack_models(models) if models else no_models(), kind - without
    if own > 0.0:
        stacked, kinds = _own_models(random, stacked, kinds, own)
    return RoundColumns(
        cluster,
        stacked,
        kinds.astype(np.int64),
        draws.age,
        draws.restarts,
        most,
        placed,
        rules,
    )


def _own_models(
    random: np.random.Generator, models: GoodputModel, kind: Indices, deviation: float
) -> tuple[GoodputModel, Indices]:
    """Return a model for every job that ran, and the new kinds."""
    ran = np.flatnonzero(kind != NEVER_RAN)
    columns = [np.asarray(leaf)[kind[ran]] for leaf in leaves(models)]
    durations = [column * np.exp(random.normal(0.0, deviation, ran.size)) for column in columns[:6]]
    variance = columns[8] * np.exp(random.normal(0.0, deviation, ran.size))
    own = np.full(kind.size, NEVER_RAN)
    own[ran] = np.arange(ran.size)
    numbers = [*durations, columns[6], columns[7], variance, *columns[9:]]
    return stacked_model(numbers), own
