"""Step times of parameter-server training, fitted to the models that DL2 measured.

Eight models, each with its coefficients, its batch size, and the range that was measured; and what
cores do for a server and for a CPU worker of a typical model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.data.applications.profiles import ErrorSummary
from goodalloc.data.documents.json_file import as_float, check_keys, shown
from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.parameter_servers.slowdown import CoreEfficiency
from goodalloc.models.parameter_servers.step_time import PsStepTime, StepTimeCoefficients
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_name,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

FORMAT = "goodalloc-step-times"
VERSION = 1

#: Where they ship.
SHIPPED = "profiles/step_times.json"

#: Who has cores.
ROLES = ("server", "worker")


@dataclass(frozen=True, slots=True)
class StepTimeProfile:
    """Measured model.

    Parameters
    ----------
    name
        Name of the model.
    parameters
        Fitted parameters of its step time.
    batch_size
        Examples of a step of all workers together.
    most_servers, most_workers
        Most measured servers and workers; together they were at most 24.
    measurements
        Number of fitted configurations.
    errors
        Errors of the fitted step times.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    parameters: PsStepTime
    batch_size: int
    most_servers: int
    most_workers: int
    measurements: int
    errors: ErrorSummary

    def __post_init__(self) -> None:
        require_name("Step time", self.name)
        item = f"Step time of '{self.name}'"
        for field in COUNTS:
            require_count(f"{item}: {field}", getattr(self, field), 1)
        for field, value in self.errors._asdict().items():
            require_number(f"{item}: {field}", value, 0.0)


#: Fields of a profile that are counts.
COUNTS = ("batch_size", "most_servers", "most_workers", "measurements")


class StepTimes(NamedTuple):
    """Shipped step times.

    Attributes
    ----------
    profiles
        By name of the model, in their order.
    cores
        Fitted effect of cores by role, "server" and "worker".
    """

    profiles: Mapping[str, StepTimeProfile]
    cores: Mapping[str, CoreEfficiency]


def parse_step_times(text: str) -> StepTimes:
    """Read step times in the format of `profiles/README.md`.

    Raises
    ------
    ValueError
        If the format or version differs, a field is missing, or a number is out of range.
    """
    document = parse_document(text, FORMAT, VERSION)
    check_keys("Step times", document, ("format", "version", "source", "form", "cores", "models"))
    form = StepTimeForm(**check_keys("Step times: form", document["form"], FORM))
    cores = check_keys("Step times: cores", document["cores"], ROLES)
    models = document["models"]
    if not isinstance(models, dict) or not models:
        raise ValueError(f"Step times: models is {shown(models)}; expected an object of models.")
    return StepTimes(
        {name: _profile(name, form, models[name]) for name in sorted(models)},
        {
            role: CoreEfficiency(**_numbers(f"Step times: cores of a {role}", cores[role], CURVE))
            for role in ROLES
        },
    )


#: Fields of the form that is shipped, and of an efficiency.
FORM = ("synchronous", "update_load")
CURVE = ("best", "drop", "rate")


def _profile(name: str, form: StepTimeForm, entry: object) -> StepTimeProfile:
    item = f"Step time of '{name}'"
    found = check_keys(item, entry, (*COUNTS, "coefficients", "errors"))
    numbers = _numbers(f"{item}: coefficients", found["coefficients"], StepTimeCoefficients._fields)
    errors = _numbers(f"{item}: errors", found["errors"], ErrorSummary._fields)
    try:
        parameters = PsStepTime(StepTimeCoefficients(**numbers), form)
    except ValueError as error:
        raise ValueError(f"{item}: {error}") from error
    return StepTimeProfile(
        name, parameters, errors=ErrorSummary(**errors), **{key: found[key] for key in COUNTS}
    )


def _numbers(item: str, value: object, names: tuple[str, ...]) -> dict[str, float]:
    """Return an object of these numbers, checked."""
    numbers: dict[str, Any] = {}
    for name, number in check_keys(item, value, names).items():
        numbers[name] = as_float(number)
        require_number(f"{item}: {name}", numbers[name])
    return numbers


@lru_cache(maxsize=1)
def _shipped() -> StepTimes:
    """Return the shipped step times, read once."""
    return parse_step_times(read_shipped(SHIPPED))


def step_time_names() -> tuple[str, ...]:
    """Return the names of the shipped models in alphabetical order."""
    return tuple(_shipped().profiles)


def load_step_time(name: str) -> StepTimeProfile:
    """Return a shipped model.

    Raises
    ------
    ValueError
        If there is none of that name.
    """
    require_choice("Step time: model", name, step_time_names())
    return _shipped().profiles[name]


def load_core_efficiency(role: str) -> CoreEfficiency:
    """Return the fitted effect of cores on the updates of a typical server, or on a CPU worker.

    Parameters
    ----------
    role
        One of `ROLES`.

    Raises
    ------
    ValueError
        If it is not.
    """
    require_choice("Core efficiency: role", role, ROLES)
    return _shipped().cores[role]
