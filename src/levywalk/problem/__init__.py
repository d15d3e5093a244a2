"""What the walking model learns: local losses over the nodes' own data."""

from __future__ import annotations

from levywalk.problem.files import Dataset, load_dataset, read_data
from levywalk.problem.least_squares import LeastSquares
from levywalk.problem.linear import GeneralizedLinear
from levywalk.problem.logistic import Logistic
from levywalk.problem.partition import partition
from levywalk.problem.problem import (
    Problem,
    array_type,
    check_problem,
    first_model,
    has_samples,
    holders_of,
    known_smoothness,
    model_type,
    optimum_of,
)
from levywalk.problem.ready_made import Huber, Poisson, Quantile, SquaredHinge, problem_of
from levywalk.problem.shortcuts import (
    follows_its_loss,
    has_l1,
    is_logistic,
    is_logistic_regression,
    is_quadratic,
    is_single,
    is_squared,
    known_optimum,
    minimises,
)
from levywalk.problem.softmax import Softmax
from levywalk.problem.sparse_features import is_sparse
from levywalk.problem.synthetic import SyntheticLeastSquares, heterogeneous, homogeneous

__all__ = [
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
    "SyntheticLeastSquares",
    "array_type",
    "check_problem",
    "first_model",
    "follows_its_loss",
    "has_l1",
    "has_samples",
    "heterogeneous",
    "holders_of",
    "homogeneous",
    "is_logistic",
    "is_logistic_regression",
    "is_quadratic",
    "is_single",
    "is_sparse",
    "is_squared",
    "known_optimum",
    "known_smoothness",
    "load_dataset",
    "minimises",
    "model_type",
    "optimum_of",
    "partition",
    "problem_of",
    "read_data",
]
