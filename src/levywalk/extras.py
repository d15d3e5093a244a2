"""The extras of levywalk: libraries that only some functions need, and a clear error if one is
missing.
"""

from __future__ import annotations

import importlib.util
import shlex
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from levywalk.errors import MissingExtra


@dataclass(frozen=True)
class Extra:
    """An optional part: the modules that it brings, and what they are for.

    Attributes
    ----------
    name
        As in ``pip install 'levywalk[NAME]'``.
    modules
        The modules that levywalk imports.
    purpose
        What needs them, in words.
    """

    name: str
    modules: tuple[str, ...]
    purpose: str

    def missing(self) -> list[str]:
        """Return the modules that are not installed; nothing is imported."""
        return [module for module in self.modules if not _installed(module)]


EXTRAS = {
    extra.name: extra
    for extra in (
        Extra(
            "frames",
            ("pandas", "xarray"),
            "tables as pandas data frames (Comparison.table, Trace.to_dataframe) and traces as "
            "xarray datasets (Trace.to_xarray)",
        ),
        Extra(
            "graphs",
            ("networkx",),
            "network files in GraphML, and graphs from and to networkx",
        ),
        Extra(
            "data",
            ("arviz_stats",),
            "effective sample sizes of recorded walks (lw.entrapment with trace=…)",
        ),
        Extra(
            "fleet",
            ("cryptography", "grpc", "google.protobuf"),
            "a real fleet: levywalk fleet, levywalk node, and signed hand-offs in fleet simulate",
        ),
        Extra(
            "torch",
            ("torch",),
            "models that are torch modules (lw.torch_problem)",
        ),
        Extra(
            "jax",
            ("jax",),
            "models that are JAX functions (lw.jax_problem)",
        ),
        Extra(
            "cluster",
            ("distributed",),
            "sweeps and reproductions on a Dask cluster (--scheduler)",
        ),
    )
}


@contextmanager
def needs(name: str, what: str, *modules: str) -> Iterator[None]:
    """Import modules of an extra (default: all of it) in this block; if one is not installed, say
    so, with the remedy.

    Examples
    --------
    >>> with needs("frames", "Comparison.table()", "pandas"):
    ...     import pandas
    >>> with needs("frames", "Comparison.table()", "no_such_module"):
    ...     import pandas
    Traceback (most recent call last):
    levywalk.errors.MissingExtra: Comparison.table() needs no_such_module, which is not installed;
        type: ... -m pip install 'levywalk[frames]'
    """
    absent = [module for module in modules or EXTRAS[name].modules if not _installed(module)]
    if absent:
        verb = "is" if len(absent) == 1 else "are"
        raise MissingExtra(
            f"{what} needs {', '.join(absent)}, which {verb} not installed; type: "
            f"{pip_command(name)}"
        )
    try:
        yield
    except ImportError as error:  # installed, but broken or incomplete
        raise MissingExtra(
            f"{what} needs {', '.join(modules or EXTRAS[name].modules)}, which cannot be imported "
            f"({error}); type: {pip_command(name)}"
        ) from error


def pip_command(extra: str) -> str:
    """Return the command that installs an extra into the environment that runs now."""
    python = shlex.quote(sys.executable or "python")
    return f"{python} -m pip install {shlex.quote(f'levywalk[{extra}]')}"


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):  # its parent is missing
        return False
