"""What a node stores about other nodes beside its state: certificates and incarnations.

With the certificates a node that has started again can prove at once who a guardian was. By the
incarnation of a neighbour's state folder it sees that the neighbour has lost its disk. Both are
sent again by their owners, so that a file that cannot be written costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from levywalk.whole_files import write_whole

PEERS = "peers"


class PeerFiles:
    """The folder with these files, one of each kind for each node.

    Parameters
    ----------
    state
        The node's state folder.
    log
        Called with what could not be written: the path, and why.
    """

    def __init__(self, state: Path, log: Callable[[Path, str], None]) -> None:
        self._folder, self._log = state / PEERS, log
        self._folder.mkdir(exist_ok=True, mode=0o700)

    def certificates(self) -> dict[int, bytes]:
        """Return the stored certificates of other nodes."""
        found = {}
        for path in sorted(self._folder.glob("*.der")):
            if path.stem.isdecimal():
                found[int(path.stem)] = path.read_bytes()
        return found

    def keep_certificate(self, node: int, der: bytes) -> None:
        """Store the certificate of a neighbour, or of another node that was guardian.

        After a restart this node may have to send a link that such a node has signed.
        """
        path = self._folder / f"{node}.der"
        if not (path.exists() and path.read_bytes() == der):
            self._keep(path, der)

    def incarnation(self, node: int) -> bytes | None:
        """Return the incarnation that a neighbour had when it was last connected."""
        path = self._folder / f"{node}.life"
        return path.read_bytes() if path.exists() else None

    def keep_incarnation(self, node: int, incarnation: bytes) -> None:
        """Store the incarnation of a neighbour."""
        self._keep(self._folder / f"{node}.life", incarnation)

    def _keep(self, path: Path, content: bytes) -> None:
        try:
            write_whole(path, content, 0o600)
        except OSError as error:
            self._log(path, str(error.strerror))
