"""Compilation: the one folder that knows numba.

A rule is a class of plain Python methods over arrays. Loops call free *verbs* (`gather`,
`scatter`, ...); compiled, a verb becomes the method of that name of its first argument's class,
so that every loop is compiled once for each class of rule and is found on disk by the next
process. With `NUMBA_DISABLE_JIT=1` the same text runs interpreted, all but the raw memory.

Importing this folder loads no compiler: what is compiled, and what kernels are made of, is made
when it is first called for (`deferred`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from streaml1.jit.decorators import (
    generic,
    gil_kernel,
    inlined,
    is_cached,
    kernel,
    optional,
    python_api,
    row_kernel,
    typed_kernel,
)
from streaml1.jit.deferred import COMPILED, LANES, Deferred

if TYPE_CHECKING:
    from streaml1.jit.bits import (
        bit_count,
        chosen_bits,
        chosen_bytes,
        chosen_marked,
        float_of_bits,
        high_product,
        leading_zeros,
        matches,
        matches_any,
        packs,
        put_lowered,
        put_places,
        trailing_zeros,
        under,
    )
    from streaml1.jit.lanes import (
        all_below,
        any_below_zero,
        bits_of,
        chosen,
        eight_of,
        greater,
        joined,
        lesser,
        masked,
        minus,
        negative,
        over,
        plus,
        shifted,
        signed,
        times,
        total,
        two_to,
        without_first,
        words_of,
    )
    from streaml1.jit.memory import (
        array_at,
        borrowed,
        load,
        load_byte,
        load_float,
        load_word,
        prefetch,
        prefetch_at,
        prefetch_early,
        rule_at,
        scratch,
        store_half,
        store_word,
    )
    from streaml1.jit.places import (
        at_least,
        each_in,
        eight_at,
        eight_from,
        eight_in,
        equal_in,
        falls_in,
        pairs_in,
        places_of,
        put_each,
        put_eight,
        put_pairs,
        words_in,
    )
    from streaml1.jit.words import (
        are_near,
        bit_counts,
        eight_of_words,
        every_fifth,
        every_third,
        halves_at,
        lanes_from,
        last_of,
        of_sixteen,
        put_at,
        put_halves,
        put_words,
        sums_before,
        which,
        words_at,
        words_from,
        words_near,
        words_of_halves,
    )

__all__ = [
    "all_below",
    "any_below_zero",
    "chosen_bits",
    "put_lowered",
    "put_places",
    "COMPILED",
    "LANES",
    "are_near",
    "array_at",
    "at_least",
    "bit_count",
    "bit_counts",
    "bits_of",
    "borrowed",
    "chosen",
    "chosen_bytes",
    "chosen_marked",
    "each_in",
    "eight_at",
    "eight_from",
    "eight_in",
    "equal_in",
    "eight_of",
    "eight_of_words",
    "every_fifth",
    "every_third",
    "falls_in",
    "float_of_bits",
    "generic",
    "gil_kernel",
    "greater",
    "halves_at",
    "high_product",
    "inlined",
    "is_cached",
    "joined",
    "kernel",
    "lanes_from",
    "last_of",
    "leading_zeros",
    "lesser",
    "load",
    "load_byte",
    "load_float",
    "load_word",
    "masked",
    "matches",
    "matches_any",
    "minus",
    "negative",
    "of_sixteen",
    "optional",
    "over",
    "packs",
    "pairs_in",
    "places_of",
    "plus",
    "prefetch",
    "prefetch_at",
    "prefetch_early",
    "put_at",
    "put_each",
    "put_eight",
    "put_halves",
    "put_pairs",
    "put_words",
    "python_api",
    "row_kernel",
    "rule_at",
    "scratch",
    "shifted",
    "signed",
    "store_half",
    "store_word",
    "sums_before",
    "times",
    "total",
    "trailing_zeros",
    "two_to",
    "typed_kernel",
    "under",
    "which",
    "words_at",
    "words_from",
    "words_near",
    "words_in",
    "without_first",
    "words_of",
    "words_of_halves",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = Deferred(lambda: _made(name)) if COMPILED else _made(name)
    return value


def _made(name: str) -> Any:
    from streaml1.jit import bits, lanes, memory, places, words

    [value] = [vars(m)[name] for m in (bits, lanes, memory, places, words) if name in m.__all__]
    return value
