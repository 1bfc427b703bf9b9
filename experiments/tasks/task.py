"""Training tasks to be measured: a model, its data and its loss (PyTorch).

A task is a name of `TASKS`, or a user's own: ``package.module:function`` or ``file.py:function``,
where the function takes no argument and returns a `TrainingTask`. This module does not import
PyTorch.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, SourceFileLoader
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.models.support.dotted_path import load_callable
from goodalloc.models.support.validation import require_count

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Included tasks, by name: small ones, and some of the size that GPUs train.
TASKS = {
    "resnet": "goodalloc.experiments.tasks.resnet:resnet",
    "transformer": "goodalloc.experiments.tasks.transformer:transformer",
    "neumf": "goodalloc.experiments.tasks.neumf:neumf",
    "perceptron": "goodalloc.experiments.tasks.perceptron:perceptron",
    "resnet50": "goodalloc.experiments.tasks.resnet:resnet50",
    "bert-base": "goodalloc.experiments.tasks.bert:bert_base",
    "gpt-124m": "goodalloc.experiments.tasks.transformer:gpt_124m",
    "gpt-350m": "goodalloc.experiments.tasks.transformer:gpt_350m",
    "neumf-20m": "goodalloc.experiments.tasks.neumf:neumf_20m",
}

#: Those that train on CPUs in no time.
SMALL = ("resnet", "transformer", "neumf", "perceptron")

#: Digits of a source's digest.
DIGITS = 12


@dataclass(frozen=True)
class TrainingTask:
    """Model with its data, loss and optimiser.

    Parameters
    ----------
    make_module
        Function that returns the model, a `torch.nn.Module`.
    draw_batch
        Function of a number of examples and a `torch.Generator` that returns a batch: a tuple of
        tensors, whose first dimension is the examples.
    loss
        Function of the module (to be called, as it may be wrapped) and a batch that returns the
        loss, a tensor of one number.
    make_optimiser
        Function that returns the optimiser of parameters.
    smallest_batch, largest_batch
        Range of atomic batch sizes (examples per replica and pass), both included.

    Raises
    ------
    ValueError
        If a function is not callable, `smallest_batch` < 1 or `largest_batch` < `smallest_batch`.
    """

    make_module: Callable[[], Any]
    draw_batch: Callable[[int, Any], tuple[Any, ...]]
    loss: Callable[[Any, tuple[Any, ...]], Any]
    make_optimiser: Callable[[Iterable[Any]], Any]
    smallest_batch: int = 1
    largest_batch: int = 2**16

    def __post_init__(self) -> None:
        for name in ("make_module", "draw_batch", "loss", "make_optimiser"):
            value = getattr(self, name)
            if not callable(value):
                raise ValueError(f"Task: {name} is {value!r}; expected a function.")
        require_count("Task: smallest_batch", self.smallest_batch, 1)
        require_count("Task: largest_batch", self.largest_batch, self.smallest_batch)


def find_task(name: str) -> TrainingTask:
    """Return the task of a name.

    Parameters
    ----------
    name
        One of `TASKS`, ``package.module:function`` or ``file.py:function``.

    Raises
    ------
    ValueError
        If the name is unknown, or the function fails or does not return a `TrainingTask`.

    Examples
    --------
    >>> from goodalloc.experiments.tasks import find_task
    >>> find_task("perceptron").largest_batch
    4096
    """
    function = _function(name)
    try:
        task = function()
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"Model '{name}' cannot be made ({text}).") from error
    if not isinstance(task, TrainingTask):
        raise ValueError(
            f"Model '{name}' returns a {type(task).__name__}; expected a TrainingTask."
        )
    return task


def task_digest(name: str) -> str:
    """Return a digest of the file that defines a task.

    Raises
    ------
    ValueError
        If the name is unknown.

    Examples
    --------
    >>> from goodalloc.experiments.tasks import task_digest
    >>> len(task_digest("perceptron"))
    12
    """
    path = inspect.getsourcefile(inspect.unwrap(_function(name)))
    text = b"" if path is None else Path(path).read_bytes()
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def _function(name: str) -> Callable[..., Any]:
    """Return the function that makes a task."""
    path, _, function = TASKS.get(name, name).rpartition(":")
    if not path or not function:
        known = ", ".join(TASKS)
        raise ValueError(
            f"Model '{name}' is unknown; expected one of {known}, package.module:function or "
            "file.py:function."
        )
    if not path.endswith(".py"):
        return load_callable(f"{path}:{function}", f"Model '{name}'")
    return _from_file(name, Path(path), function)


def _from_file(name: str, path: Path, function: str) -> Callable[..., Any]:
    """Return a function of a file, which is run."""
    if not path.is_file():
        raise ValueError(f"Model '{name}': file '{path}' does not exist.")
    loader = SourceFileLoader(path.stem, str(path))
    module = importlib.util.module_from_spec(ModuleSpec(path.stem, loader, origin=str(path)))
    module.__file__ = str(path)
    try:
        loader.exec_module(module)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"Model '{name}': file '{path}' cannot be run ({text}).") from error
    found: Any = getattr(module, function, None)
    if not callable(found):
        raise ValueError(f"Model '{name}': file '{path}' has no function '{function}'.")
    made: Callable[..., Any] = found
    return made
