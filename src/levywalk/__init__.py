"""levywalk: decentralised learning by one model that walks over a network of nodes with private
data.

>>> import levywalk as lw
>>> network, problem = lw.ring(100), lw.heterogeneous(100, important=1)
>>> trace = lw.run(network, problem, lw.mhlj(), steps=1000, step_size="theory", replicas=4)

Names are loaded when first used, so that importing levywalk loads neither numba nor matplotlib.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from levywalk.version import __version__

if TYPE_CHECKING:
    from levywalk.draws import Words
    from levywalk.engine.run import run
    from levywalk.engine.walk_alone import walk
    from levywalk.errors import (
        CacheWarning,
        DataWarning,
        DivergedWarning,
        InvalidData,
        InvalidNetwork,
        InvalidParameter,
        InvalidSpec,
        InvalidTrace,
        LevywalkError,
        MissingFile,
        NoMinimiser,
        NotConnected,
        ResumeError,
        ResumeWarning,
        TooLarge,
    )
    from levywalk.experiments.compare import compare
    from levywalk.experiments.folder_report import write_report
    from levywalk.memory import Array, Like, Memory, Number, PerEdge, PerNode, PerSample
    from levywalk.network import (
        Network,
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
    from levywalk.problem import (
        GeneralizedLinear,
        LeastSquares,
        Logistic,
        Problem,
        heterogeneous,
        homogeneous,
        load_dataset,
        losses,
    )
    from levywalk.problem.losses import Loss
    from levywalk.problem.partition import partition
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
    from levywalk.trace import Comparison, Trace, WalkRecord
    from levywalk.trace.files import load_trace
    from levywalk.updates import LocalData, Sgd, Update
    from levywalk.updates.sgd import sgd
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

_HOME = {
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
        "iid_uniform",
        "iid_weighted",
        "mhlj",
        "mixed_rw",
        "simple_rw",
        "switching",
        "unif_rw",
        "weight_rw",
    ),
    "levywalk.engine": ("run", "walk"),
    "levywalk.errors": (
        "DataWarning",
        "CacheWarning",
        "DivergedWarning",
        "InvalidData",
        "InvalidNetwork",
        "InvalidParameter",
        "InvalidSpec",
        "InvalidTrace",
        "LevywalkError",
        "MissingFile",
        "NoMinimiser",
        "NotConnected",
        "ResumeError",
        "ResumeWarning",
        "TooLarge",
    ),
    "levywalk.experiments": ("compare",),
    "levywalk.experiments.folder_report": ("write_report",),
    "levywalk.network": (
        "Network",
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
    "levywalk.problem": (
        "GeneralizedLinear",
        "LeastSquares",
        "Logistic",
        "Problem",
        "heterogeneous",
        "homogeneous",
        "load_dataset",
        "losses",
        "partition",
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
    "levywalk.trace": ("Comparison", "Trace", "WalkRecord"),
    "levywalk.trace.files": ("load_trace",),
    "levywalk.updates": ("LocalData", "Sgd", "Update", "sgd"),
    "levywalk.problem.losses": ("Loss",),
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
    "Comparison",
    "Constant",
    "DataWarning",
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
    "Importance",
    "InvalidData",
    "InvalidNetwork",
    "InvalidParameter",
    "InvalidSpec",
    "InvalidTrace",
    "JumpLaw",
    "LeastSquares",
    "LevywalkError",
    "Like",
    "LocalData",
    "LocalView",
    "Logistic",
    "Loss",
    "Memory",
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
    "PowerLaw",
    "Prediction",
    "Problem",
    "ResumeError",
    "ResumeWarning",
    "Scores",
    "Sgd",
    "SpectralGap",
    "StationaryReport",
    "Switching",
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
    "assumptions",
    "barabasi_albert",
    "barbell",
    "bounds",
    "compare",
    "complete",
    "detailed_balance_violation",
    "entrapment",
    "erdos_renyi",
    "error_floor",
    "grid",
    "heterogeneous",
    "hitting_times",
    "homogeneous",
    "iid_uniform",
    "iid_weighted",
    "is_reversible",
    "kemeny_constant",
    "load_dataset",
    "load_trace",
    "losses",
    "mhlj",
    "mixed_rw",
    "mixing_time",
    "partition",
    "path",
    "period",
    "plot",
    "predict",
    "random_regular",
    "read_network",
    "register",
    "ring",
    "run",
    "sgd",
    "simple_rw",
    "spectral_gap",
    "star",
    "stationary",
    "stationary_report",
    "switching",
    "torus",
    "total_variation",
    "transition",
    "tune",
    "unif_rw",
    "update_correlation",
    "walk",
    "watts_strogatz",
    "weight_rw",
    "write_report",
]


def __getattr__(name: str) -> Any:
    module = _MODULE.get(name)
    if module is None:
        raise AttributeError(f"module 'levywalk' has no attribute {name!r}")
    value = getattr(import_module(module), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
