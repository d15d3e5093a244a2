"""Keys and certificates as PEM text and as files.

Private keys are readable by their owner alone.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levywalk.errors import MissingFile
from levywalk.fleet.identity.errors import IdentityError, KeyExists, KeyExposed, NotKeyOrCertificate
from levywalk.fleet.identity.library import (
    SECP256R1,
    Ed25519PrivateKey,
    EllipticCurvePrivateKey,
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    UnsupportedAlgorithm,
    load_pem_private_key,
    x509,
)
from levywalk.whole_files import sync_folder, write_whole

CA_KEY, CA_CERTIFICATE, NODE_KEY, NODE_CERTIFICATE = "ca.key", "ca.crt", "node.key", "node.crt"
# with these an operator asks nodes from elsewhere; operator.key, which signs, is another key
OPERATOR_TLS_KEY, OPERATOR_TLS_CERTIFICATE = "tls.key", "tls.crt"
_LARGEST = 64 * 1024  # bytes; larger files and certificates are refused
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----\s*", re.DOTALL)
BAD = (  # what cryptography raises for bytes that are not a certificate, or for a strange one
    ValueError,
    TypeError,
    UnsupportedAlgorithm,
    x509.DuplicateExtension,
    x509.ExtensionNotFound,
    x509.UnsupportedGeneralNameType,
    x509.InvalidVersion,
)


@contextmanager
def explained(source: str) -> Iterator[None]:
    """Turn errors of the library into a clear error about this source."""
    try:
        yield
    except BAD as error:
        raise NotKeyOrCertificate(
            f"{source} is damaged ({error}): copy it again, or issue a new one"
        ) from None


def pem_blocks(text: bytes, source: str, *kinds: str) -> list[bytes]:
    """Return the PEM blocks of a text, which must be exactly of these kinds."""
    if len(text) > _LARGEST:
        raise NotKeyOrCertificate(
            f"{source} is larger than {_LARGEST} bytes, so it is not a key or certificate"
        )
    count = text.count(b"-----BEGIN ")
    found = list(_PEM.finditer(text)) if count <= 2 else []  # with thousands this would take long
    if count != len(kinds) or [block[1].decode() for block in found] != list(kinds):
        want = " and ".join(f"BEGIN {kind}" for kind in kinds)
        have = f"{count} of which {len(found)} whole" if count <= 2 else f"{count}"
        raise NotKeyOrCertificate(
            f"{source} must have the PEM blocks {want}, got {have}: copy it again, or issue a new "
            "one"
        )
    return [block[0] for block in found]


def p256_key(pem: bytes, source: str) -> EllipticCurvePrivateKey:
    """Return the P-256 key in a PEM text."""
    with explained(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise NotKeyOrCertificate(
            f"{source} must begin with a P-256 key, got {type(key).__name__}: issue a new one"
        )
    return key


def ed25519_key(pem: bytes, source: str) -> Ed25519PrivateKey:
    """Return the Ed25519 key in a PEM text."""
    with explained(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise NotKeyOrCertificate(
            f"{source} must end with an Ed25519 key, got {type(key).__name__}: issue a new one"
        )
    return key


def private_pem(key: EllipticCurvePrivateKey | Ed25519PrivateKey) -> bytes:
    """Return a private key as PEM text."""
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def certificate_pem(certificate: x509.Certificate) -> bytes:
    """Return a certificate as PEM text."""
    return certificate.public_bytes(Encoding.PEM)


def public_der(owner: EllipticCurvePrivateKey | x509.Certificate) -> bytes:
    """Return the public key of a key or a certificate as DER."""
    return owner.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


def read_small(path: Path, *, private: bool = False) -> bytes:
    """Return the contents of a small file.

    For a private key, the permissions of the opened file itself are checked.
    """
    try:
        number = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except FileNotFoundError:
        raise MissingFile(
            f"{path} does not exist: copy it here, or issue it with Authority.issue"
        ) from None
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be read ({error.strerror}): give it to the user that runs the node"
        ) from None
    about = os.fstat(number)
    if not stat.S_ISREG(about.st_mode):
        os.close(number)
        raise NotKeyOrCertificate(f"{path} is not a file: give the key or certificate file itself")
    with os.fdopen(number, "rb") as file:
        if private and about.st_mode & 0o077:
            raise KeyExposed(
                f"{path} is a private key that other users may read (mode "
                f"{stat.S_IMODE(about.st_mode):04o}): "
                f"chmod 600 {path}, and issue new keys if somebody may have read it"
            )
        return file.read(_LARGEST + 1)


@contextmanager
def _told(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise IdentityError(
            f"{path} cannot be written ({error.strerror}): choose a folder with room that belongs "
            "to you"
        ) from None


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can read, if it does not exist."""
    with _told(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, text: bytes, remedy: str) -> None:
    """Write a new key.

    No other user can open it at any time, and it is written completely or not at all.
    """
    with _told(path):
        try:
            number = os.open(
                path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600
            )
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


def write_public(path: Path, text: bytes) -> None:
    """Write or replace a certificate in one step: a reader sees the old one or the new one."""
    with _told(path):
        write_whole(path, text)
