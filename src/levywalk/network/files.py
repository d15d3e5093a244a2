"""Networks from files: edge lists, Matrix Market, GraphML and scipy's npz, each also gzipped.

Files may come from unknown sources, so nothing in them is executed: no pickle, no eval, no XML
entities.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from levywalk import checks
from levywalk.archives import Archive
from levywalk.contents import OTHER_PACKING, content_limit, most_bytes, read_content
from levywalk.errors import InvalidNetwork, InvalidParameter, TooLarge
from levywalk.extras import needs
from levywalk.network.direction import DIRECTED
from levywalk.network.edgelist import MANY_NODES, read_edges
from levywalk.network.matrixmarket import parse_matrix
from levywalk.network.network import SELF_LOOPS, Network, assemble
from levywalk.network.sparse_entries import ARRAYS, entries_of
from levywalk.remedy import python_or_command
from levywalk.room import require_bytes

_SUFFIXES = {
    ".txt": "edges", ".edges": "edges", ".edgelist": "edges", ".el": "edges", ".csv": "edges",
    ".tsv": "edges", ".mtx": "mtx", ".graphml": "graphml", ".npz": "npz",
}  # fmt: skip
_FORMATS = ("edges", "mtx", "graphml", "npz")
_FOREIGN = (".gml", ".gexf", ".dot", ".gv", ".json", ".pajek", ".g6", ".s6", ".pkl", ".gpickle")
_XML_ENCODINGS = {b"utf-8", b"ascii", b"us-ascii", b"iso-8859-1"}
# Times the file's size that reading takes at its peak, by files of 2 to 16 MB at two sizes each
# (short and long ids, with and without weights). GraphML becomes Python objects. Names in an edge
# list and the entries of an archive take more, and are checked when their number is known.
_MEMORY = {"edges": 15, "mtx": 11, "graphml": 44, "npz": 2}
_ENTRY_BYTES = 120  # what a matrix in an archive takes for one entry at its peak, measured


def read_network(
    path: str | Path,
    *,
    format: str | None = None,
    self_loops: str = "none",
    largest_component: bool = False,
    directed: str = "symmetrise",
    node_base: int | None = None,
    max_bytes: int | None = None,
) -> Network:
    r"""Read a network from a file.

    Loops, duplicates and weights are dropped, with a count in one `DataWarning`. Ids that are not
    0..n-1 are renumbered in ascending order (GraphML: in the file's order) and kept in ``labels``.
    A directed graph is read as undirected, with a count of the arcs that have no reverse in the
    same warning.

    Parameters
    ----------
    path : str or Path
        The file; ``.gz`` is decompressed.
    format : {"edges", "mtx", "graphml", "npz"}, optional
        By default the suffix decides: ``.txt .edges .edgelist .el .csv .tsv`` are edge lists (two
        ids per line, numbers or names, separated by spaces, tabs, commas or semicolons; comments
        start with # or %), ``.mtx`` is Matrix Market, ``.graphml`` GraphML and ``.npz`` a scipy
        sparse matrix.
    self_loops : {"none", "counted"}
        The policy of the network.
    largest_component : bool
        Whether to keep the largest connected piece only.
    directed : {"symmetrise", "error"}
        What to do with a directed graph: read every arc as an edge in both directions, or refuse
        it. Directed is: GraphML with ``edgedefault="directed"`` and an edge list whose comments say
        so (SNAP: ``# Directed graph``), if an arc has no reverse; an edge list with some edges in
        both directions and some in one only; a matrix with an entry that has no mirror image,
        unless all entries lie on one side of the diagonal. An edge list with each edge once is
        undirected.
    node_base : {0, 1}, optional
        The id of the first node. An id that does not occur in the file is then a node without an
        edge. By default only ids that occur are nodes. In a Matrix Market file and an npz file
        every row is a node; there ``node_base=1`` only sets ``labels`` to 1..n.
    max_bytes : int, optional
        The limit of the file's size after decompression; by default 1 GiB, or what
        ``--max-file-size`` or the variable LEVYWALK_MAX_FILE_SIZE says.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "friends.txt")
    ...     _ = file.write_text("# who knows whom\n10 20\n20 35\n")
    ...     network = read_network(file)
    >>> network
    Network('friends.txt', n=3, n_edges=2, self_loops='none')
    >>> network.labels
    array([10, 20, 35])
    """
    checks.choice("self_loops", self_loops, SELF_LOOPS)
    checks.choice("directed", directed, DIRECTED)
    if node_base not in (None, 0, 1) or isinstance(node_base, bool):
        raise InvalidParameter(f"node_base must be 0, 1 or None, got {node_base!r}")
    file = checks.existing_file(path)
    kind = _format_of(file) if format is None else checks.choice("format", format, _FORMATS)
    with content_limit(max_bytes):
        data = read_content(file, InvalidNetwork, memory=_MEMORY[kind])
        if not data.strip():
            raise InvalidNetwork(f"{file}: the file is empty; a network needs at least one edge")
        network = _READERS[kind](file, data, _Wanted(self_loops, directed, node_base))
    return network.largest_component() if largest_component else network


class _Wanted(NamedTuple):
    """How a file is to be read, whatever its format."""

    self_loops: str
    directed: str
    node_base: int | None


def _format_of(file: Path) -> str:
    """Return the format that the suffix names; a final .gz is ignored."""
    suffixes = [suffix.lower() for suffix in file.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    last = suffixes[-1] if suffixes else ""
    if last in OTHER_PACKING:
        raise InvalidParameter(
            f"{file.name!r} is packed with something else than gzip; unpack it first"
        )
    if last in _FOREIGN:
        raise InvalidParameter(
            f"levywalk reads edge lists, Matrix Market, GraphML and npz files, got {file.name!r}; "
            "save it as an edge list or as GraphML (in networkx: "
            f"networkx.write_graphml(graph, '{file.stem}.graphml'))"
        )
    kind = _SUFFIXES.get(last)
    if kind is None:
        known = ", ".join(_SUFFIXES)
        raise InvalidParameter(
            f"path must end in one of {known} (or these with .gz), got {file.name!r}; "
            f"name the format with {python_or_command('format=', '--network-format')}, one of "
            f"{', '.join(map(repr, _FORMATS))}"
        )
    return kind


def _read_edges(file: Path, data: bytes, wanted: _Wanted) -> Network:
    found = read_edges(str(file), data, wanted.node_base)
    return _named(
        file,
        lambda: assemble(
            found.n,
            found.u,
            found.v,
            self_loops=wanted.self_loops,
            name=file.name,
            labels=found.labels,
            weights=found.weights,
            meaning="arcs" if found.directed else "list",
            directed=wanted.directed,
        ),
    )


def _read_mtx(file: Path, data: bytes, wanted: _Wanted) -> Network:
    matrix = parse_matrix(str(file), data)
    _require_plausible(file, matrix.shape[0], matrix.nnz)
    return _from_matrix(file, matrix, wanted)


def _read_npz(file: Path, data: bytes, wanted: _Wanted) -> Network:
    try:
        matrix = _sparse_matrix(Archive(io.BytesIO(data), "", InvalidNetwork, most_bytes()))
    except InvalidNetwork as error:
        raise InvalidNetwork(
            f"{file}: not scipy.sparse.save_npz's format: {error}; other formats: "
            f"{python_or_command('format=', '--network-format')}"
        ) from None
    _require_plausible(file, max(matrix.shape), matrix.nnz)
    return _from_matrix(file, matrix, wanted)


def _sparse_matrix(archive: Archive) -> Any:
    """Return the matrix that `scipy.sparse.save_npz` wrote, from checked arrays alone."""
    told: Any = archive.array("format", kinds="SU", dims=0).item()
    name = told.decode("latin-1") if isinstance(told, bytes) else str(told)
    if name not in ARRAYS:
        raise InvalidNetwork(
            f"the sparse format must be one of {', '.join(ARRAYS)}, got {name[:20]!r}; "
            + python_or_command(
                "save it with scipy.sparse.save_npz(path, matrix.tocsr())",
                "save it in one of these, or as an edge list",
            )
        )
    shape = archive.array("shape", kinds="iu", dims=1).tolist()
    if len(shape) != 2 or not all(0 < length < 2**31 for length in shape):
        raise InvalidNetwork(f"the matrix must have two sides below 2**31, got shape {shape[:5]}")
    if name == "coo" and "coords" in archive.names:
        row, col = archive.array("coords", kinds="iu", dims=2)
        arrays = {"data": archive.array("data"), "row": row, "col": col}
    else:
        arrays = {part: archive.array(part) for part in ARRAYS[name]}
    entries = arrays["data"].size
    require_bytes(
        f"a matrix of {entries} entries", _ENTRY_BYTES * entries, "take a smaller or sparser one"
    )
    rows, columns, values = entries_of(name, arrays, (shape[0], shape[1]))
    return sparse.coo_array((values, (rows, columns)), shape=shape)


def _from_matrix(file: Path, matrix: Any, wanted: _Wanted) -> Network:
    network = _named(
        file,
        lambda: Network.from_scipy(matrix, wanted.self_loops, file.name, directed=wanted.directed),
    )
    return replace(network, labels=np.arange(1, network.n + 1)) if wanted.node_base else network


def _read_graphml(file: Path, data: bytes, wanted: _Wanted) -> Network:
    encoding = re.match(rb"\s*<\?xml[^>]*encoding\s*=\s*[\"']([^\"']*)", data)
    if b"\0" in data or (encoding and encoding[1].lower() not in _XML_ENCODINGS):
        raise InvalidNetwork(f"{file}: GraphML is read in UTF-8 only; save the file as UTF-8")
    if re.search(rb"<!\s*(DOCTYPE|ENTITY)", data, re.IGNORECASE):
        raise InvalidNetwork(
            f"{file}: a DOCTYPE or ENTITY declaration is refused, because entities can expand a "
            "small file without limit; remove it"
        )
    with needs("graphs", f"{file}: a GraphML file"):
        import networkx as nx
    graph = _parsed(file, "GraphML", lambda: nx.read_graphml(io.BytesIO(data)))
    if all(re.fullmatch(r"0|[1-9][0-9]{0,17}", node) for node in graph):
        graph = nx.relabel_nodes(graph, int)  # GraphML writes every id as text
    if wanted.node_base is not None:
        graph = _counted_from(file, graph, wanted.node_base)
    return _named(
        file,
        lambda: Network.from_networkx(
            graph, wanted.self_loops, file.name, directed=wanted.directed
        ),
    )


def _counted_from(file: Path, graph: Any, base: int) -> Any:
    """Return the graph with all nodes from the base to the largest id, in ascending order."""
    remedy = python_or_command("leave node_base out", "leave --node-base out")
    if not all(isinstance(node, int) for node in graph):
        raise InvalidNetwork(f"{file}: the ids are names, not numbers from {base} on; {remedy}")
    low, high = min(graph), max(graph)
    if low < base or high - base > max(MANY_NODES, 100 * len(graph)):
        raise InvalidNetwork(f"{file}: ids from {low} to {high} do not count from {base}; {remedy}")
    counted = graph.__class__()
    counted.add_nodes_from(range(base, high + 1))
    counted.add_edges_from(graph.edges(data=True))
    return counted


_READERS: dict[str, Callable[[Path, bytes, _Wanted], Network]] = {
    "edges": _read_edges,
    "mtx": _read_mtx,
    "graphml": _read_graphml,
    "npz": _read_npz,
}


def _require_plausible(file: Path, n: int, entries: int) -> None:
    """Refuse a header with far more nodes than the entries of the file could connect."""
    if n > MANY_NODES and n > 100 * entries:
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
            f"{file}: not {what}: {type(error).__name__}: {detail}; other formats: "
            f"{python_or_command('format=', '--network-format')}"
        ) from error


def _named(file: Path, build: Callable[[], Network]) -> Network:
    """Build the network; errors about the content begin with the file's name."""
    try:
        return build()
    except (InvalidNetwork, TooLarge) as error:
        raise type(error)(f"{file}: {error}") from None
