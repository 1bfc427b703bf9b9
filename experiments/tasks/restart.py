"""What a restart costs a training of its size: to save it, to start a process, and to load it.

A process trains a few steps and saves weights and state of the optimiser. A fresh one then starts,
finds its device, makes the model, loads what was saved, and trains on. Every part is timed; a first
step is longer than others, as libraries choose and load their kernels then. Run as a programme,
this module is either of the processes (PyTorch).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from goodalloc.experiments.tasks.task import find_task

#: Steps before the training is saved, and steps of a started one whose median is a usual step.
BEFORE, AFTER = 3, 5

#: Seconds after which a process is given up.
PATIENCE = 600.0


class RestartCost(NamedTuple):
    """Parts of a restart.

    Attributes
    ----------
    model
        Name of the task.
    device
        Name of the device.
    checkpoint_mib
        Size of the file.
    save_s
        To copy the state from the device, write the file, and have the disk keep it.
    start_s
        To start Python, import PyTorch, and find the device.
    build_s
        To make the model and move it to the device.
    load_s
        To read the file, which the system may still hold in memory, into model and optimiser.
    first_step_s, step_s
        The first step, and the median of the next.
    """

    model: str
    device: str
    checkpoint_mib: float
    save_s: float
    start_s: float
    build_s: float
    load_s: float
    first_step_s: float
    step_s: float

    @property
    def lost(self) -> float:
        """Seconds that a training loses: all parts, and by how much the first step is longer."""
        parts = self.save_s + self.start_s + self.build_s + self.load_s
        return parts + self.first_step_s - self.step_s


def restart_cost(model: str, device: str = "cpu", *, batch: int | None = None) -> RestartCost:
    """Save a training, start it again in a new process, and return what that takes.

    Parameters
    ----------
    model
        Name of the task, as in `find_task`.
    device
        Name of the device, as PyTorch has it.
    batch
        Examples of a step; those of the smallest batch of the task if None.

    Raises
    ------
    ValueError
        If the task is unknown, or a process fails, with the last line of its errors, or hangs.

    Examples
    --------
    >>> from goodalloc.experiments.tasks import restart_cost
    >>> found = restart_cost("perceptron")
    >>> 0.0 < found.load_s < found.lost
    True
    """
    find_task(model)
    with tempfile.TemporaryDirectory() as folder:
        order = {"model": model, "device": device, "batch": batch, "folder": folder}
        save = _run({**order, "restarted": False})["save_s"]
        found = _run({**order, "restarted": True})
        size = (Path(folder) / "checkpoint.pt").stat().st_size / 2**20
    return RestartCost(model=model, checkpoint_mib=size, save_s=save, **found)


def _run(order: dict[str, Any]) -> dict[str, Any]:
    """Run a process and return its answer, the last line of its output."""
    words = [sys.executable, "-P", "-m", "goodalloc.experiments.tasks.restart"]
    given = json.dumps(order | {"begin": time.time()})
    paths = os.pathsep.join([*filter(None, sys.path), os.getcwd()])  # a task may be in this folder
    try:
        done = subprocess.run(
            words,
            input=given,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            check=False,
            env=os.environ | {"PYTHONPATH": paths},
        )
    except subprocess.TimeoutExpired as error:
        raise ValueError(
            f"Training of '{order['model']}' took more than {PATIENCE:g} s; expected less."
        ) from error
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["without a word"])[-1]
        raise ValueError(f"Training of '{order['model']}' ended early: {last}")
    answer: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return answer


def main() -> int:
    """Train as standard input says, and answer with the seconds of the parts."""
    order = json.load(sys.stdin)
    import torch

    device, task = torch.device(order["device"]), find_task(order["model"])
    torch.zeros(1, device=device)
    cuda = device.type == "cuda"
    parts, last = {"start_s": time.time() - order["begin"]}, time.perf_counter()

    def part() -> float:
        """Return the seconds since the last part, at the end of the device's work."""
        nonlocal last
        if cuda:
            torch.cuda.synchronize()
        seconds, last = time.perf_counter() - last, time.perf_counter()
        return seconds

    torch.manual_seed(0)
    # single precision without rounded products, as profiles have it
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    module = task.make_module().to(device)
    optimiser = task.make_optimiser(module.parameters())
    parts["build_s"] = part()
    path = Path(order["folder"]) / "checkpoint.pt"
    if order["restarted"]:
        saved = torch.load(path, map_location=device, weights_only=True)
        module.load_state_dict(saved["module"])
        optimiser.load_state_dict(saved["optimiser"])
        del saved
        parts["load_s"] = part()
    size = order["batch"] or task.smallest_batch
    generator = torch.Generator().manual_seed(0)
    batch = tuple(one.to(device) for one in task.draw_batch(size, generator))
    steps = list[float]()
    part()
    for _ in range(1 + AFTER if order["restarted"] else BEFORE):
        task.loss(module, batch).backward()
        optimiser.step()
        optimiser.zero_grad()
        steps.append(part())
    parts["first_step_s"], parts["step_s"] = steps[0], median(steps[1:])
    if not order["restarted"]:
        with path.open("wb") as file:
            torch.save({"module": module.state_dict(), "optimiser": optimiser.state_dict()}, file)
            file.flush()
            os.fsync(file.fileno())
        parts["save_s"] = part()
    name = torch.cuda.get_device_name(device) if cuda else "cpu"
    sys.stdout.write(json.dumps({"device": name, **parts}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
