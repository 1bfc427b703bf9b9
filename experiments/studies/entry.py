"""Location and description of a study of the catalogue."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from goodalloc.experiments.studies.framework.reproduction import Reproduction


@dataclass(frozen=True)
class Entry:
    """Location and description of a study.

    Parameters
    ----------
    title
        That of the study.
    path
        ``room.module:NAME`` under `goodalloc.experiments.studies`.
    clocked
        Columns with seconds of a clock, which differ between runs.
    """

    title: str
    path: str
    clocked: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """Name of its module, below `goodalloc`."""
        return f"experiments.studies.{self.path.partition(':')[0]}"

    def load(self) -> Reproduction[Any]:
        """Return the study."""
        name = self.path.partition(":")[2]
        study: Reproduction[Any] = getattr(
            importlib.import_module(f"goodalloc.{self.module}"), name
        )
        return study
