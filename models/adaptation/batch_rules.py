r"""Rules that set the batch size while a job trains, under one interface.

- `FixedBatch`: a given total.
- `AdaBatch` (Devarakonda et al., arXiv:1712.02029; read in the abstract only, so this is a
  documented reading): after a fixed number of epochs the batch grows by a factor :math:`q` (2), and
  the learning rate decays by :math:`q d` (0.75) where it would have decayed by :math:`d` (0.375),
  so that rate over batch follows the usual schedule.
- `Cabs` (Balles et al., UAI'17): :math:`M = c \eta \xi / L` with :math:`\eta` the learning rate,
  :math:`\xi` the trace of the covariance of one example's gradient and :math:`L` the loss, taken
  to have its optimum near 0.
- `NoiseScaleBatch` (as KungFu's policies, OSDI'20, can do; a documented reading): the gradient
  noise scale times a factor.
- `GoodputBatch` (Pollux, OSDI'21, sections 3.3 and 4.1): the best goodput of the allocation, and
  only if it is predicted to rise by more than 5 % over that of the present batch size.

A rule maps a `Situation` to a `BatchChoice`. The total that it requests, M, is brought
between M0 and M_max and split into m and s (`batch_split.py`).

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, sections 3.3 and 4.1. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple, Protocol

from goodalloc.models.goodput.batch_size import best_batch_size
from goodalloc.models.goodput.batch_split import BatchChoice, split_batch
from goodalloc.models.goodput.model import GoodputModel, goodput
from goodalloc.models.goodput.statistical_efficiency import noise_scale
from goodalloc.models.support.validation import (
    require_choice,
    require_count,
    require_number,
    require_share,
)

if TYPE_CHECKING:
    from goodalloc.models.goodput.chunked import Search
    from goodalloc.models.goodput.model import BatchLimits
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics
    from goodalloc.models.goodput.throughput_model import ThroughputParameters

HYSTERESIS = 0.05
"""Rise of predicted goodput below which Pollux's agent keeps its batch size."""


class Situation(NamedTuple):
    """Information available to a batch-size rule.

    Attributes
    ----------
    nodes, replicas
        N and K of the allocation.
    present
        The batch size now.
    batch
        Limits of the batch size.
    epoch
        Passes through the data so far, whole ones.
    learning_rate
        That of the present step, as scaled.
    loss
        Mean over the examples of the last step; NaN before the first.
    gradient
        Gradient statistics; None before there are any.
    throughput
        Fitted throughput parameters; None before there are any.
    """

    nodes: int
    replicas: int
    present: BatchChoice
    batch: BatchLimits
    epoch: int = 0
    learning_rate: float = math.nan
    loss: float = math.nan
    gradient: GradientStatistics | None = None
    throughput: ThroughputParameters | None = None


class BatchRule(Protocol):
    """Protocol for rules that set the batch size."""

    def choose(self, situation: Situation) -> BatchChoice:
        """Return the batch size to continue with."""
        ...


@dataclass(frozen=True, slots=True)
class FixedBatch:
    """Constant total batch size.

    Parameters
    ----------
    total
        M in examples; M0 if None.
    """

    total: int | None = None

    def __post_init__(self) -> None:
        """Validate the parameters."""
        if self.total is not None:
            require_count("Fixed batch: total", self.total, 1)

    def choose(self, situation: Situation) -> BatchChoice:
        """Return the batch size given by `total`."""
        total = float(situation.batch.initial) if self.total is None else self.total
        return split_batch(total, situation.replicas, situation.batch)


@dataclass(frozen=True, slots=True)
class AdaBatch:
    """Batch size that grows on a schedule, with a milder decay of the learning rate.

    Parameters
    ----------
    epochs
        Between two growths.
    growth
        Factor on the batch size, q.
    decay
        What the learning rate would decay by without the growth, d.

    Notes
    -----
    Meant to go with the learning-rate rule "constant". Where M_max stops the growth, the rate
    decays by d for what is missing: rate over batch stays on its schedule.
    """

    epochs: int
    growth: float = 2.0
    decay: float = 0.375

    def __post_init__(self) -> None:
        """Validate the parameters."""
        require_count("AdaBatch: epochs", self.epochs, 1)
        require_number("AdaBatch: growth", self.growth, 1.0)
        require_number("AdaBatch: decay", self.decay, 0.0, strict=True)
        require_share("AdaBatch: decay", self.decay)

    def choose(self, situation: Situation) -> BatchChoice:
        """Return M0 grown once every `epochs` epochs."""
        times = situation.epoch // self.epochs
        initial = float(situation.batch.initial)
        found = split_batch(
            _grown(initial, self.growth, times), situation.replicas, situation.batch
        )
        reached = found.total(situation.replicas) / initial
        return found._replace(rate_factor=self.decay**times * reached)


def _grown(initial: float, growth: float, times: int) -> float:
    """Return M0 q^k, or infinity on overflow."""
    try:
        return initial * growth**times
    except OverflowError:
        return math.inf


@dataclass(frozen=True, slots=True)
class Cabs:
    """Batch size proportional to learning rate times gradient variance over loss.

    Parameters
    ----------
    constant
        c.
    """

    constant: float = 1.0

    def __post_init__(self) -> None:
        """Validate the parameters."""
        require_number("CABS: constant", self.constant, 0.0, strict=True)

    def choose(self, situation: Situation) -> BatchChoice:
        """Return CABS's batch size, or the present one until loss and statistics are known."""
        gradient, loss, rate = situation.gradient, situation.loss, situation.learning_rate
        if gradient is None or not (math.isfinite(loss) and math.isfinite(rate)):
            return situation.present
        trace = float(gradient.variance) * float(situation.batch.initial)
        wanted = self.constant * rate * trace / loss if loss > 0.0 else math.inf
        return split_batch(float(round(min(wanted, 1e18))), situation.replicas, situation.batch)


@dataclass(frozen=True, slots=True)
class NoiseScaleBatch:
    """Batch size equal to a multiple of the gradient noise scale.

    Parameters
    ----------
    factor
        On the noise scale.
    """

    factor: float = 1.0

    def __post_init__(self) -> None:
        """Validate the parameters."""
        require_number("Noise-scale batch: factor", self.factor, 0.0, strict=True)

    def choose(self, situation: Situation) -> BatchChoice:
        """Return the scaled noise scale, or the present batch size until statistics are known."""
        if situation.gradient is None:
            return situation.present
        wanted = self.factor * float(noise_scale(situation.gradient, situation.batch.initial))
        return split_batch(wanted, situation.replicas, situation.batch)


@dataclass(frozen=True, slots=True)
class GoodputBatch:
    """Batch size of the best predicted goodput, unchanged for small gains.

    Parameters
    ----------
    hysteresis
        Relative rise of predicted goodput that a change needs more than.
    search
        "grid" for the published search, "integer" for the true optimum.
    """

    hysteresis: float = HYSTERESIS
    search: Search = "grid"

    def __post_init__(self) -> None:
        """Validate the parameters."""
        require_number("Goodput batch: hysteresis", self.hysteresis, 0.0)
        require_choice("Goodput batch: search", self.search, ("integer", "grid"))

    def choose(self, situation: Situation) -> BatchChoice:
        """Return the best batch size, or the present one if unknown or not clearly worse."""
        nodes, replicas, present, batch = situation[:4]
        if situation.gradient is None or situation.throughput is None:
            return present
        model = GoodputModel(situation.throughput, situation.gradient, batch)
        best = best_batch_size(model, nodes, replicas, search=self.search)
        found = BatchChoice(int(best.atomic), int(best.accumulation_steps))
        if found.atomic == 0:
            return present
        if found.total(replicas) > batch.maximum:  # the published grid rounds up
            room = replicas * (found.accumulation_steps + 1)
            found = found._replace(atomic=int(batch.maximum) // room)
        if found.total(replicas) == batch.initial:  # one replica makes two passes of it
            found = split_batch(found.total(replicas), replicas, batch)
        now, then = (
            float(goodput(model, nodes, replicas, choice.atomic, choice.accumulation_steps))
            for choice in (present, found)
        )
        return found if then > (1.0 + self.hysteresis) * now else present


#: Rules by name, with the published constants (AdaBatch has none for its schedule).
BATCH_RULES: dict[str, BatchRule] = {
    "fixed": FixedBatch(),
    "cabs": Cabs(),
    "noise-scale": NoiseScaleBatch(),
    "goodput": GoodputBatch(),
}
