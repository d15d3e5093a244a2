"""What the walking model learns: local losses over the nodes' own data."""

from __future__ import annotations

from levywalk.problem.files import load_dataset
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.logistic import Logistic
from levywalk.problem.partition import partition
from levywalk.problem.problem import Problem, check_problem, optimum_of
from levywalk.problem.shortcuts import (
    follows_its_loss,
    is_logistic,
    is_logistic_regression,
    is_quadratic,
    is_squared,
)
from levywalk.problem.synthetic import SyntheticLeastSquares, heterogeneous, homogeneous

__all__ = [
    "GeneralizedLinear",
    "LeastSquares",
    "Logistic",
    "Problem",
    "SyntheticLeastSquares",
    "check_problem",
    "follows_its_loss",
    "heterogeneous",
    "homogeneous",
    "is_logistic",
    "is_logistic_regression",
    "is_quadratic",
    "is_squared",
    "load_dataset",
    "optimum_of",
    "partition",
]
