"""`Costs`: how long an update and a message take, from which a run gets its axis of time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from levywalk import checks
from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.draws import Domain, generator
from levywalk.errors import InvalidParameter

_STRAGGLERS, _LINKS = 1, 2  # the second numbers of the streams that draw slow nodes and links


@dataclass(frozen=True)
class Stragglers:
    """A law of slow nodes: a random share of the nodes takes ``factor`` times as long per update.

    The same law can be that of slow links, on which messages take ``factor`` times as long.

    Parameters
    ----------
    share
        The share of slow nodes; their number is rounded to the nearest integer.
    factor
        How many times as long an update takes at a slow node.
    seed
        Which nodes are slow.

    Examples
    --------
    >>> Stragglers(share=0.2, factor=10.0).factors(10)
    array([ 1., 10.,  1.,  1.,  1., 10.,  1.,  1.,  1.,  1.])
    """

    share: float = 0.1
    factor: float = 10.0
    seed: int = 0

    def __post_init__(self) -> None:
        checks.probability("share", self.share)
        checks.positive("factor", self.factor)
        checks.seed(self.seed)

    def factors(self, n: int, stream: int = _STRAGGLERS) -> Floats:
        """Return the factor of each of n nodes, or of n links."""
        slow = generator(self.seed, Domain.DATA, stream).permutation(n)
        made = np.ones(n)
        made[slow[: round(self.share * n)]] = self.factor
        return made


@dataclass(frozen=True, eq=False)
class Costs:
    """The time that updates and messages take.

    A walking model works alone, so its times add up: each update takes ``compute`` seconds (times
    the node's own factor), each transfer ``latency`` plus what the token carries over
    ``bandwidth``, the hops of a jump included, and each small message ``latency``. A stay costs
    nothing. In gossip all nodes work at once: a node waits for the messages of its slowest
    neighbour, and all links are used at the same time.

    Parameters
    ----------
    compute
        Seconds of one update at an ordinary node.
    latency
        Seconds until a message of no length has arrived.
    bandwidth
        Bytes per second of an ordinary link.
    per_node
        Factors of ``compute``, one per node; or a law of slow nodes such as
        ``lw.Stragglers(share=0.1, factor=10)``. None: all nodes are alike.
    per_link
        How many times as long a message takes on some links, in both directions: a dict such as
        ``{(0, 1): 5.0}``, where all other links are ordinary, or a law, as in ``per_node``. None:
        all links are alike. A walk with links that differ runs on the reference backend, since the
        compiled loops count messages and not where they go.
    name
        What tables and provenance call these costs.

    Examples
    --------
    >>> import levywalk as lw
    >>> costs = lw.Costs(compute=0.01, latency=0.1, bandwidth=800.0)
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> trace = lw.run(network, problem, lw.unif_rw(), steps=50, step_size=0.01, costs=costs)
    >>> int(trace.transfers[0, -1]), round(float(trace.time[0, -1]), 9)  # 10 numbers of 8 bytes
    (50, 10.5)

    A named profile, with slow nodes:

    >>> lw.Costs.mobile(per_node=lw.Stragglers(share=0.05, factor=20)).name
    'mobile'
    """

    compute: float
    latency: float
    bandwidth: float
    per_node: npt.ArrayLike | Stragglers | None = None
    name: str = "own"
    per_link: Mapping[tuple[int, int], float] | Stragglers | None = None

    def __post_init__(self) -> None:
        for name in ("compute", "latency"):
            checks.real(name, getattr(self, name), "at least 0", low=0.0)
        checks.positive("bandwidth", self.bandwidth)
        if not (self.per_link is None or isinstance(self.per_link, Stragglers)):
            object.__setattr__(self, "per_link", _checked_links(self.per_link))
        if self.per_node is None or isinstance(self.per_node, Stragglers):
            return
        try:
            factors = np.array(self.per_node, dtype=np.float64)
        except (TypeError, ValueError):
            factors = np.empty(0)
        if (
            factors.ndim != 1
            or not factors.size
            or not (np.isfinite(factors) & (factors >= 0)).all()
        ):
            raise InvalidParameter(
                "per_node must be one finite factor of at least 0 for each node, lw.Stragglers() "
                f"or None, got {self.per_node!r:.80}"
            )
        factors.setflags(write=False)
        object.__setattr__(self, "per_node", factors)

    @classmethod
    def data_centre(cls, per_node: npt.ArrayLike | Stragglers | None = None) -> Costs:
        """Return the costs in a data centre: 0.1 ms per update, 0.25 ms, 10 Gbit/s.

        The latency is half of the round trip of 0.5 ms that Dean lists ("Designs, lessons and
        advice from building large distributed systems", LADIS 2009); 10-gigabit Ethernet is IEEE
        802.3ae. The time of an update is an assumption: a small local gradient in a service.
        """
        return cls(1e-4, 2.5e-4, 1.25e9, per_node, "data centre")

    @classmethod
    def home_broadband(cls, per_node: npt.ArrayLike | Stragglers | None = None) -> Costs:
        """Return the costs between homes: 1 ms per update, 21 ms, 45.7 Mbit/s.

        Latency and upload speed are the world's means for fixed broadband in Ookla's Speedtest
        Global Index of September 2020. Its latency is the round trip to a near server, about as
        long as the way to the server and on to another home. The time of an update is an
        assumption.
        """
        return cls(1e-3, 21e-3, 45.74e6 / 8, per_node, "home broadband")

    @classmethod
    def mobile(cls, per_node: npt.ArrayLike | Stragglers | None = None) -> Costs:
        """Return the costs between phones: 10 ms per update, 40 ms, 11.2 Mbit/s.

        Latency and upload speed are the world's means for mobile networks in Ookla's Speedtest
        Global Index of September 2020, read as in `home_broadband`. The time of an update is an
        assumption.
        """
        return cls(1e-2, 40e-3, 11.22e6 / 8, per_node, "mobile")

    @classmethod
    def named(cls, name: str) -> Costs:
        """Return a profile by its name: "data-centre", "home-broadband" or "mobile".

        Examples
        --------
        >>> Costs.named("mobile").latency
        0.04
        """
        return PROFILES[checks.choice("costs", name, PROFILES)]

    def factors(self, n: int) -> Floats | None:
        """Return each node's factor of ``compute``, or None if all nodes are alike."""
        if self.per_node is None:
            return None
        if isinstance(self.per_node, Stragglers):
            return self.per_node.factors(n)
        factors = np.asarray(self.per_node, dtype=np.float64)
        if len(factors) != n:
            raise InvalidParameter(
                f"per_node must have one factor for each of the {n} nodes, got {len(factors)}"
            )
        return factors

    def link_factors(self, indptr: Ints, indices: AnyArray) -> Floats | None:
        """Return the factor of each link of a network, by its place in ``network.indices``; None if
        all links are alike.

        Examples
        --------
        >>> import levywalk as lw
        >>> path = lw.path(3)  # the links 0-1, 1-0, 1-2, 2-1
        >>> Costs(1.0, 1.0, 1.0, per_link={(2, 1): 5.0}).link_factors(path.indptr, path.indices)
        array([1., 1., 5., 5.])
        """
        if self.per_link is None:
            return None
        source = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        low, high = np.minimum(source, indices), np.maximum(source, indices)
        links, which = np.unique(np.stack([low, high]), axis=1, return_inverse=True)
        between = links[0] != links[1]  # not a node's own loop
        factors = np.zeros(links.shape[1])  # nothing is sent along a loop
        factors[between] = 1.0
        if isinstance(self.per_link, Stragglers):
            factors[between] = self.per_link.factors(int(between.sum()), _LINKS)
        else:
            places = {link: i for i, link in enumerate(zip(*links.tolist(), strict=True))}
            for (u, v), factor in self.per_link.items():
                place = places.get((min(u, v), max(u, v)))
                if place is None or u == v:
                    raise InvalidParameter(
                        f"per_link must name links of the network, got {(u, v)}, which is none"
                    )
                factors[place] = factor
        found: Floats = factors[which.reshape(-1)]
        return found

    def seconds(
        self, work: AnyArray, transfers: AnyArray, small_messages: AnyArray, sent: AnyArray
    ) -> Floats:
        """Return the time of a walking model.

        ``work`` is the number of updates, each times its node's factor; ``sent`` is in bytes.

        Examples
        --------
        >>> Costs(compute=1.0, latency=0.5, bandwidth=10.0).seconds(3, 2, 4, 20)
        array(8.)
        """
        return np.asarray(
            self.compute * work
            + self.latency * (transfers + small_messages)
            + sent / self.bandwidth,
            dtype=np.float64,
        )

    def message(self, size: int) -> float:
        """Return the seconds until a message of this many bytes has arrived."""
        return self.latency + size / self.bandwidth

    def record(self, n: int) -> dict[str, Any]:
        """Return the costs as plain data, for provenance."""
        factors = self.factors(n)
        told: dict[str, Any] = {
            "name": self.name,
            "compute": float(self.compute),
            "latency": float(self.latency),
            "bandwidth": float(self.bandwidth),
            "per_node": None,
        }
        if factors is not None:
            told["per_node"] = {
                "mean": float(factors.mean()),
                "largest": float(factors.max()),
                "sha256": hashlib.sha256(factors.tobytes()).hexdigest()[:16],
            }
        if isinstance(self.per_link, Stragglers):
            told["per_link"] = repr(self.per_link)
        elif self.per_link is not None:
            words = repr(sorted(self.per_link.items())).encode()
            told["per_link"] = {
                "links": len(self.per_link),
                "largest": max(self.per_link.values()),
                "sha256": hashlib.sha256(words).hexdigest()[:16],
            }
        return told

    def __repr__(self) -> str:
        return (
            f"Costs({self.name}: {self.compute:g} s per update, {self.latency:g} s latency, "
            f"{self.bandwidth:g} bytes/s)"
        )


def _checked_links(given: Any) -> dict[tuple[int, int], float]:
    """Return factors of links as a dict of plain numbers, or refuse them."""
    try:
        links = {(int(u), int(v)): float(factor) for (u, v), factor in given.items()}
    except (AttributeError, TypeError, ValueError):
        links = {}
    both = {(v, u) for u, v in links} & set(links)
    if not links or both or not all(0.0 <= f < float("inf") for f in links.values()):
        raise InvalidParameter(
            "per_link must be a dict with one finite factor of at least 0 for a link, such as "
            f"{{(0, 1): 5.0}}, lw.Stragglers() or None, got {given!r:.80}"
        )
    return links


def as_costs(value: Any) -> Costs | None:
    """Return costs from an argument: None, `Costs`, the name of a profile, or a text.

    A text is a profile, numbers or both: ``mobile``, ``compute=0.01,latency=0.1,bandwidth=1e6``,
    ``mobile,latency=0.2``. With ``share``, ``factor`` and ``seed`` a random share of the nodes is
    slow, as in `Stragglers`; with ``link_share``, ``link_factor`` and ``link_seed`` of the links.

    Examples
    --------
    >>> as_costs("mobile,latency=0.2")
    Costs(mobile,latency=0.2: 0.01 s per update, 0.2 s latency, 1.4025e+06 bytes/s)
    >>> as_costs("data-centre,share=0.1,factor=5").per_node
    Stragglers(share=0.1, factor=5.0, seed=0)
    """
    if value is None or isinstance(value, Costs):
        return value
    if isinstance(value, str):
        return PROFILES[value] if value in PROFILES else _costs_of_text(value)
    raise InvalidParameter(
        f"costs must be lw.Costs(...), one of {', '.join(map(repr, PROFILES))}, or None, got "
        f"{value!r}"
    )


_TIMES, _LAW = ("compute", "latency", "bandwidth"), ("share", "factor", "seed")
_WORDS = (*_TIMES, *_LAW, *(f"link_{name}" for name in _LAW))


def _costs_of_text(text: str) -> Costs:
    words = [word.strip() for word in text.split(",")]
    given: dict[str, float] = {}
    if "=" not in words[0] and words[0] not in PROFILES:
        raise InvalidParameter(
            f"costs must be one of {', '.join(PROFILES)}, or numbers such as "
            f"compute=0.01,latency=0.02,bandwidth=1e6, got {text!r}"
        )
    if "=" not in words[0]:
        profile = Costs.named(words.pop(0))
        given = {name: getattr(profile, name) for name in _TIMES}
    nodes: dict[str, Any] = {}
    links: dict[str, Any] = {}
    for word in words:
        key, _, number = word.partition("=")
        if key not in _WORDS:
            raise InvalidParameter(f"costs must be made of {', '.join(_WORDS)}, got {word!r}")
        try:
            value = int(number) if key.endswith("seed") else float(number)
        except ValueError:
            raise InvalidParameter(f"costs must have a number for {key}, got {word!r}") from None
        part = given if key in _TIMES else nodes if key in _LAW else links
        part[key.removeprefix("link_")] = value
    missing = [name for name in _TIMES if name not in given]
    if missing:
        raise InvalidParameter(
            f"costs must begin with a profile ({', '.join(PROFILES)}) or have a number for "
            f"{', '.join(missing)}, got {text!r}"
        )
    return Costs(
        **given,
        per_node=Stragglers(**nodes) if nodes else None,
        per_link=Stragglers(**links) if links else None,
        name=text,
    )


PROFILES = {
    "data-centre": Costs.data_centre(),
    "home-broadband": Costs.home_broadband(),
    "mobile": Costs.mobile(),
}
