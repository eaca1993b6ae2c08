"""Eight floats as one value: a cache line, and one instruction on what has vectors so wide."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba.core import types as nbtypes
from numba.extending import intrinsic, models, register_model

from streaml1.jit.compilation import COMPILED
from streaml1.jit.memory import array_at

__all__ = [
    "LANES",
    "eight_at",
    "eight_of",
    "greater",
    "lesser",
    "minus",
    "plus",
    "put_eight",
    "signed",
    "times",
]

LANES = 8


class _Eight(nbtypes.Type):
    def __init__(self) -> None:
        super().__init__("Eight")


_EIGHT = _Eight()
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_BITS = ir.VectorType(ir.IntType(64), LANES)


@register_model(_Eight)
class _EightModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Any) -> None:
        super().__init__(manager, kind, _VECTOR)


def _on_eights(build: Callable[..., Any], twin: Any) -> Any:
    """An operation on two values of eight floats: what builds its code, and numpy's for it."""

    @intrinsic
    def compiled(typingctx: Any, a: Any, b: Any) -> Any:
        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            return build(builder, *args)

        return _EIGHT(_EIGHT, _EIGHT), codegen

    return compiled if COMPILED else twin


plus = _on_eights(lambda builder, a, b: builder.fadd(a, b), np.add)
minus = _on_eights(lambda builder, a, b: builder.fsub(a, b), np.subtract)
times = _on_eights(lambda builder, a, b: builder.fmul(a, b), np.multiply)
lesser = _on_eights(
    lambda builder, a, b: builder.select(builder.fcmp_ordered("<", a, b), a, b),
    lambda a, b: np.where(a < b, a, b),
)
greater = _on_eights(
    lambda builder, a, b: builder.select(builder.fcmp_ordered(">", a, b), a, b),
    lambda a, b: np.where(a > b, a, b),
)


def _signed(builder: Any, size: Any, like: Any) -> Any:
    signs = builder.and_(builder.bitcast(like, _BITS), ir.Constant(_BITS, [-(2**63)] * LANES))
    return builder.bitcast(builder.or_(builder.bitcast(size, _BITS), signs), _VECTOR)


# The first must not be below zero.
signed = _on_eights(_signed, np.copysign)


@intrinsic
def _eight_at(typingctx: Any, address: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        loaded = builder.load(builder.inttoptr(args[0], _VECTOR.as_pointer()))
        loaded.align = 8
        return loaded

    return _EIGHT(nbtypes.uint64), codegen


@intrinsic
def _put_eight(typingctx: Any, address: Any, value: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        stored = builder.store(args[1], builder.inttoptr(args[0], _VECTOR.as_pointer()))
        stored.align = 8
        return context.get_dummy_value()

    return nbtypes.void(nbtypes.uint64, _EIGHT), codegen


@intrinsic
def _eight_of(typingctx: Any, x: Any) -> Any:
    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        none, index = ir.Constant(_VECTOR, ir.Undefined), ir.IntType(32)
        first = builder.insert_element(none, args[0], ir.Constant(index, 0))
        zeros = ir.Constant(ir.VectorType(index, LANES), [0] * LANES)
        return builder.shuffle_vector(first, none, zeros)

    return _EIGHT(nbtypes.float64), codegen


def _eight_in_memory(address: Any) -> Any:
    return array_at(address, LANES, np.float64).copy()


def _put_into_memory(address: Any, value: Any) -> None:
    array_at(address, LANES, np.float64)[:] = value


eight_at = _eight_at if COMPILED else _eight_in_memory
put_eight = _put_eight if COMPILED else _put_into_memory
eight_of = _eight_of if COMPILED else lambda x: np.full(LANES, x)
