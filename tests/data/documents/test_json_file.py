"""Files that are read and written: what is kept of them, and which are refused."""

from __future__ import annotations

import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest

from goodalloc.data.documents import regular_file
from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.csv_table import read_table
from goodalloc.data.documents.json_file import read_text
from goodalloc.data.documents.traces_digest import traces_digest
from goodalloc.data.files.allocation import read_allocation
from goodalloc.data.files.instance import read_instance
from goodalloc.data.files.job_state import read_job_state, read_placement
from goodalloc.data.files.job_submission import read_job_submission
from goodalloc.data.files.measured_profile import read_measured_profile
from goodalloc.data.files.model_file import read_model
from goodalloc.data.rounds.generator import generate
from goodalloc.data.workloads.philly import read_philly
from goodalloc.data.workloads.workload import read_workload
from goodalloc.experiments.cli.main import main
from goodalloc.experiments.gap.gap import read_rows, repair
from goodalloc.solvers.interface.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


def mode(path: Path) -> int:
    """Who may do what with a file."""
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def usual_umask() -> Iterator[None]:
    """That of most users."""
    former = os.umask(0o022)
    yield
    os.umask(former)


@pytest.mark.usefixtures("usual_umask")
def test_a_file_that_is_written_again_keeps_its_mode(tmp_path: Path) -> None:
    """Also one that only its owner may read; a new one is as the user wants new files."""
    path = tmp_path / "state.json"
    write_atomically(path, "first")
    assert mode(path) == 0o644
    for wanted in (0o600, 0o640, 0o664, 0o400):
        path.chmod(wanted)
        write_atomically(path, f"{wanted:o}")
        assert (mode(path), path.read_text()) == (wanted, f"{wanted:o}")
    os.umask(0o077)
    write_atomically(tmp_path / "new.json", "mine")
    assert mode(tmp_path / "new.json") == 0o600
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["new.json", "state.json"]


@pytest.mark.usefixtures("usual_umask")
def test_what_replaces_a_private_file_is_never_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even under its temporary name."""
    path, seen = tmp_path / "state.json", list[int]()
    path.write_text("secret")
    path.chmod(0o600)
    replace = os.replace

    def watched(source: Path, target: Path) -> None:
        seen.append(mode(source))
        replace(source, target)

    monkeypatch.setattr(os, "replace", watched)
    write_atomically(path, "secret")
    assert seen == [0o600]


def test_a_link_is_kept_and_links_in_a_circle_are_refused(tmp_path: Path) -> None:
    """What is written is the file that it leads to."""
    path, link = tmp_path / "file", tmp_path / "link"
    path.write_text("old")
    path.chmod(0o600)
    link.symlink_to(path)
    write_atomically(link, "new")
    assert link.is_symlink()
    assert (path.read_text(), mode(path)) == ("new", 0o600)
    circle = tmp_path / "circle"
    circle.symlink_to(circle)
    with pytest.raises(ValueError, match="circle' cannot be written"):
        write_atomically(circle, "new")


READERS: list[Callable[[Path], object]] = [
    read_text,
    read_instance,
    read_job_state,
    read_job_submission,
    read_measured_profile,
    read_model,
    read_philly,
    read_workload,
    read_rows,
    repair,
    lambda path: read_placement(path, "job"),
    lambda path: read_table(path, ["a"]),
    lambda path: read_allocation(path, generate(1, 2)),
    lambda path: read_result(path, generate(1, 2)),
    lambda path: traces_digest(str(path.parent)),
]


@pytest.mark.parametrize("read", READERS)
def test_what_has_no_end_is_refused(tmp_path: Path, read: Callable[[Path], object]) -> None:
    """A pipe to which nobody writes, and a device, whoever reads; by a link, too."""
    pipe, link = tmp_path / "pipe.csv", tmp_path / "zero.csv"
    os.mkfifo(pipe)
    with pytest.raises(ValueError, match=r"pipe\.csv' is a pipe; expected a file\.$"):
        read(pipe)
    pipe.unlink()
    link.symlink_to("/dev/zero")
    with pytest.raises(ValueError, match=r"zero\.csv' is a device; expected a file\.$"):
        read(link)


def test_other_things_that_are_no_files_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In one sentence; a file that is larger than any, too."""
    with socket.socket(socket.AF_UNIX) as door:
        monkeypatch.chdir(tmp_path)
        door.bind("door")
        with pytest.raises(ValueError, match="'door' is a socket"):
            read_text("door")
    with pytest.raises(ValueError, match="is a directory; expected a file"):
        read_text(tmp_path)
    (tmp_path / "large").write_text("12345")
    monkeypatch.setattr(regular_file, "LARGEST_FILE", 4)
    with pytest.raises(ValueError, match="'large' has 5 bytes; expected at most 4"):
        read_text("large")
    assert main(["solve", "/dev/zero"]) == 2
    assert capsys.readouterr().err == (
        "goodalloc: error: File '/dev/zero' is a device; expected a file.\n"
    )


def test_a_pipe_that_takes_the_place_of_a_file_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look at it and its opening."""
    file, pipe = tmp_path / "file", tmp_path / "pipe"
    file.write_text("text")
    os.mkfifo(pipe)
    found = os.stat(file)
    monkeypatch.setattr(os, "stat", lambda *_, **__: found)
    with pytest.raises(ValueError, match="is a pipe"):
        read_text(pipe)
