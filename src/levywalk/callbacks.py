"""Callbacks for ``lw.run(..., callbacks=[…])`` that write what happens at each checkpoint.

A callback is any function that takes a dict (see `levywalk.run`). Those here reduce it to means
over the replicas, and hand them to a file or to a library.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.errors import InvalidParameter
from levywalk.extras import needs
from levywalk.json_values import finite

_APART = ("design", "step", "steps", "metrics")


def means(now: dict[str, Any]) -> dict[str, float]:
    """Return the means over replicas of the values that a callback gets; metrics keep their names.

    Examples
    --------
    >>> means({"design": "a", "step": 5, "loss": np.array([1.0, 3.0]), "metrics": {}})
    {'loss': 2.0}
    """
    arrays = {key: value for key, value in now.items() if key not in _APART} | now["metrics"]
    with np.errstate(over="ignore", invalid="ignore"):
        return {name: float(np.mean(values)) for name, values in arrays.items()}


class LogMeans:
    """Hand the means to a function ``log(numbers, step=…)``, such as ``wandb.log`` or
    ``mlflow.log_metrics``. Numbers that are not finite are left out.

    Parameters
    ----------
    log
        The function.
    by_design
        Whether names begin with the design's, as "MHLJ/loss"; for `levywalk.compare`, whose designs
        run one after the other.

    Examples
    --------
    >>> import levywalk as lw
    >>> def log(numbers, step):
    ...     if step == 9:
    ...         print(step, sorted(numbers)[:3])
    >>> parts = lw.ring(5), lw.homogeneous(5, dim=2), lw.mhlj()
    >>> trace = lw.run(*parts, steps=9, step_size=0.1, callbacks=[lw.LogMeans(log)])
    9 ['bytes', 'distance2', 'excess_loss']
    """

    def __init__(self, log: Callable[..., object], *, by_design: bool = False) -> None:
        if not callable(log):
            raise InvalidParameter(
                f"log must be a function of numbers and step, such as wandb.log, got {log!r:.80}"
            )
        self.log, self.by_design = log, by_design

    def __call__(self, now: dict[str, Any]) -> None:
        """Log one checkpoint."""
        start = f"{now['design']}/" if self.by_design else ""
        found = {f"{start}{name}": value for name, value in means(now).items()}
        self.log({k: v for k, v in found.items() if np.isfinite(v)}, step=now["step"])


class JsonLines:
    """Append one line of JSON per checkpoint to a file: design, step, and means over replicas.

    Numbers that are not finite are null. A resumed run appends its new checkpoints.

    Parameters
    ----------
    path
        The file; its folder must exist.
    replicas
        Whether a line also has the numbers of each replica, under "replicas".

    Examples
    --------
    >>> import json, pathlib, tempfile
    >>> import levywalk as lw
    >>> parts = lw.ring(5), lw.homogeneous(5, dim=2), lw.mhlj()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = pathlib.Path(folder) / "run.jsonl"
    ...     trace = lw.run(*parts, steps=9, step_size=0.1, callbacks=[lw.JsonLines(file)])
    ...     lines = [json.loads(line) for line in file.read_text().splitlines()]
    >>> len(lines), lines[-1]["step"], lines[-1]["loss"] == float(trace.loss[0, -1])
    (10, 9, True)
    """

    def __init__(self, path: str | Path, *, replicas: bool = False) -> None:
        self.path, self.replicas = Path(path), replicas
        if not self.path.parent.is_dir() or self.path.is_dir():
            raise InvalidParameter(
                f"path must be a file in a folder that exists, got {str(path)!r}; create "
                f"{str(self.path.parent)!r} first"
            )

    def __call__(self, now: dict[str, Any]) -> None:
        """Write one checkpoint."""
        line: dict[str, Any] = {"design": now["design"], "step": now["step"], **means(now)}
        if self.replicas:
            arrays = {key: value for key, value in now.items() if key not in _APART}
            line["replicas"] = {
                name: values.tolist() for name, values in (arrays | now["metrics"]).items()
            }
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(finite(line)) + "\n")


class TensorBoard:
    """Write the means over replicas as TensorBoard's event files, one folder per design.

    It needs the extra ``tensorboard`` (tensorboardX); `tensorboard --logdir FOLDER` shows them.

    Parameters
    ----------
    folder
        The folder, which is created.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import levywalk as lw
    >>> parts = lw.ring(5), lw.homogeneous(5, dim=2), lw.mhlj()
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     board = lw.TensorBoard(folder)
    ...     trace = lw.run(*parts, steps=9, step_size=0.1, callbacks=[board])
    ...     board.close()
    ...     len(list(pathlib.Path(folder, "MHLJ").glob("events.*")))
    1
    """

    def __init__(self, folder: str | Path) -> None:
        with needs("tensorboard", "lw.TensorBoard"):
            import tensorboardX
        self._library = tensorboardX
        self.folder = Path(folder)
        self._writers: dict[str, Any] = {}

    def __call__(self, now: dict[str, Any]) -> None:
        """Write one checkpoint."""
        design = str(now["design"])
        if design not in self._writers:
            name = re.sub(r"[^A-Za-z0-9._()=-]+", "-", design).strip("-.") or "design"
            self._writers[design] = self._library.SummaryWriter(logdir=str(self.folder / name))
        for name, value in means(now).items():
            if np.isfinite(value):
                self._writers[design].add_scalar(name, value, now["step"])
        if now["step"] == now["steps"]:
            self._writers[design].flush()

    def close(self) -> None:
        """Write what is left, and close all files."""
        while self._writers:
            self._writers.popitem()[1].close()
