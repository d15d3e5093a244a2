"""The section on generators: how long the families take, and how large the networks are."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import levywalk as lw
from benchmarks.reference_c import ReferenceC
from benchmarks.scale import Scale
from benchmarks.timing import Contender, Row, interleave, seconds


def generators(scale: Scale, compiler: ReferenceC | None) -> Iterator[Row]:
    """The families at a million nodes."""
    n = scale.nodes
    side = round(n**0.5)
    makers: list[Callable[[], lw.Network]] = [
        lambda: lw.ring(n),
        lambda: lw.grid(side, side),
        lambda: lw.watts_strogatz(n, 4, 0.1),
        lambda: lw.erdos_renyi(n, 8 / n),
        lambda: lw.random_regular(n, 4),
        lambda: lw.barabasi_albert(n, 2),
    ]
    networks = [maker() for maker in makers]
    notes = {
        each.name: f"{(each.indptr.nbytes + each.indices.nbytes) / each.n:.0f} bytes/node"
        for each in networks
    }
    contenders: dict[str, Contender] = {
        network.name: lambda maker=maker: seconds(maker)  # type: ignore[misc]
        for network, maker in zip(networks, makers, strict=True)
    }
    title = f"networks of {n:,} nodes"
    for row in interleave(
        "generators", title, contenders, scale.generations, unit="s", baseline=""
    ):
        yield replace(row, note=notes[row.contender])
