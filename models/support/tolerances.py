"""Numerical tolerances that several modules share, each with its reason.

A constant that belongs to one algorithm (a stopping rule, a proven bound of the rounding of one
sum) stays in the module of that algorithm.
"""

from __future__ import annotations

#: Relative excess over the capacity of a node, or of a shared GPU, that counts as rounding: sums
#: of decimal demands differ from the capacity by a few units of the last digit.
RESOURCE_TOLERANCE = 1e-9

#: Distance from a whole number, in units, that counts as rounding: units are divided from demands
#: that are granted `RESOURCE_TOLERANCE`.
WHOLE_TOLERANCE = 1e-9

#: Relative difference of two sums that counts as rounding: float64 keeps 16 digits, and a sum of
#: ten thousand terms loses no more than four.
ROUNDING = 1e-12

#: Relative gap that counts as none and is asked of no solver: rounding of the objective leaves it.
LEAST_GAP = 1e-12

#: Relative gap at which an answer counts as optimal unless the caller says otherwise: far below
#: any difference of schedules, far above `LEAST_GAP`.
DEFAULT_GAP = 1e-9

#: Floor under a divisor that may be zero, so that the quotient of a zero is zero.
SMALLEST_DIVISOR = 1e-300
