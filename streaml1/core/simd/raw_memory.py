"""Raw memory: arrays and rules from addresses, words, hints to the cache, the C interface."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, get_type_hints

import numpy as np
from llvmlite import ir
from numba import carray
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.extending import intrinsic, overload

from streaml1.core.jit.inline_functions import PART
from streaml1.core.jit.lazy_import import COMPILED

__all__ = [
    "array_at",
    "borrowed",
    "external",
    "load_u64",
    "load_u8",
    "load_f64",
    "loadu_u64",
    "prefetch",
    "prefetch_at",
    "prefetch_early",
    "rule_at",
    "stack_buffer",
    "store_u32",
    "store_u64",
]


@intrinsic
def _pointer(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(address), codegen


FIRST, SECOND = 3, 2  # caches, as LLVM counts them


def _hint(context: Any, builder: Any, place: Any, cache: int) -> Any:
    pointer = builder.bitcast(place, context.get_value_type(nbtypes.voidptr))
    i32 = ir.IntType(32)
    hint = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    call = cgutils.get_or_insert_function(builder.module, hint, "llvm.prefetch.p0i8")
    # As for reading, though some of it is written: else threads that read would fight for it.
    builder.call(call, [pointer, i32(0), i32(cache), i32(1)])
    return context.get_dummy_value()


def _into(cache: int) -> Callable[..., Any]:
    """Code that asks for an element of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _hint(context, builder, builder.gep(data, [args[1]]), cache)

    return codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, k: Any) -> Any:
    return nbtypes.void(array, k), _into(FIRST)


@intrinsic
def _prefetch_early(typingctx: Any, array: Any, k: Any) -> Any:
    return nbtypes.void(array, k), _into(SECOND)


@intrinsic
def prefetch_at(typingctx: Any, address: Any) -> Any:
    """Hint that memory at an address is about to be read; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))
        return _hint(context, builder, place, FIRST)

    return nbtypes.void(nbtypes.uint64), codegen


def _prefetch_not(array: Any, k: Any) -> None:
    pass


# Hint that `array[k]`, k of type uint64, is about to be used; no effect interpreted.
prefetch = _prefetch if COMPILED else _prefetch_not
# The same of what is used in a while, and may be far away: it is brought into the second cache.
# The first can wait for few lines at once, those that others are waited for then.
prefetch_early = _prefetch_early if COMPILED else _prefetch_not


@intrinsic
def load_u64(typingctx: Any, address: Any) -> Any:
    """Read the 8 bytes at a memory address as a uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_f64(typingctx: Any, address: Any) -> Any:
    """Read the 8 bytes at a memory address as a float; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return nbtypes.float64(nbtypes.uint64), codegen


@intrinsic
def loadu_u64(typingctx: Any, address: Any) -> Any:
    """As `load_u64`, of any address: it need not be a multiple of 8; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(place, align=1)

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_u8(typingctx: Any, address: Any) -> Any:
    """Read the byte at a memory address as a uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64), codegen


def _stored(bits: int) -> Any:
    """Code that writes the lower bits of a word to an address of any kind."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        part = ir.IntType(bits)
        place = builder.inttoptr(args[0], part.as_pointer())
        builder.store(builder.trunc(args[1], part) if bits < 64 else args[1], place, align=1)
        return context.get_dummy_value()

    return codegen


@intrinsic
def store_u64(typingctx: Any, address: Any, word: Any) -> Any:
    """Write the 8 bytes of a uint64 to a memory address of any kind; compiled code only."""
    return nbtypes.void(nbtypes.uint64, nbtypes.uint64), _stored(64)


@intrinsic
def store_u32(typingctx: Any, address: Any, word: Any) -> Any:
    """As `store_u64`, the lower 4 bytes."""
    return nbtypes.void(nbtypes.uint64, nbtypes.uint64), _stored(32)


SCRATCH = 128


def stack_buffer() -> Any:
    """128 floats of a kernel's own, not set to anything; they are gone when it returns."""
    return np.empty(SCRATCH)


@intrinsic
def _scratch(typingctx: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        place = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), SCRATCH))
        return builder.bitcast(place, context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(), codegen


@overload(stack_buffer, inline="always")
def _scratch_compiled() -> Any:
    def compiled() -> Any:
        return carray(_scratch(), (SCRATCH,), np.float64)

    return compiled


def external(name: str, result: str, *arguments: str) -> Any:
    """A function of Python's C interface; types are numba's names."""
    types_of = [getattr(nbtypes, argument) for argument in arguments]
    return nbtypes.ExternalFunction(name, getattr(nbtypes, result)(*types_of))


def array_at(address: Any, n: Any, dtype: Any) -> Any:
    """The array of `n` elements that begins at a memory address."""
    kind = np.dtype(dtype)
    memory = (ctypes.c_char * (int(n) * kind.itemsize)).from_address(int(address))
    return np.frombuffer(memory, kind)


@overload(array_at, jit_options=PART)
def _array_at(address: Any, n: Any, dtype: Any) -> Any:
    def compiled(address: Any, n: Any, dtype: Any) -> Any:
        return carray(_pointer(address), (np.int64(n),), dtype)

    return compiled


def rule_at(rule: Any, frame: Any, first: int) -> Any:
    """The rule whose arrays' addresses and lengths stand in `frame` from `first`; compiled only.

    `rule` is a class whose fields declare their dtype (see `optim.rule_state`).
    """
    raise NotImplementedError("raw memory is read by compiled code only")


@overload(rule_at, jit_options=PART)
def _rule_at(rule, frame, first):  # type: ignore[no-untyped-def]
    cls = rule.instance_class
    names = {"Rule": cls, "array_at": array_at}
    arrays = []
    fields = get_type_hints(cls, include_extras=True).values()
    for i, field in enumerate(fields):
        names[f"dtype{i}"] = field.__metadata__[0].dtype
        arrays.append(f"array_at(frame[first + {2 * i}], frame[first + {2 * i + 1}], dtype{i})")
    # The number of fields differs by rule, and compiled code cannot loop over types.
    text = f"def compiled(rule, frame, first):\n    return Rule({', '.join(arrays)})"
    exec(text, names)
    return names["compiled"]


def _lent(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    array = context.make_array(kind)(context, builder, value)
    for owner in ("meminfo", "parent"):
        setattr(array, owner, cgutils.get_null_value(getattr(array, owner).type))
    return array._getvalue()


@intrinsic
def _borrowed(typingctx: Any, owned: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lent = args[0]
        if isinstance(owned, nbtypes.Array):
            return _lent(context, builder, owned, lent)
        for i, kind in enumerate(owned.types):
            array = _lent(context, builder, kind, builder.extract_value(lent, i))
            lent = builder.insert_value(lent, array, i)
        return lent

    return owned(owned), codegen


def _itself(owned: Any) -> Any:
    return owned


# The same array, rule or tuple of arrays, with arrays that are not counted as references to their
# memory. A loop that hands one to functions counts it up and down for each, unless LLVM has taken
# all of them in, which differs by what was compiled before: some ten nanoseconds an array and a
# row. Whoever calls the kernel holds it all the while.
borrowed = _borrowed if COMPILED else _itself
