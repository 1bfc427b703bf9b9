"""The examples in docstrings: they are there, and they do what they show."""

from __future__ import annotations

import doctest
import importlib
from enum import Enum
from inspect import getdoc, isclass, isfunction

import pytest

from tests.support.few import slow_where
from tests.support.house import modules

#: Packages in which every function has an example (the five of the top: every class, too).
COMPLETE = (
    "goodalloc.models",
    "goodalloc.models.adaptation",
    "goodalloc.models.classical",
    "goodalloc.models.fitting",
    "goodalloc.models.gavel",
    "goodalloc.models.goodput",
    "goodalloc.models.losses",
    "goodalloc.models.parameter_servers",
    "goodalloc.models.round",
    "goodalloc.models.shared_gpus",
    "goodalloc.models.support",
    "goodalloc.data",
    "goodalloc.data.applications",
    "goodalloc.data.classical",
    "goodalloc.data.documents",
    "goodalloc.data.files",
    "goodalloc.data.gavel",
    "goodalloc.data.parameter_servers",
    "goodalloc.data.pods",
    "goodalloc.data.rounds",
    "goodalloc.data.workloads",
    "goodalloc.formulations",
    "goodalloc.formulations.basics",
    "goodalloc.formulations.certificates",
    "goodalloc.formulations.classical",
    "goodalloc.formulations.gavel",
    "goodalloc.formulations.gpu_rounds",
    "goodalloc.formulations.mode_rounds",
    "goodalloc.formulations.node_indexed",
    "goodalloc.formulations.parameter_servers",
    "goodalloc.formulations.pods",
    "goodalloc.formulations.shared_gpus",
    "goodalloc.formulations.sia_and_synergy",
    "goodalloc.solvers",
    "goodalloc.solvers.exact",
    "goodalloc.solvers.genetic",
    "goodalloc.solvers.modes",
    "goodalloc.experiments",
    "goodalloc.experiments.agent",
    "goodalloc.experiments.gap",
    "goodalloc.experiments.measure",
    "goodalloc.experiments.studies.framework",
    "goodalloc.solvers.interface",
    "goodalloc.solvers.milp",
    "goodalloc.solvers.heuristics",
    "goodalloc.solvers.power_mean",
    "goodalloc.solvers.certificates",
    "goodalloc.solvers.sia_and_synergy",
    "goodalloc.solvers.pods",
    "goodalloc.solvers.parameter_servers",
    "goodalloc.solvers.policies",
    "goodalloc.solvers.classical",
    "goodalloc.solvers.gavel",
    "goodalloc.solvers.shared_gpus",
    "goodalloc.experiments.live",
    "goodalloc.experiments.replay",
    "goodalloc.experiments.reporting",
    "goodalloc.experiments.tasks",
)

#: Functions that need published files, an optional solver or a whole measurement to show anything.
OUTSIDE = {
    "bounds_text",
    "cross_check",
    "draw_from_philly",
    "error_rows",
    "evolve",
    "fit_profile",
    "fit_table",
    "goodput_model",
    "hardware",
    "methods_for",
    "model_rates",
    "plot_profile",
    "rates_beside",
    "read_aiturbo_jobs",
    "read_aiturbo_requests",
    "read_elasticflow_jobs",
    "read_gavel_rates",
    "read_itp_jobs",
    "read_itp_requests",
    "read_machines",
    "read_measured_profile",
    "read_philly",
    "read_philly_requests",
    "read_pods",
    "read_ps_worker_speed",
    "read_real_courses",
    "read_rows",
    "read_services",
    "read_tiresias_cluster",
    "read_tiresias_jobs",
    "run_fit",
    "run_scip",
    "some_of",
    "write_model",
}

EXAMPLES = sorted(name for name, path in modules().items() if ">>> " in path.read_text("utf-8"))

#: Optional modules that examples of a module need.
NEEDS = {
    "experiments.agent.example_order": "torch",
    "experiments.agent.gradient_meter": "torch",
    "experiments.agent.training_agent": "torch",
    "experiments.replay.replay_parquet": "pyarrow",
}

#: Modules whose examples start processes, or compile for long what tests of theirs compile, too.
SLOW = {
    "experiments.tasks.restart",
    "models.fitting.fit",
    "solvers.genetic.solver",
    "solvers.steady_jobs.price_search",
}

FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


@pytest.mark.parametrize("package", COMPLETE)
def test_every_entry_point_has_an_example(package: str) -> None:
    """In its docstring, or in that of one of its methods' class."""
    face = importlib.import_module(package)
    top = package.count(".") == 1
    values = {name: getattr(face, name) for name in face.__all__}
    wanted = {
        name: value
        for name, value in values.items()
        if name not in OUTSIDE
        and (isfunction(value) or (top and isclass(value) and not issubclass(value, Enum)))
    }
    assert not [name for name, value in wanted.items() if ">>> " not in (getdoc(value) or "")]


@pytest.mark.parametrize("module", slow_where(EXAMPLES, SLOW.__contains__))
def test_examples_do_what_they_show(
    module: str, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run in an empty folder, one module at a time."""
    if module in NEEDS:
        pytest.importorskip(NEEDS[module])
    monkeypatch.chdir(str(tmp_path))
    found = importlib.import_module(f"goodalloc.{module}")
    result = doctest.testmod(found, optionflags=FLAGS)
    assert result.attempted
    assert not result.failed
