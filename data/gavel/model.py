r"""Model of Gavel's throughputs with shipped parameters, fitted to its table.

On type *w*, *K* replicas of family *f* with *B* examples each, consolidated or not (*c*), make

.. math:: K / (\alpha_{fw} + \beta_{fw} B + \sigma_{fwcK})                                   (1)

steps per second: a step computes, and with several replicas averages gradients. Beside family *g*
with *B'* examples on the same GPU that becomes slower by a factor of

.. math:: 1 + \delta_{fgw} (B / B_f)^{x_{fw}} (B' / B_g)^{y_{gw}},                           (2)

where :math:`B_f` is the geometric mean of the least and the largest batch size of a family. It
takes :math:`m = \mu_{fw} + \nu_{fw} B` of a GPU's memory. Alone it runs if

.. math:: m (1 + 0.2 [K > 1]) \le 1,                                                         (3)

and two share a GPU if :math:`m + m' \le 1`. Two of several replicas each never do: in the table
they have no rate. The form of (1) to (3) is our reading; that averaging gradients takes a fifth
more memory is assumed, for one configuration that runs on one K80 and not on two.

**Errors** (stated in the document, by `data/derivation/fit_gavel_rates.py`; relative, of rates):
alone, 108 parameters for 411 measurements, the median is 4.8 %, nine of ten are within 24 %, the
worst is off by 77 %; for batch sizes held out 7.6 %, 43 % and 212 %. Slow-downs in pairs, 177
parameters for 1,880: 4.8 %, 17 % and 426 %; held out 5.5 %, 19 % and 425 %. Whether two fit on a
GPU is said wrongly of 8 in 1,053 pairs. Worst are those that no smooth curve follows: on V100s four
replicas of a language model make fewer steps than two, on a K80 ResNet-18 makes fewer with 16
examples than with 32, and on V100s it keeps all of its rate beside Recommendation with 4,096
examples and a third beside 8,192. The order of the types is kept for 70 of 80 configurations and
numbers of replicas.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np

from goodalloc.data.documents.json_file import as_float, check_keys, check_list, shown
from goodalloc.data.documents.shipped import parse_document, read_shipped
from goodalloc.data.gavel.rates import REPLICAS, TYPES, read_gavel_rates
from goodalloc.models.gavel.rate_table import Configuration, RateTable
from goodalloc.models.support.validation import require_count, require_number

if TYPE_CHECKING:
    import os
    from collections.abc import Mapping, Sequence

    from goodalloc.models.support.array_types import Floats


FORMAT, VERSION = "goodalloc-gavel-rates", 1

#: Where the parameters ship.
SHIPPED = "gavel_rates.json"

#: What averaging gradients takes of memory, relative to training alone.
AVERAGING_MEMORY = 0.2

#: Parameters of a family on a type; those of the second row may be below 0.
_POSITIVE = ("compute_fixed", "compute_per_example", "memory_fixed", "memory_per_example")
_POWERS = ("own_power", "other_power")
_LISTS = ("averaging_consolidated", "averaging_apart")


def parse_gavel_rates(text: str) -> RateTable:
    """Return the rates of a document of parameters.

    Parameters
    ----------
    text
        JSON in the format of `profiles/README.md`.

    Raises
    ------
    ValueError
        If the format or version differs, a field is missing, or a number is out of range.
    """
    document = parse_document(text, FORMAT, VERSION)
    check_keys("Rates", document, ("format", "version", "source", "errors", "families", "types"))
    families = document["families"]
    if not isinstance(families, dict) or not families:
        raise ValueError(f"Rates: families is {shown(families)}; expected an object of families.")
    for name, family in families.items():
        _check_family(f"Rates: family '{name}'", family)
    types = check_keys("Rates: types", document["types"], TYPES)
    for kind in TYPES:
        check_keys(f"Rates: type '{kind}'", types[kind], families)
        for name in families:
            item = f"Rates: '{name}' on {kind}"
            _check_parameters(item, types[kind][name], families, families[name])
    return model_rates(families, types)


def gavel_rates(folder: str | os.PathLike[str] | None) -> RateTable:
    """Return the rates of the published table in a folder, or the shipped ones without a folder.

    Raises
    ------
    ValueError
        If the folder does not hold the table.

    Examples
    --------
    >>> from goodalloc.data.gavel import gavel_rates
    >>> gavel_rates(None).types
    ('v100', 'p100', 'k80')
    """
    return shipped_gavel_rates() if folder is None else read_gavel_rates(folder)


@lru_cache(maxsize=1)
def shipped_gavel_rates() -> RateTable:
    """Return the rates by the shipped parameters, read once."""
    return parse_gavel_rates(read_shipped(SHIPPED))


def model_rates(families: Mapping[str, Any], types: Mapping[str, Any]) -> RateTable:
    """Return the rates (1) to (3) of every configuration.

    Parameters
    ----------
    families
        By name, `batch_sizes` and numbers of `replicas`.
    types
        By type and family, the parameters.
    """
    configurations = tuple(
        Configuration(name, size)
        for name in sorted(families)
        for size in families[name]["batch_sizes"]
    )
    many = len(configurations)
    alone = np.zeros((many, len(REPLICAS), len(TYPES), 2))
    paired = np.zeros((many, many, len(REPLICAS), len(TYPES)))
    sizes = relative_sizes(configurations)
    for kind, type_name in enumerate(TYPES):
        mine = [types[type_name][family] for family, _ in configurations]
        memory = np.array(
            [_line(a, "memory", c.batch_size) for a, c in zip(mine, configurations, strict=True)]
        )
        for index, configuration in enumerate(configurations):
            several = len(families[configuration.family]["replicas"])
            alone[index, :several, kind] = _alone(
                mine[index], configuration.batch_size, memory[index]
            )
        stretch = np.array([[a["beside"][family] for family, _ in configurations] for a in mine])
        own = sizes ** np.array([a["own_power"] for a in mine])
        other = sizes ** np.array([a["other_power"] for a in mine])
        slower = 1 + stretch * np.outer(own, other)
        fits = np.add.outer(memory, memory) <= 1
        paired[:, :, 0, kind] = np.where(fits, alone[:, :1, kind, 0] / slower, 0.0)
    return RateTable(TYPES, configurations, REPLICAS, alone, paired)


def _line(parameters: Mapping[str, Any], item: str, batch_size: int) -> float:
    """Return a fixed part plus a part for every example."""
    return float(parameters[f"{item}_fixed"] + parameters[f"{item}_per_example"] * batch_size)


def _alone(parameters: Mapping[str, Any], batch_size: int, memory: float) -> Floats:
    """Return steps per second alone by (1), 0 where (3) forbids; shape (numbers of replicas, 2)."""
    averaging = np.array([[0.0, *parameters[key]] for key in _LISTS]).T
    seconds = _line(parameters, "compute", batch_size) + averaging
    replicas = np.array(REPLICAS[: len(averaging)])[:, None]
    needs = memory * np.where(replicas > 1, 1 + AVERAGING_MEMORY, 1.0)
    rates: Floats = np.where(needs <= 1, replicas / seconds, 0.0)
    return rates


def relative_sizes(configurations: Sequence[Configuration]) -> Floats:
    """Return B over the geometric mean of its family's extremes; 1 for a single batch size.

    Examples
    --------
    >>> from goodalloc.data.gavel import relative_sizes
    >>> from goodalloc.models.gavel import Configuration
    >>> relative_sizes([Configuration("net", 16), Configuration("net", 64)]).tolist()
    [0.5, 2.0]
    """
    sizes = np.array([max(configuration.batch_size, 1) for configuration in configurations], float)
    families = np.array([configuration.family for configuration in configurations])
    centre = np.ones_like(sizes)
    for family in set(families.tolist()):
        its = families == family
        centre[its] = np.sqrt(sizes[its].min() * sizes[its].max())
    relative: Floats = sizes / centre
    return relative


def _check_family(item: str, family: object) -> None:
    """Refuse a family without batch sizes, or with numbers of replicas not in the table."""
    found = check_keys(item, family, ("batch_sizes", "replicas"))
    sizes = check_list(f"{item}: batch_sizes", found["batch_sizes"])
    for size in sizes:
        require_count(f"{item}: batch size", size, minimum=0)
    if not sizes or sorted(set(sizes)) != sizes:
        raise ValueError(f"{item}: batch_sizes is {shown(sizes)}; expected a rise.")
    replicas = found["replicas"]
    if replicas not in (list(REPLICAS), list(REPLICAS[:1])):
        raise ValueError(f"{item}: replicas is {shown(replicas)}; expected [1, 2, 4, 8] or [1].")


def _check_parameters(
    item: str, value: object, families: Mapping[str, Any], family: Mapping[str, Any]
) -> None:
    """Refuse parameters of a family on a type that are missing or out of range."""
    found = check_keys(item, value, (*_POSITIVE, *_POWERS, *_LISTS, "beside"))
    for key in _POSITIVE:
        require_number(f"{item}: {key}", as_float(found[key]), minimum=0.0)
    for key in _POWERS:
        require_number(f"{item}: {key}", as_float(found[key]))
    if not found["compute_fixed"] + found["compute_per_example"] * family["batch_sizes"][0] > 0:
        raise ValueError(f"{item}: a step computes for 0 s; expected more.")
    for key in _LISTS:
        seconds = check_list(f"{item}: {key}", found[key])
        if len(seconds) != len(family["replicas"]) - 1:
            expected = f"{len(family['replicas']) - 1}, one a number of replicas above 1"
            raise ValueError(f"{item}: {key} has {len(seconds)} entries; expected {expected}.")
        for second in seconds:
            require_number(f"{item}: {key}", as_float(second), minimum=0.0)
    beside = check_keys(f"{item}: beside", found["beside"], families)
    for name in families:
        require_number(f"{item}: beside '{name}'", as_float(beside[name]), minimum=0.0)
