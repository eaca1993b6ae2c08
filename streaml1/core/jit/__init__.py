"""Compilation: the decorators for kernels, and everything that knows numba's internals.

An update rule is a class of plain Python methods over arrays. Loops call free functions, *verbs*
(`margin`, `apply_gradient`, ...). Compiled, a verb becomes the method of that name of its first
argument's class, so every loop is compiled once per class of rule and found on disk by the next
process. With ``NUMBA_DISABLE_JIT=1`` the same code runs interpreted, except for operations on raw
memory.

Importing this package does not import numba: decorated functions are built at their first call
(`lazy_import`).

Modules
-------
============================  ======================================================================
`decorators`                  kernels, also with one signature; inlined functions; verbs of rules
`lazy_import`                 imports numba at the first use
`compiler`                    numba dispatchers for the decorators
`inline_functions`            functions kept as LLVM IR, without machine code of their own
`numba_cache`, `cache_dir`    numba's on-disk cache, its directory, its invalidation, a compile lock
`object_file`                 a kernel and its Python wrapper as one object file
`object_cache`, `loader`      object files on disk; loaded without importing numba
`prebuilt`                    machine code inside the installed package
`raw_array`                   an array from an address
============================  ======================================================================

Object files (`object_file`, `object_cache`, `loader`) save 1.0 us per call and 0.6 s of a start.

Unsigned literals
-----------------
numba adds a uint64 and an int64 to a float64, so integer literals in kernels must be unsigned.
Write a number without a meaning of its own as ``u64(4)``. Give a constant with a meaning a name::

    _MAX_FACTORS, _LOW_HALF = u64(3), u64(2**32 - 1)

Both compile to identical machine code (compared for 35 kernels that parse text, name features and
learn). A ``u64(4)`` costs numba a call to type, about 2 % of the time to compile. Interpreted,
learning a batch takes 9 % longer than with names for all numbers.

Named tuples
------------
Functions that are called by kernels may return named tuples. A kernel that Python calls returns a
plain tuple, and its caller makes the named one: numba builds named tuples by Python code whose
result it does not check, so that a signal in between ends the process.

This package and `simd` use internals of numba; `docs/internals/compilation.md` lists them, and
says how to allow a new version.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.core.jit.decorators import (
    bound_kernel,
    generic,
    gil_kernel,
    inlined,
    is_cached,
    kernel,
    optional,
    python_api,
    typed_kernel,
)
from streaml1.core.jit.lazy_import import COMPILED, LANES

__all__ = [
    "COMPILED",
    "LANES",
    "bound_kernel",
    "generic",
    "gil_kernel",
    "inlined",
    "is_cached",
    "kernel",
    "optional",
    "python_api",
    "typed_kernel",
    "u64",
]

if TYPE_CHECKING:
    import numpy as np

    u64 = np.uint64
    """Unsigned literals in kernels: ``u64(4)``."""


def __getattr__(name: str) -> Any:
    if name != "u64":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import numpy as np  # not at the top: `optim.losses` is imported before numpy is loaded

    globals()["u64"] = np.uint64
    return np.uint64
