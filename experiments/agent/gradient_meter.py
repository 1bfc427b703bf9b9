r"""Squared norms of the gradients of a step of training, measured during the step (PyTorch).

A step on K replicas that make s + 1 passes each has :math:`c = K (s + 1)` local gradients. The
loss of a pass is divided by s + 1, and autograd adds its gradient to those of the passes before, as
it does without an agent; the difference between two readings of the sum is the gradient of the
pass. In the last pass of several replicas, the sum is read in the communication hook of
`DistributedDataParallel`, bucket by bucket, before the replicas exchange it.

A reading copies a sample of the coordinates (`gradient_sample.py`), and all norms are computed from
the copy. No pass through the network is added, and gradients live no longer than in a plain loop.

For Adam the norms are those of the preconditioned gradient. Its preconditioner hardly changes in a
few steps and is refreshed only every `REFRESH` steps, and every `EARLY` of the first ones.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning",
    OSDI 2021, section 3.1. https://www.usenix.org/conference/osdi21/presentation/qiao
McCandlish et al., "An Empirical Model of Large-Batch Training", arXiv:1812.06162
"""

from __future__ import annotations

import math
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.experiments.agent.gradient_sample import GradientSample
from goodalloc.experiments.support.device_clock import clock_of
from goodalloc.models.adaptation.gradient_noise import (
    adam_preconditioner,
    from_consecutive_gradients,
    from_local_gradients,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.agent.gradient_sample import Reading
    from goodalloc.models.goodput.statistical_efficiency import GradientStatistics

#: Steps between two refreshes of a preconditioner, later and among the first `REFRESH` steps.
REFRESH, EARLY = 50, 5


class StepNorms(NamedTuple):
    """Norms and products of the gradients of a step.

    Attributes
    ----------
    local
        Sum of the squared norms of this replica's local gradients, a tensor of one number.
    mean
        Squared norm of the mean gradient of the step over all replicas, a tensor of one number.
    product
        Inner product of the mean gradient and that of the step before; None if that is unknown.
    previous
        Squared norm of the mean gradient of the step before.
    """

    local: Any
    mean: Any
    product: Any
    previous: Any


def estimate_of(
    local: float, mean: Sequence[float], count: int, scale: float
) -> GradientStatistics | None:
    """Return the gradient statistics of one step; None if they cannot be estimated from it.

    Parameters
    ----------
    local
        Sum of the squared norms of the local gradients of all replicas.
    mean
        The other norms of the step: that of the mean gradient and, if they are known, its product
        with the gradient before and the norm of the latter.
    count
        Number of local gradients, c.
    scale
        Relative batch size, M / M0.
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
    """Meter of the norms of the gradients of a step.

    Parameters
    ----------
    optimiser
        Optimiser of the trained parameters.
    replicas
        Number of replicas, K.
    most_coordinates, seed
        Sample of the coordinates that are read, as in `GradientSample`.

    Attributes
    ----------
    clock
        Clock of the device of the parameters.
    computed
        Its mark at which all gradients of this replica were there in the last exchange.

    Raises
    ------
    ValueError
        If no parameter requires a gradient.
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
        self.clock = clock_of(self.parameters[0].device)
        self.computed: Any = None  # mark of the clock when the hook had the last bucket

    def begin(self, passes: int, measuring: bool = True, next_measuring: bool = True) -> None:
        """Begin a step.

        Parameters
        ----------
        passes
            Number of passes, s + 1.
        measuring, next_measuring
            Whether norms of this step, and of the next one, are required.
        """
        self._passes, self._taken, self._local = passes, 0, 0.0
        self._measuring, self._next_measuring = measuring, next_measuring
        self._alone = self._replicas * passes == 1
        for one in self.parameters:
            one.grad = None

    def take_pass(self) -> None:
        """Read the gradient of a pass after its backward pass, unless the hook reads it."""
        if self._measuring and not self._alone:
            self._read()
            self._take()

    def hook(self, _: object, bucket: Any) -> Any:
        """Read the sum of the passes and exchange it: the communication hook of the last pass.

        Parameters
        ----------
        bucket
            Gradients of some parameters, summed over the passes of this replica.
        """
        import torch.distributed as dist

        self.computed = self.clock.mark()
        buffer = bucket.buffer()
        if self._measuring:
            rows = [self._index[id(one)] for one in bucket.parameters()]
            self._sample.read(bucket.gradients(), self._now, rows)
        buffer.div_(self._replicas)
        work: Any = dist.all_reduce(buffer, async_op=True)
        return work.get_future().then(lambda found: found.value()[0])

    def finish(self) -> StepNorms | None:
        """Return the norms of the step whose mean gradient is set; None if it is not measured."""
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
        """Return the norms of a step of one gradient, compared with that of the step before."""
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
        """Read the present gradients of the parameters."""
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
        """Refresh the preconditioner if it is due.

        Parameters
        ----------
        steps
            Number of steps made.
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
        self._square = None  # it was computed with the former preconditioner

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        """Shape of every parameter."""
        return [tuple(one.shape) for one in self.parameters]

    def state(self) -> dict[str, Any]:
        """Return the state for a checkpoint."""
        return {
            "weights": self._weights if self._adam else None,
            "previous": self._before.raw if self._known else None,
            "previous_square": self._square,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Restore `state`; readings of another sample of coordinates are dropped."""
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
    """Return the preconditioner of `parameter` under Adam; 1 before the first step.

    Parameters
    ----------
    state, group
        State and group of the parameter in the optimiser.
    parameter
        The parameter.
    pick
        Function that returns some coordinates of a tensor of its shape.

    Examples
    --------
    >>> import torch
    >>> from goodalloc.experiments.agent import adam_weight
    >>> parameter = torch.zeros(2)
    >>> optimiser = torch.optim.Adam([parameter])
    >>> adam_weight(optimiser.state[parameter], optimiser.param_groups[0], parameter).tolist()
    [1.0, 1.0]
    """
    import torch

    if "exp_avg_sq" not in state:
        return torch.ones_like(pick(parameter.detach()))
    moment = pick(state.get("max_exp_avg_sq", state["exp_avg_sq"]))
    return adam_preconditioner(
        moment, int(state["step"]), float(group["betas"][1]), float(group["eps"])
    ).to(parameter)
