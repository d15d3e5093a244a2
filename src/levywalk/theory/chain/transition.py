"""The transition matrix P of a design, by linear algebra alone; tests compare rules and kernels
with it.
"""

from __future__ import annotations

from typing import Any, Literal, overload

import numpy as np
from scipy import sparse

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.contracts import APART_WALK, keeps, shortcut
from levywalk.errors import InvalidParameter, TooLarge
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.theory.chain.operators import IndependentDraws, JumpOperator, MatrixOperator
from levywalk.theory.chain.sparse_factors import mostly_full
from levywalk.theory.chain.stochastic_complement import StochasticComplement, simulate
from levywalk.theory.chain.stochastic_matrix import SMALL, as_matrix
from levywalk.walks import (
    BoundWalk,
    Design,
    JumpLaw,
    PrintedJumps,
    Walk,
    check_fit,
    distance_law,
    is_plain_design,
    nodes_with_data,
)

_MOST_ENTRIES = 200_000_000  # of a sparse matrix; each takes 12 bytes
_SMALL_ENTRIES = SMALL * SMALL  # of a matrix of which several copies may be made
_THIN_ROW = 64.0  # entries per row up to which a larger matrix is made, as on a ring or a grid
_SAMPLE = 256  # nodes whose neighbourhoods predict the number of entries of powers

FORMS = ("matrix", "operator")
LEVY = ("algorithm", "printed")


@overload
def transition(
    network: Network,
    problem: Problem,
    design: Design | Any,
    form: Literal["matrix"] = "matrix",
    *,
    levy: str = "algorithm",
    step: int = 0,
) -> sparse.csr_array: ...
@overload
def transition(
    network: Network,
    problem: Problem,
    design: Design | Any,
    form: str,
    *,
    levy: str = "algorithm",
    step: int = 0,
) -> Any: ...
def transition(
    network: Network,
    problem: Problem,
    design: Design | Any,
    form: str = "matrix",
    *,
    levy: str = "algorithm",
    step: int = 0,
) -> Any:
    r"""Return P(v, u), the probability that the model moves from v to u between two updates.

    .. math:: P = (1-p_J) P_{MH} + p_J \sum_{i=1}^r q_i (D^{-1}A)^i

    Here q is the law of the jump's distance, and (D⁻¹A)ⁱ are the i moves to uniform neighbours of
    Algorithm [alg:jump]. If some nodes have no data, the rows and columns are the nodes with data,
    in the order of ``problem.holders``, and P is the chain of the moves between them
    (`levywalk.theory.chain.stochastic_complement`).

    Parameters
    ----------
    network, problem, design
        As for `levywalk.run`. A switching design has one matrix per phase: give its ``first`` or
        ``then``. Any other walk must have a chain on the nodes, see `node_chain`.
    form
        "matrix": a csr_array. "operator": a LinearOperator with matvec, rmatvec and matmat, which
        needs memory in proportion to nodes and edges. Use it for long jumps, and for i.i.d.
        sampling, whose matrix is full.
    levy
        "algorithm": (D⁻¹A)ⁱ, as in Algorithm [alg:jump]. "printed": diag(Aⁱ1)⁻¹Aⁱ, the paper's
        formula, which gives equal weight to all walks of i moves. Both agree on regular networks
        only.
    step
        The step whose matrix is returned, if p_jump changes with the step.

    Returns
    -------
    csr_array or LinearOperator

    Raises
    ------
    TooLarge
        The matrix would have more than 2·10⁸ entries.

    Examples
    --------
    >>> import levywalk as lw
    >>> network, problem = lw.ring(5), lw.heterogeneous(5, important=1)
    >>> lw.transition(network, problem, lw.mhlj()).sum(axis=1)
    array([1., 1., 1., 1., 1.])
    >>> lw.transition(network, problem, lw.mhlj(), form="operator").shape
    (5, 5)
    """
    step = checks.integer("step", step, low=0)
    operator = checks.choice("form", form, FORMS) == "operator"
    checks.choice("levy", levy, LEVY)
    if isinstance(design, PrintedJumps) and keeps(
        design, PrintedJumps, "decide", "_hop", "bind", "schedules", "as_algorithm"
    ):
        design, levy = design.as_algorithm(), "printed"
    if not is_plain_design(design):
        own = node_chain(network, problem, design)
        holders = nodes_with_data(network, problem)
        if holders is not None:
            own = StochasticComplement(own, holders).matrix()
        return MatrixOperator(own, None) if operator else own
    bound = design.bind(network, problem)
    if design.moves == "iid":
        return IndependentDraws(bound.law) if operator else _full(bound.law)
    if bound.holders is not None:
        complement = StochasticComplement(chain_of_moves(bound, levy, step), bound.holders).matrix()
        return MatrixOperator(complement, None) if operator else complement
    p_jump = 0.0 if design.jump is None else float(design.jump.p_jump_at(step, step + 1)[0])
    if operator and design.jump is not None and p_jump > 0.0:
        mh = metropolis_hastings_matrix(network, bound.law)
        adjacency, printed = adjacency_matrix(network), levy == "printed"
        return JumpOperator(network, adjacency, mh, p_jump, design.jump, printed=printed)
    matrix = chain_of_moves(bound, levy, step)
    return MatrixOperator(matrix, bound.law) if operator else matrix


def chain_of_moves(bound: BoundWalk, levy: str = "algorithm", step: int = 0) -> sparse.csr_array:
    """Return the chain of a walk's moves over all nodes of the network, idle ones too.

    If all nodes have data, this is `transition`.
    """
    mh = metropolis_hastings_matrix(bound.network, bound.walk_law)
    p_jump = 0.0 if bound.jump is None else float(bound.jump.p_jump_at(step, step + 1)[0])
    if bound.jump is None or p_jump == 0.0:
        return mh
    if bound.holders is not None:
        hops = len(distance_law(bound.jump))
        most = _most_entries(bound.network)
        if predicted_entries(bound.network, hops, most) > most:
            raise TooLarge(
                f"jumps of up to {hops} hops on {bound.network.n} nodes, some without data, need a "
                f"matrix that is too large for theory; {simulate()}"
            )
    jumps = levy_matrix(bound.network, bound.jump, levy)
    return sparse.csr_array((1.0 - p_jump) * mh + p_jump * jumps)


def _most_entries(network: Network) -> float:
    """Return how many entries a matrix may have of which several copies are made."""
    return max(float(_SMALL_ENTRIES), _THIN_ROW * network.n)


def affordable_chain(network: Network, problem: Problem, design: Design | Any) -> Any:
    """Return `transition` as a matrix if it has few entries, else as an operator.

    The rule looks at the predicted number of entries only. On networks without small separators a
    few hops reach most nodes, so the matrix of jumps is nearly full. Independent draws always have
    a full matrix. Where the network itself is nearly full, its matrices are too, and a few thousand
    nodes are solved exactly.

    Examples
    --------
    >>> import levywalk as lw
    >>> type(affordable_chain(lw.ring(5000), lw.homogeneous(5000), lw.mhlj())).__name__
    'csr_array'
    >>> type(affordable_chain(lw.star(5000), lw.homogeneous(5000), lw.mhlj())).__name__
    'JumpOperator'
    """
    n = network.n
    form = "matrix"
    if is_plain_design(design) and n > SMALL:
        if design.moves == "iid":
            form = "operator"
        elif nodes_with_data(network, problem) is not None:
            form = "matrix"  # or refused, if it is too large
        elif design.jump is not None and not mostly_full(adjacency_matrix(network)):
            most = _most_entries(network)
            hops = len(distance_law(design.jump))
            form = "operator" if predicted_entries(network, hops, most) > most else "matrix"
    return transition(network, problem, design, form)


def require_design(network: Network, problem: Problem, design: Any) -> Design:
    """Return the design if it is a Design, with the target and weights that the theorems need."""
    if is_plain_design(design):
        found: Design = design
        return found
    node_chain(network, problem, design)
    raise InvalidParameter(
        "design must be a Design with a target and weights, such as lw.mhlj(), got the walk "
        f"{_name(design)}; its "
        "chain can be given to lw.stationary and lw.spectral_gap through lw.transition"
    )


def node_chain(network: Network, problem: Problem, walk: Any) -> sparse.csr_array:
    """Ask a walk that is not a Design for its chain on the nodes; theory asks nowhere else.

    Parameters
    ----------
    network, problem
        What the walk is bound to.
    walk
        An object with ``chain(network, problem)``. It returns a matrix over the nodes, or None if
        the walk is not a Markov chain on the nodes.

    Raises
    ------
    InvalidParameter
        The walk has no chain, has two chains (a switching design), or has a chain on other states.

    Examples
    --------
    >>> import levywalk as lw
    >>> class Sweep:
    ...     name = "sweep"
    ...     def chain(self, network, problem):
    ...         return np.roll(np.eye(network.n), 1, axis=1)
    >>> node_chain(lw.ring(3), lw.homogeneous(3), Sweep()).toarray()
    array([[0., 1., 0.],
           [0., 0., 1.],
           [1., 0., 0.]])
    """
    if isinstance(walk, tuple) and len(walk) == 2 and isinstance(walk[0], Walk):
        update = getattr(walk[1], "name", walk[1])
        raise InvalidParameter(
            f"design must be a walk alone, got one with the update {update}: theory predicts plain "
            "SGD and has no answer for another update; judge the walk, and simulate the pair with "
            "lw.run or lw.compare"
        )
    ask = getattr(walk, "chain", None)
    if (isinstance(walk, Walk) and len(walk.phases) > 1) or not callable(ask):
        raise InvalidParameter(
            "design must be a Design, or another walk with one chain, such as lw.mhlj(), got "
            f"{walk!r}; give a switching design's .first or .then"
        )
    check_fit(network, problem)
    if _has_chain(walk):
        ask = shortcut(walk, "chain", *APART_WALK)
        if ask is None:
            raise InvalidParameter(
                f"theory needs the walk's chain; {_name(walk)} inherits one of a class whose "
                "decisions it overrides: give the class a chain of its own, or simulate it with "
                "lw.walk or lw.run"
            )
    found = ask(network, problem)
    if found is None:
        raise InvalidParameter(
            f"theory needs the walk's chain; {_name(walk)} has none (Walk.chain returned None): "
            "simulate it with lw.walk or lw.run"
        )
    states = np.shape(found)[0] if np.shape(found) else 0
    if states != network.n:
        raise InvalidParameter(
            f"design {_name(walk)} has a chain of {states} states, not one per node "
            f"({network.n} nodes); give the chain itself to lw.stationary or lw.spectral_gap"
        )
    return as_matrix(found)


def _has_chain(walk: Any) -> bool:
    """Return whether the class of a walk has a chain, and not only the default, which is None."""
    replaced = "chain" in getattr(walk, "__dict__", {})
    return isinstance(walk, Walk) and not replaced and type(walk).chain is not Walk.chain


def _name(walk: Any) -> str:
    return str(getattr(walk, "name", type(walk).__name__))


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
    v = np.repeat(np.arange(n, dtype=np.int32), np.diff(network.indptr))
    u = network.indices
    degree = network.degree.astype(np.float64)
    other = v != u
    v, u = v[other], u[other]
    rate = np.minimum(1.0 / degree[v], law[u] / (degree[u] * law[v]))
    stay = 1.0 - np.bincount(v, weights=rate, minlength=n)
    nodes = np.arange(n, dtype=np.int32)
    rows, columns = np.concatenate([v, nodes]), np.concatenate([u, nodes])
    return sparse.csr_array(
        (np.concatenate([rate, np.maximum(stay, 0.0)]), (rows, columns)), shape=(n, n)
    )


def levy_matrix(network: Network, jump: JumpLaw, levy: str = "algorithm") -> sparse.csr_array:
    """Build Σ qᵢ (D⁻¹A)ⁱ, whose row v is the law of the end of a jump from v.

    ``levy="printed"`` builds the paper's Σ qᵢ diag(Aⁱ1)⁻¹Aⁱ instead.

    Examples
    --------
    >>> import levywalk as lw
    >>> levy_matrix(lw.ring(5), lw.JumpLaw(0.1, lw.FixedDistance(2))).toarray()[0]
    array([0.5 , 0.  , 0.25, 0.25, 0.  ])
    """
    n = network.n
    distance = distance_law(jump)
    _require_affordable(network, len(distance))
    total = sparse.csr_array((n, n))
    if checks.choice("levy", levy, LEVY) == "algorithm":
        hop = sparse.csr_array(sparse.diags_array(1.0 / network.degree) @ adjacency_matrix(network))
        if mostly_full(hop):  # products of full matrices are much faster
            return sparse.csr_array(_dense_powers(hop.toarray(), distance))
        identity = sparse.eye_array(n, format="csr")
        for probability in distance[::-1]:  # Horner's scheme: W (q₁ I + W (q₂ I + …))
            total = sparse.csr_array(hop @ (probability * identity + total))
        return total
    adjacency = adjacency_matrix(network)
    power = sparse.eye_array(n, format="csr")
    for (
        probability
    ) in distance:  # rows are scaled at every power, because only their proportions matter
        power = power @ adjacency
        power = sparse.csr_array(sparse.diags_array(1.0 / power.sum(axis=1)) @ power)
        total = sparse.csr_array(total + probability * power)
    return total


def _dense_powers(hop: Floats, distance: Any) -> Floats:
    total = np.asarray(distance[-1] * hop)
    for probability in distance[-2::-1]:  # Horner's scheme
        total.flat[:: len(hop) + 1] += probability
        total = hop @ total
    return total


def adjacency_matrix(network: Network) -> sparse.csr_array:
    """Return the adjacency matrix; it has self-loops if the network counts them."""
    parts = (np.ones(network.indices.size), network.indices, network.indptr.astype(np.int32))
    return sparse.csr_array(parts, shape=(network.n, network.n))


def _require_affordable(network: Network, hops: int) -> None:
    """Refuse powers with too many entries."""
    if predicted_entries(network, hops, _MOST_ENTRIES) > _MOST_ENTRIES:
        raise TooLarge(
            f"a matrix of jumps of up to {hops} hops on {network.n} nodes would hold more than "
            f"{_MOST_ENTRIES:.0e} entries (nothing was allocated); use form='operator'"
        )


def predicted_entries(network: Network, hops: int, most: float) -> float:
    """Return how many entries the powers of the adjacency matrix up to ``hops`` have together.

    The number is estimated from the neighbourhoods of some nodes. It is only a lower bound if it
    exceeds ``most``, and n² if that does not.
    """
    n = network.n
    if n * n <= most:
        return float(n * n)
    some = np.unique(np.linspace(0, n - 1, _SAMPLE).astype(np.int64))
    adjacency = adjacency_matrix(network)
    reached = sparse.csr_array(
        (np.ones(len(some)), (np.arange(len(some)), some)), shape=(len(some), n)
    )
    for _ in range(hops):
        before = reached.nnz
        reached = sparse.csr_array(reached + reached @ adjacency)
        reached.data[:] = 1.0
        if reached.nnz == before or reached.nnz / len(some) * n > most:
            break
    return float(reached.nnz / len(some) * n)


def _full(law: Floats) -> sparse.csr_array:
    n = len(law)
    if n * n > _MOST_ENTRIES // 4:
        raise TooLarge(
            f"design draws nodes independently, so its matrix is full: {n} nodes need {n * n:.1e} "
            "entries; use form='operator'"
        )
    return sparse.csr_array(np.tile(law, (n, 1)))
