"""Processes that start at once: forks of a server that has loaded the libraries.

Loading them takes a second or more.
Each is a process of its own all the same: with its own folder, output, exit code and memory.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.limits import PATIENCE

FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(
    [
        *(
            "pytest",
            "numpy",
            "scipy.sparse.linalg",
            "scipy.linalg",
            "scipy.optimize",
            "scipy.stats",
            "networkx",
            "numba",
        ),
        *(
            "pandas",
            "xarray",
            "h5netcdf",
            "h5py",
            "pydantic",
            "typer",
            "rich.table",
            "matplotlib.pyplot",
        ),
        "tests.preloaded",
        *("levywalk", "levywalk.cli.main", "levywalk.engine.kernels.backend", "levywalk.trace"),
        *(
            "levywalk.cli.notices",
            "levywalk.experiments.advice",
            "levywalk.experiments.execute",
            "levywalk.experiments.folder_report",
            "levywalk.league.recommend",
        ),
        *(
            "levywalk.fleet.setup.build",
            "levywalk.fleet.storage.store",
            "levywalk.fleet.runtime.wire",
        ),
        "tests.fleet.test_kill",  # which starts hundreds of them
    ]
)


def levywalk(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """Run the command with these arguments in a folder."""
    with tempfile.TemporaryDirectory() as folder:
        said = [Path(folder, name) for name in ("out", "err")]
        process = FORKED.Process(target=_main, args=(arguments, cwd, dict(os.environ), *said))
        process.start()
        process.join(PATIENCE)
        code = process.exitcode
        if code is None:
            process.kill()
            raise subprocess.TimeoutExpired(["levywalk", *arguments], PATIENCE)
        out, err = (path.read_text(encoding="utf-8") for path in said)
        return subprocess.CompletedProcess(["levywalk", *arguments], code, out, err)


def _main(
    arguments: tuple[str, ...], cwd: Path, environment: dict[str, str], out: Path, err: Path
) -> None:
    redirect(cwd, environment, out, err)
    sys.argv = ["levywalk", *arguments]
    from levywalk.cli.main import main

    main()


def redirect(cwd: Path, environment: dict[str, str], out: Path, err: Path) -> None:
    """Make this process one of its own: with its folder, environment and output."""
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT), number)
    sys.stdout = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    os.environ.update(environment)
    os.chdir(cwd)
