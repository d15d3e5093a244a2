"""The certificate with which an operator asks nodes from elsewhere.

It is signed by the fleet's authority, names the fleet and no node, and is for the calling end of a
connection alone. So no node accepts it as a neighbour's, and a node's certificate is not accepted
where an operator's is needed. It gives no right to sign anything: for that there is the operator's
own key (`operator_key`).
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path

from levywalk.fleet.identity.certificates import (
    NEW_AUTHORITY,
    check_date,
    fingerprint,
    fleet_of,
    parse,
)
from levywalk.fleet.identity.errors import Untrusted, WrongKey
from levywalk.fleet.identity.key_files import (
    BAD,
    CA_CERTIFICATE,
    OPERATOR_TLS_CERTIFICATE,
    OPERATOR_TLS_KEY,
    certificate_pem,
    p256_key,
    pem_blocks,
    private_pem,
    public_der,
    read_small,
)
from levywalk.fleet.identity.library import (
    SECP256R1,
    EllipticCurvePublicKey,
    ExtendedKeyUsageOID,
    InvalidSignature,
    x509,
)
from levywalk.fleet.identity.node_identity import Tls

_RENEW = (
    "make a new folder where the fleet's ca.key is: levywalk fleet operator DIR OUT, and use that"
)


def operator_uri(fleet: str) -> str:
    """Return the name that is in the certificate of a fleet's operator.

    Examples
    --------
    >>> operator_uri("five")
    'levywalk://five/operator'
    """
    return f"levywalk://{fleet}/operator"


def check_operator(
    authority: x509.Certificate, certificate: x509.Certificate | bytes, source: str
) -> None:
    """Raise an error unless the authority has signed this certificate for an operator of its fleet,
    and it is valid now. Nothing of it is read before the signature is checked.
    """
    found = parse(certificate, source)
    try:
        found.verify_directly_issued_by(authority)
    except (InvalidSignature, *BAD):
        raise Untrusted(
            f"{source} ({fingerprint(found)}) was not signed by this fleet's authority: use the "
            "files of one fleet"
        ) from None
    try:
        why = _strange(found, operator_uri(fleet_of(authority, CA_CERTIFICATE)))
    except BAD as error:
        why = str(error)
    if why:
        raise Untrusted(f"{source} is not the certificate of an operator ({why}): {_RENEW}")
    check_date(found, source, "the operator's certificate", _RENEW, None, warn=False)


def _strange(certificate: x509.Certificate, uri: str) -> str:
    """Return why a certificate is not an operator's, or nothing."""
    extensions = certificate.extensions
    if extensions.get_extension_for_class(x509.BasicConstraints).value.ca:
        return "it is the certificate of an authority"
    usage = set(extensions.get_extension_for_class(x509.ExtendedKeyUsage).value)
    if usage != {ExtendedKeyUsageOID.CLIENT_AUTH}:
        return "it is not for the calling end of a connection alone"
    key = certificate.public_key()
    if not isinstance(key, EllipticCurvePublicKey) or not isinstance(key.curve, SECP256R1):
        return "its key is not a P-256 key"
    names = extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    if list(names) != [x509.UniformResourceIdentifier(uri)]:
        return "it names no operator of this fleet"
    return ""


def operator_tls(folder: Path, *, now: datetime | None = None) -> Tls:
    """Read an operator's key and certificates and check all of it; warn if one expires soon."""
    source, path = str(folder / OPERATOR_TLS_CERTIFICATE), folder / OPERATOR_TLS_KEY
    ca = parse(read_small(folder / CA_CERTIFICATE), str(folder / CA_CERTIFICATE))
    fleet = fleet_of(ca, str(folder / CA_CERTIFICATE))
    own = parse(read_small(folder / OPERATOR_TLS_CERTIFICATE), source)
    check_operator(ca, own, source)
    check_date(own, source, "the operator's certificate", _RENEW, now)
    check_date(
        ca, str(folder / CA_CERTIFICATE), f"the authority of fleet {fleet}", NEW_AUTHORITY, now
    )
    (pem,) = pem_blocks(read_small(path, private=True), str(path), "PRIVATE KEY")
    key = p256_key(pem, str(path))
    if public_der(key) != public_der(own):
        raise WrongKey(f"{path} does not belong to {source}: {_RENEW}")
    return Tls(private_pem(key), certificate_pem(own), certificate_pem(ca))
