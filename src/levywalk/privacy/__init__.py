"""Privacy: what a neighbour learns of a node's samples, bounded by clipping, noise and a budget."""

from levywalk.privacy.accountant import (
    gaussian_delta,
    gaussian_epsilon,
    gaussian_mu,
    zcdp_epsilon,
)
from levywalk.privacy.bound import (
    BoundPrivacy,
    Rescored,
    bind_privacy,
    check_scores,
    fitted_update,
    scored_problem,
    uses_scores,
)
from levywalk.privacy.noise import NoiseSource, SeededNoise, SystemNoise, noise_keys
from levywalk.privacy.privacy import Privacy, as_privacy
from levywalk.privacy.private_data import RELEASES

__all__ = [
    "RELEASES",
    "BoundPrivacy",
    "NoiseSource",
    "Privacy",
    "Rescored",
    "SeededNoise",
    "SystemNoise",
    "as_privacy",
    "bind_privacy",
    "check_scores",
    "fitted_update",
    "gaussian_delta",
    "gaussian_epsilon",
    "gaussian_mu",
    "noise_keys",
    "scored_problem",
    "uses_scores",
    "zcdp_epsilon",
]
