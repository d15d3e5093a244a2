"""Whom a node accepts at the other end of a connection, and whose signatures it can check.

The authority's signature on a certificate is not enough. A neighbour must have the keys that the
node file names, or those that its earlier keys have signed (`fleet rotate`), and it must not be
revoked. The certificate of a node elsewhere comes with the messages that depend on its signature;
it is checked once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

from levywalk.errors import LevywalkError
from levywalk.fleet.identity.certificates import key_fingerprint, key_fingerprints
from levywalk.fleet.identity.node_identity import Identity
from levywalk.fleet.protocol.messages import Message
from levywalk.fleet.protocol.tensors import Malformed
from levywalk.fleet.runtime.vouching import signers_needed, split_certificates
from levywalk.fleet.setup.node_file import Peer


class Stranger(LevywalkError):
    """The other end is not allowed to connect."""


class RevokedPeer(Stranger):
    """The other end is a neighbour that the operator has revoked."""

    def __init__(self, node: int) -> None:
        super().__init__(f"node {node} was revoked by the operator")
        self.node = node


class KnownNodes:
    """The certificates that a node knows, each checked once.

    Parameters
    ----------
    identity
        The node's own.
    peers
        Its neighbours, by id.
    known
        Certificates (DER) of nodes that are known already; ``learned`` is called with new ones.
    """

    def __init__(
        self,
        identity: Identity,
        peers: Mapping[int, Peer],
        known: Mapping[int, bytes],
        learned: Callable[[int, bytes], None] | None,
    ) -> None:
        self._identity, self._peers = identity, peers
        self.barred: frozenset[int] = frozenset()  # nodes that were revoked
        self._certificates: dict[int, bytes] = {}
        self._checked: set[bytes] = set()
        self.take_own()
        self._learned: Callable[[int, bytes], None] | None = None
        for node, der in known.items():
            with suppress(LevywalkError):  # expired, or of earlier keys: it will send its new one
                self.learn(node, der)
        self._learned = learned

    @property
    def own(self) -> bytes:
        """The node's own certificate, the present one."""
        return self._certificates[self._identity.node]

    def take_own(self) -> None:
        """Use the identity's present certificate."""
        own = self._identity.certificate.public_bytes(Encoding.DER)
        self._certificates[self._identity.node] = own
        self._checked.add(own)

    def bar(self, nodes: Collection[int]) -> None:
        """Accept these nodes no more: the operator has revoked them."""
        self.barred = frozenset(nodes)

    def vouching(self, message: Message) -> bytes:
        """Return the certificates of the nodes whose signatures a message depends on, because the
        receiver may not know them.
        """
        return b"".join(self._certificates.get(v, b"") for v in signers_needed(message))

    def learn(self, node: int, der: bytes) -> None:
        """Check a certificate once, and remember the node's signing key."""
        if der in self._checked and self._certificates.get(node) == der:
            return
        certificate = certificate_of(node, der)
        found = self._identity.peer_id(certificate)
        if found != node:
            raise Malformed(f"a certificate of node {node} was expected, got one of node {found}")
        if node in self._peers:
            self.check(self._peers[node], certificate)
        self._identity.learn(certificate)
        self._certificates[node] = der
        self._checked.add(der)
        if self._learned is not None:
            self._learned(node, der)

    def learn_signers(self, message: Message, certificates: bytes) -> None:
        """Learn the certificates that have come with a message: those of the nodes whose signatures
        it depends on, and no others.
        """
        needed = signers_needed(message)
        if not needed:
            raise Malformed(f"a {type(message).__name__} does not come with a certificate")
        if len(needed) == 1 and self._certificates.get(needed[0]) == certificates:
            return  # as almost always
        for der in split_certificates(certificates):
            whose = self._whose(der, needed)
            if not self._is_earlier(whose, der):
                self.learn(whose, der)

    def check(self, peer: Peer, certificate: x509.Certificate) -> None:
        """Raise `Stranger` if a neighbour's certificate must not be accepted."""
        if peer.id in self.barred:
            raise RevokedPeer(peer.id)
        accepted = key_fingerprints(certificate)
        if self._identity.is_earlier(certificate):
            raise Stranger(
                f"node {peer.id} has new keys, and this certificate is of earlier ones: it must "
                "use those that its node file names"
            )
        known = self._certificates.get(peer.id)
        pinned = {peer.fingerprint}
        if known is not None:
            pinned.add(key_fingerprint(certificate_of(peer.id, known)))
        if not pinned & set(accepted):
            raise Stranger(
                f"node {peer.id} has keys with the fingerprint {accepted[0]}, but the node file of "
                f"node {self._identity.node} says {peer.fingerprint}: if the node has new keys, "
                "change the node file"
            )

    def _whose(self, der: bytes, needed: tuple[int, ...]) -> int:
        """Return which of the needed nodes a certificate belongs to; the first one if it belongs
        to none, which `learn` refuses.
        """
        for node in needed:
            if self._certificates.get(node) == der:
                return node
        found = self._identity.peer_id(certificate_of(needed[0], der)) if len(needed) > 1 else -1
        return found if found in needed else needed[0]

    def _is_earlier(self, node: int, der: bytes) -> bool:
        """Return whether a certificate is of keys that a node had before: those who have not heard
        of its new keys send it, and the signatures can be checked with the present certificate.
        """
        if self._certificates.get(node) in (None, der):
            return False
        return self._identity.is_earlier(certificate_of(node, der))


def certificate_of(node: int, der: bytes) -> x509.Certificate:
    """Read a certificate, which is expected to be of that node."""
    try:
        return x509.load_der_x509_certificate(der)
    except (ValueError, x509.InvalidVersion) as error:
        raise Malformed(f"a certificate of node {node} cannot be read: {error}") from None
