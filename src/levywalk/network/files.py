"""Networks from files: edge lists, Matrix Market, GraphML and scipy's npz, each also gzipped.

Files may come from unknown sources, so nothing in them is executed: no pickle, no eval, no XML
entities.
"""

from __future__ import annotations

import gzip
import io
import re
import warnings
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import networkx as nx
from scipy import sparse

from levywalk import checks
from levywalk.errors import InvalidNetwork, InvalidParameter
from levywalk.network.edgelist import parse_edges
from levywalk.network.matrixmarket import parse_matrix
from levywalk.network.network import SELF_LOOPS, Network, assemble

_SUFFIXES = {
    ".txt": "edges", ".edges": "edges", ".edgelist": "edges", ".el": "edges", ".csv": "edges",
    ".tsv": "edges", ".mtx": "mtx", ".graphml": "graphml", ".npz": "npz",
}  # fmt: skip
_FORMATS = ("edges", "mtx", "graphml", "npz")
_XML_ENCODINGS = {b"utf-8", b"ascii", b"us-ascii", b"iso-8859-1"}
_MANY_NODES = 10_000_000  # above this, far more nodes than entries are treated as a damaged header


def read_network(
    path: str | Path,
    *,
    format: str | None = None,
    self_loops: str = "none",
    largest_component: bool = False,
) -> Network:
    r"""Read a network from a file.

    Loops, duplicates and weights are dropped, with a count in one `DataWarning`. Ids that are not
    0..n-1 are renumbered in ascending order (GraphML: in the file's order) and kept in ``labels``.

    Parameters
    ----------
    path : str or Path
        The file; ``.gz`` is decompressed.
    format : {"edges", "mtx", "graphml", "npz"}, optional
        By default the suffix decides: ``.txt .edges .edgelist .el .csv .tsv`` are edge lists (two
        ids per line, separated by spaces, tabs or commas; comments start with # or %), ``.mtx`` is
        Matrix Market, ``.graphml`` GraphML and ``.npz`` a scipy sparse matrix.
    self_loops : {"none", "counted"}
        The policy of the network.
    largest_component : bool
        Whether to keep the largest connected piece only.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "friends.txt")
    ...     _ = file.write_text("# who knows whom\n10 20\n20 35\n")
    ...     network = read_network(file)
    >>> network
    Network('friends.txt', n=3, edges=2, self_loops='none')
    >>> network.labels
    array([10, 20, 35])
    """
    checks.choice("self_loops", self_loops, SELF_LOOPS)
    file = checks.existing_file(path)
    kind = _format_of(file) if format is None else checks.choice("format", format, _FORMATS)
    data = _content(file)
    network = _READERS[kind](file, data, self_loops)
    return network.largest_component() if largest_component else network


def _format_of(file: Path) -> str:
    """Return the format that the suffix names; a final .gz is ignored."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    kind = _SUFFIXES.get(suffixes[-1]) if suffixes else None
    if kind is None:
        known = ", ".join(_SUFFIXES)
        raise InvalidParameter(
            f"path must end in one of {known} (or these with .gz), got {file.name!r}; "
            f"name the format with format=, one of {', '.join(map(repr, _FORMATS))}"
        )
    return kind


def _content(file: Path) -> bytes:
    """Return the file's bytes, decompressed."""
    data = file.read_bytes()
    if file.suffix.lower() == ".gz" or data[:2] == b"\x1f\x8b":
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise InvalidNetwork(
                f"{file}: damaged or cut off gzip data ({error}); fetch it again"
            ) from None
    if not data.strip():
        raise InvalidNetwork(f"{file}: the file is empty; a network needs at least one edge")
    return data


def _read_edges(file: Path, data: bytes, self_loops: str) -> Network:
    u, v, labels, weights = parse_edges(str(file), data)
    n = int(max(u.max(), v.max())) + 1
    return _named(
        file,
        lambda: assemble(
            n, u, v, self_loops=self_loops, name=file.name, labels=labels, weights=weights
        ),
    )


def _read_mtx(file: Path, data: bytes, self_loops: str) -> Network:
    matrix = parse_matrix(str(file), data)
    _require_plausible(file, matrix.shape[0], matrix.nnz)
    return _named(file, lambda: Network.from_scipy(matrix, self_loops, file.name))


def _read_npz(file: Path, data: bytes, self_loops: str) -> Network:
    # load_npz never unpickles
    matrix = _parsed(
        file, "scipy.sparse.save_npz's format", lambda: sparse.load_npz(io.BytesIO(data))
    )
    _require_plausible(file, max(matrix.shape), matrix.data.size)
    return _named(file, lambda: Network.from_scipy(matrix, self_loops, file.name))


def _read_graphml(file: Path, data: bytes, self_loops: str) -> Network:
    encoding = re.match(rb"\s*<\?xml[^>]*encoding\s*=\s*[\"']([^\"']*)", data)
    if b"\0" in data or (encoding and encoding[1].lower() not in _XML_ENCODINGS):
        raise InvalidNetwork(f"{file}: GraphML is read in UTF-8 only; save the file as UTF-8")
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", data, re.IGNORECASE):
        raise InvalidNetwork(
            f"{file}: a DOCTYPE or ENTITY declaration is refused, because entities can expand a "
            "small file without limit; remove it"
        )
    graph = _parsed(file, "GraphML", lambda: nx.read_graphml(io.BytesIO(data)))
    if all(re.fullmatch(r"0|[1-9][0-9]{0,17}", node) for node in graph):
        graph = nx.relabel_nodes(graph, int)  # GraphML writes every id as text
    return _named(file, lambda: Network.from_networkx(graph, self_loops, file.name))


_READERS: dict[str, Callable[[Path, bytes, str], Network]] = {
    "edges": _read_edges,
    "mtx": _read_mtx,
    "graphml": _read_graphml,
    "npz": _read_npz,
}


def _require_plausible(file: Path, n: int, entries: int) -> None:
    """Refuse a header with far more nodes than the entries of the file could connect."""
    if n > _MANY_NODES and n > 100 * entries:
        raise InvalidNetwork(
            f"{file}: {n} nodes but only {entries} entries; drop the isolated nodes"
        )


def _parsed(file: Path, what: str, parse: Callable[[], Any]) -> Any:
    """Run another library's parser; any exception in it is reported as an error of the file."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            return parse()
    except Exception as error:  # on malicious or damaged files the parsers raise nearly any type
        detail = " ".join(str(error).split())[:200]
        raise InvalidNetwork(
            f"{file}: not {what}: {type(error).__name__}: {detail}; other formats: format="
        ) from error


def _named(file: Path, build: Callable[[], Network]) -> Network:
    """Build the network; errors about the content begin with the file's name."""
    try:
        return build()
    except InvalidNetwork as error:
        raise InvalidNetwork(f"{file}: {error}") from None
