"""Costs of choices priced by JAX, which runs unchanged on a processor or a GPU.

The sums and comparisons of float64 of `priced_classes.py`, but for every class, compiled: adding
the price of its demand to the cost of every choice, and the least of them. Costs stay on the
device from one set of prices to the next.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.solvers.mode_columns.priced_classes import PricedClasses

if TYPE_CHECKING:
    from goodalloc.models.support.array_types import Floats, Indices


@dataclass(frozen=True, eq=False)
class CompiledClasses(PricedClasses):
    """As `PricedClasses`, with the responses computed by JAX.

    Examples
    --------
    >>> import numpy as np
    >>> from goodalloc.data.rounds import generate_mode_columns
    >>> from goodalloc.models.columns import mode_column_utilities
    >>> from goodalloc.solvers.mode_columns import CompiledClasses, PricedClasses, pooled_choices
    >>> choices = pooled_choices(mode_column_utilities(generate_mode_columns(seed=0, jobs=40)))
    >>> given = choices, -1.0, 0.04, choices.count.astype(float)
    >>> prices = np.full(9, 0.1)
    >>> CompiledClasses(*given).respond(prices).bound == PricedClasses(*given).respond(prices).bound
    True
    """

    @cached_property
    def _on_device(self) -> list[tuple[Any, Any]]:
        """Costs of every block and the kinds of its classes, in rows of a round number."""
        import jax

        found = []
        with jax.enable_x64(True):
            for block in self.blocks:
                rows = 1 << max(int(block.classes.size - 1).bit_length(), 6)
                cost = np.full((rows, block.cost.shape[1]), np.inf)
                cost[: block.classes.size] = block.cost
                kind = np.zeros(rows, dtype=np.int64)
                kind[: block.classes.size] = self.choices.kind[block.classes]
                found.append((jax.device_put(cost), jax.device_put(kind)))
        return found

    def cheapest(self, prices: Floats) -> tuple[Floats, Indices]:
        """Return cost and price of the cheapest choice of every class but to stay, and which."""
        import jax

        choices = self.choices
        least = np.empty(choices.num_classes)
        chosen = np.empty(choices.num_classes, dtype=np.int64)
        with jax.enable_x64(True):
            priced = jax.device_put((choices.demand @ prices)[choices.code])
            answers = [_compiled()(cost, kind, priced) for cost, kind in self._on_device]
        for block, (best, total) in zip(self.blocks, answers, strict=True):
            chosen[block.classes] = np.asarray(best)[: block.classes.size]
            least[block.classes] = np.asarray(total)[: block.classes.size]
        return least, chosen


@lru_cache
def _compiled() -> Any:
    """Return the compiled function of one block."""
    import jax
    import jax.numpy as jnp

    def cheapest(cost: Any, kind: Any, priced: Any) -> tuple[Any, Any]:
        total = cost + priced[kind, : cost.shape[1]]
        best = jnp.argmin(total, axis=1)
        return best, jnp.take_along_axis(total, best[:, None], axis=1)[:, 0]

    return jax.jit(cheapest)
