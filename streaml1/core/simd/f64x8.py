"""Arithmetic on eight float64 lanes: the types `F64x8` and `U64x8`, and operations on them.

Most operations also take scalars, so that the update of a weight is written once, for one weight
and for eight. A vector of eight is one register on AVX-512 and two on AVX2; LLVM splits it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import types as nbtypes
from numba.extending import intrinsic, models, register_model

from streaml1.core.jit.lazy_import import COMPILED, LANES

if TYPE_CHECKING:
    from numba.core.base import BaseContext
    from numba.core.typing.templates import Signature

__all__ = [
    "add",
    "all_less",
    "any_negative",
    "bit_and",
    "bit_or",
    "concat_upper_lower",
    "copysign",
    "div",
    "exp2_int",
    "hsum",
    "lane_max",
    "lane_min",
    "mul",
    "neg",
    "select_negative",
    "shift_right",
    "splat",
    "splat_u64",
    "sub",
    "to_bits",
    "zero_first",
]


class _F64x8Type(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("F64x8")


class _U64x8Type(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("U64x8")


F64x8, U64x8 = _F64x8Type(), _U64x8Type()
_F64, I64, I32 = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VEC_F64 = ir.VectorType(_F64, LANES)
VEC_I64 = ir.VectorType(I64, LANES)
_ROUND = 6755399441055744.0  # 2^52 * 1.5: added to a small float, its low bits are the nearest int


@register_model(_F64x8Type)
class _F64x8Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VEC_F64)


@register_model(_U64x8Type)
class _U64x8Model(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VEC_I64)


def _lanewise(build: Callable[..., Any], twin: Any) -> Any:
    """Return a binary operation, given what builds its IR and its interpreted twin.

    Operands are two `F64x8`, two `U64x8` or two floats.
    """

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(
            context: BaseContext,
            builder: ir.IRBuilder,
            signature: Signature,
            args: Sequence[ir.Value],
        ) -> Any:
            return build(builder, *args)

        kind = a if a in (F64x8, U64x8) else nbtypes.float64
        return kind(kind, kind), codegen

    return compiled if COMPILED else twin


add = _lanewise(
    lambda builder, a, b: builder.add(a, b) if a.type == VEC_I64 else builder.fadd(a, b), np.add
)
sub = _lanewise(
    lambda builder, a, b: builder.sub(a, b) if a.type == VEC_I64 else builder.fsub(a, b),
    np.subtract,
)
# The next three are for U64x8 only.
bit_and = _lanewise(lambda builder, a, b: builder.and_(a, b), np.bitwise_and)
bit_or = _lanewise(lambda builder, a, b: builder.or_(a, b), np.bitwise_or)
shift_right = _lanewise(lambda builder, a, b: builder.lshr(a, b), np.right_shift)
mul = _lanewise(lambda builder, a, b: builder.fmul(a, b), np.multiply)
div = _lanewise(lambda builder, a, b: builder.fdiv(a, b), np.divide)
lane_min = _lanewise(
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b),
    lambda a, b: np.where(a < b, a, b),
)


def _build_max(builder: ir.IRBuilder, a: ir.Value, b: ir.Value) -> Any:
    compared = builder.icmp_unsigned if a.type == VEC_I64 else builder.fcmp_ordered
    return builder.select(compared(">", a, b), a, b)


lane_max = _lanewise(_build_max, lambda a, b: np.where(a > b, a, b))


def _build_copysign(builder: ir.IRBuilder, magnitude: ir.Value, sign: ir.Value) -> Any:
    bit = -(2**63)
    bits, mask = (VEC_I64, [bit] * LANES) if magnitude.type == VEC_F64 else (I64, bit)
    signs = builder.and_(builder.bitcast(sign, bits), ir.Constant(bits, mask))
    return builder.bitcast(builder.or_(builder.bitcast(magnitude, bits), signs), magnitude.type)


# The first operand must not be negative: its sign bit is not cleared.
copysign = _lanewise(_build_copysign, np.copysign)


@intrinsic
def _select_negative(typingctx: Any, a: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        zeros = ir.Constant(args[0].type, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("<", args[0], zeros), args[1], args[2])

    return F64x8(F64x8, F64x8, F64x8), codegen


@intrinsic
def _zero_first(typingctx: Any, x: Any, n: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(VEC_I64, list(range(LANES)))
        first = builder.icmp_unsigned("<", lanes, splat_vector(builder, args[1]))
        return builder.select(first, ir.Constant(VEC_F64, [0.0] * LANES), args[0])

    return F64x8(F64x8, nbtypes.uint64), codegen


@intrinsic
def _concat_upper_lower(typingctx: Any, upper: Any, lower: Any) -> Any:
    # Split into two registers, a vector needs no instruction for it, and LLVM drops what was
    # computed for the other half of each operand.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        half = LANES // 2
        order = [*range(LANES, LANES + half), *range(half, LANES)]
        kind = ir.VectorType(I32, LANES)
        return builder.shuffle_vector(args[0], args[1], ir.Constant(kind, order))

    return F64x8(F64x8, F64x8), codegen


@intrinsic
def _exp2_int(typingctx: Any, n: Any) -> Any:
    # The low bits of n + 2^52 * 1.5 are n; shifted by 52 they are the exponent of 2^n.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sum_ = builder.fadd(args[0], ir.Constant(VEC_F64, [_ROUND + 1023.0] * LANES))
        bits = builder.shl(builder.bitcast(sum_, VEC_I64), ir.Constant(VEC_I64, [52] * LANES))
        return builder.bitcast(bits, VEC_F64)

    return F64x8(F64x8), codegen


@intrinsic
def _neg(typingctx: Any, a: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fneg(args[0])

    return a(a), codegen


def splat_vector(builder: ir.IRBuilder, value: ir.Value) -> Any:
    """Return a vector with the same value in every lane."""
    undefined = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(undefined, value, ir.Constant(I32, 0))
    zeros = ir.Constant(ir.VectorType(I32, LANES), [0] * LANES)
    return builder.shuffle_vector(first, undefined, zeros)


@intrinsic
def _splat(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat_vector(builder, args[0])

    return F64x8(nbtypes.float64), codegen


@intrinsic
def _splat_u64(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return splat_vector(builder, args[0])

    return U64x8(nbtypes.uint64), codegen


@intrinsic
def _to_bits(typingctx: Any, x: Any) -> Any:
    kinds = (U64x8, VEC_I64) if x == F64x8 else (nbtypes.int64, I64)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], kinds[1])

    return kinds[0](x), codegen


def _reduce_lanes(builder: ir.IRBuilder, vector: ir.Value, join: Any) -> Any:
    """Reduce a vector to one lane in a fixed order: the halves are joined, and so on."""
    lanes = [builder.extract_element(vector, ir.Constant(I32, k)) for k in range(LANES)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [join(lanes[k], lanes[k + half]) for k in range(half)]
    return lanes[0]


@intrinsic
def _hsum(typingctx: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _reduce_lanes(builder, args[0], builder.fadd)

    return nbtypes.float64(F64x8), codegen


@intrinsic
def _any_negative(typingctx: Any, a: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        is_negative = builder.fcmp_ordered("<", args[0], ir.Constant(VEC_F64, [0.0] * LANES))
        bits = builder.bitcast(is_negative, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0))

    return nbtypes.boolean(F64x8), codegen


@intrinsic
def _all_less(typingctx: Any, x: Any, bound: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        not_less = builder.icmp_unsigned(">=", args[0], splat_vector(builder, args[1]))
        return builder.icmp_unsigned(
            "==", builder.bitcast(not_less, ir.IntType(LANES)), ir.IntType(LANES)(0)
        )

    return nbtypes.boolean(U64x8, nbtypes.uint64), codegen


def _to_bits_interpreted(x: Any) -> Any:
    return x.view(np.uint64) if isinstance(x, np.ndarray) else np.float64(x).view(np.int64)


def _hsum_interpreted(values: Any) -> Any:
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def _concat_upper_lower_interpreted(upper: Any, lower: Any) -> Any:
    return np.where(np.arange(LANES) < LANES // 2, lower, upper)


def _exp2_int_interpreted(n: Any) -> Any:
    return ((n + (_ROUND + 1023.0)).view(np.uint64) << np.uint64(52)).view(np.float64)


zero_first = _zero_first if COMPILED else lambda x, n: np.where(np.arange(LANES) < n, 0.0, x)
concat_upper_lower = _concat_upper_lower if COMPILED else _concat_upper_lower_interpreted
select_negative = _select_negative if COMPILED else lambda a, x, y: np.where(a < 0.0, x, y)
any_negative = _any_negative if COMPILED else lambda a: bool((a < 0.0).any())
all_less = _all_less if COMPILED else lambda x, bound: bool((x < bound).all())
exp2_int = _exp2_int if COMPILED else _exp2_int_interpreted
neg = _neg if COMPILED else np.negative
splat = _splat if COMPILED else lambda x: np.full(LANES, x)
splat_u64 = _splat_u64 if COMPILED else lambda x: np.full(LANES, x, np.uint64)
hsum = _hsum if COMPILED else _hsum_interpreted
to_bits = _to_bits if COMPILED else _to_bits_interpreted
