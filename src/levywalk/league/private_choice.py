"""Which walk and update to take under privacy.

Every update of a node is a release of its data with noise, and the noise that a budget asks for
grows with the number of releases of the node that makes the most. So a walk that visits all nodes
equally often needs the least noise. SAGA subtracts a gradient that the node has released before,
with the noise of that release, so its updates have more noise than those of SGD; what it removes,
the noise of sampling, is small beside it. docs/privacy.md has what was measured.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from levywalk.errors import InvalidParameter
from levywalk.league.pilot import pilot
from levywalk.league.recommendation import Recommendation
from levywalk.network import Network
from levywalk.problem import Problem
from levywalk.updates import Update
from levywalk.updates.saga import saga
from levywalk.updates.sgd import sgd
from levywalk.walks import Walk
from levywalk.walks.designs import unif_rw
from levywalk.walks.mhda import mhda

# Of those whose law is uniform, so that SGD needs no weights that depend on the data.
PRIVATE_WALKS: dict[str, Callable[[], Walk]] = {"unif_rw": unif_rw, "mhda": mhda}
PRIVATE_UPDATES: dict[str, Callable[[], Update]] = {"sgd": sgd, "saga": saga}


def private_choice(
    network: Network, problem: Problem, allowed: Sequence[str], seed: int
) -> Recommendation:
    """Return the walk whose most visited node is visited least often, and SGD.

    Parameters
    ----------
    problem
        With the scores that may be used.
    allowed
        Names of walks and updates; if no walk (or no update) is named, all are allowed.

    Examples
    --------
    >>> import levywalk as lw
    >>> private_choice(lw.ring(30), lw.homogeneous(30), (), 0).pair
    'mhda+sgd'
    """
    unknown = [name for name in allowed if name not in {*PRIVATE_WALKS, *PRIVATE_UPDATES}]
    if unknown:
        raise InvalidParameter(
            f"allow must name walks ({', '.join(PRIVATE_WALKS)}) or updates "
            f"({', '.join(PRIVATE_UPDATES)}) under privacy, got {unknown[0]!r}: others reveal more "
            "than gradients, or visit some nodes more often than others"
        )
    walks = [name for name in PRIVATE_WALKS if name in allowed] or list(PRIVATE_WALKS)
    updates = [name for name in PRIVATE_UPDATES if name in allowed] or list(PRIVATE_UPDATES)
    most = {name: pilot(network, PRIVATE_WALKS[name](), seed).most_visits for name in walks}
    walk = min(walks, key=lambda name: most[name])
    design, update = PRIVATE_WALKS[walk](), PRIVATE_UPDATES[updates[0]]()
    largest = design.phases[0].bind(network, problem).largest
    shown = ", ".join(f"{name} {most[name]:.2f}" for name in walks)
    why = (
        f"Under privacy the noise grows with the updates of the node that makes the most, and "
        f"{walk} visits the nodes most evenly: in a pilot the visits of the most visited node, as "
        f"a multiple of the mean, were: {shown}. "
        + (
            "SGD adds less noise to the model than updates that remember noisy gradients. "
            if update.name == "sgd"
            else ""
        )
        + "The step size is the one without noise; the larger the noise, the smaller a step size "
        "is best: try some with levywalk privacy."
    )
    return Recommendation(
        design, update, update.default_step_size(largest, problem), why, math.nan, {}, walk
    )
