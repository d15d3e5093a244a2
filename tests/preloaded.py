"""What other libraries load only when they are first used: half of the time of a short command.

The server of `tests.forked` imports this module, so that its forks find all that loaded.
Modules of the package are not used here: a command loads them itself, as it does for a user.
"""

from __future__ import annotations

import tomllib  # noqa: F401
from io import BytesIO

import cffi  # noqa: F401
import numpy as np
import rich.console
import threadpoolctl  # noqa: F401
from matplotlib.figure import Figure
from numba import njit
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, model_validator  # noqa: F401


class _Settings(BaseModel):
    value: int = 0


rich.console.Console(file=None)
_Settings(value=1)
njit(lambda row: row[0] + 1.0)(np.zeros(1))
figure = Figure(layout="constrained")
axes = figure.subplots()
axes.loglog([1.0, 10.0], [1.0, 10.0])
axes.set_title("‖x‖² and $x^{2}$")
for kind in ("png", "svg"):
    figure.savefig(BytesIO(), format=kind)
