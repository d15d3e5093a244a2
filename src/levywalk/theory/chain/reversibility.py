"""Whether a chain is reversible, and by how much detailed balance is violated."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.theory.chain.stationary import given_or_solved
from levywalk.theory.chain.stochastic_matrix import REVERSIBLE, as_chain, reversible


def is_reversible(P: Any, tol: float = REVERSIBLE, *, stationary: Any = None) -> bool:
    """Return whether detailed balance π(v)P(v,u) = π(u)P(u,v) holds up to a relative error of
    ``tol``.

    Metropolis-Hastings chains are reversible. P_MHLJ is not reversible if the L_v differ. For an
    operator, whose entries are not known, random flows are compared.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(5), lw.heterogeneous(5, important=1)
    >>> lw.is_reversible(lw.transition(network, problem, lw.weight_rw()))
    True
    >>> lw.is_reversible(lw.transition(network, problem, lw.mhlj()))
    False
    """
    tol = checks.positive("tol", tol)
    chain = as_chain(P)
    return reversible(chain, given_or_solved(chain, stationary), tol)


def detailed_balance_violation(P: Any, *, stationary: Any = None) -> float:
    """Return ½ Σ |π(v)P(v,u) - π(u)P(u,v)|, the total by which detailed balance is violated.

    It is 0 for a reversible chain and 1 for a walk that never uses an edge in both directions.

    Examples
    --------
    >>> import numpy as np
    >>> round(detailed_balance_violation(np.roll(np.eye(3), 1, axis=1)), 12)
    1.0
    """
    chain = as_chain(P)
    if isinstance(chain, LinearOperator):
        raise InvalidParameter(
            "P must be a matrix, because its entries are compared, and it is an operator; use "
            "form='matrix'"
        )
    flow = sparse.diags_array(given_or_solved(chain, stationary)) @ chain
    return float(np.abs(sparse.csr_array(flow - flow.T).data).sum() / 2.0)
