"""What a file needs to outlive a power cut."""

from __future__ import annotations

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Let the new name of a file outlive a power cut.

    Examples
    --------
    >>> sync_folder(Path())
    """
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
