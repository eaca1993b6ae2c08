"""Lines of JSON to rows of hashed names; what is out of the ordinary is told, and left empty.

An ordinary line is an object of `x`, `y` and perhaps `w`, `id` and others, each at most once and
without a backslash; `x` is an object of numbers, strings, true, false and null, no name twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import borrowed, load_u8, loadu_u64, store_u64
from streaml1.text.byte_names import (
    ALL_TEXT,
    LATER,
    UNKNOWN,
    copied,
    is_ascii,
    murmur_at,
    short_copied,
)
from streaml1.text.feature_spans import (
    are_same,
    comes_twice,
    hash_keys_left,
    read_those_left,
    without_zeros,
)
from streaml1.text.json_scalars import NOTHING, NUMBER, TEXT, plain_value
from streaml1.text.json_simd import MOST, after_blanks, by_eights, may_be_eight
from streaml1.text.structural_index import (
    BLANK,
    COLON,
    NEWLINE,
    RETURN,
    json_delimiters,
    lines_at_once,
    place_of,
)

__all__ = ["MOST", "OTHERS", "rows"]

_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _EIGHT, _HALF = map(np.uint64, (0, 1, 2, 3, 4, 5, 8, 32))
_QUOTE, _COMMA, _OPEN, _CLOSE, _EQUALS, _X, _Y, _W = map(np.uint64, b'",{}=xyw')
_PAIR = np.uint64(2**16 - 1)
_ID = np.uint64(int.from_bytes(b"id", "little"))

X, Y, W, ID = map(np.uint64, (1, 2, 4, 8))

OTHERS = np.uint64(16)
"""Names in an ordinary line beside x, y, w and id."""


@inlined
def _closing(start: Any, positions: Any, i: Any) -> Any:
    """Which delimiter closes the string whose quote is the one before the i-th; or what is odd."""
    c = load_u8(start + place_of(positions, i))
    while c in (_COMMA, _CLOSE):
        i += _ONE
        c = load_u8(start + place_of(positions, i))
    return i


@inlined
def _features(
    start: Any, table: Any, places: Any, kinds: Any, i: Any, at: Any, begun: Any, to: Any,
    most: Any, hashes: Any, values: Any, spans: Any, numbers: Any, keys: Any,
) -> Any:  # fmt: skip
    """Find the features of the object that opens before `at`, whose first delimiter is the i-th.

    They are read as far as `by_eights` does. In place of the hash of another the place of its name
    is told, and LATER at its place from the address `keys` on.

    Returns
    -------
    The next delimiter, the place behind the object, how many features there are then, where the
    next name goes, up to which feature values are read, whether one of these is zero, whether all
    are hashed, and whether all is well.
    """
    last = begun + MOST
    k = known = again = begun
    hashed: Any = True
    zeros: Any = False
    at = after_blanks(at)
    if load_u8(at) == _CLOSE:
        return i + _ONE, at + _ONE, k, to, known, zeros, hashed, True
    while True:
        d = start + place_of(places, i)
        if d != at or load_u8(d) != _QUOTE or k == last:
            break
        if k >= again and may_be_eight(kinds, i):
            i, at, k, to, known, zero, ended = by_eights(
                start, table, places, kinds, i, at, begun, k, to, most, known, hashes, values,
                spans, numbers, keys,
            )  # fmt: skip
            zeros |= zero
            if ended:
                return i, at, k, to, known, zeros, hashed, True
            again = k + _EIGHT  # those that are next were looked at
            d = start + place_of(places, i)
            if d != at or load_u8(d) != _QUOTE or k == last:
                break
        i = _closing(start, places, i + _ONE)
        e = start + place_of(places, i)
        if load_u8(e) != _QUOTE:
            break
        i += _ONE
        name, name_end = d + _ONE, e
        hashes[k] = ((name - start) << _HALF) | (name_end - name)
        store_u64(keys + _EIGHT * (k - begun), LATER)
        hashed = False
        at = e + _ONE
        if load_u8(at) != COLON:
            at = after_blanks(at)
            if load_u8(at) != COLON:
                break
        at = after_blanks(at + _ONE)
        if load_u8(at) == _QUOTE:
            i = _closing(start, places, i + _ONE)
            s = start + place_of(places, i)
            if load_u8(s) != _QUOTE or to + (s - d) + np.uint64(32) > most:
                break
            i += _ONE
            first = to
            to = copied(name, name_end, to)
            store_u64(to, _EQUALS)
            to = short_copied(at + _ONE, s, to + _ONE)
            name, name_end = first, to
            where = _ZERO
            at = after_blanks(s + _ONE)
            s = start + place_of(places, i)
            if s != at:
                break
        else:
            s = start + place_of(places, i)
            stop = s
            while load_u8(stop - _ONE) == BLANK:
                stop -= _ONE
            if stop <= at:
                break
            where = ((at - start) << _HALF) | (stop - at)
        numbers[k] = where
        spans[k] = ((name - start) << _HALF) | (name_end - name)
        k += _ONE
        c = load_u8(s)
        if c == _CLOSE:
            return i + _ONE, s + _ONE, k, to, known, zeros, hashed, True
        if c != _COMMA:
            break
        i += _ONE
        at = after_blanks(s + _ONE)
    return i, at, k, to, known, zeros, hashed, False


@inlined
def _member(size: Any, word: Any) -> Any:
    """A bit for each name that is looked for; 0 for all others."""
    if size == _ONE:
        c = word & np.uint64(255)
        return X if c == _X else Y if c == _Y else W if c == _W else _ZERO
    return ID if size == _TWO and (word & _PAIR) == _ID else _ZERO


@inlined
def _value(start: Any, table: Any, places: Any, i: Any, at: Any) -> Any:
    """Read a text, or what is none, that begins at an address, the next delimiter being the i-th.

    Returns
    -------
    The next delimiter, the place behind it, what kind it is, its number, and where its text begins
    and ends. A text that is odd is NaN as a number.
    """
    if load_u8(at) == _QUOTE:
        i = _closing(start, places, i + _ONE)
        stop = start + place_of(places, i)
        if load_u8(stop) != _QUOTE:
            return i, stop, TEXT, np.nan, at, stop
        return i + _ONE, stop + _ONE, TEXT, 0.0, at + _ONE, stop
    behind = stop = start + place_of(places, i)
    while load_u8(stop - _ONE) == BLANK:
        stop -= _ONE
    kind, v = plain_value(at, stop, table)
    if v == 0.0 and stop - at == _TWO:
        v = 0.0  # -0 is an int, and has no sign
    return i, behind, kind, v, at, stop


@kernel
def rows(
    start: Any,
    end: Any,
    table: Any,
    labelled: Any,
    coding: Any,
    positions: Any,
    kinds: Any,
    hashes: Any,
    values: Any,
    names: Any,
    most: Any,
    spans: Any,
    y: Any,
    w: Any,
    indptr: Any,
    lines: Any,
    begins: Any,
    ends: Any,
    odd: Any,
    numbers: Any,
    told: Any,
    keys: Any,
    met: Any,
) -> Any:
    """Read the lines between two addresses, the last byte a newline.

    As `streaml1.text.vw.rows`; no row has a name twice where no byte is an equals sign. `told`
    has of each row what its label is, where its text begins and ends, and the same of its id.
    `keys` and `met` have twice MOST places, and `keys` OTHERS more, for the names of a row: one
    with more is odd.
    """
    hashes, values, spans = borrowed((hashes, values, spans))
    numbers, keys, met = borrowed((numbers, keys, met))
    row, k, n_odd, line = _ZERO, _ZERO, _ZERO, _ZERO
    valued: Any = True
    places, of_kinds = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    apart: Any = True
    met[:] = _ZERO
    now = np.uint64(keys.ctypes.data)
    before_now, n_before = now + _EIGHT * MOST, _ZERO
    i, n, at, to = _ZERO, _ZERO, start, names
    indptr[0] = 0
    while at < end:
        if i == n:
            i = _ZERO
            behind = lines_at_once(at, end)
            n, ascii_, no_equals = json_delimiters(start, at, behind, places, of_kinds)
            apart &= no_equals
            if coding == UNKNOWN and not ascii_:
                return _ZERO, _ZERO, _ZERO, False, False
        begun, begin, first_name = k, at, to
        label, weight = np.nan, 1.0
        label_kind, id_kind = NOTHING, NOTHING
        label_at, label_end, id_at, id_end = start, start, start, start
        seen = _ZERO
        good: Any = False
        large: Any = False
        has_zeros: Any = False
        hashed: Any = True
        known = begun
        others = np.uint64(0)
        d = start + place_of(places, i)
        more = load_u8(at) == _OPEN
        at = after_blanks(at + _ONE)
        while more:
            more = False
            # The name of a member, in quotes.
            d = start + place_of(places, i)
            if d != at or load_u8(d) != _QUOTE:
                break
            i = _closing(start, places, i + _ONE)
            e = start + place_of(places, i)
            if load_u8(e) != _QUOTE:
                break
            i += _ONE
            at = after_blanks(e + _ONE)
            if load_u8(at) != COLON:
                break
            at = after_blanks(at + _ONE)
            what = _member(e - d - _ONE, loadu_u64(d + _ONE))
            if seen & what:
                break
            seen |= what
            if what == _ZERO:
                if others == OTHERS:
                    break
                h, same = murmur_at(d + _ONE, e), False
                for j in range(others):
                    same |= keys[_TWO * MOST + j] == h
                if same:
                    break
                keys[_TWO * MOST + others] = h
                others += _ONE
            if what == X:
                if load_u8(at) != _OPEN:
                    break
                i, at, k, to, known, has_zeros, hashed, fine = _features(
                    start, table, places, of_kinds, i, at + _ONE, begun, to, most, hashes, values,
                    spans, numbers, now,
                )  # fmt: skip
                if not fine:
                    break
            else:
                i, at, kind, v, first, stop = _value(start, table, places, i, at)
                if v != v:
                    break
                if what == Y:
                    label_kind, label_at, label_end, label = kind, first, stop, v
                elif what == W:
                    weight = v
                    if kind != NUMBER or not v >= 0.0:
                        break
                elif what == ID:
                    id_kind, id_at, id_end = kind, first, stop
            # Behind a member: a comma, or the end.
            at = after_blanks(at)
            d = start + place_of(places, i)
            c = load_u8(d)
            if d != at or (c != _COMMA and c != _CLOSE):
                break
            i += _ONE
            at = after_blanks(d + _ONE)
            more = c == _COMMA
            if not more:
                good = load_u8(at) == NEWLINE
                if load_u8(at) == RETURN:
                    good = load_u8(at + _ONE) == NEWLINE
        if good and known < k:
            good, zeros, large = read_those_left(
                start, table, numbers, values, known, k, True, True
            )
            has_zeros |= zeros
        if good:
            if not hashed:
                hash_keys_left(hashes, spans, numbers, start, begun, k, now)
            count = k - begun
            # Lines are often of the same keys as those before.
            if not (count == n_before and are_same(now, before_now, count)):
                good &= not comes_twice(now, count, row + _ONE, met)
            if good:
                now, before_now, n_before = before_now, now, count
            if has_zeros:
                k, _ = without_zeros(hashes, values, spans, begun, k)
        good &= (seen & X) != _ZERO and (label_kind != NOTHING or not labelled)
        while load_u8(start + place_of(places, i)) != NEWLINE:
            i += _ONE
        d = start + place_of(places, i)
        if good and coding != ALL_TEXT and coding != UNKNOWN:
            good = is_ascii(begin, d)
        at = d + _ONE
        i += _ONE
        if not good:
            k, to = begun, first_name
            odd[n_odd] = row
            n_odd += _ONE
            weight, label_kind, id_kind, large = 1.0, NUMBER, NOTHING, False
        told[row, _ZERO] = label_kind
        told[row, _ONE] = label_at - start
        told[row, _TWO] = label_end - start
        told[row, _THREE] = id_kind
        told[row, _FOUR] = id_at - start
        told[row, _FIVE] = id_end - start
        y[row] = label
        w[row] = weight
        lines[row] = line
        begins[row] = begin - start
        ends[row] = at - start
        row += _ONE
        line += _ONE
        indptr[row] = k
        valued &= not large
    return row, n_odd, line, valued, apart
