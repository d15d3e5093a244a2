"""The errors and warnings of levywalk.

Every message names the argument, the value and the remedy.
"""

from __future__ import annotations

from typing import Any


class LevywalkError(Exception):
    """Base class of all errors that levywalk raises intentionally.

    Examples
    --------
    >>> import levywalk as lw
    >>> try:
    ...     lw.ring(-1)
    ... except lw.LevywalkError as error:
    ...     print(type(error).__name__)
    InvalidParameter
    """


class InvalidParameter(LevywalkError, ValueError):
    """An argument lies outside its domain.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.mhlj(p_jump=2)
    Traceback (most recent call last):
    levywalk.errors.InvalidParameter: ...
    """


class InvalidNetwork(LevywalkError, ValueError):
    """A graph that cannot be a network, or a network file that cannot be read.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.Network.from_edges([(0, 1)], n=1)
    Traceback (most recent call last):
    levywalk.errors.InvalidNetwork: ...
    """


class NotConnected(InvalidNetwork):
    """A walk was bound to a network that is not connected, so the model cannot reach all nodes.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.walk(lw.Network.from_edges([(0, 1), (2, 3)]), lw.unif_rw(), steps=1)
    Traceback (most recent call last):
    levywalk.errors.NotConnected: ...
    """


class InvalidData(LevywalkError, ValueError):
    """A data set that cannot be a problem, or a data file that cannot be read.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.LeastSquares([[1.0], [2.0]], [1.0])
    Traceback (most recent call last):
    levywalk.errors.InvalidData: ...
    """


class NoMinimiser(InvalidData):
    """The problem has no minimiser, so there is no error to measure.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.Logistic([[-1.0], [1.0]], [0, 1]).optimum  # separable, and without a ridge
    Traceback (most recent call last):
    levywalk.errors.NoMinimiser: ...
    """


class TooLarge(LevywalkError, ValueError):
    """A requested array would not fit into memory; nothing was allocated.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.walk(lw.ring(9), lw.unif_rw(), steps=10**12, record_walk=True)
    Traceback (most recent call last):
    levywalk.errors.TooLarge: ...
    """


class MissingFile(LevywalkError, FileNotFoundError):
    """A file that does not exist.

    Examples
    --------
    >>> import levywalk as lw
    >>> lw.read_network("no such file.edges")
    Traceback (most recent call last):
    levywalk.errors.MissingFile: ...
    """


class MissingExtra(InvalidParameter, ImportError):
    """A function needs a library that is not installed; the message has the command for it.

    Examples
    --------
    >>> from levywalk.extras import needs
    >>> with needs("frames", "a table", "no_such_module"):
    ...     pass
    Traceback (most recent call last):
    levywalk.errors.MissingExtra: a table needs no_such_module, which is not installed; ...
    """


class InvalidSpec(LevywalkError, ValueError):
    """An experiment file with an unknown key, a wrong type or an impossible value.

    Examples
    --------
    >>> from levywalk.experiments.spec import check_experiment
    >>> check_experiment({"unknown": 1}, "my.toml")
    Traceback (most recent call last):
    levywalk.errors.InvalidSpec: ...
    """


class InvalidTrace(LevywalkError, ValueError):
    """A file that is not a trace, or a damaged one.

    Examples
    --------
    >>> import tempfile, levywalk as lw
    >>> with tempfile.NamedTemporaryFile(suffix=".nc") as file:
    ...     lw.load_trace(file.name)  # empty
    Traceback (most recent call last):
    levywalk.errors.InvalidTrace: ...
    """


class ResumeError(LevywalkError, ValueError):
    """A run cannot be resumed from a file: it belongs to another run, is damaged or is in use.

    Examples
    --------
    >>> import tempfile, levywalk as lw
    >>> network, problem = lw.ring(20), lw.homogeneous(20)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     file = f"{folder}/walk.npz"
    ...     for seed in (1, 2):  # the second is another run
    ...         trace = lw.run(
    ...             network, problem, lw.mhlj(), steps=9, step_size=0.01, seed=seed, resume=file
    ...         )
    Traceback (most recent call last):
    levywalk.errors.ResumeError: ...
    """


class ResumeInUse(ResumeError):
    """A file that another run is writing."""


class CallbackError(LevywalkError, RuntimeError):
    """A callback or a metric raised an exception in the middle of a run, which then ended.

    Attributes
    ----------
    partial
        What was done until then: the shortened `Trace` of `run`, or the `Comparison` of `compare`
        with the designs that have been run. ``__cause__`` is the exception itself.

    Examples
    --------
    >>> import levywalk as lw
    >>> def stop_early(now):
    ...     if now["step"] >= 50:
    ...         raise StopIteration("enough")
    >>> try:
    ...     lw.run(
    ...         lw.ring(9),
    ...         lw.homogeneous(9, dim=2),
    ...         lw.mhlj(),
    ...         steps=100,
    ...         step_size=0.01,
    ...         callbacks=[stop_early],
    ...     )
    ... except lw.CallbackError as error:
    ...     int(error.partial.step[-1]), str(error.__cause__)
    (50, 'enough')
    """

    partial: Any = None


class Interrupted(KeyboardInterrupt):
    """Ctrl-C ended `levywalk.run`, `levywalk.walk` or `levywalk.compare`.

    A loop that calls them ends as well, because it is a `KeyboardInterrupt`.

    Attributes
    ----------
    partial
        What was done until then: the shortened `Trace` of `run`, the shortened `WalkRecord` of
        `walk`, the `Comparison` of `compare` with the designs that have been run, the last one
        perhaps shortened. None if nothing had been done.

    Examples
    --------
    >>> import levywalk as lw
    >>> try:
    ...     trace = lw.run(
    ...         lw.ring(50), lw.homogeneous(50), lw.mhlj(), steps=100, step_size=0.01
    ...     )
    ... except lw.Interrupted as interrupted:
    ...     trace = interrupted.partial
    >>> int(trace.step[-1])
    100
    """

    def __init__(self, partial: Any = None) -> None:
        super().__init__()
        self.partial = partial

    def __str__(self) -> str:
        done = "nothing had been done" if self.partial is None else "what was done is in `.partial`"
        return f"Ctrl-C ended the work; {done}"


class DataWarning(UserWarning):
    """A part of the input was dropped, or a result is not unique; the message gives the details.

    Examples
    --------
    >>> import warnings, levywalk as lw
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     network = lw.Network.from_edges([(0, 1), (1, 1)])  # a loop is left out
    >>> [warning.category.__name__ for warning in told]
    ['DataWarning']
    """


class CacheWarning(UserWarning):
    """Compiled code cannot be stored, so that every process compiles it again.

    Examples
    --------
    >>> import warnings, levywalk as lw
    >>> warnings.simplefilter("ignore", lw.CacheWarning)  # compile each time, and say nothing
    """


class DivergedWarning(UserWarning):
    """Some replicas' models overflowed; ``Trace.diverged_at`` holds the steps.

    Examples
    --------
    >>> import warnings, levywalk as lw
    >>> with warnings.catch_warnings(record=True) as told:
    ...     warnings.simplefilter("always")
    ...     trace = lw.run(lw.ring(20), lw.homogeneous(20), lw.mhlj(), steps=900, step_size=9)
    >>> [warning.category.__name__ for warning in told]
    ['DivergedWarning']
    """


class RegistryWarning(UserWarning):
    """An installed package offers a name that is taken, or one that cannot be loaded.

    The name is left out, and all other names can be used.

    Examples
    --------
    >>> import warnings, levywalk as lw
    >>> warnings.simplefilter("error", lw.RegistryWarning)  # to stop instead
    """


class ResumeWarning(UserWarning):
    """A run is resumed from a file of another machine, or its state file could not be written.

    Examples
    --------
    >>> import warnings, levywalk as lw
    >>> warnings.simplefilter("error", lw.ResumeWarning)  # to stop instead
    """
