r"""Squared norms of the gradients of a step of training, taken as they arise (PyTorch).

A step on K replicas that make s + 1 passes each has :math:`c = K (s + 1)` local gradients. Autograd
gives each pass a gradient of its own, which is measured and then added to the sum of the step, in
place of the addition that autograd would have made. In the last pass of several replicas, that
happens in the communication hook of `DistributedDataParallel`, bucket by bucket, before the
replicas exchange the sum. So a step costs one reading of the gradient for each norm, and with one
gradient a step one more for the product with the last one; no pass through the network is added.

For Adam the norms are those of the preconditioned gradient. Its preconditioner hardly moves in a
few steps and is taken anew only every `REFRESH` of them, and every `EARLY` of the first ones.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from goodalloc.models.gradient_noise import (
    adam_preconditioner,
    from_consecutive_gradients,
    from_local_gradients,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from goodalloc.models.efficiency import GradientStatistics

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
) -> GradientStatistics | None:  # fmt: skip
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
    """Collects the gradients of a step, and their norms.

    Parameters
    ----------
    optimiser
        Whose parameters are trained.
    replicas
        K.

    Raises
    ------
    ValueError
        If there is nothing to train.
    """

    def __init__(self, optimiser: Any, replicas: int) -> None:
        import torch

        self._optimiser, self._replicas = optimiser, replicas
        groups = optimiser.param_groups
        self.parameters = [one for group in groups for one in group["params"] if one.requires_grad]
        if not self.parameters:
            raise ValueError("Optimiser: 0 parameters require a gradient; expected some.")
        self._adam = isinstance(optimiser, (torch.optim.Adam, torch.optim.AdamW))
        self._index = {id(one): index for index, one in enumerate(self.parameters)}
        size = max(one.numel() for one in self.parameters)
        self._scratch = torch.empty(size if self._adam else 0).to(self.parameters[0])
        self._weights: list[Any] | None = None  # the preconditioner, if it is not 1
        self._previous: list[Any] | None = None  # gradient of the step before
        self._previous_square: Any = None
        self._sums: list[Any] | None = None
        self._passes = 1
        self._local: Any = 0.0
        self.measuring = self._next_measuring = self._alone = True
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
        self._passes, self._sums, self._local = passes, None, 0.0
        self.measuring, self._next_measuring = measuring, next_measuring
        self._alone = self._replicas * passes == 1
        self._clear()

    def _clear(self) -> None:
        for one in self.parameters:
            one.grad = None

    def take_pass(self, last: bool) -> None:
        """Take the gradients of a pass, after its backward pass; not those that the hook took."""
        gradients = [one.grad for one in self.parameters]
        if self.measuring and not self._alone:
            self._local = self._local + self._square(gradients, range(len(gradients)))
        self._sums = gradients if self._sums is None else _added(self._sums, gradients)
        if not last:
            self._clear()
            return
        if self._passes > 1:
            _divide(self._sums, self._passes)
        for one, gradient in zip(self.parameters, self._sums, strict=True):
            one.grad = gradient

    def hook(self, _: object, bucket: Any) -> Any:
        """Communication hook of the last pass: measure, add the other passes, exchange.

        Parameters
        ----------
        bucket
            Gradients of some parameters, of the last pass of this replica.
        """
        import torch.distributed as dist

        self.computed = time.perf_counter()
        rows = [self._index[id(one)] for one in bucket.parameters()]
        gradients, buffer = bucket.gradients(), bucket.buffer()
        if self.measuring:
            self._local = self._local + self._square(gradients, rows)
        if self._sums is not None:
            _added(gradients, [self._sums[row] for row in rows])
        buffer.div_(self._replicas * self._passes)
        work: Any = dist.all_reduce(buffer, async_op=True)
        return work.get_future().then(lambda found: found.value()[0])

    def finish(self) -> StepNorms | None:
        """The norms of a step whose mean gradient the parameters hold; None if not measured."""
        gradients = [one.grad for one in self.parameters]
        previous, before = self._previous, self._previous_square
        # kept, not copied: the next step's gradients are other tensors
        self._previous = gradients if self._alone and self._next_measuring else None
        self._previous_square = None
        if not self.measuring:
            return None
        everything = range(len(gradients))
        if not self._alone:
            return StepNorms(self._local, self._square(gradients, everything), None, None)
        if previous is None:
            self._previous_square = square = self._square(gradients, everything)
            return StepNorms(square, square, None, None)
        square, product = self._square_and_product(gradients, previous)
        self._previous_square = square
        before = self._square(previous, everything) if before is None else before
        return StepNorms(square, square, product, before)

    def forget(self) -> None:
        """Forget the gradient of the step before, because the next batch has another size."""
        self._previous = None

    def refresh(self, steps: int) -> None:
        """Take the preconditioner anew, every so many steps.

        Parameters
        ----------
        steps
            That were made.
        """
        if not self._adam or steps % (EARLY if steps < REFRESH else REFRESH):
            return
        weights = []
        for group in self._optimiser.param_groups:
            for one in group["params"]:
                if one.requires_grad:
                    weights.append(adam_weight(self._optimiser.state.get(one, {}), group, one))
        self._weights = weights
        self._previous_square = None  # it was by the other one

    def state(self) -> dict[str, Any]:
        """What a checkpoint needs so that nothing is lost."""
        return {
            "weights": self._weights,
            "previous": self._previous,
            "previous_square": self._previous_square,
        }

    def load(self, state: dict[str, Any]) -> None:
        """Go on from a state."""
        self._weights, self._previous = state["weights"], state["previous"]
        self._previous_square = state["previous_square"]

    def _square(self, gradients: list[Any], rows: Iterable[int]) -> Any:
        """Squared norm of some parameters' gradients, preconditioned."""
        from torch.nn.utils import get_total_norm

        if self._weights is None:  # fused, where the device can
            there = [one for one in gradients if one is not None]
            return get_total_norm(there).double().square()
        weighted = (
            self._weighted(row, gradient)
            for row, gradient in zip(rows, gradients, strict=True)
            if gradient is not None
        )
        return _total([one.dot(one) for one in weighted])

    def _square_and_product(self, gradients: list[Any], others: list[Any]) -> tuple[Any, Any]:
        """Squared norm of a gradient, and its product with another one, preconditioned."""
        squares, products = [], []
        for row, (one, other) in enumerate(zip(gradients, others, strict=True)):
            if one is None or other is None:
                continue
            flat = one.reshape(-1)
            if self._weights is not None:
                flat = self._weighted(row, one)
            squares.append(flat.dot(flat))
            if self._weights is not None:
                flat.mul_(self._weights[row].reshape(-1))
            products.append(flat.dot(other.reshape(-1)))
        return _total(squares), _total(products)

    def _weighted(self, row: int, gradient: Any) -> Any:
        """P g of a parameter, flat, in memory that the next one uses too."""
        import torch

        assert self._weights is not None
        target = self._scratch[: gradient.numel()]
        return torch.mul(gradient.reshape(-1), self._weights[row].reshape(-1), out=target)


def _total(numbers: list[Any]) -> Any:
    """The sum of tensors of one number, in double precision."""
    import torch

    return torch.stack(numbers).double().sum()


def _added(sums: list[Any], gradients: list[Any]) -> list[Any]:
    """Sums to which gradients were added, in place where there was something."""
    for index, gradient in enumerate(gradients):
        if sums[index] is None:
            sums[index] = gradient
        elif gradient is not None:
            sums[index].add_(gradient)
    return sums


def _divide(sums: list[Any], count: int) -> None:
    for one in sums:
        if one is not None:
            one.div_(count)


def adam_weight(state: dict[str, Any], group: dict[str, Any], parameter: Any) -> Any:
    """The preconditioner of a parameter, by its state and group; 1 before a step of Adam."""
    import torch

    if "exp_avg_sq" not in state:
        return torch.ones_like(parameter)
    moment = state.get("max_exp_avg_sq", state["exp_avg_sq"])
    return adam_preconditioner(
        moment, int(state["step"]), float(group["betas"][1]), float(group["eps"])
    ).to(parameter)
