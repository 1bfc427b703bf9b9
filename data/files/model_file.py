"""Models that were fitted to a measured profile, as files: versioned JSON (see `FORMAT.md`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from goodalloc.data.documents.atomic_write import write_atomically
from goodalloc.data.documents.json_file import check_keys, dump, in_file, read_document, rows_text
from goodalloc.data.files.model_table import model_from_dict, model_to_dict
from goodalloc.models.goodput.model import GoodputModel
from goodalloc.models.support.validation import require_name

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from goodalloc.data.documents.json_file import Document

FORMAT, VERSION = "goodalloc-model", 1


def write_model(
    path: str | os.PathLike[str],
    name: str,
    model: GoodputModel,
    errors: Sequence[Mapping[str, Any]],
    measured: Mapping[str, str],
) -> None:
    """Write a model to a file, atomically.

    Parameters
    ----------
    path
        The file.
    name
        Name of the model.
    model
        Goodput model.
    errors
        Rows of errors of what it predicts.
    measured
        On what it was measured.

    Raises
    ------
    ValueError
        If the file cannot be written.
    """
    head: Document = {"format": FORMAT, "version": VERSION, "name": name}
    head |= {"model": model_to_dict(model), "measured": dict(measured)}
    text = rows_text(head, {"errors": [dict(row) for row in errors]})
    write_atomically(path, text)


def read_model(path: str | os.PathLike[str]) -> tuple[str, GoodputModel]:
    """Name and model in a file.

    Raises
    ------
    ValueError
        If the file is unreadable or malformed, or a value is out of range.
    """
    document = read_document(path, (FORMAT,))
    try:
        keys = ("format", "version", "name", "model", "measured", "errors")
        check_keys("Model", document, keys)
        require_name("Model", document["name"])
        model = model_from_dict(f"Model '{document['name']}'", document["model"])
        if not isinstance(model, GoodputModel):
            found = dump(document["model"])[:60]
            raise ValueError(f"Model: model is {found}; expected a goodput model.")
    except ValueError as error:
        raise ValueError(in_file(path, error)) from error
    return str(document["name"]), model
