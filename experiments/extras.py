"""Libraries that only some uses need: each is an extra of the distribution."""

import importlib.util

#: Extra to the module that it brings.
MODULES = {"dask": "distributed", "parquet": "pyarrow", "ray": "ray"}


def require_extra(extra: str, item: str) -> None:
    """Refuse an item, before any time is spent on it, where its extra is not installed.

    Raises
    ------
    ValueError
        If it is not; the sentence says what to install.
    """
    if importlib.util.find_spec(MODULES[extra]) is None:
        raise ValueError(
            f"{item} needs the module {MODULES[extra]}, which is not installed; "
            f"expected an environment with 'goodalloc[{extra}]'."
        )
