"""Arrays from memory addresses, for kernels and for the wrappers around them."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numba import carray
from numba.core import types as nbtypes
from numba.extending import intrinsic, overload

from streaml1.core.jit.inline_functions import INLINE_OPTIONS

__all__ = ["array_at"]


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(address), codegen


def array_at(address: Any, n: Any, dtype: Any) -> Any:
    """Return the array of `n` elements at a memory address, without copying.

    The array does not keep the memory alive: the caller does.
    """
    kind = np.dtype(dtype)
    memory = (ctypes.c_char * (int(n) * kind.itemsize)).from_address(int(address))
    return np.frombuffer(memory, kind)


@overload(array_at, jit_options=INLINE_OPTIONS)
def _array_at(address: Any, n: Any, dtype: Any) -> Any:
    def compiled(address: Any, n: Any, dtype: Any) -> Any:
        return carray(_pointer(address), (np.int64(n),), dtype)

    return compiled
