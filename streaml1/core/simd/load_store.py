"""Vector loads and stores: consecutive elements, or gathered from and scattered to addresses."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from streaml1.core.jit.compiler import has_fast_gather, has_feature
from streaml1.core.jit.lazy_import import COMPILED, LANES
from streaml1.core.jit.raw_array import array_at
from streaml1.core.simd.f64x8 import I32, I64, VEC_F64, VEC_I64, F64x8, U64x8, splat_vector

if TYPE_CHECKING:
    from numba.core.base import BaseContext

__all__ = [
    "addresses_of",
    "gather",
    "gather_at",
    "gather_pairs",
    "load",
    "load_f64x8",
    "load_u64x8",
    "mask_eq",
    "mask_ge",
    "mask_not_rising",
    "scatter",
    "scatter_pairs",
    "store_f64x8",
]

_VEC_F64X2 = ir.VectorType(ir.DoubleType(), 2)
_VEC_POINTER = ir.VectorType(ir.PointerType(), LANES)
_VEC_BOOL = ir.VectorType(ir.IntType(1), LANES)
SIXTEEN = 16  # elements that `mask_not_rising` compares
BITS = 64  # elements that `mask_ge` compares


@intrinsic
def _load_f64x8(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], VEC_F64.as_pointer()))
        loaded.align = 8
        return loaded

    return F64x8(nbtypes.uint64), codegen


@intrinsic
def _store_f64x8(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[1], builder.inttoptr(args[0], VEC_F64.as_pointer()))
        stored.align = 8
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, F64x8), codegen


def _data_pointer(context: BaseContext, builder: ir.IRBuilder, kind: Any, array: ir.Value) -> Any:
    """Return the pointer to the first element of an array."""
    return context.make_array(kind)(context, builder, array).data


@intrinsic
def _load(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data_pointer(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, VEC_F64.as_pointer()))
        loaded.align = 8
        return loaded

    return F64x8(array, nbtypes.uint64), codegen


@intrinsic
def _load_u64x8(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _load_zero_extended(context, builder, array, *args)

    return U64x8(array, nbtypes.uint64), codegen


def _load_zero_extended(
    context: BaseContext, builder: ir.IRBuilder, kind: Any, array: ir.Value, k: ir.Value
) -> Any:
    """Load elements k to k + 7 of an array of unsigned integers, zero-extended to 64 bits."""
    element = context.get_data_type(kind.dtype)
    first = builder.gep(_data_pointer(context, builder, kind, array), [k])
    loaded = builder.load(builder.bitcast(first, ir.VectorType(element, LANES).as_pointer()))
    loaded.align = element.width // 8
    return builder.zext(loaded, VEC_I64)


@intrinsic
def _addresses_of(typingctx: Any, array: Any, indices: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _element_addresses(context, builder, array, *args)

    return U64x8(array, U64x8), codegen


def _element_addresses(
    context: BaseContext, builder: ir.IRBuilder, kind: Any, array: ir.Value, indices: ir.Value
) -> Any:
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    base = builder.ptrtoint(_data_pointer(context, builder, kind, array), I64)
    offsets = builder.mul(indices, ir.Constant(VEC_I64, [size] * LANES))
    return builder.add(splat_vector(builder, base), offsets)


@intrinsic
def _gather_at(typingctx: Any, addresses: Any, offset: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        addresses = builder.add(args[0], splat_vector(builder, args[1]))
        return emit_gather(context, builder, addresses, VEC_F64, 8)

    return F64x8(U64x8, nbtypes.uint64), codegen


def emit_gather(
    context: BaseContext, builder: ir.IRBuilder, addresses: ir.Value, kind: Any, align: int
) -> Any:
    """Load a vector of type `kind`, each lane from its own address."""
    if has_fast_gather(context):
        name = f"llvm.masked.gather.{'v8f64' if kind == VEC_F64 else 'v8i64'}.v8p0"
        signature = ir.FunctionType(kind, [_VEC_POINTER, I32, _VEC_BOOL, kind])
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        mask, passthrough = ir.Constant(_VEC_BOOL, [1] * LANES), ir.Constant(kind, ir.Undefined)
        pointers = builder.inttoptr(addresses, _VEC_POINTER)
        return builder.call(function, [pointers, I32(align), mask, passthrough])
    scalars = (builder.extract_element(addresses, I32(lane)) for lane in range(LANES))
    return _load_lanes(builder, scalars, kind, align)


def emit_scatter(
    context: BaseContext, builder: ir.IRBuilder, addresses: ir.Value, values: ir.Value, align: int
) -> None:
    """Store each lane to its own address, in order."""
    if has_fast_gather(context):
        signature = ir.FunctionType(ir.VoidType(), [VEC_I64, _VEC_POINTER, I32, _VEC_BOOL])
        name = "llvm.masked.scatter.v8i64.v8p0"
        function = cgutils.get_or_insert_function(builder.module, signature, name)
        pointers = builder.inttoptr(addresses, _VEC_POINTER)
        mask = ir.Constant(_VEC_BOOL, [1] * LANES)
        builder.call(function, [values, pointers, I32(align), mask])
        return
    for lane in range(LANES):
        value, address = (builder.extract_element(v, I32(lane)) for v in (values, addresses))
        builder.store(value, builder.inttoptr(address, value.type.as_pointer()), align=align)


def _load_lanes(builder: ir.IRBuilder, addresses: ir.Value, kind: Any, align: int) -> Any:
    """Load a vector of type `kind` lane by lane, from eight scalar addresses."""
    vector = ir.Constant(kind, ir.Undefined)
    for lane, address in enumerate(addresses):
        value = builder.load(builder.inttoptr(address, kind.element.as_pointer()), align=align)
        vector = builder.insert_element(vector, value, I32(lane))
    return vector


def _lane_addresses(
    context: BaseContext, builder: ir.IRBuilder, kinds: Any, args: Sequence[ir.Value]
) -> Any:
    """Yield the scalar addresses of ``array[ids[k + lane]]``, given ``array, ids, k``."""
    array, ids = kinds.args[:2]
    size = context.get_abi_sizeof(context.get_data_type(array.dtype))
    base = builder.ptrtoint(_data_pointer(context, builder, array, args[0]), I64)
    first = builder.gep(_data_pointer(context, builder, ids, args[1]), [args[2]])
    for lane in range(LANES):
        j = builder.load(builder.gep(first, [ir.Constant(I64, lane)]))
        yield builder.add(base, builder.mul(builder.zext(j, I64), ir.Constant(I64, size)))


@intrinsic
def _mask_ge(typingctx: Any, array: Any, k: Any, bound: Any) -> Any:
    wide = ir.VectorType(ir.DoubleType(), BITS)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data_pointer(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, wide.as_pointer()))
        loaded.align = 8
        undefined = ir.Constant(wide, ir.Undefined)
        first_lane = builder.insert_element(undefined, args[2], ir.Constant(I32, 0))
        zeros = ir.Constant(ir.VectorType(I32, BITS), [0] * BITS)
        bounds = builder.shuffle_vector(first_lane, undefined, zeros)
        return builder.bitcast(builder.fcmp_ordered(">=", loaded, bounds), I64)

    return nbtypes.uint64(array, nbtypes.uint64, nbtypes.float64), codegen


@intrinsic
def _mask_eq(typingctx: Any, array: Any, k: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data_pointer(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, VEC_I64.as_pointer()))
        loaded.align = 8
        equal = builder.icmp_unsigned("==", loaded, splat_vector(builder, args[2]))
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), I64)

    return nbtypes.uint64(array, nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def _mask_not_rising(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_data_type(array.dtype)
        wide = ir.VectorType(kind, SIXTEEN).as_pointer()
        data, loaded = _data_pointer(context, builder, array, args[0]), []
        for first in (args[1], builder.add(args[1], ir.Constant(I64, 1))):
            loaded.append(builder.load(builder.bitcast(builder.gep(data, [first]), wide)))
            loaded[-1].align = kind.width // 8
        falls = builder.icmp_unsigned(">=", *loaded)
        return builder.bitcast(builder.sext(falls, ir.VectorType(I32, SIXTEEN)), VEC_I64)

    return U64x8(array, nbtypes.uint64), codegen


@intrinsic
def _gather(typingctx: Any, array: Any, ids: Any, k: Any) -> Any:
    # Without a fast gather the ids are loaded one by one: extracting them from a vector costs more.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if has_feature(context, "avx512f") and has_fast_gather(context):
            indices = _load_zero_extended(context, builder, signature.args[1], *args[1:])
            addresses = _element_addresses(context, builder, signature.args[0], args[0], indices)
            return emit_gather(context, builder, addresses, VEC_F64, 8)
        return _load_lanes(builder, _lane_addresses(context, builder, signature, args), VEC_F64, 8)

    return F64x8(array, ids, nbtypes.uint64), codegen


@intrinsic
def _scatter(typingctx: Any, array: Any, ids: Any, k: Any, values: Any) -> Any:
    # Eight scalar stores to ids loaded one by one: faster than scatter instructions everywhere.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for lane, address in enumerate(_lane_addresses(context, builder, signature, args)):
            value = builder.extract_element(args[3], ir.Constant(I32, lane))
            builder.store(value, builder.inttoptr(address, value.type.as_pointer())).align = 8
        return context.get_dummy_value()

    return nbtypes.void(array, ids, nbtypes.uint64, values), codegen


def _lane_order(lanes: Any) -> Any:
    """Return the mask of a `shufflevector` that selects `lanes`."""
    return ir.Constant(ir.VectorType(I32, len(lanes)), list(lanes))


@intrinsic
def _gather_pairs(typingctx: Any, array: Any, ids: Any, k: Any) -> Any:
    # Half the loads of two gathers. A pair that was just stored is forwarded from the store buffer,
    # which needs a load of the same width. The loaded pairs are concatenated two by two into two
    # vectors of sixteen, from which the even and the odd lanes are taken.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = []
        for address in _lane_addresses(context, builder, signature, args):
            parts.append(builder.load(builder.inttoptr(address, _VEC_F64X2.as_pointer())))
            parts[-1].align = 8
        while len(parts) > 2:
            both = _lane_order(range(2 * parts[0].type.count))
            halves = zip(parts[::2], parts[1::2], strict=True)
            parts = [builder.shuffle_vector(a, b, both) for a, b in halves]
        even, odd = (_lane_order(range(k, 2 * LANES, 2)) for k in range(2))
        vectors = [builder.shuffle_vector(*parts, order) for order in (even, odd)]
        return context.make_tuple(builder, signature.return_type, vectors)

    return UniTuple(F64x8, 2)(array, ids, nbtypes.uint64), codegen


@intrinsic
def _scatter_pairs(typingctx: Any, array: Any, ids: Any, k: Any, first: Any, second: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first, second = (builder.bitcast(values, VEC_F64) for values in args[3:])
        for lane, address in enumerate(_lane_addresses(context, builder, signature, args)):
            pair = builder.shuffle_vector(first, second, _lane_order([lane, LANES + lane]))
            builder.store(pair, builder.inttoptr(address, _VEC_F64X2.as_pointer())).align = 8
        return context.get_dummy_value()

    return nbtypes.void(array, ids, nbtypes.uint64, first, second), codegen


def _load_f64x8_interpreted(address: Any) -> Any:
    return array_at(address, LANES, np.float64).copy()


def _store_f64x8_interpreted(address: Any, value: Any) -> None:
    array_at(address, LANES, np.float64)[:] = value


def _load_interpreted(array: Any, k: Any) -> Any:
    return array[k : k + np.uint64(LANES)].copy()


def _mask_not_rising_interpreted(array: Any, k: Any) -> Any:
    x = array[k : k + np.uint64(SIXTEEN + 1)]
    return np.where(x[:-1] >= x[1:], 2**32 - 1, 0).astype(np.uint32).view(np.uint64)


def _mask_ge_interpreted(array: Any, k: Any, bound: Any) -> Any:
    flags = array[k : k + np.uint64(BITS)] >= bound
    return np.packbits(flags, bitorder="little").view(np.uint64)[0]


def _mask_eq_interpreted(array: Any, k: Any, x: Any) -> Any:
    flags = array[k : k + np.uint64(LANES)] == x
    return np.uint64(np.packbits(flags, bitorder="little")[0])


def _load_u64x8_interpreted(array: Any, k: Any) -> Any:
    return _load_interpreted(array, k).astype(np.uint64)


def _as_float_rows(array: Any) -> Any:
    """Return an array viewed as floats, one row for each element."""
    return np.asarray(array).view(np.ndarray).view(np.float64).reshape(len(array), -1)


def _gather_at_interpreted(addresses: Any, offset: Any) -> Any:
    array, indices = addresses  # as `addresses_of` returns them, interpreted
    return _as_float_rows(array)[indices, int(offset) // 8]


def _gather_interpreted(array: Any, ids: Any, k: Any) -> Any:
    return array[_load_u64x8_interpreted(ids, k)]


def _scatter_interpreted(array: Any, ids: Any, k: Any, values: Any) -> None:
    array[_load_u64x8_interpreted(ids, k)] = values


def _gather_pairs_interpreted(array: Any, ids: Any, k: Any) -> Any:
    first, second = _as_float_rows(array)[_load_u64x8_interpreted(ids, k)].T.copy()
    return first, second


def _scatter_pairs_interpreted(array: Any, ids: Any, k: Any, first: Any, second: Any) -> None:
    pairs = np.stack([first, second.view(np.float64)], axis=1)
    _as_float_rows(array)[_load_u64x8_interpreted(ids, k)] = pairs


load_f64x8 = _load_f64x8 if COMPILED else _load_f64x8_interpreted
store_f64x8 = _store_f64x8 if COMPILED else _store_f64x8_interpreted
load = _load if COMPILED else _load_interpreted
load_u64x8 = _load_u64x8 if COMPILED else _load_u64x8_interpreted
mask_not_rising = _mask_not_rising if COMPILED else _mask_not_rising_interpreted
mask_ge = _mask_ge if COMPILED else _mask_ge_interpreted
mask_eq = _mask_eq if COMPILED else _mask_eq_interpreted
addresses_of = _addresses_of if COMPILED else lambda array, indices: (array, indices)
gather_at = _gather_at if COMPILED else _gather_at_interpreted
gather = _gather if COMPILED else _gather_interpreted
scatter = _scatter if COMPILED else _scatter_interpreted
gather_pairs = _gather_pairs if COMPILED else _gather_pairs_interpreted
scatter_pairs = _scatter_pairs if COMPILED else _scatter_pairs_interpreted
