"""The identity of one node: its keys, its certificate, its fleet's authority, and the nodes that it
knows.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from levywalk.fleet.identity.certificates import (
    NEW_AUTHORITY,
    CertificateFacts,
    check_date,
    check_node,
    fingerprint,
    fleet_of,
    key_fingerprint,
    key_fingerprints,
    parse,
    signed_by,
    utc,
)
from levywalk.fleet.identity.errors import WrongKey
from levywalk.fleet.identity.key_files import (
    CA_CERTIFICATE,
    CA_KEY,
    NODE_CERTIFICATE,
    NODE_KEY,
    certificate_pem,
    ed25519_key,
    p256_key,
    pem_blocks,
    private_pem,
    public_der,
    read_small,
)
from levywalk.fleet.identity.library import (
    Ed25519PrivateKey,
    Ed25519PublicKey,
    EllipticCurvePrivateKey,
    Encoding,
    PublicFormat,
    x509,
)
from levywalk.fleet.identity.signing import Ed25519
from levywalk.fleet.protocol.certificate import OPERATOR

# gRPC also accepts TLS 1.2, and Python has no option against that. This cipher suite of TLS 1.2
# needs an RSA certificate, which no fleet has, and the suites of TLS 1.3 cannot be configured. So
# with this in the environment, before gRPC is first used, only TLS 1.3 is left. (With names of TLS
# 1.3 suites alone gRPC would not start.)
TLS_1_3_ONLY = {"GRPC_SSL_CIPHER_SUITES": "ECDHE-RSA-AES128-GCM-SHA256"}
_REMEMBERED = 1024  # number of checked certificates that are remembered


def read_node_key(path: Path) -> tuple[EllipticCurvePrivateKey, Ed25519PrivateKey]:
    """Return the two private keys of a node; other users must not be able to read them."""
    tls, signing = pem_blocks(
        read_small(path, private=True), str(path), "PRIVATE KEY", "PRIVATE KEY"
    )
    return p256_key(tls, str(path)), ed25519_key(signing, str(path))


def check_pair(
    private: EllipticCurvePrivateKey,
    signer: Ed25519PrivateKey,
    certificate: x509.Certificate,
    about: CertificateFacts,
    key: str | Path,
    source: str | Path,
) -> None:
    """Raise an error unless two private keys belong to a certificate."""
    mine = public_der(private), signer.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
    if mine != (public_der(certificate), about.signing):
        raise WrongKey(
            f"{key} does not belong to {source}, which is of node {about.node}: "
            "put the two files of one node beside each other, or issue new ones"
        )


def _former(about: CertificateFacts) -> tuple[Ed25519PublicKey, ...]:
    """Return the signing keys that a node had before; the authority has confirmed them."""
    return tuple(
        Ed25519PublicKey.from_public_bytes(keys.signing) for keys in about.rotations.former
    )


def _order(about: CertificateFacts, certificate: x509.Certificate) -> tuple[int, datetime]:
    """Return what is higher for the later one of two certificates of a node."""
    return about.rotations.number, certificate.not_valid_before_utc


class Tls(NamedTuple):
    """What TLS needs, as PEM text."""

    key: bytes
    certificate: bytes
    authority: bytes


class Identity:
    """The identity of one node: its keys, its certificate, its fleet's authority, and the nodes
    that it knows.
    """

    def __init__(
        self,
        about: CertificateFacts,
        tls: EllipticCurvePrivateKey,
        signing: Ed25519PrivateKey,
        certificate: x509.Certificate,
        authority: x509.Certificate,
    ) -> None:
        self.node, self.fleet, self.addresses = about.node, about.fleet, about.addresses
        self.certificate, self.authority = certificate, authority
        self._tls, self._signing = tls, signing
        self._public = {about.node: signing.public_key()}
        self._former = {about.node: _former(about)}
        self._issued = {about.node: _order(about, certificate)}
        self._seen: dict[bytes, tuple[int, datetime, datetime]] = {}

    def __repr__(self) -> str:
        return (
            f"Identity(node={self.node}, fleet={self.fleet!r}, "
            f"fingerprint={fingerprint(self.certificate)!r})"
        )

    @classmethod
    def open(
        cls, folder: str | Path, *, node: int | None = None, now: datetime | None = None
    ) -> Identity:
        """Load the files that `Authority.issue` has written to a folder."""
        at = Path(folder)
        return cls.load(
            at / NODE_KEY, at / NODE_CERTIFICATE, at / CA_CERTIFICATE, node=node, now=now
        )

    @classmethod
    def load(
        cls,
        key: str | Path,
        certificate: str | Path,
        authority: str | Path,
        *,
        node: int | None = None,
        now: datetime | None = None,
    ) -> Identity:
        """Read an identity and check all of it; warn if a certificate expires soon.

        Parameters
        ----------
        node
            The node that it must belong to, as the node file says; None for any.
        """
        source = str(certificate)
        ca = parse(read_small(Path(authority)), str(authority))
        own = parse(read_small(Path(certificate)), source)
        about = signed_by(ca, own, source)
        fleet = fleet_of(ca, str(authority))
        check_node(about, fleet, node, source)
        renew = (
            f"renew it (levywalk fleet renew) where the fleet's {CA_KEY} is, "
            "and copy the new file here"
        )
        check_date(own, source, f"the certificate of node {about.node}", renew, now)
        check_date(ca, str(authority), f"the authority of fleet {fleet}", NEW_AUTHORITY, now)
        private, signer = read_node_key(Path(key))
        check_pair(private, signer, own, about, key, source)
        return cls(about, private, signer, own, ca)

    @property
    def rotation(self) -> int:
        """How often its keys were replaced."""
        return self._issued[self.node][0]

    def tls(self) -> Tls:
        """Return the files from which gRPC makes its credentials."""
        return Tls(
            private_pem(self._tls),
            certificate_pem(self.certificate),
            certificate_pem(self.authority),
        )

    def signer(self, operator: bytes | None = None) -> Ed25519:
        """Return this node's `Signer`.

        It accepts signatures of this node, of all nodes that are known, now or later, and of the
        operator, if its public key is given.
        """
        if operator is not None:
            self._public[OPERATOR] = Ed25519PublicKey.from_public_bytes(operator)
        return Ed25519(self._signing, self._public, self._former)

    def learn(
        self, certificate: x509.Certificate | bytes | str, *, now: datetime | None = None
    ) -> int:
        """Check a node's certificate and remember its signing key; return its id.

        A node that got new keys has another signing key. The one of the highest rotation that was
        issued last is accepted, and signatures of the keys before it in its certificate. An earlier
        certificate, whose key may have been stolen, is refused.
        """
        found = parse(certificate)
        about = self._check(found, now)
        order = _order(about, found)
        issued = self._issued.get(about.node, order)
        key = Ed25519PublicKey.from_public_bytes(about.signing)
        other = self._public.get(about.node, key) != key
        if other and (about.node == self.node or order <= issued):
            raise WrongKey(
                f"node {about.node} is known with another signing key, issued later than that of "
                "certificate "
                f"{fingerprint(found)}: use the files that were issued last"
            )
        self._public[about.node] = key
        self._issued[about.node] = max(issued, order)
        if order >= issued:
            self._former[about.node] = _former(about)
        return about.node

    def is_earlier(self, certificate: x509.Certificate, *, now: datetime | None = None) -> bool:
        """Return whether a certificate is of keys that a node had before, as its present
        certificate says: there is nothing to learn from it.
        """
        about = self._check(certificate, now)
        key = Ed25519PublicKey.from_public_bytes(about.signing)
        return key in self._former.get(about.node, ())

    def verify_present(self, node: int, statement: bytes, signature: bytes) -> bool:
        """Return whether a node has signed a statement with its present key."""
        return Ed25519(self._signing, self._public).verify(node, statement, signature)

    def adopt(self, other: Identity) -> None:
        """Take the new keys or the new certificate of this node.

        Raises
        ------
        WrongKey
            If they are not of this node, or the present keys have not signed them.
        """
        here, there = (
            (one.node, one.fleet, one.authority.public_bytes(Encoding.DER)) for one in (self, other)
        )
        if here != there:
            raise WrongKey(f"the new keys must be of node {self.node} of fleet {self.fleet}")
        if key_fingerprint(self.certificate) not in key_fingerprints(other.certificate):
            raise WrongKey(
                f"the new keys of node {self.node} were not signed by its present ones: make them "
                "with levywalk fleet rotate"
            )
        self.certificate, self.addresses = other.certificate, other.addresses
        self._tls, self._signing = other._tls, other._signing
        self._public[self.node] = other._public[self.node]
        self._former[self.node] = other._former[self.node]
        self._issued[self.node] = other._issued[self.node]

    def peer_id(
        self, certificate: x509.Certificate | bytes | str, *, now: datetime | None = None
    ) -> int:
        """Return the id of the node that a certificate belongs to, if the authority has signed it
        and it is valid now. The result is remembered, because gRPC gives the same PEM text with
        every call (``context.auth_context()["x509_pem_cert"][0]``).
        """
        if isinstance(certificate, x509.Certificate):
            return self._check(certificate, now).node
        pem = certificate.encode(errors="replace") if isinstance(certificate, str) else certificate
        seen = self._seen.get(pem)
        if seen is not None and seen[1] <= utc(now) <= seen[2]:
            return seen[0]
        found = parse(pem)
        node = self._check(found, now).node
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[pem] = (node, found.not_valid_before_utc, found.not_valid_after_utc)
        return node

    def _check(self, certificate: x509.Certificate, now: datetime | None) -> CertificateFacts:
        about = signed_by(self.authority, certificate, "a peer's certificate")
        check_node(about, self.fleet, None, "a peer's certificate")
        who = f"the certificate of node {about.node}"
        check_date(certificate, "peer", who, "renew it (levywalk fleet renew)", now, warn=False)
        return about
