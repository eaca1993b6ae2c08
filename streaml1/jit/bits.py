"""Words as bits: what 64 bytes are equal to, where bits are set, counts of zeros, wide products."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types as nbtypes
from numba.extending import intrinsic

from streaml1.jit.compilation import COMPILED

__all__ = [
    "bit_count",
    "chosen_bits",
    "chosen_bytes",
    "compresses",
    "few_places",
    "first_places",
    "float_of_bits",
    "high_product",
    "last_places",
    "leading_zeros",
    "matches",
    "put_few",
    "put_few_places",
    "put_lowered",
    "shuffles",
    "trailing_zeros",
    "under",
]

_BYTES = ir.VectorType(ir.IntType(8), 64)
_FLAGS = ir.VectorType(ir.IntType(1), 64)
_PLACES = ir.VectorType(ir.IntType(32), 32)
_AT = nbtypes.void(nbtypes.uint64, nbtypes.uint64, nbtypes.uint64)


def _compared(how: str) -> Callable[..., Any]:
    """Code that compares the 64 bytes at an address with one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there = builder.load(builder.inttoptr(args[0], _BYTES.as_pointer()), align=1)
        one = builder.trunc(args[1], ir.IntType(8))
        wanted = builder.insert_element(
            ir.Constant(_BYTES, ir.Undefined), one, ir.Constant(ir.IntType(32), 0)
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(wanted, wanted, everywhere)
        return builder.bitcast(builder.icmp_unsigned(how, there, wanted), ir.IntType(64))

    return codegen


@intrinsic
def matches(typingctx: Any, address: Any, byte: Any) -> Any:
    """Which of the 64 bytes at a memory address are equal to one, a bit each; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compared("==")


@intrinsic
def under(typingctx: Any, address: Any, byte: Any) -> Any:
    """Which of the 64 bytes at a memory address are less than one, a bit each; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compared("<")


@intrinsic
def compresses(typingctx: Any) -> Any:
    """Whether the processor packs chosen bytes by one instruction; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        features = context.codegen().magic_tuple()[2]
        return context.get_constant(nbtypes.boolean, "+avx512vbmi2" in features)

    return nbtypes.boolean(), codegen


@intrinsic
def shuffles(typingctx: Any) -> Any:
    """Whether the processor reorders eight bytes by one instruction; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return context.get_constant(nbtypes.boolean, _shuffles(context))

    return nbtypes.boolean(), codegen


def _shuffles(context: Any) -> bool:
    return "+ssse3" in context.codegen().magic_tuple()[2].split(",")


def _few(bits: int) -> int:
    """Which of eight bits are set, one after the other, a byte each; the rest asks for zeros."""
    places = [k for k in range(8) if bits >> k & 1]
    return int.from_bytes(bytes(places + [128] * (8 - len(places))), "little")


_FEW = [_few(bits) for bits in range(256)]


@intrinsic
def few_places(typingctx: Any, bits: Any) -> Any:
    """Which of the lowest eight bits are set, one after the other, a byte each.

    The bytes behind them are 128. Compiled code only.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = ir.ArrayType(ir.IntType(64), len(_FEW))
        table = builder.module.globals.get("streaml1.few_places")
        if table is None:
            table = ir.GlobalVariable(builder.module, kind, "streaml1.few_places")
            table.initializer = ir.Constant(kind, _FEW)
            table.global_constant = True
            table.linkage = "internal"
        low = builder.and_(args[0], ir.Constant(ir.IntType(64), 255))
        first = ir.Constant(ir.IntType(64), 0)
        return builder.load(builder.gep(table, [first, low], inbounds=True))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def put_few(typingctx: Any, to: Any, address: Any, places: Any) -> Any:
    """Write those of the eight bytes at an address that `few_places` tells, zeros behind them.

    Eight bytes are written. Compiled code only, where the processor `shuffles`.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, address, places = args
        if not _shuffles(context):
            return context.get_dummy_value()
        word, wide = ir.IntType(64), ir.VectorType(ir.IntType(64), 2)
        bytes_ = ir.VectorType(ir.IntType(8), 16)

        def widened(one: Any) -> Any:
            none, first = ir.Constant(wide, [0, 0]), ir.Constant(ir.IntType(32), 0)
            return builder.bitcast(builder.insert_element(none, one, first), bytes_)

        name = "llvm.x86.ssse3.pshuf.b.128"
        of = ir.FunctionType(bytes_, [bytes_, bytes_])
        call = builder.module.globals.get(name) or ir.Function(builder.module, of, name)
        there = builder.load(builder.inttoptr(address, word.as_pointer()), align=1)
        packed = builder.bitcast(builder.call(call, [widened(there), widened(places)]), wide)
        one = builder.extract_element(packed, ir.Constant(ir.IntType(32), 0))
        builder.store(one, builder.inttoptr(to, word.as_pointer()), align=1)
        return context.get_dummy_value()

    return _AT, codegen


@intrinsic
def put_few_places(typingctx: Any, to: Any, places: Any, base: Any) -> Any:
    """Write what `few_places` tells, and a base more, as eight halves of words; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, places, base = args
        halves = ir.VectorType(ir.IntType(32), 8)
        wide = builder.zext(builder.bitcast(places, ir.VectorType(ir.IntType(8), 8)), halves)
        first = ir.Constant(ir.IntType(32), 0)
        bases = builder.insert_element(
            ir.Constant(halves, ir.Undefined), builder.trunc(base, ir.IntType(32)), first
        )
        bases = builder.shuffle_vector(bases, bases, ir.Constant(halves, [0] * 8))
        sums = builder.add(wide, bases)
        builder.store(sums, builder.inttoptr(to, halves.as_pointer()), align=1)
        return context.get_dummy_value()

    return _AT, codegen


def _packed(builder: Any, block: Any, bits: Any) -> Any:
    """Those of 64 bytes whose bits are set, one after the other."""
    of = ir.FunctionType(_BYTES, [_BYTES, _FLAGS, _BYTES])
    name = "llvm.experimental.vector.compress.v64i8"
    call = builder.module.globals.get(name) or ir.Function(builder.module, of, name)
    rest = ir.Constant(_BYTES, [0] * 64)
    return builder.call(call, [block, builder.bitcast(bits, _FLAGS), rest])


def _places_of(half: int) -> Callable[..., Any]:
    """Code that writes where bits are set, from the first or from the 33rd on."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, bits, base = args
        packed = _packed(builder, ir.Constant(_BYTES, list(range(64))), bits)
        chosen = ir.Constant(_PLACES, list(range(32 * half, 32 * half + 32)))
        part = builder.shuffle_vector(packed, ir.Constant(_BYTES, ir.Undefined), chosen)
        none = ir.Constant(_PLACES, ir.Undefined)
        first = ir.Constant(ir.IntType(32), 0)
        bases = builder.insert_element(none, builder.trunc(base, ir.IntType(32)), first)
        bases = builder.shuffle_vector(bases, none, ir.Constant(_PLACES, [0] * 32))
        places = builder.add(builder.zext(part, _PLACES), bases)
        builder.store(places, builder.inttoptr(to, _PLACES.as_pointer()), align=1)
        return context.get_dummy_value()

    return codegen


@intrinsic
def first_places(typingctx: Any, to: Any, bits: Any, base: Any) -> Any:
    """Write the places of the first 32 bits that are set, and a base more, as halves of words.

    All 32 are written, whether there are as many. Compiled code only.
    """
    return _AT, _places_of(0)


@intrinsic
def last_places(typingctx: Any, to: Any, bits: Any, base: Any) -> Any:
    """As `first_places`, of the bits that are set after those."""
    return _AT, _places_of(1)


@intrinsic
def chosen_bytes(typingctx: Any, to: Any, bits: Any, address: Any) -> Any:
    """Write those of the 64 bytes at an address whose bits are set, and zeros, up to 64 in all."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, bits, address = args
        block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
        packed = _packed(builder, block, bits)
        builder.store(packed, builder.inttoptr(to, _BYTES.as_pointer()), align=1)
        return context.get_dummy_value()

    return _AT, codegen


@intrinsic
def chosen_bits(typingctx: Any, bits: Any, chosen: Any) -> Any:
    """Those of 64 bits that are chosen by others, one after the other; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        flags = builder.sext(builder.bitcast(args[0], _FLAGS), _BYTES)
        packed = _packed(builder, flags, args[1])
        set_ = builder.icmp_unsigned("!=", packed, ir.Constant(_BYTES, [0] * 64))
        return builder.bitcast(set_, ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def put_lowered(
    typingctx: Any, to: Any, address: Any, capitals: Any, kept: Any, chosen: Any
) -> Any:
    """Write the chosen of 64 bytes one after the other: capitals as small letters, some as blanks.

    Blanks stand for what is not `kept`. Up to 64 bytes are written. Compiled code only.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, address, capitals, kept, chosen = args
        block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
        low = builder.or_(block, ir.Constant(_BYTES, [32] * 64))
        block = builder.select(builder.bitcast(capitals, _FLAGS), low, block)
        blanks = ir.Constant(_BYTES, [32] * 64)
        block = builder.select(builder.bitcast(kept, _FLAGS), block, blanks)
        packed = _packed(builder, block, chosen)
        builder.store(packed, builder.inttoptr(to, _BYTES.as_pointer()), align=1)
        return context.get_dummy_value()

    return nbtypes.void(*[nbtypes.uint64] * 5), codegen


@intrinsic
def _trailing_zeros(typingctx: Any, bits: Any) -> Any:

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


def _zeros_below(bits: Any) -> Any:
    bits = int(bits)
    return np.uint64((bits & -bits).bit_length() - 1 if bits else 64)


# How many of 64 bits are zero below the lowest that is not.
trailing_zeros = _trailing_zeros if COMPILED else _zeros_below


@intrinsic
def leading_zeros(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are zero above the highest that is not; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def bit_count(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are not zero; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def high_product(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def float_of_bits(typingctx: Any, bits: Any) -> Any:
    """The float that is written by 64 bits; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return nbtypes.float64(nbtypes.uint64), codegen
