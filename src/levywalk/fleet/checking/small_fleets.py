"""The small fleets that the model checker explores: those of every test run, and larger ones that
take minutes.
"""

from __future__ import annotations

from levywalk.fleet.checking.small_fleet import SmallFleet
from levywalk.fleet.protocol.terms import GuardianPolicy

PATH = ((0, 1), (1, 2))
TRIANGLE = ((0, 1), (1, 2), (2, 0))
STAR = ((0, 1), (0, 2), (0, 3))
SQUARE = ((0, 1), (1, 2), (2, 3), (3, 0))
CYCLE = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
SMALL_FLEETS = (
    SmallFleet("path", PATH, ("on", "stay", "on"), mortal=(0, 2)),
    SmallFleet("path, back", PATH, ("on", "back", "on"), renew_after=2, mortal=(0, 2)),
    SmallFleet("path, two silences", PATH, ("on", "on"), silences=2),
    SmallFleet("path, jump", PATH, ("jump", "stay"), mortal=(0, 2)),
    SmallFleet("path, mistaken operator", PATH, ("on", "back"), mistakes=1),
    SmallFleet("path, mistaken revival", PATH, ("on", "back"), silences=0, revivals=1),
    SmallFleet("path, suspicion", PATH, ("on", "on"), silences=0, suspicions=1, mortal=(0, 2)),
    SmallFleet(
        "path, eager",
        PATH,
        ("on", "on"),
        policy=GuardianPolicy.EAGER,
        silences=0,
        suspicions=1,
        mortal=(0, 2),
    ),
    SmallFleet("path, leaving", PATH, ("on", "on"), silences=0, leaving=(0, 2)),
    # The next node may be prepared and refuse the same token later, twice, while the guardian is
    # asked for the release: choices are withdrawn, and old messages ask for them.
    SmallFleet("path, two refusals", PATH, ("on", "on", "on"), silences=0, leaving=(2,)),
    SmallFleet("path, first forgets", PATH, ("on", "on"), silences=0, forgetful=0),
    SmallFleet("path, last forgets", PATH, ("on", "on"), silences=0, forgetful=2),
    SmallFleet("triangle", TRIANGLE, ("on", "on"), mortal=(0,)),
    SmallFleet("star", STAR, ("on", "back"), start=1, silences=0, mortal=(1, 2, 3)),
    SmallFleet("square", SQUARE, ("on", "on"), silences=0, mortal=(0, 1)),
)
# Nodes that remember, in networks in which the model comes back to them.
REMEMBERING_FLEETS = (
    SmallFleet("path, memory", PATH, ("on", "back", "on"), silences=1, remembers=True),
    SmallFleet(
        "path, memory and a death", PATH, ("on", "back"), silences=0, mortal=(0, 2), remembers=True
    ),
    SmallFleet(
        "path, memory and a revival", PATH, ("on", "back"), silences=0, revivals=1, remembers=True
    ),
    SmallFleet(
        "path, memory that is lost", PATH, ("on", "back"), silences=0, forgetful=0, remembers=True
    ),
)
# Nodes that ask their neighbours. From the middle of a path the model comes back to a node that has
# asked before, and finds answers to that earlier question among the messages.
OLDEST_FIRST = ("oldest", "oldest", "oldest")
ASKING_FLEETS = (
    SmallFleet("path, two questions", PATH, OLDEST_FIRST[1:], start=1, silences=0, remembers=True),
    SmallFleet("path, questions", PATH, OLDEST_FIRST, start=1, silences=0, remembers=True),
    SmallFleet("path, questions and a silence", PATH, OLDEST_FIRST[1:], start=1, remembers=True),
    SmallFleet(
        "path, questions and a death",
        PATH,
        OLDEST_FIRST[1:],
        start=1,
        silences=0,
        mortal=(0, 2),
        remembers=True,
    ),
)
# Fleets whose size the operator changes: the order passes from node to node, while the model walks.
GROWING_FLEETS = (
    SmallFleet("path, a new size", PATH, ("on",), silences=0, sizes=1),
    SmallFleet("path, two sizes", PATH, ("on", "on"), silences=0, sizes=2),
    SmallFleet("path, a size and a silence", PATH, ("on", "back"), sizes=1),
)
LARGER_FLEETS = (
    SmallFleet(
        "path, refusal and death",
        PATH,
        ("on", "on", "on"),
        silences=0,
        suspicions=1,
        leaving=(2,),
        mortal=(2,),
    ),
    SmallFleet("path, refusal and silence", PATH, ("on", "on", "on"), leaving=(2,)),
    SmallFleet("path, silence and first forgets", PATH, ("on", "on"), forgetful=0),
    SmallFleet("path, next forgets", PATH, ("on", "on"), forgetful=1),
    SmallFleet("path, silence and last forgets", PATH, ("on", "on"), forgetful=2),
    SmallFleet("path, silence and suspicion", PATH, ("on", "on"), suspicions=1),
    SmallFleet("path, silence and leaving", PATH, ("on", "on"), leaving=(0, 2)),
    SmallFleet(
        "path, two silences, a death", PATH, ("on", "stay", "on"), silences=2, mortal=(0, 2)
    ),
    SmallFleet("triangle, any", TRIANGLE, ("on", "on"), mortal=(0, 1, 2)),
    SmallFleet("path, all at once", PATH, ("on", "on"), mistakes=1, suspicions=1, leaving=(2,)),
    SmallFleet(
        "square, death and leaving", SQUARE, ("on", "on"), silences=0, mortal=(1,), leaving=(2,)
    ),
    SmallFleet(
        "path, eager and silent",
        PATH,
        ("on", "on"),
        policy=GuardianPolicy.EAGER,
        silences=1,
        suspicions=1,
        mortal=(0, 2),
    ),
    SmallFleet("triangle, back", TRIANGLE, ("on", "stay", "back"), renew_after=2, mortal=(0, 1, 2)),
    SmallFleet("triangle, two silences", TRIANGLE, ("on", "on"), silences=2),
    SmallFleet(
        "triangle, eager",
        TRIANGLE,
        ("on", "on"),
        policy=GuardianPolicy.EAGER,
        silences=0,
        suspicions=1,
        mortal=(0, 1, 2),
    ),
    SmallFleet("triangle, mistaken operator", TRIANGLE, ("on", "on"), mistakes=1),
    SmallFleet("path, revival and death", PATH, ("on", "on"), revivals=1, mortal=(0, 2)),
    SmallFleet("path, two revivals", PATH, ("on", "on"), silences=0, revivals=2),
    SmallFleet("triangle, mistaken revival", TRIANGLE, ("on", "on"), revivals=1),
    SmallFleet("triangle, next forgets", TRIANGLE, ("on", "on"), forgetful=1),
    SmallFleet("star, any leaf", STAR, ("on", "back"), start=1, mortal=(1, 2, 3)),
    SmallFleet("square, any", SQUARE, ("on", "on"), mortal=(0, 1, 2, 3)),
    SmallFleet("five in a ring", CYCLE, ("on", "on"), mortal=(1,), silences=0),
)
