"""Table of models in an instance file, which its jobs share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.json_file import as_float, check_keys, check_list, shown
from goodalloc.models.goodput.model import BatchLimits, GoodputModel, validate
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
from goodalloc.models.goodput.throughput_model import ThroughputParameters
from goodalloc.models.round.mode import SpeedupTable
from goodalloc.models.support.validation import literal, require_number

if TYPE_CHECKING:
    from goodalloc.data.documents.json_file import Document
    from goodalloc.models.round.mode import JobModel


class ModelTable:
    """Models of an instance, each written once."""

    def __init__(self) -> None:
        self.entries: dict[str, Document] = {}
        self._by_identity: dict[int, str] = {}
        self._by_value: dict[tuple[object, ...], str] = {}
        self._counts: dict[str, int] = {}

    def name(self, model: JobModel, application: str) -> str | None:
        """Return the name of a model in the table, and add the model if it is new."""
        if model is None:
            return None
        known = self._by_identity.get(id(model))
        if known is None:
            known = self._by_identity[id(model)] = self._add(model, application or "model")
        return known

    def _add(self, model: GoodputModel | SpeedupTable, prefix: str) -> str:
        entry = model_to_dict(model)
        value = tuple(
            tuple(part.values()) if isinstance(part, dict) else tuple(part)
            for part in entry.values()
        )
        if value not in self._by_value:
            count = self._counts[prefix] = self._counts.get(prefix, -1) + 1
            self._by_value[value] = f"{prefix}-{count}"
            self.entries[f"{prefix}-{count}"] = entry
        return self._by_value[value]


def model_to_dict(model: GoodputModel | SpeedupTable) -> Document:
    """Return an entry of the table of models as a JSON object.

    Examples
    --------
    >>> from goodalloc.data.files import model_to_dict
    >>> from goodalloc.models.round import SpeedupTable
    >>> sorted(model_to_dict(SpeedupTable((1.0, 1.8), (0.9, 1.5))))
    ['one_node', 'several_nodes']
    """
    if isinstance(model, SpeedupTable):
        return {
            name: [float(s) for s in row] for name, row in zip(model._fields, model, strict=True)
        }
    batch = {
        name: bool(value) if name == "accumulation" else int(value)
        for name, value in model.batch._asdict().items()
    }
    return {
        "throughput": {name: float(value) for name, value in model.throughput._asdict().items()},
        "gradient": {name: float(value) for name, value in model.gradient._asdict().items()},
        "batch": batch,
    }


def model_from_dict(item: str, value: object) -> GoodputModel | SpeedupTable:
    """Return the model of an entry of the table.

    Raises
    ------
    ValueError
        If the entry is malformed or a value is out of range; the message begins with `item`.
    """
    if not isinstance(value, dict):
        raise ValueError(f"{item} is {shown(value)}; expected an object.")
    if "application" in value:
        return _profiled(item, check_keys(item, value, ("application", "progress")))
    if "one_node" in value or "several_nodes" in value:
        check_keys(item, value, SpeedupTable._fields)
        return SpeedupTable(*(_speedups(item, name, value[name]) for name in SpeedupTable._fields))
    check_keys(item, value, GoodputModel._fields)
    model = GoodputModel(
        ThroughputParameters(**_numbers(item, value["throughput"], ThroughputParameters._fields)),
        GradientStatistics(**_numbers(item, value["gradient"], GradientStatistics._fields)),
        BatchLimits(**_batch_limits(item, value["batch"])),
    )
    return validate(model, item)


def _speedups(item: str, name: str, value: object) -> tuple[float, ...]:
    row = [as_float(speedup) for speedup in check_list(f"{item}: {name}", value)]
    if not row and name == "one_node":
        raise ValueError(f"{item}: {name} is empty; expected a speedup for every number of GPUs.")
    for gpus, speedup in enumerate(row, start=1):
        require_number(f"{item}: {name} speedup on {gpus} GPUs", speedup, minimum=0.0)
    return tuple(row)


def _numbers(item: str, value: object, names: tuple[str, ...]) -> dict[str, float]:
    given = check_keys(item, value, names)
    numbers = {}
    for name in names:
        require_number(f"{item}: {name}", given[name])
        numbers[name] = float(given[name])
    return numbers


def _batch_limits(item: str, value: object) -> dict[str, Any]:
    given = check_keys(item, value, BatchLimits._fields)
    for name in BatchLimits._fields:
        wanted = bool if name == "accumulation" else int
        if type(given[name]) is not wanted:
            expected = "true or false" if wanted is bool else "a whole number of examples"
            raise ValueError(f"{item}: {name} is {shown(given[name])}; expected {expected}.")
    return given


def _profiled(item: str, value: Document) -> GoodputModel:
    """Return the model of a shipped application at some progress."""
    from goodalloc.data.applications.profiles import application_names, load_profile

    application, progress = value["application"], value["progress"]
    if application not in application_names():
        known = ", ".join(application_names())
        raise ValueError(f"{item}: application is {shown(application)}; expected one of {known}.")
    require_number(f"{item}: progress", progress, minimum=0.0)
    if progress > 1:
        raise ValueError(f"{item}: progress is {literal(progress)}; expected 0 to 1.")
    return load_profile(application).goodput_model(float(progress))
