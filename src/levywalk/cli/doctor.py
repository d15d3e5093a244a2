"""``levywalk doctor``: check this installation."""

from __future__ import annotations

import json

import typer

from levywalk.cli.finish import Json


def doctor(as_json: Json = False) -> None:
    """Check this installation: libraries, extras, compiled code, cores, vector width, disk.

    The exit code is 1 if there is a problem, and 0 if there are only notes.
    """
    from levywalk.engine.installation import CheckLevel, check_installation

    found = []
    for check in check_installation():
        found.append(check)
        if not as_json:
            print(f"{check.level:8} {check.what}", flush=True)
            if check.remedy:
                print(f"{'':8} → {check.remedy}")
    problems = sum(check.level == CheckLevel.PROBLEM for check in found)
    if as_json:
        checks = [check._asdict() for check in found]
        print(json.dumps({"problems": problems, "checks": checks}, indent=2))
    else:
        print(f"\n{problems or 'No'} problem{'' if problems == 1 else 's'}.")
    if problems:
        raise typer.Exit(1)
