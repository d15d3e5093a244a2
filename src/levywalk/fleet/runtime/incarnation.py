"""The identity of a state folder: random bytes that a new folder gets, so that a lost disk is
noticed.
"""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import NamedTuple

from levywalk.errors import InvalidParameter
from levywalk.whole_files import write_whole

LIFE = "life.json"


class Incarnation(NamedTuple):
    """What a new state folder gets: random bytes that name it, and the number that the node draws
    from.
    """

    incarnation: bytes
    entropy: int

    @classmethod
    def of(cls, state: Path) -> Incarnation:
        """Read the folder's incarnation, or write a new one if the folder has none."""
        path = state / LIFE
        if path.is_file():
            try:
                found = json.loads(path.read_bytes())
                return cls(bytes.fromhex(found["incarnation"]), int(found["entropy"]))
            except (ValueError, KeyError, TypeError):
                raise InvalidParameter(
                    f"{path} is damaged: restore it from a backup of the folder"
                ) from None
        life = cls(secrets.token_bytes(16), secrets.randbits(128))
        text = json.dumps({"incarnation": life.incarnation.hex(), "entropy": life.entropy})
        write_whole(path, text.encode(), 0o600)
        return life
