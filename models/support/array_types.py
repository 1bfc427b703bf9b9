"""Array types of annotations; jaxtyping adds the shape, as in `Float[Floats, "jobs types"]`."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Array of float64.
Floats: TypeAlias = NDArray[np.float64]

#: Array of int64: indices, or counts.
Indices: TypeAlias = NDArray[np.int64]

#: Array of booleans.
Flags: TypeAlias = NDArray[np.bool_]
