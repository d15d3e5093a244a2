"""A short hash that identifies a problem made of samples and a loss."""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.problem.losses import LogisticLoss, SquaredError
from levywalk.problem.sparse_features import is_sparse

if TYPE_CHECKING:
    from levywalk.problem.linear import GeneralizedLinear


def fingerprint_of(problem: GeneralizedLinear) -> str:
    """Return 16 hexadecimal digits that identify the loss, the penalties, the samples and their
    nodes.

    Examples
    --------
    >>> import levywalk as lw
    >>> one, other = (lw.LeastSquares([[1.0], [2.0]], [1.0, 0.0], l1=l1) for l1 in (0.0, 0.1))
    >>> fingerprint_of(one) == fingerprint_of(other)
    False
    """
    loss, holders = problem.sample_loss, problem.holders
    digest = hashlib.sha256(
        f"{problem.kind} {problem.n} {problem.dim} {problem.n_samples} {problem.ridge!r}".encode()
    )
    features: Any = problem.sorted_features
    entries = (
        (features.data, features.indices, features.indptr) if is_sparse(features) else (features,)
    )
    for array in (*entries, problem.sorted_targets, problem.offsets):
        digest.update(array.data)
    if holders is not None and int(holders[-1]) >= problem.n:  # some numbers are missing
        digest.update(b"holders")
        digest.update(holders.data)
    if problem.l1:
        digest.update(f"l1 {problem.l1!r}".encode())
    if problem.dtype != np.float64:
        digest.update(problem.dtype.name.encode())
    if type(loss).__module__.partition(".")[0] == "levywalk":
        if type(loss) not in (SquaredError, LogisticLoss):  # which have no numbers
            digest.update(repr(loss).encode())
    elif loss.n_outputs == 1:  # a user's own loss is identified by its slopes
        z = np.asarray(features[:64].sum(axis=1)).ravel()
        digest.update(np.ascontiguousarray(loss.slope(z, problem.sorted_targets[:64])).data)
    return digest.hexdigest()[:16]
