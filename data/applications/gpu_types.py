"""Profiles of the applications on other types of GPU than the one they were first measured on."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from goodalloc.data.applications.profiles import load_profile, parse_fit_errors
from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.models.goodput.throughput_model import ThroughputParameters

if TYPE_CHECKING:
    from goodalloc.data.applications.profiles import Profile

FORMAT = "goodalloc-gpu-types"
VERSION = 1

#: Where it ships.
SHIPPED = "profiles/gpu_types.json"

#: The type of GPU that the profiles of `applications.json` were measured on.
FIRST_TYPE = "t4"


def gpu_types() -> tuple[str, ...]:
    """Return the names of the types of GPU with profiles, `FIRST_TYPE` first."""
    return (FIRST_TYPE, *sorted(_shipped()))


def load_type_profile(application: str, gpu_type: str) -> Profile:
    """Return the shipped profile of an application on a type of GPU.

    Throughput and the largest atomic batch size, which memory bounds, are those of the type; how
    training proceeds does not depend on it.

    Parameters
    ----------
    application
        One of `goodalloc.data.applications.profiles.application_names()`.
    gpu_type
        One of `gpu_types()`.

    Raises
    ------
    ValueError
        If there is no such application or type.

    Examples
    --------
    >>> from goodalloc.data.applications import load_type_profile
    >>> profiles = [load_type_profile("bert", gpu_type) for gpu_type in ("t4", "a100")]
    >>> profiles[1].throughput.beta_grad < profiles[0].throughput.beta_grad  # seconds per example
    True
    """
    profile = load_profile(application)
    if gpu_type not in gpu_types():
        raise ValueError(f"gpu_type is {gpu_type!r}; expected one of {', '.join(gpu_types())}.")
    if gpu_type == FIRST_TYPE:
        return profile
    entry = _shipped()[gpu_type][application]
    batch = profile.batch._replace(atomic_maximum=entry["atomic_maximum"])
    return replace(
        profile,
        throughput=ThroughputParameters(**entry["throughput"]),
        batch=batch,
        fit_errors=parse_fit_errors(entry["fit_errors"]),
    )


def parse_gpu_types(text: str) -> dict[str, dict[str, Any]]:
    """Read the table of types, by type and application, in the format of `profiles/README.md`.

    Parameters
    ----------
    text
        The JSON document.

    Raises
    ------
    ValueError
        If it is another format or version.
    """
    document = parse_document(text, FORMAT, VERSION)
    table: dict[str, dict[str, Any]] = document["gpu_types"]
    return table


@lru_cache(maxsize=1)
def _shipped() -> dict[str, dict[str, Any]]:
    """Return the shipped table, read once."""
    return parse_gpu_types(read_shipped(SHIPPED))


#: What the artifact's files on each type end in. Left out are the Quadro RTX 6000, measured on a
#: single node, and the V100 of Azure, which the throughput model does not fit.
SUFFIXES = {"a100": "-dgx-ext", "rtx2080ti": "-rtx"}


#: Largest atomic batch sizes (examples) that the artifact's simulator states rather than measures.
CAPPED = {("deepspeech2", "rtx2080ti"): 57}
