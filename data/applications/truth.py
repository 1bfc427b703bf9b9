"""Selection of the true behaviour: measurements of an artifact, or the shipped profiles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from goodalloc.data.applications.application import profiled_applications

if TYPE_CHECKING:
    from goodalloc.data.applications.application import Application


def applications_of(traces: str | None) -> dict[str, Application]:
    """Return the applications measured in a folder, or the shipped profiles if `traces` is None.

    Examples
    --------
    >>> from goodalloc.data.applications import applications_of
    >>> applications_of(None)["bert"].epochs
    2
    """
    if traces is None:
        return profiled_applications()
    from goodalloc.data.applications.traces import measured_applications

    return measured_applications(traces)
