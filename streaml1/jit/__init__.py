"""Compilation: the one folder that knows numba.

A rule is a class of plain Python methods over arrays. Loops call free *verbs* (`gather`,
`scatter`, ...); compiled, a verb becomes the method of that name of its first argument's class,
so that every loop is compiled once for each class of rule and is found on disk by the next
process. With `NUMBA_DISABLE_JIT=1` the same text runs interpreted, all but the raw memory.
"""

from __future__ import annotations

from streaml1.jit.bits import (
    bit_count,
    float_of_bits,
    high_product,
    leading_zeros,
    matches,
    trailing_zeros,
    under,
)
from streaml1.jit.compilation import (
    COMPILED,
    entry,
    gil_kernel,
    inlined,
    is_cached,
    kernel,
    row_kernel,
)
from streaml1.jit.lanes import (
    LANES,
    eight_of,
    greater,
    lesser,
    minus,
    negative,
    plus,
    signed,
    times,
    total,
    words_of,
)
from streaml1.jit.memory import (
    array_at,
    load,
    load_byte,
    load_float,
    load_word,
    prefetch,
    prefetch_at,
    python_api,
    rule_at,
    scratch,
    store_word,
)
from streaml1.jit.places import (
    eight_at,
    eight_from,
    eight_in,
    places_of,
    put_each,
    put_eight,
    words_from,
    words_in,
)
from streaml1.jit.verbs import (
    borrowed,
    generic,
    optional,
)

__all__ = [
    "COMPILED",
    "LANES",
    "array_at",
    "bit_count",
    "borrowed",
    "eight_at",
    "eight_from",
    "eight_in",
    "eight_of",
    "entry",
    "float_of_bits",
    "generic",
    "gil_kernel",
    "greater",
    "high_product",
    "inlined",
    "is_cached",
    "kernel",
    "leading_zeros",
    "lesser",
    "load",
    "load_byte",
    "load_float",
    "load_word",
    "matches",
    "minus",
    "negative",
    "optional",
    "places_of",
    "plus",
    "prefetch",
    "prefetch_at",
    "put_each",
    "put_eight",
    "python_api",
    "row_kernel",
    "rule_at",
    "scratch",
    "signed",
    "store_word",
    "times",
    "total",
    "trailing_zeros",
    "under",
    "words_from",
    "words_in",
    "words_of",
]
