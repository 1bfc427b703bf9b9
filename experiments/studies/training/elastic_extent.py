"""Jobs, settings and repetitions of the elastic trainings (`elastic.py`)."""

from __future__ import annotations

from typing import NamedTuple


class ElasticJob(NamedTuple):
    """Job of the cluster: its network, and its part of the steps of a whole training."""

    network: str
    share: float


#: The jobs in order of submission, by name.
JOBS = {
    "wide-long": ElasticJob("wide", 1.0),
    "perceptron": ElasticJob("perceptron", 0.5),
    "convolutional-long": ElasticJob("convolutional", 1.0),
    "wide": ElasticJob("wide", 0.5),
    "perceptron-long": ElasticJob("perceptron", 1.0),
    "convolutional": ElasticJob("convolutional", 0.5),
}


class Setting(NamedTuple):
    """Policy, and the seconds between its decisions."""

    policy: str
    interval: float


class Extent(NamedTuple):
    """Extent of the measurement.

    Attributes
    ----------
    settings, repetitions
        Settings of the scheduler, and number of repetitions of each.
    share
        Factor of the steps of all jobs.
    apart
        Seconds between the submissions of two jobs.
    restart_delay
        Seconds of a restart that Pollux assumes.
    """

    settings: tuple[Setting, ...]
    repetitions: int
    share: float
    apart: float
    restart_delay: float


FULL = Extent(
    (
        Setting("pollux", 5.0),
        Setting("equal", 5.0),
        Setting("tiresias", 5.0),
        Setting("optimus", 5.0),
        Setting("srtf", 5.0),
        Setting("pollux", 30.0),
    ),
    repetitions=3,
    share=1.0,
    apart=5.0,
    restart_delay=5.0,
)
QUICK = Extent(
    (Setting("pollux", 3.0), Setting("equal", 3.0)),
    repetitions=1,
    share=0.2,
    apart=2.0,
    restart_delay=5.0,
)
