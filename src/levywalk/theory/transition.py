"""The transition matrix P that a design induces, by linear algebra alone: the judge of rules and kernels."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.design import Design, JumpLaw
from levywalk.errors import InvalidParameter
from levywalk.network import Network
from levywalk.problem import Problem

_DENSE_LIMIT = 5_000  # i.i.d. sampling fills its matrix: 8 n² bytes


def transition(network: Network, problem: Problem, design: Design, *, step: int = 0) -> sparse.csr_array:
    r"""Return P(v, u), the probability that the model goes from v to u between two updates.

    .. math:: P = (1-p_J) P_{MH} + p_J \sum_{i=1}^r q_i (D^{-1}A)^i

    with q the law of the jump's distance; Algorithm [alg:jump]'s i uniform-neighbour moves are (D⁻¹A)ⁱ.

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`; a switching design has one matrix per phase: give its ``first`` or ``then``.
    step
        For a scheduled p_jump: the step whose matrix to return.

    Examples
    --------
    >>> import levywalk as lw
    >>> P = lw.transition(lw.ring(5), lw.homogeneous(5), lw.mhlj())
    >>> P.sum(axis=1)
    array([1., 1., 1., 1., 1.])
    """
    if not isinstance(design, Design):
        raise InvalidParameter(
            f"design must be a Design with one matrix, such as lw.mhlj(), got {design!r}; "
            "give a switching design's .first or .then"
        )
    step = checks.integer("step", step, low=0)
    law = design.bind(network, problem).law
    if design.moves == "iid":
        if network.n > _DENSE_LIMIT:
            raise InvalidParameter(f"design draws nodes i.i.d., so its matrix is full: {network.n} nodes are too many")
        return sparse.csr_array(np.tile(law, (network.n, 1)))
    matrix = metropolis_hastings_matrix(network, law)
    if design.jump is None:
        return matrix
    p_jump = float(design.jump.p_jump_at(step, step + 1)[0])
    return sparse.csr_array((1.0 - p_jump) * matrix + p_jump * levy_matrix(network, design.jump))


def metropolis_hastings_matrix(network: Network, law: Floats) -> sparse.csr_array:
    r"""Build the chain whose stationary law is ``law``; Eq. [impmh].

    .. math:: P(v,u) = \min\{1/\deg v,\ \pi_u / (\deg u\,\pi_v)\}, \quad u \ne v

    Examples
    --------
    >>> import levywalk as lw
    >>> P = metropolis_hastings_matrix(lw.ring(5), np.array([100, 1, 1, 1, 1]) / 104)
    >>> float(P[0, 1])
    0.005
    """
    n = network.n
    v = np.repeat(np.arange(n), np.diff(network.indptr))
    u = network.indices
    degree = network.degree.astype(np.float64)
    other = v != u
    v, u = v[other], u[other]
    rate = np.minimum(1.0 / degree[v], law[u] / (degree[u] * law[v]))
    stay = 1.0 - np.bincount(v, weights=rate, minlength=n)
    rows, columns = np.concatenate([v, np.arange(n)]), np.concatenate([u, np.arange(n)])
    return sparse.csr_array((np.concatenate([rate, np.maximum(stay, 0.0)]), (rows, columns)), shape=(n, n))


def levy_matrix(network: Network, jump: JumpLaw) -> sparse.csr_array:
    """Build Σ qᵢ (D⁻¹A)ⁱ, the law of where a jump ends.

    Examples
    --------
    >>> import levywalk as lw
    >>> levy_matrix(lw.ring(5), lw.JumpLaw(0.1, lw.FixedDistance(2))).toarray()[0]
    array([0.5 , 0.  , 0.25, 0.25, 0.  ])
    """
    n = network.n
    share = np.repeat(1.0 / network.degree, np.diff(network.indptr))
    hop = sparse.csr_array((share, network.indices, network.indptr), shape=(n, n))
    law = jump.distance.probabilities()
    identity = sparse.eye_array(n, format="csr")
    total = sparse.csr_array((n, n))
    for probability in law[::-1]:  # Horner's scheme: W (q₁ I + W (q₂ I + …))
        total = sparse.csr_array(hop @ (probability * identity + total))
    return total
