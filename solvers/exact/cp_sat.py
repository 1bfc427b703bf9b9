"""CP-SAT of Google's OR-tools on the node-indexed program, as an independent exact solver.

The program is that of the readable solver (`formulations/node_indexed/node_milp.py`), read from a
file; OR-tools scales its numbers to whole ones. The module `ortools` is none of the package's
dependencies (``pip install ortools``).
"""

from __future__ import annotations

import importlib.util
import json
import math
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.formulations.node_indexed.node_milp import decode, node_choices
from goodalloc.models.round.feasibility import violations
from goodalloc.models.round.objective import fitness
from goodalloc.solvers.exact.pyomo_solver import NodeOracle
from goodalloc.solvers.interface.result import Answer, Limit
from goodalloc.solvers.interface.stop import Stop, proves
from goodalloc.solvers.interface.watch import Watch
from goodalloc.solvers.power_mean.hierarchy import maximise_power_mean
from goodalloc.solvers.power_mean.oracle import Reply

if TYPE_CHECKING:
    from goodalloc.models.round.allocation import Allocation
    from goodalloc.models.round.instance import Instance

#: Module that runs CP-SAT in a process of its own.
PROCESS = "goodalloc.solvers.exact.cp_sat_process"

#: Time limit in seconds where there is none, and seconds that the process may take beyond it.
FOREVER, PATIENCE = 1e6, 30.0

#: Seconds for the process to start and to hand over, and fewest seconds of its search.
STARTING, LEAST = 2.5, 0.5


@dataclass
class CpSatOracle(NodeOracle):
    """Oracle that answers requests with the node-indexed program, solved by CP-SAT."""

    def _solve(self, model: Any, gap: float, scale: float, seconds: float) -> Reply:
        """Write a scaled model to a file, have CP-SAT read and solve it, and decode what it found.

        CP-SAT stops at its own tolerance of gaps, which `gap` cannot change through this interface.
        """
        limit = max(seconds - STARTING, LEAST) if math.isfinite(seconds) else FOREVER
        with tempfile.TemporaryDirectory() as folder:
            path, found = Path(folder) / "program.mps", Path(folder) / "answer.json"
            _, key = model.write(str(path))
            command = [sys.executable, "-m", PROCESS, str(path), f"{limit}", str(found)]
            done = subprocess.run(
                command, capture_output=True, text=True, check=False, timeout=limit + PATIENCE
            )
            if not found.is_file():
                self.trouble = f"cp_sat: {' '.join(done.stderr.split())[-200:]}"
                return Reply(None)
            answer = json.loads(found.read_text(encoding="utf-8"))
        if answer["status"] == "infeasible":
            return Reply(None, math.inf)
        if answer["status"] != "optimal":
            self.limit = Limit.TIME
        if not answer["values"]:
            return Reply(None)
        named = model.solutions.symbol_map[key].bySymbol
        allocation = _decoded(model, named, answer["values"], self)
        return Reply(allocation, answer["bound"] / scale)


def _decoded(
    model: Any, named: dict[str, Any], values: dict[str, float], oracle: NodeOracle
) -> Allocation | None:
    """Return the allocation of a solution by the columns' names, None if it breaks a rule."""
    for variables in (model.take, model.replicas):
        for variable in variables.values():
            variable.set_value(0, skip_validation=True)
    for name, value in values.items():
        if name in named:
            named[name].set_value(value, skip_validation=True)
    allocation = decode(model, oracle.instance)
    return None if violations(oracle.instance, allocation) else allocation


def solve_cp_sat(
    instance: Instance, *, stop: Stop | None = None, start: Allocation | None = None
) -> Answer:
    """Decide a round by the node-indexed program with CP-SAT, on one core.

    Parameters
    ----------
    instance
        The round; a few dozen jobs and nodes.
    stop
        Limits.
    start
        An allocation to fall back on.

    Raises
    ------
    ValueError
        If the module `ortools` is not installed.
    """
    if importlib.util.find_spec("ortools") is None:
        raise ValueError("CP-SAT needs the module ortools, which is not installed.")
    stop = stop or Stop()
    watch = Watch(stop)
    oracle = CpSatOracle(instance, None, "cp_sat", watch)
    choices = node_choices(instance)
    usable = start if start is not None and not violations(instance, start) else None
    outcome = maximise_power_mean(
        oracle,
        instance,
        np.array([choice.job for choice in choices]),
        np.array(list(choices.values())),
        start=usable,
        gap=stop.gap,
    )
    found = outcome.allocation
    proven = found is not None and proves(outcome.bound, fitness(instance, found), stop.gap)
    return Answer(
        found,
        outcome.bound,
        "node-indexed program",
        proven=proven,
        limit=None if proven else watch.limit or oracle.limit,
        iterations=outcome.calls,
        build_seconds=oracle.build_seconds,
        message=oracle.trouble,
    )
