"""Machine code as Python functions, loaded by LLVM alone.

`object_file` compiles a kernel and the wrapper that Python calls into one object file. This module
loads such files through LLVM's JIT linker, without importing numba: 0.6 s less of a process's
start, and 1.0 us less per call than through numba's dispatcher.
"""

from __future__ import annotations

import ctypes
from functools import cache
from threading import Lock
from typing import Any, NamedTuple

__all__ = ["ObjectCode", "has_fast_gather", "host_processor", "load_address", "load_function"]

_METH_FASTCALL = 0x80  # of Python's C API


class ObjectCode(NamedTuple):
    """An object file with one kernel."""

    symbol: str
    """Name of the function that it exports."""
    content: bytes


class _PyMethodDef(ctypes.Structure):
    _fields_ = (
        ("ml_name", ctypes.c_char_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_char_p),
    )


_lock = Lock()
_addresses: dict[str, int] = {}
# A function object points to its PyMethodDef, so both are kept alive.
_loaded: dict[str, tuple[Any, _PyMethodDef]] = {}


def host_processor() -> str:
    """Return the target triple, name and features of the processor."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


def has_fast_gather(name: str, features: str) -> bool:
    """Return whether gather and scatter instructions beat loads and stores lane by lane.

    They do not on AMD's Zen processors, including those with AVX-512. Code for a class of
    processors says so by a feature of LLVM.
    """
    return not name.startswith("znver") and "+prefer-no-gather" not in features.split(",")


@cache
def _engine() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def load_function(code: ObjectCode) -> Any:
    """Return the Python function in an object file; the same one for the same symbol.

    The symbol has the C signature of `METH_FASTCALL`: self, an array of objects, their number.
    """
    with _lock:
        if code.symbol not in _loaded:  # another thread may have loaded it
            _loaded[code.symbol] = _function(code.symbol, _load(code))
        return _loaded[code.symbol][0]


def load_address(code: ObjectCode) -> int:
    """Return the address of the C function in an object file; the same one for the same symbol."""
    with _lock:
        if code.symbol not in _addresses:
            _addresses[code.symbol] = _load(code)
        return _addresses[code.symbol]


def _load(code: ObjectCode) -> int:
    import llvmlite.binding as llvm

    engine = _engine()
    engine.add_object_file(llvm.ObjectFileRef.from_data(code.content))
    engine.finalize_object()
    return int(engine.get_function_address(code.symbol))


def _function(symbol: str, address: int) -> tuple[Any, _PyMethodDef]:
    definition = _PyMethodDef(symbol.encode(), address, _METH_FASTCALL, None)
    # A function reads its definition when it is deallocated, which at interpreter exit may be after
    # `_loaded` is gone. One reference is never given back, so that the definition outlives it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(definition))
    new_function = ctypes.pythonapi.PyCFunction_NewEx
    new_function.restype = ctypes.py_object
    new_function.argtypes = [ctypes.POINTER(_PyMethodDef), ctypes.c_void_p, ctypes.c_void_p]
    return new_function(ctypes.byref(definition), None, None), definition
