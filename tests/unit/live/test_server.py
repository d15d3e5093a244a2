"""The live server refuses what does not come from its page, and serves no files."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

import levywalk as lw
from levywalk.live.session import LiveSession
from levywalk.live.walk_player import WalkPlayer

pytest.importorskip("starlette", reason="the extra live is not installed")
from levywalk.live.server import application, bound_socket, why_refused

HOST = "127.0.0.1:8642"
JSON = {"content-type": "application/json"}


def player() -> WalkPlayer:
    designs = {"<b>WeightRW</b>": lw.weight_rw()}
    return WalkPlayer(LiveSession(lw.ring(9), lw.homogeneous(9, dim=3), designs), "<i>walks</i>")


def ask(
    app: Any,
    path: str,
    method: str = "GET",
    headers: dict[str, str] | None = None,
    body: bytes = b"",
) -> tuple[int, dict[str, str], bytes]:
    """Send one request to an application; of a stream, return the first piece."""
    given = {"host": HOST, **(headers or {})}
    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in given.items()],
        "scheme": "http",
        "server": ("127.0.0.1", 8642),
    }
    status, found, content = 0, {}, b""
    enough = asyncio.Event()
    asked = False

    async def receive() -> dict[str, Any]:
        nonlocal asked
        if not asked:
            asked = True
            return {"type": "http.request", "body": body, "more_body": False}
        await enough.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        nonlocal status, found, content
        if message["type"] == "http.response.start":
            status = message["status"]
            found = {k.decode(): v.decode() for k, v in message["headers"]}
        elif message.get("body"):
            content += message["body"]
            enough.set()

    async def once() -> None:
        await asyncio.wait_for(app(scope, receive, send), 600)

    asyncio.run(once())
    return status, found, content


def test_the_page_comes_with_a_policy_and_names_are_escaped() -> None:
    status, headers, body = ask(application(player(), {HOST}), "/")
    assert status == 200
    assert b"&lt;i&gt;walks" in body
    assert b"<i>walks" not in body
    assert headers["content-security-policy"].startswith("default-src 'none'")
    assert headers["x-content-type-options"] == "nosniff"


def test_a_stream_begins_with_everything() -> None:
    status, headers, body = ask(application(player(), {HOST}), "/events")
    assert status == 200
    assert headers["content-type"].startswith("text/event-stream")
    first = body.decode().split("\n\n")[0]
    assert first.startswith("event: hello\ndata: ")
    assert json.loads(first.partition("data: ")[2])["designs"][0]["name"] == "<b>WeightRW</b>"


def test_a_command_is_carried_out() -> None:
    app = application(player(), {HOST})
    sent = json.dumps({"do": "step", "steps": 5}).encode()
    assert ask(app, "/do", "POST", JSON, sent)[0] == 200
    found = json.loads(ask(app, "/do", "POST", JSON, b'{"do": "node", "node": 3}')[2])
    assert found["degree"] == 2


@pytest.mark.parametrize(
    ("headers", "body", "status"),
    [
        ({"host": "evil.example"}, b'{"do": "play"}', 403),
        ({"host": "127.0.0.1:1"}, b'{"do": "play"}', 403),
        ({"origin": "http://evil.example"}, b'{"do": "play"}', 403),
        ({"origin": "null"}, b'{"do": "play"}', 403),
        ({"content-type": "text/plain"}, b'{"do": "play"}', 403),
        ({"content-type": "application/x-www-form-urlencoded"}, b"do=play", 403),
        ({}, b"not json", 400),
        ({}, b"[" * 100_000, 400),
        ({}, b"[]", 400),
        ({}, b'{"do": 7}', 400),
        ({}, b'{"do": "export"}', 400),
        ({}, b'{"do": "restart", "seed": 1e999}', 400),
        ({}, b'{"do": "node", "node": "../../etc/passwd"}', 400),
        ({}, b'{"do": "play", "x": "' + b"x" * (1 << 18) + b'"}', 400),
    ],
)
def test_hostile_commands_are_refused_and_change_nothing(
    headers: dict[str, str], body: bytes, status: int
) -> None:
    shown = player()
    found, _, said = ask(application(shown, {HOST}), "/do", "POST", {**JSON, **headers}, body)
    assert found == status
    assert json.loads(said)["error"]
    assert not shown.playing


@pytest.mark.parametrize(
    "path",
    [
        "/asset/server.py",
        "/asset/../server.py",
        "/asset/%2e%2e/server.py",
        "/etc/passwd",
        "/static",
    ],
)
def test_files_are_not_served(path: str) -> None:
    assert ask(application(player(), {HOST}), path)[0] == 404


def test_with_a_secret_nothing_is_answered_without_it() -> None:
    app = application(player(), set(), "s3cret")
    for path in ("/", "/events", "/do", "/asset/view.js", "/s3cre/", "/S3CRET/"):
        assert ask(app, path)[0] == 404, path
    assert ask(app, "/s3cret/", headers={"host": "any.name:1"})[0] == 200
    assert ask(app, "/s3cret/asset/view.js")[0] == 200


def test_the_page_itself_may_send_commands() -> None:
    good = {"host": HOST, "origin": f"http://{HOST}", **JSON}
    assert why_refused("POST", good, {HOST}) == ""
    assert why_refused("POST", {**good, "origin": "http://127.0.0.1:1"}, {HOST})


def test_a_port_that_is_taken_is_refused_with_the_remedy() -> None:
    first = bound_socket("127.0.0.1", 0)
    try:
        with pytest.raises(lw.InvalidParameter, match="--port"):
            bound_socket("127.0.0.1", first.getsockname()[1])
    finally:
        first.close()
