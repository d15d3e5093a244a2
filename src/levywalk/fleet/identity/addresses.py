"""Host names and IP addresses, as they are written into certificates."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable

from levywalk.errors import InvalidParameter

_HOST = re.compile(
    r"(?=.{1,253}\Z)[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?"
    r"(?:\.[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?)*"
)


def as_ip(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    """Return the IP address that a text stands for, or None if it is not one."""
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def host_names(addresses: Iterable[str]) -> tuple[str, ...]:
    """Return hosts without ports, each once.

    Examples
    --------
    >>> host_names(["Node.example.org:7000", "[::1]:7000", "10.0.0.3", "::1"])
    ('node.example.org', '::1', '10.0.0.3')
    """
    if isinstance(addresses, str):
        raise InvalidParameter(
            f"addresses must be a list of host or host:port, got the text {addresses!r}"
        )
    return tuple(dict.fromkeys(_host(address) for address in addresses))


def _host(address: str) -> str:
    host = address.strip().lower()
    ip = as_ip(host)
    if ip is None:
        host = re.sub(r":[0-9]{1,5}\Z", "", host)
        ip = as_ip(host[1:-1] if host.startswith("[") and host.endswith("]") else host)
    if ip is not None:
        if ip.is_unspecified:
            raise InvalidParameter(
                f"addresses must be where others reach the node, got {address!r}: name its host"
            )
        if isinstance(ip, ipaddress.IPv6Address) and ip.scope_id is not None:
            raise InvalidParameter(
                f"addresses must not have a zone, which is one machine's own, got {address!r}"
            )
        return str(ip)
    last = host.rpartition(".")[2]
    if not _HOST.fullmatch(host) or last.isdecimal() or host.endswith(".levywalk.internal"):
        raise InvalidParameter(f"addresses must be host or host:port, in ASCII, got {address!r}")
    return host
