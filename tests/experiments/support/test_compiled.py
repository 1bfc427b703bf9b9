"""What JAX compiles: a folder for every kind of processor, and no more than a process can hold."""

from __future__ import annotations

import platform
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import pytest

from goodalloc.experiments.support import compiled
from goodalloc.experiments.support.compiled import CACHE, LEAST, compilation_cache, forget_programs
from goodalloc.experiments.support.tasks import run_tasks

if TYPE_CHECKING:
    from goodalloc.experiments.support.tasks import Report

#: Programs of different shapes that a test compiles, each of which has more than one memory map.
SHAPES = range(1, 11)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of a user who has set nothing else."""
    for name in (CACHE, LEAST):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path


def folder_on(monkeypatch: pytest.MonkeyPatch, file: Path, text: str | None) -> str:
    """The folder on a machine that tells this of its processors."""
    if text is not None:
        file.write_text(text)
    monkeypatch.setattr(compiled, "PROCESSORS", file)
    return compilation_cache()[CACHE]


def test_who_has_no_home_has_no_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no entry."""

    def refuse() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", refuse)
    assert compilation_cache() == {}


def test_machines_share_a_folder_if_their_processors_have_the_same_features(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In any order, whatever else is told of them; on x86 and on Arm."""
    old, same, new, arm = (
        folder_on(monkeypatch, home / "cpuinfo", text)
        for text in (
            "processor\t: 0\nflags\t\t: fpu avx2\n",
            "processor\t: 0\nMHz\t: 2400\nflags\t\t: avx2 fpu\nprocessor\t: 1\n",
            "flags\t\t: fpu avx2 avx512f\n",
            "Features\t: fp asimd\n",
        )
    )
    assert old == same
    assert len({old, new, arm}) == 3
    assert all(Path(one).parent == home / "goodalloc" / "jax" for one in (old, new, arm))
    assert all(Path(one).is_dir() for one in (old, new, arm))


@pytest.mark.parametrize("text", [None, "", "processor\t: 0\n"])
def test_where_no_features_are_told_the_architecture_names_the_folder(
    text: str | None, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on macOS, where there is no such file."""
    monkeypatch.setattr(platform, "machine", lambda: "arm64")
    found = folder_on(monkeypatch, home / "none", text)
    assert Path(found) == home / "goodalloc" / "jax" / "arm64"


def test_what_the_user_has_set_is_left_to_him(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder and the least time; a folder that cannot be made is none."""
    monkeypatch.setenv(CACHE, "elsewhere")
    monkeypatch.setenv(LEAST, "7")
    assert compilation_cache() == {CACHE: "elsewhere", LEAST: "7"}
    (home / "file").write_text("in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(home / "file"))
    assert compilation_cache() == {}


def maps() -> int:
    """Memory maps of this process."""
    return len(compiled.MAPS.read_bytes().splitlines())


class Compiling:
    """Task that compiles a program for every shape."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.begin, self.end = folder, 0, 0

    def run(self, report: Report) -> None:
        """Compile, and count memory maps."""
        self.total = jax.jit(lambda values: jnp.sort(jnp.cumsum(values)).sum())
        self.begin = maps()
        for size in SHAPES:
            self.total(jnp.ones(size)).block_until_ready()
        self.end = maps()
        report(1.0)


@pytest.mark.skipif(not compiled.MAPS.exists(), reason="the system tells no memory maps")
def test_programs_are_forgotten_between_tasks_where_few_memory_maps_are_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And kept where many are left: with none left the process would end."""
    most = tmp_path / "max_map_count"
    monkeypatch.setattr(compiled, "MOST_MAPS", most)
    for kept, limit in ((True, 10**9), (False, 1)):
        most.write_text(f"{limit}\n")
        first, second = (Compiling(tmp_path / f"{name}-{limit}") for name in ("first", "second"))
        assert run_tasks([first, second]) == {}
        assert first.end > first.begin + len(SHAPES)
        assert (second.begin > (first.begin + first.end) / 2) == kept


def test_programs_are_kept_where_nothing_is_told_of_memory_maps_or_jax_is_not_loaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on other systems; and in processes that have no programs."""
    monkeypatch.setattr(compiled, "MOST_MAPS", tmp_path / "none")
    assert not forget_programs()
    (tmp_path / "one").write_text("1")
    monkeypatch.setattr(compiled, "MOST_MAPS", tmp_path / "one")
    monkeypatch.delitem(sys.modules, "jax")
    assert not forget_programs()
