"""Studies beyond what was published: exact against genetic, other objectives, what jobs know."""

from __future__ import annotations

from goodalloc.experiments.paired import Pair, Way, paired_study
from goodalloc.experiments.scenario import DISTURBED, LARGE, LOADS, PUBLISHED

EXACT = Way("exact")
GENETIC = Way("genetic", "pollux-genetic")
#: The same optima with ties broken otherwise: no difference below the one to this is more than
#: noise.
UNTIED = Way("other ties", "pollux-untied")

#: Does deciding every round exactly shorten the jobs?
EXACTNESS = paired_study(
    "What deciding every round exactly changes",
    [
        Pair(scenario, EXACT, other)
        for scenario in (*LOADS, *DISTURBED)
        for other in (GENETIC, UNTIED)
    ],
    gaps=True,
)

#: And on four times the cluster with four times the jobs?
SCALE = paired_study(
    "What deciding every round exactly changes on a larger cluster",
    [Pair(LARGE, EXACT, other) for other in (GENETIC, UNTIED)],
    gaps=True,
)

#: What does the myopic objective cost? The same exact solver under others.
OBJECTIVES = paired_study(
    "The same exact solver under other objectives",
    [
        Pair(PUBLISHED, way, Way("p = -1"))
        for way in (
            Way("p = +1", options={"power": 1.0}),
            Way("p = 0", options={"power": 0.0}),
            Way("p = -10", options={"power": -10.0}),
            Way("total goodput", "pollux-goodput"),
            Way("remaining time, p = -1", "pollux-remaining"),
            Way("remaining time, p = +1", "pollux-remaining", {"power": 1.0}),
        )
    ],
)

#: What does exploration cost, and what is experience worth?
KNOWLEDGE = paired_study(
    "What jobs know of their application when they start",
    [
        Pair(PUBLISHED, way, Way("explored"))
        for way in (
            Way("history", setting={"knowledge": "history"}),
            Way("profiled", setting={"knowledge": "profiled"}),
        )
    ],
)
