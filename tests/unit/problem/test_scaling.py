"""Scales of features, against numpy and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import sparse

from levywalk.problem.scaling import divided, spreads


def test_spreads_of_sparse_features_are_those_of_the_dense_matrix() -> None:
    rows = sparse.random_array((50, 20), density=0.2, rng=np.random.default_rng(0), format="csr")
    whole = rows.toarray()
    whole[:, 3], whole[:, 4] = 0.0, 1e9 / 3.0  # constant: no spread but rounding
    whole[:, 5] = 7.0 + 1e-6 * np.arange(50)  # a spread that a difference of squares would lose
    expected = whole.std(axis=0)
    expected[[3, 4]] = 1.0
    for given in (whole, sparse.csr_array(whole)):
        assert spreads(given) == pytest.approx(expected, rel=1e-9)
    thin = divided(sparse.csr_array(whole), expected)
    assert thin.toarray() == pytest.approx(divided(whole, expected), rel=1e-15)
