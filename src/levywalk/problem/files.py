"""A data set from a file or a data frame, and what was taken as target, features and nodes.

`read_data` is long because each option is a parameter with a description of its own.
"""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from levywalk import checks
from levywalk.arrays import AnyArray, Floats, Ints
from levywalk.contents import content_limit
from levywalk.errors import DataWarning, InvalidData, InvalidParameter
from levywalk.notebook import table_html
from levywalk.problem.columns import Column, names_text
from levywalk.problem.data_description import description_of
from levywalk.problem.file_labels import targets_of
from levywalk.problem.formats import FORMATS, format_of, read_libsvm, read_npz
from levywalk.problem.frames import is_frame, read_frame
from levywalk.problem.problem import IDLE
from levywalk.problem.raw_data import RawData
from levywalk.problem.samples import clean_features, read_only
from levywalk.problem.scaling import standardised
from levywalk.problem.sparse_features import clean_sparse, is_sparse, read_only_features, with_ones
from levywalk.problem.text_table import read_csv
from levywalk.remedy import python_or_command

MISSING_VALUES = ("refuse", "drop")
log = logging.getLogger("levywalk.data")


class NamedNodes(Protocol):
    """What `Dataset.nodes_of` needs of a network."""

    @property
    def n(self) -> int:
        """Number of nodes."""

    @property
    def names(self) -> Sequence[str]:
        """The name of each node."""

    def numbers_of(self, names: Iterable[Any]) -> Ints:
        """Return the number of each named node, or -1."""


@dataclass(frozen=True, eq=False)
class Dataset:
    r"""Samples that `read_data` has read, and where they came from.

    Attributes
    ----------
    features, targets : arrays
        One row and one number per sample (float64, read-only). Features may be a sparse array.
    node : array or None
        The node of each sample as the data names it, if there was a node column.
    feature_names : tuple of str
        The name of each column of ``features``.
    target_name, node_name : str
        The names of the columns; ``node_name`` is None if there is none.
    header : tuple of str or None
        The first line of a CSV file, if it was taken as a header.
    description : str
        What was taken as header, target, node and features, and how many samples there are.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder, "people.csv")
    ...     _ = file.write_text("who,age,income\nann,30,2.5\nbob,40,3.5\n")
    ...     data = read_data(file, node="who")
    >>> data.description
    "people.csv: 2 samples; line 1 is the header; target 'income'; node 'who'; 1 feature: 'age'"
    >>> import networkx as nx
    >>> import levywalk as lw
    >>> data.nodes_of(lw.as_network(nx.path_graph(["bob", "ann"])))
    array([1, 0])
    """

    features: Any
    targets: Floats
    node: AnyArray | None
    feature_names: tuple[str, ...]
    target_name: str
    node_name: str | None
    header: tuple[str, ...] | None
    description: str

    @property
    def n_samples(self) -> int:
        """Number of samples."""
        return len(self.targets)

    def nodes_of(self, network: NamedNodes, idle: str = "error") -> Ints:
        """Return the number of each sample's node in the network, joined by the nodes' names.

        A name that the network does not have, and a node of the network without a sample, are
        refused with the list.

        Parameters
        ----------
        network
            The network, whose ``names`` are compared with ``node``.
        idle
            "pass" allows nodes of the network without a sample. Give it to the problem too, as in
            ``LeastSquares(..., node=data.nodes_of(network, idle="pass"), idle="pass")``.
        """
        checks.choice("idle", idle, IDLE)
        if self.node is None:
            remedy = python_or_command("node='name of the column'", "--node COLUMN")
            raise InvalidData(f"the data has no node column; read it with {remedy}")
        numbers = network.numbers_of(map(_plain, self.node.tolist()))
        unknown = list(dict.fromkeys(map(str, self.node[numbers < 0].tolist())))
        if unknown:
            raise InvalidData(
                f"{len(unknown)} node{'s' if len(unknown) > 1 else ''} of the column "
                f"{self.node_name!r} {'are' if len(unknown) > 1 else 'is'} not in the network: "
                f"{names_text(unknown)}; the network has {names_text(network.names)}"
                + _off_by_one(self.node.tolist(), network)
            )
        without = np.setdiff1d(np.arange(network.n), numbers)
        if without.size:
            names = [network.names[v] for v in without]
            if idle == "error":
                raise InvalidData(without_data(names))
            log.info(passing_on(names, network.n))
        return numbers

    def __repr__(self) -> str:
        return f"Dataset({self.description!r})"

    def _repr_html_(self) -> str:
        names = names_text(self.feature_names)
        rows: list[tuple[str, object]] = [
            ("samples", self.n_samples),
            ("features", f"{len(self.feature_names)}: {names}"),
            ("target", self.target_name),
            ("node", self.node_name),
            ("how it was read", self.description),
        ]
        return table_html(rows, "Data")


def without_data(names: Sequence[str]) -> str:
    """Return the error about nodes that hold no data."""
    many = len(names) > 1
    remedy = python_or_command(
        "distribute the samples with node=lw.partition(features, targets, network.n), or let "
        f"{'them' if many else 'it'} pass the model on with idle='pass', given to nodes_of and to "
        "the problem",
        "leave --node out, so that the samples are distributed (--partition), or let "
        f"{'them' if many else 'it'} pass the model on with --idle pass",
    )
    return (
        f"{len(names)} node{'s' if many else ''} of the network {'have' if many else 'has'} no "
        f"sample: {names_text(names)}; give {'them' if many else 'it'} data, or {remedy}"
    )


def passing_on(names: Sequence[str], n: int) -> str:
    """Return the notice about nodes that hold no data and pass the model on."""
    many = len(names) > 1
    return (
        f"{len(names)} of {n} nodes {'have' if many else 'has'} no sample and "
        f"{'pass' if many else 'passes'} the model on: {names_text(names)}"
    )


def _plain(name: Any) -> str:
    """Return an id as text; 3.0 is 3."""
    text = str(name).strip()
    return text.split(".")[0] if re.fullmatch(r"[0-9]+\.0+", text) else text


def _off_by_one(node: list[Any], network: NamedNodes) -> str:
    """Return a hint if all ids would match when they were counted from 0."""
    try:
        shifted = [int(_plain(name)) - 1 for name in node]
    except ValueError:
        return ""
    if (network.numbers_of(shifted) < 0).any():
        return ""
    remedy = python_or_command("node_base=1", "--node-base 1")
    return (
        "; the ids of the data count from 1 and those of the network from 0: number both alike (a "
        f"Matrix Market or npz network counts from 1 with {remedy})"
    )


def read_data(
    source: Any,
    *,
    target: Column | None = None,
    node: Column | None = None,
    features: str | Iterable[Column] | None = None,
    header: bool | None = None,
    format: str | None = None,
    index_base: int | None = None,
    labels: str | Iterable[Any] | None = None,
    intercept: bool = False,
    standardise: bool = False,
    missing: str = "refuse",
    dim: int | None = None,
    max_bytes: int | None = None,
    dense: bool | None = None,
) -> Dataset:
    r"""Read a data set from a LIBSVM, CSV or npz file, or from a data frame.

    Parameters
    ----------
    source
        A path (the file may be compressed with gzip), or a data frame: pandas, polars, or any
        object with the data frame interchange protocol.
    target
        The column of the targets, by name or position; None means the last column that is not the
        node's. For npz: the name of the array, by default ``targets`` or ``y``. Not for LIBSVM,
        where the label comes first.
    node
        The column with the node of each sample, by name or position (npz: the name of an array).
        `Dataset.nodes_of` joins it with the names of a network's nodes.
    features
        The columns of the features, as a list or as text such as ``"age,income,3-7"`` (a range of
        positions); None means all other columns that have a name. For LIBSVM: the indices as they
        are in the file.
    header
        For CSV: whether the first line is a header. None decides by the rule below.
    format
        ``"libsvm"``, ``"csv"`` or ``"npz"``. None chooses by the suffix: .svm .libsvm .t .txt,
        .csv .tsv, .npz, each with or without .gz.
    index_base : {0, 1}, optional
        The index of the first feature in a LIBSVM file; 1 by default.
    labels
        Two labels, numbers or text, such as ``(1, 2)`` or ``"no,yes"``: the first becomes 0 and the
        second 1, and any other label is refused. One label: it becomes 1, and all others 0. More
        than two become 0, 1, 2, …, for `levywalk.Softmax`.
    intercept
        Whether to add a feature that is 1 for every sample, as last column.
    standardise
        Whether to subtract the mean of each feature and to divide by its standard deviation, both
        over all samples. A feature that is the same for all samples stays as it is.
    missing : {"refuse", "drop"}
        What to do with a line of a CSV file or a row of a data frame in which a chosen column is
        empty, NA, NaN, null or ?: refuse it, or leave it out with a count in a `DataWarning`.
    dim
        The expected number of features. LIBSVM files omit zeros, so their largest index may be
        smaller.
    max_bytes
        The limit of the file's size after decompression; by default 1 GiB, or what
        ``--max-file-size`` or the variable LEVYWALK_MAX_FILE_SIZE says.
    dense
        For LIBSVM: whether the features become a dense matrix. None decides: they stay sparse (a
        CSR array of scipy) if there are at least 1,000 of them and fewer than 5 % of all entries
        are not 0.

    Notes
    -----
    Columns of a CSV file are separated by commas, tabs or semicolons; with semicolons, decimals may
    follow a comma. The first line is a header if it has words where the second line has none, or
    if it counts the columns: 0,1,2,… (three columns or more) or 1,2,3,… (five or more). Where both
    readings are possible, such as 0,1 or numbers and words mixed, the file is refused until
    ``header`` is given. ``description`` says what was decided.

    Examples
    --------
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"x": [1.0, 3.0], "label": ["no", "yes"]})
    >>> data = read_data(frame, labels="no,yes", intercept=True)
    >>> data.features, data.targets
    (array([[1., 1.],
           [3., 1.]]), array([0., 1.]))
    """
    checks.choice("missing", missing, MISSING_VALUES)
    if header is not None and not isinstance(header, bool):
        raise InvalidParameter(f"header must be True, False or None, got {header!r}")
    if index_base not in (None, 0, 1) or isinstance(index_base, bool):
        raise InvalidParameter(f"index_base must be 0, 1 or None, got {index_base!r}")
    if dense is not None and not isinstance(dense, bool):
        raise InvalidParameter(f"dense must be True, False or None, got {dense!r}")
    width = None if dim is None else checks.integer("dim", dim, low=1)
    if is_frame(source):
        kind, name = "data frame", "data frame"
        raw = read_frame(source, target=target, node=node, features=features, missing=missing)
    else:
        path = checks.existing_file(source)
        kind, name = format_of(path) if format is None else format, path.name
        checks.choice("format", kind, FORMATS)
        with content_limit(max_bytes):
            given = (target, node, features, header, index_base, missing, width, dense)
            raw = _read_file(path, kind, *given)
    if width is not None and len(raw.feature_names) != width:
        found = len(raw.feature_names)
        raise InvalidData(f"{source}: expected dim = {width} features, found {found}")
    return _finished(raw, name, kind, labels, intercept, standardise)


def load_dataset(
    path: str | Path,
    *,
    format: str | None = None,
    target: Column | None = None,
    dim: int | None = None,
    header: bool | None = None,
    max_bytes: int | None = None,
    dense: bool | None = None,
) -> tuple[Any, Floats]:
    r"""Return the features (samples, dim) and the targets of a data file, both float64.

    This is `read_data` without its further options; the arguments have the same meaning.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder) / "data.svm"
    ...     _ = path.write_text("+1 1:0.5 3:2\n-1 2:1\n")
    ...     load_dataset(path)
    (array([[0.5, 0. , 2. ],
           [0. , 1. , 0. ]]), array([ 1., -1.]))
    """
    clean = checks.existing_file(path)
    data = read_data(
        clean,
        format=format,
        target=target,
        dim=dim,
        header=header,
        max_bytes=max_bytes,
        dense=dense,
    )
    return data.features, data.targets


def _read_file(
    path: Path,
    kind: str,
    target: Column | None,
    node: Column | None,
    features: str | Iterable[Column] | None,
    header: bool | None,
    index_base: int | None,
    missing: str,
    dim: int | None,
    dense: bool | None,
) -> RawData:
    if index_base is not None and kind != "libsvm":
        remedy = python_or_command("index_base", "--index-base")
        raise InvalidParameter(
            f"index_base belongs to LIBSVM, and {path.name} is {kind}; drop {remedy}"
        )
    if dense is False and kind != "libsvm":
        remedy = python_or_command("dense=False", "--sparse")
        raise InvalidParameter(
            f"only LIBSVM files are read as sparse features, and {path.name} is {kind}; drop "
            f"{remedy}"
        )
    if kind == "csv":
        return read_csv(
            path, target=target, node=node, features=features, header=header, missing=missing
        )
    if header is not None:
        remedy = python_or_command("header", "--header and --no-header")
        raise InvalidParameter(f"header belongs to CSV, and {path.name} is {kind}; drop {remedy}")
    if kind == "npz":
        return read_npz(path, target=target, node=node, features=features)
    if target is not None:
        raise InvalidParameter(
            "the target of a LIBSVM file is the label, which comes first on each line; leave "
            f"{python_or_command('target', '--target')} out, got {target!r}"
        )
    if node is not None:
        remedy = python_or_command(
            "leave node out and distribute the samples (see lw.partition)",
            "leave --node out, so that the samples are distributed (--partition)",
        )
        raise InvalidParameter(
            "a LIBSVM file has no column of nodes, only a label and features, got node = "
            f"{node!r}; {remedy}, or use CSV"
        )
    return read_libsvm(path, dim=dim, index_base=index_base, features=features, dense=dense)


def _finished(
    raw: RawData,
    name: str,
    kind: str,
    labels: str | Iterable[Any] | None,
    intercept: bool,
    standardise: bool,
) -> Dataset:
    """Map the labels, scale the features, and describe what was read."""
    try:
        sparse = is_sparse(raw.features)
        features = clean_sparse(raw.features) if sparse else clean_features(raw.features)
        targets = targets_of(raw, labels)
    except InvalidData as error:
        raise InvalidData(f"{name}: {error}") from None
    names = list(raw.feature_names)
    if standardise:
        if sparse:
            raise InvalidParameter(
                f"{name}: standardised features are not sparse, because their means are "
                "subtracted; add "
                + python_or_command(
                    "dense=True or leave standardise out", "--dense or leave --standardise out"
                )
            )
        features = standardised(features)
    if intercept:
        features = with_ones(features)
        names.append("intercept")
    description = description_of(raw, name, kind, names, standardise)
    if raw.header_counts_columns or raw.left_out or raw.dropped:
        warnings.warn(description, DataWarning, stacklevel=3)
    return Dataset(
        read_only_features(features),
        read_only(targets),
        raw.node,
        tuple(names),
        raw.target_name,
        raw.node_name,
        raw.header,
        description,
    )
