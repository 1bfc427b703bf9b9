"""Applications on the lowest level of a tree that has room for them, where they are fastest.

A job on several nodes synchronises as the lowest level that holds them does
(`models/topology/level_speeds.py`). A level can hold *n* nodes if one of its domains has that many;
the lowest such level slows *n* nodes down least, wherever they are. Bounds by these speeds
therefore hold for every placement on the tree.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.applications.application import ProfiledApplication, StepTimes
from goodalloc.data.applications.step_tables import step_table
from goodalloc.data.applications.traces import MeasuredApplication

if TYPE_CHECKING:
    from collections.abc import Mapping

    from goodalloc.data.applications.application import Application, Spread
    from goodalloc.models.topology.topology import Topology


def on_best_levels(
    applications: Mapping[str, Application], topology: Topology
) -> dict[str, Application]:
    """Return applications whose nodes synchronise as at the lowest level that has as many.

    Parameters
    ----------
    applications
        The true applications without the tree, by name: shipped profiles or measurements.
    topology
        The tree.

    Raises
    ------
    ValueError
        If an application is of another class.

    Examples
    --------
    >>> from goodalloc.data.applications import profiled_applications
    >>> from goodalloc.data.applications import on_best_levels
    >>> from goodalloc.models.topology import Level, Topology
    >>> racks = Topology.regular(4, [(Level("rack"), 2)], slowdown=3.0)
    >>> found = on_best_levels(profiled_applications(), racks)["bert"]
    >>> plain = profiled_applications()["bert"].step_times((4, 4, 4), 8)
    >>> slow = found.step_times((4, 4, 4), 8)  # on two racks, as no rack has three nodes
    >>> round(slow.synchronisation / plain.synchronisation, 6)
    3.0
    """
    return {name: _on_best_levels(_known(one), topology) for name, one in applications.items()}


def _known(application: Application) -> MeasuredApplication | ProfiledApplication:
    if isinstance(application, (MeasuredApplication, ProfiledApplication)):
        return application
    raise ValueError(
        f"Application '{application.name}': it is of the class {type(application).__name__}; "
        "expected a profile or measurements, whose speeds on a tree are known."
    )


@lru_cache(maxsize=32)  # what was looked up on a tree serves all its days
def _on_best_levels(
    application: MeasuredApplication | ProfiledApplication, topology: Topology
) -> Application:
    if isinstance(application, MeasuredApplication):
        return _MeasuredOnBestLevels(application, topology)
    return _ProfiledOnBestLevels(application, topology)


class _OnBestLevels:
    """Speeds of an application on the lowest levels with room; see the module.

    The classes of applications, which it precedes, tell how their gradient statistics are known.
    """

    def __init__(
        self, application: MeasuredApplication | ProfiledApplication, topology: Topology
    ) -> None:
        vars(self).update(vars(application))
        self._plain, self._topology = application, topology
        domains = topology.domain[1:]
        self._rooms = [int(np.bincount(names).max()) for names in domains[:-1]]
        self._rows: dict[Spread, list[StepTimes]] = {}

    def on(self, gpu_type: str) -> Application:
        """Return the application on a type of GPU, on the same tree."""
        return _on_best_levels(_known(self._plain.on(gpu_type)), self._topology)

    def step_times(self, spread: Spread, atomic_batch_size: int) -> StepTimes:
        """Return the times of a pass at the lowest level with so many nodes."""
        if spread not in self._rows:
            self._rows[spread] = self._row(spread)
        row = self._rows[spread]
        if atomic_batch_size >= len(row) or math.isnan(row[atomic_batch_size].step):
            raise ValueError(
                f"Application '{self._plain.name}': {atomic_batch_size} examples a GPU on nodes "
                f"with {'+'.join(map(str, spread))} GPUs is outside what was measured."
            )
        return row[atomic_batch_size]

    def _row(self, spread: Spread) -> list[StepTimes]:
        """Return the times of a pass with every number of examples on a GPU, from 0."""
        sizes = np.arange(int(self._plain.batch.maximum) // sum(spread) + 1)
        (step,), (synchronisation,) = step_table(self._plain, [spread], sizes)
        slowdown = self._slowdown(len(spread))
        step = step + (slowdown - 1.0) * synchronisation
        return list(map(StepTimes, step.tolist(), (slowdown * synchronisation).tolist()))

    def _slowdown(self, nodes: int) -> float:
        """Return the slowdown of the lowest level that has room for nodes; 1 for one node."""
        if nodes == 1:
            return 1.0
        slowdowns = self._topology.slowdowns
        return next(
            (slow for slow, room in zip(slowdowns, self._rooms, strict=False) if room >= nodes),
            slowdowns[-1],
        )


class _MeasuredOnBestLevels(_OnBestLevels, MeasuredApplication):
    """Measured application on the lowest levels with room."""


class _ProfiledOnBestLevels(_OnBestLevels, ProfiledApplication):
    """Profiled application on the lowest levels with room."""
