r"""Slowdown of a computation with fewer cores, or with a share of a GPU.

Both are curves that the follow-on of AITurbo (HPDC'21; github.com/MaoZzzzz/Aiturbo-vGPU, commit
11ab921) fits to every model, *x* cores and the share *s* of a GPU:

.. math:: \mathrm{eff}(x) = d - a \, e^{-b x}                                                  (1)

.. math:: g(s) = \frac{b_0}{b_1 + s} + b_2                                                     (2)

A computation takes :math:`d / \mathrm{eff}(x)` times as long as with any number of cores, and
:math:`g(s) / g(1)` times as long as on a whole GPU. The paper itself could not be read. The
published curves were fitted without bounds; here a curve that would slow a job down for having more
is refused.

References
----------
Zhao et al., "AITurbo: Unified Compute Allocation for Partial Predictable Training in Commodity
    Clusters", HPDC 2021. doi:10.1145/3431379.3460639
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.models.support.validation import require_all, require_number

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Array, Numbers


@dataclass(frozen=True, slots=True)
class CoreEfficiency:
    """Efficiency of cores (1); the default gains nothing from more cores.

    Parameters
    ----------
    best
        Limit of the efficiency, *d*, above 0.
    drop
        Loss without any cores, *a*; above *d* some cores are needed to compute at all.
    rate
        Rate at which cores help, *b*, per core.

    Raises
    ------
    ValueError
        If a number is negative or not finite, or `best` is 0.
    """

    best: float = 1.0
    drop: float = 0.0
    rate: float = 0.0

    def __post_init__(self) -> None:
        require_number("Core efficiency: best", self.best, 0.0, strict=True)
        require_number("Core efficiency: drop", self.drop, 0.0)
        require_number("Core efficiency: rate", self.rate, 0.0)

    def slowdown(
        self, cores: Numbers, name: str = "Core efficiency", used: Numbers = True
    ) -> Array:
        """Return the time over that with any number of cores, at least 1.

        Parameters
        ----------
        cores
            At least 0, of any shape.
        name
            Name of the cores in a message.
        used
            Whether anything is computed on them; the slowdown is 1 where not.

        Raises
        ------
        ValueError
            If the efficiency of `cores` is not above 0.
        """
        missing = self.drop / self.best * np.exp(-self.rate * np.asarray(cores, dtype=float))
        part = np.where(used, 1.0 - missing, 1.0)
        require_all(part > 0.0, name, "cores", cores, "so many that their efficiency is above 0")
        return 1.0 / part


@dataclass(frozen=True, slots=True)
class GpuShare:
    """Slowdown on a share of a GPU (2); by default a part is as fast as its size.

    Parameters
    ----------
    scale, shift
        *b0* and *b1*, at least 0.
    constant
        *b2*; if negative, a whole GPU must still take time.

    Raises
    ------
    ValueError
        If a number is not finite, one of the first two is negative, or a whole GPU takes no time.
    """

    scale: float = 1.0
    shift: float = 0.0
    constant: float = 0.0

    def __post_init__(self) -> None:
        require_number("GPU share: scale", self.scale, 0.0)
        require_number("GPU share: shift", self.shift, 0.0)
        require_number("GPU share: constant", self.constant)
        require_number("GPU share: time on a whole GPU", self._time(1.0), 0.0, strict=True)

    def slowdown(self, share: Numbers) -> Array:
        """Return the time over that on a whole GPU, for shares above 0 and up to 1."""
        slowdown: Array = self._time(np.asarray(share, dtype=float)) / self._time(1.0)
        return slowdown

    def _time(self, share: Numbers) -> Any:
        return self.scale / (self.shift + share) + self.constant
