"""Lines of JSON to rows of hashed names; what is out of the ordinary is told, and left empty.

An ordinary line is an object of `x`, `y` and perhaps `w`, `id` and others, each at most once and
without a backslash; `x` is an object of numbers, strings, true, false and null, no name twice.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.jit import inlined, kernel, load_byte, load_word, store_word
from streaml1.parse.delimiters import (
    BLANK,
    COLON,
    NEWLINE,
    RETURN,
    json_delimiters,
    place_of,
)
from streaml1.parse.features import keys_are_hashed, read_those_left, without_zeros
from streaml1.parse.json_values import NOTHING, NUMBER, TEXT, plain_value
from streaml1.parse.names import ALL_TEXT, UNKNOWN, copied, murmur_at

__all__ = ["MOST", "OTHERS", "rows"]

_ZERO, _ONE, _TWO, _THREE, _FOUR, _FIVE, _HALF = map(np.uint64, (0, 1, 2, 3, 4, 5, 32))
_QUOTE, _COMMA, _OPEN, _CLOSE, _EQUALS, _X, _Y, _W = map(np.uint64, b'",{}=xyw')
_LOW, _LAST_ASCII, _PAIR = map(np.uint64, (2**32 - 1, 127, 2**16 - 1))
_ID = np.uint64(int.from_bytes(b"id", "little"))

X, Y, W, ID = map(np.uint64, (1, 2, 4, 8))

MOST, OTHERS = map(np.uint64, (2048, 16))
"""Names in an ordinary line: of features, and of what else is there beside x, y, w and id."""


@inlined
def _after_blanks(at: Any) -> Any:
    while load_byte(at) == BLANK:
        at += _ONE
    return at


@inlined
def _closing(start: Any, positions: Any, i: Any) -> Any:
    """Which delimiter closes the string whose quote is the one before the i-th; or what is odd."""
    c = load_byte(start + place_of(positions, i))
    while c in (_COMMA, _CLOSE):
        i += _ONE
        c = load_byte(start + place_of(positions, i))
    return i


@inlined
def _features(
    start: Any,
    places: Any,
    i: Any,
    at: Any,
    k: Any,
    to: Any,
    most: Any,
    hashes: Any,
    spans: Any,
    numbers: Any,
) -> Any:
    """Find the features of the object that opens before `at`, whose first delimiter is the i-th.

    In place of a hash the place of its name is told.

    Returns
    -------
    The next delimiter, the place behind the object, how many features there are then, where the
    next name goes, and whether all is well.
    """
    last = k + MOST
    at = _after_blanks(at)
    if load_byte(at) == _CLOSE:
        return i + _ONE, at + _ONE, k, to, True
    while True:
        d = start + place_of(places, i)
        if d != at or load_byte(d) != _QUOTE or k == last:
            break
        i = _closing(start, places, i + _ONE)
        e = start + place_of(places, i)
        if load_byte(e) != _QUOTE:
            break
        i += _ONE
        name, name_end = d + _ONE, e
        hashes[k] = ((name - start) << _HALF) | (name_end - name)
        at = e + _ONE
        if load_byte(at) != COLON:
            at = _after_blanks(at)
            if load_byte(at) != COLON:
                break
        at = _after_blanks(at + _ONE)
        if load_byte(at) == _QUOTE:
            i = _closing(start, places, i + _ONE)
            s = start + place_of(places, i)
            if load_byte(s) != _QUOTE or to + (s - d) + np.uint64(32) > most:
                break
            i += _ONE
            first = to
            to = copied(name, name_end, to)
            store_word(to, _EQUALS)
            to = copied(at + _ONE, s, to + _ONE)
            name, name_end = first, to
            where = _ZERO
            at = _after_blanks(s + _ONE)
            s = start + place_of(places, i)
            if s != at:
                break
        else:
            s = start + place_of(places, i)
            stop = s
            while load_byte(stop - _ONE) == BLANK:
                stop -= _ONE
            if stop <= at:
                break
            where = ((at - start) << _HALF) | (stop - at)
        numbers[k] = where
        spans[k] = ((name - start) << _HALF) | (name_end - name)
        k += _ONE
        c = load_byte(s)
        if c == _CLOSE:
            return i + _ONE, s + _ONE, k, to, True
        if c != _COMMA:
            break
        i += _ONE
        at = _after_blanks(s + _ONE)
    return i, at, k, to, False


@inlined
def _member(size: Any, word: Any) -> Any:
    """A bit for each name that is looked for; 0 for all others."""
    if size == _ONE:
        c = word & np.uint64(255)
        return X if c == _X else Y if c == _Y else W if c == _W else _ZERO
    return ID if size == _TWO and (word & _PAIR) == _ID else _ZERO


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

    As `streaml1.parse.vw.rows`. `told` has of each row what its label is, where its text begins
    and ends, and the same of its id. `keys` has MOST + OTHERS places and `met` twice MOST, for
    the names of a row: one with more names is odd.
    """
    row, k, n_odd, line = _ZERO, _ZERO, _ZERO, _ZERO
    valued: Any = True
    places, of_kinds = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    n, ascii_ = json_delimiters(start, end, places, of_kinds)
    if coding == UNKNOWN and not ascii_:
        return row, n_odd, line, False
    met[:] = _ZERO
    i, at, to = _ZERO, start, names
    indptr[0] = 0
    while i < n:
        begun, begin, first_name = k, at, to
        label, weight = np.nan, 1.0
        label_kind, id_kind = NOTHING, NOTHING
        label_at, label_end, id_at, id_end = start, start, start, start
        seen = _ZERO
        good: Any = False
        large: Any = False
        others = np.uint64(0)
        d = start + place_of(places, i)
        more = load_byte(at) == _OPEN
        at = _after_blanks(at + _ONE)
        while more:
            more = False
            # The name of a member, in quotes.
            d = start + place_of(places, i)
            if d != at or load_byte(d) != _QUOTE:
                break
            i = _closing(start, places, i + _ONE)
            e = start + place_of(places, i)
            if load_byte(e) != _QUOTE:
                break
            i += _ONE
            at = _after_blanks(e + _ONE)
            if load_byte(at) != COLON:
                break
            at = _after_blanks(at + _ONE)
            what = _member(e - d - _ONE, load_word(d + _ONE))
            if seen & what:
                break
            seen |= what
            if what == _ZERO:
                if others == OTHERS:
                    break
                h, same = murmur_at(d + _ONE, e), False
                for j in range(others):
                    same |= keys[MOST + j] == h
                if same:
                    break
                keys[MOST + others] = h
                others += _ONE
            c = load_byte(at)
            if what == X:
                if c != _OPEN:
                    break
                i, at, k, to, fine = _features(
                    start, places, i, at + _ONE, k, to, most, hashes, spans, numbers
                )
                if not fine:
                    break
            else:
                kind, v = TEXT, 0.0
                first = at
                if c == _QUOTE:
                    i = _closing(start, places, i + _ONE)
                    first += _ONE
                    stop = start + place_of(places, i)
                    if load_byte(stop) != _QUOTE:
                        break
                    i += _ONE
                    at = stop + _ONE
                else:
                    at = start + place_of(places, i)
                    stop = at
                    while load_byte(stop - _ONE) == BLANK:
                        stop -= _ONE
                    kind, v = plain_value(first, stop, table)
                    if v != v:
                        break
                    if v == 0.0 and stop - first == _TWO:
                        v = 0.0  # -0 is an int, and has no sign
                if what == Y:
                    label_kind, label_at, label_end, label = kind, first, stop, v
                elif what == W:
                    weight = v
                    if kind != NUMBER or not v >= 0.0:
                        break
                elif what == ID:
                    id_kind, id_at, id_end = kind, first, stop
            # Behind a member: a comma, or the end.
            at = _after_blanks(at)
            d = start + place_of(places, i)
            c = load_byte(d)
            if d != at or (c != _COMMA and c != _CLOSE):
                break
            i += _ONE
            at = _after_blanks(d + _ONE)
            more = c == _COMMA
            if not more:
                good = load_byte(at) == NEWLINE
                if load_byte(at) == RETURN:
                    good = load_byte(at + _ONE) == NEWLINE
        if good:
            good, has_zeros, large = read_those_left(
                start, table, numbers, values, begun, k, True, True
            )
            good &= keys_are_hashed(hashes, spans, numbers, start, begun, k, row + _ONE, keys, met)
            if has_zeros:
                k, _ = without_zeros(hashes, values, spans, begun, k)
        good &= (seen & X) != _ZERO and (label_kind != NOTHING or not labelled)
        while load_byte(start + place_of(places, i)) != NEWLINE:
            i += _ONE
        d = start + place_of(places, i)
        if good and coding != ALL_TEXT and coding != UNKNOWN:
            byte = begin
            while byte < d:
                good &= load_byte(byte) <= _LAST_ASCII
                byte += _ONE
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
    return row, n_odd, line, valued
