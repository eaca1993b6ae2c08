"""Eight features of Vowpal Wabbit's text at a time: `name:value` each, or `name` each.

The fast path applies while the delimiters repeat, as in ``a:1 b:2 c:3 ...`` or ``a b c ...``, and
the name of the namespace has at most seven bytes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import CARET, COLON, CR, NEWLINE
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import (
    gather_u64,
    load_u8,
    load_u32_pairs,
    load_u32x8,
    loadu_u64,
    movemask,
    splat,
    splat_u64,
    store_f64x8,
    store_u64x8,
    to_bits,
)
from streaml1.core.spans import OFFSET_BITS
from streaml1.text.byte_names import (
    NAMES_X8_BYTES,
    join_names_x8,
    murmur_x8_from_heads,
    murmur_x8_of_joined,
    write_names_x8,
)
from streaml1.text.numbers import parse_numbers_x8_from_words
from streaml1.text.structural_index import delimiter_at, gather_three_x8, matching_kinds

__all__ = ["find_features_x8", "may_start_x8"]

_MAGNITUDE = u64(2**63 - 1)
_PAIRS, _SPACES = (u64(int.from_bytes(kinds, "little")) for kinds in (b": " * 4, b" " * 8))
"""Eight kinds of delimiters of features with values, and of features without values."""


class _FoundX8(NamedTuple):
    """Where `find_features_x8` stopped."""

    i: Any
    """The next delimiter."""
    pos: Any
    """Where the next token begins."""
    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    n_read: Any
    """The end of the features whose values are read."""
    has_zero: Any
    """Whether a value is zero."""
    ended: Any
    """Whether the line has ended."""


@inlined
def may_start_x8(kinds: Any, i: Any) -> bool:
    """Return whether the delimiters from the i-th on look like those of eight features."""
    return bool(loadu_u64(kinds + i) in (_SPACES, _PAIRS))


@inlined
def find_features_x8(
    text: Any, lines: Any, features: Any, i: Any, pos: Any, k: Any, name_pos: Any, prefix: Any,
    prefix_end: Any, n_read: Any,
) -> Any:  # fmt: skip
    """Find features as long as eight of them have the same delimiters, and hash their names.

    The last features of a line are fewer than eight. They are processed together with those before
    them, which are then written a second time with the same results.

    Parameters
    ----------
    prefix, prefix_end
        Addresses of the name of the namespace.
    n_read
        The end of the features whose values are read. Values are read here as long as all before
        them are (n_read == k); after the first irregular value only their spans are written.

    Returns
    -------
    _FoundX8
    """
    start, positions = text.start, text.positions
    hashes_at = np.uint64(features.hashes.ctypes.data)
    values_at = np.uint64(features.values.ctypes.data)
    spans_at = np.uint64(features.spans.ctypes.data)
    value_spans_at = np.uint64(features.value_spans.ctypes.data)
    prefix_size = prefix_end - prefix
    prefix_word = loadu_u64(prefix)
    has_zero: Any = False
    ended: Any = False
    in_run, had_values = u64(0), False
    # Invariant: features up to k are found, the last `in_run` of them with the same delimiters. The
    # i-th delimiter ends the name at `pos`.
    while prefix_size < u64(8):
        run = _next_run(text, i, in_run, had_values)
        in_run, had_values = run.before, run.with_values
        if not run.regular:
            break
        # The first lanes repeat features that were found before.
        overlap, j = u64(8) - run.count, k + run.count - u64(8)
        f = i - (overlap + overlap if run.with_values else overlap)
        if run.with_values:
            begins, ends = load_u32_pairs(positions + u64(4) * f - u64(4))
            _, stops = load_u32_pairs(positions + u64(4) * f)
            begins = begins + u64(1)
        else:
            begins = load_u32x8(positions + u64(4) * f - u64(4)) + u64(1)
            ends = stops = load_u32x8(positions + u64(4) * f)
        size = ends - begins
        if movemask(size == u64(0)):
            break
        if run.with_values:
            name, head, tail = gather_three_x8(
                start, positions, f - u64(1), f + u64(7), f + u64(7), f + u64(15), begins + start,
                ends + (start + u64(1)), stops + (start - u64(8)),
            )  # fmt: skip
        else:
            name = head = tail = gather_u64(begins + start)
        if prefix_size:
            if movemask(size > u64(8)) or name_pos + NAMES_X8_BYTES > lines.names_end:
                break
            low, high = join_names_x8(
                splat_u64(prefix_word), splat_u64(prefix_size), CARET, name, size
            )
            size = size + (prefix_size + u64(1))
            store_u64x8(hashes_at + u64(8) * j, murmur_x8_of_joined(low, high, size))
            name_pos = write_names_x8(
                low, high, size, overlap, name_pos, start, spans_at + u64(8) * j
            )
        else:
            store_u64x8(hashes_at + u64(8) * j, murmur_x8_from_heads(name, begins + start, size))
            store_u64x8(spans_at + u64(8) * j, (begins << OFFSET_BITS) | size)
        unread = n_read != k
        if not unread:
            v = splat(1.0)
            if run.with_values:
                v, error_mask = parse_numbers_x8_from_words(
                    head, tail, stops - ends - u64(1), lines.powers
                )
                unread = movemask(error_mask) != u64(0)
                has_zero |= movemask((to_bits(v) & _MAGNITUDE) == u64(0)) != u64(0)
            store_f64x8(values_at + u64(8) * j, v)
            n_read = j if unread else k + run.count
        if unread:
            value_span = splat_u64(u64(0))
            if run.with_values:
                value_begins = ends + u64(1)
                value_span = (value_begins << OFFSET_BITS) | (stops - value_begins)
            store_u64x8(value_spans_at + u64(8) * j, value_span)
        k += run.count
        in_run += run.count
        i += run.n
        ended = run.ended
        pos = delimiter_at(text, i) if ended else delimiter_at(text, i - u64(1)) + u64(1)
        if ended:
            break
    return _FoundX8(i, pos, k, name_pos, n_read, has_zero, ended)


class _Run(NamedTuple):
    """The next features with the same delimiters, up to eight."""

    with_values: Any
    before: Any
    """How many features with these delimiters were found before."""
    count: Any
    n: Any
    """How many delimiters they have."""
    ended: Any
    """Whether they end the line."""
    regular: Any
    """Whether they are eight, or end the line and are eight with those before."""


@inlined
def _next_run(text: Any, i: Any, in_run: Any, had_values: Any) -> Any:
    """Count the features from the i-th delimiter on. Returns a `_Run`."""
    with_values = load_u8(text.kinds + i) == COLON
    if with_values:
        n = matching_kinds(text.kinds, i, (_PAIRS, _PAIRS))
        count = (n + u64(1)) >> u64(1)
    else:
        n = count = matching_kinds(text.kinds, i, (_SPACES,))
    before = in_run if with_values == had_values else u64(0)
    if count == u64(8) and n != u64(15):
        return _Run(with_values, before, count, n, False, True)
    count += np.uint64(not with_values)
    d = delimiter_at(text, i + n)
    ended = load_u8(text.kinds + i + n) == NEWLINE and load_u8(d - u64(1)) != CR
    ended &= (not with_values or (n & u64(1)) == u64(1)) and before + count >= u64(8)
    return _Run(with_values, before, count, n, ended, ended)
