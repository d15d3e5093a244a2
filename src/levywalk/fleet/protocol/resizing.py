"""How a node learns that the fleet has grown, and uses its new size."""

from __future__ import annotations

from levywalk.fleet.protocol.certificate import OPERATOR
from levywalk.fleet.protocol.events import Resize
from levywalk.fleet.protocol.fleet_size import UNKNOWN, FleetSize, refuses_size
from levywalk.fleet.protocol.messages import Sized
from levywalk.fleet.protocol.records import NewSize
from levywalk.fleet.protocol.revoking import Revoking
from levywalk.fleet.protocol.token import Token


class Resizing(Revoking):
    """What a node does with the operator's signed order about the number of nodes."""

    def _use_size(self) -> None:
        """Use the size that is on the disk."""
        if self.disk.size is not None:
            self.site.resize(self.disk.size)

    @property
    def _size(self) -> FleetSize:
        return UNKNOWN if self.disk.size is None else self.disk.size

    def _resize(self, event: Resize, now: float) -> None:
        """The operator says how many nodes the fleet has."""
        self._sized(OPERATOR, Sized(event.size), now)

    def _sized(self, sender: int, message: Sized, now: float) -> None:
        """Keep a later version and tell the neighbours; answer an older one with the known one."""
        size, known = message.size, self._size
        if size.version <= known.version:
            if size.version < known.version and sender != OPERATOR:
                self._send(sender, Sized(known))
            return
        method = self.published.method
        nodes = method.n + self.published.idle
        why = refuses_size(size, nodes, self.terms.run, self.signer)
        if why is not None:
            self._record("refused", sender=sender, why=why)
            return
        self._put("size", size)
        self._use_size()
        self._look()
        self._record("size", version=size.version, nodes=size.nodes)
        for u in self.neighbours:
            self._send(u, message)
        self._announce(now)  # the scores may have changed

    def _tell_size(self, u: int) -> None:
        """Tell a neighbour how many nodes the fleet has, if it has grown."""
        if self.disk.size is not None:
            self._send(u, Sized(self.disk.size))

    def _lacks_size(self, sender: int, token: Token) -> bool:
        """Return whether a token was updated for a size that is not known here. The sender is then
        asked for it, and sends the token again.
        """
        if token.size <= self._size.version:
            return False
        self._send(sender, Sized(self._size))
        return True

    def _with_size(self, token: Token) -> Token:
        """Return the token as this visit uses it: with the size that is known here."""
        size = self.disk.size
        if size is None or token.size == size.version:
            return token
        self._lines.append(NewSize(token.epoch, token.step, token.hops, *size[:3]))
        return token._replace(size=size.version)
