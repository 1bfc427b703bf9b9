"""Times of trainings that know no parallelism but that of data."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.plans.plan_tables import times_of
from goodalloc.models.plans.plan_times import PlanTimes, TimedPlan

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.models.plans.plan_model import MeasuredPlan


def data_parallel_times(
    times: PlanTimes, plans: Sequence[MeasuredPlan], largest: float
) -> PlanTimes:
    """Return the times of trainings by plans of data parallelism alone.

    Where plans of a training and a shape were estimated, the time of the fastest one is multiplied
    by how much slower the plan (1, *K*, 1) was estimated to be than the fastest, and without an
    estimate of that plan the training cannot run there. Where none was estimated, as on types of
    GPU without estimates, the fastest time stands for it, which errs in favour of data parallelism.

    Parameters
    ----------
    times
        Times of the fastest plans.
    plans
        Estimated plans, as of `read_estimated_plans`.
    largest
        Most parameters of a model that fits into a GPU as a whole; larger ones run nowhere.

    Examples
    --------
    >>> from goodalloc.data.plans.data_parallel import data_parallel_times
    >>> from goodalloc.models.plans import PlanTimes, Shape, TimedPlan, Training
    >>> shape, models = Shape("v100", 1, 4), [Training("moe", size, 8) for size in ("690M", "27B")]
    >>> times = PlanTimes.of(TimedPlan(model, shape, None, 2.0) for model in models)
    >>> [one.parameters for one in data_parallel_times(times, [], 2e9).trainings]
    ['690M']
    """
    fastest = times_of([*plans]).best
    alone = times_of([one for one in plans if one.plan.data == one.plan.gpus]).best
    found = []
    for training, shapes in times.best.items():
        if training.size > largest:
            continue
        for shape, timed in shapes.items():
            known = fastest.get(training, {}).get(shape)
            slower = alone.get(training, {}).get(shape)
            if known is None:
                found.append(TimedPlan(training, shape, None, timed.seconds))
            elif slower is not None:
                seconds = timed.seconds * slower.seconds / known.seconds
                found.append(TimedPlan(training, shape, slower.plan, seconds))
    return PlanTimes.of(found)
