"""Profiles and their fits for people: several files by type of GPU, tables, and remarks."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from goodalloc.data.files.measured_profile import FITS, NO_MEMORY, read_measured_profile
from goodalloc.experiments.measure.profile_fit import error_rows

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from goodalloc.data.files.measured_profile import MeasuredProfile
    from goodalloc.experiments.measure.profile_fit import ProfileFit
    from goodalloc.models.goodput.model import GoodputModel

#: Columns of the printed table.
SHOWN = (
    "nodes",
    "replicas",
    "atomic_batch_size",
    "accumulation_steps",
    "outcome",
    "pass_s",
    "update_s",
    "step_s",
    "step_error",
    "repetitions",
    "quiet",
)


def shown_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return a row of a profile with numbers parsed from their texts, to four digits.

    Parameters
    ----------
    row
        The row.
    """
    found: dict[str, Any] = dict(row)
    for name in SHOWN:
        value = found.get(name, "")
        if name == "outcome" or value == "":
            continue
        number = float(value)
        found[name] = (
            float(f"{number:.4g}") if name.endswith(("_s", "error", "quiet")) else int(number)
        )
    return found


def summary(rows: Sequence[Mapping[str, Any]], path: Path) -> str:
    """Return a line on the rows of a profile.

    Parameters
    ----------
    rows
        The rows, each as `shown_row` returns it.
    path
        File of the profile.
    """
    measured = [row for row in rows if row["outcome"] == FITS]
    lacking = [row["atomic_batch_size"] for row in rows if row["outcome"] == NO_MEMORY]
    text = f"written to {path}: {len(measured)} configuration{'' if len(measured) == 1 else 's'}"
    if lacking:
        text += f"; memory does not hold {min(lacking)} examples per replica and pass"
    return text


def type_and_file(text: str) -> tuple[str, str]:
    """Return the type of GPU, empty for none, and the file of a profile that an argument names.

    Parameters
    ----------
    text
        The file, as ``PROFILE.csv`` or ``TYPE=PROFILE.csv``.
    """
    kind, separator, file = text.partition("=")
    return (kind, file) if separator and not Path(text).exists() else ("", text)


def read_profiles(texts: Sequence[str]) -> dict[str, MeasuredProfile]:
    """Return profiles by the type of GPU that is named before each; empty for none.

    Parameters
    ----------
    texts
        Files, each as ``PROFILE.csv`` or ``TYPE=PROFILE.csv``.

    Raises
    ------
    ValueError
        If a file is not a profile, one of several has no type of its own, or they are of different
        models.
    """
    profiles: dict[str, MeasuredProfile] = {}
    for text in texts:
        kind, file = type_and_file(text)
        if kind in profiles or (not kind and len(texts) > 1):
            raise ValueError(
                f"Profile '{text}': its type of GPU is '{kind}'; expected one of its own for each "
                "of several, as TYPE=PROFILE.csv."
            )
        profiles[kind] = found = read_measured_profile(file)
        first = next(iter(profiles.values()))
        for fact in ("model", "source"):
            if found.facts[fact] != first.facts[fact]:
                raise ValueError(
                    f"File '{file}': {fact} is '{found.facts[fact]}'; expected "
                    f"'{first.facts[fact]}' as in the first profile."
                )
    return profiles


def error_table(fit: ProfileFit, fits: Sequence[ProfileFit]) -> list[dict[str, Any]]:
    """Return the errors of a fit and, below them, those of the others.

    Parameters
    ----------
    fit
        The chosen fit.
    fits
        All fits of its profile.
    """
    ordered = sorted(fits, key=lambda one: one is not fit)
    return [{"fit_to": one.method, **row} for one in ordered for row in error_rows(one)]


def fit_remarks(fit: ProfileFit, model: GoodputModel) -> list[str]:
    """Return the parameters of a fit, and what it lacks.

    Parameters
    ----------
    fit
        The fit.
    model
        Its goodput model.
    """
    profile = fit.profile
    texts = [
        f"fitted to {fit.method}:\n"
        + "\n".join(f"{key:<12} {value:.6g}" for key, value in model.throughput._asdict().items())
    ]
    if profile.left_out:
        noun = "configuration" if profile.left_out == 1 else "configurations"
        texts.append(f"left out: {profile.left_out} {noun}, disturbed all the time")
    if profile.replicas.max() == 1:
        texts.append("no configuration of several replicas is left: what they cost is not known")
    if not fit.held_out:
        texts.append("too few configurations to hold any out")
    return texts
