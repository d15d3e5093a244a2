"""Updates: what a visited node does with the model, independently of the walk."""

from __future__ import annotations

from typing import Any

from levywalk.errors import InvalidParameter
from levywalk.registry import from_dict
from levywalk.updates.adam import Adam, adam
from levywalk.updates.averaged import Averaged, averaged
from levywalk.updates.finito import Finito, finito
from levywalk.updates.heavy_ball import HeavyBall, heavy_ball
from levywalk.updates.newton_token import NewtonToken, newton_token
from levywalk.updates.point_saga import PointSaga, point_saga
from levywalk.updates.sag import Sag, sag
from levywalk.updates.saga import Saga, saga
from levywalk.updates.sgd import Sgd, sgd
from levywalk.updates.step_size import as_step_size
from levywalk.updates.update import LocalData, Update, check_update, threshold_steps
from levywalk.updates.walkman import Walkman, walkman

__all__ = [
    "Adam",
    "Averaged",
    "Finito",
    "HeavyBall",
    "LocalData",
    "NewtonToken",
    "PointSaga",
    "Sag",
    "Saga",
    "Sgd",
    "Update",
    "Walkman",
    "adam",
    "as_step_size",
    "as_update",
    "averaged",
    "check_update",
    "finito",
    "heavy_ball",
    "newton_token",
    "point_saga",
    "sag",
    "saga",
    "sgd",
    "threshold_steps",
    "walkman",
]


def as_update(value: Any) -> Update:
    """Return an update: None means plain SGD, and a text is a registered name.

    Examples
    --------
    >>> as_update(None), as_update("sgd")
    (Sgd(minibatch=None), Sgd(minibatch=None))
    """
    if value is None:
        return Sgd()
    if isinstance(value, str):
        made: Update = from_dict("update", {"kind": value})
        return made
    if not isinstance(value, Update):
        raise InvalidParameter(
            "update must be an Update such as lw.sgd() or lw.sgd(minibatch=8), or a registered "
            f"name, got {value!r}"
        )
    return value
