"""Array types of annotations; jaxtyping adds the shape, as in `Float[Floats, "jobs types"]`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import jax

#: Array of float64.
Floats: TypeAlias = NDArray[np.float64]

#: Array of int64: indices, or counts.
Indices: TypeAlias = NDArray[np.int64]

#: Array of booleans.
Flags: TypeAlias = NDArray[np.bool_]

#: Array of either library, of any type of number; jax is imported by type checkers only.
Array: TypeAlias = "NDArray[Any] | jax.Array"

#: Argument of a formula that serves single numbers and arrays alike.
Numbers: TypeAlias = "NDArray[Any] | jax.Array | float"
