"""State of a replay: it is stored whole, and restored to what it was."""

from __future__ import annotations

import json
from dataclasses import fields

import pytest

from goodalloc.data.applications.application import profiled_applications
from goodalloc.experiments.replay.job_state import SimulatedJobState
from goodalloc.experiments.replay.simulation_state import OPTIONAL_KEYS, REQUIRED_KEYS
from goodalloc.experiments.replay.simulator import Simulator
from goodalloc.solvers.policies.registry import make_policy
from tests.support.replay.replays import SHORT, SMALL


def simulator() -> Simulator:
    """A replay of four short jobs."""
    return Simulator(SHORT, profiled_applications(), make_policy("tiresias"), SMALL)


def test_every_declared_field_of_a_job_is_stored() -> None:
    """A field that is added to the state and not packed would be lost on resuming."""
    assert {*REQUIRED_KEYS, *OPTIONAL_KEYS} == {one.name for one in fields(SimulatedJobState)}


@pytest.mark.parametrize("rounds", [0, 3, 12])
def test_a_restored_replay_stores_the_same_state(rounds: int) -> None:
    """Through JSON, at the beginning and under way; it then goes on alike."""
    whole, copy = simulator(), simulator()
    for _ in range(rounds):
        whole.step()
    copy.unpack(json.loads(json.dumps(whole.pack())))
    assert copy.pack() == whole.pack()
    assert [job.spread for job in copy.active] == [job.spread for job in whole.active]
    copy.advance()
    whole.advance()
    assert copy.pack() == whole.pack()


@pytest.mark.parametrize("field", ["cores", "epoch", "mode", "placement", "measured"])
def test_a_job_without_a_field_is_refused_by_name(field: str) -> None:
    """Whatever is missing, the sentence names the job and the key."""
    document = simulator().pack()
    name, job = next(iter(document["jobs"].items()))
    del job[field]
    with pytest.raises(ValueError, match=f"Job '{name}'.*{field}"):
        simulator().unpack(document)
