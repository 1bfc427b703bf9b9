r"""Work of one process of a measured training: passes and steps of real training (PyTorch).

A *step* on *K* replicas makes *s* passes without synchronisation (`no_sync`), one that averages
the gradients while it computes them (`DistributedDataParallel`), and one update by the optimiser. A
*pass* alone is forward and backward without synchronisation; it is timed apart from the update.
Every process knows all replica counts, and processes that a configuration does not use are idle.
"""

from __future__ import annotations

import contextlib
import gc
import itertools
import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.experiments.measure.execution import PLAIN
from goodalloc.experiments.measure.peak_memory import PeakMemory
from goodalloc.experiments.measure.shared_cores import core_share, mark_core
from goodalloc.experiments.measure.step_parts import profile_steps
from goodalloc.experiments.support.device_clock import clock_of
from goodalloc.experiments.support.torch_allocator import settle_allocator
from goodalloc.experiments.tasks.task import find_task

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from goodalloc.experiments.measure.execution import Execution
    from goodalloc.experiments.measure.shared_cores import CoreMark

#: Words in error messages of allocators.
NO_MEMORY = ("out of memory", "can't allocate memory", "cannot allocate memory", "bad_alloc")


def lacks_memory(error: BaseException) -> bool:
    """Return whether an error reports a lack of memory."""
    return isinstance(error, MemoryError) or (
        isinstance(error, RuntimeError) and any(word in str(error).lower() for word in NO_MEMORY)
    )


class MeasuredRank:
    """Process of a group (`torch.distributed` must be initialised).

    Parameters
    ----------
    model
        Name of the task, as in `find_task`.
    replicas
        Numbers of replicas to be measured, each by the first processes of the group.
    seed
        Seed of the weights and the examples.
    device
        Name of the device of this process, as PyTorch has it.
    execution
        How the training computes.
    """

    def __init__(
        self,
        model: str,
        replicas: Sequence[int],
        seed: int,
        device: str = "cpu",
        execution: Execution = PLAIN,
    ) -> None:
        import torch
        from torch import distributed

        self._task, self._execution = find_task(model), execution
        self._rank = distributed.get_rank()
        self._device = torch.device(device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
        # a repeated batch is memorised: gradients vanish, and denormal numbers are slow
        torch.set_flush_denormal(True)
        settle_allocator()
        torch.manual_seed(seed)
        self._module = execution.prepare(self._task.make_module(), self._device)
        self._optimiser = self._task.make_optimiser(self._module.parameters())
        self._clock = clock_of(self._device)
        self._generator = torch.Generator().manual_seed(seed + self._rank)
        self._groups: dict[int, Any] = {
            count: distributed.new_group(range(count)) for count in replicas
        }
        self._trained: dict[int, Any] = {1: self._module}
        self._batch: tuple[Any, ...] = ()

    def weights(self) -> int:
        """Return the number of trained weights."""
        return sum(piece.numel() for piece in self._module.parameters())

    def obey(self, order: dict[str, Any]) -> dict[str, Any]:
        """Carry out an order: "probe", "train", "split" or "run"."""
        kind, replicas = order.pop("order"), order.pop("replicas")
        self._drop_others(replicas)
        if self._rank >= replicas:
            return {}
        functions: dict[str, Callable[..., dict[str, Any]]] = {
            "probe": self._probe,
            "train": self._train,
            "split": self._split,
            "run": self._run,
        }
        return functions[kind](replicas, **order)

    def _drop_others(self, replicas: int) -> None:
        """Forget the wrappers of other numbers of replicas, which hold memory of all gradients."""
        others = {*self._trained} - {1, replicas}
        for count in others:
            del self._trained[count]
        if others:
            gc.collect()

    def _probe(self, replicas: int, atomic_batch_size: int) -> dict[str, Any]:
        """Draw a new batch; return whether memory holds a pass and an update, without exchange."""
        import torch

        module = self._wrapped(replicas)
        _exchange_buffers(module, wanted=False)
        try:
            drawn = self._task.draw_batch(atomic_batch_size, self._generator)
            self._batch = self._execution.batch(drawn, self._device)
            for _ in range(2):  # with the second pass the optimiser's state is there, too
                self._pass(module, synchronise=False)
                self._update()
        except (RuntimeError, MemoryError) as error:
            if not lacks_memory(error):
                raise
            self._batch = ()
        fits = bool(self._batch)
        if not fits:  # only now the traceback that held the tensors is gone
            self._optimiser.zero_grad()
            gc.collect()
            if self._device.type == "cuda":
                torch.cuda.empty_cache()
        return {"fits": fits}

    def _train(self, replicas: int, accumulation_steps: int, repetitions: int) -> dict[str, Any]:
        """Return seconds of repeated passes, updates and steps, and the share of a core.

        The share is the least (`measure/shared_cores.py`) among the passes before and after the
        steps, and the steps; 1 on GPUs.
        """
        from torch import distributed

        module, group = self._wrapped(replicas), self._groups[replicas]
        after = repetitions // 2
        _exchange_buffers(module, wanted=False)
        seconds, core = self._passes(module, repetitions - after)
        _exchange_buffers(module, wanted=True)
        if replicas > 1:
            distributed.barrier(group)
        begin, marks = mark_core(), [self._clock.mark()]
        for _ in range(repetitions):
            self._step(module, accumulation_steps)
            marks += [self._clock.mark()]
        core = min(core, self._core(begin, waits=replicas > 1))
        if after:
            _exchange_buffers(module, wanted=False)
            more, again = self._passes(module, after)
            seconds, core = seconds + more, min(core, again)
        return {
            "passes": seconds[::2],
            "updates": seconds[1::2],
            "steps": self._seconds(marks),
            "core": core,
        }

    def _passes(self, module: Any, repetitions: int) -> tuple[list[float], float]:
        """Return seconds of passes and updates in turn, and their share of a core."""
        begin, marks = mark_core(), []
        for _ in range(repetitions):
            marks += [self._clock.mark()]
            self._pass(module, synchronise=False)
            marks += [self._clock.mark()]
            self._update()
        marks += [self._clock.mark()]
        return self._seconds(marks), self._core(begin, waits=False)

    def _core(self, begin: CoreMark, *, waits: bool) -> float:
        """Return the share of a core since `begin`."""
        if self._device.type != "cpu":
            return 1.0
        return core_share(begin, mark_core(), waits=waits)

    def _split(self, replicas: int, repetitions: int, trace: str | None = None) -> dict[str, Any]:
        """Return the parts of profiled steps, and the most memory; parts are none without profiler.

        `trace` is the folder that keeps the profile, as ``replica-RANK.json.gz``.
        """
        module, examples = self._wrapped(replicas), len(self._batch[0])
        file = None if trace is None else Path(trace) / f"replica-{self._rank}.json.gz"
        if file is not None:
            file.parent.mkdir(parents=True, exist_ok=True)  # of another node, perhaps

        def step(mark: Callable[[], None]) -> None:
            drawn = self._task.draw_batch(examples, self._generator)
            self._batch = self._execution.batch(drawn, self._device)
            mark()
            loss = self._loss(module)
            mark()
            loss.backward()
            mark()
            self._update()

        memory = PeakMemory(self._device)
        step(lambda: None)
        most = memory.mib()  # before the profile is read into this process
        cuda = self._device.type == "cuda"
        parts = profile_steps(step, repetitions, self._clock, cuda=cuda, trace=file)
        return {"parts": parts, "memory": most}

    def _run(self, replicas: int, begin: float, seconds: float, core: int | None) -> dict[str, Any]:
        """Run steps from a moment of the machine's clock on, for some seconds, pinned on a core.

        Answers with the number of steps, their seconds, the part of a core that they used, and the
        part in which no other program kept them from it.
        """
        if core is not None:
            os.sched_setaffinity(0, {core})
        module, steps = self._wrapped(replicas), 0
        time.sleep(max(begin - time.monotonic(), 0.0))
        first, used, mark = time.monotonic(), time.process_time(), mark_core()
        while (last := time.monotonic()) < begin + seconds or not steps:
            start = self._clock.mark()
            self._step(module, 0)
            self._clock.seconds(start, self._clock.mark())  # waits for the device
            steps += 1
        taken = last - first
        return {
            "steps": steps,
            "seconds": taken,
            "core": min((time.process_time() - used) / taken, 1.0),
            "quiet": self._core(mark, waits=False),
        }

    def _wrapped(self, replicas: int) -> Any:
        """Return the module as `replicas` replicas train it."""
        if replicas not in self._trained:
            from torch.nn.parallel import DistributedDataParallel

            self._trained[replicas] = DistributedDataParallel(
                self._module, process_group=self._groups[replicas]
            )
        return self._trained[replicas]

    def _pass(self, module: Any, *, synchronise: bool) -> None:
        """Run a forward and backward pass."""
        quiet = not synchronise and hasattr(module, "no_sync")
        with module.no_sync() if quiet else contextlib.nullcontext():
            self._loss(module).backward()

    def _loss(self, module: Any) -> Any:
        """Run a forward pass."""
        with self._execution.forward(self._device):
            return self._task.loss(module, self._batch)

    def _update(self) -> None:
        """Update the weights."""
        self._optimiser.step()
        self._optimiser.zero_grad()

    def _step(self, module: Any, accumulation_steps: int) -> None:
        """Run a step."""
        for _ in range(accumulation_steps):
            self._pass(module, synchronise=False)
        self._pass(module, synchronise=True)
        self._update()

    def _seconds(self, marks: Sequence[Any]) -> list[float]:
        """Return the seconds between each mark and the next."""
        return [self._clock.seconds(begin, end) for begin, end in itertools.pairwise(marks)]


def _exchange_buffers(module: Any, *, wanted: bool) -> None:
    """Let the next pass begin with an exchange of buffers, or not, where several replicas train.

    `DistributedDataParallel` makes it in every pass after one that exchanged gradients: it is a
    part of steps, and none of passes without synchronisation.
    """
    if hasattr(module, "require_forward_param_sync"):
        module.require_forward_param_sync = wanted
