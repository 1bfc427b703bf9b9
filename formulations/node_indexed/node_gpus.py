r"""Single GPUs of a node, where replicas share them: part of the node-indexed program.

In the symbols of `node_milp.py`, whose (6) gives way where replicas share GPUs or need none to the
GPUs of a node one by one, :math:`g = 1..G_v`, all alike. :math:`s_{jm}` is the part of a GPU that a
replica takes in mode *m*, and the modes with :math:`0 < s_{jm} < 1` have integer slots
:math:`b_{jmvg}`: how many of the replicas on *v* are on GPU *g*, those kept included; :math:`o_{vg}
\in \{0,1\}`, whether *g* is shared at all.

.. math::

    \sum_g b_{jmvg} = a_{jmv} + h_{jv} x_{j,keep} [\text{kept in } m]   \quad \forall j, m, v  (6a)

    \sum_{j,m} s_{jm} b_{jmvg} \le o_{vg}                              \quad \forall v, g     (6b)

    \sum_{s_{jm} = 1} (a_{jmv} + h_{jv} x_{j,keep} [\text{kept in } m])
        + \sum_g o_{vg} \le G_v                                        \quad \forall v        (6c)

    o_{vg} \ge o_{v,g+1}                                               \quad \forall v, g     (6d)

(6d) breaks the symmetry of the GPUs. :math:`G_v` in (4) is then the most replicas of *j* that *v*
holds in any mode.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyomo.environ as pyo

if TYPE_CHECKING:
    from collections.abc import Callable

    from goodalloc.models.round.instance import Instance


def add_shared_gpus(model: Any, instance: Instance, keeps: Callable[[int], Any]) -> None:
    """Add (6a)-(6d) to the node-indexed program.

    Parameters
    ----------
    model
        The program as `node_milp` builds it.
    instance
        The round.
    keeps
        Whether a job keeps its placement, as an expression.
    """
    share = instance.mode_share.tolist()
    running = (instance.first_mode + instance.current.mode).tolist()
    shared = [m for m in model.modes if 0 < share[m] < 1]
    whole = [m for m in model.modes if share[m] == 1]
    slots = [(v, g) for v in model.nodes for g in range(pyo.value(model.gpus[v]))]
    model.slots = pyo.Set(initialize=slots, dimen=2)
    model.shared = pyo.Set(initialize=shared)
    model.part = pyo.Var(model.shared, model.slots, domain=pyo.NonNegativeIntegers)
    model.opened = pyo.Var(model.slots, domain=pyo.Binary)

    def there(m: int, v: int) -> Any:
        """Replicas in a mode on a node, kept or placed anew."""
        j = model.job_of[m]
        kept = model.held[j, v] * keeps(j) if running[j] == m else 0
        return model.replicas[m, v] + kept

    def gpus_of(v: int) -> range:
        return range(pyo.value(model.gpus[v]))

    @model.Constraint(model.shared, model.nodes)  # type: ignore[untyped-decorator]
    def every_share(model: Any, m: int, v: int) -> Any:  # (6a)
        return pyo.quicksum(model.part[m, v, g] for g in gpus_of(v)) == there(m, v)

    @model.Constraint(model.slots)  # type: ignore[untyped-decorator]
    def one_gpu(model: Any, v: int, g: int) -> Any:  # (6b)
        load = pyo.quicksum(share[m] * model.part[m, v, g] for m in model.shared)
        return load <= model.opened[v, g]

    @model.Constraint(model.nodes)  # type: ignore[untyped-decorator]
    def capacity(model: Any, v: int) -> Any:  # (6c)
        if not whole and not gpus_of(v):
            return pyo.Constraint.Skip
        opened = pyo.quicksum(model.opened[v, g] for g in gpus_of(v))
        return pyo.quicksum(there(m, v) for m in whole) + opened <= model.gpus[v]

    @model.Constraint(model.slots)  # type: ignore[untyped-decorator]
    def shared_first(model: Any, v: int, g: int) -> Any:  # (6d)
        if (v, g + 1) not in model.slots:
            return pyo.Constraint.Skip
        return model.opened[v, g] >= model.opened[v, g + 1]
