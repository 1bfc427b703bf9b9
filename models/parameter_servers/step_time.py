r"""Step time of training with parameter servers (Optimus, AITurbo).

A step has five parts: forward and backward pass, gradient push, parameter update, parameter pull;
then there is the overhead of every worker and server. With *w* workers, *p* servers and *m*
examples per worker and step (of a synchronous job :math:`m = M / w`, *M* being its batch size)

.. math::

    T = c_w \Bigl(t_0 \frac{m}{\max(g, 1)} + t_1\Bigr) + \frac{t_2}{B} \frac{w}{p} + t_3 \, c_p \, u
    + t_4 w + t_5 p + t_6 \lceil g \rceil.                                                      (1)

:math:`c_w` and :math:`c_p` are the slowdowns of a worker and of a server
(`models/parameter_servers/slowdown.py`), *B* the bandwidth over that measured, *g* the GPUs of a
worker. In a synchronous job a step takes *T*; in an asynchronous one every worker makes its own of
*m = M* examples: one ends every *T / w*. Optimus's functions are special cases, with the same five
and four coefficients as in its code (github.com/pengyanghua/optimus, commit 8c43920):

.. math::

    T = \theta_0 \frac{M}{w} + \theta_1 + \theta_2 \frac{w}{p} + \theta_3 w + \theta_4 p
    \quad \text{(synchronous)}, \qquad
    T = \theta_0 + \theta_1 \frac{w}{p} + \theta_2 w + \theta_3 p \quad \text{(asynchronous)}.  (2)

AITurbo's formula could not be read. (1) is a documented reading of a follow-on's code
(github.com/MaoZzzzz/Aiturbo-vGPU, commit 11ab921), in which GPU workers do not slow down with few
cores; that the GPUs of a worker share its examples is ours. *u* is what an update costs, of which
there are three readings: each server applies the gradient of every worker to its part of the
parameters, *w / p* (the code); the same at any scale, 1 (a comment in the code); or each applies
the averaged gradient once, *1 / p*, which neither says but synchronous training does. No
coefficient is negative, so more cores, more bandwidth or more of a GPU never slow a step down.

References
----------
Peng et al., "Optimus: An Efficient Dynamic Resource Scheduler for Deep Learning Clusters", EuroSys
    2018. doi:10.1145/3190508.3190517

Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.models.parameter_servers.configuration import checked_configuration
from goodalloc.models.parameter_servers.step_time_form import StepTimeForm
from goodalloc.models.support.validation import as_numbers, require_all, require_number

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float

    from goodalloc.models.parameter_servers.configuration import PsConfiguration
    from goodalloc.models.support.array_types import Flags, Floats, Numbers


#: Largest coefficient: thirty years, far beyond any that was ever measured.
LARGEST_SECONDS = 1e9


class StepTimeCoefficients(NamedTuple):
    """Coefficients t0 to t6 of (1), in seconds.

    Attributes
    ----------
    per_example
        Forward and backward pass per example.
    compute
        Forward and backward pass whatever the batch size.
    transfer
        Push and pull of one worker's gradient and parameters through one server.
    update
        Update of the parameters.
    worker, server
        Overhead per worker and per server.
    gpu
        Aggregation per GPU of a worker.
    """

    per_example: float = 0.0
    compute: float = 0.0
    transfer: float = 0.0
    update: float = 0.0
    worker: float = 0.0
    server: float = 0.0
    gpu: float = 0.0


class StepTimeParts(NamedTuple):
    """Parts of a step in seconds, each an array over configurations, which add up to the step.

    Of an asynchronous job they are a worker's over the number of workers, as is the step.
    """

    forward_backward: Float[Floats, ...]
    push_pull: Float[Floats, ...]
    update: Float[Floats, ...]
    workers: Float[Floats, ...]
    servers: Float[Floats, ...]
    aggregation: Float[Floats, ...]


@dataclass(frozen=True, slots=True)
class PsStepTime:
    """Step-time model (1) of a job.

    Parameters
    ----------
    coefficients
        t0 to t6.
    form
        Form of the model: all else than the coefficients.

    Raises
    ------
    ValueError
        If a coefficient is negative or not finite, or some configuration would take no time.
    """

    coefficients: StepTimeCoefficients
    form: StepTimeForm = field(default_factory=StepTimeForm)

    def __post_init__(self) -> None:
        for name, value in self.coefficients._asdict().items():
            require_number(f"Step time: {name}", value, 0.0)
            if value > LARGEST_SECONDS:
                raise ValueError(
                    f"Step time: {name} is {value:g}; expected at most {LARGEST_SECONDS:g}."
                )
        if not any(self.coefficients[:-1]):
            raise ValueError(
                "Step time: all coefficients but gpu are 0, so that a step on CPU workers would "
                "take no time; expected one above 0."
            )


def optimus_step_time(theta: Sequence[float], *, synchronous: bool) -> PsStepTime:
    """Return the step-time model (2) of Optimus with coefficients `theta`.

    Parameters
    ----------
    theta
        Five if synchronous, four if not, each at least 0.
    synchronous
        Whether to use the synchronous function.

    Raises
    ------
    ValueError
        If the number of coefficients differs, or one is negative or not finite.
    """
    names = optimus_terms(synchronous=synchronous)
    if len(theta) != len(names):
        raise ValueError(f"Optimus: {len(theta)} coefficients; expected {len(names)}.")
    coefficients = StepTimeCoefficients(**dict(zip(names, theta, strict=True)))
    return PsStepTime(coefficients, StepTimeForm(synchronous))


def optimus_terms(*, synchronous: bool) -> tuple[str, ...]:
    """Return the names of the coefficients of Optimus's function (2), in its order."""
    terms = ("per_example", "compute", "transfer", "worker", "server")
    return terms if synchronous else terms[1:]


class Loads(NamedTuple):
    """Factors of the coefficients.

    Attributes
    ----------
    matrix
        Factors, of shape (..., 7); without meaning where a job does not train.
    trains
        Whether a configuration trains at all.
    """

    matrix: Float[Floats, "... 7"]
    trains: Bool[Flags, ...]


def step_time_loads(
    form: StepTimeForm,
    configuration: PsConfiguration,
    batch_size: Numbers,
    bandwidth: Numbers = 1.0,
) -> Loads:
    """Return the factors of the coefficients of (1), in which a step is linear.

    Parameters
    ----------
    form, configuration, batch_size, bandwidth
        As of `seconds_per_step`.

    Raises
    ------
    ValueError
        If a configuration is invalid, or `batch_size` or `bandwidth` is not above 0.
    """
    found = checked_configuration(configuration, "Configuration")
    for name, value in (("batch_size", batch_size), ("bandwidth", bandwidth)):
        numbers = as_numbers("Step time", name, value)
        above = np.isfinite(numbers) & (numbers > 0)
        require_all(above, "Step time", name, numbers, "a finite number above 0")
    gpus = np.where(found.nothing, 1.0, found.worker_gpus)
    slowdown = form.worker_slowdown(found.worker_cores, gpus)
    trains = ~found.nothing & np.isfinite(slowdown)
    p, w = np.where(trains, found.servers, 1.0), np.where(trains, found.workers, 1.0)
    c_w = np.where(trains, slowdown, 1.0)
    c_p = form.server_cores.slowdown(found.server_cores, "Configuration: servers", trains)
    examples = np.asarray(batch_size, dtype=float) / (w if form.synchronous else 1.0)
    updates: dict[str, Any] = {"every_worker": w / p, "averaged": 1.0 / p, "constant": 1.0}
    columns = (
        c_w * examples / np.maximum(gpus, 1.0),
        c_w,
        w / p / bandwidth,
        c_p * updates[form.update_load],
        w,
        p,
        np.ceil(gpus),
    )
    matrix = np.stack(np.broadcast_arrays(*columns), axis=-1)
    if not form.synchronous:
        matrix = matrix / w[..., np.newaxis]
    return Loads(matrix, np.broadcast_to(trains, matrix.shape[:-1]))


def seconds_per_step(
    parameters: PsStepTime,
    configuration: PsConfiguration,
    batch_size: Numbers,
    bandwidth: Numbers = 1.0,
) -> Any:
    """Return the seconds between the ends of steps of a job.

    Parameters
    ----------
    parameters
        Step-time model of the job.
    configuration
        One configuration, or many as arrays.
    batch_size
        M of (1) in examples: of all workers if synchronous, of each if not.
    bandwidth
        Bandwidth over that at which the coefficients were measured.

    Returns
    -------
    ndarray
        Seconds, of the shape of the configurations; infinite where a job does not train.

    Raises
    ------
    ValueError
        If a configuration is invalid, or `batch_size` or `bandwidth` is not above 0.

    Examples
    --------
    >>> from goodalloc.models.parameter_servers import PsConfiguration, PsStepTime
    >>> from goodalloc.models.parameter_servers import StepTimeCoefficients, seconds_per_step
    >>> step = PsStepTime(StepTimeCoefficients(per_example=0.01, transfer=0.1))
    >>> round(float(seconds_per_step(step, PsConfiguration(1, 2), batch_size=32)), 6)  # 0.16 + 0.2
    0.36
    """
    loads = step_time_loads(parameters.form, configuration, batch_size, bandwidth)
    return np.where(loads.trains, loads.matrix @ np.array(parameters.coefficients), np.inf)


def step_time_parts(
    parameters: PsStepTime,
    configuration: PsConfiguration,
    batch_size: Numbers,
    bandwidth: Numbers = 1.0,
) -> StepTimeParts:
    """Return the parts of `seconds_per_step`, with the same arguments.

    Where a job does not train, the forward and backward pass is infinite and all else is 0.
    """
    loads = step_time_loads(parameters.form, configuration, batch_size, bandwidth)
    seconds = loads.matrix * np.array(parameters.coefficients)
    first, second, *others = np.moveaxis(seconds, -1, 0)
    passes = np.where(loads.trains, first + second, np.inf)
    return StepTimeParts(passes, *(np.where(loads.trains, part, 0.0) for part in others))
