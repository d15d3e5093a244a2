"""A real Chromium, spoken to over a pipe in its DevTools protocol:
no driver, no library, no port.
"""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from tests.limits import PATIENCE

FLAGS = (
    *(
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--no-first-run",
        "--disable-dev-shm-usage",
    ),
    *(
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--remote-debugging-pipe",
    ),
)
# The browser reads from fd 3 and writes to fd 4.
START = (
    "import os, sys; os.dup2(int(sys.argv[1]), 3); os.dup2(int(sys.argv[2]), 4); "
    "os.execv(sys.argv[3], sys.argv[3:])"
)


def find_chromium() -> str | None:
    """Return the browser to use: $CHROMIUM, or what is installed under a usual name."""
    names = (
        os.environ.get("CHROMIUM", ""),
        "chromium",
        "chromium-browser",
        "google-chrome",
        "chrome",
    )
    return next((path for name in names if name and (path := shutil.which(name))), None)


class Chromium:
    """One page in one browser; every event is kept in ``events``."""

    def __init__(self, program: str, profile: Path) -> None:
        (taken, self._write), (self._read, given) = os.pipe(), os.pipe()
        ends = [
            fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (taken, given)
        ]  # out of the way of 3 and 4
        self._process = subprocess.Popen(
            [
                sys.executable,
                "-c",
                START,
                *map(str, ends),
                program,
                *FLAGS,
                f"--user-data-dir={profile}",
            ],
            pass_fds=ends,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        for end in (taken, given, *ends):
            os.close(end)
        self._rest, self._number, self._session = b"", 0, ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)[
            "sessionId"
        ]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Chromium:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        try:
            os.close(self._write)  # the browser ends when its pipe does
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        finally:
            os.close(self._read)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        answer = self._until(lambda found: found.get("id") == self._number)
        assert "error" not in answer, (method, answer)
        result: dict[str, Any] = answer["result"]
        return result

    def _until(self, wanted: Any) -> dict[str, Any]:
        end = time.monotonic() + PATIENCE
        while True:
            while b"\0" not in self._rest:
                ready, _, _ = select.select([self._read], [], [], max(0.0, end - time.monotonic()))
                assert ready, "the browser did not answer"
                piece = os.read(self._read, 1 << 20)
                assert piece, "the browser ended"
                self._rest += piece
            line, _, self._rest = self._rest.partition(b"\0")
            found: dict[str, Any] = json.loads(line)
            if "method" in found:
                self.events.append(found)
            if wanted(found):
                return found

    def open(self, address: str) -> None:
        """Open an address and wait until it is loaded and drawn."""
        self.events.clear()
        self.call("Page.navigate", url=address)
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda found: found.get("method") == "Page.loadEventFired")
        self.run("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def run(self, code: str) -> Any:
        """Evaluate JavaScript as if the user had asked for it, and return its value."""
        answer = self.call(
            "Runtime.evaluate",
            expression=code,
            awaitPromise=True,
            returnByValue=True,
            userGesture=True,
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    def click(self, selector: str) -> None:
        """Click in the middle of an element, with the mouse."""
        x, y = self.run(
            f"(() => {{ const node = document.querySelector({json.dumps(selector)}); "
            "node.scrollIntoView({block: 'center', behavior: 'instant'}); "
            "const box = node.getBoundingClientRect(); return [box.x + box.width / 2, box.y + "
            "box.height / 2]; })()"
        )
        self.mouse("mouseMoved", x, y)
        for kind in ("mousePressed", "mouseReleased"):
            self.mouse(kind, x, y, button="left", clickCount=1)

    def mouse(self, kind: str, x: float, y: float, **more: Any) -> None:
        """Send a mouse event."""
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def key(self, key: str) -> None:
        """Press and release a key by its name, such as "Enter" or "ArrowRight"."""
        code = {
            "Enter": 13,
            "ArrowRight": 39,
            "ArrowLeft": 37,
            "Tab": 9,
            "Escape": 27,
            "End": 35,
            "Home": 36,
            " ": 32,
        }[key]
        text = {"Enter": "\r", " ": " "}.get(key, "")
        kind = "keyDown" if text else "rawKeyDown"
        self.call(
            "Input.dispatchKeyEvent",
            type=kind,
            key=key,
            code=key,
            windowsVirtualKeyCode=code,
            text=text,
        )
        self.call(
            "Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code
        )

    def complaints(self) -> list[str]:
        """Return every error and warning of the console so far, and every exception."""
        out = []
        for event in self.events:
            details = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                out.append(str(details["exceptionDetails"]))
            if event["method"] == "Log.entryAdded" and details["entry"]["level"] in (
                "error",
                "warning",
            ):
                out.append(details["entry"]["text"])
            if event["method"] == "Runtime.consoleAPICalled" and details["type"] in (
                "error",
                "warning",
                "assert",
            ):
                out.append(str(details["args"]))
        return out

    def requests(self) -> list[str]:
        """Return every address that was asked for so far."""
        return [
            event["params"]["request"]["url"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
