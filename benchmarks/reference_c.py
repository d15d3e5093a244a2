"""The C reference: `chain.c` compiled on the spot with the machine's own compiler, called through ctypes."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray
from levywalk.engine.kernels import KernelBackend
from levywalk.engine.plan import State
from levywalk.problem import Logistic

SOURCE = Path(__file__).with_name("chain.c")
BASE = ("-O3", "-march=native")
FLAGS = {"C -O3": BASE, "C -O3 -ffast-math": (*BASE, "-ffast-math")}
PLAIN, FAST = FLAGS


@dataclass(frozen=True)
class ReferenceC:
    """Builds the C reference for one dimension after the other, in a folder of the caller's."""

    compiler: str
    folder: Path

    @classmethod
    def find(cls, folder: Path) -> ReferenceC | None:
        """Return the reference, or None where there is no gcc."""
        compiler = shutil.which("gcc")
        return None if compiler is None else cls(compiler, folder)

    def version(self) -> str:
        """Return the first line of ``gcc --version``."""
        said = subprocess.run([self.compiler, "--version"], capture_output=True, text=True, check=True)
        return said.stdout.partition("\n")[0]

    def build(self, dim: int, name: str) -> Any:
        """Return the compiled function ``chain`` for a dimension, under the flags of `FLAGS`."""
        library = self.folder / f"chain{dim}_{list(FLAGS).index(name)}.so"
        if not library.exists():
            command = [self.compiler, "-std=c11", *FLAGS[name], f"-DDIM={dim}", "-shared", "-fPIC", str(SOURCE)]
            subprocess.run([*command, "-o", str(library)], check=True)
        chain = ctypes.CDLL(str(library)).chain
        word, number, real, pointer = ctypes.c_uint64, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p
        chain.argtypes = [word, word, number, number, pointer, pointer, pointer, real, real, *[pointer] * 7]
        chain.restype = None
        return chain


class ChainC:
    """Advances one replica in C, over the very arrays that a kernel backend has packed."""

    def __init__(self, chain: Any, backend: KernelBackend) -> None:
        plan = backend.plan
        (phase,) = plan.phases
        assert backend.simple, "chain.c knows one sample per node"
        assert not isinstance(backend.problem, Logistic), "chain.c knows least squares"
        assert backend.problem.ridge == 0.0, "chain.c knows no ridge"
        self.chain, self.backend = chain, backend
        self.keys = [int(half) for half in plan.keys[0]]
        self.step_size = float(phase.step_sizes(0, 1)[0])
        p_jumps = phase.jump_probabilities(0, 1)
        self.p_jump = float(p_jumps[0]) if len(p_jumps) else 0.0
        self.distances = np.ascontiguousarray(phase.distances())

    def advance(self, state: State, start: int, stop: int) -> None:
        """Take the replica from step ``start`` to step ``stop``."""
        graph, records = self.backend.graph, self.backend.data.records
        outputs: list[AnyArray] = [state.node, state.model, state.hops, state.transfers, state.visits, state.walk]
        self.chain(
            *self.keys,
            start,
            stop,
            _address(graph.indptr),
            _address(graph.indices),
            _address(records),
            self.step_size,
            self.p_jump,
            _address(self.distances),
            *[_address(output) for output in outputs],
        )


def _address(array: AnyArray) -> int | None:
    """Return where an array's numbers lie; an empty one is NULL in C."""
    return array.ctypes.data if array.size else None
