"""The rooms of the house: their order, their sizes, and what they offer."""

import importlib
import re
from collections import Counter
from inspect import getdoc, isclass, isfunction, ismodule

import pytest

from tests.support.house import FOLDERS, ROOT, arrows, longest_chain, modules, room_of

#: The rooms of every folder; one may import those before it. The folder's own modules are "".
ROOMS = {
    "models": (
        "support",
        "goodput",
        "adaptation",
        "fitting",
        "losses",
        "round",
        "columns",
        "parameter_servers",
        "gavel",
        "shared_gpus",
        "classical",
        "hindsight",
        "plans",
        "making_room",
        "topology",
    ),
    "data": (
        "documents",
        "applications",
        "files",
        "workloads",
        "rounds",
        "gavel",
        "parameter_servers",
        "pods",
        "classical",
        "plans",
        "library",
        "topology",
        "traces",
        "derivation",
    ),
    "formulations": (
        "basics",
        "gpu_rounds",
        "mode_rounds",
        "node_indexed",
        "pods",
        "sia_and_synergy",
        "parameter_servers",
        "gavel",
        "shared_gpus",
        "classical",
        "hindsight",
        "making_room",
        "topology",
        "certificates",
        "exported",
    ),
    "solvers": (
        "interface",
        "milp",
        "columns",
        "heuristics",
        "power_mean",
        "modes",
        "mode_columns",
        "certificates",
        "exact",
        "genetic",
        "sia_and_synergy",
        "pods",
        "parameter_servers",
        "policies",
        "classical",
        "gavel",
        "shared_gpus",
        "hindsight",
        "hindsight_schedules",
        "steady_jobs",
        "foresight",
        "plans",
        "making_room",
        "topology",
    ),
    "experiments": (
        "support",
        "reporting",
        "verification",
        "checkpoints",
        "placements",
        "tasks",
        "agent",
        "measure",
        "live",
        "replay",
        "gap",
        "hindsight",
        "replay_bound",
        "topology",
        "studies.framework",
        "studies.pollux",
        "studies.sia_and_synergy",
        "studies.gavel",
        "studies.shared_gpus",
        "studies.parameter_servers",
        "studies.predictability",
        "studies.training",
        "studies.classical",
        "studies.comparisons",
        "studies.topology",
        "studies.hindsight",
        "studies.plans",
        "studies.steady_jobs",
        "studies.last_rows",
        "pages",
        "library",
        "studies.library",
        "studies",
        "cli",
        "cli.rounds",
        "benchmarks",
    ),
}

#: All rooms in the order of the house.
ORDER = [f"{folder}.{room}".rstrip(".") for folder in FOLDERS for room in ROOMS[folder]]

#: Packages with names for users.
FACES = sorted(
    "goodalloc." + ".".join(path.parent.relative_to(ROOT).parts)
    for folder in FOLDERS
    for path in (ROOT / folder).rglob("__init__.pyi")
)


@pytest.mark.parametrize("package", FACES)
def test_no_public_name_is_that_of_a_module_of_its_room(package: str) -> None:
    """Else the name stands for the module as soon as something has imported that."""
    face = importlib.import_module(package)
    folder = ROOT.joinpath(*package.split(".")[1:])
    assert not set(face.__all__) & {path.stem for path in folder.iterdir()}


def test_every_module_is_in_a_room_that_is_listed() -> None:
    """No room is missing here, and none stands empty."""
    assert {room_of(module) for module in modules()} == set(ORDER)


def test_no_room_imports_one_above_it() -> None:
    """Whenever it does so; hence there is no circle of rooms."""
    level = {room: index for index, room in enumerate(ORDER)}
    assert not [f"{a} imports {b}" for a, b in sorted(arrows()) if level[b] > level[a]]


def test_rooms_are_small_and_know_few_others() -> None:
    """At most 16 modules a room, 400 lines a module, 7 imported rooms a room on average."""
    sizes = Counter(map(room_of, modules()))
    sizes.update(path.parent.as_posix() for path in (ROOT / "tests").rglob("*.py"))
    assert not {room: size for room, size in sizes.items() if size > 16}
    lines = {name: path.read_text("utf-8").count("\n") for name, path in modules().items()}
    assert not {name: count for name, count in lines.items() if count > 400}
    assert len(arrows()) <= 7 * len(ORDER)


def test_no_chain_of_imports_is_longer_than_thirteen() -> None:
    """Of those that happen when a module is imported."""
    assert len(longest_chain()) <= 13, " imports ".join(longest_chain())


def test_every_room_says_what_it_is_for() -> None:
    """In one sentence on one line."""
    for room in ORDER:
        doc = getdoc(importlib.import_module(f"goodalloc.{room}")) or ""
        assert re.fullmatch(r"[A-Z`][^\n]+\.", doc), room


@pytest.mark.parametrize("package", FACES)
def test_every_name_for_users_is_there_and_documented(package: str) -> None:
    """Classes and functions have docstrings, and no module hides a name."""
    found = importlib.import_module(package)
    assert found.__all__
    for name in found.__all__:
        value = getattr(found, name)
        assert not ismodule(value), f"{package}.{name}"
        if isclass(value) or isfunction(value):
            assert getdoc(value), f"{package}.{name}"


def test_every_link_of_a_page_leads_somewhere() -> None:
    """Within the repository."""
    pages = [
        *ROOT.glob("*.md"),
        *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
    ]
    assert pages
    culprits = [
        f"{page.relative_to(ROOT)}: {link}"
        for page in pages
        for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if not link.startswith("http") and not (page.parent / link).exists()
    ]
    assert not culprits
