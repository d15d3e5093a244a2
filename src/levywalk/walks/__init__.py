"""How the model walks: targets, jump laws, decision rules, and the designs of the paper."""

from levywalk.walks.alias import AliasTable
from levywalk.walks.bound import Bound
from levywalk.walks.designs import (
    Design,
    Switching,
    custom,
    iid_uniform,
    iid_weighted,
    is_plain_design,
    mhlj,
    mixed_rw,
    paper_designs,
    simple_rw,
    switching,
    unif_rw,
    weight_rw,
)
from levywalk.walks.detector import BoundDetector, Detector, DetectorState
from levywalk.walks.jump import (
    DistanceLaw,
    FixedDistance,
    JumpLaw,
    PowerLaw,
    TruncatedGeometric,
    jump_distance,
)
from levywalk.walks.rule import hop, metropolis_hastings
from levywalk.walks.target import Degree, Importance, Mixed, Scores, Target, Uniform, as_target
from levywalk.walks.view import Decision, LocalView, Server
from levywalk.walks.walk import Walk, check_fit

__all__ = [
    "AliasTable",
    "Bound",
    "BoundDetector",
    "Decision",
    "Degree",
    "Design",
    "Detector",
    "DetectorState",
    "DistanceLaw",
    "FixedDistance",
    "Importance",
    "JumpLaw",
    "LocalView",
    "Mixed",
    "PowerLaw",
    "Scores",
    "Server",
    "Switching",
    "Target",
    "TruncatedGeometric",
    "Uniform",
    "Walk",
    "as_target",
    "check_fit",
    "custom",
    "hop",
    "iid_uniform",
    "iid_weighted",
    "is_plain_design",
    "jump_distance",
    "metropolis_hastings",
    "mhlj",
    "mixed_rw",
    "paper_designs",
    "simple_rw",
    "switching",
    "unif_rw",
    "weight_rw",
]
