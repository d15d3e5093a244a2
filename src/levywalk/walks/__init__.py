"""How the model walks: targets, jump laws, decision rules, and the designs of the paper."""

from levywalk.walks.alias import AliasTable
from levywalk.walks.bound_walk import BoundWalk
from levywalk.walks.changing_jumps import ChangingJumps, is_plain_in_pieces
from levywalk.walks.depth_first_tour import DepthFirstTour, depth_first_tour
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
from levywalk.walks.hdt import HistoryDriven, hdt
from levywalk.walks.jump import (
    DistanceLaw,
    FixedDistance,
    JumpLaw,
    PowerLaw,
    TruncatedGeometric,
    distance_law,
    jump_distance,
)
from levywalk.walks.least_used_edge import LeastUsedEdge, least_used_edge
from levywalk.walks.lifted_ring import LiftedRing, lifted_ring
from levywalk.walks.mhda import Mhda, mhda
from levywalk.walks.non_backtracking import NonBacktracking, non_backtracking
from levywalk.walks.oldest_neighbour import OldestNeighbour, oldest_neighbour
from levywalk.walks.printed_levy import PrintedJumps
from levywalk.walks.reshuffling import Reshuffling, reshuffling
from levywalk.walks.rotor_router import RotorRouter, rotor_router
from levywalk.walks.route import Route, route
from levywalk.walks.rule import hop, metropolis_hastings
from levywalk.walks.srrw import SelfRepellent, srrw
from levywalk.walks.target import Degree, Importance, Mixed, Scores, Target, Uniform, as_target
from levywalk.walks.view import Decision, LocalView, Server
from levywalk.walks.walk import Walk, check_fit, nodes_with_data

__all__ = [
    "AliasTable",
    "BoundDetector",
    "BoundWalk",
    "ChangingJumps",
    "Decision",
    "Degree",
    "DepthFirstTour",
    "Design",
    "Detector",
    "DetectorState",
    "DistanceLaw",
    "FixedDistance",
    "HistoryDriven",
    "Importance",
    "JumpLaw",
    "LeastUsedEdge",
    "LiftedRing",
    "LocalView",
    "Mhda",
    "Mixed",
    "NonBacktracking",
    "OldestNeighbour",
    "PowerLaw",
    "PrintedJumps",
    "Reshuffling",
    "RotorRouter",
    "Route",
    "Scores",
    "SelfRepellent",
    "Server",
    "Switching",
    "Target",
    "TruncatedGeometric",
    "Uniform",
    "Walk",
    "as_target",
    "check_fit",
    "custom",
    "depth_first_tour",
    "distance_law",
    "hdt",
    "hop",
    "iid_uniform",
    "iid_weighted",
    "is_plain_design",
    "is_plain_in_pieces",
    "jump_distance",
    "least_used_edge",
    "lifted_ring",
    "metropolis_hastings",
    "mhda",
    "mhlj",
    "mixed_rw",
    "nodes_with_data",
    "non_backtracking",
    "oldest_neighbour",
    "paper_designs",
    "reshuffling",
    "rotor_router",
    "route",
    "simple_rw",
    "srrw",
    "switching",
    "unif_rw",
    "weight_rw",
]
