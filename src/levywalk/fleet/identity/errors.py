"""Errors of keys and certificates."""

from __future__ import annotations

from levywalk.errors import LevywalkError


class IdentityError(LevywalkError, ValueError):
    """A key or certificate that cannot be used."""


class KeyExposed(IdentityError):
    """A private key that others besides its owner may read."""


class KeyExists(IdentityError):
    """A key exists already; it is never overwritten."""


class NotKeyOrCertificate(IdentityError):
    """A file or message that is not a complete key or certificate."""


class WrongKey(IdentityError):
    """A private key that does not belong to the certificate beside it, or another signing key of a
    known node.
    """


class OutOfDate(IdentityError):
    """A certificate that has expired, or is not valid yet."""


class Untrusted(IdentityError):
    """A certificate that the fleet's authority has not signed, or that is not for a node."""


class WrongNode(IdentityError):
    """A certificate of another node, or of a node of another fleet."""


class ExpiryWarning(UserWarning):
    """A certificate expires soon; the message says when, and what to do."""
