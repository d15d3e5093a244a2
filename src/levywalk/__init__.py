"""levywalk: decentralised learning by one model that walks over a network of nodes with private data.

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
    from levywalk.engine.run import run
    from levywalk.engine.walk_alone import walk
    from levywalk.errors import (
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
        LeastSquares,
        Logistic,
        Problem,
        heterogeneous,
        homogeneous,
        load_dataset,
    )
    from levywalk.problem.partition import partition
    from levywalk.report import plot
    from levywalk.schedule import Constant, Decaying, Dropping
    from levywalk.theory.assumptions import Assumptions, assumptions
    from levywalk.theory.balance import detailed_balance_violation, is_reversible
    from levywalk.theory.bounds import Bounds, bounds
    from levywalk.theory.chain import period, total_variation
    from levywalk.theory.entrapment import EntrapmentReport, entrapment, update_correlation
    from levywalk.theory.floor import ErrorFloor, error_floor
    from levywalk.theory.predict import Prediction, predict
    from levywalk.theory.spectrum import SpectralGap, spectral_gap
    from levywalk.theory.stationary import StationaryReport, stationary, stationary_report
    from levywalk.theory.times import MixingTime, hitting_times, kemeny_constant, mixing_time
    from levywalk.theory.transition import transition
    from levywalk.theory.tune import Tuning, tune
    from levywalk.trace import Comparison, Trace, Walks
    from levywalk.trace.files import load_trace
    from levywalk.updates import Sgd
    from levywalk.walks import (
        Degree,
        Design,
        FixedDistance,
        Importance,
        JumpLaw,
        Mixed,
        PowerLaw,
        Scores,
        Switching,
        TruncatedGeometric,
        Uniform,
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
        "Degree",
        "Design",
        "FixedDistance",
        "Importance",
        "JumpLaw",
        "Mixed",
        "PowerLaw",
        "Scores",
        "Switching",
        "TruncatedGeometric",
        "Uniform",
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
        "LeastSquares",
        "Logistic",
        "Problem",
        "heterogeneous",
        "homogeneous",
        "load_dataset",
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
    "levywalk.trace": ("Comparison", "Trace", "Walks"),
    "levywalk.trace.files": ("load_trace",),
    "levywalk.updates": ("Sgd",),
}
_MODULE = {name: module for module, names in _HOME.items() for name in names}

__all__ = [
    "Assumptions",
    "Bounds",
    "Comparison",
    "Constant",
    "DataWarning",
    "Decaying",
    "Degree",
    "Design",
    "DivergedWarning",
    "Dropping",
    "EntrapmentReport",
    "ErrorFloor",
    "FixedDistance",
    "Importance",
    "InvalidData",
    "InvalidNetwork",
    "InvalidParameter",
    "InvalidSpec",
    "InvalidTrace",
    "JumpLaw",
    "LeastSquares",
    "LevywalkError",
    "Logistic",
    "MissingFile",
    "Mixed",
    "MixingTime",
    "Network",
    "NoMinimiser",
    "NotConnected",
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
    "Walks",
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
    "ring",
    "run",
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
