"""Training rates of configurations on types of GPU, alone and in pairs.

It is the information that Gavel has of jobs. A *configuration* is a model family and a batch size.
Of every one the steps per second are known on some numbers of GPUs of a type, consolidated on as
few servers as possible or not, and of every two that share their GPUs. The steps of all replicas
count, so that twice the replicas make up to twice the steps.

References
----------
Narayanan et al., "Heterogeneity-Aware Cluster Scheduling Policies for Deep Learning Workloads",
    OSDI 2020. https://www.usenix.org/conference/osdi20/presentation/narayanan-deepak
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from goodalloc.models.support.validation import literal, require_choice

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jaxtyping import Float
    from numpy.typing import ArrayLike

    from goodalloc.models.support.array_types import Floats, Indices


class Configuration(NamedTuple):
    """Training configuration of a job: a model family and the examples of a replica's step.

    Gavel states no batch size for A3C and CycleGAN: theirs is 0.
    """

    family: str
    batch_size: int

    @property
    def name(self) -> str:
        """Name of the configuration in the table."""
        return f"{self.family} (batch size {self.batch_size})" if self.batch_size else self.family


@dataclass(frozen=True, eq=False)
class RateTable:
    """Steps per second of configurations on types of GPU; 0 where something does not run.

    Parameters
    ----------
    types
        Names of the types of GPU.
    configurations
        Each once.
    replicas
        Numbers of GPUs, ascending.
    alone
        Of a configuration by itself, shape (configurations, replicas, types, 2): consolidated, and
        not.
    paired
        Of the first of two that share their GPUs, shape (configurations, configurations, replicas,
        types); where one does not run, the other does not either.

    Raises
    ------
    ValueError
        If names repeat or are missing, a table has the wrong shape or a rate that is negative or
        not finite, or only one job of a pair runs.
    """

    types: tuple[str, ...]
    configurations: tuple[Configuration, ...]
    replicas: tuple[int, ...]
    alone: Float[Floats, "configurations replicas types 2"]
    paired: Float[Floats, "configurations configurations replicas types"]

    def __post_init__(self) -> None:
        for item, names in (
            ("types", self.types),
            ("configurations", self.configurations),
            ("replicas", self.replicas),
        ):
            if not names or len(set(names)) < len(names):
                raise ValueError(f"Rates: {item} are {names!r}; expected each once.")
        many, sizes = len(self.configurations), (len(self.replicas), len(self.types))
        for item, table, shape in (
            ("alone", self.alone, (many, *sizes, 2)),
            ("paired", self.paired, (many, many, *sizes)),
        ):
            if table.shape != shape:
                raise ValueError(f"Rates: {item} has shape {table.shape}; expected {shape}.")
            wrong = table[~(np.isfinite(table) & (table >= 0))]
            if wrong.size:
                raise ValueError(
                    f"Rates: {item} holds {literal(float(wrong[0]))}; expected finite numbers "
                    "of at least 0 steps per second."
                )
            table.flags.writeable = False
        runs = self.paired > 0
        if (runs != runs.swapaxes(0, 1)).any():
            raise ValueError("Rates: one of a pair runs alone; expected both to run or neither.")

    @cached_property
    def _places(self) -> dict[object, int]:
        return {
            key: place
            for keys in (self.types, self.configurations, self.replicas)
            for place, key in enumerate(keys)
        }

    def rate(
        self, configuration: Configuration, replicas: int, gpu_type: str, consolidated: bool = True
    ) -> float:
        """Return the steps per second of a job that has its GPUs to itself; 0 if it cannot run.

        Parameters
        ----------
        configuration
            Training configuration.
        replicas
            Number of GPUs.
        gpu_type
            Type of GPU.
        consolidated
            Whether they are on as few servers as possible; of one replica it makes no difference.

        Raises
        ------
        ValueError
            If the configuration, the number of GPUs or their type is not in the table.
        """
        kind = self._type(gpu_type)
        return float(self.alone_rates([configuration], [replicas], consolidated)[0, kind])

    def pair_rate(
        self, first: Configuration, second: Configuration, replicas: int, gpu_type: str
    ) -> tuple[float, float]:
        """Return the steps per second of two jobs on the same GPUs; both 0 if they cannot share.

        In the published table jobs of several replicas never can.

        Raises
        ------
        ValueError
            If a configuration, the number of GPUs or their type is not in the table.
        """
        kind = self._type(gpu_type)
        found = self.pair_rates([first, second], [replicas, replicas], [(0, 1)])[0, kind]
        return float(found[0]), float(found[1])

    def alone_rates(
        self,
        configurations: Sequence[Configuration],
        replicas: Sequence[int],
        consolidated: bool = True,
    ) -> Float[Floats, "jobs types"]:
        """Return the steps per second of jobs alone on their GPUs, shape (jobs, types).

        Parameters
        ----------
        configurations, replicas
            Of every job.
        consolidated
            Whether replicas are on as few servers as possible.

        Raises
        ------
        ValueError
            If the configuration, the number of GPUs or their type is not in the table.
        """
        which, sizes = self._indices(configurations, replicas)
        found: Floats = self.alone[which, sizes, :, 0 if consolidated else 1]
        return found

    def pair_rates(
        self, configurations: Sequence[Configuration], replicas: Sequence[int], pairs: ArrayLike
    ) -> Float[Floats, "pairs types 2"]:
        """Return the steps per second of both jobs of every pair, shape (pairs, types, 2).

        They serve as `pair_rate` of `goodalloc.models.gavel.time_sharing.TimeSharing`; 0 where two
        cannot share, as those that take different numbers of GPUs.

        Parameters
        ----------
        configurations, replicas
            Of every job.
        pairs
            Two jobs each, by their places; shape (pairs, 2).

        Raises
        ------
        ValueError
            If a configuration or number of GPUs is not in the table, or a pair is not of two jobs.
        """
        which, sizes = self._indices(configurations, replicas)
        indices = np.asarray(pairs, dtype=np.int64).reshape(-1, 2)
        wrong = indices[((indices < 0) | (indices >= which.size)).any(axis=1)]
        if wrong.size:
            raise ValueError(f"Pair {tuple(wrong[0].tolist())}: expected two of {which.size} jobs.")
        first, second = indices.T
        both = np.stack(
            [
                self.paired[which[one], which[other], sizes[one]]
                for one, other in ((first, second), (second, first))
            ],
            axis=2,
        )
        found: Floats = np.where((sizes[first] == sizes[second])[:, None, None], both, 0.0)
        return found

    def _type(self, gpu_type: str) -> int:
        require_choice("Rates: GPU type", gpu_type, self.types)
        return self._places[gpu_type]

    def _indices(
        self, configurations: Sequence[Configuration], replicas: Sequence[int]
    ) -> tuple[Indices, Indices]:
        """Return the indices of the configurations and of the replicas, shapes (jobs,)."""
        if len(configurations) != len(replicas):
            raise ValueError(
                f"Rates: {len(configurations)} configurations have {len(replicas)} numbers of "
                "replicas; expected one each."
            )
        for configuration, number in zip(configurations, replicas, strict=True):
            if configuration not in self.configurations:
                expected = f"one of {len(self.configurations)} in the table"
                raise ValueError(f"Rates: configuration is {configuration!r}; expected {expected}.")
            if isinstance(number, bool) or number not in self.replicas:
                expected = ", ".join(map(str, self.replicas))
                raise ValueError(
                    f"Rates: replicas are {literal(number)}; expected one of {expected}."
                )
        places = self._places
        return (
            np.array([places[one] for one in configurations], dtype=np.int64),
            np.array([places[one] for one in replicas], dtype=np.int64),
        )
