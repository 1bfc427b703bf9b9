"""Mend choices that do not pack: choose anew on a few nodes at a time.

What the aggregate chose is placed as far as it goes. Then the jobs on the emptiest nodes, and those
that found no place, choose and move again, on those nodes alone: a small program in which every
node is indexed. Then those on the next nodes, and so on (large neighbourhood search: Shaw, 1998).
Choices that the aggregate's prices call poor are left out.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from goodalloc.formulations.choices import Choices, Kind
from goodalloc.formulations.mode_choices import choice_demand
from goodalloc.formulations.node_items import ANY_TYPE
from goodalloc.formulations.program import ProgramBuilder
from goodalloc.formulations.value_cut import type_codes
from goodalloc.models.allocation import Allocation
from goodalloc.solvers.highs_program import run_mixed_integer
from goodalloc.solvers.mode_packing import ModePacker, Piece

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]

#: Nodes that choose anew together, and choices of each of their jobs.
NODES, CHOICES = 5, 12
#: Programs that are solved to mend one allocation, and the branches that each may take.
MOST_PROGRAMS, MOST_BRANCHES = 12, 200
#: Gap of these programs, relative to the number of jobs.
GAP = 1e-7


@dataclass
class _State:
    """Who has which choice, and on which node; -1 for jobs that keep, idle or are distributed."""

    choice: Indices
    node: Indices
    left: Indices


@dataclass(frozen=True)
class ModeRepair:
    """Mends allocations of one instance.

    Parameters
    ----------
    packer
        Packs choices of the instance.
    choices
        All choices.
    cost
        Cost of every choice.
    merit
        Reduced cost of every choice, to tell good from poor; infinite where forbidden.
    """

    packer: ModePacker
    choices: Choices
    cost: Floats
    merit: Floats

    def mend(self, taken: Indices, enough: float) -> tuple[Allocation | None, float]:
        """A feasible allocation near these choices, and its cost.

        Parameters
        ----------
        taken
            One choice for every job, as indices.
        enough
            Stop at this cost.
        """
        chosen = self.choices.where(taken)
        left, open_ = self.packer.left(chosen)
        pieces = next(self.packer.splits(chosen, left), None)
        if pieces is None:
            return None, np.inf
        nodes = self.packer.best_fit(pieces, left, open_)
        state, spread = self._state(taken, pieces, nodes, left)
        for number in range(MOST_PROGRAMS):
            if float(self.cost[state.choice].sum()) <= enough or self.packer.watch.limit:
                break
            self._choose_anew(state, self._window(state, number))
        return self._allocation(state, spread), float(self.cost[state.choice].sum())

    def _state(
        self, taken: Indices, pieces: list[Piece], nodes: list[int], left: Indices
    ) -> tuple[_State, list[tuple[Piece, int]]]:
        """What was placed; the jobs of which a piece was not are idle."""
        instance = self.packer.instance
        lost = {piece.job for piece, node in zip(pieces, nodes, strict=True) if node < 0}
        idle = np.full(instance.num_jobs, -1)
        of_kind = self.choices.of(Kind.IDLE)
        idle[self.choices.job[of_kind]] = of_kind
        state = _State(np.full(instance.num_jobs, -1), np.full(instance.num_jobs, -1), left.copy())
        state.choice[self.choices.job[taken]] = taken
        spread = []
        for job in sorted(lost):
            state.choice[job] = idle[job]
        for piece, node in zip(pieces, nodes, strict=True):
            if piece.job in lost:
                continue
            state.left[node] -= piece.units
            if piece.spread:
                spread.append((piece, node))
            else:
                state.node[piece.job] = node
        current = instance.current
        keeps = self.choices.kind[state.choice] == Kind.KEEP
        alone = keeps[current.job] & (current.job_nodes[current.job] == 1)
        state.node[current.job[alone]] = current.node[alone]
        return state, spread

    def _window(self, state: _State, number: int) -> Indices:
        """The nodes whose turn it is: the emptiest first."""
        size = np.maximum(np.array(self.packer.grid.shape) - 1.0, 1.0)
        order = np.argsort(-(state.left / size).sum(axis=1), kind="stable")
        first = (number * NODES) % max(order.size, 1)
        return np.sort(np.roll(order, -first)[:NODES])

    def _choose_anew(self, state: _State, window: Indices) -> None:
        """The best choices and nodes of the jobs there, and of those that hold nothing."""
        choices, instance = self.choices, self.packer.instance
        movable = np.isin(state.node, window) | (choices.kind[state.choice] == Kind.IDLE)
        movable &= ~instance.pinned
        candidate = self._candidates(state, movable, window)
        units = self._units(candidate)
        jobs = np.flatnonzero(movable)
        room = state.left[window].copy()
        here = jobs[state.node[jobs] >= 0]
        at = np.searchsorted(window, state.node[here])
        np.add.at(room, at, self._units(state.choice[here]))
        column, node = self._places(candidate, units, room, window)
        builder = ProgramBuilder()
        y = builder.add_columns("at", column.size, cost=self.cost[candidate[column]], upper=1.0)
        one = builder.add_rows("one_choice", jobs.size, lower=1.0, upper=1.0)
        builder.add_entries(one[np.searchsorted(jobs, choices.job[candidate[column]])], y, 1.0)
        capacity = builder.add_rows("capacity", room.size, upper=room.ravel()).reshape(room.shape)
        placed = np.flatnonzero(node >= 0)
        builder.add_entries(capacity[node[placed]], y[placed][:, None], units[column[placed]])
        outcome = run_mixed_integer(
            builder.build(), self.packer.watch, gap=GAP * instance.num_jobs,
            most_branches=MOST_BRANCHES,
        )  # fmt: skip
        if outcome.values is None or outcome.objective >= self.cost[state.choice[jobs]].sum():
            return
        won = np.flatnonzero(outcome.values > 0.5)
        job = choices.job[candidate[column[won]]]
        state.left[window] = room
        state.choice[job] = candidate[column[won]]
        state.node[job] = np.where(node[won] >= 0, window[node[won]], -1)
        settled = won[node[won] >= 0]
        np.subtract.at(state.left, window[node[settled]], units[column[settled]])

    def _candidates(self, state: _State, movable: NDArray[np.bool_], window: Indices) -> Indices:
        """The few best choices of every job that moves: what it has, idling, the cheapest."""
        choices, current = self.choices, self.packer.instance.current
        usable = movable[choices.job] & np.isfinite(self.merit)
        usable &= choices.kind == Kind.ONE_NODE
        order = np.lexsort((self.merit, choices.job))
        order = order[usable[order]]
        job = choices.job[order]
        rank = np.arange(order.size) - np.searchsorted(job, job)
        best = order[rank < CHOICES]
        idle = choices.of(Kind.IDLE)
        keep = choices.of(Kind.KEEP)
        stays = np.zeros(movable.size, dtype=bool)
        stays[current.job[np.isin(current.node, window)]] = True
        stays &= current.job_nodes == 1
        keep = keep[movable[choices.job[keep]] & stays[choices.job[keep]]]
        idle = idle[movable[choices.job[idle]]]
        return np.unique(np.concatenate([best, idle, keep, state.choice[movable]]))

    def _units(self, choice: Indices) -> Indices:
        """Demand of choices, in units."""
        demand = choice_demand(self.packer.instance, self.choices.where(choice))
        return self.packer.grid.at_least(demand)

    def _places(
        self, candidate: Indices, units: Indices, room: Indices, window: Indices
    ) -> tuple[Indices, Indices]:
        """Pairs of a candidate and a place in the window where it fits; -1 for no place."""
        instance, choices = self.packer.instance, self.choices
        mode_code, node_code = type_codes(instance)
        code = mode_code[choices.mode[candidate]]
        kind, job = choices.kind[candidate], choices.job[candidate]
        fits = (units[:, None] <= room[None]).all(axis=2)
        fits &= (code[:, None] == ANY_TYPE) | (code[:, None] == node_code[window][None])
        current = instance.current
        home = np.full(instance.num_jobs, -1)
        home[current.job] = current.node
        keep = kind == Kind.KEEP
        fits[keep] = home[job[keep]][:, None] == window[None]
        fits[kind == Kind.IDLE] = False
        column, node = np.nonzero(fits)
        nowhere = np.flatnonzero(kind == Kind.IDLE)
        return (
            np.concatenate([column, nowhere]),
            np.concatenate([node, np.full(nowhere.size, -1)]),
        )

    def _allocation(self, state: _State, spread: list[tuple[Piece, int]]) -> Allocation | None:
        """The allocation of a state."""
        taken = self.choices.where(np.sort(state.choice))
        one = taken.of(Kind.ONE_NODE)
        placed = [
            Piece(int(job), ANY_TYPE, (), int(replicas), spread=False)
            for job, replicas in zip(taken.job[one], taken.replicas[one], strict=True)
        ]
        nodes = state.node[taken.job[one]].tolist()
        pieces = placed + [piece for piece, _ in spread]
        return self.packer.allocation(taken, pieces, nodes + [node for _, node in spread])
