"""levywalk: decentralised learning by one model that walks over a network of nodes with private
data.

>>> import levywalk as lw
>>> network, problem = lw.ring(100), lw.heterogeneous(100, important=1)
>>> trace = lw.run(network, problem, lw.mhlj(), steps=1000, step_size="theory", replicas=4)

Names are loaded when first used, so that importing levywalk loads neither numba nor matplotlib.
This file is long because it lists every public name three times: for type checkers, in
``__all__``, and with the module that has it.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levywalk.version import __version__

if TYPE_CHECKING:
    from levywalk import metrics
    from levywalk.callbacks import JsonLines, LogMeans, TensorBoard
    from levywalk.draws import Words
    from levywalk.engine.gossip import gossip
    from levywalk.engine.run import run
    from levywalk.engine.walk_alone import walk
    from levywalk.errors import (
        CacheWarning,
        CallbackError,
        DataWarning,
        DivergedWarning,
        Interrupted,
        InvalidData,
        InvalidNetwork,
        InvalidParameter,
        InvalidSpec,
        InvalidTrace,
        LevywalkError,
        MissingExtra,
        MissingFile,
        NoMinimiser,
        NotConnected,
        RegistryWarning,
        ResumeError,
        ResumeWarning,
        TooLarge,
    )
    from levywalk.experiments.compare import compare
    from levywalk.experiments.folder_report import write_report
    from levywalk.league.recommend import recommended
    from levywalk.league.recommendation import Recommendation
    from levywalk.memory import Array, Like, Memory, Number, PerEdge, PerNode, PerSample
    from levywalk.model_files import load_model, save_model
    from levywalk.network import (
        Network,
        as_network,
        barabasi_albert,
        barbell,
        complete,
        erdos_renyi,
        grid,
        path,
        random_regular,
        read_network,
        ring,
        star,
        torus,
        watts_strogatz,
    )
    from levywalk.privacy import Privacy
    from levywalk.problem import (
        Dataset,
        GeneralizedLinear,
        Huber,
        LeastSquares,
        Logistic,
        Poisson,
        Problem,
        Quantile,
        Softmax,
        SquaredHinge,
        heterogeneous,
        homogeneous,
        load_dataset,
        losses,
        read_data,
    )
    from levywalk.problem.jax_models import jax_problem
    from levywalk.problem.losses import Loss
    from levywalk.problem.partition import partition
    from levywalk.problem.torch_models import torch_problem
    from levywalk.registry import register
    from levywalk.report import plot
    from levywalk.schedule import Constant, Decaying, Dropping
    from levywalk.theory.chain.gap_result import SpectralGap
    from levywalk.theory.chain.reversibility import detailed_balance_violation, is_reversible
    from levywalk.theory.chain.spectrum import spectral_gap
    from levywalk.theory.chain.stationary import StationaryReport, stationary, stationary_report
    from levywalk.theory.chain.stochastic_matrix import period, total_variation
    from levywalk.theory.chain.times import MixingTime, hitting_times, kemeny_constant, mixing_time
    from levywalk.theory.chain.transition import transition
    from levywalk.theory.judge.assumptions import Assumptions, assumptions
    from levywalk.theory.judge.bounds import Bounds, bounds
    from levywalk.theory.judge.entrapment import EntrapmentReport, entrapment, update_correlation
    from levywalk.theory.judge.floor import ErrorFloor, error_floor
    from levywalk.theory.judge.predict import Prediction, predict
    from levywalk.theory.judge.tune import Tuning, tune
    from levywalk.trace import Comparison, Costs, Stragglers, Trace, WalkRecord
    from levywalk.trace.files import load_trace
    from levywalk.updates import LocalData, Sgd, Update
    from levywalk.updates.adam import adam
    from levywalk.updates.averaged import averaged
    from levywalk.updates.finito import finito
    from levywalk.updates.heavy_ball import heavy_ball
    from levywalk.updates.newton_token import newton_token
    from levywalk.updates.point_saga import point_saga
    from levywalk.updates.sag import sag
    from levywalk.updates.saga import saga
    from levywalk.updates.sgd import sgd
    from levywalk.updates.walkman import walkman
    from levywalk.walks import (
        Decision,
        Degree,
        Design,
        FixedDistance,
        Importance,
        JumpLaw,
        LocalView,
        Mixed,
        PowerLaw,
        Scores,
        Switching,
        TruncatedGeometric,
        Uniform,
        Walk,
        iid_uniform,
        iid_weighted,
        mhlj,
        mixed_rw,
        simple_rw,
        switching,
        unif_rw,
        weight_rw,
    )
    from levywalk.walks.depth_first_tour import depth_first_tour
    from levywalk.walks.hdt import hdt
    from levywalk.walks.least_used_edge import least_used_edge
    from levywalk.walks.lifted_ring import lifted_ring
    from levywalk.walks.mhda import mhda
    from levywalk.walks.non_backtracking import non_backtracking
    from levywalk.walks.oldest_neighbour import oldest_neighbour
    from levywalk.walks.reshuffling import reshuffling
    from levywalk.walks.rotor_router import rotor_router
    from levywalk.walks.route import route
    from levywalk.walks.srrw import srrw

_HOME = {
    "levywalk": ("metrics",),
    "levywalk.callbacks": ("JsonLines", "LogMeans", "TensorBoard"),
    "levywalk.walks": (
        "Decision",
        "Degree",
        "Design",
        "FixedDistance",
        "Importance",
        "JumpLaw",
        "LocalView",
        "Mixed",
        "PowerLaw",
        "Scores",
        "Switching",
        "TruncatedGeometric",
        "Uniform",
        "Walk",
        "depth_first_tour",
        "hdt",
        "iid_uniform",
        "iid_weighted",
        "least_used_edge",
        "lifted_ring",
        "mhda",
        "mhlj",
        "mixed_rw",
        "non_backtracking",
        "oldest_neighbour",
        "reshuffling",
        "rotor_router",
        "route",
        "simple_rw",
        "srrw",
        "switching",
        "unif_rw",
        "weight_rw",
    ),
    "levywalk.engine": ("gossip", "run", "walk"),
    "levywalk.errors": (
        "DataWarning",
        "CacheWarning",
        "CallbackError",
        "DivergedWarning",
        "InvalidData",
        "InvalidNetwork",
        "InvalidParameter",
        "InvalidSpec",
        "InvalidTrace",
        "Interrupted",
        "LevywalkError",
        "MissingExtra",
        "MissingFile",
        "NoMinimiser",
        "NotConnected",
        "RegistryWarning",
        "ResumeError",
        "ResumeWarning",
        "TooLarge",
    ),
    "levywalk.experiments": ("compare",),
    "levywalk.experiments.folder_report": ("write_report",),
    "levywalk.league.recommend": ("recommended",),
    "levywalk.league.recommendation": ("Recommendation",),
    "levywalk.network": (
        "Network",
        "as_network",
        "barabasi_albert",
        "barbell",
        "complete",
        "erdos_renyi",
        "grid",
        "path",
        "random_regular",
        "read_network",
        "ring",
        "star",
        "torus",
        "watts_strogatz",
    ),
    "levywalk.privacy": ("Privacy",),
    "levywalk.problem": (
        "Dataset",
        "GeneralizedLinear",
        "Huber",
        "LeastSquares",
        "Logistic",
        "Poisson",
        "Problem",
        "Quantile",
        "Softmax",
        "SquaredHinge",
        "heterogeneous",
        "homogeneous",
        "load_dataset",
        "losses",
        "partition",
        "read_data",
    ),
    "levywalk.report": ("plot",),
    "levywalk.schedule": ("Constant", "Decaying", "Dropping"),
    "levywalk.theory": (
        "Assumptions",
        "Bounds",
        "EntrapmentReport",
        "ErrorFloor",
        "MixingTime",
        "Prediction",
        "SpectralGap",
        "StationaryReport",
        "Tuning",
        "assumptions",
        "bounds",
        "detailed_balance_violation",
        "entrapment",
        "error_floor",
        "hitting_times",
        "is_reversible",
        "kemeny_constant",
        "mixing_time",
        "period",
        "predict",
        "spectral_gap",
        "stationary",
        "stationary_report",
        "total_variation",
        "transition",
        "tune",
        "update_correlation",
    ),
    "levywalk.trace": ("Comparison", "Costs", "Stragglers", "Trace", "WalkRecord"),
    "levywalk.trace.files": ("load_trace",),
    "levywalk.updates": (
        "LocalData",
        "Sgd",
        "Update",
        "adam",
        "averaged",
        "finito",
        "heavy_ball",
        "newton_token",
        "point_saga",
        "sag",
        "saga",
        "sgd",
        "walkman",
    ),
    "levywalk.model_files": ("load_model", "save_model"),
    "levywalk.problem.jax_models": ("jax_problem",),
    "levywalk.problem.losses": ("Loss",),
    "levywalk.problem.torch_models": ("torch_problem",),
    "levywalk.registry": ("register",),
    "levywalk.memory": ("Array", "Like", "Memory", "Number", "PerEdge", "PerNode", "PerSample"),
    "levywalk.draws": ("Words",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Array",
    "Assumptions",
    "Bounds",
    "CacheWarning",
    "CallbackError",
    "Comparison",
    "Constant",
    "Costs",
    "DataWarning",
    "Dataset",
    "Decaying",
    "Decision",
    "Degree",
    "Design",
    "DivergedWarning",
    "Dropping",
    "EntrapmentReport",
    "ErrorFloor",
    "FixedDistance",
    "GeneralizedLinear",
    "Huber",
    "Importance",
    "Interrupted",
    "InvalidData",
    "InvalidNetwork",
    "InvalidParameter",
    "InvalidSpec",
    "InvalidTrace",
    "JsonLines",
    "JumpLaw",
    "LeastSquares",
    "LevywalkError",
    "Like",
    "LocalData",
    "LocalView",
    "LogMeans",
    "Logistic",
    "Loss",
    "Memory",
    "MissingExtra",
    "MissingFile",
    "Mixed",
    "MixingTime",
    "Network",
    "NoMinimiser",
    "NotConnected",
    "Number",
    "PerEdge",
    "PerNode",
    "PerSample",
    "Poisson",
    "PowerLaw",
    "Prediction",
    "Privacy",
    "Problem",
    "Quantile",
    "Recommendation",
    "RegistryWarning",
    "ResumeError",
    "ResumeWarning",
    "Scores",
    "Sgd",
    "Softmax",
    "SpectralGap",
    "SquaredHinge",
    "StationaryReport",
    "Stragglers",
    "Switching",
    "TensorBoard",
    "TooLarge",
    "Trace",
    "TruncatedGeometric",
    "Tuning",
    "Uniform",
    "Update",
    "Walk",
    "WalkRecord",
    "Words",
    "__version__",
    "adam",
    "as_network",
    "assumptions",
    "averaged",
    "barabasi_albert",
    "barbell",
    "bounds",
    "compare",
    "complete",
    "depth_first_tour",
    "detailed_balance_violation",
    "entrapment",
    "erdos_renyi",
    "error_floor",
    "finito",
    "gossip",
    "grid",
    "hdt",
    "heavy_ball",
    "heterogeneous",
    "hitting_times",
    "homogeneous",
    "iid_uniform",
    "iid_weighted",
    "is_reversible",
    "jax_problem",
    "kemeny_constant",
    "least_used_edge",
    "lifted_ring",
    "load_dataset",
    "load_model",
    "load_trace",
    "losses",
    "metrics",
    "mhda",
    "mhlj",
    "mixed_rw",
    "mixing_time",
    "newton_token",
    "non_backtracking",
    "oldest_neighbour",
    "partition",
    "path",
    "period",
    "plot",
    "point_saga",
    "predict",
    "random_regular",
    "read_data",
    "read_network",
    "recommended",
    "register",
    "reshuffling",
    "ring",
    "rotor_router",
    "route",
    "run",
    "sag",
    "saga",
    "save_model",
    "sgd",
    "simple_rw",
    "spectral_gap",
    "srrw",
    "star",
    "stationary",
    "stationary_report",
    "switching",
    "torch_problem",
    "torus",
    "total_variation",
    "transition",
    "tune",
    "unif_rw",
    "update_correlation",
    "walk",
    "walkman",
    "watts_strogatz",
    "weight_rw",
    "write_report",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'levywalk' has no attribute {name!r}")
    whole = module == "levywalk"  # a module of the package itself
    value = import_module(f"levywalk.{name}") if whole else getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
