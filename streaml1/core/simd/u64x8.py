"""Arithmetic on eight words as on one: what is written for a uint64 takes eight of them too.

An operand may be one word, which then stands for eight alike. Compiled code only.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic, overload

from streaml1.core.jit.compiler import gathers, has
from streaml1.core.jit.inline_functions import PART
from streaml1.core.jit.lazy_import import LANES
from streaml1.core.simd.f64x8 import BITS, EIGHT, VECTOR, WORD, WORDS, everywhere
from streaml1.core.simd.load_store import gathered, scattered

__all__ = [
    "can_permute",
    "lane_popcount",
    "as_f64x8",
    "load_every_fifth",
    "load_every_third",
    "load_u32_pairs",
    "lane_mask_from",
    "last_lane",
    "lookup16",
    "scatter_u64",
    "store_u32x8",
    "store_u64x8",
    "exclusive_scan",
    "movemask",
    "loadu_u64x8",
    "gather_u64",
    "permute_u64",
    "load_u32x8",
]

_HALVES = ir.VectorType(ir.IntType(32), LANES)
_INDEX = ir.IntType(32)
_BYTES = ir.VectorType(ir.IntType(8), 64)
_ORDER = ir.VectorType(_INDEX, _BYTES.count)
_WINDOW = 2 * _BYTES.count  # bytes that an instruction chooses from


def _operator(of: Callable[..., Any], build: Callable[..., Any]) -> None:
    """Have an operator of Python take eight words."""

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            pairs = zip(args, signature.args, strict=True)
            both = [x if kind == WORDS else everywhere(builder, x) for x, kind in pairs]
            return build(builder, *both)

        return WORDS(*(WORDS if one == WORDS else nbtypes.uint64 for one in (a, b))), codegen

    def of_words(a: Any, b: Any) -> Any:
        return (lambda a, b: compiled(a, b)) if WORDS in (a, b) else None

    for each in (of, vars(operator).get(f"i{of.__name__.rstrip('_')}")):
        if each is not None:
            overload(each, strict=False, jit_options=PART)(of_words)


def _flag(how: str) -> Callable[..., Any]:
    """All bits where it is so, and none where it is not."""
    return lambda builder, a, b: builder.sext(builder.icmp_unsigned(how, a, b), BITS)


_operator(operator.add, lambda builder, a, b: builder.add(a, b))
_operator(operator.sub, lambda builder, a, b: builder.sub(a, b))
_operator(operator.mul, lambda builder, a, b: builder.mul(a, b))
_operator(operator.and_, lambda builder, a, b: builder.and_(a, b))
_operator(operator.or_, lambda builder, a, b: builder.or_(a, b))
_operator(operator.xor, lambda builder, a, b: builder.xor(a, b))
_operator(operator.lshift, lambda builder, a, b: builder.shl(a, b))
_operator(operator.rshift, lambda builder, a, b: builder.lshr(a, b))
_operator(operator.eq, _flag("=="))
_operator(operator.ne, _flag("!="))
_operator(operator.lt, _flag("<"))
_operator(operator.gt, _flag(">"))


@intrinsic
def gather_u64(typingctx: Any, addresses: Any) -> Any:
    """The words at eight addresses."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return gathered(context, builder, args[0], BITS, 1)

    return WORDS(WORDS), codegen


@intrinsic
def can_permute(typingctx: Any, low: Any, middle: Any, high: Any, last: Any) -> Any:
    """Whether `permute_u64` may read up to `middle` from `low`, and up to `last` from `high`.

    False where it would be no quicker than `gather_u64`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if not _permutes(context):
            return ir.Constant(ir.IntType(1), 0)
        low, middle, high, last = args
        most = WORD(_WINDOW - 8)
        first = builder.icmp_unsigned("<=", builder.sub(middle, low), most)
        return builder.and_(first, builder.icmp_unsigned("<=", builder.sub(last, high), most))

    return nbtypes.boolean(*[nbtypes.uint64] * 4), codegen


@intrinsic
def permute_u64(typingctx: Any, low: Any, high: Any, addresses: Any) -> Any:
    """As `gather_u64`, with four addresses just behind `low` and four just behind `high`.

    Requires `can_permute`. Reads 128 bytes from both; calls with the same two read them once,
    unless something is written in between.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        low, high, addresses = args
        if not _permutes(context):
            return gathered(context, builder, addresses, BITS, 1)
        fours = [everywhere(builder, one) for one in (low, high)]
        offsets = builder.sub(addresses, _four_of_each(builder, *fours))
        # Of each offset the lowest byte for each of the eight bytes, and which of them it is.
        order = ir.Constant(_ORDER, [k & ~7 for k in range(_BYTES.count)])
        at = builder.bitcast(offsets, _BYTES)
        at = builder.shuffle_vector(at, ir.Constant(_BYTES, ir.Undefined), order)
        at = builder.add(at, ir.Constant(_BYTES, [k & 7 for k in range(_BYTES.count)]))
        of = ir.FunctionType(_BYTES, [_BYTES] * 3)
        name = "llvm.x86.avx512.vpermi2var.qi.512"
        call = cgutils.get_or_insert_function(builder.module, of, name)
        found = []
        for begin in (low, high):
            places = (builder.add(begin, WORD(by)) for by in (0, _BYTES.count))
            first, second = (
                builder.load(builder.inttoptr(place, _BYTES.as_pointer()), align=1)
                for place in places
            )
            found.append(builder.bitcast(builder.call(call, [first, at, second]), BITS))
        return _four_of_each(builder, *found)

    return WORDS(nbtypes.uint64, nbtypes.uint64, WORDS), codegen


def _permutes(context: Any) -> bool:
    """Whether bytes of a register are sooner chosen than loaded: see `gathers`."""
    return has(context, "avx512vbmi") and not gathers(context)


def _four_of_each(builder: Any, low: Any, high: Any) -> Any:
    """The first four words of a vector, and the last four of another."""
    half = LANES // 2
    lanes = [*range(half), *range(LANES + half, 2 * LANES)]
    return builder.shuffle_vector(low, high, ir.Constant(ir.VectorType(_INDEX, LANES), lanes))


@intrinsic
def lookup16(typingctx: Any, address: Any, words: Any) -> Any:
    """Of the sixteen words from an address on those that eight words tell, each below sixteen."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, words = args
        if not has(context, "avx512f"):
            steps = builder.shl(words, ir.Constant(BITS, [3] * LANES))
            places = builder.add(everywhere(builder, address), steps)
            return gathered(context, builder, places, BITS, 8)
        halves = (builder.add(address, WORD(8 * first)) for first in (0, LANES))
        low, high = (
            builder.load(builder.inttoptr(half, BITS.as_pointer()), align=8) for half in halves
        )
        of = ir.FunctionType(BITS, [BITS] * 3)
        name = "llvm.x86.avx512.vpermi2var.q.512"
        call = cgutils.get_or_insert_function(builder.module, of, name)
        return builder.call(call, [low, words, high])

    return WORDS(nbtypes.uint64, WORDS), codegen


@intrinsic
def loadu_u64x8(typingctx: Any, address: Any) -> Any:
    """Eight words one after the other."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.load(builder.inttoptr(args[0], BITS.as_pointer()), align=1)

    return WORDS(nbtypes.uint64), codegen


@intrinsic
def movemask(typingctx: Any, words: Any) -> Any:
    """Which of eight words are not zero, a bit each."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = builder.icmp_unsigned("!=", args[0], ir.Constant(BITS, [0] * LANES))
        return builder.zext(builder.bitcast(flags, ir.IntType(LANES)), WORD)

    return nbtypes.uint64(WORDS), codegen


@intrinsic
def load_u32_pairs(typingctx: Any, address: Any) -> Any:
    """Of sixteen halves of words one after the other, those in even and those in odd places."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        pairs = builder.load(builder.inttoptr(args[0], BITS.as_pointer()), align=1)
        low = builder.and_(pairs, ir.Constant(BITS, [2**32 - 1] * LANES))
        high = builder.lshr(pairs, ir.Constant(BITS, [32] * LANES))
        return context.make_tuple(builder, signature.return_type, [low, high])

    return UniTuple(WORDS, 2)(nbtypes.uint64), codegen


def _every(step: int) -> Callable[..., Any]:
    """Code that reads eight halves of words, so many from one to the next."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = ir.VectorType(ir.IntType(32), LANES * step)
        there = builder.load(builder.inttoptr(args[0], halves.as_pointer()), align=1)
        chosen = ir.Constant(_HALVES, [step * k for k in range(LANES)])
        part = builder.shuffle_vector(there, ir.Constant(halves, ir.Undefined), chosen)
        return builder.zext(part, BITS)

    return codegen


@intrinsic
def load_every_third(typingctx: Any, address: Any) -> Any:
    """Eight of the halves of words from an address on, every third, as words."""
    return WORDS(nbtypes.uint64), _every(3)


@intrinsic
def load_every_fifth(typingctx: Any, address: Any) -> Any:
    """As `load_every_third`, but every fifth."""
    return WORDS(nbtypes.uint64), _every(5)


@intrinsic
def load_u32x8(typingctx: Any, address: Any) -> Any:
    """Eight halves of words one after the other, as words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = builder.load(builder.inttoptr(args[0], _HALVES.as_pointer()), align=1)
        return builder.zext(halves, BITS)

    return WORDS(nbtypes.uint64), codegen


@intrinsic
def scatter_u64(typingctx: Any, addresses: Any, words: Any) -> Any:
    """Write eight words to as many addresses, one after the other."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places, words = args
        scattered(context, builder, places, words, 1)
        return context.get_dummy_value()

    return nbtypes.void(WORDS, WORDS), codegen


@intrinsic
def exclusive_scan(typingctx: Any, words: Any) -> Any:
    """For each of eight words the sum of those before it."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none = ir.Constant(BITS, [0] * LANES)

        def later(words: Any, by: int) -> Any:
            # From the second vector, of zeros, comes what is pushed in.
            lanes = [LANES + k if k < by else k - by for k in range(LANES)]
            order = ir.Constant(ir.VectorType(_INDEX, LANES), lanes)
            return builder.shuffle_vector(words, none, order)

        sums = later(args[0], 1)
        for by in (1, 2, 4):
            sums = builder.add(sums, later(sums, by))
        return sums

    return WORDS(WORDS), codegen


@intrinsic
def lane_mask_from(typingctx: Any, first: Any) -> Any:
    """All bits in the lanes from one on, and none in those before."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        lanes = ir.Constant(BITS, list(range(LANES)))
        flags = builder.icmp_unsigned(">=", lanes, everywhere(builder, args[0]))
        return builder.sext(flags, BITS)

    return WORDS(nbtypes.uint64), codegen


@intrinsic
def lane_popcount(typingctx: Any, words: Any) -> Any:
    """How many bits of each of eight words are not zero."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        name = "llvm.ctpop.v8i64"
        of = ir.FunctionType(BITS, [BITS])
        call = builder.module.globals.get(name) or ir.Function(builder.module, of, name)
        return builder.call(call, args)

    return WORDS(WORDS), codegen


@intrinsic
def last_lane(typingctx: Any, words: Any) -> Any:
    """The last of eight words."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.extract_element(args[0], _INDEX(LANES - 1))

    return nbtypes.uint64(WORDS), codegen


@intrinsic
def store_u32x8(typingctx: Any, address: Any, words: Any) -> Any:
    """Write the lower halves of eight words, one after the other."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        halves = builder.trunc(args[1], _HALVES)
        builder.store(halves, builder.inttoptr(args[0], _HALVES.as_pointer()), align=1)
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, WORDS), codegen


@intrinsic
def store_u64x8(typingctx: Any, address: Any, words: Any) -> Any:
    """Write eight words, one after the other."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        builder.store(args[1], builder.inttoptr(args[0], BITS.as_pointer()), align=1)
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, WORDS), codegen


@intrinsic
def as_f64x8(typingctx: Any, words: Any) -> Any:
    """Eight words as the floats whose bits they are."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], VECTOR)

    return EIGHT(WORDS), codegen
