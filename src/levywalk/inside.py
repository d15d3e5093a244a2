"""Paths that a file from somebody else names: they must not leave the folder of that file."""

from __future__ import annotations

from pathlib import Path

from levywalk.errors import InvalidParameter


def inside(folder: Path, name: str) -> Path:
    """Return the file of that name in the folder; refuse one that lies elsewhere.

    Absolute paths, ``..`` and symbolic links that leave the folder are refused, whether the file
    exists or not.

    Examples
    --------
    >>> inside(Path("results"), "data/a.csv").as_posix()
    'results/data/a.csv'
    >>> inside(Path("results"), "../a.csv")
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: the file '../a.csv' lies outside of the folder 'results'; ...
    """
    path = folder / name
    try:
        within = (
            not Path(name).is_absolute()
            and ".." not in Path(name).parts
            and path.resolve().is_relative_to(folder.resolve())
        )
    except (OSError, ValueError, RuntimeError):  # a NUL in the name, a loop of links
        within = False
    if not within:
        raise InvalidParameter(
            f"the file {name!r} lies outside of the folder {str(folder)!r}; files there are read "
            "only if the results are your own: --own-files (in Python: own_files=True)"
        )
    return path
