"""Compilation of the genetic algorithm, on threads of its own, within a time limit."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax

from goodalloc.solvers.genetic.operators import Genes
from goodalloc.solvers.genetic.program import run_block, unborn

if TYPE_CHECKING:
    from concurrent.futures import Future

    from goodalloc.solvers.genetic.operators import Problem
    from goodalloc.solvers.genetic.options import GeneticOptions


@dataclass(frozen=True)
class CompiledBlock:
    """Compiled program for one shape of problem, with the seconds waited for its compilation."""

    run: Any
    seconds: float


def compile_block(
    problem: Problem, options: GeneticOptions, power: float, seconds: float | None = None
) -> CompiledBlock | None:
    """Return the program for problems of this shape; None if it is not ready in `seconds`.

    Each program is compiled once, on a thread of its own: a program that is late for one call is
    ready for the next. `CompiledBlock.seconds` is the time this call waited, 0 if the program was
    ready.
    """
    begin = time.perf_counter()
    struct: Any = jax.ShapeDtypeStruct
    like = jax.tree.map(lambda array: struct(array.shape, array.dtype), problem)
    (device,) = problem.gpus.devices()
    pending = _compiling(like, options, power, device)
    ready = pending.done()
    try:
        run = pending.result(None if seconds is None else max(seconds, 0.0))
    except TimeoutError:
        return None
    return CompiledBlock(run, 0.0 if ready else time.perf_counter() - begin)


@lru_cache(maxsize=32)
def _compiling(problem: Problem, options: GeneticOptions, power: float, device: Any) -> Future[Any]:
    executor = ThreadPoolExecutor(1, thread_name_prefix="compile")
    pending = executor.submit(_compile, problem, options, power, device)
    executor.shutdown(wait=False)
    return pending


def _compile(problem: Problem, options: GeneticOptions, power: float, device: Any) -> Any:
    """Compile for problems of the shapes and types of this one, which holds nothing else."""
    like: Any = jax.ShapeDtypeStruct
    with jax.enable_x64(True), jax.default_device(device):  # settings of JAX belong to a thread
        jobs, nodes = problem.current.shape
        members = (jobs, options.population)
        modes = None if problem.modes is None else like(members, problem.first_mode.dtype)
        genes = Genes(like((*members, nodes), problem.current.dtype), modes)
        progress = jax.eval_shape(unborn, genes, like((options.population,), "bool"))
        key = jax.eval_shape(partial(jax.random.key, impl="threefry2x32"), 0)
        block = jax.jit(partial(run_block, options=options, power=power))
        number = like((), "int32")
        return block.lower(problem, progress, key, number, number).compile()
