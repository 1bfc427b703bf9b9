r"""Model of the seconds of a step by plan, in three parts that are fitted by themselves.

A step of batch *B* on *K* GPUs by the plan (*p*, *d*, *t*) takes

.. math::

    T = \frac{B}{K} \, c \; + \; a \; + \; i                                               (1)

seconds: computation, communication within the stages of the pipeline (tensor and data parallelism,
none where d = t = 1) and between them (none where p = 1). The logarithm of each of *c*, *a* and *i*
is linear in features of training, GPU and plan (`part_features`), with a small ridge, so that
sizes, types and degrees that were not measured together are interpolated; *a* has coefficients of
its own for tensor parallelism, for data parallelism and for both.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.plans.execution_plan import plans_of
from goodalloc.models.plans.plan_times import TimedPlan

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jaxtyping import Float

    from goodalloc.models.plans.execution_plan import ExecutionPlan, Shape, Training
    from goodalloc.models.support.array_types import Floats

#: Weight of the squared coefficients beside the squared errors of the logarithms.
RIDGE = 1e-3


class PlanParts(NamedTuple):
    """Seconds of a step by part; `PlanModel` predicts them, profilers measure them.

    Attributes
    ----------
    computation, within_stages, between_stages
        Seconds of computation, and of communication within and between the stages of the pipeline.
    """

    computation: float
    within_stages: float
    between_stages: float

    @property
    def total(self) -> float:
        """Seconds of the whole step, equation (1)."""
        return self.computation + self.within_stages + self.between_stages


class MeasuredPlan(NamedTuple):
    """Plan whose parts were measured.

    Attributes
    ----------
    training, shape, plan
        What was measured.
    parts
        Seconds of its parts.
    """

    training: Training
    shape: Shape
    plan: ExecutionPlan
    parts: PlanParts


@dataclass(frozen=True)
class PlanModel:
    """Fitted model.

    Parameters
    ----------
    coefficients
        Of each part (`part_name`), by feature.

    Examples
    --------
    >>> from goodalloc.models.plans import ExecutionPlan, MeasuredPlan, PlanParts, Shape, Training
    >>> from goodalloc.models.plans import fit_plan_model
    >>> bert = Training("bert", "1.3B", 128)
    >>> one = MeasuredPlan(bert, Shape("a100", 1, 1), ExecutionPlan(1, 1, 1), PlanParts(4.0, 0, 0))
    >>> two = MeasuredPlan(bert, Shape("a100", 1, 2), ExecutionPlan(1, 2, 1), PlanParts(2.0, 1, 0))
    >>> model = fit_plan_model([one, two])
    >>> round(model.parts(bert, Shape("a100", 1, 2), ExecutionPlan(1, 2, 1)).total, 1)
    3.0
    """

    coefficients: Mapping[str, Mapping[str, float]]

    def parts(self, training: Training, shape: Shape, plan: ExecutionPlan) -> PlanParts:
        """Return the predicted seconds of the parts of a step."""
        features, seconds = part_features(training, shape, plan), {}
        for part in PlanParts._fields:
            name = part_name(part, plan)
            known = self.coefficients.get(name, {})
            logarithm = sum(known.get(one, 0.0) * value for one, value in features.items())
            seconds[part] = math.exp(logarithm) if name else 0.0
        seconds["computation"] *= training.global_batch / shape.gpus
        return PlanParts(**seconds)

    def fastest(
        self,
        training: Training,
        shape: Shape,
        allowed: Callable[[ExecutionPlan], bool] = lambda _: True,
    ) -> TimedPlan | None:
        """Return the fastest of the allowed plans on a shape by this model; None without any."""
        found = [
            TimedPlan(training, shape, plan, self.parts(training, shape, plan).total)
            for plan in plans_of(shape.gpus)
            if allowed(plan)
        ]
        return min(found, key=lambda one: one.seconds, default=None)


def part_name(part: str, plan: ExecutionPlan) -> str:
    """Return the name of the coefficients of a part; empty where a plan does not have it.

    Examples
    --------
    >>> from goodalloc.models.plans import ExecutionPlan, part_name
    >>> part_name("within_stages", ExecutionPlan(pipeline=2, data=4, tensor=1))
    'within_stages data'
    """
    if part == "within_stages":
        kinds = ["data"] * (plan.data > 1) + ["tensor"] * (plan.tensor > 1)
        return f"{part} {' '.join(kinds)}" if kinds else ""
    return part if part == "computation" or plan.pipeline > 1 else ""


def part_features(training: Training, shape: Shape, plan: ExecutionPlan) -> dict[str, float]:
    """Return the features of a plan whose linear combination is the logarithm of a part's seconds.

    They are indicators of the size of the model and of the type of GPU with the family, and, for
    every family, the logarithms of the degrees, of the batch and of the nodes, and whether tensor
    or data parallelism crosses nodes.
    """
    family, tensor_across = training.model, plan.tensor > shape.gpus_per_node
    numbers = {
        "pipeline": math.log(plan.pipeline),
        "data": math.log(plan.data),
        "tensor": math.log(plan.tensor),
        "batch": math.log(training.global_batch),
        "nodes": math.log(shape.nodes),
        "data parallel": float(plan.data > 1),
        "tensor parallel": float(plan.tensor > 1),
        "tensor across nodes": float(tensor_across),
        "stage across nodes": float(plan.data * plan.tensor > shape.gpus_per_node),
    }
    indicators = {
        f"size {family} {training.parameters}": 1.0,
        f"type {shape.gpu_type}": 1.0,
        f"type {shape.gpu_type} {family}": 1.0,
    }
    by_family = {f"{name} {family}": value for name, value in numbers.items()}
    by_type = {f"{name} {shape.gpu_type}": value for name, value in numbers.items()}
    return {"one": 1.0, **indicators, **by_family, **by_type}


def fit_plan_model(measured: Sequence[MeasuredPlan]) -> PlanModel:
    """Fit the three parts to measured plans, each to those in which it occurs.

    Parameters
    ----------
    measured
        The plans, with finite seconds of at least 0.

    Raises
    ------
    ValueError
        If there are none.
    """
    if not measured:
        raise ValueError("Plans to fit: none; expected at least one.")
    groups: dict[tuple[str, str], list[MeasuredPlan]] = {}
    for one in measured:
        for part in PlanParts._fields:
            if (name := part_name(part, one.plan)) and getattr(one.parts, part) > 0:
                groups.setdefault((name, part), []).append(one)
    return PlanModel({name: _fitted(part, kept) for (name, part), kept in groups.items()})


def _fitted(part: str, measured: Sequence[MeasuredPlan]) -> dict[str, float]:
    """Return the coefficients of a part by ridge regression of the logarithm."""
    rows = [part_features(one.training, one.shape, one.plan) for one in measured]
    names = sorted({name for row in rows for name in row})
    column = {name: index for index, name in enumerate(names)}
    design = np.zeros((len(rows), len(names)))
    for index, row in enumerate(rows):
        design[index, [column[name] for name in row]] = list(row.values())
    seconds = np.array([getattr(one.parts, part) for one in measured])
    if part == "computation":
        seconds = seconds / [one.training.global_batch / one.shape.gpus for one in measured]
    normal = design.T @ design + RIDGE * np.eye(len(names))
    solution = np.linalg.solve(normal, design.T @ np.log(seconds))
    return dict(zip(names, solution.tolist(), strict=True))


def held_out_seconds(measured: Sequence[MeasuredPlan], folds: int) -> Float[Floats, " plans"]:
    """Return the seconds of every plan as predicted by a model that saw no plan of its group.

    The plans of one training on one shape are in the same of `folds` groups, so that a prediction
    interpolates between other shapes and trainings.

    Parameters
    ----------
    measured
        The plans.
    folds
        Number of groups, at least 2.
    """
    keys = sorted({(one.training, one.shape) for one in measured})
    fold = {key: index % folds for index, key in enumerate(keys)}
    predicted = np.zeros(len(measured))
    for left_out in range(folds):
        others = [one for one in measured if fold[one.training, one.shape] != left_out]
        model = fit_plan_model(others)
        for index, one in enumerate(measured):
            if fold[one.training, one.shape] == left_out:
                predicted[index] = model.parts(one.training, one.shape, one.plan).total
    return predicted
