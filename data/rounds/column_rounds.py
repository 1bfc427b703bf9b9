"""Seeded rounds in columns: those of `generator.py`, without an object for every job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.profiles import load_profile
from goodalloc.data.rounds.generator import (
    _SHAPES,
    PROGRESS_STEPS,
    _check,
    _demand,
    _draw_jobs,
    _mix,
    _most_replicas,
    _place,
)
from goodalloc.models.columns.round_columns import NEVER_RAN, RoundColumns, no_models
from goodalloc.models.goodput.speedup import stack_models
from goodalloc.models.round.cluster import Cluster
from goodalloc.models.round.rules import Rules

if TYPE_CHECKING:
    from goodalloc.data.rounds.generator import State


def generate_columns(
    seed: int,
    jobs: int,
    nodes: int = 16,
    gpus_per_node: int = 4,
    *,
    state: State = "cold",
    rules: Rules | None = None,
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

    Raises
    ------
    ValueError
        If `seed` < 0, `jobs` < 1 or `state` is unknown.

    Examples
    --------
    >>> from goodalloc.data.rounds import generate, generate_columns
    >>> drawn = generate_columns(seed=0, jobs=8, nodes=2, gpus_per_node=4)
    >>> drawn.age.tolist() == generate(seed=0, jobs=8, nodes=2, gpus_per_node=4).age.tolist()
    True
    """
    _check(seed, jobs, None, state)
    rules, cluster = rules or Rules(), Cluster.uniform(nodes, gpus_per_node)
    applications, weights = _mix(None)
    random = np.random.default_rng(seed)
    application, requested = _demand(random, jobs, None, cluster.num_gpus, applications, weights)
    draws = _draw_jobs(random, application, requested, _SHAPES[state])
    most = _most_replicas(draws, applications)
    placed = _place(random, draws, most, cluster, rules, state)
    code = draws.application * PROGRESS_STEPS + draws.progress_step
    code = np.where(draws.largest_run > 0, code, NEVER_RAN)
    codes, kind = np.unique(code, return_inverse=True)
    without = int(codes[0] == NEVER_RAN)
    pairs = [divmod(one, PROGRESS_STEPS) for one in codes[without:].tolist()]
    models = [
        load_profile(applications[index]).goodput_model(step / PROGRESS_STEPS)
        for index, step in pairs
    ]
    return RoundColumns(
        cluster,
        stack_models(models) if models else no_models(),
        kind.astype(np.int64) - without,
        draws.age,
        draws.restarts,
        most,
        placed,
        rules,
    )
