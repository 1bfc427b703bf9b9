r"""Squared norms of the gradients of a step of training, taken as they arise (PyTorch).

A step on K replicas that make s + 1 passes each has :math:`c = K (s + 1)` local gradients. A pass's
loss is divided by s + 1, and autograd adds its gradient to those of the passes before, as it does
without an agent; the difference between two readings of the sum is the gradient of the pass. In the
last pass of several replicas, the sum is read in the communication hook of
`DistributedDataParallel`, bucket by bucket, before the replicas exchange it.

A reading copies as many coordinates as was agreed (`gradient_sample.py`), and all else is done on
that. No pass through the network is added, and gradients live no longer than in a plain loop.

For Adam the norms are those of the preconditioned gradient. Its preconditioner hardly moves in a
few steps and is taken anew only every `REFRESH` of them, and every `EARLY` of the first ones.
"""

from __future__ import annotations

import math
import time
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.agent.gradient_sample import GradientSample
from goodalloc.models.adaptation.gradient_noise import (
    adam_preconditioner,
    from_consecutive_gradients,
    from_local_gradients,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.agent.gradient_sample import Reading
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

REFRESH, EARLY = 50, 5
"""Steps for which a preconditioner serves, and in the first of these."""


class StepNorms(NamedTuple):
    """What a step's gradients measure.

    Attributes
    ----------
    local
        Sum of the squared norms of this replica's local gradients, a tensor of one number.
    mean
        Squared norm of the mean gradient of the step, over all replicas; likewise.
    product
        Inner product of the mean gradient and that of the step before; None where there is none.
    previous
        Squared norm of the latter.
    """

    local: Any
    mean: Any
    product: Any
    previous: Any


def estimate_of(
    local: float, mean: Sequence[float], count: int, scale: float
) -> GradientStatistics | None:
    """The gradient statistics of one step; None where it says nothing about them.

    Parameters
    ----------
    local
        Sum of the squared norms of the local gradients of all replicas.
    mean
        The other norms of the step: the mean gradient's, and if there are any, the product with the
        gradient before and that one's.
    count
        c, local gradients.
    scale
        M / M0.
    """
    if not all(map(math.isfinite, (local, *mean))):
        return None
    if count > 1:
        return from_local_gradients(local / count, mean[0], count, scale)
    if len(mean) == 1:
        return None
    square, product, previous = mean
    return from_consecutive_gradients(previous, square, product, scale)


class GradientMeter:
    """Reads the gradients of a step, and has their norms.

    Parameters
    ----------
    optimiser
        Whose parameters are trained.
    replicas
        K.
    most_coordinates, seed
        What is read of a gradient, as in `GradientSample`.

    Raises
    ------
    ValueError
        If there is nothing to train.
    """

    def __init__(
        self, optimiser: Any, replicas: int, most_coordinates: int | None = None, seed: int = 0
    ) -> None:
        import torch

        self._optimiser, self._replicas = optimiser, replicas
        groups = optimiser.param_groups
        self.parameters = [one for group in groups for one in group["params"] if one.requires_grad]
        if not self.parameters:
            raise ValueError("Optimiser: 0 parameters require a gradient; expected some.")
        self._adam = isinstance(optimiser, (torch.optim.Adam, torch.optim.AdamW))
        self._index = {id(one): index for index, one in enumerate(self.parameters)}
        self._sample = GradientSample(self.parameters, most_coordinates, seed)
        self._now, self._before = (self._sample.reading() for _ in range(2))
        self._weights = self._sample.factors  # times the preconditioner, if that is not 1
        self._known = False  # whether `_before` is the gradient of the step before
        self._square: Any = None  # of that one, where it is known
        self._passes, self._taken = 1, 0
        self._local: Any = 0.0
        self._measuring = self._next_measuring = self._alone = True
        self.computed = 0.0  # when the hook had the last bucket, by time.perf_counter

    def begin(self, passes: int, measuring: bool = True, next_measuring: bool = True) -> None:
        """Begin a step.

        Parameters
        ----------
        passes
            s + 1.
        measuring, next_measuring
            Whether norms of this step, and of the next one, are wanted.
        """
        self._passes, self._taken, self._local = passes, 0, 0.0
        self._measuring, self._next_measuring = measuring, next_measuring
        self._alone = self._replicas * passes == 1
        for one in self.parameters:
            one.grad = None

    def take_pass(self) -> None:
        """Read the gradient of a pass, after its backward pass; not what the hook reads."""
        if self._measuring and not self._alone:
            self._read()
            self._take()

    def hook(self, _: object, bucket: Any) -> Any:
        """Communication hook of the last pass: read the sum of the passes, exchange it.

        Parameters
        ----------
        bucket
            Gradients of some parameters, of all passes of this replica.
        """
        import torch.distributed as dist

        self.computed = time.perf_counter()
        buffer = bucket.buffer()
        if self._measuring:
            rows = [self._index[id(one)] for one in bucket.parameters()]
            self._sample.read(bucket.gradients(), self._now, rows)
        buffer.div_(self._replicas)
        work: Any = dist.all_reduce(buffer, async_op=True)
        return work.get_future().then(lambda found: found.value()[0])

    def finish(self) -> StepNorms | None:
        """The norms of a step whose mean gradient the parameters hold; None if not measured."""
        if self._alone:
            return self._finish_alone()
        self._known = False
        if not self._measuring:
            return None
        if self._replicas > 1:
            self._take()  # what the hook read
            self._read().weigh(self._weights)
        mean = self._now if self._replicas > 1 else self._before
        # the loss of each pass was divided by their number
        local = self._passes**2 * self._local
        return StepNorms(local, mean.dot(mean), None, None)

    def _finish_alone(self) -> StepNorms | None:
        """The norms of a step of one gradient, and of it and the one of the step before."""
        known, self._known = self._known, self._next_measuring
        before = self._square
        self._square = None
        if not (self._measuring or self._next_measuring):
            return None
        now, other = self._read(), self._before
        now.weigh(self._weights)
        self._now, self._before = other, now
        if not self._measuring:
            return None
        self._square = square = now.dot(now)
        if not known:
            return StepNorms(square, square, None, None)
        before = other.dot(other) if before is None else before
        return StepNorms(square, square, now.dot(other), before)

    def _read(self) -> Reading:
        """Read what the parameters' gradients are now."""
        self._sample.read([one.grad for one in self.parameters], self._now)
        return self._now

    def _take(self) -> None:
        """Add the squared norm of the pass that was read last."""
        import torch

        now, before = self._now, self._before
        now.weigh(self._weights)
        if self._taken:
            torch.sub(now.weighted, before.weighted, out=before.weighted)
            square = before.dot(before)
        else:
            square = now.dot(now)
        self._local = self._local + square
        self._taken += 1
        self._now, self._before = before, now

    def forget(self) -> None:
        """Forget the gradient of the step before, because the next batch has another size."""
        self._known = False

    def refresh(self, steps: int) -> None:
        """Take the preconditioner anew, every so many steps.

        Parameters
        ----------
        steps
            That were made.
        """
        import torch

        if not self._adam or steps % (EARLY if steps < REFRESH else REFRESH):
            return
        weights = [
            adam_weight(
                self._optimiser.state.get(one, {}),
                group,
                one,
                partial(self._sample.pick, self._index[id(one)]),
            )
            for group in self._optimiser.param_groups
            for one in group["params"]
            if one.requires_grad
        ]
        self._weights = torch.cat([one.reshape(-1) for one in weights]).to(self._now.raw)
        if self._sample.factors is not None:
            self._weights *= self._sample.factors
        if self._known:
            self._before.weigh(self._weights)
        self._square = None  # it was by the other one

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """The shape of every parameter."""
        return [tuple(one.shape) for one in self.parameters]

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs so that nothing is lost."""
        return {
            "weights": self._weights if self._adam else None,
            "previous": self._before.raw if self._known else None,
            "previous_square": self._square,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state; what was read of other coordinates is left out."""
        weights, previous = (
            None if one is None or len(one) != self._sample.size else one.to(self._now.raw)
            for one in (state["weights"], state["previous"])
        )
        if weights is not None:
            self._weights = weights
        self._known = previous is not None
        if previous is not None:
            self._before.raw.copy_(previous)
            self._before.weigh(self._weights)
            self._square = state["previous_square"]


def adam_weight(
    state: dict[str, Any],
    group: dict[str, Any],
    parameter: Any,
    pick: Callable[[Any], Any] = lambda tensor: tensor,
) -> Any:
    """The preconditioner of a parameter; 1 before a step of Adam.

    Parameters
    ----------
    state, group
        The optimiser's, of the parameter.
    parameter
        The parameter.
    pick
        Takes some coordinates of a tensor of its shape.
    """
    import torch

    if "exp_avg_sq" not in state:
        return torch.ones_like(pick(parameter.detach()))
    moment = pick(state.get("max_exp_avg_sq", state["exp_avg_sq"]))
    return adam_preconditioner(
        moment, int(state["step"]), float(group["betas"][1]), float(group["eps"])
    ).to(parameter)
