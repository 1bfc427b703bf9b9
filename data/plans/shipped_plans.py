"""Model of execution plans that ships, fitted to Arena's published estimates (EuroSys'26)."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.plans.execution_plan import Shape, Training
from goodalloc.models.plans.plan_model import PlanModel
from goodalloc.models.plans.plan_times import PlanTimes

if TYPE_CHECKING:
    from goodalloc.data.documents.json_file import Document

FORMAT, VERSION, SHIPPED = "goodalloc-plan-model", 1, "profiles/plans.json"


def _document() -> Document:
    return parse_document(read_shipped(SHIPPED), FORMAT, VERSION)


@cache
def shipped_plan_model() -> PlanModel:
    """Return the fitted model.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_plan_model
    >>> from goodalloc.models.plans import ExecutionPlan, Shape, Training
    >>> bert, shape = Training("bert", "1.3B", 256), Shape("a100", 2, 4)
    >>> parts = shipped_plan_model().parts(bert, shape, ExecutionPlan(1, 8, 1))
    >>> parts.computation > parts.within_stages > parts.between_stages
    True
    """
    return PlanModel(_document()["coefficients"])


@cache
def shipped_plan_times() -> PlanTimes:
    """Return the fastest plan by the fitted model, of every training on the shapes it fits on.

    A shape is there where the profiler found a plan that fits in memory.

    Examples
    --------
    >>> from goodalloc.data.plans import shipped_plan_times
    >>> len(shipped_plan_times().trainings)
    27
    """
    model = shipped_plan_model()
    found = []
    for name, shapes in _document()["shapes"].items():
        family, parameters, batch = name.split()
        training = Training(family, parameters, int(batch))
        for gpu_type, nodes, gpus in shapes:
            shape = Shape(gpu_type, nodes, gpus)
            found.append(model.fastest(training, shape))
    return PlanTimes.of(one for one in found if one is not None)
