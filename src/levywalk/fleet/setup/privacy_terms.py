"""The privacy of a fleet: what is refused when it is created, what its manifest says, and what a
node checks before it takes part.

The rules are those of a simulation (`levywalk.privacy`). `levywalk.privacy` needs scipy. A
node without privacy does not need it, so it is imported only where it is used.
"""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.fleet.setup.fields import Fields
from levywalk.fleet.setup.update_check_terms import TABLE
from levywalk.problem import Problem
from levywalk.remedy import python_or_command
from levywalk.updates import Update
from levywalk.walks import Walk

if TYPE_CHECKING:
    from levywalk.privacy import BoundPrivacy, Privacy

_CAP = "updates_at_cap"
_MOST_STEPS = 2**53


def known_scores(
    privacy: Privacy | None,
    problem: Problem,
    design: Walk,
    step_size: Any,
    stop: str | None,
    seed: int,
    *,
    real: bool,
) -> Problem:
    """Return the problem with the L_v that the nodes of a fleet may know.

    Parameters
    ----------
    real
        Whether the nodes are real ones: then the noise of released scores is the operating
        system's.

    Examples
    --------
    >>> import levywalk as lw
    >>> problem = lw.homogeneous(5)
    >>> privacy = lw.Privacy(clip=1.0, noise=1.0)
    >>> known_scores(privacy, problem, lw.unif_rw(), 0.1, None, 0, real=False).smoothness
    array([1., 1., 1., 1., 1.])
    """
    if privacy is None:
        return problem
    from levywalk.privacy import Rescored, SystemNoise, check_scores, scored_problem

    check_scores(privacy, design, step_size)
    _check_stop(privacy, stop)
    if privacy.scores == "private":
        return Rescored(problem, np.ones(problem.n))
    return scored_problem(privacy, problem, seed, SystemNoise() if real else None)


def _check_stop(privacy: Privacy, stop: str | None) -> None:
    if privacy.scores == "private" and stop == "detector":
        raise InvalidParameter(
            "stop = 'detector' depends on the mean of L_v, a function of the nodes' data; use "
            + python_or_command("stop='steps'", "--stop steps")
            + ", or declare L_v to be no secret by scores=public"
        )


def check_real_privacy(
    privacy: Privacy | None, *, shared_key: bool, containers: bool = False, data_here: bool = True
) -> None:
    """Refuse what would leave the data of real nodes without the privacy that was asked for.

    Parameters
    ----------
    containers
        Whether the nodes are to run in containers.
    data_here
        Whether the nodes' data are known where the fleet is created.

    Examples
    --------
    >>> import levywalk as lw
    >>> private = lw.Privacy(clip=1.0, noise=1.0)
    >>> check_real_privacy(private, shared_key=True)
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: shared_key cannot be used with privacy on real nodes: ...
    """
    if privacy is None or not privacy.hides:
        return  # without noise nothing is private
    if shared_key:
        raise InvalidParameter(
            f"{python_or_command('shared_key', '--shared-key')} cannot be used with privacy "
            "on real nodes: it is for tests, and everybody who knows the seed could "
            "predict the walk; leave it out"
        )
    if containers:
        raise InvalidParameter(
            f"{python_or_command('deploy', '--for compose and --for kubernetes')} cannot "
            "be used with privacy: a container gets its configuration again at each start, so "
            "a node whose volume is lost could not tell that its budget was spent; use "
            f"{python_or_command('deploy=None', '--for systemd')}, or create the fleet without "
            "those files"
        )
    if privacy.scores == "released" and not data_here:
        raise InvalidParameter(
            "scores=released needs the nodes' data, which only their owners have; use "
            + python_or_command("lw.unif_rw()", "--design unif_rw")
            + ", or scores=public if L_v is no secret"
        )


def privacy_table(bound: BoundPrivacy) -> dict[str, Any]:
    """Return what a manifest says about privacy: all settings, and the cap of each node for all
    tokens together.

    Examples
    --------
    >>> import levywalk as lw
    >>> from levywalk.privacy import bind_privacy
    >>> bound = bind_privacy(lw.Privacy(clip=1.0, noise=20.0, budget=2.0), steps=500, tokens=1)
    >>> privacy_table(bound)["updates_at_cap"]
    100
    """
    return {**dataclasses.asdict(bound.privacy), _CAP: bound.whole_cap}


class PrivacyTerms:
    """What a manifest says about privacy, while it is read; empty if it says nothing."""

    def __init__(self, top: Fields, design: Walk) -> None:
        self.top, self.table, self.privacy = top, None, None
        if "privacy" not in top:
            return
        from levywalk.privacy import Privacy, check_scores

        names = [field.name for field in dataclasses.fields(Privacy)]
        self.table = table = top.table("privacy", needed=(*names, _CAP))
        given = {name: table.values[name] for name in names}
        self.privacy = privacy = table.make(lambda: Privacy(**given))
        table.make(check_scores, privacy, design, None)

    def fitted(self, update: Update, dim: int, n: int) -> Update:
        """Return the update as it is used under privacy; one that reveals more is refused."""
        from levywalk.privacy import fitted_update

        assert self.privacy is not None
        nobody: Any = SimpleNamespace(n=n, dim=dim)
        return self.top.make(fitted_update, self.privacy, update, nobody)

    def bound(self, steps: int, tokens: int) -> BoundPrivacy | None:
        """Return the privacy with the cap of each node, which this node's accountant must find as
        well; the tokens share it.
        """
        if self.privacy is None or self.table is None:
            return None
        from levywalk.privacy import bind_privacy

        checked = TABLE in self.top
        privacy = self.privacy
        found = self.table.make(lambda: bind_privacy(privacy, steps, tokens, checked=checked))
        if self.table.integer(_CAP, low=1, high=_MOST_STEPS * tokens) != found.whole_cap:
            raise self.table.bad(
                _CAP, f"{found.whole_cap}, the number of updates that this node's accountant allows"
            )
        return found

    def check(self, *, shared_key: bool, stop: str, mean_smoothness: float) -> None:
        """Refuse a manifest under which this node's data would not have that privacy."""
        if self.privacy is None:
            return
        privacy = self.privacy
        self.top.make(lambda: check_real_privacy(privacy, shared_key=shared_key))
        self.top.make(_check_stop, privacy, stop)
        if privacy.scores == "private" and mean_smoothness != 1.0:
            raise InvalidParameter(
                f"{self.top.source}: problem.mean_smoothness must be 1.0 under privacy with "
                f"private scores, because it is a function of the data, got {mean_smoothness:g}; "
                "make the fleet again with levywalk fleet init"
            )
