"""Where the nodes of a new fleet listen: free ports on this machine, or given addresses."""

from __future__ import annotations

import errno
import random
import socket
from collections.abc import Iterator, Sequence

from levywalk import checks
from levywalk.errors import InvalidParameter
from levywalk.fleet.setup import deploy as deployment
from levywalk.fleet.setup.deploy import Place
from levywalk.fleet.setup.node_file import host_port
from levywalk.fleet.setup.operator_folder import OperatorAddress
from levywalk.remedy import python_or_command

# The operating system gives clients ports from 32768 on; it could give a node's port away while the
# node is down.
LOWEST_PORT, HIGHEST_PORT = 20_000, 32_767
_PORTS = 65_535


def places_of(
    n: int,
    name: str,
    host: str,
    port: int | None,
    addresses: Sequence[str] | None,
    metrics: bool,
    deploy: str | None,
) -> list[Place]:
    """Return where each node listens, and where its neighbours reach it."""
    if deploy is not None:
        checks.choice("deploy", deploy, deployment.KINDS)
    if deploy in deployment.OWN_ADDRESSES:
        if port is not None or addresses is not None:
            raise InvalidParameter(
                f"port and addresses must not be given with deploy={deploy!r}, which has its own"
            )
        return [deployment.place(str(deploy), name, v, metrics) for v in range(n)]
    if addresses is None:
        return _here(n, host, port, metrics)
    if port is not None:
        raise InvalidParameter(f"port must be None with addresses, which have ports, got {port!r}")
    return _elsewhere(n, addresses, metrics)


def operator_places(places: list[Place], port: int) -> list[OperatorAddress]:
    """Return where the operator port of each node is reached: on the node's host, the given port
    or, if several nodes have the same host, the ones after it.

    Parameters
    ----------
    port
        0 for free ports, if all nodes are on this machine.
    """
    ends = [host_port(place.address) or ("", 0) for place in places]
    taken = {end for place in places for end in _ends(place)}
    free: Iterator[int] = iter(())
    if port == 0:
        if not all(place.local for place in places):
            raise InvalidParameter(
                "operator_port must be a number from 1 for nodes on other machines, got 0"
            )
        used = {other for _, other in taken}
        count = len(places) + len(used)
        free = iter([one for one in free_ports(ends[0][0], count) if one not in used])
    found: list[OperatorAddress] = []
    for v, (host, _) in enumerate(ends):
        before = sum(other == host for other, _ in ends[:v])
        own = next(free) if port == 0 else port + before
        if own > _PORTS or (host, own) in taken:
            raise InvalidParameter(
                f"operator_port must leave free ports for all nodes of {host}, got {port}: "
                f"{own} is taken; choose another, such as 23000"
            )
        shown = f"[{host}]" if ":" in host else host
        found.append(OperatorAddress(v, f"{shown}:{own}"))
    return found


def _ends(place: Place) -> list[tuple[str, int]]:
    """Return the hosts and ports that a node uses itself."""
    host = (host_port(place.address) or ("", 0))[0]
    given = [one for one in (place.address, place.listen, place.metrics) if one is not None]
    return [(host, (host_port(one) or ("", 0))[1]) for one in given]


def _here(n: int, host: str, port: int | None, metrics: bool) -> list[Place]:
    shown = f"[{host}]" if ":" in host else host
    if host_port(f"{shown}:1") is None:
        raise InvalidParameter(f"host must be a name or an IP address, got {host!r}")
    if port is None:
        ports = free_ports(host, 2 * n if metrics else n)
    else:
        last = _PORTS - (2 * n if metrics else n) + 1
        first = checks.integer(f"port of node 0 of {n}", port, low=1, high=last)
        ports = list(range(first, first + 2 * n))
    return [
        Place(
            f"{shown}:{ports[v]}",
            f"{shown}:{ports[v]}",
            f"127.0.0.1:{ports[n + v]}" if metrics else None,
            local=True,
        )
        for v in range(n)
    ]


def free_ports(host: str, count: int) -> list[int]:
    """Find free ports.

    The search starts at a random port, because two fleets that are both stopped would otherwise get
    the same ports.
    """
    span = HIGHEST_PORT - LOWEST_PORT + 1
    if count > span:
        raise InvalidParameter(
            f"{count} ports are needed, but only {span} are safe to use on one machine; give "
            f"{python_or_command('port=', '--port')}"
        )
    first, free = random.SystemRandom().randrange(span), []
    for i in range(span):
        port = LOWEST_PORT + (first + i) % span
        if all(_is_free(at, port) for at in dict.fromkeys((host, "127.0.0.1"))):
            free.append(port)
            if len(free) == count:
                return sorted(free)
    raise InvalidParameter(
        f"only {len(free)} of {count} ports are free on {host}; give "
        f"{python_or_command('port=', '--port')}, or fewer nodes"
    )


def _is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as line:
            if family == socket.AF_INET6:
                line.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                line.bind(address)
            except OSError as error:
                if error.errno == errno.EADDRINUSE:
                    return False
                raise
    except OSError as error:
        raise InvalidParameter(
            f"{python_or_command('host', '--host')} must be an address of this machine, got "
            f"{host!r} ({error.strerror}); for nodes on other machines give "
            f"{python_or_command('addresses=', '--addresses FILE')}"
        ) from None
    return True


def _elsewhere(n: int, addresses: Sequence[str], metrics: bool) -> list[Place]:
    if isinstance(addresses, str) or len(addresses) != n or len(set(addresses)) != n:
        raise InvalidParameter(
            f"addresses must be a list of {n} different addresses, one host:port per node, got "
            f"{addresses!r}"
        )
    ends = []
    for address in addresses:
        end = host_port(str(address))
        if end is None:
            raise InvalidParameter(f"addresses must be host:port each, got {address!r}")
        ends.append(end)
    after = max(port for _, port in ends) + 1
    if metrics and after + n - 1 > _PORTS:
        raise InvalidParameter(
            f"addresses must leave {n} ports above {after - 1} for metrics; or give metrics=False"
        )
    # Some machines resolve their own name to a loopback address. So a node listens on all
    # addresses; TLS decides who may connect.
    return [
        Place(
            address,
            f"{'[::]' if ':' in host else '0.0.0.0'}:{port}",
            f"127.0.0.1:{after + v}" if metrics else None,
        )
        for v, (address, (host, port)) in enumerate(zip(addresses, ends, strict=True))
    ]
