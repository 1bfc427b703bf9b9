"""Gavel's workloads: what is drawn, from what, and what is refused."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.gavel.model import shipped_gavel_rates
from goodalloc.data.gavel.rates import read_gavel_rates
from goodalloc.data.gavel.workload import (
    DEADLINE_FACTORS,
    GavelWorkload,
    draw_deadlines,
    draw_gavel_jobs,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from goodalloc.models.gavel.rate_table import RateTable

#: Many enough for frequencies.
MANY = 20_000


@pytest.fixture(scope="module")
def rates() -> RateTable:
    """Those that ship."""
    return shipped_gavel_rates()


@given(
    seed=st.integers(0, 2**31),
    jobs=st.integers(1, 30),
    more=st.integers(0, 30),
    per_hour=st.none() | st.floats(0.1, 100.0),
    first=st.booleans(),
)
def test_equal_arguments_give_equal_jobs_and_a_short_workload_begins_a_longer_one(
    seed: int, jobs: int, more: int, per_hour: float | None, first: bool
) -> None:
    """Names are unique, times do not fall, and every job can run on its GPUs."""
    workload = GavelWorkload(per_hour, replicas_first=first)
    rates = shipped_gavel_rates()
    drawn = draw_gavel_jobs(seed, jobs, rates, workload)
    assert draw_gavel_jobs(seed, jobs + more, rates, workload)[:jobs] == drawn
    assert len({job.name for job in drawn}) == jobs
    times = [job.submission for job in drawn]
    assert times[0] == 0.0
    assert times == sorted(times)
    for job in drawn:
        minutes = job.steps / rates.rate(job.configuration, job.replicas, "v100") / 60
        assert 10**1.5 - 1e-6 <= minutes <= 10**4 + 1e-6


def test_other_seeds_give_other_jobs(rates: RateTable) -> None:
    """Not one of the steps is the same."""
    one, other = (draw_gavel_jobs(seed, 20, rates) for seed in (1, 2))
    assert not {job.steps for job in one} & {job.steps for job in other}


def test_frequencies_are_those_of_the_generator(rates: RateTable) -> None:
    """Replicas, durations, arrivals; configurations are equally likely given the replicas."""
    drawn = draw_gavel_jobs(3, MANY, rates, GavelWorkload(jobs_per_hour=5.0))
    replicas = Counter(job.replicas for job in drawn)
    for number, share in ((1, 0.7), (2, 0.1), (4, 0.15), (8, 0.05)):
        assert replicas[number] / MANY == pytest.approx(share, abs=0.01)
    single = Counter(job.configuration for job in drawn if job.replicas == 1)
    several = Counter(job.configuration for job in drawn if job.replicas > 1)
    assert (len(single), len(several)) == (26, 19)
    for found in (single, several):
        assert max(found.values()) / min(found.values()) < 1.5
    powers = np.log10(
        [job.steps / rates.rate(job.configuration, job.replicas, "v100") / 60 for job in drawn]
    )
    short = powers[powers < 3]
    assert short.size / MANY == pytest.approx(0.8, abs=0.01)
    assert short.mean() == pytest.approx(2.25, abs=0.02)
    assert powers[powers >= 3].mean() == pytest.approx(3.5, abs=0.02)
    assert drawn[-1].submission / 3600 == pytest.approx(MANY / 5.0, rel=0.03)


def test_in_traces_the_configuration_is_drawn_first(rates: RateTable) -> None:
    """Then all 26 are equally likely, and the seven of one GPU have one replica."""
    drawn = draw_gavel_jobs(3, MANY, rates, GavelWorkload(replicas_first=False))
    found = Counter(job.configuration for job in drawn)
    assert max(found.values()) / min(found.values()) < 1.3
    several = sum(job.replicas > 1 for job in drawn) / MANY
    assert several == pytest.approx(0.3 * 19 / 26, abs=0.01)


def test_without_arrivals_all_jobs_are_there_at_once(rates: RateTable) -> None:
    """At time 0."""
    assert {job.submission for job in draw_gavel_jobs(0, 50, rates)} == {0.0}


def test_jobs_do_not_depend_on_whose_rates_they_are(rates: RateTable, reference: Path) -> None:
    """Configurations, replicas and times are the same; only the steps follow the rates."""
    measured = read_gavel_rates(reference / "gavel-throughputs")
    workload = GavelWorkload(jobs_per_hour=2.0)
    for ours, theirs in zip(
        draw_gavel_jobs(7, 200, rates, workload),
        draw_gavel_jobs(7, 200, measured, workload),
        strict=True,
    ):
        assert ours._replace(steps=theirs.steps) == theirs
        quotient = measured.rate(theirs.configuration, theirs.replicas, "v100") / rates.rate(
            ours.configuration, ours.replicas, "v100"
        )
        assert theirs.steps / ours.steps == pytest.approx(quotient)


def test_other_settings_are_followed() -> None:
    """Two replicas for everybody, ten minutes each on K80s."""
    rates = shipped_gavel_rates()
    workload = GavelWorkload(
        replicas=((2, 1.0),), short_share=1.0, short=(1.0, 1.0), gpu_type="k80"
    )
    for job in draw_gavel_jobs(0, 40, rates, workload):
        assert job.replicas == 2
        assert job.steps == pytest.approx(600 * rates.rate(job.configuration, 2, "k80"))


def test_deadlines_are_multiples_of_the_time_on_the_fastest_type() -> None:
    """Each as likely; more jobs leave the first ones' as they are."""
    rates = shipped_gavel_rates()
    workload = GavelWorkload(5.0, families=("ResNet-50", "A3C"))
    jobs = draw_gavel_jobs(1, 600, rates, workload)
    assert {job.configuration.family for job in jobs} == {"ResNet-50", "A3C"}
    found = draw_deadlines(1, jobs, rates)
    factors = Counter[float]()
    for job in jobs:
        fastest = rates.alone_rates([job.configuration], [job.replicas]).max()
        factors[round((found[job.name] - job.submission) * fastest / job.steps, 6)] += 1
    assert set(factors) == set(DEADLINE_FACTORS)
    assert min(factors.values()) > 150
    assert draw_deadlines(1, jobs[:9], rates) == {job.name: found[job.name] for job in jobs[:9]}


BAD: list[tuple[Callable[[], object], str]] = [
    (lambda: GavelWorkload(jobs_per_hour=0.0), "jobs_per_hour is 0.0; .*above 0"),
    (lambda: GavelWorkload(jobs_per_hour=float("nan")), "jobs_per_hour is nan"),
    (lambda: GavelWorkload(replicas=((0, 1.0),)), "replicas is 0; expected an integer"),
    (lambda: GavelWorkload(replicas=((1, 0.5),)), "add up to 0.5; expected each number once"),
    (lambda: GavelWorkload(replicas=((1, 0.5), (1, 0.5))), "expected each number once, and 1"),
    (lambda: GavelWorkload(replicas=((1, 1.5), (2, -0.5))), "likelihood of 1 replicas is 1.5"),
    (lambda: GavelWorkload(replicas=()), "add up to 0; expected"),
    (lambda: GavelWorkload(short_share=1.1), "short_share is 1.1; expected a number from 0 to 1"),
    (lambda: GavelWorkload(short=(3.0, 1.5)), "short is 1.5; expected .* at least 3"),
    (lambda: GavelWorkload(long=(3.0, 400.0)), "long is 400.0; expected at most 9"),
    (lambda: GavelWorkload(replicas_first=1), "replicas_first is 1"),  # type: ignore[arg-type]
    (lambda: draw_gavel_jobs(-1, 5, shipped_gavel_rates()), "seed is -1"),
    (lambda: draw_gavel_jobs(0, 0, shipped_gavel_rates()), "jobs is 0; expected an integer"),
    (
        lambda: draw_gavel_jobs(0, 5, shipped_gavel_rates(), GavelWorkload(gpu_type="t4")),
        "GPU type is 't4'; expected one of v100",
    ),
    (
        lambda: draw_gavel_jobs(0, 5, shipped_gavel_rates(), GavelWorkload(families=("x",))),
        "no configuration runs on 1 GPUs of type v100",
    ),
    (lambda: draw_deadlines(-1, (), shipped_gavel_rates()), "Deadlines: seed is -1"),
    (lambda: draw_deadlines(0, (), shipped_gavel_rates(), (0.5,)), "Deadlines: factor is 0.5; exp"),
    (
        lambda: draw_gavel_jobs(0, 5, shipped_gavel_rates(), GavelWorkload(replicas=((3, 1.0),))),
        "replicas are 3; expected one of 1, 2, 4, 8",
    ),
]


@pytest.mark.parametrize(("call", "words"), BAD)
def test_bad_settings_are_refused(call: Callable[[], object], words: str) -> None:
    """One sentence that names the item, its value and what was expected."""
    with pytest.raises(ValueError, match=words):
        call()
