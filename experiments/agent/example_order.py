"""Order of the examples of a job, independent of its replicas and batch sizes.

The examples form an endless sequence, with a new permutation in every epoch. A pass takes the next
K m of it, m for each replica in turn. The number of examples taken thus determines the position of
a training, and a job that is resumed with other replicas continues the same sequence. A step may
extend from one epoch into the next; every step is whole.
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
    """Endless sequence of the examples of a data set.

    Attributes
    ----------
    examples
        Number of examples of the data set.
    seed
        Seed of the permutations.
    """

    examples: int
    seed: int

    def rows(self, begin: int, count: int) -> list[int]:
        """Return consecutive members of the sequence.

        Parameters
        ----------
        begin
            Position of the first.
        count
            Number of members.
        """
        found: list[int] = []
        while len(found) < count:
            epoch, first = divmod(begin + len(found), self.examples)
            last = min(first + count - len(found), self.examples)
            found += _permutation(self.seed, epoch, self.examples)[first:last].tolist()
        return found

    def passes(self, begin: int, atomic: int, replicas: int, rank: int) -> Iterator[list[int]]:
        """Generate the examples of one replica, pass by pass, without end.

        Parameters
        ----------
        begin
            Number of examples taken before.
        atomic
            Examples per replica and pass, m.
        replicas, rank
            Number of replicas K, and the index of this one.

        Raises
        ------
        ValueError
            If `atomic` or `replicas` is below 1, or `rank` is outside 0 to `replicas` - 1.
        """
        require_count("Examples: atomic", atomic, 1)
        require_count("Examples: replicas", replicas, 1)
        require_count("Examples: rank", rank, 0, replicas - 1)
        while True:
            yield self.rows(begin + rank * atomic, atomic)
            begin += replicas * atomic


@lru_cache(maxsize=2)
def _permutation(seed: int, epoch: int, examples: int) -> NDArray[np.int64]:
    """Return the order of the examples in an epoch."""
    return np.random.default_rng((seed, epoch)).permutation(examples)


def order_of(loader: Any, seed: int) -> ExampleOrder:
    """Return the order of the data set of `loader`.

    Parameters
    ----------
    loader
        A `DataLoader` of PyTorch.
    seed
        Seed of the permutations.

    Raises
    ------
    ValueError
        If `loader` is no `DataLoader`, has a sampler of its own or no batch size, or its data set
        is empty or has no length.

    Examples
    --------
    >>> import torch
    >>> from goodalloc.experiments.agent import order_of
    >>> order = order_of(torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2), seed=0)
    >>> sorted(order.rows(0, 4)), sorted(order.rows(4, 4))  # two epochs
    ([0, 1, 2, 3], [0, 1, 2, 3])
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
    """Return batches as `loader` makes them, of given examples.

    Parameters
    ----------
    loader
        Loader that determines the data set and how it is loaded.
    passes
        Examples of each batch.
    seed
        Seed of a generator of its own, as an iterator without one draws from that of the training.

    Examples
    --------
    >>> import torch
    >>> from goodalloc.experiments.agent import batches_of
    >>> loader = torch.utils.data.DataLoader(torch.arange(4.0), batch_size=2)
    >>> [batch.tolist() for batch in batches_of(loader, iter([[3, 0], [1]]), seed=0)]
    [[3.0, 0.0], [1.0]]
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
    """Iterator over batches in the form that `DataLoader` expects of a batch sampler."""

    def __init__(self, batches: Iterator[list[int]]) -> None:
        self._batches = batches

    def __iter__(self) -> Iterator[list[int]]:
        return self._batches
