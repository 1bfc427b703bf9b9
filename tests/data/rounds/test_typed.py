"""Rounds on several types of GPU: same seed, same bytes; a mode a type; feasible placements."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from goodalloc.data.applications.gpu_types import load_type_profile
from goodalloc.data.files.instance import instance_from_dict, instance_text, instance_to_dict
from goodalloc.data.rounds.typed import TypedState, generate_typed, sia_cluster
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.round.cluster import Cluster, NodeGroup
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.rules import SIA, Rules
from goodalloc.solvers.certificates.solve import solve

STATES: tuple[TypedState, ...] = get_args(TypedState)


def test_the_published_cluster_has_64_gpus_of_three_types() -> None:
    """6 × 4 + 2 × 8 + 3 × 8, and so many times that."""
    assert (sia_cluster().num_gpus, sia_cluster(32).num_gpus) == (64, 2048)
    assert sia_cluster().gpu_types == ("a100", "rtx2080ti", "t4")


@given(seed=st.integers(0, 10**6), jobs=st.integers(1, 40), avoid=st.booleans())
def test_placements_obey_the_rules(seed: int, jobs: int, avoid: bool) -> None:
    """The checker finds nothing wrong with where the generated jobs run."""
    rules = SIA.replace(interference_avoidance=avoid)
    instance = generate_typed(seed, jobs, state="running", rules=rules)
    assert violations(instance, instance.current) == ()
    assert instance.num_jobs == jobs


def test_a_running_round_uses_every_type_and_a_cold_one_none() -> None:
    """Most jobs run where there are enough GPUs; nothing runs in a cold round."""
    running, cold = (generate_typed(1, 60, state=s) for s in ("running", "cold"))
    types = np.array(running.cluster.node_types)[running.current.node]
    assert set(types.tolist()) == {"t4", "a100", "rtx2080ti"}
    assert np.count_nonzero(running.current.job_replicas) > 20
    assert cold.current.replicas.size == 0


@pytest.mark.parametrize("state", STATES)
def test_the_same_seed_gives_the_same_bytes(state: TypedState) -> None:
    """Equal arguments, equal text; another seed, another text; and the text is read back."""
    texts = [instance_text(generate_typed(s, 30, state=state, name="x")) for s in (5, 5, 6)]
    assert texts[0] == texts[1] != texts[2]
    instance = generate_typed(5, 30, state=state)
    assert instance_from_dict(instance_to_dict(instance)) == instance


def test_every_job_has_the_model_of_every_type() -> None:
    """Throughput is the type's, gradient statistics are the job's own; new jobs have no model."""
    for job in generate_typed(2, 60).jobs:
        assert [mode.gpu_type for mode in job.modes] == ["a100", "rtx2080ti", "t4"]
        models = [mode.model for mode in job.modes]
        if models[0] is None:
            assert models == [None] * 3
            assert job.max_replicas == 1
            continue
        for mode, model in zip(job.modes, models, strict=True):
            assert isinstance(model, GoodputModel)
            profile = load_type_profile(job.application, mode.gpu_type)
            assert (model.throughput, model.batch) == (profile.throughput, profile.batch)
            assert isinstance(models[0], GoodputModel)
            assert model.gradient == models[0].gradient


@pytest.mark.parametrize("seed", range(5))
def test_a_generated_round_is_decided_and_placed(seed: int) -> None:
    """Where there are GPUs for all and nobody runs yet, Sia's solver leaves hardly anybody idle:
    a job goes without one only where others gain more by it than queueing costs."""
    result = solve(generate_typed(seed, 40), "sia")
    assert result.allocation is not None
    assert result.message == ""
    assert np.count_nonzero(result.allocation.job_replicas) >= 38


def test_other_clusters_and_rules_will_do_and_unknown_types_will_not() -> None:
    """A cluster of A100 only, under Pollux's rules; a type without profiles is named."""
    cluster = Cluster((NodeGroup("big", 3, 8, "a100"),))
    instance = generate_typed(0, load=1.0, cluster=cluster, rules=Rules(), state="running")
    assert instance.cluster == cluster
    assert {mode.name for mode in instance.modes} == {"a100"}
    unknown = Cluster((NodeGroup("new", 3, 8, "h100"),))
    with pytest.raises(ValueError, match="'new' has GPUs of type 'h100'; expected one of t4, a100"):
        generate_typed(0, 5, cluster=unknown)
    with pytest.raises(ValueError, match="state is 'warm'; expected one of cold, running"):
        generate_typed(0, 5, state="warm")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="scale is 0"):
        sia_cluster(0)
