"""Seconds of a step of trainings by shape, each by its fastest plan."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.plans.execution_plan import Configuration, Training
from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from goodalloc.models.plans.execution_plan import ExecutionPlan, Shape


class TimedPlan(NamedTuple):
    """Plan with its time.

    Attributes
    ----------
    training, shape
        What is trained, and on which GPUs.
    plan
        The plan; None for the best one, where it was not told which that is.
    seconds
        Seconds of a step.
    """

    training: Training
    shape: Shape
    plan: ExecutionPlan | None
    seconds: float


@dataclass(frozen=True)
class PlanTimes:
    """Seconds of a step by the fastest plan; what has none cannot run.

    Parameters
    ----------
    best
        The fastest plan of each training by shape.

    Raises
    ------
    ValueError
        If a time is not above 0, or a plan does not take the GPUs of its shape.

    Examples
    --------
    >>> from goodalloc.models.plans import Configuration, ExecutionPlan, PlanTimes, Shape, TimedPlan
    >>> from goodalloc.models.plans import Training
    >>> bert, shape = Training("bert", "1.3B", 128), Shape("a100", 1, 2)
    >>> slow = TimedPlan(bert, shape, ExecutionPlan(2, 1, 1), 7.05)
    >>> fast = TimedPlan(bert, shape, ExecutionPlan(1, 2, 1), 5.33)
    >>> times = PlanTimes.of([slow, fast])
    >>> times.speeds(bert, {"a100": 4})
    {Configuration(gpu_type='a100', gpus=2): 0.18761726078799248}
    >>> times.plan(bert, shape).text
    'pp1 dp2 tp1'
    """

    best: Mapping[Training, Mapping[Shape, TimedPlan]]

    def __post_init__(self) -> None:
        for training, shapes in self.best.items():
            for shape, timed in shapes.items():
                item = f"Plan of {training.model} {training.parameters} on {tuple(shape)}"
                require_number(f"{item}: seconds", timed.seconds, minimum=0.0, strict=True)
                if timed.plan is not None and timed.plan.gpus != shape.gpus:
                    raise ValueError(
                        f"{item}: {timed.plan.text} takes {timed.plan.gpus} GPUs; expected "
                        f"{shape.gpus}."
                    )

    @staticmethod
    def of(timed: Iterable[TimedPlan]) -> PlanTimes:
        """Return the fastest of these plans for every training and shape, the first of equals."""
        best: dict[Training, dict[Shape, TimedPlan]] = {}
        for one in timed:
            shapes = best.setdefault(one.training, {})
            if one.shape not in shapes or one.seconds < shapes[one.shape].seconds:
                shapes[one.shape] = one
        return PlanTimes(best)

    @property
    def trainings(self) -> tuple[Training, ...]:
        """Trainings that some shape is known of, in order."""
        return tuple(sorted(self.best))

    def plan(self, training: Training, shape: Shape) -> ExecutionPlan | None:
        """Return the fastest plan on a shape; None where it cannot run or the plan is unknown."""
        timed = self.best.get(training, {}).get(shape)
        return None if timed is None else timed.plan

    def speeds(
        self, training: Training, node_gpus: Mapping[str, int]
    ) -> dict[Configuration, float]:
        """Return the steps a second of a training in every configuration that it can run in.

        Parameters
        ----------
        training
            The training; one that is not known runs nowhere.
        node_gpus
            GPUs of a node of each type.
        """
        found = {}
        for shape, timed in sorted(self.best.get(training, {}).items()):
            size = node_gpus.get(shape.gpu_type, 0)
            one_node = shape.nodes == 1 and shape.gpus_per_node <= size
            if one_node or (shape.nodes > 1 and shape.gpus_per_node == size):
                found[Configuration(shape.gpu_type, shape.gpus)] = 1.0 / timed.seconds
        return found

    def with_smaller_models(self, faster: float) -> PlanTimes:
        """Return the times with those of smaller models filled in from the next larger one.

        Where a larger model of a family runs, a smaller one does; a step is taken to be `faster`
        times as fast for each step down in size (as the simulator of Arena's artifact does).

        Parameters
        ----------
        faster
            Ratio of speeds of neighbouring sizes, above 0.
        """
        require_number("Ratio of speeds", faster, minimum=0.0, strict=True)
        sizes: dict[str, list[str]] = {}
        for training in sorted(self.best, key=lambda one: one.size):
            ladder = sizes.setdefault(training.model, [])
            if training.parameters not in ladder:
                ladder.append(training.parameters)
        found = {training: dict(shapes) for training, shapes in self.best.items()}
        for model, ladder in sizes.items():
            batches = {one.global_batch for one in self.best if one.model == model}
            for batch in sorted(batches):
                known = [
                    self.best.get(Training(model, parameters, batch), {}) for parameters in ladder
                ]
                for step, parameters in enumerate(ladder):
                    mine = found.setdefault(Training(model, parameters, batch), {})
                    for up in range(step + 1, len(ladder)):
                        for shape, timed in known[up].items():
                            seconds = timed.seconds / faster ** (up - step)
                            mine.setdefault(
                                shape,
                                timed._replace(
                                    training=Training(model, parameters, batch), seconds=seconds
                                ),
                            )
        return PlanTimes({training: shapes for training, shapes in found.items() if shapes})
