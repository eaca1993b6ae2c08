"""Eight members of a JSON object at a time whose values are strings, as in ``"site": "news", ...``.

The fast path applies while the delimiters repeat, keys have 1 to 7 bytes, and values 1 to 8. The
name of such a feature is `key=value`, its value 1. Numbers take the scalar path of `jsonl.py`: a
fast path for them gained 5 %.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import CLOSING_BRACE, COMMA, EQUALS, QUOTE, SPACE
from streaml1.core.jit import inlined, u64
from streaml1.core.simd import (
    ctz,
    gather_u64,
    lane_mask_from,
    load_every_fifth,
    load_u8,
    loadu_u64,
    movemask,
    splat,
    splat_u64,
    store_f64x8,
    store_u64x8,
)
from streaml1.text.byte_names import (
    NAMES_X8_BYTES,
    UNHASHED,
    join_names_x8,
    murmur_x8_of_joined,
    murmur_x8_of_short,
    write_names_x8,
)
from streaml1.text.line_arrays import Features
from streaml1.text.structural_index import AFTER_SPACE, BEFORE_COLON, delimiter_at

__all__ = ["MAX_KEYS", "find_members_x8", "may_start_x8", "skip_spaces"]

MAX_KEYS = u64(2048)
"""Upper bound on the features of a line; lines with more of them are irregular."""

_ALL_ONES = u64(2**64 - 1)


def _member_pattern() -> tuple[tuple[Any, Any], ...]:
    """Return the kinds of the 40 delimiters of eight members, in words of eight kinds.

    A member has five delimiters: the quotes of its key, the quotes of its value, and a comma. The
    closing quote of a key is in front of a colon. Where members are separated by spaces, the
    opening quotes follow a space.

    Returns
    -------
    For each word the kinds without spaces, and the bits to add if there are spaces. The first kind
    always has `AFTER_SPACE`, as `_first_word` sets it.
    """
    quote, comma = int(QUOTE), int(COMMA)
    closing_key, after_space = quote | int(BEFORE_COLON), int(AFTER_SPACE)
    compact = bytes([quote, closing_key, quote, quote, comma] * 8)
    spaced = bytes([after_space, 0, after_space, 0, 0] * 8)
    compact, spaced = bytes([compact[0] | spaced[0]]) + compact[1:], bytes(1) + spaced[1:]
    return tuple(zip(*(np.frombuffer(b, np.uint64) for b in (compact, spaced)), strict=True))


_MEMBERS = _member_pattern()


class _FoundX8(NamedTuple):
    """Where `find_members_x8` stopped."""

    i: Any
    """The next delimiter."""
    pos: Any
    """Where the next member begins, or the byte after the object."""
    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    n_read: Any
    """The end of the features whose values are read."""
    ended: Any
    """Whether the object has ended."""


@inlined
def skip_spaces(pos: Any) -> Any:
    """Return the first address from `pos` on that holds no space."""
    while load_u8(pos) == SPACE:
        pos += u64(1)
    return pos


@inlined
def may_start_x8(kinds: Any, i: Any) -> bool:
    """Return whether the delimiters from the i-th on look like those of eight members."""
    word = _first_word(kinds, i)
    compact, spaced = _MEMBERS[0]
    return bool(word == compact | (spaced & _spaces_mask(word)))


@inlined
def find_members_x8(
    text: Any, lines: Any, features: Any, i: Any, pos: Any, first_feature: Any, k: Any,
    name_pos: Any, n_read: Any, key_hashes: Any,
) -> Any:  # fmt: skip
    """Find members as long as eight of them have the same delimiters, and hash their names.

    The last members of an object are fewer than eight. They are processed together with those
    before them, which are then written a second time with the same results.

    Parameters
    ----------
    i, pos
        The delimiter that opens the next key, and its address.
    first_feature
        The first feature of the line.
    n_read
        The end of the features whose values are read; it advances only if it was k.
    key_hashes
        The address of the hashes of the keys of the line.

    Returns
    -------
    _FoundX8
    """
    columns = Features(
        np.uint64(features.hashes.ctypes.data), np.uint64(features.values.ctypes.data),
        np.uint64(features.spans.ctypes.data), np.uint64(features.value_spans.ctypes.data),
    )  # fmt: skip
    kinds = text.kinds
    ended: Any = False
    in_run, spaces_mask = u64(0), u64(0)
    # Invariant: features up to k are found, the last `in_run` of them here. The i-th delimiter
    # opens the key at `pos`.
    while k - first_feature + u64(8) <= MAX_KEYS:
        if in_run == u64(0):
            spaces_mask = _spaces_mask(_first_word(kinds, i))
        n = _matching_members(kinds, i, spaces_mask)
        count = (n * u64(205)) >> u64(10)  # n // 5
        if count < u64(8):
            # Fewer than eight follow: they must end the object, and be eight with those before.
            count += u64(1)
            ended = load_u8(kinds + i + n) == CLOSING_BRACE and n + u64(1) == u64(5) * count
            ended &= in_run + count >= u64(8)
            if not ended:
                break
        # The first lanes repeat features that were found before.
        overlap = u64(8) - count
        f, j, gap = i - u64(5) * overlap, u64(8) * (k - overlap), u64(2) if spaces_mask else u64(1)
        found: Any = name_pos + NAMES_X8_BYTES <= lines.names_end
        if found:
            first_key = key_hashes + j - u64(8) * first_feature
            found, name_pos = _read_members_x8(
                text, f, gap, overlap, name_pos, columns, j, first_key
            )
        if not found:
            ended = False
            break
        if n_read == k:
            n_read = k + count
        k += count
        in_run += count
        i += u64(5) * count
        pos = delimiter_at(text, i - u64(1)) + u64(1)
        if ended:
            break
        pos = skip_spaces(pos)
        if delimiter_at(text, i) != pos:
            break
    return _FoundX8(i, pos, k, name_pos, n_read, ended)


@inlined
def _read_members_x8(
    text: Any, f: Any, gap: Any, overlap: Any, name_pos: Any, columns: Any, j: Any, key_hashes: Any
) -> Any:
    """Read eight members; the opening quote of the first key is the f-th delimiter.

    Parameters
    ----------
    gap
        The distance from a comma to the next key: 2 with a space, 1 without.
    overlap
        How many of the first members were written before.
    columns, j
        The addresses of the arrays of features, and the offset of the first member there.
    key_hashes
        The address of the hash of its key.

    Returns
    -------
    Whether the members are regular, and where the next name goes.
    """
    first = text.positions + u64(4) * f
    key_open, key_close = load_every_fifth(first), load_every_fifth(first + u64(4))
    value_open = load_every_fifth(first + u64(8))
    value_close = load_every_fifth(first + u64(12))
    commas = load_every_fifth(first + u64(16))
    next_open = load_every_fifth(first + u64(20))
    key_begins, value_begins = key_open + u64(1), value_open + u64(1)
    key_size, value_size = key_close - key_begins, value_close - value_begins
    # All lanes are 0 if nothing is between the delimiters but a colon and spaces, and if the sizes
    # fit. What follows the last member is checked later.
    irregular_mask = ((next_open - commas) ^ gap) & (lane_mask_from(u64(7)) ^ _ALL_ONES)
    irregular_mask = irregular_mask | ((value_begins - key_close) ^ (gap + u64(2)))
    irregular_mask = irregular_mask | (commas ^ (value_close + u64(1)))
    irregular_mask = (
        irregular_mask | ((key_size - u64(1)) > u64(6)) | ((value_size - u64(1)) > u64(7))
    )
    if movemask(irregular_mask):
        return False, name_pos
    key, value = gather_u64(key_begins + text.start), gather_u64(value_begins + text.start)
    low, high = join_names_x8(key, key_size, EQUALS, value, value_size)
    key = key & ((splat_u64(_ALL_ONES) << (key_size * u64(8))) ^ _ALL_ONES)
    h = murmur_x8_of_short(key, key_size)
    if movemask(h == UNHASHED):
        return False, name_pos
    store_u64x8(key_hashes, h)
    size = key_size + value_size + u64(1)
    store_u64x8(columns.hashes + j, murmur_x8_of_joined(low, high, size))
    store_f64x8(columns.values + j, splat(1.0))
    store_u64x8(columns.value_spans + j, splat_u64(u64(0)))
    spans = columns.spans + j
    return True, write_names_x8(low, high, size, overlap, name_pos, text.start, spans)


@inlined
def _first_word(kinds: Any, i: Any) -> Any:
    """Return the kinds from the i-th on. The first one gets `AFTER_SPACE`: either is fine there."""
    return loadu_u64(kinds + i) | AFTER_SPACE


@inlined
def _spaces_mask(word: Any) -> Any:
    """Return all ones if the third delimiter, the opening quote of a value, follows a space."""
    return u64(0) - ((word >> u64(22)) & u64(1))


@inlined
def _matching_members(kinds: Any, i: Any, spaces_mask: Any) -> Any:
    """Return how many delimiters from the i-th on are those of members, as in `matching_kinds`."""
    n, expected, word = u64(0), u64(0), _first_word(kinds, i)
    for compact, spaced in _MEMBERS:
        if n == expected:
            n += ctz(word ^ (compact | (spaced & spaces_mask))) >> u64(3)
            word = loadu_u64(kinds + i + n)
        expected += u64(8)
    return n
