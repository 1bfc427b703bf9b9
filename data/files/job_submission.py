"""Submission of a job by its launcher: name, program, and time of submission.

`goodalloc-submission` is an object in one file of the job's folder; see `FORMAT.md`.
"""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import (
    as_float,
    check_keys,
    check_list,
    in_file,
    read_document,
    rows_text,
    shown,
)
from goodalloc.models.support.validation import require_count, require_name, require_number

if TYPE_CHECKING:
    import os

SUBMISSION_FORMAT = "goodalloc-submission"

#: A name that is one folder of any file system, and no option of a command.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


@dataclass(frozen=True, slots=True)
class JobSubmission:
    """Submission of a job by its user.

    Parameters
    ----------
    name
        Name of the job.
    command
        Program and arguments of every replica.
    submitted
        When, in seconds since 1970.
    replicas
        K that its user asks for, for policies that do not choose it.
    application
        Name of what it trains, which jobs that train the same share; empty if unknown.
    steps
        Predicted number of scale-invariant steps of its whole training; None if unknown.

    Raises
    ------
    ValueError
        If a value is out of range.
    """

    name: str
    command: tuple[str, ...]
    submitted: float
    replicas: int = 1
    application: str = ""
    steps: float | None = None

    def __post_init__(self) -> None:
        """Refuse values out of range."""
        require_job_name(self.name)
        item = f"Job '{self.name}'"
        if not self.command or not all(isinstance(word, str) for word in self.command):
            raise ValueError(
                f"{item}: command is {shown(list(self.command))}; expected a program and its "
                "arguments."
            )
        require_number(f"{item}: submitted", self.submitted, 0.0)
        require_count(f"{item}: replicas", self.replicas, 1)
        if self.application != "":
            require_name(f"{item}: application", self.application)
        if self.steps is not None:
            require_number(f"{item}: steps", self.steps, 0.0, strict=True)


def require_job_name(name: object) -> None:
    """Refuse a name that cannot be that of a job's folder.

    Raises
    ------
    ValueError
        With what is expected.

    Examples
    --------
    >>> from goodalloc.data.files import require_job_name
    >>> require_job_name("job-0")
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"Job name is {shown(name)}; expected at most 100 letters, digits, '.', '_' and '-', "
            "a letter or digit first."
        )


def write_job_submission(path: str | os.PathLike[str], submission: JobSubmission) -> None:
    """Write a submission to a file, atomically.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from goodalloc.data.files import JobSubmission, read_job_submission, write_job_submission
    >>> submission = JobSubmission("job-0", ("python", "train.py"), 0.0)
    >>> write_job_submission("submission.json", submission)
    >>> read_job_submission("submission.json") == submission
    True
    """
    head = {"format": SUBMISSION_FORMAT, "version": 1, **asdict(submission)}
    write_atomically(path, rows_text(head, {}))


def read_job_submission(path: str | os.PathLike[str]) -> JobSubmission:
    """Read the submission in a file.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range; the message names the
        file, the item, its value and what was expected.

    Examples
    --------
    >>> from goodalloc.data.files import JobSubmission, read_job_submission, write_job_submission
    >>> write_job_submission("submission.json", JobSubmission("job-0", ("python", "train.py"), 0.0))
    >>> read_job_submission("submission.json").command
    ('python', 'train.py')
    """
    document = read_document(path, (SUBMISSION_FORMAT,))
    try:
        optional = ("application", "steps")
        names = tuple(entry.name for entry in fields(JobSubmission) if entry.name not in optional)
        required = ("format", "version", *names)
        given = dict(check_keys("Submission", document, required, optional))
        del given["format"], given["version"]
        given["command"] = tuple(check_list("Submission: command", given["command"]))
        given["submitted"] = as_float(given["submitted"])
        if given.get("steps") is not None:
            given["steps"] = as_float(given["steps"])
        return JobSubmission(**given)
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
