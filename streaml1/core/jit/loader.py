"""Machine code as a function of Python's, through LLVM's loader alone."""

from __future__ import annotations

import ctypes
from functools import cache
from threading import Lock
from typing import Any

__all__ = ["called", "processor"]

_FASTCALL = 0x80  # METH_FASTCALL of Python's C interface


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("ml_name", ctypes.c_char_p),
        ("ml_meth", ctypes.c_void_p),
        ("ml_flags", ctypes.c_int),
        ("ml_doc", ctypes.c_char_p),
    )


_loading = Lock()
_loaded: dict[str, tuple[Any, _MethodDef]] = {}  # functions point to what defines them


def processor() -> str:
    """The processor that code is made for, with what it can do."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features().flatten()
    return f"{llvm.get_process_triple()} {llvm.get_host_cpu_name()} {features}"


@cache
def _loader() -> Any:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    target = llvm.Target.from_triple(llvm.get_process_triple())
    machine = target.create_target_machine(codemodel="jitdefault", jit=True)
    return llvm.create_mcjit_compiler(llvm.parse_assembly(""), machine)


def called(name: str, object_code: bytes) -> Any:
    """The function `name` of an object file, of the kind that C calls with an array of objects."""
    with _loading:
        if name not in _loaded:  # another thread may have been here
            _loaded[name] = _function(name, object_code)
        return _loaded[name][0]


def _function(name: str, object_code: bytes) -> tuple[Any, _MethodDef]:
    import llvmlite.binding as llvm

    loader = _loader()
    loader.add_object_file(llvm.ObjectFileRef.from_data(object_code))
    loader.finalize_object()
    method = _MethodDef(name.encode(), loader.get_function_address(name), _FASTCALL, None)
    # A function reads its definition when it is deallocated, which at interpreter exit may be after
    # `_loaded` is gone. One reference is never given back, so that the definition outlives it.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(method))
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype = ctypes.py_object
    make.argtypes = [ctypes.POINTER(_MethodDef), ctypes.c_void_p, ctypes.c_void_p]
    return make(ctypes.byref(method), None, None), method
