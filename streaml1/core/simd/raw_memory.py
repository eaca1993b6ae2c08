"""Raw memory: scalar loads and stores, prefetch hints; arrays, rules and functions at addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_type_hints

import numpy as np
from llvmlite import ir
from numba import carray
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.extending import intrinsic, overload

from streaml1.core.jit.inline_functions import INLINE_OPTIONS
from streaml1.core.jit.lazy_import import COMPILED
from streaml1.core.jit.raw_array import array_at

if TYPE_CHECKING:
    from numba.core.base import BaseContext

__all__ = [
    "array_at",
    "borrowed",
    "call_f64",
    "call_i64",
    "load_f64",
    "load_u64",
    "load_u8",
    "loadu_u64",
    "prefetch",
    "prefetch_at",
    "prefetch_early",
    "rule_at",
    "stack_buffer",
    "store_u32",
    "store_u64",
]


LOCALITY_L1, LOCALITY_L2 = 3, 2  # arguments of llvm.prefetch: the nearest cache to fill


def _emit_prefetch(
    context: BaseContext, builder: ir.IRBuilder, pointer: ir.Value, locality: int
) -> Any:
    pointer = builder.bitcast(pointer, context.get_value_type(nbtypes.voidptr))
    i32 = ir.IntType(32)
    signature = ir.FunctionType(ir.VoidType(), [pointer.type, i32, i32, i32])
    call = cgutils.get_or_insert_function(builder.module, signature, "llvm.prefetch.p0i8")
    # A hint for reading even though some of the memory is written: a hint for writing takes the
    # line away from the caches of other threads, which may read the same model.
    builder.call(call, [pointer, i32(0), i32(locality), i32(1)])
    return context.get_dummy_value()


def _prefetch_element(locality: int) -> Callable[..., Any]:
    """Return code that prefetches an element of an array."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, args[0]).data
        return _emit_prefetch(context, builder, builder.gep(data, [args[1]]), locality)

    return codegen


@intrinsic
def _prefetch(typingctx: Any, array: Any, k: Any) -> Any:
    return nbtypes.void(array, k), _prefetch_element(LOCALITY_L1)


@intrinsic
def _prefetch_early(typingctx: Any, array: Any, k: Any) -> Any:
    return nbtypes.void(array, k), _prefetch_element(LOCALITY_L2)


@intrinsic
def prefetch_at(typingctx: Any, address: Any) -> Any:
    """Prefetch the cache line at an address into L1; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], context.get_value_type(nbtypes.voidptr))
        return _emit_prefetch(context, builder, pointer, LOCALITY_L1)

    return nbtypes.void(nbtypes.uint64), codegen


def _prefetch_interpreted(array: Any, k: Any) -> None:
    pass


prefetch = _prefetch if COMPILED else _prefetch_interpreted
# Into L2, for accesses that are random and far ahead. L1 tracks few outstanding misses (10 to 24
# line fill buffers): hints that wait for DRAM would occupy those that demand loads need.
prefetch_early = _prefetch_early if COMPILED else _prefetch_interpreted


@intrinsic
def load_u64(typingctx: Any, address: Any) -> Any:
    """Load a uint64 from an address that is a multiple of 8; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.IntType(64).as_pointer()))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_f64(typingctx: Any, address: Any) -> Any:
    """Load a float from an address that is a multiple of 8; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], ir.DoubleType().as_pointer()))

    return nbtypes.float64(nbtypes.uint64), codegen


@intrinsic
def loadu_u64(typingctx: Any, address: Any) -> Any:
    """Load a uint64 from an address of any alignment; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pointer = builder.inttoptr(args[0], ir.IntType(64).as_pointer())
        return builder.load(pointer, align=1)

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def load_u8(typingctx: Any, address: Any) -> Any:
    """Load a byte as a uint64; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        byte = builder.load(builder.inttoptr(args[0], ir.IntType(8).as_pointer()))
        return builder.zext(byte, ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64), codegen


def _emit_store(bits: int) -> Any:
    """Return code that stores the low bits of a uint64, at an address of any alignment."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.IntType(bits)
        pointer = builder.inttoptr(args[0], kind.as_pointer())
        builder.store(builder.trunc(args[1], kind) if bits < 64 else args[1], pointer, align=1)
        return context.get_dummy_value()

    return codegen


@intrinsic
def store_u64(typingctx: Any, address: Any, x: Any) -> Any:
    """Store a uint64 at an address of any alignment; compiled only."""
    return nbtypes.void(nbtypes.uint64, nbtypes.uint64), _emit_store(64)


@intrinsic
def store_u32(typingctx: Any, address: Any, x: Any) -> Any:
    """Store the low 32 bits of a uint64 at an address of any alignment; compiled only."""
    return nbtypes.void(nbtypes.uint64, nbtypes.uint64), _emit_store(32)


STACK_FLOATS = 128


def stack_buffer() -> Any:
    """Return 128 uninitialized floats, compiled on the stack: valid until the kernel returns."""
    return np.empty(STACK_FLOATS)


@intrinsic
def _stack_pointer(typingctx: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        slot = cgutils.alloca_once(builder, ir.ArrayType(ir.DoubleType(), STACK_FLOATS))
        return builder.bitcast(slot, context.get_value_type(nbtypes.voidptr))

    return nbtypes.voidptr(), codegen


@overload(stack_buffer, inline="always")
def _stack_buffer() -> Any:
    def compiled() -> Any:
        return carray(_stack_pointer(), (STACK_FLOATS,), np.float64)

    return compiled


def rule_at(rule: Any, pairs: Any, first: int) -> Any:
    """Rebuild an update rule from the addresses and lengths of its arrays; compiled only.

    Parameters
    ----------
    rule
        The class, whose fields declare their dtypes (see `optim.rule_state`).
    pairs : array of uint64
        Holds for each field the address and the length of its array, one field after the other.
    first
        Index in `pairs` of the first address.
    """
    raise NotImplementedError("rule_at reads raw memory and runs in compiled code only")


@overload(rule_at, jit_options=INLINE_OPTIONS)
def _rule_at(rule, pairs, first):  # type: ignore[no-untyped-def]
    cls = rule.instance_class
    names = {"Rule": cls, "array_at": array_at}
    arrays = []
    fields = get_type_hints(cls, include_extras=True).values()
    for i, field in enumerate(fields):
        names[f"dtype{i}"] = field.__metadata__[0].dtype
        arrays.append(f"array_at(pairs[first + {2 * i}], pairs[first + {2 * i + 1}], dtype{i})")
    # The number of fields differs by rule, and compiled code cannot loop over types.
    text = f"def compiled(rule, pairs, first):\n    return Rule({', '.join(arrays)})"
    exec(text, names)
    return names["compiled"]


def _call(result: ir.Type) -> Callable[..., Any]:
    """Return code that calls the C function at an address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        values = cgutils.unpack_tuple(builder, args[1])
        kind = ir.FunctionType(result, [value.type for value in values])
        return builder.call(builder.inttoptr(args[0], kind.as_pointer()), values)

    return codegen


@intrinsic
def call_f64(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Return the float that a C function returns for a tuple of numbers; compiled only."""
    return nbtypes.float64(nbtypes.uint64, arguments), _call(ir.DoubleType())


@intrinsic
def call_i64(typingctx: Any, address: Any, arguments: Any) -> Any:
    """Return the int that a C function returns for a tuple of numbers; compiled only."""
    return nbtypes.int64(nbtypes.uint64, arguments), _call(ir.IntType(64))


def _without_owner(context: BaseContext, builder: ir.IRBuilder, kind: Any, value: ir.Value) -> Any:
    """Return an array struct whose references to the owner of its memory are null."""
    array = context.make_array(kind)(context, builder, value)
    for owner in ("meminfo", "parent"):
        setattr(array, owner, cgutils.get_null_value(getattr(array, owner).type))
    return array._getvalue()


@intrinsic
def _borrowed(typingctx: Any, owned: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        value = args[0]
        if isinstance(owned, nbtypes.Array):
            return _without_owner(context, builder, owned, value)
        for i, kind in enumerate(owned.types):
            if isinstance(kind, nbtypes.Array):
                array = _without_owner(context, builder, kind, builder.extract_value(value, i))
                value = builder.insert_value(value, array, i)
        return value

    return owned(owned), codegen


def _borrowed_interpreted(owned: Any) -> Any:
    return owned


# An array, rule or tuple with arrays, without reference counting. numba increments and decrements
# the count of an array for every call it is passed to, unless LLVM inlines that call, which depends
# on what was compiled before: about ten nanoseconds per array and row. It is safe since the caller
# of the kernel keeps the arrays alive.
borrowed = _borrowed if COMPILED else _borrowed_interpreted
