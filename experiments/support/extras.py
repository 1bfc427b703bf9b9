"""Optional dependencies, each an extra of the distribution."""

from __future__ import annotations

import importlib.util

#: Modules of each extra.
MODULES = {
    "dask": ("distributed",),
    "measure": ("torch",),
    "parquet": ("pyarrow",),
    "predict": ("sklearn",),
    "ray": ("ray",),
    "scip": ("pyscipopt",),
    "search": ("optuna", "sklearn"),
    "view": ("bokeh",),
}


def require_extra(extra: str, item: str) -> None:
    """Refuse an item whose extra is not installed.

    Raises
    ------
    ValueError
        If a module of `extra` is not installed; the sentence names the extra.
    """
    for module in MODULES[extra]:
        if importlib.util.find_spec(module) is None:
            raise ValueError(
                f"{item} needs the module {module}, which is not installed; "
                f"expected an environment with 'goodalloc[{extra}]' (in a clone: python -m pip "
                f"install -c constraints.txt -e '.[{extra}]')."
            )
