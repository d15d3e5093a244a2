"""`levywalk reproduce`."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from levywalk.errors import InvalidParameter

if TYPE_CHECKING:
    from levywalk.experiments.judge import Claim


def reproduce(
    labels: Annotated[
        list[str] | None, typer.Argument(help="Such as homo or simentrap; a wrong one lists all.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All claims.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="Fewer instances and walks, one accuracy: minutes.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Exit 1 if a verdict is not the one expected.")] = False,
    as_text: Annotated[bool, typer.Option("--json", help="Print JSON alone.")] = False,
    out: Annotated[Path, typer.Option(help="Where results go; what is there is not computed again.")] = Path(
        "levywalk-reproduction"
    ),
    workers: Annotated[int | None, typer.Option(help="Processes; by default this one alone.")] = None,
    scheduler: Annotated[str | None, typer.Option(help="A Dask scheduler instead, such as tcp://host:8786.")] = None,
) -> None:
    """Ask every claim of the paper, and say with intervals whether it holds."""
    from levywalk.experiments.evidence import Evidence
    from levywalk.experiments.execute import writable_folder
    from levywalk.experiments.paper import FULL, LABELS, QUICK
    from levywalk.experiments.reproduce import as_json, chosen, expected_verdicts, markdown, stored, surprises
    from levywalk.experiments.store import Store
    from levywalk.progress import Bar

    if bool(labels) == everything:
        raise InvalidParameter(f"give --all or labels, of {', '.join(LABELS)}")
    effort = QUICK if quick else FULL
    asked = chosen(labels or [])
    if check:
        expected_verdicts(effort)  # before an hour is spent
    folder = writable_folder(out)
    evidence = Evidence(effort, stored(Store(folder / "store"), workers, scheduler))
    began = time.perf_counter()
    claims: list[Claim] = []
    with Bar(f"asking {len(asked)} claims", len(asked)) as bar:
        for ask in asked:
            claims.append(ask(evidence))
            bar.advance(1)
    seconds = time.perf_counter() - began
    found = as_json(claims, effort, seconds)
    (folder / "claims.json").write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    (folder / "claims.md").write_text(markdown(claims, effort, seconds), encoding="utf-8")
    unexpected = surprises(claims, effort) if check else []
    if as_text:
        print(json.dumps(found, ensure_ascii=False))
    else:
        for claim in claims:
            print(f"{claim.id:3} [{claim.label}] {claim.verdict}: {claim.text}")
            print(f"      {claim.where}")
        print(f"\n{seconds:.0f} s. Written: {folder / 'claims.md'}, {folder / 'claims.json'}")
    for line in unexpected:
        print(f"unexpected: {line}", file=sys.stderr)
    if unexpected:
        raise typer.Exit(1)
