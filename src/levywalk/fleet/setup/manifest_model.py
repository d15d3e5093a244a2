"""Read what a manifest says about the model and the problem: a loss of the package with a vector,
or the code of a user's own with named arrays.
"""

from __future__ import annotations

import numpy as np

from levywalk.arrays import Floats
from levywalk.errors import TooLarge
from levywalk.fleet.protocol.schema import DTYPES
from levywalk.fleet.setup.built import VECTOR, is_vector
from levywalk.fleet.setup.fields import Fields
from levywalk.fleet.setup.model_code import ModelCode
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.losses import Loss
from levywalk.problem.named import ModelArrays
from levywalk.remedy import python_or_command
from levywalk.room import require_bytes
from levywalk.updates import Update

_MOST_DIM = 1 << 27  # a model of 1 GiB
_COPIES = 4  # of a model at a node: held, guarded, arriving and being written
_MOST_AXES = 8
_LONGEST_NAME = 255  # of an array


def require_model_room(dim: int) -> None:
    """Refuse a model that nodes cannot keep: it is dense, also where the samples are sparse.

    Examples
    --------
    >>> require_model_room(1 << 28)
    Traceback (most recent call last):
    levywalk.errors.TooLarge: a model of 268435456 numbers is too large for real nodes, which keep
        it in full and send it ...
    """
    if dim > _MOST_DIM:
        raise TooLarge(
            f"a model of {dim} numbers is too large for real nodes, which keep it in full and send "
            f"it in every hand-off, at most {_MOST_DIM} numbers; select fewer features"
            f"{python_or_command('', ' with --features')}"
        )
    require_bytes(
        f"the {_COPIES} copies of a model of {dim} numbers that a node may hold at once",
        _COPIES * 8 * dim,
        f"select fewer features{python_or_command('', ' with --features')}",
    )


def read_problem(top: Fields) -> tuple[Fields, ModelCode | None]:
    """Return the table of the problem, and the code that builds it if it is a user's own."""
    given = top.values["problem"]
    if not isinstance(given, dict) or "code" not in given:
        return top.table("problem", needed=("loss", "ridge", "mean_smoothness")), None
    problem = top.table("problem", needed=("code", "mean_smoothness"))
    keys = ("file", "function", "sha256", "sample", "metrics")
    return problem, ModelCode.parsed(problem.table("code", needed=keys))


def read_named_model(top: Fields) -> tuple[int, int, None, ModelArrays | None, str]:
    """Return the arrays of a user's own model; None if it is one vector of float64."""
    model = top.table("model", needed=("arrays", "x0"))
    first = model.text("x0", most=64)
    if len(first) != 64 or set(first) - set("0123456789abcdef"):
        raise model.bad("x0", "64 hexadecimal digits, the hash of the first model")
    shapes: dict[str, tuple[int, ...]] = {}
    types: set[str] = set()
    for table in model.tables("arrays", needed=("name", "dtype", "shape")):
        name, shape = table.text("name", most=_LONGEST_NAME), table.values["shape"]
        types.add(table.choice("dtype", DTYPES))
        fine = isinstance(shape, list) and len(shape) <= _MOST_AXES
        if not fine or not all(type(one) is int and 1 <= one <= _MOST_DIM for one in shape):
            raise table.bad("shape", f"a list of at most {_MOST_AXES} lengths of at least 1")
        if name in shapes:
            raise table.bad("name", "different from the names of all other arrays")
        shapes[name] = tuple(shape)
    if not shapes:
        raise model.bad("arrays", "a list of at least one table")
    arrays, (dtype, *more) = ModelArrays(shapes), sorted(types)
    if arrays.dim > _MOST_DIM or more:
        raise model.bad("arrays", f"at most {_MOST_DIM} numbers in all, of one type")
    itemsize = 4 if dtype == "float32" else 8
    named = None if is_vector(arrays, itemsize) else arrays
    return arrays.dim, itemsize, None, named, first


def read_vector(top: Fields) -> tuple[int, int, Floats, ModelArrays | None, None]:
    """Return the size, the first model and the type of a loss of the package: one vector.

    A vector of float32 is written as a model of one array, of its type; one of float64 as it is.
    """
    model = top.table("model", needed=("dtype", "shape", "x0"))
    single = model.choice("dtype", DTYPES) == "float32"
    shape = model.values["shape"]
    if (
        not isinstance(shape, list)
        or len(shape) != 1
        or type(shape[0]) is not int
        or not 1 <= shape[0] <= _MOST_DIM
    ):
        raise model.bad("shape", f"a list of one number from 1 to {_MOST_DIM}")
    dim: int = shape[0]
    itemsize, arrays = (4, ModelArrays({VECTOR: (dim,)})) if single else (8, None)
    if "x0" not in model:
        return dim, itemsize, np.zeros(dim), arrays, None
    numbers = model.values["x0"]
    if (
        not isinstance(numbers, list)
        or len(numbers) != dim
        or not all(type(number) is float for number in numbers)
    ):
        raise model.bad("x0", f"null or a list of {dim} numbers, each with a decimal point")
    x0 = np.array(numbers)
    if not np.isfinite(x0).all():
        raise model.bad("x0", "finite numbers")
    with np.errstate(over="ignore"):
        held = not single or np.array_equal(x0.astype(np.float32), x0)
    if not held:
        raise model.bad("x0", "numbers that float32 can hold")
    return dim, itemsize, x0, arrays, None


class _AnyShard(GeneralizedLinear):
    """The problem of any node, as far as a manifest describes it: its loss and its dimension."""

    def __init__(self, loss: Loss, dim: int) -> None:
        self.sample_loss, self.dim = loss, dim


def fitted_update(top: Fields, update: Update, loss: Loss, dim: int) -> Update:
    """Return the update with the memory that suits the loss, the same at every node."""
    try:
        return update.fitted(_AnyShard(loss, dim))
    except AttributeError as error:  # of a user's own update
        raise top.bad(
            "update", f"an update that is fitted to a loss and a dimension alone ({error})"
        ) from None
