"""What a process started by `processes.py` says and hears: a line of JSON each.

Nothing else of this package is imported: what it costs the processes to start is measured.
"""

from __future__ import annotations

import json
import sys
from typing import Any

#: Exit code of a process that ends because another one is gone.
LEFT_ALONE = 3


def say(**answer: Any) -> None:
    """Answer the process that started this one."""
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()


def hear() -> dict[str, Any]:
    """What to do next.

    Raises
    ------
    ConnectionError
        If nobody is there any more to say it.
    """
    line = sys.stdin.readline()
    if not line:
        raise ConnectionError("standard input has ended")
    found: dict[str, Any] = json.loads(line)
    return found
