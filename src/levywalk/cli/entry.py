"""The entry point of the command: loads the command line; Ctrl-C may interrupt even that."""

from __future__ import annotations

import signal
import sys
import threading


def main() -> None:
    """Load the command line and run it."""
    try:
        from levywalk.cli.main import main as run_command

        run_command()
    except KeyboardInterrupt:
        print("Interrupted. Nothing was started: run the same command again.", file=sys.stderr)
        raise SystemExit(130) from None
    finally:
        # The work is over; Ctrl-C should not spoil Python's own end.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, signal.SIG_IGN)
