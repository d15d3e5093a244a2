"""One BLAS thread where more do not help.

The dense matrices of theory have at most a few thousand rows, and its iterations multiply tall
blocks of a few columns. More threads gain little there, and on a busy machine they wait for each
other in loops that use the processor.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

import scipy.linalg  # noqa: F401 - its BLAS must be loaded before it can be found

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")


@cache
def _controller() -> Any:
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def one_blas_thread(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Let a function use one BLAS thread; the number of before is restored when it ends.

    Examples
    --------
    >>> @one_blas_thread
    ... def largest_number_of_threads():
    ...     found = [one for one in _controller().info() if one["user_api"] == "blas"]
    ...     return max(library["num_threads"] for library in found)
    >>> largest_number_of_threads()
    1
    """

    @wraps(function)
    def limited(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        with _controller().limit(limits=1, user_api="blas"):
            return function(*args, **kwargs)

    return limited
