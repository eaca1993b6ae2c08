"""Masks of 64 bytes and bit manipulation: compare, compress, count, extract; mostly compiled only.

A mask is a uint64 with one bit for each of 64 consecutive bytes, the first byte in the lowest bit.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.extending import intrinsic

from streaml1.core.jit.compiler import has_feature
from streaml1.core.jit.lazy_import import COMPILED

if TYPE_CHECKING:
    from numba.core.base import BaseContext

__all__ = [
    "byte_eq_mask",
    "byte_in_mask",
    "byte_lt_mask",
    "clz",
    "compress_bytes",
    "compress_bytes_marked",
    "compress_lowercase",
    "ctz",
    "f64_from_bits",
    "has_compress",
    "mul_high",
    "pext",
    "popcount",
    "store_bit_indices",
]

_I64, _I32 = ir.IntType(64), ir.IntType(32)
_VEC_I8 = ir.VectorType(ir.IntType(8), 64)
_VEC_I1 = ir.VectorType(ir.IntType(1), 64)
# Elements that are stored unconditionally; the rest is stored only if there are more. Stores are
# most of the cost, and a mask of text rarely has more than 16 of its 64 bits set.
_FIRST_STORE = 16


def _compare_bytes(predicate: str) -> Callable[..., Any]:
    """Return code that compares the 64 bytes at an address with one byte."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = builder.load(builder.inttoptr(args[0], _VEC_I8.as_pointer()), align=1)
        byte = _splat_into(builder, builder.trunc(args[1], ir.IntType(8)), _VEC_I8)
        return builder.bitcast(builder.icmp_unsigned(predicate, block, byte), ir.IntType(64))

    return codegen


@intrinsic
def byte_eq_mask(typingctx: Any, address: Any, byte: Any) -> Any:
    """Return a mask of those of 64 bytes at an address that equal `byte`; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compare_bytes("==")


@intrinsic
def byte_lt_mask(typingctx: Any, address: Any, byte: Any) -> Any:
    """Return a mask of those of 64 bytes at an address that are below `byte`; compiled only."""
    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), _compare_bytes("<")


@intrinsic
def byte_in_mask(typingctx: Any, address: Any, a: Any, b: Any, c: Any, d: Any) -> Any:
    """Return a mask of those of 64 bytes at an address that equal a, b, c or d; compiled only.

    a to d are below 128 and differ in their low four bits. That allows one table lookup: the low
    four bits of a byte index the only one of a to d that it can equal.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        address, *targets = args
        block = builder.load(builder.inttoptr(address, _VEC_I8.as_pointer()), align=1)
        targets = [builder.trunc(x, ir.IntType(8)) for x in targets]
        if not has_feature(context, "avx512bw"):
            vectors = (_splat_into(builder, x, _VEC_I8) for x in targets)
            flags = [builder.icmp_unsigned("==", block, x) for x in vectors]
            return builder.bitcast(reduce(builder.or_, flags), _I64)
        # Entries without a target hold a value that no byte with that low half has: 1 at index 0,
        # and 0 elsewhere. PSHUFB returns 0 for bytes from 128 on, which differs from them, too.
        sixteen = ir.VectorType(ir.IntType(8), 16)
        table = ir.Constant(sixteen, [1] + [0] * 15)
        for x in targets:
            low_half = builder.zext(builder.and_(x, ir.IntType(8)(15)), _I32)
            table = builder.insert_element(table, x, low_half)
        order = ir.Constant(ir.VectorType(_I32, 64), list(range(16)) * 4)
        tables = builder.shuffle_vector(table, ir.Constant(sixteen, ir.Undefined), order)
        found = _call_intrinsic(builder, "llvm.x86.avx512.pshuf.b.512", _VEC_I8, [tables, block])
        return builder.bitcast(builder.icmp_unsigned("==", block, found), _I64)

    return nbtypes.uint64(*[nbtypes.uint64] * 5), codegen


def _call_intrinsic(builder: ir.IRBuilder, name: str, kind: Any, args: list[Any]) -> Any:
    """Call an LLVM intrinsic that returns a `kind`."""
    signature = ir.FunctionType(kind, [arg.type for arg in args])
    function = builder.module.globals.get(name) or ir.Function(builder.module, signature, name)
    return builder.call(function, args)


def _splat_into(builder: ir.IRBuilder, value: ir.Value, kind: Any) -> Any:
    """Return a vector of type `kind` with the same value in every lane."""
    undefined = ir.Constant(kind, ir.Undefined)
    first = builder.insert_element(undefined, value, _I32(0))
    return builder.shuffle_vector(
        first, undefined, ir.Constant(ir.VectorType(_I32, kind.count), None)
    )


def _compress_vector(builder: ir.IRBuilder, block: ir.Value, mask: ir.Value) -> Any:
    """Return the bytes of a block selected by a mask, packed to the front: VPCOMPRESSB."""
    name = "llvm.experimental.vector.compress.v64i8"
    passthrough = ir.Constant(_VEC_I8, [0] * 64)
    flags = builder.bitcast(mask, _VEC_I1)
    return _call_intrinsic(builder, name, _VEC_I8, [block, flags, passthrough])


def _subvector(builder: ir.IRBuilder, packed: ir.Value, first: int, count: int) -> Any:
    """Return bytes `first` to `first + count - 1` of 64."""
    order = ir.Constant(ir.VectorType(_I32, count), list(range(first, first + count)))
    return builder.shuffle_vector(packed, ir.Constant(_VEC_I8, ir.Undefined), order)


def _if_popcount_above(builder: ir.IRBuilder, bits: ir.Value, n: int) -> Any:
    """Return a context in which code is emitted that runs if more than n of 64 bits are set."""
    count = _call_intrinsic(builder, "llvm.ctpop.i64", _I64, [bits])
    return builder.if_then(builder.icmp_unsigned(">", count, _I64(n)))


def _shuffle_control(bits: int) -> int:
    """Return the PSHUFB control that packs the bytes selected by 8 bits; the rest becomes zero."""
    indices = [k for k in range(8) if bits >> k & 1]
    return int.from_bytes(bytes(indices + [128] * (8 - len(indices))), "little")


_SHUFFLE_CONTROLS = [_shuffle_control(bits) for bits in range(256)]


def _each_mask_byte(builder: ir.IRBuilder, bits: ir.Value) -> Any:
    """Yield for each byte of a mask: its index, the count of bits set before it, its control."""
    kind, name = ir.ArrayType(_I64, len(_SHUFFLE_CONTROLS)), "streaml1.shuffle_controls"
    table = builder.module.globals.get(name)
    if table is None:
        table = ir.GlobalVariable(builder.module, kind, name)
        table.initializer = ir.Constant(kind, _SHUFFLE_CONTROLS)
        table.global_constant = True
        table.linkage = "internal"
    n_before = _I64(0)
    for k in range(8):
        low = builder.and_(builder.lshr(bits, _I64(8 * k)), _I64(255))
        yield k, n_before, builder.load(builder.gep(table, [_I64(0), low], inbounds=True))
        n_before = builder.add(n_before, _call_intrinsic(builder, "llvm.ctpop.i64", _I64, [low]))


def _emit_compress(
    context: BaseContext, builder: ir.IRBuilder, out: ir.Value, mask: ir.Value, address: ir.Value
) -> None:
    """Store those of the 64 bytes at an address selected by a mask, packed; may store up to 64."""
    if has_feature(context, "avx512vbmi2") or not has_feature(context, "ssse3"):
        block = builder.load(builder.inttoptr(address, _VEC_I8.as_pointer()), align=1)
        packed = _compress_vector(builder, block, mask)
        first = _subvector(builder, packed, 0, _FIRST_STORE)
        builder.store(first, builder.inttoptr(out, first.type.as_pointer()), align=1)
        with _if_popcount_above(builder, mask, _FIRST_STORE):
            builder.store(packed, builder.inttoptr(out, _VEC_I8.as_pointer()), align=1)
        return
    # Without VPCOMPRESSB: eight bytes at a time, each packed by a PSHUFB and stored behind those
    # before it. A store of eight bytes overwrites what the previous one stored beyond its count.
    pointer, u64x2 = _I64.as_pointer(), ir.VectorType(_I64, 2)
    u8x16 = ir.VectorType(ir.IntType(8), 16)
    for k, n_before, control in _each_mask_byte(builder, mask):
        source = builder.inttoptr(builder.add(address, _I64(8 * k)), pointer)
        operands = [
            builder.bitcast(builder.insert_element(ir.Constant(u64x2, None), x, _I32(0)), u8x16)
            for x in (builder.load(source, align=1), control)
        ]
        packed = _call_intrinsic(builder, "llvm.x86.ssse3.pshuf.b.128", u8x16, operands)
        low = builder.extract_element(builder.bitcast(packed, u64x2), _I32(0))
        builder.store(low, builder.inttoptr(builder.add(out, n_before), pointer), align=1)


@intrinsic
def has_compress(typingctx: Any) -> Any:
    """Return whether the processor has VPCOMPRESSB; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return ir.Constant(ir.IntType(1), has_feature(context, "avx512vbmi2"))

    return nbtypes.boolean(), codegen


_VOID_3 = nbtypes.void(nbtypes.uint64, nbtypes.uint64, nbtypes.uint64)


@intrinsic
def store_bit_indices(typingctx: Any, out: Any, bits: Any, base: Any) -> Any:
    """Store `base` plus the index of each set bit as consecutive uint32; compiled only.

    The memory at `out` has room for 64 of them, whatever the number of bits.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, bits, base = args
        base = builder.trunc(base, _I32)
        if has_feature(context, "avx512vbmi2") or not has_feature(context, "ssse3"):
            packed = _compress_vector(builder, ir.Constant(_VEC_I8, list(range(64))), bits)

            def store(first: int, count: int) -> None:
                indices = _subvector(builder, packed, first, count)
                _store_sums_u32(builder, builder.add(out, _I64(4 * first)), indices, base)

            store(0, _FIRST_STORE)
            with _if_popcount_above(builder, bits, _FIRST_STORE):
                store(_FIRST_STORE, _FIRST_STORE)
                with _if_popcount_above(builder, bits, 2 * _FIRST_STORE):
                    store(2 * _FIRST_STORE, 2 * _FIRST_STORE)
        else:
            u8x8 = ir.VectorType(ir.IntType(8), 8)
            for k, n_before, control in _each_mask_byte(builder, bits):
                position = builder.add(out, builder.mul(n_before, _I64(4)))
                first = builder.add(base, _I32(8 * k))
                # The control lists the indices of the set bits.
                _store_sums_u32(builder, position, builder.bitcast(control, u8x8), first)
        return context.get_dummy_value()

    return _VOID_3, codegen


def _store_sums_u32(
    builder: ir.IRBuilder, address: ir.Value, bytes_: ir.Value, base: ir.Value
) -> None:
    """Store each byte plus `base` as consecutive uint32."""
    wide = ir.VectorType(_I32, bytes_.type.count)
    sums = builder.add(builder.zext(bytes_, wide), _splat_into(builder, base, wide))
    builder.store(sums, builder.inttoptr(address, wide.as_pointer()), align=1)


@intrinsic
def compress_bytes(typingctx: Any, out: Any, mask: Any, address: Any) -> Any:
    """Store those of the 64 bytes at `address` selected by a mask, packed; compiled only.

    The memory at `out` has room for 64 bytes, whatever the mask.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        _emit_compress(context, builder, *args)
        return context.get_dummy_value()

    return _VOID_3, codegen


@intrinsic
def compress_bytes_marked(
    typingctx: Any, out: Any, mask: Any, address: Any, before: Any, after: Any
) -> Any:
    """Store as `compress_bytes` does, with bit 6 or 7 set in bytes next to given ones.

    Bit 6 is set where the byte `before` precedes, bit 7 where the byte `after` follows. Bits that
    are set already stay set. Compiled only.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, mask, address, *neighbours = args
        block = builder.load(builder.inttoptr(address, _VEC_I8.as_pointer()), align=1)
        for byte, offset, bit in zip(neighbours, (-1, 1), (64, 128), strict=True):
            shifted = builder.inttoptr(builder.add(address, _I64(offset)), _VEC_I8.as_pointer())
            byte = _splat_into(builder, builder.trunc(byte, ir.IntType(8)), _VEC_I8)
            flags = builder.icmp_unsigned("==", builder.load(shifted, align=1), byte)
            marks = builder.and_(builder.sext(flags, _VEC_I8), ir.Constant(_VEC_I8, [bit] * 64))
            block = builder.or_(block, marks)
        _emit_compress(context, builder, out, mask, _spill(builder, block))
        return context.get_dummy_value()

    return nbtypes.void(*[nbtypes.uint64] * 5), codegen


def _spill(builder: ir.IRBuilder, block: ir.Value) -> Any:
    """Store a block on the stack and return its address."""
    slot = cgutils.alloca_once(builder, _VEC_I8)
    builder.store(block, slot)
    return builder.ptrtoint(slot, _I64)


@intrinsic
def pext(typingctx: Any, bits: Any, mask: Any) -> Any:
    """Return the bits selected by a mask, packed into the low bits; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if has_feature(context, "bmi2"):
            return _call_intrinsic(builder, "llvm.x86.bmi.pext.64", _I64, list(args))
        flags = builder.sext(builder.bitcast(args[0], _VEC_I1), _VEC_I8)
        packed = _compress_vector(builder, flags, args[1])
        is_set = builder.icmp_unsigned("!=", packed, ir.Constant(_VEC_I8, [0] * 64))
        return builder.bitcast(is_set, _I64)

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def compress_lowercase(
    typingctx: Any, out: Any, address: Any, uppercase: Any, retained: Any, mask: Any
) -> Any:
    """Store those of the 64 bytes at `address` selected by a mask, packed; compiled only.

    Bytes of the mask `uppercase` are converted to lower case, bytes outside of the mask `retained`
    to blanks. The memory at `out` has room for 64 bytes, whatever the mask.
    """

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        out, address, uppercase, retained, mask = args
        block = builder.load(builder.inttoptr(address, _VEC_I8.as_pointer()), align=1)
        lowercase = builder.or_(block, ir.Constant(_VEC_I8, [32] * 64))
        block = builder.select(builder.bitcast(uppercase, _VEC_I1), lowercase, block)
        blanks = ir.Constant(_VEC_I8, [32] * 64)
        block = builder.select(builder.bitcast(retained, _VEC_I1), block, blanks)
        _emit_compress(context, builder, out, mask, _spill(builder, block))
        return context.get_dummy_value()

    return nbtypes.void(*[nbtypes.uint64] * 5), codegen


@intrinsic
def _ctz(typingctx: Any, bits: Any) -> Any:

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.cttz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


def _ctz_interpreted(bits: Any) -> Any:
    bits = int(bits)
    return np.uint64((bits & -bits).bit_length() - 1 if bits else 64)


ctz = _ctz if COMPILED else _ctz_interpreted


@intrinsic
def clz(typingctx: Any, bits: Any) -> Any:
    """Count the zeros above the highest set bit; 64 if none is set; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctlz(args[0], ir.Constant(ir.IntType(1), 0))

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def popcount(typingctx: Any, bits: Any) -> Any:
    """Count the set bits; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.ctpop(args[0])

    return nbtypes.uint64(nbtypes.uint64), codegen


@intrinsic
def mul_high(typingctx: Any, a: Any, b: Any) -> Any:
    """Return the upper 64 bits of the product of two uint64; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        wide = ir.IntType(128)
        product = builder.mul(builder.zext(args[0], wide), builder.zext(args[1], wide))
        return builder.trunc(builder.lshr(product, ir.Constant(wide, 64)), ir.IntType(64))

    return nbtypes.uint64(nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def f64_from_bits(typingctx: Any, bits: Any) -> Any:
    """Reinterpret 64 bits as a float; compiled only."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], ir.DoubleType())

    return nbtypes.float64(nbtypes.uint64), codegen
