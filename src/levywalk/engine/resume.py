"""The state of a long run on disk.

A run that was interrupted at any time can be resumed from it, and gives the same bits.

The file is a numpy archive without pickle. It contains every array of the state and the record, and
a JSON text that says which run it is, on which machine it was written and how many steps are done.
The file is replaced atomically, so that either the old or the new one exists if the process is
killed. The content of a file is not trusted: shape and type are checked before an array is read,
and numbers that would make a kernel access wrong memory, or that no run could have written, are
refused.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import platform
import time
import warnings
import zipfile
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

import numpy as np

from levywalk.archives import array_header, fill
from levywalk.arrays import AnyArray
from levywalk.draws import VERSION as DRAWS_VERSION
from levywalk.engine.bind import BoundPhase
from levywalk.engine.own_code import own_code
from levywalk.engine.prepare import Job
from levywalk.engine.resume_checks import contradiction
from levywalk.engine.run_state import RunRecord, RunState
from levywalk.errors import InvalidParameter, ResumeError, ResumeInUse, ResumeWarning
from levywalk.problem import GeneralizedLinear, Problem, follows_its_loss, known_optimum
from levywalk.problem.differentiable import DifferentiableProblem
from levywalk.schedule import Constant, Schedule, is_schedule, schedule_values
from levywalk.version import __version__, source_digest
from levywalk.whole_files import sync_folder

SAVE_EVERY = 60.0  # seconds between two writes of the state …
_SAVING_SHARE = 20  # … or more: writing takes at most one in so many seconds
_FORMAT = "levywalk-run-1"
_ABOUT = "about"
_MOST_ABOUT = 1 << 20  # bytes
_PROBES = 1000  # nodes and steps at which a problem or schedule without a fingerprint is evaluated
_DIGEST = "sha256:"


@dataclass
class RunProgress:
    """How far a run is: updates done, seconds spent, and the steps at which it was resumed."""

    done: int = 0
    seconds: float = 0.0
    resumed_at: list[int] = field(default_factory=list)


class StateFile:
    """The state file of one run.

    It is locked while it is open, so that two runs never write the same file.

    Parameters
    ----------
    path
        The path of the file, which need not exist yet.
    job, seed
        The run to which the file must belong.
    """

    def __init__(self, path: str | Path, job: Job, seed: int) -> None:
        try:
            self.path = Path(path)
        except TypeError:
            raise InvalidParameter(f"resume must be a path, got {path!r}") from None
        if not self.path.parent.is_dir():
            raise InvalidParameter(
                f"resume must lie in a folder that exists, got {str(path)!r}; create "
                f"{str(self.path.parent)!r} first"
            )
        if self.path.is_dir():
            raise InvalidParameter(f"resume must name a file, got the folder {str(path)!r}")
        self.job = job
        self.identity = identity(job, seed)
        self.machine = machine()
        if isinstance(job.run_plan.problem, DifferentiableProblem):
            self.machine["framework"] = job.run_plan.problem.framework
        self.pause = SAVE_EVERY
        self._beside = self.path.with_name(self.path.name + ".lock")
        self._lock: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self.path.exists() and not self.path.is_file():
            raise InvalidParameter(f"resume must be a file, got {str(self.path)!r}")
        self._lock = _locked(self._beside)
        if self._lock is None:
            raise ResumeInUse(
                f"{self.path} is in use by another run; wait for it, or give resume another file"
            )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._lock is not None
        self._beside.unlink(missing_ok=True)
        self._lock.close()

    def load(self, state: RunState, record: RunRecord) -> RunProgress:
        """Fill state and record from the file; without one, nothing has been done. A bad file is
        left as it is.
        """
        if not self.path.exists():
            return RunProgress()
        try:
            with zipfile.ZipFile(self.path) as archive:
                progress = self._about(archive)
                for name, array in _arrays(state, record).items():
                    _read_into(archive, name, array)
        except ResumeError:
            raise
        except (
            Exception
        ) as error:  # zipfile, zlib and numpy raise many types of errors on damaged files
            raise self._refusal(f"cannot be read ({type(error).__name__}: {error})") from None
        wrong = contradiction(self.job, state, record, progress.done)
        if wrong is not None:
            raise self._refusal(f"contradicts itself: {wrong}")
        if 0 < progress.done < self.job.run_plan.steps:
            progress.resumed_at.append(progress.done)
        return progress

    def save(self, state: RunState, record: RunRecord, progress: RunProgress) -> None:
        """Replace the file as a whole; if the disk refuses, warn and keep the last one, for the run
        is not at fault.
        """
        began = time.monotonic()
        about = {
            "format": _FORMAT,
            "run": self.identity,
            "machine": self.machine,
            "done": progress.done,
            "seconds": progress.seconds,
            "resumed_at": progress.resumed_at,
        }
        text = np.frombuffer(json.dumps(about).encode(), np.uint8)
        partial = self.path.with_name(self.path.name + ".partial")
        try:
            with partial.open("wb") as file:
                with zipfile.ZipFile(file, "w") as archive:
                    for name, array in {_ABOUT: text, **_arrays(state, record)}.items():
                        with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                            np.lib.format.write_array(member, array, allow_pickle=False)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(self.path)
            sync_folder(self.path.parent)
        except OSError as error:
            partial.unlink(missing_ok=True)
            warnings.warn(
                f"the run's state could not be written to {self.path}: {error.strerror or error}; "
                "the run continues",
                ResumeWarning,
                stacklevel=4,
            )
        self.pause = max(SAVE_EVERY, _SAVING_SHARE * (time.monotonic() - began))

    def _about(self, archive: zipfile.ZipFile) -> RunProgress:
        """Read what the file is about; refuse another run."""
        with archive.open(f"{_ABOUT}.npy") as member:
            shape, dtype = _header(member)
            if dtype != np.uint8 or len(shape) != 1 or shape[0] > _MOST_ABOUT:
                raise self._refusal("is no run's state")
            about = json.loads(member.read(shape[0]))
        if not isinstance(about, dict) or about.get("format") != _FORMAT:
            raise self._refusal(f"is not a run's state of format {_FORMAT!r}")
        there = about["run"]
        differ = [
            name
            for name in {**self.identity, **there}
            if there.get(name) != self.identity.get(name)
        ]
        if differ:
            listed = ", ".join(
                _difference(name, there.get(name), self.identity.get(name)) for name in differ
            )
            raise ResumeError(
                f"{self.path} holds another run, with a different {listed}; give resume another "
                "file for this run, or "
                "delete the file to start from the beginning"
            )
        if about["machine"] != self.machine:
            names = [
                name for name in self.machine if about["machine"].get(name) != self.machine[name]
            ]
            listed = ", ".join(
                _difference(name, about["machine"].get(name), self.machine[name]) for name in names
            )
            warnings.warn(
                f"{self.path} was written on another machine, with a different {listed}: the walk "
                "is the same, but "
                "models may differ from those of an uninterrupted run in the last digits",
                ResumeWarning,
                stacklevel=5,
            )
        done, seconds, resumed_at = about["done"], about["seconds"], about["resumed_at"]
        if type(done) is not int or not 0 <= done <= self.job.run_plan.steps:
            raise self._refusal(
                f"contradicts itself: {done!r} of {self.job.run_plan.steps} steps done"
            )
        if type(seconds) is not float or not (math.isfinite(seconds) and seconds >= 0.0):
            raise self._refusal(f"contradicts itself: {seconds!r} seconds spent")
        if not isinstance(resumed_at, list) or not all(
            type(step) is int and 0 < step <= done for step in resumed_at
        ):
            raise self._refusal("contradicts itself: resumed at steps that it has not reached")
        return RunProgress(done, seconds, resumed_at)

    def _refusal(self, what: str) -> ResumeError:
        return ResumeError(
            f"{self.path} {what}; the file is left as it is: delete it to start from the "
            "beginning, or restore a copy"
        )


def _arrays(state: RunState, record: RunRecord) -> dict[str, AnyArray]:
    """Return all arrays that a run changes, by name."""
    arrays = {f"state.{name}": array for name, array in state.arrays().items()}
    arrays |= {"record.errors": record.errors, "record.counts": record.counts}
    arrays |= {"record.metrics": record.metrics} if record.metrics.size else {}
    return arrays | ({"record.time": record.time} if record.time.size else {})


def _header(member: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    """Read the header of an array in numpy's format; Fortran order is refused."""
    shape, fortran, dtype = array_header(member)
    if fortran and len(shape) > 1:
        raise ValueError("an array in Fortran order")
    return shape, dtype


def _read_into(archive: zipfile.ZipFile, name: str, array: AnyArray) -> None:
    """Read an array of exactly this shape and type, in chunks.

    The archive verifies its checksum at the end.
    """
    with archive.open(f"{name}.npy") as member:
        shape, dtype = _header(member)
        if shape != array.shape or dtype != array.dtype:
            raise ValueError(
                f"{name} is {dtype} of shape {shape}, not {array.dtype} of shape {array.shape}"
            )
        fill(member, array.reshape(-1).view(np.uint8))


def _difference(name: str, there: Any, here: Any) -> str:
    """Name what differs, with the values if they are readable."""
    if str(there).startswith(_DIGEST) or str(here).startswith(_DIGEST):
        return name
    return f"{name} ({there!r} there, {here!r} here)"


def identity(job: Job, seed: int) -> dict[str, Any]:
    """Return the identity of a run as JSON: two runs with equal identities make the same steps.

    The number of threads and the design's name are not included, since they do not change the
    results.
    """
    plan = job.run_plan
    own = own_code(plan.update, *[phase.bound.walk for phase in plan.phases])
    return {
        "levywalk version": __version__,
        "version of the draws": DRAWS_VERSION,
        "network": _DIGEST + plan.network.fingerprint(),
        "problem": _DIGEST + _problem_fingerprint(plan.problem),
        "design": _digest(
            *[part for phase in plan.phases for part in _design_parts(phase, plan.steps)],
            plan.detector,
        ),
        "step size": _digest(
            plan.scale,
            *[(phase.published.scaled, phase.published.most) for phase in plan.phases],
            *[
                part
                for phase in plan.phases
                for part in _schedule_parts(phase.step_size, plan.steps)
            ],
        ),
        "update": _described(plan.update),
        **({} if own is None else {"code of your own methods": _DIGEST + own}),
        "backend": job.backend,
        "seed": seed,
        "purpose": "tuning" if job.tuning else "run",
        "replicas": plan.replicas,
        "steps": plan.steps,
        "start": _digest(job.start),
        "x0": _digest(job.x0),
        "checkpoints": _digest(job.checkpoints),
        "record_walk": plan.record_walk,
        "record_visits": plan.record_visits,
        "loss": "exact" if job.loss_nodes is None else _digest(job.loss_nodes),
        **({} if job.costs is None else {"costs": _digest(job.costs.record(plan.network.n))}),
        **({} if job.metrics is None else {"metrics": job.metrics.identity()}),
        **({} if plan.method.privacy is None else {"privacy": repr(plan.method.privacy)}),
    }


def _locked(beside: Path) -> IO[bytes] | None:
    """Return the lock file, open and locked, or None if another run holds it."""
    import fcntl

    try:
        lock = beside.open("wb")
    except OSError as error:
        raise InvalidParameter(
            f"resume must lie in a folder that can be written, got {str(beside)!r}: "
            f"{error.strerror}"
        ) from None
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # The run that held the lock may have removed the file between the two lines above.
        mine = os.path.samestat(os.fstat(lock.fileno()), beside.stat())
    except (BlockingIOError, FileNotFoundError):
        mine = False
    if mine:
        return lock
    lock.close()
    return None


def remove_state(path: Path) -> None:
    """Remove a run's state, partial and lock files; refuse if another run is writing them."""
    beside = path.with_name(path.name + ".lock")
    lock = _locked(beside)
    if lock is None:
        raise ResumeInUse(f"{path} is in use by another run; wait for it, or stop it")
    for file in (path, path.with_name(path.name + ".partial"), beside):
        file.unlink(missing_ok=True)
    lock.close()


def machine() -> dict[str, str]:
    """Return what can change a model's last digits although the run is the same.

    Examples
    --------
    >>> sorted(machine())
    ['cpu', 'kernels', 'numba', 'numpy']
    """
    cpu = platform.processor()
    table = Path("/proc/cpuinfo")
    if table.exists():
        names = [
            line.partition(":")[2].strip()
            for line in table.read_text().splitlines()
            if line.startswith("model name")
        ]
        cpu = names[0] if names else cpu
    # the files are read and not imported, because the reference backend needs no numba
    kernels = source_digest("engine/kernels")[:8]
    kernels = f"{kernels} {os.environ.get('LEVYWALK_KERNELS', '')}".strip()
    try:
        numba = version("numba")
    except PackageNotFoundError:
        numba = "not installed"
    cpu = f"{platform.machine()} {cpu}"
    return {"cpu": cpu, "kernels": kernels, "numba": numba, "numpy": np.__version__}


def _digest(*parts: Any) -> str:
    """Return a digest of arrays (type, shape and bytes) and of the repr of all other parts."""
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, np.ndarray):
            digest.update(f"{part.dtype.str} {part.shape}".encode())
            digest.update(np.ascontiguousarray(part).data)
        else:
            digest.update(repr(part).encode())
    return _DIGEST + digest.hexdigest()[:16]


def _design_parts(phase: BoundPhase, steps: int) -> list[Any]:
    """Return everything in a phase that determines the walk and the weights of the updates."""
    bound = phase.bound
    parts: list[Any] = [_described(bound.walk), bound.scores, bound.weights, phase.distances()]
    if bound.jump is not None and is_schedule(bound.jump.p_jump):
        return parts + _schedule_parts(bound.jump.p_jump, steps)
    return [*parts, phase.jump_probabilities(0, 1)]


def _described(method: Any) -> str:
    """Return the class and the attributes of a walk or an update, without its name and its recipe.

    Name and recipe do not change what it does.
    """
    values = dict(sorted(getattr(method, "__dict__", {}).items()))
    told = {
        key: _digest(value) if isinstance(value, np.ndarray) else repr(value)
        for key, value in values.items()
        if key not in ("name", "recipe") and not key.startswith("_") and " at 0x" not in repr(value)
    }
    return f"{type(method).__qualname__} {told}"


def _schedule_parts(schedule: Schedule, steps: int) -> list[Any]:
    """Return a schedule's type and its values at some steps.

    For schedules of this package the repr is included.
    """
    kind = type(schedule)
    text = (
        repr(schedule) if kind.__module__ == Constant.__module__ else ""
    )  # the repr of a user's schedule may contain a memory address
    looked_at = np.unique(np.linspace(0, steps - 1, min(steps, _PROBES)).astype(np.int64)).tolist()
    values = [float(schedule_values("schedule", schedule, t, t + 1)[0]) for t in looked_at]
    return [kind.__qualname__, text, np.array(values)]


def _problem_fingerprint(problem: Problem) -> str:
    """Return the problem's own fingerprint.

    If it has none, return a digest of its losses and gradients at some nodes.
    """
    own = getattr(problem, "fingerprint", None)
    if callable(own) and (follows_its_loss(problem) or not isinstance(problem, GeneralizedLinear)):
        return str(own())
    nodes = np.unique(
        np.linspace(0, problem.n - 1, min(problem.n, _PROBES)).astype(np.int64)
    ).tolist()
    x = np.linspace(-1.0, 1.0, problem.dim)
    optimum = known_optimum(problem)
    return _digest(
        type(problem).__qualname__,
        np.asarray(problem.smoothness, dtype=np.float64),
        optimum,
        np.array([problem.local_gradient(v, x) for v in nodes], dtype=np.float64),
        np.array([problem.local_loss(v, x) for v in nodes], dtype=np.float64),
    ).removeprefix(_DIGEST)
