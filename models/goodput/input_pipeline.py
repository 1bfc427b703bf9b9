r"""Input pipeline: bounds on training speed by the cores and memory beside a GPU.

Examples are fetched, prepared on the CPU and trained on while the next ones are on their way, so
the slowest stage sets the pace (section 2 of Synergy). Seconds per example of
a replica with *c* cores and *m* GB of memory are

.. math::

    \beta(c, m) = \max \Bigl\{ \beta_{grad}, \; \frac{q}{c}, \;
    s \Bigl(1 - \min \bigl(\tfrac{m}{M}, 1\bigr)\Bigr) \Bigr\}                                (1)

with *q* core seconds to prepare an example, *s* seconds to fetch one from storage, and *M* GB in
which the data of the replica stay cached, of which a cache that never thrashes keeps the share that
fits (MinIO: Mohan et al., VLDB'21). Put in place of :math:`\beta_{grad}` of Pollux's throughput
model (OSDI'21, equation 9), (1) makes goodput sensitive to both.

References
----------
Mohan et al., "Looking Beyond GPUs for DNN Scheduling on Multi-Tenant Clusters", OSDI 2022, section
    2. https://www.usenix.org/conference/osdi22/presentation/mohan

Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 3.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from goodalloc.models.support.validation import require_number

if TYPE_CHECKING:
    from goodalloc.models.goodput.throughput_model import ThroughputParameters


class InputPipeline(NamedTuple):
    """Cost of an example before it reaches the GPU.

    Attributes
    ----------
    core_seconds
        Core seconds to prepare an example, *q*.
    fetch_seconds
        Seconds to fetch an example from storage, *s*.
    data_gb
        Memory in which all data of a replica stay cached, *M*, in GB.
    """

    core_seconds: float
    fetch_seconds: float = 0.0
    data_gb: float = 1.0


def bounded_by_input(
    parameters: ThroughputParameters, pipeline: InputPipeline, cores: float, memory_gb: float = 0.0
) -> ThroughputParameters:
    """Return the throughput parameters of a replica with `cores` and `memory_gb`, by (1).

    Raises
    ------
    ValueError
        If a number is negative or not finite, or `cores` or `data_gb` is 0.

    Examples
    --------
    >>> from goodalloc.models.goodput import InputPipeline, ThroughputParameters, bounded_by_input
    >>> parameters = ThroughputParameters(0.1, 0.01, 0.05, 0.0, 0.2, 0.01, gamma=1.0)
    >>> bounded_by_input(parameters, InputPipeline(core_seconds=0.06), cores=3).beta_grad
    0.02
    """
    require_number("Input pipeline: core_seconds", pipeline.core_seconds, minimum=0.0)
    require_number("Input pipeline: fetch_seconds", pipeline.fetch_seconds, minimum=0.0)
    require_number("Input pipeline: data_gb", pipeline.data_gb, minimum=0.0, strict=True)
    require_number("Input pipeline: cores", cores, minimum=0.0, strict=True)
    require_number("Input pipeline: memory_gb", memory_gb, minimum=0.0)
    missed = 1.0 - min(memory_gb / pipeline.data_gb, 1.0)
    slowest = max(
        float(parameters.beta_grad), pipeline.core_seconds / cores, pipeline.fetch_seconds * missed
    )
    return parameters._replace(beta_grad=slowest)
