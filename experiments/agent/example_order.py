"""The order in which a job sees its examples, whatever its replicas and batch sizes.

The data set comes in an endless sequence, a fresh permutation every epoch. A pass takes the next
K m of it, m for each replica in turn. So one number, how many were taken, says where training is,
and a job that goes on with other replicas goes on in the same sequence. A step may reach from one
epoch into the next; every step is whole.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Iterator

    from numpy.typing import NDArray


class ExampleOrder(NamedTuple):
    """An endless sequence of the examples of a data set.

    Attributes
    ----------
    examples
        How many there are.
    seed
        Of the permutations.
    """

    examples: int
    seed: int

    def rows(self, begin: int, count: int) -> list[int]:
        """Some consecutive members of the sequence.

        Parameters
        ----------
        begin
            How many come before.
        count
            How many.
        """
        found: list[int] = []
        while len(found) < count:
            epoch, first = divmod(begin + len(found), self.examples)
            last = min(first + count - len(found), self.examples)
            found += _permutation(self.seed, epoch, self.examples)[first:last].tolist()
        return found

    def passes(self, begin: int, atomic: int, replicas: int, rank: int) -> Iterator[list[int]]:
        """The examples of one replica, pass by pass, without end.

        Parameters
        ----------
        begin
            Examples that were taken before.
        atomic
            m.
        replicas, rank
            K, and which of them this is.

        Raises
        ------
        ValueError
            If a number makes no sense.
        """
        require_count("Examples: atomic", atomic, 1)
        require_count("Examples: replicas", replicas, 1)
        require_count("Examples: rank", rank, 0, replicas - 1)
        while True:
            yield self.rows(begin + rank * atomic, atomic)
            begin += replicas * atomic


@lru_cache(maxsize=2)
def _permutation(seed: int, epoch: int, examples: int) -> NDArray[np.int64]:
    return np.random.default_rng((seed, epoch)).permutation(examples)


def order_of(loader: Any, seed: int) -> ExampleOrder:
    """The order of a loader's data set.

    Parameters
    ----------
    loader
        Of PyTorch.
    seed
        Of the permutations.

    Raises
    ------
    ValueError
        If it is none, or its data set has no length, or it draws its order in a way of its own.
    """
    from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

    if not isinstance(loader, DataLoader):
        raise ValueError(f"Loader is {loader!r}; expected a DataLoader.")
    if not isinstance(loader.sampler, (RandomSampler, SequentialSampler)):
        raise ValueError(
            f"Loader: the order is drawn by {type(loader.sampler).__name__}; expected a data set "
            "with a length and no sampler."
        )
    if loader.batch_size is None:
        raise ValueError("Loader: batch_size is null; expected an integer of at least 1, M0.")
    examples = len(loader.sampler)
    require_count("Loader: examples", examples, 1)
    return ExampleOrder(examples, seed)


def batches_of(loader: Any, passes: Iterator[list[int]], seed: int) -> Iterator[Any]:
    """What a loader would give, but for other examples in every batch.

    Parameters
    ----------
    loader
        Says what the data set is and how it is loaded.
    passes
        Examples of each batch.
    seed
        Of a generator of its own: a new iterator would draw from that of the training.
    """
    import torch
    from torch.utils.data import DataLoader

    return iter(
        DataLoader(
            loader.dataset,
            batch_sampler=_Batches(passes),
            num_workers=loader.num_workers,
            collate_fn=loader.collate_fn,
            pin_memory=loader.pin_memory,
            worker_init_fn=loader.worker_init_fn,
            generator=torch.Generator().manual_seed(seed),
        )
    )


class _Batches:
    """An iterator, as DataLoader wants a sampler of batches."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches
