"""Eight floats or words from memory: neighbours, or an address each."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import cgutils
from numba.core import types as nbtypes
from numba.core.types.containers import UniTuple
from numba.extending import intrinsic

from streaml1.core.jit.compiler import gathers, has
from streaml1.core.jit.lazy_import import COMPILED, LANES
from streaml1.core.simd.f64x8 import BITS, EIGHT, INDEX, VECTOR, WORD, WORDS, everywhere
from streaml1.core.simd.raw_memory import array_at

__all__ = [
    "mask_ge",
    "gather",
    "load_f64x8",
    "gather_at",
    "load",
    "mask_eq",
    "mask_not_rising",
    "gather_pairs",
    "addresses_of",
    "scatter",
    "store_f64x8",
    "scatter_pairs",
    "load_u64x8",
]

_PAIR = ir.VectorType(ir.DoubleType(), 2)
_POINTERS = ir.VectorType(ir.PointerType(), LANES)
_ALL = ir.VectorType(ir.IntType(1), LANES)
SIXTEEN, WIDE = 16, 64


@intrinsic
def _eight_at(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], VECTOR.as_pointer()))
        loaded.align = 8
        return loaded

    return EIGHT(nbtypes.uint64), codegen


@intrinsic
def _put_eight(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[1], builder.inttoptr(args[0], VECTOR.as_pointer()))
        stored.align = 8
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, EIGHT), codegen


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """Where the elements of an array begin."""
    return context.make_array(kind)(context, builder, array).data


@intrinsic
def _eight_in(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, VECTOR.as_pointer()))
        loaded.align = 8
        return loaded

    return EIGHT(array, nbtypes.uint64), codegen


@intrinsic
def _words_in(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _words_at(context, builder, array, *args)

    return WORDS(array, nbtypes.uint64), codegen


def _words_at(context: Any, builder: Any, kind: Any, array: Any, k: Any) -> Any:
    one = context.get_data_type(kind.dtype)
    first = builder.gep(_data(context, builder, kind, array), [k])
    loaded = builder.load(builder.bitcast(first, ir.VectorType(one, LANES).as_pointer()))
    loaded.align = one.width // 8
    return builder.zext(loaded, BITS)


@intrinsic
def _places_of(typingctx: Any, array: Any, words: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return _places(context, builder, array, *args)

    return WORDS(array, WORDS), codegen


def _places(context: Any, builder: Any, kind: Any, array: Any, words: Any) -> Any:
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    base = builder.ptrtoint(_data(context, builder, kind, array), WORD)
    steps = builder.mul(words, ir.Constant(BITS, [size] * LANES))
    return builder.add(everywhere(builder, base), steps)


@intrinsic
def _eight_from(typingctx: Any, places: Any, offset: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        places = builder.add(args[0], everywhere(builder, args[1]))
        return gathered(context, builder, places, VECTOR, 8)

    return EIGHT(WORDS, nbtypes.uint64), codegen


def gathered(context: Any, builder: Any, places: Any, kind: Any, align: int) -> Any:
    """Eight values of a vector, each from an address of its own."""
    if gathers(context):
        name = f"llvm.masked.gather.{'v8f64' if kind == VECTOR else 'v8i64'}.v8p0"
        of = ir.FunctionType(kind, [_POINTERS, INDEX, _ALL, kind])
        call = cgutils.get_or_insert_function(builder.module, of, name)
        rest = ir.Constant(_ALL, [1] * LANES), ir.Constant(kind, ir.Undefined)
        return builder.call(call, [builder.inttoptr(places, _POINTERS), INDEX(align), *rest])
    each = (builder.extract_element(places, INDEX(lane)) for lane in range(LANES))
    return _loaded(builder, each, kind, align)


def scattered(context: Any, builder: Any, places: Any, values: Any, align: int) -> None:
    """Write eight words, each to an address of its own, one after the other."""
    if gathers(context):
        of = ir.FunctionType(ir.VoidType(), [BITS, _POINTERS, INDEX, _ALL])
        name = "llvm.masked.scatter.v8i64.v8p0"
        call = cgutils.get_or_insert_function(builder.module, of, name)
        there = builder.inttoptr(places, _POINTERS)
        builder.call(call, [values, there, INDEX(align), ir.Constant(_ALL, [1] * LANES)])
        return
    for lane in range(LANES):
        one, at = (builder.extract_element(v, INDEX(lane)) for v in (values, places))
        builder.store(one, builder.inttoptr(at, one.type.as_pointer()), align=align)


def _loaded(builder: Any, places: Any, kind: Any, align: int) -> Any:
    """As `gathered`, one by one."""
    values = ir.Constant(kind, ir.Undefined)
    for lane, at in enumerate(places):
        one = builder.load(builder.inttoptr(at, kind.element.as_pointer()), align=align)
        values = builder.insert_element(values, one, INDEX(lane))
    return values


def _elements(context: Any, builder: Any, kinds: Any, args: Any) -> Any:
    """The addresses of eight elements of an array that neighbours of another tell, one by one."""
    array, ids = kinds.args[:2]
    size = context.get_abi_sizeof(context.get_data_type(array.dtype))
    base = builder.ptrtoint(_data(context, builder, array, args[0]), WORD)
    first = builder.gep(_data(context, builder, ids, args[1]), [args[2]])
    for lane in range(LANES):
        j = builder.load(builder.gep(first, [ir.Constant(WORD, lane)]))
        yield builder.add(base, builder.mul(builder.zext(j, WORD), ir.Constant(WORD, size)))


@intrinsic
def _at_least(typingctx: Any, array: Any, k: Any, bound: Any) -> Any:
    wide = ir.VectorType(ir.DoubleType(), WIDE)

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, wide.as_pointer()))
        loaded.align = 8
        none = ir.Constant(wide, ir.Undefined)
        one = builder.insert_element(none, args[2], ir.Constant(INDEX, 0))
        zeros = ir.Constant(ir.VectorType(INDEX, WIDE), [0] * WIDE)
        bounds = builder.shuffle_vector(one, none, zeros)
        return builder.bitcast(builder.fcmp_ordered(">=", loaded, bounds), WORD)

    return nbtypes.uint64(array, nbtypes.uint64, nbtypes.float64), codegen


@intrinsic
def _equal_in(typingctx: Any, array: Any, k: Any, word: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        first = builder.gep(_data(context, builder, array, args[0]), [args[1]])
        loaded = builder.load(builder.bitcast(first, BITS.as_pointer()))
        loaded.align = 8
        equal = builder.icmp_unsigned("==", loaded, everywhere(builder, args[2]))
        return builder.zext(builder.bitcast(equal, ir.IntType(LANES)), WORD)

    return nbtypes.uint64(array, nbtypes.uint64, nbtypes.uint64), codegen


@intrinsic
def _falls_in(typingctx: Any, array: Any, k: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        kind = context.get_data_type(array.dtype)
        wide = ir.VectorType(kind, SIXTEEN).as_pointer()
        data, loaded = _data(context, builder, array, args[0]), []
        for first in (args[1], builder.add(args[1], ir.Constant(WORD, 1))):
            loaded.append(builder.load(builder.bitcast(builder.gep(data, [first]), wide)))
            loaded[-1].align = kind.width // 8
        falls = builder.icmp_unsigned(">=", *loaded)
        return builder.bitcast(builder.sext(falls, ir.VectorType(INDEX, SIXTEEN)), BITS)

    return WORDS(array, nbtypes.uint64), codegen


@intrinsic
def _each_in(typingctx: Any, array: Any, ids: Any, k: Any) -> Any:
    # Where nothing gathers fast ids are read one by one: out of a vector each costs more.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        if has(context, "avx512f") and gathers(context):
            words = _words_at(context, builder, signature.args[1], *args[1:])
            places = _places(context, builder, signature.args[0], args[0], words)
            return gathered(context, builder, places, VECTOR, 8)
        return _loaded(builder, _elements(context, builder, signature, args), VECTOR, 8)

    return EIGHT(array, ids, nbtypes.uint64), codegen


@intrinsic
def _put_each(typingctx: Any, array: Any, ids: Any, k: Any, values: Any) -> Any:
    # Eight stores, by ids read one by one: nothing is faster, not where vectors can be scattered.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        for lane, at in enumerate(_elements(context, builder, signature, args)):
            value = builder.extract_element(args[3], ir.Constant(INDEX, lane))
            builder.store(value, builder.inttoptr(at, value.type.as_pointer())).align = 8
        return context.get_dummy_value()

    return nbtypes.void(array, ids, nbtypes.uint64, values), codegen


def _order(places: Any) -> Any:
    return ir.Constant(ir.VectorType(INDEX, len(places)), list(places))


@intrinsic
def _pairs_in(typingctx: Any, array: Any, ids: Any, k: Any) -> Any:
    # Half as many loads as two gathers, and what was stored as a pair a moment ago is at hand.
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        parts = []
        for at in _elements(context, builder, signature, args):
            parts.append(builder.load(builder.inttoptr(at, _PAIR.as_pointer())))
            parts[-1].align = 8
        while len(parts) > 2:
            both = _order(range(2 * parts[0].type.count))
            halves = zip(parts[::2], parts[1::2], strict=True)
            parts = [builder.shuffle_vector(a, b, both) for a, b in halves]
        each = [builder.shuffle_vector(*parts, _order(range(k, 2 * LANES, 2))) for k in range(2)]
        return context.make_tuple(builder, signature.return_type, each)

    return UniTuple(EIGHT, 2)(array, ids, nbtypes.uint64), codegen


@intrinsic
def _put_pairs(typingctx: Any, array: Any, ids: Any, k: Any, first: Any, second: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        one, other = (builder.bitcast(values, VECTOR) for values in args[3:])
        for lane, at in enumerate(_elements(context, builder, signature, args)):
            pair = builder.shuffle_vector(one, other, _order([lane, LANES + lane]))
            builder.store(pair, builder.inttoptr(at, _PAIR.as_pointer())).align = 8
        return context.get_dummy_value()

    return nbtypes.void(array, ids, nbtypes.uint64, first, second), codegen


def _eight_in_memory(address: Any) -> Any:
    return array_at(address, LANES, np.float64).copy()


def _put_into_memory(address: Any, value: Any) -> None:
    array_at(address, LANES, np.float64)[:] = value


def _in_array(array: Any, k: Any) -> Any:
    return array[k : k + np.uint64(LANES)].copy()


def _falls_of_array(array: Any, k: Any) -> Any:
    some = array[k : k + np.uint64(SIXTEEN + 1)]
    return np.where(some[:-1] >= some[1:], 2**32 - 1, 0).astype(np.uint32).view(np.uint64)


def _bits_at_least(array: Any, k: Any, bound: Any) -> Any:
    found = array[k : k + np.uint64(WIDE)] >= bound
    return np.packbits(found, bitorder="little").view(np.uint64)[0]


def _bits_equal(array: Any, k: Any, word: Any) -> Any:
    found = array[k : k + np.uint64(LANES)] == word
    return np.uint64(np.packbits(found, bitorder="little")[0])


def _wide(array: Any, k: Any) -> Any:
    return _in_array(array, k).astype(np.uint64)


def _floats_of(array: Any) -> Any:
    """The elements of an array, a line of floats each."""
    return np.asarray(array).view(np.ndarray).view(np.float64).reshape(len(array), -1)


def _from_array(places: Any, offset: Any) -> Any:
    array, words = places
    return _floats_of(array)[words, int(offset) // 8]


def _each_of_array(array: Any, ids: Any, k: Any) -> Any:
    return array[_wide(ids, k)]


def _put_into_array(array: Any, ids: Any, k: Any, values: Any) -> None:
    array[_wide(ids, k)] = values


def _pairs_in_array(array: Any, ids: Any, k: Any) -> Any:
    first, second = _floats_of(array)[_wide(ids, k)].T.copy()
    return first, second


def _put_pairs_into_array(array: Any, ids: Any, k: Any, first: Any, second: Any) -> None:
    pairs = np.stack([first, second.view(np.float64)], axis=1)
    _floats_of(array)[_wide(ids, k)] = pairs


load_f64x8 = _eight_at if COMPILED else _eight_in_memory
store_f64x8 = _put_eight if COMPILED else _put_into_memory
# Eight neighbours of an array of floats; of one of unsigned integers, as words.
load = _eight_in if COMPILED else _in_array
load_u64x8 = _words_in if COMPILED else _wide
# Which of sixteen neighbours of an array are not below the next: all bits of half a word each.
mask_not_rising = _falls_in if COMPILED else _falls_of_array
# Which of 64 neighbours of an array of floats are not below a bound, a bit each.
mask_ge = _at_least if COMPILED else _bits_at_least
# Which of eight neighbours of an array of words are equal to one, a bit each.
mask_eq = _equal_in if COMPILED else _bits_equal
# The addresses of eight elements of an array; what stands some bytes behind each.
addresses_of = _places_of if COMPILED else lambda array, words: (array, words)
gather_at = _eight_from if COMPILED else _from_array
# The elements of an array that eight neighbours of another tell.
gather = _each_in if COMPILED else _each_of_array
scatter = _put_each if COMPILED else _put_into_array
# Both floats of elements of 16 bytes, likewise; words may be put as the second, and come as bits.
gather_pairs = _pairs_in if COMPILED else _pairs_in_array
scatter_pairs = _put_pairs if COMPILED else _put_pairs_into_array
