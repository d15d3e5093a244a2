"""Network namespaces of Linux: each node has its own network, as if it were on its own machine.

The namespaces are connected by a bridge, which has its own namespace. So the machine's own network
is not touched, and everything disappears when the namespaces are deleted. The way from one node to
another is cut by a blackhole route. Delays need the kernel's netem, which not every kernel has. All
of this needs root.
"""

from __future__ import annotations

import secrets
import subprocess
from dataclasses import replace
from pathlib import Path

from levywalk.errors import LevywalkError
from levywalk.fleet.setup.node_file import NodeFile

PORT = 7400


class NoNamespaces(LevywalkError):
    """Network namespaces cannot be used on this machine."""


class Namespaces:
    """Network namespaces for this many nodes.

    Raises
    ------
    NoNamespaces
        If they cannot be created. Nothing is left behind then.
    """

    kinds: tuple[str, ...] = ("cut link", "cut node", "one way", "flapping", "halves")

    def __init__(self, n: int) -> None:
        self.n, self.prefix = n, f"lw{secrets.token_hex(3)}"
        self._hub = f"{self.prefix}-hub"
        self._made: list[str] = []
        self._holes: set[tuple[int, int]] = set()
        try:
            self._make()
        except (OSError, subprocess.SubprocessError) as error:
            self.close()
            raise NoNamespaces(f"no network namespaces: {_error_text(error)}") from None
        self.name = "network namespaces, without netem"
        if self._has_netem():
            self.name, self.kinds = "network namespaces", (*self.kinds, "delay")

    def _make(self) -> None:
        self._add(self._hub)
        _ip("-n", self._hub, "link", "add", "name", "hub0", "type", "bridge")
        _ip("-n", self._hub, "link", "set", "hub0", "up")
        for v in range(self.n):
            own = self.of(v)
            self._add(own)
            _ip(
                "link",
                "add",
                "name",
                "eth0",
                "netns",
                own,
                "type",
                "veth",
                "peer",
                "name",
                f"p{v}",
                "netns",
                self._hub,
            )
            _ip("-n", self._hub, "link", "set", f"p{v}", "master", "hub0", "up")
            _ip("-n", own, "address", "add", f"{self.host(v)}/16", "dev", "eth0")
            _ip("-n", own, "link", "set", "eth0", "up")
            _ip("-n", own, "link", "set", "lo", "up")
        subprocess.run(self.command(0, ["true"]), check=True, capture_output=True, timeout=10)

    def _add(self, name: str) -> None:
        _ip("netns", "add", name)
        self._made.append(name)

    def _has_netem(self) -> bool:
        try:
            self.delay(0, 0.001)
            self.delay(0, 0.0)
        except (OSError, subprocess.SubprocessError):
            return False
        return True

    def of(self, v: int) -> str:
        """Return the name of a node's namespace."""
        return f"{self.prefix}-{v}"

    def host(self, v: int) -> str:
        """Return a node's IP address."""
        return f"10.77.{(v + 1) // 256}.{(v + 1) % 256}"

    def settle(self, files: list[Path]) -> None:
        """Let the nodes of these node files listen in their namespaces."""
        for path in files:
            node = NodeFile.read(path)
            peers = tuple(
                replace(peer, address=f"{self.host(peer.id)}:{PORT}") for peer in node.neighbours
            )
            replace(node, listen=f"{self.host(node.id)}:{PORT}", neighbours=peers).write(path)

    def command(self, v: int, command: list[str]) -> list[str]:
        """Return the command that runs a command in a node's namespace; it keeps its process id."""
        return ["ip", "netns", "exec", self.of(v), *command]

    def cut(self, a: int, b: int) -> None:
        """Let nothing pass from a to b."""
        if (a, b) not in self._holes:
            _ip("-n", self.of(a), "route", "add", "blackhole", f"{self.host(b)}/32")
            self._holes.add((a, b))

    def heal(self, a: int, b: int) -> None:
        """Let everything pass again."""
        if (a, b) in self._holes:
            _ip("-n", self.of(a), "route", "del", "blackhole", f"{self.host(b)}/32")
            self._holes.discard((a, b))

    def delay(self, v: int, seconds: float) -> None:
        """Delay everything that a node sends; 0 ends it."""
        what = ["replace", "dev", "eth0", "root", "netem", "delay", f"{seconds * 1000:.0f}ms"]
        tc = [
            "tc",
            "-n",
            self.of(v),
            "qdisc",
            *(what if seconds else ["del", "dev", "eth0", "root"]),
        ]
        subprocess.run(tc, check=True, capture_output=True, timeout=10)

    def reset(self, a: int, b: int) -> None:
        """Raise an error: this is not possible with namespaces."""
        raise NoNamespaces("namespaces cannot reset a connection; use --network proxy")

    def close(self) -> None:
        """Delete them all."""
        for name in self._made:
            if Path("/run/netns", name).exists():
                _ip("netns", "delete", name)
        self._made.clear()


def _ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True, timeout=10)


def _error_text(error: Exception) -> str:
    said = error.stderr if isinstance(error, subprocess.CalledProcessError) else None
    return said.decode(errors="replace").strip() if said else str(error)
