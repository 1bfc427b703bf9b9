"""Round of the library as a line of its table, and what can be said of it by its numbers alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from goodalloc.data.documents.json_file import shown
from goodalloc.models.support.validation import literal, require_choice, require_count, require_name

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

#: Classes, in the order in which a round that is of several falls into one of them.
CATEGORIES = ("degenerate", "large", "hard", "easy")

#: Relative gap up to which a best known value counts as optimal.
CLOSED_GAP = 1e-6

#: Jobs times nodes from which a round is large.
LARGE = 20_000

#: Seconds of the package's exact solver above which a round is hard, …
HARD_SECONDS = 10.0

#: … and relative loss of the better greedy heuristic above which it is hard, too.
HARD_SPREAD = 0.05

#: Feature of rounds on a tree.
TREE = "tree"

#: Length of a SHA-256 in hex.
DIGEST_LENGTH = 64


@dataclass(frozen=True)
class LibraryRound:
    """Round of the library.

    Parameters
    ----------
    name
        Unique name, which is that of the instance, too.
    origin
        Trace, workload or generator that its jobs come from.
    category
        One of `CATEGORIES`.
    recipe
        How it is made anew (`goodalloc.data.library.recipes`); of a recorded round, whose file
        ships, how it was recorded.
    jobs, nodes, gpus
        Sizes.
    features
        What it has beyond jobs without modes on equal nodes (`features_of`).
    sha256
        Digest of the instance (`goodalloc.data.files.instance_digest`), on a tree with the tree
        (`goodalloc.data.topology.tree_round_digest`).
    since
        Version of the library of rounds in which it entered.
    fitness, bound
        Best known value and proven bound; NaN and infinite where nothing is known.
    solver, seconds
        Solver that found the value, and its seconds; empty and NaN where nothing is known.
    greedy
        Fitness of the better of the greedy heuristics; NaN if unknown.
    proof
        ``"certificate"`` if prices prove the bound, which a stand-alone checker verifies;
        ``"solver"`` if it rests on the word of a solver that ships; empty where nothing is known.

    Raises
    ------
    ValueError
        If a value is out of range, or the bound is below the best known value.
    """

    name: str
    origin: str
    category: str
    recipe: str
    jobs: int
    nodes: int
    gpus: int
    features: tuple[str, ...]
    sha256: str
    since: int = 1
    fitness: float = math.nan
    bound: float = math.inf
    solver: str = ""
    seconds: float = math.nan
    greedy: float = math.nan
    proof: str = ""

    def __post_init__(self) -> None:
        require_name("Library round", self.name)
        item = f"Library round '{self.name}'"
        if not all(c.isascii() and (c.isalnum() or c in "-.") for c in self.name):
            raise ValueError(f"{item}: expected a name of letters, digits, '-' and '.' only.")
        require_name(f"{item}: origin", self.origin)
        require_choice(f"{item}: class", self.category, CATEGORIES)
        for name in ("jobs", "nodes", "since"):
            require_count(f"{item}: {name}", getattr(self, name), minimum=1)
        require_count(f"{item}: gpus", self.gpus, minimum=0)
        hexadecimal = set(self.sha256) <= set("0123456789abcdef")
        if len(self.sha256) != DIGEST_LENGTH or not hexadecimal:
            raise ValueError(f"{item}: sha256 is {shown(self.sha256)}; expected 64 hex digits.")
        require_choice(f"{item}: proof", self.proof, ("", "certificate", "solver"))
        if self.fitness > self.bound * (1.0 + 1e-9):
            raise ValueError(
                f"{item}: bound is {literal(self.bound)}; expected at least the best known value, "
                f"{literal(self.fitness)}."
            )

    @property
    def gap(self) -> float:
        """Relative gap from the best known value to the bound; NaN where nothing is known."""
        return max(1.0 - self.fitness / self.bound, 0.0) if self.known else math.nan

    @property
    def known(self) -> bool:
        """Whether a value and a bound are known."""
        return math.isfinite(self.bound) and not math.isnan(self.fitness)

    @property
    def closed(self) -> bool:
        """Whether the best known value is proved to be optimal."""
        return self.known and self.gap <= CLOSED_GAP

    @property
    def recorded(self) -> bool:
        """Whether the round was recorded in a replay, so that its file ships."""
        return self.recipe.startswith("recorded ")

    @property
    def on_tree(self) -> bool:
        """Whether its cluster is a tree, so that it is a `TopologyRound`."""
        return TREE in self.features


def features_of(instance: Instance) -> tuple[str, ...]:
    """Return what a round has beyond jobs without modes and placements on equal nodes.

    Examples
    --------
    >>> from goodalloc.data import load_benchmark
    >>> from goodalloc.data.library import features_of
    >>> features_of(load_benchmark("mixed-nodes"))
    ('running', 'mixed-nodes')
    """
    groups = instance.cluster.groups
    modes = [mode for job in instance.jobs for mode in job.modes]
    amounts = {name for mode in modes for name, _ in mode.resources}
    found = {
        "running": any(job.placement for job in instance.jobs),
        "rigid": all(job.min_replicas == job.max_replicas > 0 for job in instance.jobs),
        "modes": bool(modes),
        "types": len({group.gpu_type for group in groups if group.gpus}) > 1,
        "cores": "cpu" in amounts,
        "memory": "memory" in amounts,
        "shares": instance.shares_gpus,
        "mixed-nodes": len({group.gpus for group in groups}) > 1,
        "interference": not instance.rules.interference_avoidance,
        f"power={instance.rules.power:g}": instance.rules.power != -1.0,
    }
    return tuple(name for name, holds in found.items() if holds)


def category_of(found: LibraryRound, *, degenerate: bool) -> str:
    """Return the class of a round by its size and by what is known of it.

    Parameters
    ----------
    found
        The round, whose own class does not count.
    degenerate
        Whether it was made to be degenerate, which no number tells.

    Examples
    --------
    >>> from goodalloc.data.library import category_of, find_round
    >>> category_of(find_round("tiny-cold"), degenerate=False)
    'easy'
    """
    if degenerate:
        return "degenerate"
    if found.jobs * found.nodes >= LARGE:
        return "large"
    lost = 1.0 - found.greedy / found.fitness
    unproved = found.known and not found.closed
    hard = unproved or found.seconds > HARD_SECONDS or lost > HARD_SPREAD
    return "hard" if bool(np.bool_(hard)) else "easy"
