r"""Step of a sharded training in passes: its micro-batch, and why the largest that fits is fastest.

Fully sharded training on *K* GPUs is the plan (1, *K*, 1): every GPU is a data-parallel replica. Of
the *B* sequences of a step, none has more than :math:`M = \lceil B / K \rceil`. A replica takes
them in passes of *m* sequences, its *micro-batch*, the last pass with the rest, and sums their
gradients (gradient accumulation). Equation (2) of `goodalloc.models.plans.sharded_training` is
linear in *m*,

.. math:: T(m) = k m + o, \qquad k = (c + r z + b \log_2 n) (6 N S + a S^2) + d a S^2,

so that a step of :math:`s = \lceil M / m \rceil` passes takes

.. math:: (s - 1) \, T(m) + T(M - (s - 1) m) = k M + s o                                    (3)

seconds. The micro-batch matters by the number of passes alone, and as *o* is not negative, the
fewest are fastest: those of the largest micro-batch that fits into memory. All micro-batches with
as few passes are equally fast by (3); the smallest of them, :math:`\lceil M / s \rceil`, is stated,
which needs the least memory.

By measured times, passes of one or two sequences take longer than (2) says, since so little
computation does not hide that parameters are gathered; that is one more reason for few. Not
compared is whether activations are computed again (*z*): it is given with the most that fits.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.plans.execution_plan import ExecutionPlan
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from goodalloc.models.plans.sharded_training import ShardedPass, ShardedTimes


class AccumulatedStep(NamedTuple):
    """Step of a training: its plan and its micro-batch.

    Attributes
    ----------
    plan
        Degrees of parallelism.
    micro_batch
        Sequences of a replica in a pass.
    passes
        Passes of a replica; the last may have fewer sequences.
    seconds
        Seconds of the step.

    Examples
    --------
    >>> from goodalloc.models.plans import AccumulatedStep, ExecutionPlan
    >>> AccumulatedStep(ExecutionPlan(1, 64, 1), micro_batch=8, passes=2, seconds=3.5).text
    'pp1 dp64 tp1, micro-batch 8, 2 passes'
    """

    plan: ExecutionPlan
    micro_batch: int
    passes: int
    seconds: float

    @property
    def text(self) -> str:
        """Plan, micro-batch and passes as people write them."""
        noun = "pass" if self.passes == 1 else "passes"
        return f"{self.plan.text}, micro-batch {self.micro_batch}, {self.passes} {noun}"


def accumulated_seconds(times: ShardedTimes, one: ShardedPass, batch: int) -> float:
    """Return the seconds of a step in passes like this one, equation (3).

    Parameters
    ----------
    times
        Seconds of passes.
    one
        A pass with as many sequences as the micro-batch.
    batch
        Sequences of a step, on all GPUs together.

    Raises
    ------
    ValueError
        If the micro-batch or the batch is no positive number, or as `ShardedTimes.seconds`.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_language_models, shipped_llm_times
    >>> from goodalloc.models.plans import accumulated_seconds
    >>> from goodalloc.models.plans.sharded_training import ShardedPass
    >>> one = ShardedPass(shipped_language_models()["7b"], "h100_80gb", 64, 2048, sequences=6)
    >>> round(accumulated_seconds(shipped_llm_times(), one, batch=512), 2)
    1.65
    """
    require_count("Pass: sequences", one.sequences, minimum=1)
    require_count("Step: batch", batch, minimum=1)
    full, rest = divmod(math.ceil(batch / one.gpus), one.sequences)
    seconds = full * times.seconds(one) if full else 0.0
    return seconds + (times.seconds(one._replace(sequences=rest)) if rest else 0.0)


def fastest_step(times: ShardedTimes, largest: ShardedPass, batch: int) -> AccumulatedStep:
    """Return the fastest step of a sharded training: that in as few passes as fit.

    Parameters
    ----------
    times
        Seconds of passes.
    largest
        A pass with the most sequences that fit.
    batch
        Sequences of a step, on all GPUs together.

    Raises
    ------
    ValueError
        As `accumulated_seconds`.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_language_models, shipped_llm_times
    >>> from goodalloc.models.plans import fastest_step
    >>> from goodalloc.models.plans.sharded_training import ShardedPass
    >>> largest = ShardedPass(shipped_language_models()["7b"], "h100_80gb", 64, 2048, sequences=6)
    >>> fastest_step(shipped_llm_times(), largest, batch=512).text
    'pp1 dp64 tp1, micro-batch 4, 2 passes'
    """
    require_count("Pass: sequences", largest.sequences, minimum=1)
    require_count("Step: batch", batch, minimum=1)
    of_replica = math.ceil(batch / largest.gpus)
    passes = math.ceil(of_replica / largest.sequences)
    micro_batch = math.ceil(of_replica / passes)
    seconds = accumulated_seconds(times, largest._replace(sequences=micro_batch), batch)
    return AccumulatedStep(ExecutionPlan(1, largest.gpus, 1), micro_batch, passes, seconds)
