"""The Markov chain of a walk and what follows from it, computed without the engine."""

from levywalk.theory.chain.gap_result import SpectralGap
from levywalk.theory.chain.reversibility import detailed_balance_violation, is_reversible
from levywalk.theory.chain.spectrum import spectral_gap
from levywalk.theory.chain.stationary import StationaryReport, stationary, stationary_report
from levywalk.theory.chain.stochastic_matrix import period, total_variation
from levywalk.theory.chain.times import MixingTime, hitting_times, kemeny_constant, mixing_time
from levywalk.theory.chain.transition import levy_matrix, metropolis_hastings_matrix, transition
from levywalk.theory.judge.assumptions import Assumptions, assumptions
from levywalk.theory.judge.bounds import Bounds, bounds
from levywalk.theory.judge.entrapment import EntrapmentReport, entrapment, update_correlation
from levywalk.theory.judge.floor import ErrorFloor, error_floor
from levywalk.theory.judge.predict import Prediction, predict
from levywalk.theory.judge.tune import Tuning, tune

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
