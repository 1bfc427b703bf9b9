"""Split of a total batch size into examples per pass and passes.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    from goodalloc.models.goodput.model import BatchLimits


class BatchChoice(NamedTuple):
    """Batch size, with a factor that the rule applies to the learning rate.

    Attributes
    ----------
    atomic
        m, examples per replica and pass.
    accumulation_steps
        s, extra passes per step.
    rate_factor
        Factor on the learning rate, besides that of its own rule; 1 but for AdaBatch.
    """

    atomic: int
    accumulation_steps: int
    rate_factor: float = 1.0

    def total(self, replicas: int) -> int:
        """Return M, the examples of a step."""
        return replicas * self.atomic * (self.accumulation_steps + 1)


def split_batch(total: float, replicas: int, batch: BatchLimits) -> BatchChoice:
    """Split a total batch size into m and s, with the fewest passes that m allows.

    A single replica makes at least two passes if accumulation is allowed and half the batch is no
    smaller than the least atomic batch, since an estimate of the gradient noise scale needs two
    gradients a step. Pollux does so only for batches above M0; at M0 it compares consecutive steps
    instead, an estimate that diverges where the parameters move between them (`gradient_noise.py`).
    The batch is rounded up, as on Pollux's grid, but where that leads beyond M_max, down.

    Parameters
    ----------
    total
        Requested M, in examples; clipped to M0 and M_max.
    replicas
        K.
    batch
        Limits.

    Raises
    ------
    ValueError
        If `total` is NaN, `replicas` is not a positive integer, or no batch within the limits can
        be shared by the replicas.

    Examples
    --------
    >>> from goodalloc.models.goodput import split_batch
    >>> from goodalloc.models.goodput import BatchLimits
    >>> choice = split_batch(600, 4, BatchLimits(100, 1000, 10, 100))  # 4 replicas, 2 passes of 75
    >>> choice.atomic, choice.accumulation_steps
    (75, 1)
    """
    require_number("Batch: total", total, finite=False)
    require_count("Batch: replicas", replicas, 1)
    least = replicas * int(batch.atomic_minimum)
    most = int(batch.maximum)
    largest = replicas * int(batch.atomic_maximum)
    if least > most or (largest < batch.initial and not batch.accumulation):
        raise ValueError(
            f"Batch: {replicas} replicas share {least} to {largest} examples a pass; expected "
            f"some total from {batch.initial} to {batch.maximum}."
        )
    wanted = min(max(total, float(batch.initial), float(least)), float(most))
    passes = 1
    if batch.accumulation:
        passes = math.ceil(wanted / largest)
        halves = 2 * math.ceil(wanted / 2)
        if replicas == 1 and wanted >= 2 * batch.atomic_minimum and halves <= most:
            passes = max(passes, 2)
    passes = max(min(passes, most // least), 1)
    atomic = math.ceil(wanted / (replicas * passes))
    if replicas * passes * atomic > most:
        atomic = most // (replicas * passes)
    atomic = min(max(atomic, int(batch.atomic_minimum)), int(batch.atomic_maximum))
    return BatchChoice(atomic, passes - 1)
