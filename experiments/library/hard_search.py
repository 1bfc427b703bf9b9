"""Search for hard rounds: seeded, over the parameters of the recipes.

    python -m goodalloc.experiments.library.hard_search --seed 1 --trials 60 --seconds 10

Recipes are drawn, and half of the time one of the hardest so far is changed in one parameter. A
round is the harder the longer the package's exact solver needs to prove its optimum; without a
proof within the limit, the larger the gap that it leaves. The hardest go into
`goodalloc.data.library.families` by hand, since what enters the library is a decision.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.data.library.library_round import CLOSED_GAP
from goodalloc.data.library.recipes import make_round, parse_recipe, recipe_text
from goodalloc.experiments.gap.comparison import attempt
from goodalloc.experiments.library.first_solvers import exact_solver
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.support.validation import require_count, require_number
from goodalloc.solvers.interface.stop import Stop

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

logger = logging.getLogger(__name__)

#: Values of the parameters of each recipe among which is searched; the seed is another one.
SPACES: Mapping[str, Mapping[str, Sequence[Any]]] = MappingProxyType(
    {
        "pollux": {
            "jobs": (30, 60, 90, 120),
            "groups": ("a:10:8", "a:16:4", "a:8:2+b:8:4+c:6:8", "a:6:16+b:4:3", "a:20:3"),
            "state": ("cold", "running", "disturbed", "settled"),
            "power": (-2.0, -1.0, 0.0, 0.5, 1.0, 2.0),
            "interference": (True, False),
            "delay": (0.0, 30.0, 300.0),
            "distributed": (0.0, 0.3, 0.7),
        },
        "equipped": {
            "jobs": (20, 40, 60),
            "nodes": (4, 6, 10),
            "gpus": (4, 8),
            "cores": (12, 16, 24),
            "memory": (0, 128),
            "state": ("cold", "disturbed"),
            "power": (-1.0, 0.5, 1.0),
        },
        "sia": {"jobs": (40, 80, 120), "scale": (1, 2, 3), "state": ("cold", "running")},
        "synergy": {"jobs": (24, 40, 64, 100), "servers": (3, 5, 8), "several": (True, False)},
        "openb": {"pods": (60, 100, 150, 250), "nodes": (10, 16, 24, 40)},
        "awkward": {"jobs": (20, 40, 80, 160), "nodes": (4, 8, 16, 32)},
        "equal": {
            "jobs": (20, 40, 80),
            "nodes": (6, 10, 20),
            "gpus": (3, 5, 8),
            "kinds": (3, 7, 11),
            "least": (1, 2, 3),
            "power": (-1.0, 0.0, 1.0),
        },
    }
)

#: Seeds of the rounds, and number of the hardest among which one is changed.
SEEDS, HARDEST = 1_000, 5


class Trial(NamedTuple):
    """Round that was tried.

    Attributes
    ----------
    recipe
        The round.
    hardness
        Seconds until the proof; without one the limit times 1 plus the gap.
    """

    recipe: str
    hardness: float


def hardness_of(recipe: str, seconds: float) -> float:
    """Return how hard a round is for the package's exact solver.

    Parameters
    ----------
    recipe
        The round.
    seconds
        Time limit.
    """
    instance = make_round(recipe, "trial")
    mode_utilities(instance)
    begin = time.perf_counter()
    result = attempt(instance, exact_solver(instance), stop=Stop(seconds=seconds))
    if result.allocation is None:
        return 2.0 * seconds
    if result.gap <= CLOSED_GAP:
        return min(time.perf_counter() - begin, seconds)
    return seconds * (1.0 + min(result.gap, 1.0))


def search(
    seed: int,
    trials: int,
    hardness: Callable[[str], float],
    report: Callable[[Trial], None] = lambda trial: None,
) -> list[Trial]:
    """Search for hard rounds, and return all that were tried, the hardest first.

    Parameters
    ----------
    seed
        Seed of all draws; equal seeds try equal rounds where these are equally hard.
    trials
        Number of rounds to try.
    hardness
        Measures a recipe.
    report
        Called with every trial.

    Raises
    ------
    ValueError
        If a number is out of range.

    Examples
    --------
    >>> from goodalloc.experiments.library import search
    >>> search(seed=1, trials=3, hardness=len)[0].hardness > 20
    True
    """
    require_count("Search: seed", seed, minimum=0)
    require_count("Search: trials", trials, minimum=1)
    random = np.random.default_rng(seed)
    found: list[Trial] = []
    while len(found) < trials:
        recipe = _changed(found, random) if found and random.random() < 0.5 else _drawn(random)
        if any(trial.recipe == recipe for trial in found):
            recipe = _drawn(random)
        trial = Trial(recipe, hardness(recipe))
        found.append(trial)
        found.sort(key=lambda one: -one.hardness)
        report(trial)
    return found


def _drawn(random: np.random.Generator) -> str:
    """Draw a recipe."""
    kind = str(random.choice(list(SPACES)))
    values = {name: _one(random, choices) for name, choices in SPACES[kind].items()}
    return recipe_text(kind, {"seed": int(random.integers(SEEDS)), **values})


def _changed(found: Sequence[Trial], random: np.random.Generator) -> str:
    """Change one of the hardest recipes in one parameter, of which the seed is one."""
    kind, arguments = parse_recipe(found[int(random.integers(min(HARDEST, len(found))))].recipe)
    name = str(random.choice(list(arguments)))
    new = int(random.integers(SEEDS)) if name == "seed" else _one(random, SPACES[kind][name])
    return recipe_text(kind, arguments | {name: new})


def _one(random: np.random.Generator, choices: Sequence[Any]) -> Any:
    return choices[int(random.integers(len(choices)))]


def main(argv: Sequence[str] | None = None) -> int:
    """Search, and tell the hardest rounds."""
    parser = argparse.ArgumentParser(description="Search for hard rounds.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--trials", type=int, default=60)
    parser.add_argument("--seconds", type=float, default=10.0, help="limit of each trial")
    parser.add_argument("--shown", type=int, default=20, help="how many of the hardest are told")
    arguments = parser.parse_args(argv)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    require_number("Search: seconds", arguments.seconds, minimum=0.0, strict=True)
    found = search(
        arguments.seed,
        arguments.trials,
        lambda recipe: hardness_of(recipe, arguments.seconds),
        lambda trial: logger.info("%.2f  %s", trial.hardness, trial.recipe),
    )
    logger.info("the hardest:")
    for trial in found[: arguments.shown]:
        proof = "" if trial.hardness <= arguments.seconds else "  (no proof)"
        logger.info("%.2f  %s%s", trial.hardness, trial.recipe, proof)
    return 0


if __name__ == "__main__":
    sys.exit(main())
