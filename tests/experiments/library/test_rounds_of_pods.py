"""Rounds of pods in the library: what is claimed of them the stand-alone checker confirms."""

from __future__ import annotations

from goodalloc.data.files.instance import instance_to_dict
from goodalloc.data.library import load_round
from goodalloc.experiments.verification.verify import verify
from goodalloc.solvers import solve
from goodalloc.solvers.certificates.certificate_file import certificate_to_dict
from goodalloc.solvers.interface.result_file import result_to_dict


def test_a_certificate_on_cores_in_thousandths_is_verified() -> None:
    """Thirteen numbers of cores, of which no floating-point Euclid finds the unit."""
    instance = load_round("openb-60x12-published-13")
    result = solve(instance, "pods", certificate=True)
    assert result.certificate is not None
    documents = instance_to_dict(instance), result_to_dict(result, instance)
    assert verify(*documents, certificate_to_dict(result.certificate)).verified
