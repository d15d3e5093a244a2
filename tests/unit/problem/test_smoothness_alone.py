"""A node that has its own samples alone must find the same L_v, to the bit, as whoever has all of
them.
"""

from __future__ import annotations

import numpy as np
import pytest

from levywalk.problem.spectra import row_squares


@pytest.mark.parametrize("dim", [1, 7, 10, 1000, 8192, 8193, 20_000])
def test_the_square_of_a_row_does_not_depend_on_the_rows_around_it(dim: int) -> None:
    features = np.random.default_rng(dim).normal(size=(9, dim))
    together = row_squares(features)
    alone = [row_squares(features[v : v + 1].copy())[0] for v in range(9)]
    np.testing.assert_array_equal(together, alone)
    np.testing.assert_allclose(together, np.square(features).sum(axis=1), rtol=1e-12)
