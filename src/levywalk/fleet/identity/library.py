"""The names of the library cryptography that this package uses, with a clear error if it is not
installed.
"""

from __future__ import annotations

from levywalk.extras import needs

with needs("fleet", "a fleet of real nodes"):
    from cryptography import x509
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import (
        SECP256R1,
        EllipticCurvePrivateKey,
        EllipticCurvePublicKey,
        generate_private_key,
    )
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        Encoding,
        NoEncryption,
        PrivateFormat,
        PublicFormat,
        load_pem_private_key,
    )
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

__all__ = [
    "SECP256R1",
    "Ed25519PrivateKey",
    "Ed25519PublicKey",
    "EllipticCurvePrivateKey",
    "EllipticCurvePublicKey",
    "Encoding",
    "ExtendedKeyUsageOID",
    "InvalidSignature",
    "NameOID",
    "NoEncryption",
    "PrivateFormat",
    "PublicFormat",
    "UnsupportedAlgorithm",
    "generate_private_key",
    "hashes",
    "load_pem_private_key",
    "x509",
]
