"""Words as bits: what 64 bytes are equal to, where bits are set, counts of zeros, wide products."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.extending import intrinsic

from streaml1.core.jit.compiler import has
from streaml1.core.jit.lazy_import import COMPILED

__all__ = [
    "popcount",
    "pext",
    "compress_bytes",
    "compress_bytes_marked",
    "f64_from_bits",
    "mul_high",
    "clz",
    "byte_eq_mask",
    "byte_in_mask",
    "has_compress",
    "compress_lowercase",
    "store_bit_indices",
    "ctz",
    "byte_lt_mask",
]

_WORD, _INDEX = ir.IntType(64), ir.IntType(32)
_BYTES = ir.VectorType(ir.IntType(8), 64)
_FLAGS = ir.VectorType(ir.IntType(1), 64)
_FEWER = 16  # what is written at first: storing is most of it, and seldom are there more of 64


def _compared(how: str) -> Callable[..., Any]:
    """Code that compares the 64 bytes at an address with one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        there = builder.load(builder.inttoptr(args[0], _BYTES.as_pointer()), align=1)
        wanted = _alike(builder, builder.trunc(args[1], ir.IntType(8)), _BYTES)
        return builder.bitcast(builder.icmp_unsigned(how, there, wanted), ir.IntType(64))

    return codegen


@intrinsic
def byte_eq_mask(typingctx: Any, address: Any, byte: Any) -> Any:
    """Which of the 64 bytes at a memory address are equal to one, a bit each; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compared("==")


@intrinsic
def byte_lt_mask(typingctx: Any, address: Any, byte: Any) -> Any:
    """Which of the 64 bytes at a memory address are less than one, a bit each; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compared("<")


@intrinsic
def byte_in_mask(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """As `byte_eq_mask`, for any of four bytes below 128 that differ in their low four bits."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, *ones = args
        there = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
        ones = [builder.trunc(one, ir.IntType(8)) for one in ones]
        if not has(context, "avx512bw"):
            flags = [builder.icmp_unsigned("==", there, _alike(builder, x, _BYTES)) for x in ones]
            return builder.bitcast(reduce(builder.or_, flags), _WORD)
        # A byte is looked up by its lower half: what it has to be, or else what it cannot be.
        sixteen = ir.VectorType(ir.IntType(8), 16)
        table = ir.Constant(sixteen, [1] + [0] * 15)
        for one in ones:
            lower = builder.zext(builder.and_(one, ir.IntType(8)(15)), _INDEX)
            table = builder.insert_element(table, one, lower)
        order = ir.Constant(ir.VectorType(_INDEX, 64), list(range(16)) * 4)
        tables = builder.shuffle_vector(table, ir.Constant(sixteen, ir.Undefined), order)
        wanted = _called(builder, "llvm.x86.avx512.pshuf.b.512", _BYTES, [tables, there])
        return builder.bitcast(builder.icmp_unsigned("==", there, wanted), _WORD)

    return nbtypes.uint64(*[nbtypes.uint64] * 5), codegen


def _called(builder: Any, name: str, kind: Any, args: list[Any]) -> Any:
    """A call of a function of LLVM's own."""
    of = ir.FunctionType(kind, [arg.type for arg in args])
    call = builder.module.globals.get(name) or ir.Function(builder.module, of, name)
    return builder.call(call, args)


def _alike(builder: Any, one: Any, kind: Any) -> Any:
    """A vector of one value."""
    none = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(none, one, _INDEX(0))
    return builder.shuffle_vector(first, none, ir.Constant(ir.VectorType(_INDEX, kind.count), None))


def _packed(builder: Any, block: Any, bits: Any) -> Any:
    """Those of 64 bytes whose bits are set, one after the other; one instruction of AVX-512."""
    name = "llvm.experimental.vector.compress.v64i8"
    rest = ir.Constant(_BYTES, [0] * 64)
    return _called(builder, name, _BYTES, [block, builder.bitcast(bits, _FLAGS), rest])


def _part(builder: Any, packed: Any, first: int, count: int) -> Any:
    """So many of 64 bytes, one after the other."""
    order = ir.Constant(ir.VectorType(_INDEX, count), list(range(first, first + count)))
    return builder.shuffle_vector(packed, ir.Constant(_BYTES, ir.Undefined), order)


def _more_than(builder: Any, bits: Any, n: int) -> Any:
    """Code that runs where more than so many of 64 bits are set."""
    count = _called(builder, "llvm.ctpop.i64", _WORD, [bits])
    return builder.if_then(builder.icmp_unsigned(">", count, _WORD(n)))


def _few(bits: int) -> int:
    """Which of eight bits are set, one after the other, a byte each; the rest asks for zeros."""
    places = [k for k in range(8) if bits >> k & 1]
    return int.from_bytes(bytes(places + [128] * (8 - len(places))), "little")


_FEW = [_few(bits) for bits in range(256)]


def _by_eights(builder: Any, bits: Any) -> Any:
    """Of eight by eight of 64 bits: which eight, how many are set before, and which, as `_few`."""
    kind, name = ir.ArrayType(_WORD, len(_FEW)), "streaml1.few"
    table = builder.module.globals.get(name)
    if table is None:
        table = ir.GlobalVariable(builder.module, kind, name)
        table.initializer = ir.Constant(kind, _FEW)
        table.global_constant = True
        table.linkage = "internal"
    before = _WORD(0)
    for k in range(8):
        low = builder.and_(builder.lshr(bits, _WORD(8 * k)), _WORD(255))
        yield k, before, builder.load(builder.gep(table, [_WORD(0), low], inbounds=True))
        before = builder.add(before, _called(builder, "llvm.ctpop.i64", _WORD, [low]))


def _put_chosen(context: Any, builder: Any, to: Any, bits: Any, address: Any) -> None:
    """Write those of the 64 bytes at an address whose bits are set, and others, up to 64 in all."""
    if has(context, "avx512vbmi2") or not has(context, "ssse3"):
        block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
        packed = _packed(builder, block, bits)
        first = _part(builder, packed, 0, _FEWER)
        builder.store(first, builder.inttoptr(to, first.type.as_pointer()), align=1)
        with _more_than(builder, bits, _FEWER):
            builder.store(packed, builder.inttoptr(to, _BYTES.as_pointer()), align=1)
        return
    place, two = _WORD.as_pointer(), ir.VectorType(_WORD, 2)
    sixteen = ir.VectorType(ir.IntType(8), 16)
    for k, before, few in _by_eights(builder, bits):
        there = builder.inttoptr(builder.add(address, _WORD(8 * k)), place)
        both = [
            builder.bitcast(builder.insert_element(ir.Constant(two, None), one, _INDEX(0)), sixteen)
            for one in (builder.load(there, align=1), few)
        ]
        packed = _called(builder, "llvm.x86.ssse3.pshuf.b.128", sixteen, both)
        one = builder.extract_element(builder.bitcast(packed, two), _INDEX(0))
        builder.store(one, builder.inttoptr(builder.add(to, before), place), align=1)


@intrinsic
def has_compress(typingctx: Any) -> Any:
    """Whether one instruction packs chosen bytes; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), has(context, "avx512vbmi2"))

    return nbtypes.boolean(), codegen


_AT = nbtypes.void(nbtypes.uint64, nbtypes.uint64, nbtypes.uint64)


@intrinsic
def store_bit_indices(typingctx: Any, to: Any, bits: Any, base: Any) -> Any:
    """Write which of 64 bits are set, and a base more, as halves of words; up to 64 are written.

    Compiled code only.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, bits, base = args
        base = builder.trunc(base, _INDEX)
        if has(context, "avx512vbmi2") or not has(context, "ssse3"):
            packed = _packed(builder, ir.Constant(_BYTES, list(range(64))), bits)

            def put(first: int, count: int) -> None:
                part = _part(builder, packed, first, count)
                _put_sums(builder, builder.add(to, _WORD(4 * first)), part, base)

            put(0, _FEWER)
            with _more_than(builder, bits, _FEWER):
                put(_FEWER, _FEWER)
                with _more_than(builder, bits, 2 * _FEWER):
                    put(2 * _FEWER, 2 * _FEWER)
        else:
            eight = ir.VectorType(ir.IntType(8), 8)
            for k, before, few in _by_eights(builder, bits):
                at = builder.add(to, builder.mul(before, _WORD(4)))
                first = builder.add(base, _INDEX(8 * k))
                _put_sums(builder, at, builder.bitcast(few, eight), first)
        return context.get_dummy_value()

    return _AT, codegen


def _put_sums(builder: Any, to: Any, bytes_: Any, base: Any) -> None:
    """Write bytes, and a base more, as halves of words."""
    wide = ir.VectorType(_INDEX, bytes_.type.count)
    sums = builder.add(builder.zext(bytes_, wide), _alike(builder, base, wide))
    builder.store(sums, builder.inttoptr(to, wide.as_pointer()), align=1)


@intrinsic
def compress_bytes(typingctx: Any, to: Any, bits: Any, address: Any) -> Any:
    """Write those of the 64 bytes at an address whose bits are set; up to 64 are written.

    Compiled code only.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _put_chosen(context, builder, *args)
        return context.get_dummy_value()

    return _AT, codegen


@intrinsic
def compress_bytes_marked(
    typingctx: Any, to: Any, bits: Any, address: Any, before: Any, behind: Any
) -> Any:
    """As `compress_bytes`, but 64 more where `before` is before a byte, 128 where `behind` follows.

    More by or: bytes that have these bits keep them.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        to, bits, address, *beside = args
        block = builder.load(builder.inttoptr(address, _BYTES.as_pointer()), align=1)
        for byte, by, mark in zip(beside, (-1, 1), (64, 128), strict=True):
            place = builder.inttoptr(builder.add(address, _WORD(by)), _BYTES.as_pointer())
            wanted = _alike(builder, builder.trunc(byte, ir.IntType(8)), _BYTES)
            flags = builder.icmp_unsigned("==", builder.load(place, align=1), wanted)
            marks = builder.and_(builder.sext(flags, _BYTES), ir.Constant(_BYTES, [mark] * 64))
            block = builder.or_(block, marks)
        _put_chosen(context, builder, to, bits, _kept(builder, block))
        return context.get_dummy_value()

    return nbtypes.void(*[nbtypes.uint64] * 5), codegen


def _kept(builder: Any, block: Any) -> Any:
    """The address of 64 bytes, made for them."""
    room = cgutils.alloca_once(builder, _BYTES)
    builder.store(block, room)
    return builder.ptrtoint(room, _WORD)


@intrinsic
def pext(typingctx: Any, bits: Any, chosen: Any) -> Any:
    """Those of 64 bits that are chosen by others, one after the other; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if has(context, "bmi2"):
            return _called(builder, "llvm.x86.bmi.pext.64", _WORD, list(args))
        flags = builder.sext(builder.bitcast(args[0], _FLAGS), _BYTES)
        packed = _packed(builder, flags, args[1])
        set_ = builder.icmp_unsigned("!=", packed, ir.Constant(_BYTES, [0] * 64))
        return builder.bitcast(set_, _WORD)

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def compress_lowercase(
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
        _put_chosen(context, builder, to, chosen, _kept(builder, block))
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
ctz = _trailing_zeros if COMPILED else _zeros_below


@intrinsic
def clz(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are zero above the highest that is not; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def popcount(typingctx: Any, bits: Any) -> Any:
    """How many of 64 bits are not zero; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def mul_high(typingctx: Any, a: Any, b: Any) -> Any:
    """The upper 64 bits of the product of two uint64; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def f64_from_bits(typingctx: Any, bits: Any) -> Any:
    """The float that is written by 64 bits; compiled code only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return nbtypes.float64(nbtypes.uint64), codegen
