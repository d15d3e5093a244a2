"""The folder of an unfinished comparison: one state file for each tuning and each run."""

from __future__ import annotations

import hashlib
from pathlib import Path

from levywalk.engine.resume import remove_state
from levywalk.errors import InvalidParameter

FOLDER = "unfinished"
_SUFFIXES = (".npz", ".npz.partial", ".npz.lock")


class StateFolder:
    """The state files of a comparison, by design and part, in a folder that is created with the
    first one.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     unfinished = StateFolder(folder)
    ...     unfinished.file("WeightRW", "run").name, unfinished.exists()
    ('WeightRW-7619709c-run.npz', False)
    """

    def __init__(self, folder: str | Path) -> None:
        try:
            self.folder = Path(folder)
        except TypeError:
            raise InvalidParameter(f"resume must be a folder, got {folder!r}") from None
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidParameter(f"resume must be a folder, got the file {str(folder)!r}")

    def file(self, design: str, part: str) -> Path:
        """Return the state file of one part of a design's work; no two designs share a file."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise InvalidParameter(
                f"resume must be a folder that can be created, got {str(self.folder)!r}: "
                f"{error.strerror}"
            ) from None
        readable = "".join(letter if letter.isalnum() else "-" for letter in design)[:40]
        return (
            self.folder / f"{readable}-{hashlib.sha256(design.encode()).hexdigest()[:8]}-{part}.npz"
        )

    def exists(self) -> bool:
        """Return whether there is anything to resume from."""
        return any(self.folder.glob("*.npz"))

    def remove(self) -> None:
        """Remove the state files, and the folder unless it holds something else; refuse while a run
        is writing.
        """
        if not self.folder.is_dir():
            return
        names = {
            path.name.partition(".npz")[0]
            for path in self.folder.iterdir()
            if path.name.endswith(_SUFFIXES)
        }
        for name in sorted(names):
            remove_state(self.folder / f"{name}.npz")
        if not any(self.folder.iterdir()):
            self.folder.rmdir()
