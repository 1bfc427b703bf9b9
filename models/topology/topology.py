"""Topology: the tree of a cluster, as levels of domains between the node and the whole cluster.

A domain of a level is a set of nodes, such as a rack; the domains of a level divide the nodes among
them, and each lies within one domain of the next level. The node itself and the whole cluster are
levels as well, the lowest and the highest, and are not listed.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.models.support.validation import (
    did_you_mean,
    literal,
    require_count,
    require_name,
    require_number,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from jaxtyping import Int

    from goodalloc.models.support.array_types import Indices

#: Names of the lowest and of the highest level, which every topology has.
NODE, CLUSTER = "node", "cluster"

#: Slowest synchronisation of a level: far beyond any network, and far from overflowing.
LARGEST_SLOWDOWN = 1e6


@dataclass(frozen=True, slots=True)
class Level:
    """Level of a topology.

    Parameters
    ----------
    name
        Name of the level, such as ``"rack"``.
    slowdown
        Time of synchronisation of a job on several nodes that one domain of this level holds, over
        the time that the job's model states for several nodes; above 0.
    uplink_jobs
        Most jobs that may have GPUs both inside and outside of a domain, and so share its uplink;
        None for any number.

    Raises
    ------
    ValueError
        If the name is empty or that of an implied level, or a number is out of range.

    Examples
    --------
    >>> from goodalloc.models.topology import Level
    >>> Level("rack", slowdown=1.5, uplink_jobs=4).slowdown
    1.5
    """

    name: str
    slowdown: float = 1.0
    uplink_jobs: int | None = None

    def __post_init__(self) -> None:
        require_name("Level", self.name)
        if self.name in (NODE, CLUSTER):
            raise ValueError(
                f"Level '{self.name}': every topology has this level; expected another name."
            )
        require_slowdown(f"Level '{self.name}'", self.slowdown)
        if self.uplink_jobs is not None:
            require_count(f"Level '{self.name}': uplink_jobs", self.uplink_jobs, minimum=0)


def require_slowdown(item: str, slowdown: float) -> None:
    """Validate a slowdown."""
    require_number(f"{item}: slowdown", slowdown, minimum=0.0, strict=True)
    if slowdown > LARGEST_SLOWDOWN:
        raise ValueError(
            f"{item}: slowdown is {slowdown:g}; expected at most {LARGEST_SLOWDOWN:g}."
        )


@dataclass(frozen=True)
class Topology:
    """Tree of a cluster.

    Parameters
    ----------
    levels
        Levels from the lowest to the highest, without the node and the cluster; none for a cluster
        without structure.
    domains
        For each level, the name of the domain of every node, in node order.
    slowdown
        Slowdown of jobs that only the whole cluster holds; no less than that of any level.

    Raises
    ------
    ValueError
        If two levels share a name, a level is faster than one below it, the levels are of different
        numbers of nodes, or a domain lies in two domains of the next level.

    Examples
    --------
    >>> from goodalloc.models.topology import Level, Topology
    >>> racks = ("left", "left", "right")
    >>> topology = Topology((Level("rack"),), (racks,), slowdown=2.0)
    >>> topology.level_names, topology.domain.tolist()
    (('node', 'rack', 'cluster'), [[0, 1, 2], [0, 0, 1], [0, 0, 0]])
    """

    levels: tuple[Level, ...]
    domains: tuple[tuple[str, ...], ...]
    slowdown: float = 1.0

    def __post_init__(self) -> None:
        object.__setattr__(self, "levels", tuple(self.levels))
        object.__setattr__(self, "domains", tuple(tuple(names) for names in self.domains))
        if len(self.levels) != len(self.domains):
            raise ValueError(
                f"Topology: {len(self.domains)} lists of domains for {len(self.levels)} levels; "
                "expected one for each level."
            )
        require_slowdown("Topology", self.slowdown)
        self._check_levels()
        self._check_domains()

    def _check_levels(self) -> None:
        names = [level.name for level in self.levels]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"Level '{name}' is named twice; names are unique.")
        slowdowns = [*(level.slowdown for level in self.levels), self.slowdown]
        for name, below, above in zip(
            [*names[1:], CLUSTER], slowdowns, slowdowns[1:], strict=False
        ):
            if above < below:
                raise ValueError(
                    f"Level '{name}': slowdown is {above:g}; expected at least {below:g}, that of "
                    "the level below."
                )

    def _check_domains(self) -> None:
        for level, names in zip(self.levels, self.domains, strict=True):
            if len(names) != len(self.domains[0]) or not names:
                raise ValueError(
                    f"Level '{level.name}': {len(names)} nodes have a domain; expected "
                    f"{len(self.domains[0]) or 'some'}."
                )
            for name in set(names):
                require_name(f"Level '{level.name}': domain", name)
        for level, inner, outer in zip(self.levels, self.domains, self.domains[1:], strict=False):
            parents: dict[str, str] = {}
            for child, parent in zip(inner, outer, strict=True):
                if parents.setdefault(child, parent) != parent:
                    raise ValueError(
                        f"Level '{level.name}': domain '{child}' lies in '{parents[child]}' and in "
                        f"'{parent}'; expected one of them."
                    )

    @classmethod
    def regular(
        cls, nodes: int, levels: Sequence[tuple[Level, int]], slowdown: float | None = None
    ) -> Topology:
        """Return a topology of equal domains of consecutive nodes; the last may be smaller.

        Parameters
        ----------
        nodes
            Nodes of the cluster.
        levels
            Levels from the lowest to the highest, each with the nodes of a domain.
        slowdown
            As of the class; that of the highest level if None.

        Raises
        ------
        ValueError
            If a number of nodes is no multiple of that of the level below.

        Examples
        --------
        >>> from goodalloc.models.topology import Level, Topology
        >>> topology = Topology.regular(8, [(Level("rack"), 2), (Level("pod", 2.0), 4)])
        >>> topology.domains[1]
        ('pod-0', 'pod-0', 'pod-0', 'pod-0', 'pod-1', 'pod-1', 'pod-1', 'pod-1')
        """
        require_count("Topology: nodes", nodes, minimum=1)
        below = 1
        for level, size in levels:
            require_count(f"Level '{level.name}': nodes", size, minimum=1)
            if size % below:
                raise ValueError(
                    f"Level '{level.name}': nodes is {size}; expected a multiple of {below}, the "
                    "nodes of the level below."
                )
            below = size
        highest = levels[-1][0].slowdown if levels else 1.0
        return cls(
            tuple(level for level, _ in levels),
            tuple(
                tuple(f"{level.name}-{node // size}" for node in range(nodes))
                for level, size in levels
            ),
            highest if slowdown is None else slowdown,
        )

    @property
    def level_names(self) -> tuple[str, ...]:
        """Names of all levels, from the node to the cluster."""
        return (NODE, *(level.name for level in self.levels), CLUSTER)

    @property
    def slowdowns(self) -> tuple[float, ...]:
        """Slowdown of every level above the node, up to the cluster."""
        return (*(level.slowdown for level in self.levels), self.slowdown)

    @property
    def limited_levels(self) -> dict[int, int]:
        """Most jobs that share an uplink, by the position of the level (`level_names`)."""
        limits = enumerate((level.uplink_jobs for level in self.levels), start=1)
        return {place: most for place, most in limits if most is not None}

    @property
    def num_nodes(self) -> int | None:
        """Nodes of the cluster; None without levels, which suit any."""
        return len(self.domains[0]) if self.domains else None

    @cached_property
    def domain(self) -> Int[Indices, "levels nodes"]:
        """Domain of every node at each level, nodes and cluster included; empty without levels.

        Domains are numbered in the order of their first node.
        """
        nodes = self.num_nodes or 0
        rows = [np.arange(nodes)]
        for names in self.domains:
            index = {name: place for place, name in enumerate(dict.fromkeys(names))}
            rows.append(np.array([index[name] for name in names]))
        rows.append(np.zeros(nodes, dtype=np.int64))
        table = np.array(rows, dtype=np.int64)
        table.flags.writeable = False
        return table

    def place_of(self, item: str, name: str) -> int:
        """Return the position of a level in `level_names`.

        Parameters
        ----------
        item, name
            What asks for the level, for the message, and the level's name.

        Raises
        ------
        ValueError
            If there is no such level.
        """
        if name not in self.level_names:
            raise ValueError(
                f"{item} is {literal(name)}; expected one of {', '.join(self.level_names)}"
                f"{did_you_mean(name, self.level_names)}."
            )
        return self.level_names.index(name)

    def named_domains(self, place: int) -> Iterable[str]:
        """Return the names of the domains of a level between node and cluster, in their order."""
        return dict.fromkeys(self.domains[place - 1])
