"""Profiles that were never measured: rows that follow the model of throughput exactly."""

from __future__ import annotations

from typing import Any

from goodalloc.data.files.measured_profile import FITS, IDENTITY, SINCE
from goodalloc.models.goodput.throughput_model import ThroughputParameters, step_time

TRUTH = ThroughputParameters(2e-3, 5e-5, 4e-3, 1e-3, 8e-3, 2e-3, 1.6)

#: The columns that are equal in all rows.
FACTS = {
    **dict.fromkeys(IDENTITY, "1"),
    **SINCE,
    "model": "perceptron",
    "device": "Some CPU",
    "memory_limit_gib": "",
}


def row(
    nodes: int, replicas: int, atomic: int, accumulation: int, **changes: Any
) -> dict[str, Any]:
    """What a configuration would take, a twentieth of a pass for the update."""
    whole = TRUTH.alpha_grad + TRUTH.beta_grad * atomic
    last = float(step_time(TRUTH, nodes, replicas, atomic, 0.0))
    return {
        "nodes": nodes,
        "replicas": replicas,
        "atomic_batch_size": atomic,
        "accumulation_steps": accumulation,
        "outcome": FITS,
        "pass_s": 0.95 * whole,
        "update_s": 0.05 * whole,
        "step_s": last + accumulation * 0.95 * whole,
        "pass_error": 0.01,
        "step_error": 0.01,
        "visits": 1,
        "repetitions": 10,
        "measuring_s": 1.0,
        "quiet": 1.0,
        "weights": 1000,
        **FACTS,
    } | changes


def some_rows() -> list[dict[str, Any]]:
    """One to four replicas on one node or two, seven batch sizes, none or one accumulated."""
    return [
        row(nodes, replicas, 2**power, accumulation)
        for power in range(2, 9)
        for nodes, replicas in ((1, 1), (1, 2), (1, 3), (2, 2), (2, 4))
        for accumulation in (0, 1)
    ]
