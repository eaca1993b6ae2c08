"""Operations on eight uint64 lanes, `U64x8`; compiled code only.

Python's operators ``+ - * & | ^ << >>`` work on lanes as on a uint64, and a scalar operand is
broadcast. ``== != < >`` (unsigned) return all ones in the lanes where they hold, else zero.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic, overload

from streaml1.core.jit.compiler import has_fast_gather, has_feature
from streaml1.core.jit.inline_functions import INLINE_OPTIONS
from streaml1.core.jit.lazy_import import LANES
from streaml1.core.simd.f64x8 import I64, VEC_F64, VEC_I64, F64x8, U64x8, splat_vector
from streaml1.core.simd.load_store import emit_gather, emit_scatter

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

__all__ = [
    "as_f64x8",
    "can_permute",
    "exclusive_scan",
    "gather_u64",
    "lane_mask_from",
    "lane_popcount",
    "last_lane",
    "load_every_fifth",
    "load_u32_pairs",
    "load_u32x8",
    "loadu_u64x8",
    "lookup16",
    "movemask",
    "permute_u64",
    "scatter_u64",
    "store_u32x8",
    "store_u64x8",
]

_VEC_I32 = ir.VectorType(ir.IntType(32), LANES)
_I32 = ir.IntType(32)
_VEC_I8 = ir.VectorType(ir.IntType(8), 64)
_VEC_I32X64 = ir.VectorType(_I32, _VEC_I8.count)
_PERMUTE_BYTES = 2 * _VEC_I8.count  # bytes that one VPERMI2B selects from


def _overload_operator(function: Callable[..., Any], build: Callable[..., Any]) -> None:
    """Overload an operator of Python for `U64x8`, its in-place form included."""

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(
            context: BaseContext,
            builder: ir.IRBuilder,
            signature: Signature,
            args: Sequence[ir.Value],
        ) -> Any:
            pairs = zip(args, signature.args, strict=True)
            both = [x if kind == U64x8 else splat_vector(builder, x) for x, kind in pairs]
            return build(builder, *both)

        return U64x8(*(U64x8 if kind == U64x8 else nbtypes.uint64 for kind in (a, b))), codegen

    def for_vectors(a: Any, b: Any) -> Any:
        return (lambda a, b: compiled(a, b)) if U64x8 in (a, b) else None

    in_place = vars(operator).get(f"i{function.__name__.rstrip('_')}")
    for name in (function, in_place):
        if name is not None:
            overload(name, strict=False, jit_options=INLINE_OPTIONS)(for_vectors)


def _build_comparison(predicate: str) -> Callable[..., Any]:
    """Return what builds a comparison: all ones in lanes where it holds, else zero."""
    return lambda builder, a, b: builder.sext(builder.icmp_unsigned(predicate, a, b), VEC_I64)


_overload_operator(operator.add, lambda builder, a, b: builder.add(a, b))
_overload_operator(operator.sub, lambda builder, a, b: builder.sub(a, b))
_overload_operator(operator.mul, lambda builder, a, b: builder.mul(a, b))
_overload_operator(operator.and_, lambda builder, a, b: builder.and_(a, b))
_overload_operator(operator.or_, lambda builder, a, b: builder.or_(a, b))
_overload_operator(operator.xor, lambda builder, a, b: builder.xor(a, b))
_overload_operator(operator.lshift, lambda builder, a, b: builder.shl(a, b))
_overload_operator(operator.rshift, lambda builder, a, b: builder.lshr(a, b))
_overload_operator(operator.eq, _build_comparison("=="))
_overload_operator(operator.ne, _build_comparison("!="))
_overload_operator(operator.lt, _build_comparison("<"))
_overload_operator(operator.gt, _build_comparison(">"))


@intrinsic
def gather_u64(typingctx: Any, addresses: Any) -> Any:
    """Load a uint64 from each of eight addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return emit_gather(context, builder, args[0], VEC_I64, 1)

    return U64x8(U64x8), codegen


@intrinsic
def can_permute(typingctx: Any, low: Any, middle: Any, high: Any, last: Any) -> Any:
    """Return whether `permute_u64` reaches `middle` from `low`, and `last` from `high`.

    False on processors where it is not faster than `gather_u64`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not _has_fast_permute(context):
            return ir.Constant(ir.IntType(1), 0)
        low, middle, high, last = args
        max_offset = I64(_PERMUTE_BYTES - 8)
        first = builder.icmp_unsigned("<=", builder.sub(middle, low), max_offset)
        return builder.and_(first, builder.icmp_unsigned("<=", builder.sub(last, high), max_offset))

    return nbtypes.boolean(*[nbtypes.uint64] * 4), codegen


@intrinsic
def permute_u64(typingctx: Any, low: Any, high: Any, addresses: Any) -> Any:
    """Load as `gather_u64` does, four addresses shortly after `low` and four after `high`.

    Requires `can_permute`. Loads 128 bytes from `low` and from `high` and selects bytes of the
    registers. Calls with the same two share the loads, unless memory is written in between.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high, addresses = args
        if not _has_fast_permute(context):
            return emit_gather(context, builder, addresses, VEC_I64, 1)
        bases = [splat_vector(builder, base) for base in (low, high)]
        offsets = builder.sub(addresses, _concat_halves(builder, *bases))
        # Indices of bytes: the low byte of each offset, repeated eight times, plus 0 to 7.
        order = ir.Constant(_VEC_I32X64, [k & ~7 for k in range(_VEC_I8.count)])
        index = builder.bitcast(offsets, _VEC_I8)
        index = builder.shuffle_vector(index, ir.Constant(_VEC_I8, ir.Undefined), order)
        index = builder.add(index, ir.Constant(_VEC_I8, [k & 7 for k in range(_VEC_I8.count)]))
        kind = ir.FunctionType(_VEC_I8, [_VEC_I8] * 3)
        name = "llvm.x86.avx512.vpermi2var.qi.512"
        call = cgutils.get_or_insert_function(builder.module, kind, name)
        found = []
        for base in (low, high):
            addresses = (builder.add(base, I64(offset)) for offset in (0, _VEC_I8.count))
            first, second = (
                builder.load(builder.inttoptr(address, _VEC_I8.as_pointer()), align=1)
                for address in addresses
            )
            found.append(builder.bitcast(builder.call(call, [first, index, second]), VEC_I64))
        return _concat_halves(builder, *found)

    return U64x8(nbtypes.uint64, nbtypes.uint64, U64x8), codegen


def _has_fast_permute(context: Any) -> bool:
    """Return whether selecting bytes of registers beats loads, see `has_fast_gather`."""
    return has_feature(context, "avx512vbmi") and not has_fast_gather(context)


def _concat_halves(builder: ir.IRBuilder, low: ir.Value, high: ir.Value) -> Any:
    """Return the first four lanes of `low` followed by the last four of `high`."""
    half = LANES // 2
    lanes = [*range(half), *range(LANES + half, 2 * LANES)]
    return builder.shuffle_vector(low, high, ir.Constant(ir.VectorType(_I32, LANES), lanes))


@intrinsic
def lookup16(typingctx: Any, address: Any, indices: Any) -> Any:
    """Look up eight indices below 16 in the table of sixteen uint64 at an aligned address."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, indices = args
        if not has_feature(context, "avx512f"):
            offsets = builder.shl(indices, ir.Constant(VEC_I64, [3] * LANES))
            addresses = builder.add(splat_vector(builder, address), offsets)
            return emit_gather(context, builder, addresses, VEC_I64, 8)
        halves = (builder.add(address, I64(8 * first)) for first in (0, LANES))
        low, high = (
            builder.load(builder.inttoptr(half, VEC_I64.as_pointer()), align=8) for half in halves
        )
        kind = ir.FunctionType(VEC_I64, [VEC_I64] * 3)
        name = "llvm.x86.avx512.vpermi2var.q.512"
        call = cgutils.get_or_insert_function(builder.module, kind, name)
        return builder.call(call, [low, indices, high])

    return U64x8(nbtypes.uint64, U64x8), codegen


@intrinsic
def loadu_u64x8(typingctx: Any, address: Any) -> Any:
    """Load eight consecutive uint64 from an address of any alignment."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], VEC_I64.as_pointer()), align=1)

    return U64x8(nbtypes.uint64), codegen


@intrinsic
def movemask(typingctx: Any, x: Any) -> Any:
    """Return a bit for each lane: 1 where it is not zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = builder.icmp_unsigned("!=", args[0], ir.Constant(VEC_I64, [0] * LANES))
        return builder.zext(builder.bitcast(flags, ir.IntType(LANES)), I64)

    return nbtypes.uint64(U64x8), codegen


@intrinsic
def load_u32_pairs(typingctx: Any, address: Any) -> Any:
    """Load sixteen consecutive uint32 as two `U64x8`: those at even and those at odd indices."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = builder.load(builder.inttoptr(args[0], VEC_I64.as_pointer()), align=1)
        low = builder.and_(pairs, ir.Constant(VEC_I64, [2**32 - 1] * LANES))
        high = builder.lshr(pairs, ir.Constant(VEC_I64, [32] * LANES))
        return context.make_tuple(builder, signature.return_type, [low, high])

    return UniTuple(U64x8, 2)(nbtypes.uint64), codegen


def _load_strided(step: int) -> Callable[..., Any]:
    """Return code that loads every `step`-th of consecutive uint32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.VectorType(ir.IntType(32), LANES * step)
        loaded = builder.load(builder.inttoptr(args[0], kind.as_pointer()), align=1)
        order = ir.Constant(_VEC_I32, [step * k for k in range(LANES)])
        selected = builder.shuffle_vector(loaded, ir.Constant(kind, ir.Undefined), order)
        return builder.zext(selected, VEC_I64)

    return codegen


@intrinsic
def load_every_fifth(typingctx: Any, address: Any) -> Any:
    """Load the uint32 at indices 0, 5, ..., 35 from an address as `U64x8`."""
    return U64x8(nbtypes.uint64), _load_strided(5)


@intrinsic
def load_u32x8(typingctx: Any, address: Any) -> Any:
    """Load eight consecutive uint32 as `U64x8`."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], _VEC_I32.as_pointer()), align=1)
        return builder.zext(loaded, VEC_I64)

    return U64x8(nbtypes.uint64), codegen


@intrinsic
def scatter_u64(typingctx: Any, addresses: Any, x: Any) -> Any:
    """Store each lane to an address, in order: where addresses coincide the last lane wins."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses, x = args
        emit_scatter(context, builder, addresses, x, 1)
        return context.get_dummy_value()

    return nbtypes.void(U64x8, U64x8), codegen


@intrinsic
def exclusive_scan(typingctx: Any, x: Any) -> Any:
    """Return for each lane the sum of the lanes before it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = ir.Constant(VEC_I64, [0] * LANES)

        def shifted(x: Any, n: int) -> Any:
            # Lanes of the second vector, of zeros, are shifted in.
            lanes = [LANES + k if k < n else k - n for k in range(LANES)]
            order = ir.Constant(ir.VectorType(_I32, LANES), lanes)
            return builder.shuffle_vector(x, zeros, order)

        # After each step a lane holds the sum of twice as many lanes before it.
        sums = shifted(args[0], 1)
        for n in (1, 2, 4):
            sums = builder.add(sums, shifted(sums, n))
        return sums

    return U64x8(U64x8), codegen


@intrinsic
def lane_mask_from(typingctx: Any, first: Any) -> Any:
    """Return all ones in lanes `first` and later, and zero in the lanes before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(VEC_I64, list(range(LANES)))
        flags = builder.icmp_unsigned(">=", lanes, splat_vector(builder, args[0]))
        return builder.sext(flags, VEC_I64)

    return U64x8(nbtypes.uint64), codegen


@intrinsic
def lane_popcount(typingctx: Any, x: Any) -> Any:
    """Count the one bits of each lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = "llvm.ctpop.v8i64"
        kind = ir.FunctionType(VEC_I64, [VEC_I64])
        call = builder.module.globals.get(name) or ir.Function(builder.module, kind, name)
        return builder.call(call, args)

    return U64x8(U64x8), codegen


@intrinsic
def last_lane(typingctx: Any, x: Any) -> Any:
    """Return the last lane."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], _I32(LANES - 1))

    return nbtypes.uint64(U64x8), codegen


@intrinsic
def store_u32x8(typingctx: Any, address: Any, x: Any) -> Any:
    """Store the low 32 bits of eight lanes as consecutive uint32."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        truncated = builder.trunc(args[1], _VEC_I32)
        builder.store(truncated, builder.inttoptr(args[0], _VEC_I32.as_pointer()), align=1)
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, U64x8), codegen


@intrinsic
def store_u64x8(typingctx: Any, address: Any, x: Any) -> Any:
    """Store eight lanes as consecutive uint64, at an address of any alignment."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], VEC_I64.as_pointer()), align=1)
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, U64x8), codegen


@intrinsic
def as_f64x8(typingctx: Any, x: Any) -> Any:
    """Reinterpret the bits of eight lanes as floats."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], VEC_F64)

    return F64x8(U64x8), codegen
