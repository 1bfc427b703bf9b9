"""Studies beyond the published ones: exact against genetic, other objectives, prior knowledge."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from goodalloc.experiments.replay.replay_conditions import MeasurementNoise, Setting
from goodalloc.experiments.studies.pollux.paired_comparison import Pair, Way, paired_study
from goodalloc.experiments.studies.pollux.scenario import (
    DISTURBED,
    LARGE,
    LOADS,
    PUBLISHED,
    Scenario,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from goodalloc.experiments.replay.replay_conditions import Knowledge
    from goodalloc.experiments.studies.framework.reproduction import Reproduction
    from goodalloc.experiments.studies.pollux.paired_comparison import PairRow

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


def _beside_published(title: str, *ways: Way) -> Reproduction[PairRow]:
    return paired_study(title, [Pair(PUBLISHED, way, Way("p = -1")) for way in ways])


#: Other objectives of a round, decided by the same exact solver.
OBJECTIVES = _beside_published(
    "The same exact solver under other objectives",
    Way("p = +1", options={"power": 1.0}),
    Way("p = 0", options={"power": 0.0}),
    Way("p = -10", options={"power": -10.0}),
    Way("total goodput", "pollux-goodput"),
)

#: Objectives that divide by the remaining time, which an oracle tells.
REMAINING_TIME = _beside_published(
    "Objectives that know the remaining time",
    Way("remaining time, p = -1", "pollux-remaining"),
    Way("remaining time, p = +1", "pollux-remaining", {"power": 1.0}),
)

#: Errors of what agents observe: deviations of the logarithms.
SOME, MUCH = MeasurementNoise(0.2, 0.5, 0.5), MeasurementNoise(0.4, 1.0, 1.0)
NOISES = {
    "step times 20 %": MeasurementNoise(step_time=0.2),
    "noise scale 50 %": MeasurementNoise(noise_scale=0.5),
    "ages 50 %": MeasurementNoise(age=0.5),
    "all of these": SOME,
}

#: The published load, observed with errors.
NOISY = tuple(
    Scenario(label, setting=Setting(noise=noise))
    for label, noise in (("all errors", SOME), ("twice the errors", MUCH))
)

#: What errors cost each policy, and what decisions for uncertain models gain and cost.
NOISE = paired_study(
    "What noisy measurements cost, and what deciding for them gains",
    [
        *(
            Pair(PUBLISHED, replace(way, label=f"{way.label}, twice as much", setting=noisy), way)
            for way in (EXACT, GENETIC, Way("optimus", "optimus", setting={"oracle": "estimated"}))
            for noisy in ({**way.setting, "noise": MUCH},)
        ),
        *(
            Pair(PUBLISHED, Way(f"exact, {label}", setting={"noise": noise}), EXACT)
            for label, noise in NOISES.items()
        ),
        *(
            Pair(scenario, way, EXACT)
            for scenario in (PUBLISHED, *NOISY)
            for way in (
                Way("mean of draws", "pollux-robust"),
                Way("least of draws", "pollux-worst"),
            )
        ),
    ],
    quick_pairs=2,
)


def _beside_exploration(title: str, *knowledge: Knowledge) -> Reproduction[PairRow]:
    ways = (Way(one, setting={"knowledge": one}) for one in knowledge)
    return paired_study(title, [Pair(PUBLISHED, way, Way("explored")) for way in ways])


#: Cost of exploration, and benefit of knowing the application.
KNOWLEDGE = _beside_exploration(
    "What jobs know of their application when they start", "history", "profiled"
)

#: Benefit of predictions from similar jobs.
EXPERIENCE = _beside_exploration(
    "What predictions from similar jobs are worth", "similar", "others"
)
