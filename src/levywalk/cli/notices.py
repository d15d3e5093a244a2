"""Lines on stderr that say how files were read."""

from __future__ import annotations

import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_warned: set[str] = set()  # warnings that were shown


def show_warning(text: str) -> None:
    """Show a warning on stderr, once; a notice with the same text is then left out."""
    if text not in _warned:
        _warned.add(text)
        print(f"warning: {text}", file=sys.stderr)


class _OncePerText(logging.Handler):
    """Print each message once: commands may read a file several times."""

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.seen: set[str] = set()

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if text not in self.seen | _warned:
            self.seen.add(text)
            print(text, file=sys.stderr)


@contextmanager
def show_notices() -> Iterator[None]:
    """Show on stderr, within this block, what was taken as header, target and features."""
    log, handler = logging.getLogger("levywalk.data"), _OncePerText()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield
    finally:
        log.removeHandler(handler)
        log.setLevel(before)
