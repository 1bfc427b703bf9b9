"""Upper bound on the worth of a node's contents at given prices: the last term of `price_bound`.

The jobs that may keep their place on a node stay there or leave; what those that stay leave of the
node is worth what `node_value` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Bool, Float, Int

    from goodalloc.formulations.certificates.prices import WeightedValues
    from goodalloc.models.support.array_types import Flags, Floats, Indices


#: Most stays on a node whose sets are listed; with more, equal states are merged one by one.
MOST_LISTED = 7

#: Sets of stays, over all nodes, that are looked at together.
AT_ONCE = 200_000


@dataclass(frozen=True)
class NodeStates:
    """Nodes, and the jobs that may stay on them.

    Parameters
    ----------
    group, room, blocked
        Group of every node, units that pinned jobs leave of it, and whether a pinned distributed
        job keeps other distributed jobs away: shapes (nodes,), (nodes, resources), (nodes,).
    stay_node, stay_units, stay_spread
        Node, units and whether of a distributed job, of every stay, by node: shapes (stays,),
        (stays, resources), (stays,).
    """

    group: Int[Indices, " nodes"]
    room: Int[Indices, "nodes resources"]
    blocked: Bool[Flags, " nodes"]
    stay_node: Int[Indices, " stays"]
    stay_units: Int[Indices, "stays resources"]
    stay_spread: Bool[Flags, " stays"]

    def worth(
        self, values: Sequence[WeightedValues], stay: Float[Floats, " stays"]
    ) -> Float[Floats, " nodes"]:
        """Return the greatest worth of every node, shape (nodes,).

        Parameters
        ----------
        values
            The value functions of pieces.
        stay
            Prices of the stays, shape (stays,).
        """
        found = self._rest(values, np.arange(self.group.size), self.room, self.blocked)
        if not values and not stay.any():
            return found
        node, first, count = np.unique(self.stay_node, return_index=True, return_counts=True)
        for number in np.unique(count).tolist():
            mine = np.flatnonzero(count == number)
            if number > MOST_LISTED:
                for index in mine.tolist():
                    stays = first[index] + np.arange(number)
                    found[node[index]] = self._merged(values, int(node[index]), stays, stay)
                continue
            parts = -(-mine.size * 2**number // AT_ONCE)
            for part in np.array_split(mine, parts):
                stays = first[part][:, None] + np.arange(number)
                found[node[part]] = self._listed(values, node[part], stays, stay)
        return found

    def _listed(
        self, values: Sequence[WeightedValues], node: Indices, stays: Indices, stay: Floats
    ) -> Floats:
        """Return the worth of nodes with equally many stays, (nodes, stays): all sets of them at
        once.
        """
        number = stays.shape[1]
        member = (np.arange(2**number)[:, None] >> np.arange(number)) & 1  # (sets, stays)
        left = self.room[node][:, None] - np.einsum("sk,nkr->nsr", member, self.stay_units[stays])
        spread = self.stay_spread[stays].astype(np.int64) @ member.T + self.blocked[node][:, None]
        fits = (left >= 0).all(axis=2) & (spread <= 1)
        at, which = np.nonzero(fits)
        value = np.full(fits.shape, -np.inf)
        rest = self._rest(values, node[at], left[at, which], spread[at, which] > 0)
        value[at, which] = (stay[stays] @ member.T)[at, which] + rest
        return np.asarray(value.max(axis=1))

    def _merged(
        self, values: Sequence[WeightedValues], node: int, stays: Indices, stay: Floats
    ) -> float:
        """Return the worth of one node; states of equal room, equally open to distributed jobs, are
        merged.
        """
        states = {(tuple(self.room[node].tolist()), bool(self.blocked[node])): 0.0}
        for index in stays.tolist():
            units, spread = self.stay_units[index].tolist(), bool(self.stay_spread[index])
            for (room, closed), value in list(states.items()):
                left = tuple(had - taken for had, taken in zip(room, units, strict=True))
                if min(left) < 0 or (closed and spread):
                    continue
                key = (left, closed or spread)
                states[key] = max(states.get(key, -np.inf), value + float(stay[index]))
        rooms = np.array([room for room, _ in states])
        shut = np.array([flag for _, flag in states])
        rest = self._rest(values, np.full(len(states), node), rooms, shut)
        return float(np.max(np.array(list(states.values())) + rest))

    def _rest(
        self, values: Sequence[WeightedValues], node: Indices, room: Indices, closed: Flags
    ) -> Floats:
        """Return the worth of the rest of nodes, shape (entries,), `closed` to distributed jobs or
        not.
        """
        found = np.zeros(node.size)
        if not values:
            return found
        group, shape = self.group[node], values[0].by_group[0].alone.shape
        for index in np.unique(group).tolist():
            mine = np.flatnonzero(group == index)
            cells, where = np.unique(
                np.ravel_multi_index(tuple(room[mine].T), shape), return_inverse=True
            )
            rooms = np.stack(np.unravel_index(cells, shape), axis=1)
            alone, shared = np.zeros(cells.size), np.zeros(cells.size)
            for one in values:
                alone += one.weight * one.by_group[index].at(rooms)
                shared += one.weight * one.by_group[index].shared(rooms)
            found[mine] = np.where(closed[mine], alone[where], shared[where])
        return found
