"""The paper's claims in the order of `paper.LABELS`; each is a function that judges the evidence.

`verdicts` has the rules that answer them. Each claim is stated in the paper's own words, with the
comparison that the paper makes.
"""

from __future__ import annotations

from collections.abc import Callable

from levywalk.reproduction import floor_claims, speed_claims, theory_claims
from levywalk.reproduction.evidence import Evidence
from levywalk.reproduction.verdicts import Claim

CLAIMS: tuple[Callable[[Evidence], Claim], ...] = (
    speed_claims.claim_1,
    speed_claims.claim_2,
    speed_claims.claim_3,
    speed_claims.claim_4,
    speed_claims.claim_5,
    floor_claims.claim_6,
    floor_claims.claim_7,
    speed_claims.claim_8,
    theory_claims.claim_9,
    theory_claims.claim_10,
    theory_claims.claim_11,
    theory_claims.claim_12,
    speed_claims.claim_13,
    speed_claims.claim_14,
)
