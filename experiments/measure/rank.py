r"""What one process of a measured training does: passes and steps of real training (PyTorch).

A *step* on *K* replicas makes *s* passes without synchronisation (`no_sync`), one that averages
the gradients while it computes them (`DistributedDataParallel`), and one update by the optimiser. A
*pass* alone is forward and backward without synchronisation; it is timed apart from the update.
Every process knows all replica counts, and those that a configuration does not use stand still.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import time
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.measure.shared_cores import core_share, mark_core
from goodalloc.experiments.tasks.task import find_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.measure.shared_cores import CoreMark

#: What a profiler calls the averaging of gradients, on CPUs and on GPUs.
AVERAGING = ("gloo:all_reduce", "nccl:all_reduce", "ncclDevKernel_AllReduce")

PARTS = ("forward", "backward", "optimiser")

#: Words of the complaint of an allocator.
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that there was not enough memory."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in NO_MEMORY)
    )


#: Just below the largest block that glibc may keep rather than give back to the system.
ALLOCATOR_BYTES = 31 * 2**20


def settle_allocator() -> None:
    """Have glibc keep large blocks that are freed.

    It maps them anew each time, which zeroes their pages, until it has seen a larger one freed; so
    a step would be the slower the more blocks of a new size come by.
    """
    import torch

    torch.empty(ALLOCATOR_BYTES, dtype=torch.uint8)


class MeasuredRank:
    """One process of the group that is there (`torch.distributed` must have been set up).

    Parameters
    ----------
    model
        As `find_task` knows it.
    replicas
        Numbers of replicas that will be measured: the first so many processes each.
    seed
        Of the weights and the examples.
    """

    def __init__(self, model: str, replicas: Sequence[int], seed: int) -> None:
        import torch
        from torch import distributed

        self._task = find_task(model)
        self._rank = distributed.get_rank()
        if torch.cuda.is_available():
            torch.cuda.set_device(self._rank % torch.cuda.device_count())
        self._device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
        # One batch over and over is learnt by heart: gradients vanish, denormal numbers are slow.
        torch.set_flush_denormal(True)
        settle_allocator()
        torch.manual_seed(seed)
        self._module = self._task.make_module().to(self._device)
        self._optimiser = self._task.make_optimiser(self._module.parameters())
        self._generator = torch.Generator().manual_seed(seed + self._rank)
        self._groups: dict[int, Any] = {
            count: distributed.new_group(range(count)) for count in replicas
        }
        self._trained: dict[int, Any] = {1: self._module}
        self._batch: tuple[Any, ...] = ()

    def weights(self) -> int:
        """How many numbers are trained."""
        return sum(piece.numel() for piece in self._module.parameters())

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order: "probe", "train" or "split"."""
        kind, replicas = order.pop("order"), order.pop("replicas")
        if self._rank >= replicas:
            return {}
        functions: dict[str, Callable[..., dict[str, Any]]] = {
            "probe": self._probe,
            "train": self._train,
            "split": self._split,
        }
        return functions[kind](replicas, **order)

    def _probe(self, replicas: int, atomic_batch_size: int) -> dict[str, Any]:
        """Take a new batch; whether memory holds a pass and an update, alone."""
        import torch

        module = self._wrapped(replicas)
        try:
            drawn = self._task.draw_batch(atomic_batch_size, self._generator)
            self._batch = tuple(part.to(self._device) for part in drawn)
            self._pass(module, synchronise=False)
            self._update()
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            self._batch = ()
        fits = bool(self._batch)
        if not fits:  # the traceback that held the tensors is gone only now
            self._optimiser.zero_grad()
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        return {"fits": fits}

    def _train(self, replicas: int, accumulation_steps: int, repetitions: int) -> dict[str, Any]:
        """Seconds of passes, of updates and of steps, each repeated so often, and how undisturbed.

        That is the least share of a core that it had (`measure/shared_cores.py`) in the passes
        before and after the steps, and in these; 1 on GPUs.
        """
        from torch import distributed

        module, group = self._wrapped(replicas), self._groups[replicas]
        after = repetitions // 2
        seconds, core = self._passes(module, repetitions - after)
        distributed.barrier(group)
        begin, marks = mark_core(), [self._mark()]
        for _ in range(repetitions):
            self._step(module, accumulation_steps)
            marks += [self._mark()]
        core = min(core, self._core(begin, waits=replicas > 1))
        if after:
            more, again = self._passes(module, after)
            seconds, core = seconds + more, min(core, again)
        return {
            "passes": seconds[::2],
            "updates": seconds[1::2],
            "steps": self._seconds(marks),
            "core": core,
        }

    def _passes(self, module: Any, repetitions: int) -> tuple[list[float], float]:
        """Seconds of passes and updates in turn, and the share of a core that they had."""
        begin, marks = mark_core(), []
        for _ in range(repetitions):
            marks += [self._mark()]
            self._pass(module, synchronise=False)
            marks += [self._mark()]
            self._update()
        marks += [self._mark()]
        return self._seconds(marks), self._core(begin, waits=False)

    def _core(self, begin: CoreMark, *, waits: bool) -> float:
        """Share of a core since a moment."""
        if self._device.type != "cpu":
            return 1.0
        return core_share(begin, mark_core(), waits=waits)

    def _split(self, replicas: int, repetitions: int) -> dict[str, Any]:
        """Mean seconds of the parts of a step by the profiler; nothing where it is missing."""
        try:
            from torch.profiler import ProfilerActivity, profile
        except ImportError:
            return {}
        module, activities = self._wrapped(replicas), [ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities += [ProfilerActivity.CUDA]
        marks = []
        with profile(activities=activities) as profiled:
            for _ in range(repetitions):
                marks += [self._mark()]
                loss = self._task.loss(module, self._batch)
                marks += [self._mark()]
                loss.backward()
                marks += [self._mark()]
                self._update()
                marks += [self._mark()]
        seconds = self._seconds(marks)
        averaging = [
            (event.time_range.start, event.time_range.end)
            for event in profiled.events() or ()
            if event.name.startswith(AVERAGING)
        ]
        found = {part: sum(seconds[i::4]) / repetitions for i, part in enumerate(PARTS)}
        return found | {"synchronisation": covered(averaging) / 1e6 / repetitions}

    def _wrapped(self, replicas: int) -> Any:
        """The module as so many replicas train it."""
        if replicas not in self._trained:
            from torch.nn.parallel import DistributedDataParallel

            self._trained[replicas] = DistributedDataParallel(
                self._module, process_group=self._groups[replicas]
            )
        return self._trained[replicas]

    def _pass(self, module: Any, *, synchronise: bool) -> None:
        """Forward and backward pass."""
        quiet = not synchronise and hasattr(module, "no_sync")
        with module.no_sync() if quiet else contextlib.nullcontext():
            self._task.loss(module, self._batch).backward()

    def _update(self) -> None:
        self._optimiser.step()
        self._optimiser.zero_grad()

    def _step(self, module: Any, accumulation_steps: int) -> None:
        for _ in range(accumulation_steps):
            self._pass(module, synchronise=False)
        self._pass(module, synchronise=True)
        self._update()

    def _mark(self) -> Any:
        """A point in time: of the CPU, or in the queue of the GPU."""
        if self._device.type == "cpu":
            return time.perf_counter()
        import torch

        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _seconds(self, marks: Sequence[Any]) -> list[float]:
        """Between each mark and the next."""
        pairs = itertools.pairwise(marks)
        if self._device.type == "cpu":
            return [end - begin for begin, end in pairs]
        import torch

        torch.cuda.synchronize()
        return [begin.elapsed_time(end) / 1000.0 for begin, end in pairs]


def covered(intervals: Sequence[tuple[float, float]]) -> float:
    """Length of the union of intervals, each (begin, end)."""
    total, reached = 0.0, float("-inf")
    for begin, end in sorted(intervals):
        total += max(end - max(begin, reached), 0.0)
        reached = max(reached, end)
    return total
