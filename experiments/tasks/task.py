"""What is trained when a training is measured: a model, its data and its loss (PyTorch).

A task is a name of `TASKS`, or a user's own: ``package.module:function`` or ``file.py:function``,
where the function takes no argument and returns a `TrainingTask`. Nothing of PyTorch is imported
here.
"""

from __future__ import annotations

import hashlib
import importlib.util
import inspect
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.models.support.validation import require_count
from goodalloc.solvers.interface.base import load_callable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

#: Tasks that ship, by name.
TASKS = {
    "resnet": "goodalloc.experiments.tasks.resnet:resnet",
    "transformer": "goodalloc.experiments.tasks.transformer:transformer",
    "neumf": "goodalloc.experiments.tasks.neumf:neumf",
    "perceptron": "goodalloc.experiments.tasks.perceptron:perceptron",
}

#: Digits of a source's digest.
DIGITS = 12


@dataclass(frozen=True)
class TrainingTask:
    """A model with its data, loss and optimiser.

    Parameters
    ----------
    make_module
        Makes the model, a `torch.nn.Module`.
    draw_batch
        Draws a batch of so many examples with a `torch.Generator`: a tuple of tensors, the first
        dimension of each the examples.
    loss
        The loss of a batch, a tensor of one number, from the module (called, so that it may be
        wrapped) and the batch.
    make_optimiser
        Makes the optimiser of some parameters.
    smallest_batch, largest_batch
        Atomic batch sizes (examples per replica and pass) that make sense, both included.

    Raises
    ------
    ValueError
        If one of them makes no sense.
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
    """The task of that name, or that a function makes.

    Parameters
    ----------
    name
        One of `TASKS`, ``package.module:function`` or ``file.py:function``.

    Raises
    ------
    ValueError
        If there is none, or the function fails or returns something else.
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
    """A digest of the file in which a task is made: another text is another model.

    Raises
    ------
    ValueError
        As `find_task`.
    """
    path = inspect.getsourcefile(inspect.unwrap(_function(name)))
    text = b"" if path is None else Path(path).read_bytes()
    return hashlib.sha256(text).hexdigest()[:DIGITS]


def _function(name: str) -> Callable[..., Any]:
    """What makes a task."""
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
    """A function of a file, which is run for it."""
    if not path.is_file():
        raise ValueError(f"Model '{name}': file '{path}' does not exist.")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        text = " ".join(f"{type(error).__name__}: {error}".split())
        raise ValueError(f"Model '{name}': file '{path}' cannot be run ({text}).") from error
    found: Any = getattr(module, function, None)
    if not callable(found):
        raise ValueError(f"Model '{name}': file '{path}' has no function '{function}'.")
    made: Callable[..., Any] = found
    return made
