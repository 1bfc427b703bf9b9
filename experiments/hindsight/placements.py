"""Greatest rates of an application over placements and batch sizes.

Placements on up to `MEASURED_NODES` nodes are all there, uneven ones, too; of those on more, whose
times are known by their numbers of nodes and GPUs only, one for each number of nodes. Batch sizes
are all whole numbers of examples on each GPU.
"""

from __future__ import annotations

from collections.abc import Hashable
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.applications.application import ProfiledApplication
from goodalloc.data.applications.step_tables import step_table
from goodalloc.data.applications.traces import MeasuredApplication
from goodalloc.experiments.replay.simulated_job import requested_split
from goodalloc.models.goodput.statistical_efficiency import GradientStatistics, adascale_gain

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jaxtyping import Float, Int

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.models.round.cluster import Cluster
    from goodalloc.models.support.array_types import Floats, Indices

#: Most nodes of a placement that counts as measured for itself: published ones have no more.
MEASURED_NODES = 4


class PlacedRates(NamedTuple):
    """Greatest rates over batch sizes on every placement of a number of GPUs.

    Attributes
    ----------
    spreads
        The placements, the one with the greatest mean rate first.
    rates
        The rate on each in every epoch.
    """

    spreads: tuple[Spread, ...]
    rates: Float[Floats, "spreads epochs"]


class _Passes(NamedTuple):
    """Ways to train a batch on a number of GPUs.

    Attributes
    ----------
    sizes
        Examples per GPU and pass.
    further
        Passes before the one that synchronises.
    """

    sizes: Int[Indices, " sizes"]
    further: Int[Indices, " sizes"]


class Placements:
    """Placements of an application on the GPUs of one type, and its rates there.

    Parameters
    ----------
    application
        The true application.
    cluster
        The nodes.
    gpu_type
        Name of the type; empty where the nodes name none.
    """

    def __init__(self, application: Application, cluster: Cluster, gpu_type: str) -> None:
        self._per_node = cluster.most_per_node[gpu_type]
        self._nodes = cluster.node_types.count(gpu_type)
        self.num_gpus = cluster.type_gpus[gpu_type]
        self._application = application.on(gpu_type)
        self._gains = _Gains(self._application)
        self._placed: dict[int, PlacedRates] = {}
        self._passes: dict[int, _Passes] = {}

    def spreads(self, gpus: int) -> Iterator[Spread]:
        """Yield the placements whose times may differ; rotations of one are equal.

        Parameters
        ----------
        gpus
            Number of GPUs.
        """
        for number in range(-(-gpus // self._per_node), min(gpus, self._nodes) + 1):
            if number <= MEASURED_NODES:
                for spread in product(range(1, self._per_node + 1), repeat=number):
                    rotations = (spread[start:] + spread[:start] for start in range(number))
                    if sum(spread) == gpus and spread == min(rotations):
                        yield spread
            else:
                each, more = divmod(gpus, number)
                yield (each + 1,) * more + (each,) * (number - more)

    def at(self, gpus: int) -> PlacedRates:
        """Return the placements of a number of GPUs, with the greatest rates on each.

        Parameters
        ----------
        gpus
            Number of GPUs, of those that there are.
        """
        if gpus not in self._placed:
            spreads = tuple(self.spreads(gpus))
            sizes, seconds = self._seconds(spreads)
            known = np.isfinite(seconds).any(axis=0)
            rates = np.zeros((len(spreads), self._application.epochs))
            if known.any():
                gained = self._gains.at(sizes[known].tolist())
                for row, own in enumerate(seconds[:, known]):
                    rates[row] = (gained / own[:, None]).max(axis=0)
            order = np.argsort(-rates.mean(axis=1), kind="stable").tolist()
            fastest_first = tuple(spreads[index] for index in order)
            self._placed[gpus] = PlacedRates(fastest_first, rates[order])
        return self._placed[gpus]

    def best_rates(self, gpus: Floats) -> Float[Floats, "epochs counts"]:
        """Return the greatest rate in every epoch on every number of GPUs.

        Parameters
        ----------
        gpus
            Numbers of GPUs; the rate is 0 on more than there are.
        """
        rates = np.zeros((gpus.size, self._application.epochs))
        for row, number in enumerate(gpus.astype(int).tolist()):
            if number <= self.num_gpus:
                rates[row] = self.at(number).rates.max(axis=0)
        return rates.T

    def _seconds(
        self, spreads: Sequence[Spread]
    ) -> tuple[Int[Indices, " sizes"], Float[Floats, "spreads sizes"]]:
        """Return total batch sizes, and the seconds of a step; infinity where not measured.

        No job of a replay can run where it was not measured.
        """
        application, replicas = self._application, sum(spreads[0])
        sizes, further = self._passes_on(replicas)
        if not sizes.size:
            return sizes, np.zeros((len(spreads), 0))
        step, synchronisation = step_table(application, spreads, sizes)
        seconds = (step + (step - synchronisation) * further) * application.slowdown
        return replicas * sizes * (further + 1), np.where(np.isnan(seconds), np.inf, seconds)

    def _passes_on(self, replicas: int) -> _Passes:
        """Return the ways to train every batch size on a number of GPUs."""
        if replicas not in self._passes:
            limits = self._application.batch
            maximum = int(limits.maximum)
            least = max(int(limits.initial), int(limits.atomic_minimum) * replicas)
            used: set[tuple[int, int]] = set()
            if least <= maximum:
                # as many examples on every GPU: others are rounded up to these
                first, last = -(-least // replicas), -(-maximum // replicas)
                totals = {least, *range(first * replicas, last * replicas + 1, replicas)}
                for size, more in {requested_split(total, replicas, limits) for total in totals}:
                    used.add((min(size, maximum // (replicas * (more + 1))), more))
            self._passes[replicas] = _Passes(*np.array(sorted(used), int).reshape(-1, 2).T)
        return self._passes[replicas]


def placements_of(application: Application, cluster: Cluster, gpu_type: str) -> Placements:
    """Return the placements of an application; of one that can be hashed they keep their rates.

    Parameters
    ----------
    application, cluster, gpu_type
        As in `Placements`.
    """
    if isinstance(application, Hashable):
        return _kept_placements(application, cluster, gpu_type)
    return Placements(application, cluster, gpu_type)


@lru_cache(maxsize=128)
def _kept_placements(application: Any, cluster: Cluster, gpu_type: str) -> Placements:
    return Placements(application, cluster, gpu_type)


class _Gains:
    """Progress of a step of an application in every epoch, by total batch size."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self._sizes = _sizes_of_statistics(application)
        self._table = self._found(self._sizes)

    def _found(self, batches: Sequence[int]) -> Floats:
        """Return square and variance as the application tells them; shape (2, batches, epochs)."""
        one, epochs = self.application, range(self.application.epochs)
        found = [[one.gradient_statistics(batch, epoch) for epoch in epochs] for batch in batches]
        return np.array(found, dtype=float).reshape(len(batches), len(epochs), 2).transpose(2, 0, 1)

    def at(self, batches: Sequence[int]) -> Floats:
        """Return the gains at total batch sizes; shape (batches, epochs)."""
        if self._sizes:
            for end in (min(batches), max(batches)):
                self.application.gradient_statistics(end, 0)  # refuses what was not measured
            square, variance = (
                np.stack([np.interp(batches, self._sizes, column) for column in table.T], axis=1)
                for table in self._table
            )
        else:
            square, variance = self._found(batches)
        initial, total = float(self.application.batch.initial), np.array(batches, float)[:, None]
        return np.asarray(adascale_gain(GradientStatistics(square, variance), initial, total))


def _sizes_of_statistics(application: Application) -> tuple[int, ...]:
    """Return the batch sizes between which gradient statistics are linear; none if not known."""
    if isinstance(application, MeasuredApplication):
        return tuple(application.batch_sizes)
    if isinstance(application, ProfiledApplication):
        sizes = application.profile.batch_sizes.tolist()
        if all(size.is_integer() for size in sizes):
            return tuple(map(int, sizes))
    return ()
