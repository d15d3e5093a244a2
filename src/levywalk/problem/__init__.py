"""What the walking model learns: local losses over the nodes' own data."""

from __future__ import annotations

from levywalk.problem.files import load_dataset
from levywalk.problem.glm import LeastSquares, LinearModelProblem, Logistic, has_own_losses
from levywalk.problem.partition import partition
from levywalk.problem.problem import Problem, check_problem, optimum_of
from levywalk.problem.synthetic import SyntheticLeastSquares, heterogeneous, homogeneous

__all__ = [
    "LeastSquares",
    "LinearModelProblem",
    "Logistic",
    "Problem",
    "SyntheticLeastSquares",
    "check_problem",
    "has_own_losses",
    "heterogeneous",
    "homogeneous",
    "load_dataset",
    "optimum_of",
    "partition",
]
