"""Step sizes: a number, "theory" or a schedule."""

from __future__ import annotations

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.schedule import Constant, Schedule, is_schedule


def as_step_size(value: object, default: float) -> Schedule:
    """Return a step size as a schedule.

    It is given as a number, "theory" (the update's own default, 1/L* for SGD) or a schedule.

    Examples
    --------
    >>> as_step_size("theory", default=0.25)
    Constant(value=0.25)
    """
    if is_schedule(value):
        return value
    if isinstance(value, str):
        if value == "theory":
            return Constant(default)
        raise InvalidParameter(
            f"step_size must be a number above 0, 'theory' or a schedule, got {value!r}"
        )
    return Constant(checks.positive("step_size", value))
