"""Files of the library that ship: JSON, compressed with equal bytes for equal contents."""

from __future__ import annotations

import gzip
import json
import zlib
from importlib.resources import files
from typing import TYPE_CHECKING, Literal

from goodalloc.data.documents.atomic_write import write_bytes_atomically
from goodalloc.data.documents.json_file import in_file, parse

if TYPE_CHECKING:
    import os
    from importlib.resources.abc import Traversable
    from pathlib import Path

    from goodalloc.data.documents.json_file import Document

#: Folders of what ships: recorded rounds, best known allocations, and certificates.
Kind = Literal["rounds", "answers", "certificates"]

#: Most bytes of an uncompressed file.
MOST_BYTES = 64 * 2**20


def library_folder() -> Traversable:
    """Return the folder of the library's table and files.

    Examples
    --------
    >>> from goodalloc.data.library.stored_files import library_folder
    >>> (library_folder() / "catalogue.csv").is_file()
    True
    """
    return files("goodalloc.data") / "library"


def file_of(kind: Kind, name: str) -> Traversable:
    """Return the file of a round, which may not exist."""
    return library_folder() / kind / f"{name}.json.gz"


def read_compressed(path: Traversable | Path) -> object:
    """Return the JSON of a compressed file.

    Raises
    ------
    ValueError
        If the file cannot be read, is not compressed JSON, or holds more than `MOST_BYTES`.
    """
    try:
        packed = zlib.decompressobj(wbits=31)
        content = packed.decompress(path.read_bytes(), MOST_BYTES)
        if packed.unconsumed_tail or not packed.eof:
            raise ValueError(f"it is no whole file of at most {MOST_BYTES} bytes.")
        return parse(content.decode("utf-8"))
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise ValueError(f"File '{path}' cannot be read ({reason}).") from error
    except zlib.error as error:
        raise ValueError(f"File '{path}' is not compressed by gzip ({error}).") from error
    except ValueError as error:  # also of bytes that are no UTF-8
        raise ValueError(in_file(str(path), error)) from error


def write_compressed(path: str | os.PathLike[str], document: Document) -> None:
    """Write JSON as a compressed file, without a time, so that equal contents give equal bytes.

    Raises
    ------
    ValueError
        If the file cannot be written.

    Examples
    --------
    >>> from pathlib import Path
    >>> from goodalloc.data.library.stored_files import read_compressed, write_compressed
    >>> write_compressed("one.json.gz", {"jobs": [1, 2]})
    >>> read_compressed(Path("one.json.gz"))
    {'jobs': [1, 2]}
    """
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    write_bytes_atomically(path, gzip.compress(text.encode("utf-8"), compresslevel=9, mtime=0))
