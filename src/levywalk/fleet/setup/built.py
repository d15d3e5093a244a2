"""Problems that a user's own file builds: of all nodes, where the fleet is created, or of one."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Floats
from levywalk.errors import InvalidData, InvalidParameter, InvalidSpec, LevywalkError
from levywalk.fleet.protocol.schema import DTYPES
from levywalk.fleet.setup.model_code import Code, ModelCode, load_code, metric_functions
from levywalk.fleet.setup.node_data import Shard
from levywalk.fleet.setup.node_file import NodeFile
from levywalk.problem.named import ModelArrays, arrays_of, flat_problem
from levywalk.problem.problem import check_problem, model_type, single_node_problems
from levywalk.walks import Degree, Uniform, Walk, as_target

VECTOR = "model"  # the name of a model that is one vector


class BuiltProblem:
    """A problem that a user's file has built, as one whose model is a vector.

    Attributes
    ----------
    inner
        What the file has built, with named arrays flattened.
    code, path
        What the manifest says about the file, and where it is here.
    x0
        The first model, in its own types: that of the problem, or zeros.
    shards
        The samples of each node, as the nodes get them.
    scored, given
        Whether smoothness constants are known (only a walk with a uniform or degree target does
        without them), and whether they were given beside the file.
    """

    def __init__(
        self,
        code: Code,
        shards: Sequence[Shard],
        *,
        scores: Floats | None = None,
        names: tuple[str, ...] | None = None,
    ) -> None:
        self._loaded = code
        self.path, self.shards, self.given = code.path, tuple(shards), scores is not None
        features = np.concatenate([shard.features for shard in shards])
        targets = np.concatenate([shard.targets for shard in shards])
        node = np.repeat(np.arange(len(shards)), [len(shard.features) for shard in shards])
        with single_node_problems():
            made = code.call(code.build, features, targets, node=node)
            self.inner = _flat(code, made)
            self.n, self.dim = int(self.inner.n), int(self.inner.dim)
            self.arrays, self.dtype = arrays_of(self.inner), model_type(self.inner)
            self.smoothness, self.scored = _smoothness(self.inner, scores)
            self._check(code, len(shards))
        self.x0 = _first_model(code, made, self)
        if names is None:
            names = self._metric_names(code)
        sample = tuple(int(length) for length in features.shape[1:])
        self.code = ModelCode(code.path.name, code.function, code.sha256, sample, names)
        count = getattr(self.inner, "sample_count", None)
        if callable(count):
            self.sample_count = count
        drawn = self.local_gradient(0, self.x0)
        if drawn.shape != (self.dim,) or not np.isfinite(drawn).all():
            raise InvalidData(
                f"the gradient of the problem that {code.function} of {code.path} makes must be "
                f"{self.dim} finite numbers at x0, got the shape {drawn.shape}"
            )

    def _check(self, code: Code, nodes: int) -> None:
        """Refuse what is no problem with a node for each shard."""
        if self.n != nodes:
            raise InvalidData(
                f"{code.function} of {code.path} must make a problem with {nodes} "
                f"node{'s' if nodes > 1 else ''}, one for each different number in node, got "
                f"n = {self.n}"
            )
        if self.dtype.name not in DTYPES:
            raise InvalidData(
                f"the problem that {code.function} of {code.path} makes must have the dtype "
                f"{' or '.join(DTYPES)}, got {self.dtype}"
            )
        try:
            check_problem(self)
        except LevywalkError as error:
            raise InvalidData(
                f"{code.function} of {code.path} must return a problem: {error}"
            ) from None
        except Exception as error:
            raise InvalidData(
                f"the problem that {code.function} of {code.path} makes cannot compute a gradient: "
                f"{type(error).__name__}: {error}"
            ) from error

    def _metric_names(self, code: Code) -> tuple[str, ...]:
        """Return the names of the metrics, each tried once; none if nothing is held out."""
        for shard in self.shards:
            if shard.held_features is not None:
                found = metric_functions(code, shard.held_features, shard.held_targets)
                for name, function in found.items():
                    value = code.call(function, self.shown(self.x0))
                    if not isinstance(value, (int, float, np.number)):
                        raise InvalidParameter(
                            f"metric {name!r} of {code.path} must return a number, got {value!r}"
                        )
                return tuple(found)
        return ()

    def own_metrics(self, v: int) -> OwnMetrics | None:
        """Return the metrics of a node on what it has held out; None if there are none."""
        shard = self.shards[v]
        if not self.code.metrics or shard.held_features is None:
            return None
        functions = metric_functions(self._loaded, shard.held_features, shard.held_targets)
        if tuple(functions) != self.code.metrics:
            raise InvalidSpec(
                f"metrics of {self.path} returns {', '.join(functions) or 'none'} for a node's "
                f"held-out data, but the manifest says {', '.join(self.code.metrics)}; the names "
                "must not depend on a node's own samples"
            )
        return OwnMetrics(self, functions)

    @property
    def optimum(self) -> Any:
        """The minimiser, if the file's problem has one."""
        return getattr(self.inner, "optimum", None)

    def shown(self, x: Floats) -> Any:
        """Return a model as the user's code gets it: named arrays, or the vector, of its type."""
        typed = x.astype(self.dtype, copy=False)
        return typed if self.arrays is None else self.arrays.unpack(typed)

    def local_loss(self, v: int, x: Floats) -> float:
        """Return f_v(x)."""
        return float(self.inner.local_loss(v, x.astype(self.dtype, copy=False)))

    def local_gradient(self, v: int, x: Floats, samples: Any = None) -> Floats:
        """Return the gradient of f_v at x, over all samples or the given positions."""
        drawn = {} if samples is None else {"samples": samples}
        typed = x.astype(self.dtype, copy=False)
        return np.asarray(self.inner.local_gradient(v, typed, **drawn), dtype=np.float64)

    def __repr__(self) -> str:
        return f"BuiltProblem({self.path.name}:{self.code.function}, n={self.n}, dim={self.dim})"


def built_problem(
    path: Path, function: str, shards: Sequence[Shard], *, scores: Floats | None = None
) -> BuiltProblem:
    """Build the problem of all nodes, where a fleet is created."""
    return BuiltProblem(load_code(path, function), shards, scores=scores)


def require_scores(problem: BuiltProblem, design: Walk, step_size: Any) -> None:
    """Refuse walks and step sizes that need smoothness constants where none are known."""
    if problem.scored:
        return
    for part in design.phases:
        if not isinstance(as_target(part.target), Uniform | Degree):
            raise InvalidParameter(
                f"design {part.name} visits nodes by their smoothness constants, which the problem "
                f"of {problem.path} does not state; give --scores FILE with one number per node, "
                "or use --design unif_rw"
            )
    if isinstance(step_size, str):
        raise InvalidParameter(
            f"step_size must be a number, got {step_size!r}, which needs the smoothness constants "
            f"that the problem of {problem.path} does not state; give --step-size 0.05"
        )


def tensors_of(arrays: ModelArrays | None, dim: int, itemsize: int) -> list[dict[str, Any]]:
    """Return names, type and shapes of a model's arrays, as the manifest has them."""
    shapes = {VECTOR: (dim,)} if arrays is None else arrays.shapes
    return [
        {"name": name, "dtype": f"float{8 * itemsize}", "shape": list(shape)}
        for name, shape in shapes.items()
    ]


def is_vector(arrays: ModelArrays, itemsize: int) -> bool:
    """Return whether arrays are what `tensors_of` writes for a vector of float64."""
    return itemsize == 8 and list(arrays.shapes) == [VECTOR] and len(arrays.shapes[VECTOR]) == 1


def node_code(code: ModelCode, file: NodeFile) -> Code:
    """Run the file from which a node builds its problem, if it is the one that the manifest means.

    Where it is, the node file alone says.
    """
    path = file.model or file.manifest.parent / code.file
    return load_code(path, code.function, code.sha256)


class OwnMetrics:
    """The metrics of one node on what it has held out.

    A metric that fails, or is not finite, is NaN: the walk does not depend on it.
    """

    def __init__(self, problem: BuiltProblem, functions: Mapping[str, Callable[[Any], Any]]):
        self.names, self._functions = tuple(functions), tuple(functions.values())
        self._problem = problem

    def __call__(self, model: Floats) -> tuple[float, ...]:
        """Return the values for a model."""
        shown = self._problem.shown(model)
        return tuple(_number(function, shown) for function in self._functions)


def _number(function: Callable[[Any], Any], shown: Any) -> float:
    try:
        value = float(function(shown))
    except Exception:  # code of a user's own may raise anything
        return math.nan
    return value if math.isfinite(value) else math.nan


def _flat(code: Code, made: Any) -> Any:
    missing = [name for name in ("n", "local_loss", "local_gradient") if not hasattr(made, name)]
    if missing or not (hasattr(made, "dim") or hasattr(made, "model_arrays")):
        lacks = ", ".join([*missing, *([] if hasattr(made, "dim") else ["dim or model_arrays"])])
        raise InvalidData(
            f"{code.function} of {code.path} must return a problem, got {type(made).__name__}, "
            f"which lacks {lacks}"
        )
    return flat_problem(made)


def _smoothness(inner: Any, scores: Floats | None) -> tuple[Floats, bool]:
    if scores is not None:
        return scores, True
    if not getattr(inner, "has_smoothness", True) or getattr(inner, "smoothness", None) is None:
        return np.ones(int(inner.n)), False
    return np.asarray(inner.smoothness, dtype=np.float64), True


def _first_model(code: Code, made: Any, problem: BuiltProblem) -> Floats:
    given, dim = getattr(made, "x0", None), problem.dim
    if given is None:
        return np.zeros(dim)
    try:
        if isinstance(given, Mapping) and problem.arrays is not None:
            given = problem.arrays.pack({name: _plain(array) for name, array in given.items()})
        found: Floats = np.array(given, dtype=problem.dtype).astype(np.float64)
    except (LevywalkError, TypeError, ValueError) as error:
        raise InvalidData(f"x0 of the problem that {code.path} makes: {error}") from None
    if found.shape != (dim,) or not np.isfinite(found).all():
        raise InvalidData(
            f"x0 of the problem that {code.path} makes must be {dim} finite numbers, got the shape "
            f"{found.shape}"
        )
    return found


def _plain(array: Any) -> AnyArray:
    return np.asarray(array, dtype=np.float64)
