"""Origin of an exception, for sentences that name the line of a user's own code."""

from __future__ import annotations

import traceback
from pathlib import Path


def described(error: BaseException) -> str:
    """Return the type, the message and the innermost line of an exception.

    Examples
    --------
    >>> from goodalloc.models.support.error_origin import described
    >>> try:
    ...     1 / 0
    ... except ZeroDivisionError as error:
    ...     text = described(error)
    >>> text.startswith("ZeroDivisionError: division by zero, in ")
    True
    """
    text = f"{type(error).__name__}: {error}".rstrip(". ")
    frames = traceback.extract_tb(error.__traceback__)
    if not frames:
        return text
    return f"{text}, in {Path(frames[-1].filename).name}, line {frames[-1].lineno}"
