"""Messages, events and slots of a disk in a few words, for the transcript of a run."""

from __future__ import annotations

from typing import Any

from levywalk.fleet.protocol.events import Got


def event_text(thing: Any) -> str:
    """Return a message or an event in a few words."""
    if isinstance(thing, Got):
        return f"{thing.sender} {event_text(thing.message)}"
    token = getattr(thing, "token", None)
    if token is not None:
        return f"{type(thing).__name__} {_token(token)}"
    if hasattr(thing, "certificate"):
        c = thing.certificate
        return f"{type(thing).__name__} {tuple(c.epoch)}/{c.seq} by {c.guardian} to {c.to}"
    parts = [
        f"{k}={tuple(x) if isinstance(x, tuple) else x}"
        for k, x in thing._asdict().items()
        if k != "digest"
    ]
    return " ".join([type(thing).__name__, *parts])


def _token(token: Any) -> str:
    return (
        f"{tuple(token.epoch)}/{token.seq} v{token.version} step {token.step} hop "
        f"{token.hop}/{token.distance}"
    )


def slot_text(name: str, value: Any) -> str:
    """Return a slot of the disk in a few words."""
    if value is None:
        return f"no {name}"
    if name == "held":
        return f"held {value.status} {_token(value.token)} guardian {value.guardian} to {value.to}"
    if name == "guarded":
        register = (
            value.register
            if isinstance(value.register, str | None)
            else f"released to {value.register.to}"
        )
        return f"guarded {_token(value.copy)} for {value.holder} register {register}"
    if name == "final":
        return f"final {_token(value)}"
    if name == "known":
        return f"known {tuple(value.epoch)}"
    return name
