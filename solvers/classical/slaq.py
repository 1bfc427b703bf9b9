"""SLAQ: GPUs to the jobs whose losses fall most with them in the next interval.

SLAQ moves executors between jobs every few seconds and leaves the jobs unchanged otherwise; so
here, as under Optimus, GPUs are decided and batch sizes are as requested. (With Pollux's batch
sizes the effects of the two could not be separated.) A restart costs nothing in the paper, and its
cost is not taken into account here.

References
----------
Zhang et al., "SLAQ: Quality-Driven Scheduling for Distributed Machine Learning", SoCC 2017.
    doi:10.1145/3127479.3127490
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.classical.unit_gains import one_each
from goodalloc.models.goodput.batch_split import split_batch
from goodalloc.models.goodput.model import goodput
from goodalloc.models.losses.curve_fitting import spikes
from goodalloc.models.losses.reduction import LossHistory, loss_reductions
from goodalloc.solvers.classical.unit_shares import share_exactly, share_greedily
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import place_changed

if TYPE_CHECKING:
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.losses.reduction import NormalisedBy
    from goodalloc.models.support.array_types import Floats
    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round


#: History of a job that reports no losses.
NOTHING_YET = LossHistory(1.0, 1.0, np.zeros(0), 0.0)


@dataclass
class Slaq:
    """Policy of one GPU for every job in order of submission, then GPUs by the largest gain.

    The gain of GPUs is the predicted fall of the loss in the next interval
    (`models/losses/reduction.py`), by the goodput of the job's fitted model at the requested batch
    size. A job without a model, as before its first start, gets one GPU. Jobs whose number of GPUs
    does not change keep them; the others are placed in order of their number, on the emptiest
    nodes.

    Parameters
    ----------
    exact
        Whether the GPUs are shared out exactly rather than one after the other.
    interval
        Seconds to look ahead.
    normalised_by
        Unit of the falls of losses.
    """

    exact: bool = False
    interval: float = 60.0
    normalised_by: NormalisedBy = "largest_fall"
    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Share the GPUs out, then place them."""
        problem = one_each(self.gains(round_), round_.cluster.num_gpus)
        shared = share_exactly(problem) if self.exact else share_greedily(problem)
        names = (job.name for job in round_.jobs)
        replicas = dict(zip(names, shared.amounts.tolist(), strict=True))
        return Decision(place_changed(round_, replicas))

    def gains(self, round_: Round) -> Floats:
        """Return the gain of every job on 0, 1, 2, … GPUs; minus infinity beyond its most."""
        total, per_node = round_.cluster.num_gpus, int(round_.cluster.node_gpus.max())
        most = [min(_most(job), total) for job in round_.jobs]
        ahead = np.zeros((len(most), max(most) + 1))
        histories = [_history(job) for job in round_.jobs]
        for row, job in enumerate(round_.jobs):
            if histories[row] is not NOTHING_YET:
                rate = _steps_per_second(job, most[row], per_node)
                ahead[row, 1 : most[row] + 1] = self.interval * rate
        gains = loss_reductions(histories, ahead, self.normalised_by)
        return np.where(np.arange(ahead.shape[1]) <= np.array(most)[:, None], gains, -np.inf)


def _history(job: ActiveJob) -> LossHistory:
    """Return the losses of a job without spikes."""
    history = job.losses()
    if history is None:
        return NOTHING_YET
    if not history.losses.size:
        return history
    return history._replace(losses=np.where(spikes(history.losses), np.nan, history.losses))


def _most(job: ActiveJob) -> int:
    """Return the most GPUs that a job may have and its batch size can be split over."""
    return max(min(job.max_replicas, job.splits), 1)


def _steps_per_second(job: ActiveJob, most: int, per_node: int) -> Floats:
    """Return the steps at M0 per second on 1, 2, … GPUs; 0 before there is a model."""
    model = job.model()
    if model is None:
        return np.zeros(most)
    replicas = np.arange(1, most + 1)
    atomic, accumulation = _splits(job.batch_size, most, model.batch)
    rate = goodput(model, np.ceil(replicas / per_node), replicas, atomic, accumulation)
    return np.asarray(rate / model.batch.initial)


@lru_cache(maxsize=4096)
def _splits(batch: int, most: int, limits: BatchLimits) -> tuple[Floats, Floats]:
    """Return examples a pass and accumulation steps on 1, 2, … GPUs."""
    found = [split_batch(batch, replicas, limits) for replicas in range(1, most + 1)]
    split = np.array([[choice.atomic, choice.accumulation_steps] for choice in found], dtype=float)
    return split[:, 0], split[:, 1]
