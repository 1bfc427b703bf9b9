r"""heSRPT as a policy: GPUs by the optimal shares of a power-law speedup.

The remaining work of a job is its time on one GPU, by an oracle. One power *p* is common to all
active jobs, by least squares over the GPUs *K* = 2, 4, 8, … that each may have,

.. math:: p = \frac{\sum \log K \, \log (T_j(1) / T_j(K))}{\sum \log^2 K},                   (1)

*T* being the oracle's seconds of a step. The shares of `models/classical/hesrpt.py` are rounded to
whole GPUs by the largest remainder.

References
----------
Berg et al., "heSRPT: Parallel scheduling to minimize mean slowdown", Performance Evaluation 2020.
    doi:10.1016/j.peva.2020.102147
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

#: Limits to which fitted powers are clipped: the shares are not meant for powers beyond them.
LEAST_POWER, MOST_POWER = 0.05, 0.95

#: Power of jobs that can use one GPU only, from which none can be fitted.
ANY_POWER = 0.5


@dataclass
class HeSrpt:
    """Shares for the least mean flow time, if the speedup were *K^p* and no jobs were to come.

    The job with the least remaining work has the largest share. No job has more GPUs than its batch
    size fits on; the GPUs freed by that go to the others by their shares. Jobs whose number of GPUs
    does not change keep them; the others are placed as Optimus does. The batch size is the user's.
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
    """Return the power (1) of the jobs' speedups, clipped to `LEAST_POWER` and `MOST_POWER`.

    Parameters
    ----------
    jobs
        The active jobs, with their oracles.
    most
        Most GPUs of each, shape (jobs,).
    gpus_per_node
        GPUs of the nodes that they are packed onto.
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
    """Return whole GPUs near the given shares, by the largest remainder.

    Parameters
    ----------
    shares
        Shares above 0 that sum to 1; shape (jobs,).
    gpus
        Number of GPUs.
    most
        Most GPUs of each job, shape (jobs,); the GPUs freed by it are shared by the others in the
        same way.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.solvers.classical import whole_shares
    >>> whole_shares(np.array([0.6, 0.4]), 4, np.array([4, 4])).tolist()  # of 2.4 and 1.6
    [2, 2]
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
