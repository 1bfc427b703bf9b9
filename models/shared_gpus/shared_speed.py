r"""Speeds of jobs that share GPUs, and whether their memory allows it.

Alone on its GPUs a job keeps them busy for the part *u* of a step. With *s* accumulation passes of
*m* examples before the one that synchronises, each of
:math:`T_{grad} = \alpha + \beta m` seconds, and the seconds :math:`T_{iter}` of a step
(`models/goodput/throughput_model.py`),

.. math:: u = \frac{(s + 1) \beta m}{T_{iter}}                                                (1)

so that a GPU has room while its job synchronises and during the fixed part of a pass, whose small
kernels leave most of it idle. Its batch takes the part

.. math:: \mu = m / m_{max}                                                                   (2)

of a GPU's memory, and two jobs fit on a GPU if their parts add up to at most 1. A host *h* and its
guest *g* have of their own speeds

.. math::

    \text{fair:} \quad r_h = r_g = (1 - l) \min(1, 1 / (u_h + u_g))                           (3)

    \text{guaranteed:} \quad r_h = 1, \qquad r_g = (1 - l) \min(1, (1 - u_h) / u_g)           (4)

with a loss *l*. Where tensors can be moved to the memory of the host machine (AntMan), jobs that
take more fit as well: the guest keeps the rest of the GPU's memory, and with a cost *c* its rate
becomes

.. math:: r_g' = r_g \, \bigl(1 + c \max(\mu_h + \mu_g - 1, 0) / \mu_g\bigr)^{-1}               (5)

In Gandiva (OSDI'18) both jobs get their kernels through as they come: (3). In AntMan (OSDI'20)
kernels of the guest are held back while the host needs the GPU: (4). A job waits for the slowest of
its replicas: a host with several guests has the least of its speeds.

All this is a documented reading: neither paper gives a formula, and no public measurement says how
these applications share a GPU. The meaning of a GPU's utilisation is a reading, too: a counter of
whether any kernel runs would count the whole of :math:`T_{grad}`.

References
----------
Xiao et al., "Gandiva: Introspective Cluster Scheduling for Deep Learning", OSDI 2018.
    https://www.usenix.org/conference/osdi18/presentation/xiao

Xiao et al., "AntMan: Dynamic Scaling on GPU Clusters for Deep Learning", OSDI 2020.
    https://www.usenix.org/conference/osdi20/presentation/xiao
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, NamedTuple, get_args

from goodalloc.models.support.tolerances import RESOURCE_TOLERANCE
from goodalloc.models.support.validation import require_choice, require_number, require_share

if TYPE_CHECKING:
    from collections.abc import Sequence

#: Way of sharing a GPU.
Way = Literal["fair", "guaranteed"]


class GpuUse(NamedTuple):
    """Use that a job makes of each of its GPUs alone.

    Attributes
    ----------
    busy
        Part of the time that they compute, *u* of (1).
    memory
        Part of their memory, (2).
    """

    busy: float
    memory: float

    def fits_beside(self, other: GpuUse) -> bool:
        """Return True if the memory of a GPU is enough for both."""
        return self.memory + other.memory <= 1.0 + RESOURCE_TOLERANCE


def busy_part(per_example: float, examples: float, passes: int, step: float) -> float:
    """Return *u* of (1), at most 1.

    Parameters
    ----------
    per_example, examples
        Seconds of an example beyond the fixed part of a pass, and examples a pass.
    passes
        Passes of a step, *s* + 1.
    step
        Seconds of a step.

    Examples
    --------
    >>> from goodalloc.models.shared_gpus import busy_part
    >>> busy_part(per_example=0.01, examples=10, passes=2, step=0.4)
    0.5
    """
    return min(passes * per_example * examples / step, 1.0)


def memory_part(examples: float, most: float) -> float:
    """Return *mu* of (2), at most 1.

    Parameters
    ----------
    examples, most
        Examples of a pass, and the most for which a GPU has memory.

    Examples
    --------
    >>> from goodalloc.models.shared_gpus import memory_part
    >>> memory_part(examples=16, most=64)
    0.25
    """
    return float(min(examples / most, 1.0))


@dataclass(frozen=True)
class Sharing:
    """Rules by which jobs share GPUs.

    Parameters
    ----------
    way
        Sharing by (3), "fair", or by (4), "guaranteed".
    loss
        Further part of the speed that a sharing job loses, *l*; a guaranteed host does not.
    offload
        The cost *c* of (5): a guest all of whose tensors were in the memory of the host machine
        would take 1 + *c* times as long. 0 where none are moved, so that memory has to fit.

    Raises
    ------
    ValueError
        If `way` is unknown, `loss` is outside [0, 1), or `offload` is negative or not finite.
    """

    way: Way = "fair"
    loss: float = 0.05
    offload: float = 0.0

    def __post_init__(self) -> None:
        require_choice("Sharing: way", self.way, get_args(Way))
        require_share("Sharing: loss", self.loss)
        if self.loss == 1.0:
            raise ValueError("Sharing: loss is 1; expected a number from 0 to below 1.")
        require_number("Sharing: offload", self.offload, minimum=0.0)

    def fits(self, host: GpuUse, guest: GpuUse) -> bool:
        """Return True if there is memory for both, or the guest's tensors can be moved."""
        return self.offload > 0 or host.fits_beside(guest)

    def host_rate(self, host: GpuUse, guests: Sequence[GpuUse]) -> float:
        """Return a host's relative speed beside guests, each on GPUs of its own; 1 with none."""
        if self.way == "guaranteed" or not guests:
            return 1.0
        return min(self._share(host, guest) for guest in guests)

    def guest_rate(self, host: GpuUse, guest: GpuUse) -> float:
        """Return a guest's relative speed."""
        moved = guest.memory - guest_memory(host, guest)
        slower = 1.0 + self.offload * moved / guest.memory if moved > 0 else 1.0
        return self._share(host, guest) / slower

    def _share(self, host: GpuUse, guest: GpuUse) -> float:
        """Return the relative speed of a guest, or of a fair host, with all of its memory."""
        if self.way == "guaranteed":
            room = 1.0 - host.busy
            share = 1.0 if guest.busy <= room else room / guest.busy
        else:
            share = 1.0 / max(host.busy + guest.busy, 1.0)
        return (1.0 - self.loss) * share


def guest_memory(host: GpuUse, guest: GpuUse) -> float:
    """Return the part of a GPU's memory for a guest: its need, or the rest beside its host.

    Examples
    --------
    >>> from goodalloc.models.shared_gpus import GpuUse, guest_memory
    >>> guest_memory(GpuUse(busy=0.5, memory=0.75), GpuUse(busy=0.5, memory=0.5))
    0.25
    """
    return min(guest.memory, 1.0 - host.memory)


#: Sharing as in Gandiva, and as in AntMan.
FAIR, GUARANTEED = Sharing("fair"), Sharing("guaranteed")
