"""What the stand-alone checker reads and works out by itself equals what the library does."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from goodalloc.data.pods.generator import draw_machines, draw_pods
from goodalloc.data.pods.openb import pods_instance
from goodalloc.data.rounds.benchmark_set import benchmark_names, load_benchmark
from goodalloc.data.rounds.equipped import equip
from goodalloc.data.rounds.generator import generate
from goodalloc.data.rounds.synergy import synergy_round
from goodalloc.data.rounds.typed import generate_typed
from goodalloc.experiments.verification import verify_round, verify_utilities
from goodalloc.formulations.gpu_rounds.choices import Kind
from goodalloc.formulations.mode_rounds.mode_choices import enumerate_mode_choices
from goodalloc.models.round.allocation import Allocation
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import mode_utilities
from goodalloc.models.round.rules import PRESETS
from tests.support.certification.certificates import allocation_document, instance_document
from tests.support.few import few
from tests.support.random_instances import (
    random_instance,
    random_mode_instance,
    random_pod_instance,
    random_share_instance,
)

if TYPE_CHECKING:
    from goodalloc.models.round.instance import Instance

FAMILIES = (random_instance, random_mode_instance, random_share_instance, random_pod_instance)

#: Rules that the random rounds do not draw.
RULES: tuple[dict[str, Any], ...] = (
    {},
    {"fair_share": "least"},
    {"batch_search": "grid", "grid_points": 20},
    {"restart_penalty": "running", "floor": 0.0, "idle_utility": 0.3},
)

#: Relative error that the checker grants a utility.
ERROR = 1e-13


def read(instance: Instance) -> Any:
    """What the checker makes of an instance: its choices and their utilities."""
    found = verify_round.read_round(instance_document(instance))
    with np.errstate(all="ignore"):
        verify_utilities.choices(found)
        found.utility = verify_utilities.utilities(found)
    return found


def agrees(instance: Instance) -> None:
    """Assert that choices and utilities are those of the library."""
    found, table, current = read(instance), mode_utilities(instance), instance.current
    moved = table.moved
    width = min(found.utility.shape[2], moved.shape[2])
    for several in (0, 1):
        part = np.s_[:, several, 1 + several : width]
        np.testing.assert_allclose(found.utility[part], moved[part], rtol=ERROR, atol=0)
    runs = current.job_replicas > 0
    kept = found.utility[found.at, 1, 0][runs]
    np.testing.assert_allclose(kept, table.kept[runs], rtol=ERROR, atol=0)
    assert (found.utility[found.first, 0, 0] == instance.rules.idle).all()
    choices = enumerate_mode_choices(instance, prune=False)
    known = {
        (int(row), int(kind), int(k))
        for row, kind, k in zip(choices.mode, choices.kind, choices.replicas, strict=True)
        if kind in (Kind.ONE_NODE, Kind.SEVERAL_NODES)
    }
    placed = {(row, 2 + several, k) for row, several, k in np.argwhere(found.may).tolist() if k > 0}
    assert placed <= known
    assert instance.shares_gpus or placed == known
    for kind, places in ((Kind.KEEP, (found.at, 1, 0)), (Kind.IDLE, (found.first, 0, 0))):
        jobs = np.isin(np.arange(instance.num_jobs), choices.job[choices.of(kind)])
        assert (found.may[places] == jobs).all()


@pytest.mark.parametrize("name", benchmark_names())
def test_choices_and_utilities_of_shipped_instances_are_those_of_the_library(name: str) -> None:
    """Every choice of every job, to 1e-13."""
    agrees(load_benchmark(name))


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("seed", few(range(12), 6))
def test_choices_and_utilities_of_random_rounds_are_those_of_the_library(
    family: Any, seed: int
) -> None:
    """Under all rules, with modes, resources, shares of GPUs and jobs that are pinned."""
    instance = family(seed)
    for rules in RULES:
        agrees(instance.replace(rules=instance.rules.replace(**rules)))


@pytest.mark.slow
@pytest.mark.parametrize("family", FAMILIES)
def test_choices_and_utilities_of_many_random_rounds_are_those_of_the_library(family: Any) -> None:
    """As above, more of them."""
    for seed in range(100, 300):
        instance = family(seed)
        for rules in RULES:
            agrees(instance.replace(rules=instance.rules.replace(**rules)))


@pytest.mark.parametrize("seed", range(2))
def test_choices_and_utilities_of_drawn_rounds_are_those_of_the_library(seed: int) -> None:
    """Rounds of every generator and preset."""
    agrees(generate(seed, 60, 8, 4, state="disturbed"))
    agrees(generate(seed, 30, 4, 8, state="running", rules=PRESETS["osdi21"]))
    for rules in PRESETS.values():
        agrees(generate_typed(seed, 20, state="running", rules=rules))
    agrees(equip(generate(seed, 30, 8, 4, state="disturbed"), seed, memory=200))
    agrees(equip(generate_typed(seed, 15, state="running"), seed))
    agrees(synergy_round(seed, 3, gpus={1: 0.5, 2: 0.3, 4: 0.1, 8: 0.1}))
    agrees(pods_instance(draw_machines(20), draw_pods(seed, 60), "pods"))


@pytest.mark.parametrize("family", FAMILIES)
def test_the_checker_calls_feasible_what_the_library_does(family: Any) -> None:
    """Random matrices and modes, most of which break some rule."""
    outcomes = []
    for seed in range(25):
        instance, random = family(seed), np.random.default_rng(seed)
        found = read(instance)
        for _ in range(12):
            shape = instance.num_jobs, instance.cluster.num_nodes
            matrix = random.integers(1, 4, shape) * (random.random(shape) < 0.3)
            modes = [int(random.integers(max(len(job.modes), 1))) for job in instance.jobs]
            for pinned in np.flatnonzero(instance.pinned) if random.random() < 0.8 else ():
                matrix[pinned] = instance.current.matrix()[pinned]
                modes[pinned] = int(instance.current.mode[pinned])
            allocation = Allocation.from_matrix(matrix, modes)
            broken = violations(instance, allocation)
            document = allocation_document(allocation, instance)
            try:
                verify_round.check_allocation(found, *verify_round.read_allocation(found, document))
            except ValueError:
                assert broken, document
            else:
                assert not broken, document
            outcomes.append(bool(broken))
    assert 0.1 < np.mean(outcomes) < 0.95


@pytest.mark.parametrize("seed", range(8))
def test_shares_fit_on_gpus_as_trying_all_ways_says(seed: int) -> None:
    """Shares that just fit, or just do not."""
    random = np.random.default_rng(seed)
    for _ in range(60):
        shares = random.choice([0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.55, 0.6, 1.0], 7).tolist()
        gpus = math.ceil(sum(shares)) + int(random.integers(2))
        loads = {(0.0,) * gpus}
        for share in shares:
            loads = {
                tuple(sorted((*load[:i], load[i] + share, *load[i + 1 :])))
                for load in loads
                for i in range(gpus)
                if load[i] + share <= 1 + 1e-9
            }
        assert verify_round.packs(shares, gpus) == bool(loads)
