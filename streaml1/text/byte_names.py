"""Names as bytes, one after the other, and their hashes: those of `streaml1.core.hashing`."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.hashing import MURMUR_MULTIPLIER
from streaml1.core.jit import inlined
from streaml1.core.simd import (
    exclusive_scan,
    gather_u64,
    lane_mask_from,
    last_lane,
    load_u8,
    loadu_u64,
    loadu_u64x8,
    movemask,
    scatter_u64,
    splat_u64,
    store_u64,
    store_u64x8,
)

__all__ = [
    "ALL_TEXT",
    "BROKEN",
    "EIGHT_NAMES",
    "LATER",
    "UNKNOWN",
    "comes_again",
    "copied",
    "is_ascii",
    "is_head",
    "joined_eight",
    "murmur_at",
    "murmur_of_eight",
    "murmur_of_heads",
    "murmur_of_pairs",
    "murmur_of_short",
    "murmur_of_string",
    "put_joined",
    "short_copied",
]

UNKNOWN, ALL_TEXT, BROKEN = map(np.uint64, range(3))
"""Whether a text is UTF-8."""

_ZERO, _ONE, _SEVEN, _EIGHT, _SIXTEEN, _HALF, _BITS = map(np.uint64, (0, 1, 7, 8, 16, 32, 63))
_LAST_ASCII = np.uint64(127)
_SHIFT = np.uint64(47)

LATER = np.uint64(0)
"""In place of the hash of a name: eight are made at once, once they are written."""

EIGHT_NAMES = np.uint64(160)
"""More bytes than `put_joined` writes."""

_ALL = np.uint64(2**64 - 1)
_NOTHING = np.uint64(0)  # the hash of no bytes


@inlined
def copied(start: Any, end: Any, to: Any) -> Any:
    """Copy the bytes between two addresses; returns the address behind the copy.

    Up to seven bytes more are read, and written behind it.
    """
    at = to
    while start < end:
        store_u64(at, loadu_u64(start))
        start += _EIGHT
        at += _EIGHT
    return at - (start - end)


@inlined
def short_copied(start: Any, end: Any, to: Any) -> Any:
    """As `copied`, quickest up to 16 bytes; up to 16 more are read, and written behind the copy.

    How long names are cannot be foretold, and a wrong guess costs more than a word.
    """
    store_u64(to, loadu_u64(start))
    store_u64(to + _EIGHT, loadu_u64(start + _EIGHT))
    if end - start > _SIXTEEN:
        return copied(start + _SIXTEEN, end, to + _SIXTEEN)
    return to + (end - start)


@inlined
def murmur_at(start: Any, end: Any) -> Any:
    """`murmur` of the bytes between two addresses; up to seven bytes more are read."""
    h, at = _but_the_last(start, end)
    return _with_last(h, loadu_u64(at), end - at) if at < end else _NOTHING


@inlined
def murmur_of_string(start: Any, end: Any) -> Any:
    """As `murmur_at`, but up to seven bytes before the text are read, and none behind it."""
    h, at = _but_the_last(start, end)
    left = end - at
    if not left:
        return _NOTHING
    return _with_last(h, loadu_u64(end - _EIGHT) >> (_EIGHT * (_EIGHT - left)), left)


@inlined
def _but_the_last(start: Any, end: Any) -> Any:
    """The hash before the last word, of one to eight bytes, and where that begins."""
    m = np.uint64(MURMUR_MULTIPLIER)
    h = (end - start) * m
    while end - start > _EIGHT:
        h = (h ^ _stirred(loadu_u64(start), m)) * m
        start += _EIGHT
    return h, start


@inlined
def _with_last(h: Any, last: Any, left: Any) -> Any:
    """The hash with the last word, of which so many bytes are left."""
    m = np.uint64(MURMUR_MULTIPLIER)
    # Both: how long a name is cannot be foretold, and a wrong guess costs more.
    whole = _stirred(last, m)
    part = last & (_ALL >> ((_EIGHT * (_EIGHT - left)) & _BITS))
    return _stirred_last((h ^ (whole if left == _EIGHT else part)) * m, m)


@inlined
def _stirred(word: Any, m: Any) -> Any:
    k = word * m
    k ^= k >> _SHIFT
    return k * m


@inlined
def _stirred_last(h: Any, m: Any) -> Any:
    h = (h ^ (h >> _SHIFT)) * m
    return h ^ (h >> _SHIFT)


@inlined
def murmur_of_eight(start: Any, size: Any) -> Any:
    """As `murmur_at`, of eight texts of so many bytes each."""
    return murmur_of_heads(gather_u64(start), start, size)


@inlined
def murmur_of_heads(head: Any, start: Any, size: Any) -> Any:
    """As `murmur_of_eight`, given the first bytes of the texts."""
    m = np.uint64(MURMUR_MULTIPLIER)
    h, last = size * m, head
    while movemask(size > _EIGHT):
        more = size > _EIGHT
        k = ((h ^ _stirred(last, m)) * m) & more
        h = k | (h & (more ^ _ALL))
        start = start + (more & _EIGHT)
        size = size - (more & _EIGHT)
        last = gather_u64(start)
    whole, some = size == _EIGHT, size != _ZERO
    # Lanes of which eight bytes are left, or fewer; none are where a name is empty.
    part = last & (_ALL >> (((_EIGHT - size) * _EIGHT) & _BITS))
    k = (h ^ ((_stirred(last, m) & whole) | (part & (whole ^ _ALL)))) * m
    return _stirred_last((k & some) | (h & (some ^ _ALL)), m)


@inlined
def joined_eight(before: Any, size: Any, mark: Any, behind: Any, more: Any) -> Any:
    """Eight names of two parts with a mark between, as two words each, zeros behind them.

    Of the first parts there are up to 7 bytes, of the second 1 to 8; other bytes of their words
    do not matter.
    """
    left = behind & (_ALL >> (((_EIGHT - more) * _EIGHT) & _BITS))
    bits = size * _EIGHT
    first = before & ((_ALL << bits) ^ _ALL)
    low = first | (splat_u64(mark) << bits) | ((left << bits) << _EIGHT)
    return low, left >> (_BITS - _SEVEN - bits)


@inlined
def put_joined(low: Any, high: Any, size: Any, first: Any, to: Any, start: Any, spans: Any) -> Any:
    """Write those names of eight, from the `first` on, that `joined_eight` made.

    Parameters
    ----------
    size
        How long each is.
    to
        Where the names go, one behind the other; up to 15 bytes more are written.
    spans
        The address of the eight: where from `start` each begins, and how long it is.

    Returns
    -------
    Where the next name goes.
    """
    ours = lane_mask_from(first)
    sizes = size & ours
    places = exclusive_scan(sizes) + to
    # Each overwrites what is too much of those before it.
    if movemask(size > _EIGHT):
        scatter_u64(places + _EIGHT, high)
    scatter_u64(places, low)
    there = ((places - start) << _HALF) | size
    store_u64x8(spans, (there & ours) | (loadu_u64x8(spans) & (ours ^ _ALL)))
    return last_lane(places + sizes)


@inlined
def murmur_of_short(word: Any, size: Any) -> Any:
    """As `murmur_at`, of eight names of 1 to 7 bytes, given as words with zeros behind them."""
    m = np.uint64(MURMUR_MULTIPLIER)
    return _stirred_last((size * m ^ word) * m, m)


@inlined
def murmur_of_pairs(low: Any, high: Any, size: Any) -> Any:
    """As `murmur_at`, of eight names of 1 to 16 bytes, given as `joined_eight` makes them."""
    if not movemask(size > _SEVEN):  # multiplications are most of it
        return murmur_of_short(low, size)
    m = np.uint64(MURMUR_MULTIPLIER)
    long = size > _EIGHT
    short = long ^ _ALL
    h = size * m
    h = (((h ^ _stirred(low, m)) * m) & long) | (h & short)
    last, left = (high & long) | (low & short), size - (long & _EIGHT)
    whole = left == _EIGHT
    h = (h ^ ((_stirred(last, m) & whole) | (last & (whole ^ _ALL)))) * m
    return _stirred_last(h, m)


@inlined
def comes_again(hashes: Any, lo: Any, hi: Any, last: Any, n: Any) -> bool:
    """Whether one of the n hashes before the `last` is among those from lo to hi."""
    found = False
    for z in range(last - n, last):
        for k in range(lo, hi):
            found |= hashes[k] == hashes[z]
    return found


@inlined
def is_ascii(start: Any, end: Any) -> bool:
    """Whether all bytes between two addresses are."""
    most = np.uint64(0)
    while start < end:
        most = max(most, load_u8(start))
        start += _ONE
    return bool(most <= _LAST_ASCII)


@inlined
def is_head(at: Any, head: Any, size: Any) -> bool:
    """Whether the bytes at an address are those of a head; up to seven more are read of both."""
    different = np.uint64(0)
    while size >= _EIGHT:
        different |= loadu_u64(at) ^ loadu_u64(head)
        at += _EIGHT
        head += _EIGHT
        size -= _EIGHT
    if size:
        different |= (loadu_u64(at) ^ loadu_u64(head)) & (_ALL >> (_EIGHT * (_EIGHT - size)))
    return bool(different == np.uint64(0))
