"""Libraries that only some uses need: each is an extra of the distribution."""

from __future__ import annotations

import importlib.util

#: Extra to the modules that it brings.
MODULES = {
    "dask": ("distributed",),
    "measure": ("torch",),
    "parquet": ("pyarrow",),
    "predict": ("sklearn",),
    "ray": ("ray",),
    "scip": ("pyscipopt",),
    "search": ("optuna", "sklearn"),
}


def require_extra(extra: str, item: str) -> None:
    """Refuse an item, before any time is spent on it, where its extra is not installed.

    Raises
    ------
    ValueError
        If it is not; the sentence says what to install.
    """
    for module in MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise ValueError(
                f"{item} needs the module {module}, which is not installed; "
                f"expected an environment with 'goodalloc[{extra}]'."
            )
