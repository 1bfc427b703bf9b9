"""The rules of the house: who may import whom, what is shipped, what an import may do."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# A folder may import itself and those before it.
FOLDERS = ("models", "data", "formulations", "solvers", "experiments")

ROOT = Path(__file__).resolve().parent.parent

#: A module or document that a text names.
NAMED = re.compile(r"`([\w./-]+\.(?:py|md))`")

#: Beginnings of paths in the code of others.
OTHERS = ("torch/", "scheduler/")

#: What runs the code that a file names when it reads the file; pickles between processes need none.
UNPICKLING = (
    "pickle",
    "_pickle",
    "pickletools",
    "cloudpickle",
    "dill",
    "joblib",
    "jsonpickle",
    "marshal",
    "shelve",
    "ray.cloudpickle",
    "pandas.read_pickle",
    "torch.load",
    "numpy.load",
)

#: What runs none if it is told so.
HARMLESS = {
    "np.load": ("allow_pickle", "False"),
    "numpy.load": ("allow_pickle", "False"),
    "torch.load": ("weights_only", "True"),
}

#: Methods that read or write pickles whatever they are told.
PICKLING = ("read_pickle", "to_pickle")

#: Names of all functions and methods that may read objects.
READERS = {*PICKLING, *(name.rpartition(".")[2] for name in HARMLESS)}

IMPORT_EVERYTHING = """
import logging, pkgutil
import jax

before = dict(jax.config.values)

import goodalloc.models, goodalloc.data, goodalloc.formulations
import goodalloc.solvers, goodalloc.experiments

for package in (goodalloc.models, goodalloc.data, goodalloc.formulations,
                goodalloc.solvers, goodalloc.experiments):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not module.name.endswith((".__main__", ".original_driver")):
            __import__(module.name)

after = dict(jax.config.values)
changed = sorted(name for name in before if after[name] != before[name])
assert not changed, f"import changed the JAX settings {changed}"

loggers = [logging.root] + [
    logging.getLogger(name) for name in logging.root.manager.loggerDict
    if name.split(".")[0] == "goodalloc"
]
handled = [logger.name for logger in loggers if logger.handlers]
assert not handled, f"import gave handlers to the loggers {handled}"
"""


@cache
def imports_and_calls(source: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Call, ...]:
    """Imports of a module, wherever they stand, and calls of attributes that may read files."""
    return tuple(
        node
        for node in ast.walk(ast.parse(source.read_text(encoding="utf-8")))
        if isinstance(node, (ast.Import, ast.ImportFrom))
        or (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr in READERS
        )
    )


def imported_folders(source: Path) -> set[str]:
    """Folders of goodalloc that a module imports, wherever in it the import stands."""
    names: set[str] = set()
    for node in imports_and_calls(source):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name.split(".")[1] for name in names if name.startswith("goodalloc.")}


def reads_objects(source: Path) -> Iterator[str]:
    """Where a module imports or calls what runs the code that a file names, and what that is."""
    for node in imports_and_calls(source):
        found: list[str] = []
        if isinstance(node, ast.Import):
            found = [f"imports {alias.name}" for alias in node.names if unpickles(alias.name)]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            found = [f"imports {name}" for name in names if unpickles(name)]
        elif isinstance(node.func, ast.Attribute):
            call = ast.unparse(node.func)
            said = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
            keyword, value = HARMLESS.get(call, ("", None))
            if node.func.attr in PICKLING or said.get(keyword) != value:
                found = [f"calls {call}"]
        yield from (f"{source.relative_to(ROOT)}: {one}" for one in found)


def unpickles(name: str) -> bool:
    """Whether a module, or something in one, runs what a file says."""
    return any(f"{name}.".startswith(f"{known}.") for known in UNPICKLING)


def shipped_files(folder: str) -> set[str]:
    """Files of a folder that a wheel must hold, relative to the repository."""
    return {
        path.relative_to(ROOT).as_posix()
        for path in (ROOT / folder).rglob("*")
        if path.is_file()
        and path.suffix != ".pyc"
        and not any(part.startswith(".") for part in path.relative_to(ROOT).parts)
    }


@pytest.fixture(scope="module")
def setuptools_table() -> dict[str, Any]:
    """The table `tool.setuptools` of pyproject.toml."""
    with (ROOT / "pyproject.toml").open("rb") as stream:
        table: dict[str, Any] = tomllib.load(stream)["tool"]["setuptools"]
    return table


@pytest.fixture(scope="module")
def wheel_names(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Names inside a wheel built from a copy of the working tree."""
    copy, out = tmp_path_factory.mktemp("tree"), tmp_path_factory.mktemp("wheel")
    files = {"pyproject.toml", "README.md", "LICENSE"}
    for name in files.union(*map(shipped_files, FOLDERS)):
        target = copy / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((ROOT / name).read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", out, copy],
        cwd=out,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = out.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_folder_imports_only_itself_and_those_before_it(folder: str) -> None:
    """Imports follow models <- data <- formulations <- solvers <- experiments."""
    allowed = set(FOLDERS[: FOLDERS.index(folder) + 1])
    culprits = {
        f"{source.relative_to(ROOT)} imports goodalloc.{name}"
        for source in (ROOT / folder).rglob("*.py")
        for name in imported_folders(source) - allowed
    }
    assert not culprits


@pytest.mark.parametrize("folder", FOLDERS)
def test_no_module_reads_files_that_say_what_to_run(folder: str) -> None:
    """No pickles, and arrays and tensors only as data."""
    sources = [*(ROOT / folder).rglob("*.py")]
    assert sources
    assert not [culprit for source in sources for culprit in reads_objects(source)]


@pytest.mark.parametrize(
    ("line", "culprit"),
    [
        ("import pickle", "imports pickle"),
        ("from joblib import load", "imports joblib.load"),
        ("from torch import load", "imports torch.load"),
        ("import cloudpickle as c", "imports cloudpickle"),
        ("np.load('a.npz')", "calls np.load"),
        ("np.load('a.npz', allow_pickle=True)", "calls np.load"),
        ("torch.load('a.pt', weights_only=False)", "calls torch.load"),
        ("pd.read_pickle('a')", "calls pd.read_pickle"),
        ("np.load('a.npz', allow_pickle=False)", ""),
        ("torch.load('a.pt', weights_only=True)", ""),
    ],
)
def test_reading_of_pickles_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, culprit: str
) -> None:
    """Wherever in a module it stands."""
    monkeypatch.setattr("tests.test_house.ROOT", tmp_path)
    (tmp_path / "module.py").write_text(f"def read():\n    {line}\n")
    found = [*reads_objects(tmp_path / "module.py")]
    assert found == ([f"module.py: {culprit}"] if culprit else [])


def test_files_that_docstrings_name_are_there() -> None:
    """By their path, its end, or a path in the code of others."""
    paths = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.*")]
    parts = [path.relative_to(ROOT).parts for path in paths]
    ends = {"/".join(one[start:]) for one in parts for start in range(len(one))}
    missing = [
        f"{source.relative_to(ROOT)}: {name}"
        for source in paths
        if source.suffix == ".py"
        for name in named_files(source)
        if not name.startswith(OTHERS) and name not in ends
    ]
    assert not missing


def named_files(source: Path) -> Iterator[str]:
    """Generate the modules and documents that the docstrings of a module name."""
    text = source.read_text(encoding="utf-8")
    if not NAMED.search(text):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)):
            yield from NAMED.findall(ast.get_docstring(node) or "")


def test_no_page_was_left_between_two_versions() -> None:
    """Git's marks of a conflict stand in no page, where no other check would meet them."""
    pages = [
        *ROOT.glob("*.md"),
        *(page for name in FOLDERS for page in (ROOT / name).rglob("*.md")),
    ]
    marks = ("<" * 7, ">" * 7)
    culprits = [
        f"{page.relative_to(ROOT)}: {line}"
        for page in pages
        for line in page.read_text(encoding="utf-8").splitlines()
        if line.startswith(marks)
    ]
    assert pages
    assert not culprits


def test_every_package_is_listed(setuptools_table: dict[str, Any]) -> None:
    """A folder with an `__init__.py` that is not listed would be missing from the wheel."""
    found = {
        "goodalloc." + ".".join(source.parent.relative_to(ROOT).parts)
        for folder in FOLDERS
        for source in (ROOT / folder).rglob("__init__.py")
    }
    assert found == set(setuptools_table["packages"])
    top = {f"goodalloc.{folder}" for folder in FOLDERS}
    assert top == set(setuptools_table["package-dir"])


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_folder_is_marked_as_typed(folder: str) -> None:
    """A namespace has no `py.typed` of its own, so each folder carries one."""
    assert (ROOT / folder / "py.typed").is_file()


@pytest.mark.parametrize("folder", FOLDERS)
def test_every_data_file_matches_a_package_data_pattern(
    folder: str, setuptools_table: dict[str, Any]
) -> None:
    """A file that is not Python is shipped only if a pattern of `package-data` matches it."""
    patterns = setuptools_table["package-data"]
    matched = {
        path.relative_to(ROOT).as_posix()
        for pattern in (*patterns["*"], *patterns.get(f"goodalloc.{folder}", ()))
        for path in (ROOT / folder).rglob(pattern)
    }
    data_files = {name for name in shipped_files(folder) if not name.endswith(".py")}
    assert data_files <= matched


def test_the_wheel_holds_every_file_of_every_folder(wheel_names: set[str]) -> None:
    """Code, data files and markers of the working tree are in the wheel, and nothing else is."""
    expected = {f"goodalloc/{name}" for folder in FOLDERS for name in shipped_files(folder)}
    assert {name for name in wheel_names if name.startswith("goodalloc/")} == expected


def test_importing_the_library_has_no_side_effects(
    run_python: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path
) -> None:
    """No module changes a JAX setting, installs a log handler or prints when imported."""
    done = run_python("-c", IMPORT_EVERYTHING, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert not done.stdout + done.stderr, done.stdout + done.stderr
