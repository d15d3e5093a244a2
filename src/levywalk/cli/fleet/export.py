"""``levywalk fleet trace`` and ``model``: write what the walk has made."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from levywalk.cli.fleet.common import (
    ReadDir,
    TokenNumber,
    carried_out,
    check_token,
    open_any_fleet,
    shell_quoted,
)

TRACE_EXAMPLES = """Examples:

levywalk fleet trace my-fleet --out walk.nc

and then, in Python:

import levywalk as lw; lw.plot(lw.load_trace("walk.nc"), path="walk.png")"""


def trace(
    folder: ReadDir,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")] = Path(
        "trace.nc"
    ),
    missing: Annotated[
        str,
        typer.Option(
            "--missing",
            help="When a disk was lost: refuse, or mark the missing steps and continue.",
        ),
    ] = "refuse",
    token: TokenNumber = None,
) -> None:
    """Merge the nodes' logs into one trace, like that of a simulation.

    The nodes may run meanwhile. Each of several tokens is a replica of the trace; --token K takes
    one of them.
    """
    from levywalk.fleet.operate import export

    fleet = open_any_fleet(folder)
    check_token(fleet, token)
    found = carried_out(lambda _: export.trace(fleet, missing=missing, token=token))
    path = found.save(out)
    about = found.provenance["fleet"]
    walks = about.get("tokens", [about])
    missed = _said_lost(about["lost_updates"], about["lost_updates_at_most"])
    of_each = "" if len(walks) == 1 else f" of each of {len(walks)} tokens"
    last, handoffs = int(found.step[-1]), int(found.transfers[:, -1].sum())
    if about["stopped_at"] >= 0:
        print(f"{last:,} updates{of_each}, {handoffs:,} hand-offs, {missed} lost.")
    else:  # the walk may have gone much further than its last recorded step
        published = fleet.manifest.published
        following = min(last + published.record_every, published.steps)
        print(
            f"The trace ends at recorded step {last:,}{of_each}: {handoffs:,} hand-offs until "
            f"then, {missed} lost. The walk is not over; the next recorded step is {following:,}."
        )
    for one, diverged in zip(walks, found.diverged_at.tolist(), strict=True):
        _print_walk(one, last, diverged, shell_quoted(folder))
    if about.get("data") == "elsewhere":
        print("The nodes' data are elsewhere: errors and loss are unknown (NaN) in this trace.")
    if about.get("data") == "private":
        print(
            "With privacy the trace has the walk and the models, but no errors and no loss (NaN): "
            "they are functions of the nodes' data."
        )
    print(
        f"Written: {path}. In Python: import levywalk as lw; "
        f"lw.plot(lw.load_trace({str(path)!r}), path='walk.png')"
    )


def _said_lost(lost: int | None, at_most: int | None) -> str:
    """Return how many updates are lost: as many as the logs tell, and those that may be lost with a
    disk.
    """
    from levywalk.fleet.operate.log_text import count

    if lost is None:
        return "unknown how many"
    if at_most is None:
        return f"at least {lost:,} update{'' if lost == 1 else 's'}"
    return f"{lost:,} to {at_most:,} updates" if at_most > lost else count(lost, "update")


def _print_walk(about: dict[str, Any], last: int, diverged: int, at: str) -> None:
    """Print what happened to the walk of one token, if there is something to say."""
    from levywalk.fleet.operate.log_text import count

    said = f"Token {about['token']}: " if "token" in about else ""
    for start in about["memory_starts"]:
        whose = "" if start["node"] is None else f" (node {start['node']})"
        print(
            f"{said}The memory of the method started again before update {start['step'] + 1:,}: "
            f"{start['why']}{whose}."
        )
    for v, first, last in about["damaged"]:
        which = f"line {first}" if first == last else f"lines {first} to {last}"
        print(
            f"{said}The trace leaves out {which} of node {v}'s log, because of damage. To look for "
            f"more: levywalk fleet doctor {at} --scrub"
        )
    gaps = sum(step < last for step in about["missing"])
    if gaps:
        rest = "it, so its node is" if gaps == 1 else "them, so their nodes are"
        print(
            f"{said}The trace does not say where {count(gaps, 'step')} took place: no log that was "
            f"read has {rest} -1."
        )
    if diverged >= 0:
        print(
            f"{said}The model has diverged at step {diverged:,}: its errors are infinite from "
            "there on. Use a smaller --step-size (theory is stable)."
        )


MODEL_EXAMPLES = """Examples:

levywalk fleet model my-fleet --out model.safetensors

and then, in Python:

from safetensors.numpy import load_file; model = load_file("model.safetensors")["model"]

or without that library, since the numbers begin after 128 bytes:

import numpy as np; model = np.fromfile("model.safetensors", "<f8", offset=128)"""


def model(
    folder: ReadDir,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="File to write.")] = Path(
        "model.safetensors"
    ),
    node: Annotated[
        int | None, typer.Option("--node", help="Take the model from this node.")
    ] = None,
    now: Annotated[
        bool,
        typer.Option(
            "--now", help="Take the newest model on any disk, also before the walk is over."
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Write the model even if it has diverged.")
    ] = False,
    token: TokenNumber = None,
) -> None:
    """Write the final model as safetensors: a vector named model, of 64-bit floats.

    With several tokens it is the mean of their models; --token K takes one of them. The exit
    code is 1 if the model has diverged, unless you use --force.
    """
    from levywalk.fleet.operate import export

    fleet = open_any_fleet(folder)
    check_token(fleet, token)
    if token is None and fleet.manifest.tokens > 1:
        copies = carried_out(
            lambda _: export.mean_of_tokens(fleet, out, node=node, now=now, force=force)
        )
        steps = ", ".join(f"{one.token.step:,}" for one in copies)
        print(
            f"Written: {out}, the mean of the models of {len(copies)} tokens, after {steps} "
            f"updates, {len(copies[0].token.model)} numbers. --token K writes the model of one."
        )
        return
    fleet = fleet.token(token or 0)
    copy = carried_out(lambda _: export.model(fleet, out, node=node, now=now, force=force))
    what, numbers = "final" if copy.final else "newest", len(copy.token.model)
    print(
        f"Written: {out}, the {what} model, of node {copy.node} after {copy.token.step:,} updates, "
        f"{numbers} numbers"
    )
