"""Keys and certificates as PEM text and as files: written whole, and readable by the owner alone if private."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from levywalk.durable import sync_folder, write_whole
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

CA_KEY, CA_CERTIFICATE, NODE_KEY, NODE_CERTIFICATE = "ca.key", "ca.crt", "node.key", "node.crt"
_LARGEST = 64 * 1024  # bytes of a file or certificate that is looked at
_PEM = re.compile(rb"-----BEGIN ([A-Z0-9 ]+)-----.+?-----END \1-----\s*", re.DOTALL)
BAD = (  # whatever cryptography says of bytes that are no certificate, or of one with odd contents
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
    """Say what is the matter with bytes that should be a key or certificate."""
    try:
        yield
    except BAD as error:
        raise NotKeyOrCertificate(f"{source} is damaged ({error}): copy it again, or issue it anew") from None


def pem_blocks(text: bytes, source: str, *kinds: str) -> list[bytes]:
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


def p256_key(pem: bytes, source: str) -> EllipticCurvePrivateKey:
    """Return the P-256 key in a PEM text."""
    with explained(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, EllipticCurvePrivateKey) or not isinstance(key.curve, SECP256R1):
        raise NotKeyOrCertificate(f"{source} must begin with a key on P-256, got {type(key).__name__}: issue it anew")
    return key


def ed25519_key(pem: bytes, source: str) -> Ed25519PrivateKey:
    """Return the Ed25519 key in a PEM text."""
    with explained(source):
        key = load_pem_private_key(pem, None)
    if not isinstance(key, Ed25519PrivateKey):
        raise NotKeyOrCertificate(f"{source} must end with an Ed25519 key, got {type(key).__name__}: issue it anew")
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


def make_folder(folder: Path) -> None:
    """Create a folder that only its owner can read, if it does not exist."""
    with _told(folder):
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)


def write_private(path: Path, text: bytes, remedy: str) -> None:
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


def write_public(path: Path, text: bytes) -> None:
    """Write or replace a certificate at once: a reader sees the old one or the new one."""
    with _told(path):
        write_whole(path, text)
