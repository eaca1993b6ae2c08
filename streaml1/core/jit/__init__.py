"""Compilation: the one folder that knows numba.

A rule is a class of plain Python methods over arrays. Loops call free *verbs* (`gather`,
`scatter`, ...); compiled, a verb becomes the method of that name of its first argument's class,
so that every loop is compiled once for each class of rule and is found on disk by the next
process. With `NUMBA_DISABLE_JIT=1` the same text runs interpreted, all but the raw memory.

Importing this folder loads no compiler: what is compiled, and what kernels are made of, is made
when it is first called for (`deferred`).
"""

from __future__ import annotations

from streaml1.core.jit.decorators import (
    generic,
    gil_kernel,
    inlined,
    is_cached,
    kernel,
    optional,
    python_api,
    row_kernel,
    typed_kernel,
)
from streaml1.core.jit.lazy_import import COMPILED, LANES, Deferred

__all__ = [
    "COMPILED",
    "Deferred",
    "LANES",
    "generic",
    "gil_kernel",
    "inlined",
    "is_cached",
    "kernel",
    "optional",
    "python_api",
    "row_kernel",
    "typed_kernel",
]
