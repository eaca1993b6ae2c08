"""Machine code that stands alone: a kernel, and what Python calls around it, as one object file."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import cpu_target

from streaml1.core.jit.compiler import part, whole
from streaml1.core.jit.inline_functions import Library
from streaml1.core.jit.object_cache import Code
from streaml1.core.simd.raw_memory import array_at

__all__ = ["NotAlone", "called_by_numba", "compiled"]

_BYTE, _INT, _FLOAT = ir.IntType(8), ir.IntType(64), ir.DoubleType()
_OBJECT = _BYTE.as_pointer()
_READ = {
    "int64": ("PyLong_AsLongLong", _INT),
    "uint64": ("PyLong_AsUnsignedLongLongMask", _INT),
    "float64": ("PyFloat_AsDouble", _FLOAT),
}
_MADE = {
    nbtypes.int64: "PyLong_FromLongLong",
    nbtypes.uint64: "PyLong_FromUnsignedLongLong",
    nbtypes.float64: "PyFloat_FromDouble",
}
_BUFFER = 80  # bytes of a Py_buffer, and where it has what
_AT, _BYTES = 0, 16


class NotAlone(Exception):
    """Code that needs numba's own functions when it runs."""


class _Alone(Library):
    """A library of one function; all that is linked to it is its own."""

    def __init__(self, codegen: Any, name: str) -> None:
        super().__init__(codegen, name)
        self.entry = name

    def _optimize_final_module(self) -> None:
        module = self._final_module
        for one in (*module.functions, *module.global_variables):
            if not one.is_declaration and one.name != self.entry:
                one.linkage = "internal"
        super()._optimize_final_module()

    def object_code(self) -> bytes:
        module = self._final_module
        process = ctypes.CDLL(None)
        for one in (*module.functions, *module.global_variables):
            known = not one.is_declaration or one.name.startswith("llvm.")
            if not known and not hasattr(process, one.name):
                raise NotAlone(one.name)
        code: bytes = self.codegen._tm.emit_object(module)
        return code


@global_compiler_lock
def compiled(fn: Callable[..., Any], argument_types: Sequence[str], name: str) -> Code:
    """A kernel compiled for arguments of given types, see `decorators.typed_kernel`, named `name`.

    Raises
    ------
    NotAlone
        Where it is of no use without numba.
    """
    kernel = part(_of_addresses(fn, argument_types))
    wanted = tuple(of for told in argument_types for of in _given(told))
    kernel.compile(wanted)
    result = kernel.overloads[wanted]
    if result.environment.consts:
        raise NotAlone("constants that are objects")
    library = _Alone(cpu_target.target_context.codegen(), name)
    module = library.create_ir_module(name)
    _Entry(module, name, argument_types).write(result.fndesc)
    library.add_ir_module(module)
    library.add_linking_library(result.library)
    library.finalize()
    return Code(name, library.object_code())


def _given(told: str) -> list[Any]:
    """What a kernel is given for an argument: of an array, where it is and how long."""
    if told.endswith("[]"):
        return [nbtypes.uint64] * 2
    return [nbtypes.uint64 if told == "object" else getattr(nbtypes, told)]


def _of_addresses(fn: Callable[..., Any], argument_types: Sequence[str]) -> Callable[..., Any]:
    """The function `fn` of arrays, as one of where they are and of how long they are."""
    if not any(told.endswith("[]") for told in argument_types):
        return fn
    names: dict[str, Any] = {"fn": part(fn), "array_at": array_at, "__name__": fn.__module__}
    given, handed = [], []
    for k, told in enumerate(argument_types):
        if told.endswith("[]"):
            names[f"kind{k}"] = getattr(np, told[:-2])
            given += [f"at{k}", f"n{k}"]
            handed.append(f"array_at(at{k}, n{k}, kind{k})")
        else:
            given.append(f"v{k}")
            handed.append(f"v{k}")
    # Compiled code cannot loop over types.
    exec(f"def called({', '.join(given)}):\n    return fn({', '.join(handed)})", names)
    return cast(Callable[..., Any], names["called"])


class _Entry:
    """What Python calls: numbers and arrays of objects, the kernel, an object of what it returns.

    Parameters
    ----------
    module
        Where it is written.
    name
        Its own.
    argument_types
        Those of the kernel.
    """

    def __init__(self, module: Any, name: str, argument_types: Sequence[str]) -> None:
        self.module, self.types = module, argument_types
        kind = ir.FunctionType(_OBJECT, [_OBJECT, _OBJECT.as_pointer(), _INT])
        function = ir.Function(module, kind, name)
        _, self.objects, self.n = function.args
        self.builder = ir.IRBuilder(function.append_basic_block())
        self.lent: list[Any] = []  # the buffers of arrays

    def write(self, of: Any) -> None:
        """Write it, around a kernel."""
        builder = self.builder
        wrong = builder.icmp_signed("!=", self.n, _INT(len(self.types)))
        with builder.if_then(wrong, likely=False):
            self._python("PyErr_BadArgument", ir.IntType(32))
            self._fail()
        args = []
        for k, told in enumerate(self.types):
            given = builder.load(builder.gep(self.objects, [_INT(k)]))
            if told.endswith("[]"):
                args += self._array(given, told)
            elif told == "object":
                args.append(builder.ptrtoint(given, _INT))
            else:
                args.append(self._number(given, told))
        conventions = cpu_target.target_context.call_conv
        kind = conventions.get_function_type(of.restype, of.argtypes)
        kernel = cgutils.get_or_insert_function(self.module, kind, of.llvm_func_name)
        # Whether it raised is not looked at: kernels of this package raise nothing.
        _, told = conventions.call_function(builder, kernel, of.restype, of.argtypes, args)
        self._give_back()
        if of.restype == nbtypes.none:
            none = cgutils.add_global_variable(self.module, _BYTE, "_Py_NoneStruct")
            self._python("Py_IncRef", ir.VoidType(), none)
            builder.ret(none)
        else:
            builder.ret(self._python(_MADE[of.restype], _OBJECT, told))

    def _python(self, name: str, result: Any, *args: Any) -> Any:
        kind = ir.FunctionType(result, [a.type for a in args])
        return self.builder.call(cgutils.get_or_insert_function(self.module, kind, name), args)

    def _fail(self) -> None:
        self._give_back()
        self.builder.ret(_OBJECT(None))

    def _give_back(self) -> None:
        for buffer in self.lent:
            self._python("PyBuffer_Release", ir.VoidType(), buffer)

    def _number(self, given: Any, told: str) -> Any:
        builder = self.builder
        read, kind = _READ[told]
        value = self._python(read, kind, given)
        compare = builder.fcmp_ordered if kind is _FLOAT else builder.icmp_signed
        with builder.if_then(compare("==", value, kind(-1)), likely=False):
            error = self._python("PyErr_Occurred", _OBJECT)
            failed = builder.icmp_unsigned("!=", error, _OBJECT(None))
            with builder.if_then(failed, likely=False):
                self._fail()
        return value

    def _array(self, given: Any, told: str) -> list[Any]:
        builder = self.builder
        buffer = builder.bitcast(
            cgutils.alloca_once(builder, ir.ArrayType(_INT, _BUFFER // 8)), _OBJECT
        )
        status = self._python(
            "PyObject_GetBuffer", ir.IntType(32), given, buffer, ir.IntType(32)(0)
        )
        with builder.if_then(builder.icmp_signed("!=", status, ir.IntType(32)(0)), likely=False):
            self._fail()
        self.lent.append(buffer)
        at, n = (
            builder.load(builder.bitcast(builder.gep(buffer, [_INT(place)]), _INT.as_pointer()))
            for place in (_AT, _BYTES)
        )
        return [at, builder.udiv(n, _INT(np.dtype(told[:-2]).itemsize))]


def called_by_numba(fn: Callable[..., Any], argument_types: Sequence[str]) -> Any:
    """What calls a kernel through numba; objects are handed over by their addresses."""
    kernel = whole(fn)
    places = [k for k, told in enumerate(argument_types) if told == "object"]
    if not places:
        return kernel

    def call(*args: Any) -> Any:
        return kernel(*(id(a) if k in places else a for k, a in enumerate(args)))

    return call
