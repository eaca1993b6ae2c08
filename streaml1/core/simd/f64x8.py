"""Eight floats, or eight words, as one value: one instruction on what has vectors so wide.

Operations on eights take floats as well, so that what is done to a weight is written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types as nbtypes
from numba.extending import intrinsic, models, register_model

from streaml1.core.jit.lazy_import import COMPILED, LANES

__all__ = [
    "all_less",
    "any_negative",
    "to_bits",
    "select_negative",
    "splat",
    "lane_max",
    "bit_or",
    "lane_min",
    "bit_and",
    "sub",
    "neg",
    "div",
    "add",
    "shift_right",
    "copysign",
    "mul",
    "hsum",
    "exp2_int",
    "zero_first",
    "splat_u64",
]


class _Eight(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("Eight")


class _Words(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("Words")


EIGHT, WORDS = _Eight(), _Words()
_FLOAT, WORD, INDEX = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(_FLOAT, LANES)
BITS = ir.VectorType(WORD, LANES)
_ROUND = 6755399441055744.0


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, VECTOR)


@register_model(_Words)
class _WordsModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, BITS)


def _on_eights(build: Callable[..., Any], twin: Any) -> Any:
    """An operation on two values of eight floats: what builds its code, and numpy's for it."""

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return build(builder, *args)

        kind = a if a in (EIGHT, WORDS) else nbtypes.float64
        return kind(kind, kind), codegen

    return compiled if COMPILED else twin


add = _on_eights(
    lambda builder, a, b: builder.add(a, b) if a.type == BITS else builder.fadd(a, b), np.add
)
sub = _on_eights(
    lambda builder, a, b: builder.sub(a, b) if a.type == BITS else builder.fsub(a, b), np.subtract
)
# Of words alone: the bits that both have, or one of them; shifted to the right.
bit_and = _on_eights(lambda builder, a, b: builder.and_(a, b), np.bitwise_and)
bit_or = _on_eights(lambda builder, a, b: builder.or_(a, b), np.bitwise_or)
shift_right = _on_eights(lambda builder, a, b: builder.lshr(a, b), np.right_shift)
mul = _on_eights(lambda builder, a, b: builder.fmul(a, b), np.multiply)
div = _on_eights(lambda builder, a, b: builder.fdiv(a, b), np.divide)
lane_min = _on_eights(
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b),
    lambda a, b: np.where(a < b, a, b),
)


def _greater(builder: Any, a: Any, b: Any) -> Any:
    compared = builder.icmp_unsigned if a.type == BITS else builder.fcmp_ordered
    return builder.select(compared(">", a, b), a, b)


lane_max = _on_eights(_greater, lambda a, b: np.where(a > b, a, b))


def _signed(builder: Any, size: Any, like: Any) -> Any:
    sign = -(2**63)
    bits, mask = (BITS, [sign] * LANES) if size.type == VECTOR else (WORD, sign)
    signs = builder.and_(builder.bitcast(like, bits), ir.Constant(bits, mask))
    return builder.bitcast(builder.or_(builder.bitcast(size, bits), signs), size.type)


# The first must not be below zero.
copysign = _on_eights(_signed, np.copysign)


@intrinsic
def _chosen(typingctx: Any, a: Any, x: Any, y: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none = ir.Constant(args[0].type, [0.0] * LANES)
        return builder.select(builder.fcmp_ordered("<", args[0], none), args[1], args[2])

    return EIGHT(EIGHT, EIGHT, EIGHT), codegen


@intrinsic
def _without_first(typingctx: Any, x: Any, n: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(BITS, list(range(LANES)))
        first = builder.icmp_unsigned("<", lanes, everywhere(builder, args[1]))
        return builder.select(first, ir.Constant(VECTOR, [0.0] * LANES), args[0])

    return EIGHT(EIGHT, nbtypes.uint64), codegen


@intrinsic
def _two_to(typingctx: Any, n: Any) -> Any:
    # Added to 2^52 * 1.5, the low bits of the sum are n.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        sum_ = builder.fadd(args[0], ir.Constant(VECTOR, [_ROUND + 1023.0] * LANES))
        bits = builder.shl(builder.bitcast(sum_, BITS), ir.Constant(BITS, [52] * LANES))
        return builder.bitcast(bits, VECTOR)

    return EIGHT(EIGHT), codegen


@intrinsic
def _negative(typingctx: Any, a: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.fneg(args[0])

    return a(a), codegen


def everywhere(builder: Any, one: Any) -> Any:
    """A vector of one value."""
    none = ir.Constant(ir.VectorType(one.type, LANES), ir.Undefined)
    first = builder.insert_element(none, one, ir.Constant(INDEX, 0))
    zeros = ir.Constant(ir.VectorType(INDEX, LANES), [0] * LANES)
    return builder.shuffle_vector(first, none, zeros)


@intrinsic
def _eight_of(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return everywhere(builder, args[0])

    return EIGHT(nbtypes.float64), codegen


@intrinsic
def _words_of(typingctx: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return everywhere(builder, args[0])

    return WORDS(nbtypes.uint64), codegen


@intrinsic
def _bits_of(typingctx: Any, x: Any) -> Any:
    kinds = (WORDS, BITS) if x == EIGHT else (nbtypes.int64, WORD)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], kinds[1])

    return kinds[0](x), codegen


def _folded(builder: Any, vector: Any, join: Any) -> Any:
    """One of the lanes of a vector: those of its halves are joined, and so on."""
    lanes = [builder.extract_element(vector, ir.Constant(INDEX, k)) for k in range(LANES)]
    while len(lanes) > 1:
        half = len(lanes) // 2
        lanes = [join(lanes[k], lanes[k + half]) for k in range(half)]
    return lanes[0]


@intrinsic
def _total(typingctx: Any, values: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _folded(builder, args[0], builder.fadd)

    return nbtypes.float64(EIGHT), codegen


@intrinsic
def _any_below_zero(typingctx: Any, a: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        below = builder.fcmp_ordered("<", args[0], ir.Constant(VECTOR, [0.0] * LANES))
        bits = builder.bitcast(below, ir.IntType(LANES))
        return builder.icmp_unsigned("!=", bits, ir.IntType(LANES)(0))

    return nbtypes.boolean(EIGHT), codegen


@intrinsic
def _all_below(typingctx: Any, words: Any, most: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        beyond = builder.icmp_unsigned(">=", args[0], everywhere(builder, args[1]))
        return builder.icmp_unsigned(
            "==", builder.bitcast(beyond, ir.IntType(LANES)), ir.IntType(LANES)(0)
        )

    return nbtypes.boolean(WORDS, nbtypes.uint64), codegen


def _as_bits(x: Any) -> Any:
    return x.view(np.uint64) if isinstance(x, np.ndarray) else np.float64(x).view(np.int64)


def _sum_of_eight(values: Any) -> Any:
    while len(values) > 1:
        half = len(values) // 2
        values = values[:half] + values[half:]
    return values[0]


def _power_of_two(n: Any) -> Any:
    return ((n + (_ROUND + 1023.0)).view(np.uint64) << np.uint64(52)).view(np.float64)


# Eight floats with zeros for the first n; of two eights, the first where another is below zero;
# 2 to whole floats from -1022 to 1023.
zero_first = _without_first if COMPILED else lambda x, n: np.where(np.arange(LANES) < n, 0.0, x)
select_negative = _chosen if COMPILED else lambda a, x, y: np.where(a < 0.0, x, y)
any_negative = _any_below_zero if COMPILED else lambda a: bool((a < 0.0).any())
# Whether eight words are all below one.
all_less = _all_below if COMPILED else lambda words, most: bool((words < most).all())
exp2_int = _two_to if COMPILED else _power_of_two
neg = _negative if COMPILED else np.negative
splat = _eight_of if COMPILED else lambda x: np.full(LANES, x)
splat_u64 = _words_of if COMPILED else lambda word: np.full(LANES, word, np.uint64)
hsum = _total if COMPILED else _sum_of_eight
# The bits of eight floats as words, or of one as an int64.
to_bits = _bits_of if COMPILED else _as_bits
