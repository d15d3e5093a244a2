"""The server of the live page: it sends frames, takes a few commands, and serves no files.

What comes over the network is hostile until checked. The address must be the server's own, a
command must come from the page itself, and is small. What can be asked for is a fixed list in
memory. If the page is opened to other machines, a secret in the address is needed as well.
"""

from __future__ import annotations

import asyncio
import json
import secrets
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any, Protocol

from levywalk import extras
from levywalk.errors import InvalidParameter, LevywalkError
from levywalk.live.markup import asset_text, document

with extras.needs("live", "levywalk live"):
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response, StreamingResponse
    from starlette.routing import Route

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

LOCAL = ("127.0.0.1", "localhost", "::1")
_LARGEST = 1 << 18  # bytes of a command
_CLIENTS = 32  # pages that may look on at the same time
_BEHIND = 64  # frames that a slow page may lag behind before it is sent everything anew
_SILENCE = 15.0  # seconds after which a page is told that the server is still there
_TYPES = {"html": "text/html", "css": "text/css", "js": "text/javascript"}
_HEADERS = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data: blob:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Player(Protocol):
    """What the server shows: it begins pages, makes frames, and may take commands."""

    title: str
    scripts: tuple[str, ...]
    body: str  # the file with the page's content

    def hello(self) -> dict[str, Any]:
        """Return everything that a page needs to begin."""

    def tick(self, seconds: float) -> dict[str, Any] | None:
        """Advance after this many seconds, and return a frame, or None if there is nothing new."""

    def pause(self) -> float | None:
        """Return the seconds until the next tick; None: only a command changes anything."""

    def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command of the page and return its answer; ``"hello"`` starts from the
        beginning.
        """


class OpenPages:
    """One player and the pages that show it."""

    def __init__(self, player: Player) -> None:
        self.player = player
        self.pages: set[asyncio.Queue[str | None]] = set()
        self.lock = asyncio.Lock()
        self.changed = asyncio.Event()

    async def play(self) -> None:
        """Tick until the server stops; while no page is open, nothing happens."""
        last = time.monotonic()
        while True:
            pause = self.player.pause() if self.pages else None
            self.changed.clear()
            with suppress(TimeoutError):
                await asyncio.wait_for(self.changed.wait(), pause)
                last = time.monotonic() if pause is None else last
                continue
            now = time.monotonic()
            async with self.lock:
                frame = await asyncio.to_thread(self.player.tick, now - last)
                last = now
                if frame is not None:
                    self.tell("frame", frame)

    def tell(self, kind: str, value: dict[str, Any]) -> None:
        """Send something to all pages; a page that is far behind starts again."""
        text = event(kind, value)
        for page in self.pages:
            if page.qsize() < _BEHIND:
                page.put_nowait(text)
            elif page.qsize() == _BEHIND:
                page.put_nowait(None)

    async def do(self, command: dict[str, Any]) -> dict[str, Any]:
        """Carry out a command, between two ticks."""
        async with self.lock:
            answer = await asyncio.to_thread(self.player.do, command)
            if answer.pop("hello", False):
                self.tell("hello", self.player.hello())
            elif (frame := answer.pop("frame", None)) is not None:
                self.tell("frame", frame)
        self.changed.set()
        return answer

    async def look(self, gone: Callable[[], Awaitable[bool]]) -> AsyncIterator[str]:
        """Yield what a page is sent, from the beginning on."""
        page: asyncio.Queue[str | None] = asyncio.Queue()
        async with self.lock:
            first = event("hello", self.player.hello())
            self.pages.add(page)
        self.changed.set()
        try:
            yield first
            while not await gone():
                try:
                    text = await asyncio.wait_for(page.get(), _SILENCE)
                except TimeoutError:
                    text = ": still here\n\n"
                if text is None:  # too far behind
                    async with self.lock:
                        while not page.empty():
                            page.get_nowait()
                        text = event("hello", self.player.hello())
                yield text
        finally:
            self.pages.discard(page)


def event(kind: str, value: dict[str, Any]) -> str:
    r"""Return one server-sent event.

    Examples
    --------
    >>> event("frame", {"step": 3})
    'event: frame\ndata: {"step":3}\n\n'
    """
    return f"event: {kind}\ndata: {json.dumps(value, separators=(',', ':'), allow_nan=False)}\n\n"


def application(player: Player, hosts: set[str], secret: str = "") -> Starlette:
    """Return the application; ``hosts`` are the Host headers that it answers, empty for any.

    With a secret every address begins with it.
    """
    stage = OpenPages(player)
    assets = {name: asset_text(name).encode() for name in (*player.scripts, "live.css")}
    page = live_page(player).encode()

    async def index(request: Request) -> Response:
        return Response(page, media_type="text/html")

    async def asset(request: Request) -> Response:
        name = request.path_params["name"]
        if name not in assets:
            return JSONResponse({"error": "there is no such file"}, 404)
        return Response(assets[name], media_type=_TYPES[name.rpartition(".")[2]])

    async def events(request: Request) -> Response:
        if len(stage.pages) >= _CLIENTS:
            return JSONResponse({"error": f"{_CLIENTS} pages are open already; close one"}, 503)
        return StreamingResponse(
            stage.look(request.is_disconnected), media_type="text/event-stream"
        )

    async def command(request: Request) -> Response:
        try:
            return JSONResponse(await stage.do(await _command_of(request)))
        except LevywalkError as error:
            return JSONResponse({"error": str(error)}, 400)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        playing = asyncio.create_task(stage.play())
        yield
        playing.cancel()
        with suppress(asyncio.CancelledError):
            await playing

    at = f"/{secret}" if secret else ""
    app = Starlette(
        routes=[
            Route(f"{at}/", index, methods=["GET"]),
            Route(f"{at}/asset/{{name}}", asset, methods=["GET"]),
            Route(f"{at}/events", events, methods=["GET"]),
            Route(f"{at}/do", command, methods=["POST"]),
        ],
        lifespan=lifespan,
    )
    app.add_middleware(RequestGuard, hosts=hosts)
    return app


async def _command_of(request: Request) -> dict[str, Any]:
    """Read a command, which is a small JSON object."""
    body = b""
    async for piece in request.stream():
        body += piece
        if len(body) > _LARGEST:
            raise InvalidParameter(f"a command must have at most {_LARGEST} bytes")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        raise InvalidParameter("a command must be JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("do"), str):
        raise InvalidParameter('a command must be an object such as {"do": "play"}')
    return found


class RequestGuard:
    """Refuses what does not come from the page, before anything is read."""

    def __init__(self, app: ASGIApp, hosts: set[str]) -> None:
        self.app, self.hosts = app, hosts

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer, with headers under which nothing but the page's own scripts run."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        given = {key.decode("latin-1"): value.decode("latin-1") for key, value in scope["headers"]}
        why = why_refused(scope["method"], given, self.hosts)

        async def guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                more = [(key.encode(), value.encode()) for key, value in _HEADERS.items()]
                message["headers"] = [*message.get("headers", []), *more]
            await send(message)

        if why:
            await JSONResponse({"error": why}, 403)(scope, receive, guarded)
        else:
            await self.app(scope, receive, guarded)


def why_refused(method: str, headers: dict[str, str], hosts: set[str]) -> str:
    """Return why a request is refused, or nothing.

    Another site's page can send requests to this machine, under a name of its own (Host) or from
    its own address (Origin); neither is answered.

    Examples
    --------
    >>> why_refused("GET", {"host": "127.0.0.1:8000"}, {"127.0.0.1:8000"})
    ''
    >>> why_refused("GET", {"host": "evil.example"}, {"127.0.0.1:8000"})
    "the page is not at 'evil.example'"
    """
    host = headers.get("host", "").lower()
    if hosts and host not in hosts:
        return f"the page is not at {host[:80]!r}"
    origin = headers.get("origin")
    if origin is not None and origin.lower() not in (f"http://{host}", f"https://{host}"):
        return "a request must come from the page itself"
    if method == "POST" and headers.get("content-type", "").partition(";")[0] != "application/json":
        return "a command must be sent as application/json"
    return ""


def live_page(player: Player) -> str:
    """Return the page of a player."""
    scripts = "\n".join(f'<script src="asset/{name}" defer></script>' for name in player.scripts)
    style = '<link rel="stylesheet" href="asset/live.css">'
    return document(player.title, asset_text(player.body), style, scripts)


def bound_socket(host: str, port: int) -> socket.socket:
    """Return a socket that listens; a port that is taken is refused with the remedy."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind((host, port))
        made.listen(64)
    except OSError as error:
        made.close()
        raise InvalidParameter(
            f"port {port} of {host} cannot be used ({error.strerror}); give another --port, such "
            "as --port 0, which takes a free one"
        ) from None
    return made


def serve(player: Player, host: str, port: int, ready: Callable[[str], None]) -> None:
    """Serve until Ctrl-C; ``ready`` gets the address of the page."""
    with extras.needs("live", "levywalk live"):
        import uvicorn

    listening = bound_socket(host, port)
    port = listening.getsockname()[1]
    local = host in LOCAL
    secret = "" if local else secrets.token_urlsafe(18)
    hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost", "[::1]")} if local else set()
    app = application(player, hosts, secret)
    shown = f"[{host}]" if ":" in host else host
    if host in ("0.0.0.0", "::"):
        shown = socket.gethostname()
    config = uvicorn.Config(
        app,
        log_level="critical",
        access_log=False,
        server_header=False,
        limit_concurrency=200,
        timeout_graceful_shutdown=1,
        lifespan="on",
        ws="none",
    )
    ready(f"http://{shown}:{port}/{secret + '/' if secret else ''}")
    with suppress(KeyboardInterrupt):
        uvicorn.Server(config).run(sockets=[listening])
