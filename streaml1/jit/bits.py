"""Words as bits: what 64 bytes are equal to, counts of zeros, wide products."""

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
    "float_of_bits",
    "high_product",
    "leading_zeros",
    "matches",
    "trailing_zeros",
    "under",
]


def _compared(how: str) -> Callable[..., Any]:
    """Code that compares the 64 bytes at an address with one."""

    def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        block = ir.VectorType(ir.IntType(8), 64)
        there = builder.load(builder.inttoptr(args[0], block.as_pointer()), align=1)
        one = builder.trunc(args[1], ir.IntType(8))
        wanted = builder.insert_element(
            ir.Constant(block, ir.Undefined), one, ir.Constant(ir.IntType(32), 0)
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
