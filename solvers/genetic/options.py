"""Parameters of the genetic algorithm.

References
----------
Qiao et al., "Pollux: Co-adaptive Cluster Scheduling for Goodput-Optimized Deep Learning", OSDI
    2021, section 4.2. https://www.usenix.org/conference/osdi21/presentation/qiao
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from goodalloc.models.support.validation import require_count, require_number


@dataclass(frozen=True, slots=True)
class GeneticOptions:
    """Parameters of the genetic algorithm; the defaults are those of Pollux's artifact.

    Parameters
    ----------
    population
        Members of the population, and children a generation.
    crossover_probability
        Probability that two parents are crossed rather than copied.
    reset_rate
        Probability that a child's row goes back to the current allocation.
    drop_row_rate
        Probability that entries of a child's row may be set to 0.
    drop_rate
        Probability that an entry of such a row is set to 0.
    mode_rate
        Probability that the mode of a child's row is drawn anew, where jobs have modes. (The
        artifact has no modes.)
    mating_rounds
        Most children made in a generation, in populations. Duplicates are dropped; further children
        replace them, made in batches of a quarter of the population (32 at most) until there are
        enough. The artifact makes up to 100 attempts, each for the missing children alone.

    Raises
    ------
    ValueError
        If `population` < 2, `mating_rounds` < 1, or a probability is outside [0, 1].
    """

    population: int = 100
    crossover_probability: float = 0.9
    reset_rate: float = 0.1
    drop_row_rate: float = 0.1
    drop_rate: float = 0.1
    mode_rate: float = 0.02
    mating_rounds: int = 4

    def __post_init__(self) -> None:
        require_count("GeneticOptions: population", self.population, minimum=2)
        require_count("GeneticOptions: mating_rounds", self.mating_rounds, minimum=1)
        rates = ("crossover_probability", "reset_rate", "drop_row_rate", "drop_rate", "mode_rate")
        for name in rates:
            value = getattr(self, name)
            require_number(f"GeneticOptions: {name}", value, minimum=0.0)
            if value > 1.0:
                raise ValueError(f"GeneticOptions: {name} is {value!r}; expected at most 1.")

    def replace(self, **changes: Any) -> GeneticOptions:
        """Return a copy with some values changed."""
        return replace(self, **changes)
