"""Folder of what JAX compiles: one for every kind of processor."""

from __future__ import annotations

import platform
from pathlib import Path

import pytest

from goodalloc.experiments.support import compiled
from goodalloc.experiments.support.compiled import CACHE, LEAST, compilation_cache


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
