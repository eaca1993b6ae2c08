"""Kernels compiled to self-contained object files: the kernel and the wrapper that is called.

numba's dispatcher inspects the types of all arguments at every call, and needs numba. For a kernel
with one signature this module generates a wrapper in LLVM IR instead, a C function of kind
`METH_FASTCALL` that unpacks numbers and buffers and calls the kernel directly: 1.0 us less per
call. A native function is called by other kernels instead, which have its address; its wrapper only
gives it the C calling convention. An object file refers to no function of numba, so `loader` loads
it without importing numba: 0.6 s less of a process's start.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from streaml1.core.jit.compiler import compile_inlined, compile_kernel
from streaml1.core.jit.inline_functions import IRLibrary
from streaml1.core.jit.loader import ObjectCode
from streaml1.core.jit.raw_array import array_at

__all__ = ["NotSelfContainedError", "address_by_numba", "compile_to_object", "numba_fallback"]

_I8, _I32, _I64, _F64 = ir.IntType(8), ir.IntType(32), ir.IntType(64), ir.DoubleType()
_POINTER = _I8.as_pointer()
_UNPACK = {
    "int64": ("PyLong_AsLongLong", _I64),
    "uint64": ("PyLong_AsUnsignedLongLongMask", _I64),
    "float64": ("PyFloat_AsDouble", _F64),
}
_PACK = {
    nbtypes.int64: "PyLong_FromLongLong",
    nbtypes.uint64: "PyLong_FromUnsignedLongLong",
    nbtypes.float64: "PyFloat_FromDouble",
}
# sizeof(Py_buffer), and the offsets of its fields `buf` and `len`.
_BUFFER_SIZE, _BUF, _LEN = 80, 0, 16


class NotSelfContainedError(Exception):
    """Machine code that calls functions of numba or refers to Python objects."""


class _ObjectLibrary(IRLibrary):
    """A library with one exported function; whatever is linked into it becomes internal."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self._exported = name

    def _optimize_final_module(self) -> None:
        module = self._final_module
        for symbol in (*module.functions, *module.global_variables):
            if not symbol.is_declaration and symbol.name != self._exported:
                symbol.linkage = "internal"
        JITCodeLibrary._optimize_final_module(self)  # no kernel will optimize this code again

    def emit(self) -> bytes:
        """Return the object file.

        Raises
        ------
        NotSelfContainedError
            If it refers to a symbol that the process does not export, such as numba's own.
        """
        module = self._final_module
        process = ctypes.CDLL(None)
        for symbol in (*module.functions, *module.global_variables):
            is_known = not symbol.is_declaration or symbol.name.startswith("llvm.")
            if not is_known and not hasattr(process, symbol.name):
                raise NotSelfContainedError(symbol.name)
        content: bytes = self.codegen._tm.emit_object(module)
        return content


@global_compiler_lock
def compile_to_object(
    fn: Callable[..., Any],
    argument_types: Sequence[str],
    symbol: str,
    nogil: bool = False,
    native: bool = False,
) -> ObjectCode:
    """Compile a kernel named `symbol`; the arguments are those of `object_cache.load_or_compile`.

    Raises
    ------
    NotSelfContainedError
        If its machine code needs numba at run time.
    """
    kernel = compile_inlined(_over_addresses(fn, argument_types))
    signature = tuple(t for name in argument_types for t in _kernel_types(name))
    kernel.compile(signature)
    result = kernel.overloads[signature]
    if result.environment.consts:
        raise NotSelfContainedError("constants that are objects")
    library = _ObjectLibrary(cpu_target.target_context.codegen(), symbol)
    module = library.create_ir_module(symbol)
    if native:
        _build_native_wrapper(module, symbol, result.fndesc)
    else:
        _PythonWrapper(module, symbol, argument_types).build(result.fndesc, nogil)
    library.add_ir_module(module)
    library.add_linking_library(result.library)
    library.finalize()
    return ObjectCode(symbol, library.emit())


def _kernel_types(name: str) -> list[Any]:
    """Return the types a kernel receives for an argument; an array is an address and a length."""
    if name.endswith("[]"):
        return [nbtypes.uint64] * 2
    return [nbtypes.uint64 if name == "object" else getattr(nbtypes, name)]


def _over_addresses(fn: Callable[..., Any], argument_types: Sequence[str]) -> Callable[..., Any]:
    """Return `fn` with each array argument replaced by an address and a length."""
    if not any(name.endswith("[]") for name in argument_types):
        return fn
    names: dict[str, Any] = {
        "fn": compile_inlined(fn),
        "array_at": array_at,
        "__name__": fn.__module__,
    }
    parameters, arguments = [], []
    for k, name in enumerate(argument_types):
        if name.endswith("[]"):
            names[f"dtype{k}"] = getattr(np, name[:-2])
            parameters += [f"address{k}", f"n{k}"]
            arguments.append(f"array_at(address{k}, n{k}, dtype{k})")
        else:
            parameters.append(f"v{k}")
            arguments.append(f"v{k}")
    # Generated as text, since compiled code cannot loop over arguments of different types.
    text = f"def called({', '.join(parameters)}):\n    return fn({', '.join(arguments)})"
    exec(text, names)
    return cast(Callable[..., Any], names["called"])


def _call_kernel(module: Any, builder: Any, kernel: Any, args: Sequence[Any]) -> Any:
    """Call a kernel, given by numba's function descriptor; return its result."""
    conventions = cpu_target.target_context.call_conv
    kind = conventions.get_function_type(kernel.restype, kernel.argtypes)
    function = cgutils.get_or_insert_function(module, kind, kernel.llvm_func_name)
    # The status is ignored: typed kernels must not raise.
    _, result = conventions.call_function(builder, function, kernel.restype, kernel.argtypes, args)
    return result


def _build_native_wrapper(module: Any, symbol: str, kernel: Any) -> None:
    """Write the C function that calls a kernel, whose arguments and result are numbers."""
    types = [cpu_target.target_context.get_value_type(t) for t in kernel.argtypes]
    result = cpu_target.target_context.get_value_type(kernel.restype)
    function = ir.Function(module, ir.FunctionType(result, types), symbol)
    builder = ir.IRBuilder(function.append_basic_block())
    builder.ret(_call_kernel(module, builder, kernel, function.args))


class _PythonWrapper:
    """The C function that Python calls: unpacks the arguments, calls the kernel, packs the result.

    Parameters
    ----------
    module
        The LLVM module it is written to.
    symbol
        Its name.
    argument_types
        The types of the kernel's arguments.
    """

    def __init__(self, module: Any, symbol: str, argument_types: Sequence[str]) -> None:
        self.module, self.argument_types = module, argument_types
        # PyObject *(PyObject *self, PyObject *const *args, Py_ssize_t n)
        kind = ir.FunctionType(_POINTER, [_POINTER, _POINTER.as_pointer(), _I64])
        function = ir.Function(module, kind, symbol)
        _, self.objects, self.n = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.buffers: list[Any] = []  # acquired so far: every exit from here on releases them

    def build(self, kernel: Any, nogil: bool) -> None:
        """Write the function around a kernel, given by numba's function descriptor."""
        builder = self.builder
        is_wrong = builder.icmp_signed("!=", self.n, _I64(len(self.argument_types)))
        with builder.if_then(is_wrong, likely=False):
            self._call("PyErr_BadArgument", _I32)
            self._return_error()
        args = []
        for k, name in enumerate(self.argument_types):
            obj = builder.load(builder.gep(self.objects, [_I64(k)]))
            if name.endswith("[]"):
                args += self._unpack_array(obj, name)
            elif name == "object":
                args.append(builder.ptrtoint(obj, _I64))
            else:
                args.append(self._unpack_number(obj, name))
        thread = self._call("PyEval_SaveThread", _POINTER) if nogil else None
        result = _call_kernel(self.module, builder, kernel, args)
        if thread is not None:
            self._call("PyEval_RestoreThread", ir.VoidType(), thread)
        self._release_buffers()
        if kernel.restype == nbtypes.none:
            none = cgutils.add_global_variable(self.module, _I8, "_Py_NoneStruct")
            self._call("Py_IncRef", ir.VoidType(), none)
            builder.ret(none)
        else:
            builder.ret(self._call(_PACK[kernel.restype], _POINTER, result))

    def _call(self, name: str, result: Any, *args: Any) -> Any:
        """Call a function of Python's C API."""
        kind = ir.FunctionType(result, [a.type for a in args])
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), args)

    def _return_error(self) -> None:
        self._release_buffers()
        self.builder.ret(_POINTER(None))

    def _release_buffers(self) -> None:
        for buffer in self.buffers:
            self._call("PyBuffer_Release", ir.VoidType(), buffer)

    def _unpack_number(self, obj: Any, name: str) -> Any:
        builder = self.builder
        function, kind = _UNPACK[name]
        value = self._call(function, kind, obj)
        # -1 may be a value or report an error.
        compare = builder.fcmp_ordered if kind is _F64 else builder.icmp_signed
        with builder.if_then(compare("==", value, kind(-1)), likely=False):
            error = self._call("PyErr_Occurred", _POINTER)
            failed = builder.icmp_unsigned("!=", error, _POINTER(None))
            with builder.if_then(failed, likely=False):
                self._return_error()
        return value

    def _unpack_array(self, obj: Any, name: str) -> list[Any]:
        builder = self.builder
        buffer = builder.bitcast(
            cgutils.alloca_once(builder, ir.ArrayType(_I64, _BUFFER_SIZE // 8)), _POINTER
        )
        # Flags PyBUF_SIMPLE: refuses arrays that are not contiguous. It does not check the dtype.
        status = self._call("PyObject_GetBuffer", _I32, obj, buffer, _I32(0))
        with builder.if_then(builder.icmp_signed("!=", status, _I32(0)), likely=False):
            self._return_error()
        self.buffers.append(buffer)
        address, n_bytes = (
            builder.load(builder.bitcast(builder.gep(buffer, [_I64(offset)]), _I64.as_pointer()))
            for offset in (_BUF, _LEN)
        )
        return [address, builder.udiv(n_bytes, _I64(np.dtype(name[:-2]).itemsize))]


_kept: list[Any] = []  # kernels of numba whose machine code is called by its address


def address_by_numba(fn: Callable[..., Any], argument_types: Sequence[str]) -> int:
    """Return the address of the C function that numba makes of a kernel."""
    kernel = compile_kernel(fn, no_cfunc_wrapper=False)
    signature = tuple(getattr(nbtypes, name) for name in argument_types)
    kernel.compile(signature)
    _kept.append(kernel)
    compiled = kernel.overloads[signature]
    name = compiled.fndesc.llvm_cfunc_wrapper_name
    return int(compiled.library.get_pointer_to_function(name))


def numba_fallback(fn: Callable[..., Any], argument_types: Sequence[str], nogil: bool) -> Any:
    """Return a function that calls the kernel through numba's dispatcher."""
    kernel = compile_kernel(fn, nogil=nogil)
    objects = [k for k, name in enumerate(argument_types) if name == "object"]
    if not objects:
        return kernel

    def call(*args: Any) -> Any:
        return kernel(*(id(a) if k in objects else a for k, a in enumerate(args)))

    return call
