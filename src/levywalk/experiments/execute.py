"""Carry out an experiment file and write the files that it asks for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from levywalk.errors import InvalidParameter
from levywalk.experiments.compare import compare
from levywalk.trace import Comparison

if TYPE_CHECKING:
    from levywalk.experiments.spec import Experiment


def execute(
    experiment: Experiment, folder: Path, progress: bool | None = None, resume: Path | None = None
) -> Comparison:
    """Compare the designs of an experiment; files that it names are relative to ``folder``.

    The comparison knows the experiment's settings, so that it can be repeated. ``resume`` is that
    of `compare`.
    """
    options = experiment.run.options()
    network, problem, designs, metrics = experiment.build_with_metrics(folder)
    options |= {"metrics": metrics, "progress": progress, "resume": resume}
    result = compare(network, problem, designs, **options)
    return replace(result, settings=experiment.model_dump(mode="json"))


def writable_folder(path: str | Path) -> Path:
    """Create the folder for results; refuse a folder that cannot be written before any work is
    done.
    """
    folder = Path(path)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        probe = folder / ".levywalk-probe"
        probe.touch()
        probe.unlink()
    except OSError as error:
        raise InvalidParameter(
            f"out must be a folder that can be written, got {str(folder)!r}: {error.strerror}"
        ) from None
    return folder


def write_results(
    result: Comparison,
    folder: Path,
    *,
    traces: bool = True,
    table: bool = True,
    figure: str = "png",
) -> list[Path]:
    """Save a comparison, and draw its figure unless it is "none"; return the files, result.json
    last.
    """
    *written, numbers = result.save(folder, traces=traces, table=table)
    if figure != "none":
        from levywalk.report import plot

        plot(result, path=folder / f"figure.{figure}")
        written.append(folder / f"figure.{figure}")
    return [*written, numbers]


def found_in_words(result: Comparison) -> str:
    """Return in two sentences what a comparison found.

    Examples
    --------
    >>> import levywalk as lw
    >>> designs = {"a": lw.unif_rw()}
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> result = lw.compare(network, problem, designs, steps=9, replicas=2, step_size=0.01)
    >>> found_in_words(result)
    'a did not reach 1 % of the initial error within 9 steps: ... was left.'
    """
    from levywalk.report.page.verdict import verdict

    return " ".join(verdict(result)[:2])
