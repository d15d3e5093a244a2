"""The small fleets that the model checker explores: those of every test run, and larger ones that take minutes."""

from __future__ import annotations

from levywalk.fleet.checking.tiny import Setting
from levywalk.fleet.protocol.terms import EAGER

PATH = ((0, 1), (1, 2))
TRIANGLE = ((0, 1), (1, 2), (2, 0))
STAR = ((0, 1), (0, 2), (0, 3))
SQUARE = ((0, 1), (1, 2), (2, 3), (3, 0))
CYCLE = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 0))
SETTINGS = (
    Setting("path", PATH, ("on", "stay", "on"), mortal=(0, 2)),
    Setting("path, back", PATH, ("on", "back", "on"), renew_after=2, mortal=(0, 2)),
    Setting("path, two silences", PATH, ("on", "on"), silences=2),
    Setting("path, jump", PATH, ("jump", "stay"), mortal=(0, 2)),
    Setting("path, mistaken operator", PATH, ("on", "back"), mistakes=1),
    Setting("path, suspicion", PATH, ("on", "on"), silences=0, suspicions=1, mortal=(0, 2)),
    Setting("path, eager", PATH, ("on", "on"), policy=EAGER, silences=0, suspicions=1, mortal=(0, 2)),
    Setting("path, leaving", PATH, ("on", "on"), silences=0, leaving=(0, 2)),
    Setting("path, first forgets", PATH, ("on", "on"), forgetful=0),
    Setting("path, next forgets", PATH, ("on", "on"), forgetful=1),
    Setting("path, last forgets", PATH, ("on", "on"), forgetful=2),
    Setting("triangle", TRIANGLE, ("on", "on"), mortal=(0,)),
    Setting("star", STAR, ("on", "back"), start=1, silences=0, mortal=(1, 2, 3)),
    Setting("square", SQUARE, ("on", "on"), silences=0, mortal=(0, 1)),
)
LARGER = (
    Setting("path, silence and suspicion", PATH, ("on", "on"), suspicions=1),
    Setting("path, silence and leaving", PATH, ("on", "on"), leaving=(0, 2)),
    Setting("path, two silences, a death", PATH, ("on", "stay", "on"), silences=2, mortal=(0, 2)),
    Setting("triangle, any", TRIANGLE, ("on", "on"), mortal=(0, 1, 2)),
    Setting("path, all at once", PATH, ("on", "on"), mistakes=1, suspicions=1, leaving=(2,)),
    Setting("square, death and leaving", SQUARE, ("on", "on"), silences=0, mortal=(1,), leaving=(2,)),
    Setting("path, eager and silent", PATH, ("on", "on"), policy=EAGER, silences=1, suspicions=1, mortal=(0, 2)),
    Setting("triangle, back", TRIANGLE, ("on", "stay", "back"), renew_after=2, mortal=(0, 1, 2)),
    Setting("triangle, two silences", TRIANGLE, ("on", "on"), silences=2),
    Setting("triangle, eager", TRIANGLE, ("on", "on"), policy=EAGER, silences=0, suspicions=1, mortal=(0, 1, 2)),
    Setting("triangle, mistaken operator", TRIANGLE, ("on", "on"), mistakes=1),
    Setting("triangle, next forgets", TRIANGLE, ("on", "on"), forgetful=1),
    Setting("star, any leaf", STAR, ("on", "back"), start=1, mortal=(1, 2, 3)),
    Setting("square, any", SQUARE, ("on", "on"), mortal=(0, 1, 2, 3)),
    Setting("five in a ring", CYCLE, ("on", "on"), mortal=(1,), silences=0),
)
