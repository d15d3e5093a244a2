"""Check an installation: versions, extras, compiled code, cores, vector width and disk space."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
import tempfile
from collections.abc import Iterator
from enum import StrEnum
from importlib import metadata
from pathlib import Path
from typing import NamedTuple

import numpy as np

from levywalk.extras import EXTRAS, pip_command
from levywalk.version import __version__

_CORE = ("numpy", "scipy", "numba", "llvmlite", "matplotlib", "h5py", "h5netcdf", "pydantic")
_CORE_MORE = ("typer", "rich", "joblib", "threadpoolctl")
_LITTLE, _FEW = 1 << 30, 1 << 28  # bytes of a disk: worth a note, and too few


class CheckLevel(StrEnum):
    """How serious a finding is."""

    OK = "ok"
    NOTE = "note"  # works, but something is missing
    PROBLEM = "problem"


class InstallationCheck(NamedTuple):
    """One thing that was looked at."""

    level: CheckLevel
    what: str
    remedy: str = ""


def check_installation() -> Iterator[InstallationCheck]:
    """Yield what was found; every note and problem has a remedy.

    Examples
    --------
    >>> next(check_installation()).what
    'levywalk ... on Python ...'
    """
    python = f"{platform.python_version()} ({sys.executable})"
    yield InstallationCheck(CheckLevel.OK, f"levywalk {__version__} on Python {python}")
    yield _on_path()
    yield _libraries()
    yield from _extras()
    yield _stored_code()
    yield _compiled_walk()
    yield _cores()
    yield _vectors()
    yield _compiler()
    yield _space(Path.cwd())


def _on_path() -> InstallationCheck:
    own = Path(sys.executable).parent / "levywalk"
    found = shutil.which("levywalk")
    if found and Path(found).parent == own.parent:
        return InstallationCheck(CheckLevel.OK, f"the command levywalk is on the PATH: {found}")
    there = f"is {found}, of another environment" if found else "is not on the PATH"
    activate = own.parent / "activate"
    remedy = f"source {shlex.quote(str(activate))}" if activate.exists() else f"type {own} in full"
    return InstallationCheck(CheckLevel.NOTE, f"the command levywalk {there}", remedy)


def _libraries() -> InstallationCheck:
    versions, absent = [], []
    for name in _CORE + _CORE_MORE:
        try:
            versions.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            absent.append(name)
    if absent:
        python = shlex.quote(sys.executable)
        return InstallationCheck(
            CheckLevel.PROBLEM,
            f"libraries are missing: {', '.join(absent)}",
            f"{python} -m pip install {' '.join(absent)}",
        )
    return InstallationCheck(CheckLevel.OK, f"libraries: {', '.join(versions)}")


def _extras() -> Iterator[InstallationCheck]:
    for extra in EXTRAS.values():
        absent = extra.missing()
        if not absent:
            yield InstallationCheck(CheckLevel.OK, f"extra {extra.name}: {extra.purpose}")
        else:
            what = f"extra {extra.name} lacks {', '.join(absent)}, for: {extra.purpose}"
            yield InstallationCheck(CheckLevel.NOTE, what, pip_command(extra.name))


def _stored_code() -> InstallationCheck:
    """Return where compiled code is stored, and whether it can be."""
    from levywalk.engine.kernels.compiling import store_of_compiled_code

    folder = store_of_compiled_code()
    if folder is None or not _writable(folder):
        where = "no folder" if folder is None else f"{folder}, which"
        return InstallationCheck(
            CheckLevel.PROBLEM,
            f"compiled code would be stored in {where} that can be written to: every process "
            "compiles again, which takes seconds",
            "export NUMBA_CACHE_DIR=~/.cache/levywalk",
        )
    size = sum(file.stat().st_size for file in folder.glob("*.nb*")) if folder.is_dir() else 0
    return InstallationCheck(
        CheckLevel.OK,
        f"compiled code is stored in {folder} ({size / 1e6:.0f} MB here), which can be written",
    )


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


def _compiled_walk() -> InstallationCheck:
    """Compare a compiled walk with the same one in plain Python."""
    from levywalk.engine.run import run
    from levywalk.network import ring
    from levywalk.problem import homogeneous
    from levywalk.walks import mhlj

    network, problem = ring(20), homogeneous(20, dim=3)
    try:
        fast, plain = (
            run(
                network, problem, mhlj(), steps=200, step_size=0.01, record_walk=True,
                backend=backend, progress=False,
            )
            for backend in ("kernel", "reference")
        )  # fmt: skip
    except Exception as error:  # whatever a broken compiler raises
        said = f"a compiled walk fails: {type(error).__name__}: {error}"
    else:
        if np.array_equal(np.asarray(fast.walk), np.asarray(plain.walk)) and np.allclose(
            fast.model, plain.model, rtol=1e-9, atol=0.0
        ):
            return InstallationCheck(
                CheckLevel.OK, "a compiled walk of 200 steps equals the one in plain Python"
            )
        said = "a compiled walk differs from the one in plain Python: do not use its numbers"
    again = f"{shlex.quote(sys.executable)} -m pip install --force-reinstall numba llvmlite"
    return InstallationCheck(CheckLevel.PROBLEM, said, again)


def _cores() -> InstallationCheck:
    there = os.cpu_count() or 1
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else there
    if usable < there:
        return InstallationCheck(
            CheckLevel.NOTE,
            f"{usable} of {there} cores can be used by this process",
            "start it without taskset or a container's limit of cores, if that is not intended",
        )
    return InstallationCheck(
        CheckLevel.OK, f"{usable} cores; runs use all of them unless --threads says less"
    )


def _vectors() -> InstallationCheck:
    from levywalk.engine.kernels.machine import shape

    found = shape()
    what = f"vector registers of {found.bits} bits: {found.group} walks side by side in one"
    if os.environ.get("LEVYWALK_VECTOR_BITS"):
        return InstallationCheck(
            CheckLevel.NOTE, f"{what}, by LEVYWALK_VECTOR_BITS", "unset LEVYWALK_VECTOR_BITS"
        )
    return InstallationCheck(CheckLevel.OK, what)


def _compiler() -> InstallationCheck:
    for name in ("cc", "gcc", "clang"):
        if found := shutil.which(name):
            return InstallationCheck(
                CheckLevel.OK, f"a C compiler, for `make bench` alone: {found}"
            )
    return InstallationCheck(
        CheckLevel.NOTE, "no C compiler; only `make bench` needs one", "sudo apt install gcc"
    )


def _space(folder: Path) -> InstallationCheck:
    free = shutil.disk_usage(folder).free
    what = f"{free / 1e9:.1f} GB free in {folder}"
    if free >= _LITTLE:
        return InstallationCheck(CheckLevel.OK, what)
    level = CheckLevel.PROBLEM if free < _FEW else CheckLevel.NOTE
    return InstallationCheck(
        level, f"only {what}; results may not fit", "give --out on another disk"
    )
