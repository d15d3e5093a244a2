"""Who is who in a fleet: its certificate authority, and each node's keys and certificate, for mutual TLS.

The authority's folder, on the operator's machine alone:

=====================  ==============================================================================================
``ca.key``             the authority's private key (P-256), readable by its owner alone; whoever has it can join
``ca.crt``             its certificate, which every node has
``node-3/``            what `Authority.issue` made for node 3, to be moved to its machine
=====================  ==============================================================================================

A node's folder:

=====================  ==============================================================================================
``node.key``           two private keys, readable by the owner alone: P-256 for TLS (gRPC's BoringSSL refuses Ed25519
                       certificates), and Ed25519, with which the node signs hand-offs
``node.crt``           the certificate: the node's id and fleet, its addresses, both public keys
``ca.crt``             the fleet's authority
=====================  ==============================================================================================

The authority signs the certificate and so vouches for both public keys. Whoever has the certificate of a node can check
that node's signatures (`Identity.learn`). Beside its addresses a certificate has a name made of the node's id
(`server_name`): a caller that asks TLS for that name knows that it speaks to that node, at whatever address.

Nothing here is encrypted at rest, and nothing is revoked: an operator who no longer trusts a key takes its fingerprint
out of the neighbours' node files.
"""

from __future__ import annotations

import hashlib
import ipaddress
import os
import re
import stat
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from levywalk import checks
from levywalk.durable import sync_folder, write_whole
from levywalk.errors import InvalidParameter, LevywalkError, MissingFile
from levywalk.fleet.identity.signing import Ed25519

try:
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import (
        SECP256R1,
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID
except ImportError:
    raise InvalidParameter(
        "keys and certificates need the package cryptography: pip install 'levywalk[fleet]'"
    ) from None

CA_KEY, CA_CERTIFICATE, NODE_KEY, NODE_CERTIFICATE = "ca.key", "ca.crt", "node.key", "node.crt"
AUTHORITY_DAYS, NODE_DAYS = 3650, 365
LONGEST = 7300  # days; nothing lives longer
BACKDATED = timedelta(days=1)  # a clock that is a time zone off is no reason to refuse a new node
WARN = timedelta(days=30)  # before the end, or in the last third of a short life
HIGHEST_NODE = 2**31 - 1

# gRPC takes TLS 1.2 too, and Python cannot tell it not to. This suite needs an RSA certificate, which no fleet has, and
# the suites of TLS 1.3 are not configurable: so with this in the environment, before gRPC is first used, 1.3 is all
# that is left. (Names of TLS 1.3 suites alone would make gRPC refuse to start.)
TLS_1_3_ONLY = {"GRPC_SSL_CIPHER_SUITES": "ECDHE-RSA-AES128-GCM-SHA256"}

_NEW_AUTHORITY = "create a new one and issue all nodes again"
_LARGEST = 64 * 1024  # bytes of a file or certificate that is looked at
_REMEMBERED = 1024  # peers' certificates that need no second check
_FLEET = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_URI = re.compile(rf"levywalk://({_FLEET.pattern})/node/(0|[1-9][0-9]{{0,9}})")
_HOST = re.compile(r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*")
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----\s*", re.DOTALL)
_SIGNING_KEY = x509.ObjectIdentifier("2.25.186253111067636075847772241569157370571")  # of a random UUID: ours alone
_OCTETS = b"\x04\x20"  # DER: a string of 32 bytes
_BAD = (  # whatever cryptography says of bytes that are no certificate, or of one with odd contents
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
    x509.InvalidVersion,
)


class IdentityError(LevywalkError, ValueError):
    """A key or certificate that cannot be used."""


class KeyExposed(IdentityError):
    """A private key that others than its owner may read."""


class KeyExists(IdentityError):
    """A key is there already; it is never overwritten."""


class NotKeyOrCertificate(IdentityError):
    """A file or message that is no key or certificate, or a part of one."""


class WrongKey(IdentityError):
    """A private key that does not belong to the certificate beside it, or a second signing key of a known node."""


class OutOfDate(IdentityError):
    """A certificate that has expired, or is not valid yet."""


class Untrusted(IdentityError):
    """A certificate that the fleet's authority has not signed, or not for a node."""


class WrongNode(IdentityError):
    """A certificate of another node, or of a node of another fleet."""


class ExpiryWarning(UserWarning):
    """A certificate will expire soon; the message says when and what to do."""


class About(NamedTuple):
    """What a node's certificate says."""

    fleet: str
    node: int
    addresses: tuple[str, ...]
    signing: bytes  # the public Ed25519 key


class Tls(NamedTuple):
    """What TLS needs, as PEM."""

    key: bytes
    certificate: bytes
    authority: bytes


def server_name(node: int) -> str:
    """Return the name in a node's certificate whatever its address; ``grpc.ssl_target_name_override`` asks for it.

    Examples
    --------
    >>> server_name(3)
    'node-3.levywalk.internal'
    """
    return f"node-{node}.levywalk.internal"


def fingerprint(certificate: x509.Certificate | bytes | str) -> str:
    """Return the SHA-256 of a certificate's DER in hex, as ``openssl x509 -fingerprint -sha256`` does.

    It changes when the certificate is renewed; `key_fingerprint` does not.
    """
    return hashlib.sha256(parse(certificate).public_bytes(Encoding.DER)).hexdigest()


def key_fingerprint(certificate: x509.Certificate | bytes | str) -> str:
    """Return the SHA-256 of a node's two public keys in hex: what neighbours write down, as it outlives a renewal."""
    found = parse(certificate)
    with _clear("the certificate"):
        return hashlib.sha256(_public_der(found) + _signing_key(found)).hexdigest()


def parse(certificate: x509.Certificate | bytes | str, source: str = "the certificate") -> x509.Certificate:
    """Return the one certificate in some PEM text. Nothing is said of who signed it."""
    if isinstance(certificate, x509.Certificate):
        return certificate
    (pem,) = _blocks(
        certificate.encode(errors="replace") if isinstance(certificate, str) else certificate, source, "CERTIFICATE"
    )
    with _clear(source):
        return x509.load_pem_x509_certificate(pem)


class Authority:
    """A fleet's certificate authority: `create` it once, `load` it to issue and renew."""

    def __init__(self, folder: Path, fleet: str, key: EllipticCurvePrivateKey, certificate: x509.Certificate) -> None:
        self.folder, self.fleet, self.certificate = folder, fleet, certificate
        self._key = key

    def __repr__(self) -> str:
        return f"Authority({str(self.folder)!r}, {self.fleet!r})"

    @classmethod
    def create(
        cls, folder: str | Path, fleet_name: str, days: int = AUTHORITY_DAYS, *, now: datetime | None = None
    ) -> Authority:
        """Make the key and certificate of a new fleet in a folder that has none."""
        folder = Path(folder)
        if not _FLEET.fullmatch(fleet_name):
            raise InvalidParameter(
                f"fleet_name must be 1 to 32 of a-z, 0-9 and '-', not beginning or ending with '-', got {fleet_name!r}"
            )
        begin, end = _life(days, now)
        key = generate_private_key(SECP256R1())
        name = _name(fleet_name, f"levywalk {fleet_name} authority")
        usage = _usage(key_cert_sign=True, crl_sign=True)
        certificate = (
            _builder(name, name, key.public_key(), begin, end)
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .add_extension(usage, critical=True)
            .sign(key, hashes.SHA256())
        )
        _make_folder(folder)
        _write_private(
            folder / CA_KEY, _private_pem(key), "load it with Authority.load, or give the new fleet a folder of its own"
        )
        _write_public(folder / CA_CERTIFICATE, _pem(certificate))
        return cls(folder, fleet_name, key, certificate)

    @classmethod
    def load(cls, folder: str | Path, *, now: datetime | None = None) -> Authority:
        """Read an authority; its key must be its owner's alone, belong to the certificate, and be in date."""
        folder = Path(folder)
        where = folder / CA_CERTIFICATE
        certificate = parse(_read(where), str(where))
        fleet = _fleet_of(certificate, str(where))
        _in_date(
            certificate,
            str(where),
            f"the authority of fleet {fleet}",
            _NEW_AUTHORITY,
            now,
        )
        source = str(folder / CA_KEY)
        (pem,) = _blocks(_read(folder / CA_KEY, private=True), source, "PRIVATE KEY")
        key = _p256(pem, source)
        if _public_der(key) != _public_der(certificate):
            raise WrongKey(f"{source} does not belong to {where}: put the files of one authority beside each other")
        return cls(folder, fleet, key, certificate)

    def issue(
        self,
        node_id: int,
        addresses: Iterable[str],
        days: int = NODE_DAYS,
        *,
        folder: str | Path | None = None,
        now: datetime | None = None,
    ) -> Path:
        """Make a node's keys and certificate; return their folder.

        Parameters
        ----------
        addresses
            Where others reach it: names and IP addresses, with or without a port, which is not part of a certificate.
        folder
            A folder without a key; without it ``node-<id>`` in the authority's folder.
        """
        node = checks.integer("node_id", node_id, low=0, high=HIGHEST_NODE)
        folder = self.folder / f"node-{node}" if folder is None else Path(folder)
        tls, signing = generate_private_key(SECP256R1()), Ed25519PrivateKey.generate()
        public = signing.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        certificate = self._certify(tls.public_key(), About(self.fleet, node, _hosts(addresses), public), days, now)
        _make_folder(folder)
        remedy = f"renew {NODE_CERTIFICATE} (levywalk fleet renew)"
        if not (folder / NODE_CERTIFICATE).exists():
            remedy = f"an issue was interrupted: remove {NODE_KEY} and issue again"
        _write_private(folder / NODE_KEY, _private_pem(tls) + _private_pem(signing), remedy)
        _write_public(folder / CA_CERTIFICATE, _pem(self.certificate))
        _write_public(folder / NODE_CERTIFICATE, _pem(certificate))
        return folder

    def renew(
        self,
        node_id: int,
        addresses: Iterable[str] | None = None,
        days: int = NODE_DAYS,
        *,
        folder: str | Path | None = None,
        now: datetime | None = None,
    ) -> Path:
        """Replace a node's certificate, also an expired one, by one for the same keys; return its path.

        Only the old certificate is needed, not the node's keys, which may be on its own machine.
        Without ``addresses`` they stay as they are.
        """
        node = checks.integer("node_id", node_id, low=0, high=HIGHEST_NODE)
        path = (self.folder / f"node-{node}" if folder is None else Path(folder)) / NODE_CERTIFICATE
        old = parse(_read(path), str(path))
        about = _signed_by(self.certificate, old, str(path))
        _is_of(about, self.fleet, node, str(path))
        if addresses is not None:
            about = about._replace(addresses=_hosts(addresses))
        key = old.public_key()
        assert isinstance(key, EllipticCurvePublicKey)  # `_signed_by` has looked
        new = self._certify(key, about, days, now)
        _write_public(path.with_name(CA_CERTIFICATE), _pem(self.certificate))
        _write_public(path, _pem(new))
        return path

    def _certify(self, key: EllipticCurvePublicKey, about: About, days: int, now: datetime | None) -> x509.Certificate:
        begin, end = _life(days, now)
        end = min(end, self.certificate.not_valid_after_utc)  # beyond that nobody would believe it
        if end <= begin + BACKDATED:
            raise OutOfDate(
                f"{self.folder / CA_CERTIFICATE}: the authority of fleet {self.fleet} ends on {_date(end)}: "
                f"{_NEW_AUTHORITY}"
            )
        names: list[x509.GeneralName] = [
            x509.UniformResourceIdentifier(f"levywalk://{about.fleet}/node/{about.node}"),
            x509.DNSName(server_name(about.node)),
        ]
        for host in about.addresses:
            ip = _ip(host)
            names.append(x509.DNSName(host) if ip is None else x509.IPAddress(ip))
        subject = _name(about.fleet, f"levywalk {about.fleet} node {about.node}")
        both = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        authority_key = self._key.public_key()
        return (
            _builder(subject, self.certificate.subject, key, begin, end)
            .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
            .add_extension(_usage(digital_signature=True), critical=True)
            .add_extension(x509.ExtendedKeyUsage(both), critical=False)
            .add_extension(x509.SubjectAlternativeName(names), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(authority_key), critical=False)
            .add_extension(x509.UnrecognizedExtension(_SIGNING_KEY, _OCTETS + about.signing), critical=False)
            .sign(self._key, hashes.SHA256())
        )


class Identity:
    """What one node is: its keys, its certificate, its fleet's authority; and the nodes that it has learned of."""

    def __init__(
        self,
        about: About,
        tls: EllipticCurvePrivateKey,
        signing: Ed25519PrivateKey,
        certificate: x509.Certificate,
        authority: x509.Certificate,
    ) -> None:
        self.node, self.fleet, self.addresses = about.node, about.fleet, about.addresses
        self.certificate, self.authority = certificate, authority
        self._tls, self._signing = tls, signing
        self._public = {about.node: signing.public_key()}
        self._issued = {about.node: certificate.not_valid_before_utc}
        self._seen: dict[bytes, tuple[int, datetime, datetime]] = {}

    def __repr__(self) -> str:
        return f"Identity(node={self.node}, fleet={self.fleet!r}, fingerprint={fingerprint(self.certificate)!r})"

    @classmethod
    def open(cls, folder: str | Path, *, node: int | None = None, now: datetime | None = None) -> Identity:
        """Load what `Authority.issue` put into a folder."""
        at = Path(folder)
        return cls.load(at / NODE_KEY, at / NODE_CERTIFICATE, at / CA_CERTIFICATE, node=node, now=now)

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
        """Read an identity and check all of it; warn if a certificate ends soon.

        Parameters
        ----------
        node
            The node that it must be of, as the node file says; None for any.
        """
        source = str(certificate)
        ca = parse(_read(Path(authority)), str(authority))
        own = parse(_read(Path(certificate)), source)
        about = _signed_by(ca, own, source)
        fleet = _fleet_of(ca, str(authority))
        _is_of(about, fleet, node, source)
        renew = f"renew it (levywalk fleet renew) where the fleet's {CA_KEY} is, and copy the new file here"
        _in_date(own, source, f"the certificate of node {about.node}", renew, now)
        _in_date(ca, str(authority), f"the authority of fleet {fleet}", _NEW_AUTHORITY, now)
        tls, signing = _blocks(_read(Path(key), private=True), str(key), "PRIVATE KEY", "PRIVATE KEY")
        private, signer = _p256(tls, str(key)), _ed25519(signing, str(key))
        mine = _public_der(private), signer.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        if mine != (_public_der(own), about.signing):
            raise WrongKey(
                f"{key} does not belong to {source}, which is of node {about.node}: "
                "put the two files of one node beside each other, or issue it anew"
            )
        return cls(about, private, signer, own, ca)

    def tls(self) -> Tls:
        """Return what gRPC's credentials are made of."""
        return Tls(_private_pem(self._tls), _pem(self.certificate), _pem(self.authority))

    def signer(self) -> Ed25519:
        """Return this node's `protocol.Signer`: it believes this node and those that it learns of, now or later."""
        return Ed25519(self._signing, self._public)

    def learn(self, certificate: x509.Certificate | bytes | str, *, now: datetime | None = None) -> int:
        """Check a node's certificate and remember its signing key; return its id.

        A node that was issued anew has another signing key. The one that was issued last counts; an earlier one, which
        may have been stolen, is refused.
        """
        found = parse(certificate)
        about = self._check(found, now)
        issued = self._issued.get(about.node, found.not_valid_before_utc)
        key = Ed25519PublicKey.from_public_bytes(about.signing)
        other = self._public.get(about.node, key) != key
        if other and (about.node == self.node or found.not_valid_before_utc <= issued):
            raise WrongKey(
                f"node {about.node} is known with another signing key, issued later than that of certificate "
                f"{fingerprint(found)}: use the files that were issued last"
            )
        self._public[about.node], self._issued[about.node] = key, max(issued, found.not_valid_before_utc)
        return about.node

    def peer_id(self, certificate: x509.Certificate | bytes | str, *, now: datetime | None = None) -> int:
        """Return the id of the node whose certificate that is, if the authority says so and it is in date.

        Cheap when it is asked again of the same PEM, as gRPC gives it for every call
        (``context.auth_context()["x509_pem_cert"][0]``).
        """
        if isinstance(certificate, x509.Certificate):
            return self._check(certificate, now).node
        pem = certificate.encode(errors="replace") if isinstance(certificate, str) else certificate
        seen = self._seen.get(pem)
        if seen is not None and seen[1] <= _time(now) <= seen[2]:
            return seen[0]
        found = parse(pem)
        node = self._check(found, now).node
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen[pem] = (node, found.not_valid_before_utc, found.not_valid_after_utc)
        return node

    def _check(self, certificate: x509.Certificate, now: datetime | None) -> About:
        about = _signed_by(self.authority, certificate, "a peer's certificate")
        _is_of(about, self.fleet, None, "a peer's certificate")
        who = f"the certificate of node {about.node}"
        _in_date(certificate, "peer", who, "renew it (levywalk fleet renew)", now, warn=False)
        return about


# Certificates


def _name(fleet: str, common: str) -> x509.Name:
    return x509.Name(
        [x509.NameAttribute(NameOID.ORGANIZATION_NAME, fleet), x509.NameAttribute(NameOID.COMMON_NAME, common)]
    )


def _builder(
    subject: x509.Name, issuer: x509.Name, key: EllipticCurvePublicKey, begin: datetime, end: datetime
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key)
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
    )


def _usage(*, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=digital_signature,
        key_cert_sign=key_cert_sign,
        crl_sign=crl_sign,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _fleet_of(authority: x509.Certificate, source: str) -> str:
    """Return whose authority that is; it must have signed itself."""
    try:
        authority.verify_directly_issued_by(authority)
        limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
        (name,) = authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except (InvalidSignature, *_BAD):
        limits = None
    if limits is None or not limits.ca or not isinstance(name.value, str) or not _FLEET.fullmatch(name.value):
        raise Untrusted(f"{source} is not the certificate of a fleet's authority: copy {CA_CERTIFICATE} of the fleet")
    return name.value


def _signed_by(authority: x509.Certificate, certificate: x509.Certificate, source: str) -> About:
    """Return what a node's certificate says, having checked who says so; its contents are looked at only then."""
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *_BAD):
        raise Untrusted(
            f"{source} ({fingerprint(certificate)}) was not signed by this fleet's authority "
            f"({fingerprint(authority)}): use {CA_CERTIFICATE} and {NODE_CERTIFICATE} of one fleet"
        ) from None
    try:
        return _about(certificate)
    except _BAD as error:
        raise Untrusted(
            f"{source} ({fingerprint(certificate)}) is not a node's certificate ({error}): issue the node anew"
        ) from None


def _about(certificate: x509.Certificate) -> About:
    extensions = certificate.extensions
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("it is an authority's")
    usage = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= usage:
        raise ValueError("it is not for both ends of a connection")
    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("its key is not on P-256")
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = [_URI.fullmatch(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)]
    if len(uris) != 1 or uris[0] is None:
        raise ValueError("it names no node, or several")
    fleet, node = uris[0][1], int(uris[0][2])
    if node > HIGHEST_NODE:
        raise ValueError("it names an impossible node")
    hosts = [host for host in names.get_values_for_type(x509.DNSName) if host != server_name(node)]
    hosts += [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    return About(fleet, node, tuple(hosts), _signing_key(certificate))


def _signing_key(certificate: x509.Certificate) -> bytes:
    value = certificate.extensions.get_extension_for_oid(_SIGNING_KEY).value
    if not isinstance(value, x509.UnrecognizedExtension) or len(value.value) != 34 or value.value[:2] != _OCTETS:
        raise ValueError("its signing key is malformed")
    return value.value[2:]


def _is_of(about: About, fleet: str, node: int | None, source: str) -> None:
    if about.fleet != fleet:
        raise WrongNode(f"{source} is of fleet {about.fleet}, not {fleet}: use the files of one fleet")
    if node is not None and about.node != node:
        raise WrongNode(f"{source} is of node {about.node}, not {node}: use the key and certificate of node {node}")


# Time


def _time(now: datetime | None) -> datetime:
    if now is None:
        return datetime.now(UTC)
    if now.tzinfo is None:
        raise InvalidParameter(f"now must have a time zone, got {now!r}")
    return now.astimezone(UTC)


def _life(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    lasts = timedelta(days=checks.integer("days", days, low=1, high=LONGEST))
    at = _time(now).replace(microsecond=0)
    return at - BACKDATED, at + lasts


def _date(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M} UTC"


def _in_date(
    certificate: x509.Certificate, source: str, what: str, remedy: str, now: datetime | None, *, warn: bool = True
) -> None:
    at, begin, end = _time(now), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if at > end:
        raise OutOfDate(f"{source}: {what} expired on {_date(end)}, and it is {_date(at)} here: {remedy}")
    if at < begin:
        raise OutOfDate(
            f"{source}: {what} is valid from {_date(begin)}, and it is {_date(at)} here: set this machine's clock"
        )
    if warn and end - at < min(WARN, (end - begin) / 3):
        warnings.warn(f"{source}: {what} expires on {_date(end)}: {remedy}", ExpiryWarning, stacklevel=3)


# Addresses


def _ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _hosts(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return hosts without ports, each once.

    Examples
    --------
    >>> _hosts(["Node.example.org:7000", "[::1]:7000", "10.0.0.3", "::1"])
    ('node.example.org', '::1', '10.0.0.3')
    """
    if isinstance(addresses, str):
        raise InvalidParameter(f"addresses must be a list of host or host:port, got the text {addresses!r}")
    return tuple(dict.fromkeys(_host(address) for address in addresses))


def _host(address: str) -> str:
    host = address.strip().lower()
    ip = _ip(host)
    if ip is None:
        host = re.sub(r":[0-9]{1,5}\Z", "", host)
        ip = _ip(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    if ip is not None:
        if ip.is_unspecified:
            raise InvalidParameter(f"addresses must be where others reach the node, got {address!r}: name its host")
        if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None:
            raise InvalidParameter(f"addresses must not have a zone, which is one machine's own, got {address!r}")
        return str(ip)
    last = host.rpartition(".")[2]
    if not _HOST.fullmatch(host) or last.isdecimal() or host.endswith(".levywalk.internal"):
        raise InvalidParameter(f"addresses must be host or host:port, in ASCII, got {address!r}")
    return host


# Keys and files


@contextmanager
def _clear(source: str) -> Iterator[None]:
    """Say what is the matter with bytes that should be a key or certificate."""
    try:
        yield
    except _BAD as error:
        raise NotKeyOrCertificate(f"{source} is damaged ({error}): copy it again, or issue it anew") from None


def _blocks(text: bytes, source: str, *kinds: str) -> list[bytes]:
    """Return the PEM blocks of a text that has just these."""
    if len(text) > _LARGEST:
        raise NotKeyOrCertificate(f"{source} is larger than {_LARGEST} bytes: no key or certificate is")
    count = text.count(b"-----BEGIN ")
    found = list(_PEM.finditer(text)) if count <= 2 else []  # of thousands it would take long
    if count != len(kinds) or [block[1].decode() for block in found] != list(kinds):
        want = " and ".join(f"BEGIN {kind}" for kind in kinds)
        have = f"{count} of which {len(found)} whole" if count <= 2 else f"{count}"
        raise NotKeyOrCertificate(
            f"{source} must have the PEM blocks {want}, got {have}: copy it again, or issue it anew"
        )
    return [block[0] for block in found]


def _p256(pem: bytes, source: str) -> EllipticCurvePrivateKey:
    with _clear(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise NotKeyOrCertificate(f"{source} must begin with a key on P-256, got {type(key).__name__}: issue it anew")
    return key


def _ed25519(pem: bytes, source: str) -> Ed25519PrivateKey:
    with _clear(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise NotKeyOrCertificate(f"{source} must end with an Ed25519 key, got {type(key).__name__}: issue it anew")
    return key


def _private_pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def _pem(certificate: x509.Certificate) -> bytes:
    return certificate.public_bytes(Encoding.PEM)


def _public_der(owner: EllipticCurvePrivateKey | x509.Certificate) -> bytes:
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def _read(path: Path, *, private: bool = False) -> bytes:
    """Return what is in a small file; of a private key the mode is that of the very file that is read."""
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise MissingFile(f"{path} does not exist: copy it here, or issue it with Authority.issue") from None
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be read ({error.strerror}): give it to the user that runs the node"
        ) from None
    with os.fdopen(number, "rb") as file:
        about = os.fstat(number)
        if not stat.S_ISREG(about.st_mode):
            raise NotKeyOrCertificate(f"{path} is not a file: name the key or certificate itself")
        if private and about.st_mode & 0o077:
            raise KeyExposed(
                f"{path} is a private key that others may use (mode {stat.S_IMODE(about.st_mode):04o}): "
                f"chmod 600 {path}, and issue the node anew if somebody may have read it"
            )
        return file.read(_LARGEST + 1)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be written ({error.strerror}): name a folder with room that is yours"
        ) from None


def _make_folder(folder: Path) -> None:
    with _told(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def _write_private(path: Path, text: bytes, remedy: str) -> None:
    """Write a key that was not there; nobody else can open it at any time, and it is whole or gone."""
    with _told(path):
        try:
            number = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        except FileExistsError:
            raise KeyExists(f"{path} exists and is not overwritten: {remedy}") from None
        try:
            with os.fdopen(number, "wb") as file:
                file.write(text)
                file.flush()
                os.fsync(number)
            sync_folder(path.parent)
        except BaseException:
            with suppress(OSError):
                path.unlink()
            raise


def _write_public(path: Path, text: bytes) -> None:
    """Write or replace a certificate at once: a reader sees the old one or the new one."""
    with _told(path):
        write_whole(path, text)
