"""What a certificate says, who signed it, and how long it is valid."""

from __future__ import annotations

import hashlib
import re
import warnings
from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.identity.errors import ExpiryWarning, OutOfDate, Untrusted, WrongNode
from levywalk.fleet.identity.key_files import (
    BAD,
    CA_CERTIFICATE,
    NODE_CERTIFICATE,
    explained,
    pem_blocks,
    public_der,
)
from levywalk.fleet.identity.library import (
    SECP256R1,
    EllipticCurvePublicKey,
    Encoding,
    ExtendedKeyUsageOID,
    InvalidSignature,
    NameOID,
    x509,
)
from levywalk.fleet.identity.rotation import (
    Rotations,
    followed,
    keys_fingerprint,
    read_rotations,
    rotations_bytes,
)

LONGEST = 7300  # days; the longest validity
BACKDATED = timedelta(
    days=1
)  # so that a clock that is wrong by some hours does not refuse a new node
WARN = timedelta(days=30)  # before a certificate expires; or in the last third of a short validity
HIGHEST_NODE = 2**31 - 1
NEW_AUTHORITY = "create a new one and issue all nodes again"
FLEET_NAME = re.compile(r"[a-z0-9](?:[a-z0-9-]{0,30}[a-z0-9])?")
_URI = re.compile(rf"levywalk://({FLEET_NAME.pattern})/node/(0|[1-9][0-9]{{0,9}})")
SIGNING_KEY = x509.ObjectIdentifier(
    "2.25.186253111067636075847772241569157370571"
)  # made from a random UUID, so nobody else uses it
OCTETS = b"\x04\x20"  # DER: a string of 32 bytes
ROTATIONS = x509.ObjectIdentifier(
    "2.25.186253111067636075847772241569157370572"
)  # the extension with a node's earlier keys
_LONG_OCTETS = b"\x04\x82"  # DER: a string whose length follows in two bytes


class CertificateFacts(NamedTuple):
    """What a node's certificate says about it."""

    fleet: str
    node: int
    addresses: tuple[str, ...]
    signing: bytes  # the public Ed25519 key
    rotations: Rotations = Rotations()


def server_name(node: int) -> str:
    """Return the name that is in a node's certificate whatever its address; gRPC asks for it
    (``grpc.ssl_target_name_override``).

    Examples
    --------
    >>> server_name(3)
    'node-3.levywalk.internal'
    """
    return f"node-{node}.levywalk.internal"


def fingerprint(certificate: x509.Certificate | bytes | str) -> str:
    """Return the SHA-256 of a certificate's DER in hex, as ``openssl x509 -fingerprint -sha256``
    does.

    It changes when the certificate is renewed; `key_fingerprint` does not.
    """
    return hashlib.sha256(parse(certificate).public_bytes(Encoding.DER)).hexdigest()


def key_fingerprint(certificate: x509.Certificate | bytes | str) -> str:
    """Return the SHA-256 of a node's two public keys in hex.

    Neighbours' node files contain it, because it stays the same when the certificate is renewed.
    """
    found = parse(certificate)
    with explained("the certificate"):
        return keys_fingerprint(public_der(found), _signing_key(found))


def key_fingerprints(certificate: x509.Certificate | bytes | str) -> tuple[str, ...]:
    """Return the fingerprint of a node's keys, and those of its earlier keys that lead to them:
    whoever knows one of them accepts the certificate. It is not checked who signed it.
    """
    found = parse(certificate)
    with explained("the certificate"):
        about = _about(found)
        own = keys_fingerprint(public_der(found), about.signing)
        return followed(about.fleet, about.node, about.rotations, own)


def parse(
    certificate: x509.Certificate | bytes | str, source: str = "the certificate"
) -> x509.Certificate:
    """Return the one certificate in a PEM text. It is not checked who signed it."""
    if isinstance(certificate, x509.Certificate):
        return certificate
    (pem,) = pem_blocks(
        certificate.encode(errors="replace") if isinstance(certificate, str) else certificate,
        source,
        "CERTIFICATE",
    )
    with explained(source):
        return x509.load_pem_x509_certificate(pem)


def subject_name(fleet: str, common: str) -> x509.Name:
    """Return the name of a certificate's subject."""
    return x509.Name(
        [
            x509.NameAttribute(NameOID.ORGANIZATION_NAME, fleet),
            x509.NameAttribute(NameOID.COMMON_NAME, common),
        ]
    )


def unsigned_certificate(
    subject: x509.Name,
    issuer: x509.Name,
    key: EllipticCurvePublicKey,
    begin: datetime,
    end: datetime,
) -> x509.CertificateBuilder:
    """Return a certificate that is not signed yet."""
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


def key_usage(
    *, digital_signature: bool = False, key_cert_sign: bool = False, crl_sign: bool = False
) -> x509.KeyUsage:
    """Return what a key may be used for."""
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


def fleet_of(authority: x509.Certificate, source: str) -> str:
    """Return the fleet of an authority's certificate, which must be signed by itself."""
    try:
        authority.verify_directly_issued_by(authority)
        limits = authority.extensions.get_extension_for_class(x509.BasicConstraints).value
        (name,) = authority.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    except (InvalidSignature, *BAD):
        limits = None
    if (
        limits is None
        or not limits.ca
        or not isinstance(name.value, str)
        or not FLEET_NAME.fullmatch(name.value)
    ):
        raise Untrusted(
            f"{source} is not the certificate of a fleet's authority: copy {CA_CERTIFICATE} of the "
            "fleet"
        )
    return name.value


def signed_by(
    authority: x509.Certificate, certificate: x509.Certificate, source: str
) -> CertificateFacts:
    """Check that the authority has signed a node's certificate; only then read it and return what
    it says.
    """
    try:
        certificate.verify_directly_issued_by(authority)
    except (InvalidSignature, *BAD):
        raise Untrusted(
            f"{source} ({fingerprint(certificate)}) was not signed by this fleet's authority "
            f"({fingerprint(authority)}): use {CA_CERTIFICATE} and {NODE_CERTIFICATE} of one fleet"
        ) from None
    try:
        return _about(certificate)
    except BAD as error:
        raise Untrusted(
            f"{source} ({fingerprint(certificate)}) is not a node's certificate ({error}): issue "
            "new keys for the node"
        ) from None


def _about(certificate: x509.Certificate) -> CertificateFacts:
    extensions = certificate.extensions
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        raise ValueError("it is the certificate of an authority")
    usage = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    if not {ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH} <= usage:
        raise ValueError("it is not for both ends of a connection")
    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        raise ValueError("its key is not a P-256 key")
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    uris = [
        _URI.fullmatch(uri) for uri in names.get_values_for_type(x509.UniformResourceIdentifier)
    ]
    if len(uris) != 1 or uris[0] is None:
        raise ValueError("it names no node, or several")
    fleet, node = uris[0][1], int(uris[0][2])
    if node > HIGHEST_NODE:
        raise ValueError("it names an impossible node")
    hosts = [host for host in names.get_values_for_type(x509.DNSName) if host != server_name(node)]
    hosts += [str(ip) for ip in names.get_values_for_type(x509.IPAddress)]
    signing, rotations = _signing_key(certificate), _rotations(certificate)
    return CertificateFacts(fleet, node, tuple(hosts), signing, rotations)


def _rotations(certificate: x509.Certificate) -> Rotations:
    try:
        value = certificate.extensions.get_extension_for_oid(ROTATIONS).value
    except x509.ExtensionNotFound:
        return Rotations()
    data = value.value if isinstance(value, x509.UnrecognizedExtension) else b""
    if data[:2] != _LONG_OCTETS or int.from_bytes(data[2:4], "big") != len(data) - 4:
        raise ValueError("its rotations are malformed")
    return read_rotations(data[4:])


def rotations_extension(rotations: Rotations) -> x509.UnrecognizedExtension:
    """Return the extension of a certificate with a node's earlier keys."""
    content = rotations_bytes(rotations)
    size = len(content).to_bytes(2, "big")
    return x509.UnrecognizedExtension(ROTATIONS, _LONG_OCTETS + size + content)


def _signing_key(certificate: x509.Certificate) -> bytes:
    value = certificate.extensions.get_extension_for_oid(SIGNING_KEY).value
    if (
        not isinstance(value, x509.UnrecognizedExtension)
        or len(value.value) != 34
        or value.value[:2] != OCTETS
    ):
        raise ValueError("its signing key is malformed")
    return value.value[2:]


def check_node(about: CertificateFacts, fleet: str, node: int | None, source: str) -> None:
    """Raise an error unless a certificate is of this fleet and, if given, of this node."""
    if about.fleet != fleet:
        raise WrongNode(
            f"{source} is of fleet {about.fleet}, not {fleet}: use the files of one fleet"
        )
    if node is not None and about.node != node:
        raise WrongNode(
            f"{source} is of node {about.node}, not {node}: use the key and certificate of node "
            f"{node}"
        )


def utc(now: datetime | None) -> datetime:
    """Return the time now, or the given one, in UTC."""
    if now is None:
        return datetime.now(UTC)
    if now.tzinfo is None:
        raise InvalidParameter(f"now must have a time zone, got {now!r}")
    return now.astimezone(UTC)


def validity(days: int, now: datetime | None) -> tuple[datetime, datetime]:
    """Return the first and the last moment of a new certificate."""
    lasts = timedelta(days=checks.integer("days", days, low=1, high=LONGEST))
    at = utc(now).replace(microsecond=0)
    return at - BACKDATED, at + lasts


def date_text(at: datetime) -> str:
    """Return a time as it is shown in messages."""
    return f"{at:%Y-%m-%d %H:%M} UTC"


def expires_soon(certificate: x509.Certificate, now: datetime | None = None) -> str | None:
    """Return when a certificate expires, if that is so soon that it should be renewed; else None.

    That is from 30 days before the end, or in the last third of a short validity.
    """
    at, begin, end = utc(now), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    return date_text(end) if end - at < min(WARN, (end - begin) / 3) else None


def check_date(
    certificate: x509.Certificate,
    source: str,
    what: str,
    remedy: str,
    now: datetime | None,
    *,
    warn: bool = True,
) -> None:
    """Raise an error if a certificate is not valid now; warn if it expires soon."""
    at, begin, end = utc(now), certificate.not_valid_before_utc, certificate.not_valid_after_utc
    if at > end:
        raise OutOfDate(
            f"{source}: {what} expired on {date_text(end)}, and it is {date_text(at)} here: "
            f"{remedy}"
        )
    if at < begin:
        raise OutOfDate(
            f"{source}: {what} is valid from {date_text(begin)}, and it is {date_text(at)} here: "
            "set this machine's clock"
        )
    if warn and expires_soon(certificate, at) is not None:
        warnings.warn(
            f"{source}: {what} expires on {date_text(end)}: {remedy}", ExpiryWarning, stacklevel=3
        )
