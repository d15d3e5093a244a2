"""What can be wrong with a key or a certificate."""

from __future__ import annotations

from levywalk.errors import LevywalkError


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
