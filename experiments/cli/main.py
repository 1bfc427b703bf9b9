"""Entry point of the command line `goodalloc`, the only module that prints.

What takes time to import is imported by the functions, so that an interrupt on the way is told in a
sentence, too.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import re
import sys
import traceback
from typing import TYPE_CHECKING

from goodalloc.experiments.cli.output import BAD_INPUT, FAILED, INTERRUPTED
from goodalloc.experiments.support.compiled import compilation_cache
from goodalloc.models.support.error_origin import described

if TYPE_CHECKING:
    from collections.abc import Sequence

    from goodalloc.experiments.cli.output import Output

#: Environment variable that has the traceback of every error printed.
TRACEBACK = "GOODALLOC_TRACEBACK"

#: Most characters of a printed error; a longer one is cut in the middle.
LONGEST_SENTENCE = 2000

NEGATIVE = re.compile(r"-(\d.*|inf|infinity)$")


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done; 1: nothing found, an infeasible allocation, or a solver that failed; 2: bad input,
    described in one sentence; 130: interrupted, with a sentence on what is kept.
    """
    try:
        return _run(argv)
    except ValueError as error:
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        notes = [f"({note})." for note in getattr(error, "__notes__", ())]
        return _complain(" ".join([str(error), *notes]), BAD_INPUT)
    except KeyboardInterrupt as interrupt:
        sentence = str(interrupt) or "interrupted before anything was found."
        return _complain(sentence, INTERRUPTED)
    except SystemExit as ended:  # a solver or policy of the user's
        from goodalloc.models.support.validation import literal

        code = f"exit code {literal(ended.code)}"
        return _complain(f"the given code ended the program ({code}); expected a result.", FAILED)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if os.environ.get(TRACEBACK):
            raise
        return _complain(f"{described(error)} ({TRACEBACK}=1 shows the traceback).", FAILED)


def _run(argv: Sequence[str] | None) -> int:
    from goodalloc.experiments.cli.arguments import build_parser

    parser = build_parser()
    try:
        words = _joined(sys.argv[1:] if argv is None else argv)
        arguments = parser.parse_args(words)
    except SystemExit as done:  # --help was printed
        return int(done.code or 0)
    if arguments.version:
        from goodalloc.experiments.support.version import library_version

        print(f"goodalloc {library_version()}")
        return 0
    if arguments.command is None:
        parser.print_help()
        return BAD_INPUT
    arguments.words = tuple(words)
    os.environ.update(compilation_cache())
    module, _, function = arguments.run.partition(":")
    sys.path.insert(0, "")  # so that --solver mine:solve finds mine.py where the user stands
    try:
        output: Output = getattr(importlib.import_module(module), function)(arguments)
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove("")
    print(json.dumps(output.data, allow_nan=False) if arguments.json else output.text, flush=True)
    return output.code


def _joined(argv: Sequence[str]) -> list[str]:
    """Join values that begin with a minus to their option, since argparse takes them for options.

    These are negative infinity, and ranges and outages that begin with a negative number.
    """
    words: list[str] = []
    for place, word in enumerate(argv):
        if word == "--":  # the rest is the command line of another program
            return [*words, *argv[place:]]
        option = bool(words) and words[-1].startswith("--") and "=" not in words[-1]
        if option and NEGATIVE.match(word.lower()):
            words[-1] += f"={word}"
        else:
            words.append(word)
    return words


def _complain(text: str, code: int) -> int:
    sentence = " ".join(text.split())
    if len(sentence) > LONGEST_SENTENCE:
        half = LONGEST_SENTENCE // 2
        sentence = f"{sentence[:half]} … {sentence[-half:]}"
    print(f"goodalloc: error: {sentence}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
