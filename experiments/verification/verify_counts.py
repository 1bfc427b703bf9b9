"""Part of the stand-alone checker `verify.py`: how many jobs stay at a level in any allocation.

With cost 1 for choices of a utility up to the level and 0 for all others, prices bound the number
of jobs that take one of them from below. What holds of every allocation may have a price: these
choices then cost less by it, and it is added as often as jobs take them at least.
"""

import importlib
from fractions import Fraction
from typing import Any

import numpy as np

PACKAGE = f"{__package__}." if __package__ else ""  # empty if this file is run by itself
verify_prices: Any = importlib.import_module(f"{PACKAGE}verify_prices")
verify_round: Any = importlib.import_module(f"{PACKAGE}verify_round")
fields, numbers, require = verify_round.fields, verify_round.numbers, verify_round.require


def read_counts(r: Any, given: Any, utility: Any, may: Any, exact: bool) -> list[Any]:
    """Return the choices up to each level, and how many jobs are proved to take one of them."""
    found = []
    for one in given:
        count = fields("Count", one, "count")
        here, prices = utility <= count.level, verify_prices.read_prices(r, count.prices)
        require(not prices.counts, "Count: its prices have counts.")
        least = verify_prices.leaf_cost(r, prices, np.where(here, 1.0, 0.0), may, exact)
        said = f"Count: {count.least} jobs or more are said to stay at or below {count.level!r}"
        require(least > count.least - 1, f"{said}; prices prove {float(least)!r}.")
        found.append((here, count.least))
    return found


def leaf_cost(r: Any, counts: Any, p: Any, costs: Any, may: Any, exact: bool) -> Any:
    """Return the least cost of allocations, as `verify_prices.leaf_cost`, with prices of counts."""
    prices, earned = numbers("Prices: counts", p.counts), Fraction(0)
    require(len(prices) <= len(counts), f"Prices: counts are {len(prices)}, not {len(counts)}.")
    for (here, number), price in zip(counts, prices, strict=False):
        costs = np.where(here & (price > 0), np.nextafter(costs - price, -np.inf), costs)
        earned += number * Fraction(price)
    return verify_prices.leaf_cost(r, p, costs, may, exact) + earned
