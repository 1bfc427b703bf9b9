r"""heSRPT (arXiv 1903.09346) as a policy: GPUs by the optimal shares of a power-law speedup.

The remaining work of a job is what an oracle says it would take on one GPU. One power *p* is common
to all active jobs, by least squares over the GPUs *K* = 2, 4, 8, … that each may have,

.. math:: p = \frac{\sum \log K \, \log (T_j(1) / T_j(K))}{\sum \log^2 K},                   (1)

*T* being the oracle's seconds of a step. The shares of `models/classical/hesrpt.py` are rounded to
whole GPUs by the largest remainder.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.classical.hesrpt import hesrpt_shares
from goodalloc.models.support.tolerances import SMALLEST_DIVISOR, WHOLE_TOLERANCE
from goodalloc.solvers.policies.optimus import most_gpus
from goodalloc.solvers.policies.policy import Decision
from goodalloc.solvers.policies.spread_placement import place_changed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from goodalloc.solvers.policies.policy import ActiveJob, BatchSizes, Round

#: Powers beyond these are taken for these: more is no power law, or none that the shares are for.
LEAST_POWER, MOST_POWER = 0.05, 0.95

#: Of jobs that can use one GPU only, of which nothing tells a power.
ANY_POWER = 0.5


@dataclass
class HeSrpt:
    """Shares for the least mean flow time, were the speedup *K^p* and nobody still to come.

    The job with the least work left has the largest share. Nobody has more GPUs than the user's
    batch size fits on, and what that leaves goes to the others by their shares. Jobs whose number
    of GPUs does not change keep them; the others are placed as Optimus does. The batch size is the
    user's.
    """

    batch_sizes: BatchSizes = field(default="requested", init=False)

    def decide(self, round_: Round) -> Decision:
        """Share the GPUs out, then place them."""
        gpus, per_node = round_.cluster.num_gpus, int(round_.cluster.node_gpus.max())
        work = {
            job.name: job.oracle.remaining_steps() * job.oracle.seconds_per_step(1, per_node)
            for job in round_.jobs
        }
        jobs = sorted(round_.jobs, key=lambda job: -work[job.name])
        most = np.array([min(most_gpus(job), gpus) for job in jobs])
        shares = hesrpt_shares(len(jobs), fitted_power(jobs, most, per_node))
        replicas = whole_shares(shares, gpus, most).tolist()
        names = (job.name for job in jobs)
        return Decision(place_changed(round_, dict(zip(names, replicas, strict=True))))


def fitted_power(jobs: Sequence[ActiveJob], most: NDArray[np.int64], gpus_per_node: int) -> float:
    """The power (1) of the jobs' speedups, within what the shares are for.

    Parameters
    ----------
    jobs
        The active jobs, with their oracles.
    most
        Most GPUs of each, shape (jobs,).
    gpus_per_node
        Of the nodes that GPUs are packed onto.
    """
    above = below = 0.0
    for job, greatest in zip(jobs, most.tolist(), strict=True):
        alone = job.oracle.seconds_per_step(1, gpus_per_node)
        replicas = 2
        while replicas <= greatest:
            size = np.log(replicas)
            above += size * np.log(alone / job.oracle.seconds_per_step(replicas, gpus_per_node))
            below += size**2
            replicas *= 2
    return float(np.clip(above / below, LEAST_POWER, MOST_POWER)) if below else ANY_POWER


def whole_shares(
    shares: NDArray[np.float64], gpus: int, most: NDArray[np.int64]
) -> NDArray[np.int64]:
    """Whole GPUs near shares of all: rounded down, then one more where most is lost by that.

    Parameters
    ----------
    shares
        Above 0, of the sum 1; shape (jobs,).
    gpus
        How many there are.
    most
        Most GPUs of each job; what that leaves is shared by the others alike. Shape (jobs,).
    """
    full = np.zeros(shares.size, dtype=bool)
    while True:
        rest = max(float(shares[~full].sum()), SMALLEST_DIVISOR)
        ideal = np.where(full, most, (gpus - most[full].sum()) * shares / rest)
        over = ~full & (ideal > most)
        if not over.any():
            break
        full |= over
    whole = np.floor(ideal + WHOLE_TOLERANCE).astype(np.int64)
    left = min(gpus, int(most.sum())) - int(whole.sum())
    whole[np.lexsort((-shares, whole - ideal))[:left]] += 1
    return whole
