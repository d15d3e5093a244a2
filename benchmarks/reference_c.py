"""The C references: `chain.c` and `walkers.c`, compiled on the spot with the machine's own
compiler, through ctypes.
"""

from __future__ import annotations

import ctypes
import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from levywalk.arrays import AnyArray, Words64
from levywalk.draws import expanded_keys
from levywalk.engine.kernels import KernelBackend
from levywalk.engine.kernels.machine import vector_bits
from levywalk.engine.kernels.rows import HEAD
from levywalk.engine.kernels.tables import aligned_rows
from levywalk.engine.kernels.walkers import ONE, StepParameters, Tables
from levywalk.engine.run_state import RunState
from levywalk.engine.walk_shares import WalkNotes
from levywalk.problem import Logistic

HERE = Path(__file__).parent
FLAGS = {"C -O3": ("-O3",), "C -O3 -ffast-math": ("-O3", "-ffast-math")}
PLAIN, FAST = FLAGS
# Walkers side by side, by hand; the last reads other random numbers and makes another walk.
VECTORS = {
    "C by hand": (),
    "C by hand, gathers": ("-DGATHER=1",),
    "C by hand, cheapest draws": ("-DCHEAP=1",),
}
BY_HAND, GATHERS, CHEAP = VECTORS
# For registers of so many bits: what to compile for, and what the compiler must define. With 128
# bits C may use what the kernels may use in benchmarks.widths: instructions of three operands and a
# fused multiply-add, in registers of two numbers.
_NARROW = ("-march=x86-64-v2", "-mavx", "-mfma", "-mprefer-vector-width=128")
WIDTHS = {
    512: (("-march=native",), "__AVX512DQ__"),
    256: (("-march=native", "-mno-avx512f"), "__AVX2__"),
    128: (_NARROW if platform.machine() == "x86_64" else ("-march=native",), ""),
}
_MOST = 64  # walkers in one call
RANDOM_LINES = ("random_lines", "random_lines_unasked", "random_lines_listed")  # of probes.c

_WORD, _NUMBER, _REAL, _POINTER = ctypes.c_uint64, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p


@dataclass(frozen=True)
class ReferenceC:
    """Builds the C references for one dimension after the other, in a folder of the caller's."""

    compiler: str
    folder: Path

    @classmethod
    def find(cls, folder: Path) -> ReferenceC | None:
        """Return the references, or None where there is no gcc."""
        compiler = shutil.which("gcc")
        return None if compiler is None else cls(compiler, folder)

    def version(self) -> str:
        """Return the first line of ``gcc --version``."""
        said = subprocess.run(
            [self.compiler, "--version"], capture_output=True, text=True, check=True
        )
        return said.stdout.partition("\n")[0]

    def has(self, bits: int) -> bool:
        """Return whether this machine runs walkers.c with registers of so many bits."""
        flags, needed = WIDTHS[bits]
        command = [self.compiler, *flags, "-dM", "-E", "-x", "c", "/dev/null"]
        said = subprocess.run(command, capture_output=True, text=True, check=True)
        return needed in said.stdout

    def build(self, dim: int, name: str) -> Any:
        """Return the compiled function ``chain`` for a dimension, under the flags of `FLAGS`, for
        the width that the kernels use.
        """
        bits = vector_bits()
        flags = (*FLAGS[name], *WIDTHS[bits][0], f"-DDIM={dim}")
        chain = self._library("chain", f"{bits}_{dim}_{list(FLAGS).index(name)}", flags).chain
        chain.argtypes = [
            _WORD,
            _WORD,
            _NUMBER,
            _NUMBER,
            *[_POINTER] * 3,
            _REAL,
            _REAL,
            *[_POINTER] * 7,
        ]
        chain.restype = None
        return chain

    def build_walkers(self, dim: int, name: str, far: bool) -> Any:
        """Return the compiled function ``walkers`` for a dimension, under the flags of `VECTORS`,
        for the width that the kernels use.
        """
        bits = vector_bits()
        flags = ("-O3", *WIDTHS[bits][0], *VECTORS[name], f"-DW={bits // 64}", f"-DDIM={dim}")
        label = f"{bits}_{dim}_{list(VECTORS).index(name)}_{int(far)}"
        function = self._library("walkers", label, (*flags, f"-DFAR={int(far)}")).walkers
        function.argtypes = [
            _NUMBER,
            *[_POINTER] * 2,
            _NUMBER,
            _NUMBER,
            *[_POINTER] * 2,
            _REAL,
            _POINTER,
            _NUMBER,
            *[_POINTER] * 4,
        ]
        function.restype = None
        return function

    def build_walk(self, far: bool, jumps: bool) -> Any:
        """Return the compiled function ``walk``, for the width that the kernels use."""
        bits = vector_bits()
        flags = ("-O3", *WIDTHS[bits][0], f"-DW={bits // 64}", f"-DFAR={int(far)}")
        label = f"{bits}_{int(far)}_{int(jumps)}"
        function = self._library("walk", label, (*flags, f"-DJUMPS={int(jumps)}")).walk
        function.argtypes = [
            _NUMBER,
            *[_POINTER] * 2,
            _NUMBER,
            _NUMBER,
            *[_POINTER] * 4,
            _NUMBER,
            *[_POINTER] * 3,
        ]
        function.restype = None
        return function

    def build_probes(self) -> Any:
        """Return the library of probes.c, for the width that the kernels use."""
        bits = vector_bits()
        found = self._library("probes", str(bits), ("-O3", *WIDTHS[bits][0], f"-DW={bits // 64}"))
        for name in (*RANDOM_LINES, "chained_lines"):
            probe = getattr(found, name)
            probe.argtypes, probe.restype = [_POINTER, _WORD, _NUMBER, _WORD], _WORD
        found.in_order.argtypes, found.in_order.restype = [_POINTER, _NUMBER, _NUMBER], _REAL
        found.products.argtypes, found.products.restype = [_NUMBER], _REAL
        return found

    def _library(self, source: str, label: str, flags: tuple[str, ...]) -> Any:
        library = self.folder / f"{source}{label}.so"
        if not library.exists():
            command = [
                self.compiler,
                "-std=gnu11",
                *flags,
                "-shared",
                "-fPIC",
                str(HERE / f"{source}.c"),
            ]
            subprocess.run([*command, "-o", str(library)], check=True)
        return ctypes.CDLL(str(library))


class _OverTables:
    """What both references know of a plan: the kernel's own tables, a constant step size and
    constant jumps.
    """

    def __init__(self, backend: KernelBackend) -> None:
        self.plan = plan = backend.plan
        tables = backend.tables
        assert isinstance(tables, Tables), "the references read the tables of walkers side by side"
        assert backend.kind == ONE, "the references know one sample per node"
        assert not isinstance(plan.problem, Logistic), "the references know least squares"
        assert tables.ridge == 0.0, "the references know no ridge"
        (phase,) = plan.phases
        self.tables = tables
        self.step_size = float(phase.step_sizes(0, 1)[0])
        p_jumps = phase.jump_probabilities(0, 1)
        self.p_jump = float(p_jumps[0]) if len(p_jumps) else 0.0
        self.distances = np.ascontiguousarray(phase.distances()) if len(p_jumps) else np.ones(1)


class ChainC(_OverTables):
    """Advances one replica in C."""

    def __init__(self, chain: Any, backend: KernelBackend, replica: int = 0) -> None:
        super().__init__(backend)
        self.chain = chain
        self.keys = [int(half) for half in backend.keys[replica]]

    def advance(self, state: RunState, start: int, stop: int) -> None:
        """Take the replica, alone in its state, from step ``start`` to step ``stop``."""
        network = self.plan.network
        outputs: list[AnyArray] = [
            state.node,
            state.model,
            state.hops,
            state.transfers,
            state.visits,
            state.walk,
        ]
        self.chain(
            *self.keys,
            start,
            stop,
            _address(network.indptr),
            _address(network.indices),
            _address(self.tables.nodes),
            self.step_size,
            self.p_jump,
            _address(self.distances),
            *[_address(output) for output in outputs],
        )


class WalkersC(_OverTables):
    """Advances replicas in C, side by side; their number must be a multiple of eight."""

    def __init__(self, function: Any, backend: KernelBackend, batch: int = _MOST) -> None:
        super().__init__(backend)
        assert self.plan.replicas % 8 == 0, "walkers.c knows whole groups"
        self.function, self.batch = function, min(batch, _MOST)
        self.halves = [np.ascontiguousarray(backend.keys[:, half]) for half in range(2)]
        self.cuts = np.ceil(self.p_jump * self.distances * 2.0**53).astype(np.uint64)

    def advance(self, state: RunState, start: int, stop: int) -> None:
        """Take all replicas from step ``start`` to step ``stop``."""
        dim = state.model.shape[1]
        models = aligned_rows(self.plan.replicas, 8 * self.tables.lines)
        models[:, HEAD : HEAD + dim] = state.model
        for begin in range(0, self.plan.replicas, self.batch):
            some = slice(begin, min(begin + self.batch, self.plan.replicas))
            self.function(
                some.stop - begin,
                *[_address(half[some]) for half in self.halves],
                start,
                stop,
                _address(self.tables.nodes),
                _address(self.tables.edges),
                self.step_size,
                _address(self.cuts),
                len(self.cuts),
                *[
                    _address(array[some])
                    for array in (state.node, models, state.hops, state.transfers)
                ],
            )
        state.model[...] = models[:, HEAD : HEAD + dim]


class WalkC:
    """Advances walkers without a model in C; their number must be a multiple of eight."""

    def __init__(
        self,
        compiler: ReferenceC,
        tables: Tables,
        far: bool,
        step_parameters: StepParameters,
        walk_keys: Words64,
    ) -> None:
        assert not len(tables.keep), "walk.c knows no i.i.d. sampling"
        assert len(walk_keys) % 8 == 0, "walk.c knows whole groups"
        jumps = bool(len(step_parameters.p_jumps))
        self.function, self.tables = compiler.build_walk(far, jumps), tables
        self.halves = [np.ascontiguousarray(half) for half in expanded_keys(walk_keys).T]
        p_jump = float(step_parameters.p_jumps[0]) if jumps else 0.0
        distances = step_parameters.distances if jumps else np.ones(1)
        self.cuts = np.ceil(p_jump * distances * 2.0**53).astype(np.uint64)

    def advance(self, notes: WalkNotes, start: int, stop: int) -> None:
        """Take all walkers from step ``start`` to step ``stop``."""
        count = len(notes.node)
        for begin in range(0, count, _MOST):
            some = slice(begin, min(begin + _MOST, count))
            self.function(
                some.stop - begin,
                *[_address(half[some]) for half in self.halves],
                start,
                stop,
                _address(self.tables.places),
                _address(self.tables.edges),
                _address(self.tables.ratios),
                _address(self.cuts),
                len(self.cuts),
                *[_address(array[some]) for array in (notes.node, notes.hops, notes.transfers)],
            )


def _address(array: AnyArray) -> int | None:
    """Return where an array's numbers lie; an empty one is NULL in C."""
    return array.ctypes.data if array.size else None
