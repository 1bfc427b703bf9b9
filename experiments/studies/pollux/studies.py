"""Studies beyond what was published: exact against genetic, other objectives, what jobs know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.experiments.studies.pollux.paired_comparison import Pair, Way, paired_study
from goodalloc.experiments.studies.pollux.scenario import DISTURBED, LARGE, LOADS, PUBLISHED

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goodalloc.experiments.studies.framework.reproduction import Reproduction
    from goodalloc.experiments.studies.pollux.scenario import Scenario

EXACT = Way("exact")
GENETIC = Way("genetic", "pollux-genetic")
#: The same optima with ties broken otherwise: no difference below the one to this is more than
#: noise.
UNTIED = Way("other ties", "pollux-untied")


def _exact_against_others(
    title: str, scenarios: Iterable[Scenario]
) -> Reproduction[dict[str, Any]]:
    pairs = [Pair(one, EXACT, other) for one in scenarios for other in (GENETIC, UNTIED)]
    return paired_study(title, pairs, gaps=True)


#: Does deciding every round exactly shorten the jobs?
EXACTNESS = _exact_against_others("What deciding every round exactly changes", LOADS)

#: And after a disturbance?
DISTURBANCES = _exact_against_others("What it changes after a disturbance", DISTURBED)

#: And on four times the cluster with four times the jobs?
SCALE = _exact_against_others("What it changes on a larger cluster", (LARGE,))

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
