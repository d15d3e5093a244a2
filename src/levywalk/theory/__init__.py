"""The chain that a design induces; the engine's independent judge."""

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
from levywalk.theory.transition import levy_matrix, metropolis_hastings_matrix, transition
from levywalk.theory.tune import Tuning, tune

__all__ = [
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
    "levy_matrix",
    "metropolis_hastings_matrix",
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
]
