"""Read a data set from a LIBSVM, CSV or npz file.

An error names the file and the line, and shows the text of the line.
"""

from __future__ import annotations

import csv
import gzip
import io
import math
import zipfile
import zlib
from array import array
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any

import numpy as np

from levywalk import checks
from levywalk.arrays import Floats
from levywalk.errors import InvalidData, InvalidParameter, TooLarge
from levywalk.problem.samples import clean_features, clean_targets

_FORMATS = ("libsvm", "csv", "npz")
_SUFFIXES = {
    ".svm": "libsvm",
    ".libsvm": "libsvm",
    ".t": "libsvm",
    ".txt": "libsvm",
    ".csv": "csv",
    ".tsv": "csv",
    ".npz": "npz",
}
_DELIMITERS = (",", "\t", ";")
_NPZ_NAMES = (("features", "targets"), ("X", "y"))
_LIMIT = 4 << 30  # bytes of a dense matrix; a problem needs twice as much
_SHOWN = 60  # characters of an offending line in a message
_GZIP_MAGIC = b"\x1f\x8b"


def load_dataset(
    path: str | Path,
    *,
    format: str | None = None,
    target: str | int | None = None,
    dim: int | None = None,
) -> tuple[Floats, Floats]:
    r"""Return the features (samples, dim) and the targets of a data file, both float64.

    Parameters
    ----------
    path
        The file; it may be compressed with gzip.
    format
        ``"libsvm"``, ``"csv"`` or ``"npz"``. None chooses the format by the suffix: .svm .libsvm .t
        .txt, .csv .tsv, .npz, each with or without .gz.
    target
        For CSV: the column of the targets, by name (if there is a header) or by position; None
        means the last column. For npz: the name of the array of targets; None means ``targets`` or
        ``y``, together with ``features`` or ``X``.
    dim
        The number of features. LIBSVM files omit zeros, so their largest index may be smaller;
        other files must have exactly this number.

    Notes
    -----
    A line of a LIBSVM file is ``label index:value …``; indices start at 1 and increase, and ``#``
    starts a comment. The columns of a CSV file are separated by commas, tabs or semicolons; a first
    line without any number is a header.

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
    kind = _format_of(clean) if format is None else checks.choice("format", format, _FORMATS)
    width = None if dim is None else checks.integer("dim", dim, low=1)
    if kind == "libsvm":
        if target is not None:
            raise InvalidParameter(
                f"target must be None for LIBSVM (the label comes first), got {target!r}"
            )
        return _read_libsvm(clean, width)
    features, targets = _read_csv(clean, target) if kind == "csv" else _read_npz(clean, target)
    if width is not None and features.shape[1] != width:
        raise InvalidData(f"{clean}: expected dim = {width} features, found {features.shape[1]}")
    return features, targets


def _format_of(path: Path) -> str:
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    if not suffixes or suffixes[-1] not in _SUFFIXES:
        raise InvalidParameter(
            f"the format of {path.name!r} is unknown; name it with format= (one of "
            f"{', '.join(_FORMATS)})"
        )
    return _SUFFIXES[suffixes[-1]]


def _open(path: Path) -> gzip.GzipFile | IO[bytes]:
    with path.open("rb") as file:
        zipped = file.read(2) == _GZIP_MAGIC
    return gzip.open(path, "rb") if zipped else path.open("rb")


def _lines(path: Path) -> Iterator[tuple[int, str]]:
    """Yield every line with its number.

    Errors of the file system or gzip become errors that name the file and the line.
    """
    number = 0
    try:
        with (
            _open(path) as file,
            io.TextIOWrapper(file, encoding="utf-8-sig", newline=None) as text,
        ):
            for number, line in enumerate(text, start=1):
                yield number, line
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InvalidData(
            f"{path}, after line {number}: damaged gzip ({error}); fetch it again"
        ) from None
    except UnicodeDecodeError:
        raise InvalidData(
            f"{path}, after line {number}: not a text file; is format= right?"
        ) from None


def _bad(path: Path, number: int, line: str, why: str) -> InvalidData:
    shown = line.strip()
    shown = shown if len(shown) <= _SHOWN else shown[:_SHOWN] + "…"
    return InvalidData(f"{path}, line {number}: {why}; the line is {shown!r}")


def _number(text: str) -> float:
    """Return a finite float; notation that only Python allows, such as 1_000, is refused."""
    value = float(text)
    if "_" in text or not math.isfinite(value):
        raise ValueError(text)
    return value


def _refuse_too_large(path: Path, rows: int, columns: int) -> None:
    if 8 * rows * columns > _LIMIT:
        raise TooLarge(
            f"{path}: {rows} samples of {columns} features need {8 * rows * columns / 2**30:.1f} "
            "GiB as a "
            f"dense matrix (limit {_LIMIT >> 30} GiB); select samples or features first"
        )


def _read_libsvm(path: Path, dim: int | None) -> tuple[Floats, Floats]:
    labels, values, columns, counts = array("d"), array("d"), array("q"), array("q")
    for number, line in _lines(path):
        fields = line.partition("#")[0].split()
        if not fields:
            continue
        try:
            labels.append(_number(fields[0]))
        except ValueError:
            raise _bad(
                path, number, line, f"the label {fields[0]!r} is not a finite number"
            ) from None
        previous = 0
        for field in fields[1:]:
            previous, value = _libsvm_pair(path, number, line, field, previous)
            if dim is not None and previous > dim:
                raise _bad(path, number, line, f"index {previous} is above dim = {dim}")
            columns.append(previous - 1)
            values.append(value)
        counts.append(len(fields) - 1)
    if not labels:
        raise InvalidData(f"{path}: no sample in the file")
    width = dim if dim is not None else max(columns, default=-1) + 1
    if width == 0:
        raise InvalidData(f"{path}: no feature in the file; every line has only a label")
    _refuse_too_large(path, len(labels), width)
    features = np.zeros((len(labels), width))
    features[np.repeat(np.arange(len(labels)), counts), np.asarray(columns)] = values
    return features, np.asarray(labels, dtype=np.float64)


def _libsvm_pair(
    path: Path, number: int, line: str, field: str, previous: int
) -> tuple[int, float]:
    left, colon, right = field.partition(":")
    if not colon:
        raise _bad(path, number, line, f"{field!r} is not index:value")
    if not (left.isascii() and left.isdigit()) or len(left) > 18:
        raise _bad(path, number, line, f"the index in {field!r} is not a whole number from 1")
    index = int(left)
    if index == 0:
        raise _bad(path, number, line, "index 0; LIBSVM indices start at 1")
    if index <= previous:
        raise _bad(path, number, line, f"index {index} after {previous}; indices must increase")
    try:
        return index, _number(right)
    except ValueError:
        raise _bad(path, number, line, f"the value in {field!r} is not a finite number") from None


def _read_csv(path: Path, target: str | int | None) -> tuple[Floats, Floats]:
    header: list[str] | None = None
    values, width, rows = array("d"), 0, 0
    for number, fields, line in _csv_rows(path):
        if width == 0:
            width = len(fields)
            if width < 2:
                raise _bad(
                    path, number, line, "one column; a data set needs a feature and a target"
                )
            if not any(_is_number(field) for field in fields):
                header = fields
                continue
        if len(fields) != width:
            raise _bad(
                path, number, line, f"{len(fields)} columns where the first line has {width}"
            )
        for column, field in enumerate(fields):
            try:
                values.append(_number(field))
            except ValueError:
                name = repr(header[column]) if header else str(column)
                why = f"column {name} holds {field!r}, not a finite number"
                raise _bad(path, number, line, why) from None
        rows += 1
        _refuse_too_large(path, rows, width)
    if rows == 0:
        raise InvalidData(f"{path}: no sample in the file")
    table = np.frombuffer(values, dtype=np.float64).reshape(rows, width)
    column = _target_column(path, target, header, width)
    return np.delete(table, column, axis=1), table[:, column].copy()


def _csv_rows(path: Path) -> Iterator[tuple[int, list[str], str]]:
    delimiter = ""
    for number, line in _lines(path):
        if not line.strip():
            continue
        delimiter = delimiter or max(_DELIMITERS, key=line.count)
        try:
            # Parse line by line, so that an unclosed quote affects only its own line.
            (fields,) = csv.reader([line], delimiter=delimiter, strict=True, skipinitialspace=True)
        except (csv.Error, ValueError) as error:
            raise _bad(path, number, line, f"not CSV ({error})") from None
        yield number, [field.strip() for field in fields], line


def _is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _target_column(
    path: Path, target: str | int | None, header: list[str] | None, width: int
) -> int:
    if target is None:
        return width - 1
    if isinstance(target, str):
        if header is None:
            raise InvalidData(
                f"{path}: no header to find target = {target!r} in; give the column's position"
            )
        if header.count(target) != 1:
            found = "twice or more" if target in header else "not"
            raise InvalidData(
                f"{path}: the column {target!r} is {found} in the header {_some(header)}"
            )
        return header.index(target)
    return checks.integer("target", target, low=-width, high=width - 1) % width


def _some(names: Iterable[str]) -> str:
    text = ", ".join(map(repr, names))
    return text if len(text) <= 4 * _SHOWN else text[: 4 * _SHOWN] + "…"


def _read_npz(path: Path, target: str | int | None) -> tuple[Floats, Floats]:
    if target is not None and not isinstance(target, str):
        raise InvalidParameter(f"target must name an array of the npz file, got {target!r}")
    try:
        with _open(path) as file:
            archive = np.load(_seekable(file), allow_pickle=False)
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InvalidData(
                    f"{path}: not npz; save it with np.savez(path, features=…, targets=…)"
                )
            left, right = _npz_names(path, archive.files, target)
            features, targets = _npz_array(path, archive, left), _npz_array(path, archive, right)
    except (
        ValueError,
        OSError,
        EOFError,
        zlib.error,
        zipfile.BadZipFile,
        NotImplementedError,
    ) as error:
        if isinstance(error, InvalidData | TooLarge):
            raise
        raise InvalidData(f"{path}: not a readable npz archive of plain arrays ({error})") from None
    try:
        clean = clean_features(features)
        return clean, clean_targets(targets, len(clean))
    except InvalidData as error:
        raise InvalidData(f"{path}: {error}") from None


def _seekable(file: gzip.GzipFile | IO[bytes]) -> IO[bytes]:
    # An archive is read from its end, which a gzip stream does not support.
    return io.BytesIO(file.read()) if isinstance(file, gzip.GzipFile) else file


def _npz_names(path: Path, names: list[str], target: str | None) -> tuple[str, str]:
    for left, right in _NPZ_NAMES:
        wanted = target if target is not None else right
        if left in names and wanted in names:
            return left, wanted
    raise InvalidData(
        f"{path}: needs arrays named features and targets, or X and y (target = {target!r}); "
        f"it has {_some(names) or 'none'}"
    )


def _npz_array(path: Path, archive: Any, name: str) -> Any:
    size = archive.zip.getinfo(f"{name}.npy").file_size
    if size > _LIMIT:
        raise TooLarge(
            f"{path}: the array {name} takes {size / 2**30:.1f} GiB (limit {_LIMIT >> 30} GiB)"
        )
    try:
        return archive[name]
    except MemoryError:
        raise TooLarge(f"{path}: the array {name} does not fit into memory") from None
