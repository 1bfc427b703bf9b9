"""Studies beyond the published ones: exact against genetic, other objectives, prior knowledge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.experiments.studies.pollux.paired_comparison import Pair, Way, paired_study
from goodalloc.experiments.studies.pollux.scenario import DISTURBED, LARGE, LOADS, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goodalloc.experiments.studies.framework.reproduction import Reproduction
    from goodalloc.experiments.studies.pollux.paired_comparison import PairRow
    from goodalloc.experiments.studies.pollux.scenario import Scenario

EXACT = Way("exact")
GENETIC = Way("genetic", "pollux-genetic")
#: The same optima with ties broken otherwise: a smaller difference than to this is noise.
UNTIED = Way("other ties", "pollux-untied")


def _exact_against_others(title: str, scenarios: Iterable[Scenario]) -> Reproduction[PairRow]:
    pairs = [Pair(one, EXACT, other) for one in scenarios for other in (GENETIC, UNTIED)]
    return paired_study(title, pairs, gaps=True)


#: Effect of exact decisions on completion times.
EXACTNESS = _exact_against_others("What deciding every round exactly changes", LOADS)

#: The same after a disturbance.
DISTURBANCES = _exact_against_others("What it changes after a disturbance", DISTURBED)

#: The same on four times the cluster with four times the jobs.
SCALE = _exact_against_others("What it changes on a larger cluster", (LARGE,))

#: Cost of the myopic objective: the same exact solver under others.
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

#: Cost of exploration, and benefit of knowing the application.
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
