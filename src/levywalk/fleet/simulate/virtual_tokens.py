"""A virtual fleet with several tokens: the same machines, faults and times for all of them.

Tokens share nothing but the nodes, so each has a virtual fleet of its own. They go forward together
in virtual time, and a fault happens to all of them at once, as it does where one process has the
state machines of all tokens.
"""

from __future__ import annotations

import heapq
from itertools import count
from typing import Any

from levywalk.fleet.setup.build import Fleet
from levywalk.fleet.simulate.virtual import PlannedFault, VirtualFleet


class VirtualTokens:
    """All nodes of a fleet in one process, for each of its tokens.

    Parameters
    ----------
    fleet
        What determines the walks.
    settings
        Further arguments of `VirtualFleet`.

    Attributes
    ----------
    each
        The virtual fleet of each token.

    Examples
    --------
    >>> import numpy as np
    >>> import levywalk as lw
    >>> ring, problem = lw.ring(12), lw.homogeneous(12)
    >>> given = {"steps": 200, "step_size": "theory", "tokens": 2}
    >>> virtual = VirtualTokens(Fleet.of(ring, problem, lw.mhlj(), **given))
    >>> virtual.run()
    True
    >>> mean = np.mean([one.final.model for one in virtual.each], axis=0)
    >>> trace = lw.run(ring, problem, lw.mhlj(), backend="reference", **given)
    >>> bool((mean == trace.model[0]).all())
    True
    """

    def __init__(self, fleet: Fleet, **settings: Any) -> None:
        self.fleet = fleet
        self.each = [VirtualFleet(fleet.of_token(k), **settings) for k in range(fleet.tokens)]
        self._faults: list[tuple[float, int, PlannedFault]] = []
        self._order = count()

    def at(self, time: float, fault: PlannedFault) -> None:
        """Plan a fault for that time; a holder or guardian is that of the first token."""
        if len(self.each) == 1:
            self.each[0].at(time, fault)
            return
        self.each[0].check_fault(fault)
        heapq.heappush(self._faults, (time, next(self._order), fault))

    def run(self, *, patience: float | None = None) -> bool:
        """Run until all running nodes know the end of all walks (True), or nothing has happened for
        ``patience`` seconds (False), by default 10 ``dead_after``.
        """
        if len(self.each) == 1:
            return self.each[0].run(patience=patience)
        wait = 10.0 * self.fleet.terms.dead_after if patience is None else patience
        while going := [one for one in self.each if one.expects_faults or not one.over]:
            waits = bool(self._faults)
            able = [one for one in going if waits or one.expects_faults or not one.rests(wait)]
            if not able:
                return False
            first = min(able, key=lambda one: one.next_at)
            if self._faults and self._faults[0][0] <= first.next_at:
                self._strike(*heapq.heappop(self._faults))
            else:
                first.step()
        for time, _, fault in sorted(self._faults):
            for one in self.each:
                one.at(time, fault)  # too late, and reported as such
        return True

    def _strike(self, time: float, _: int, fault: PlannedFault) -> None:
        """Let a fault happen at the same node for all tokens."""
        who = self.each[0].whose(fault.node)
        for one in self.each:
            one.at(time, fault if who is None else fault._replace(node=who))
