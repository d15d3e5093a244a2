"""Names for the array types that the package uses."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Ints32 = npt.NDArray[np.int32]
Words64 = npt.NDArray[np.uint64]
Bools = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
