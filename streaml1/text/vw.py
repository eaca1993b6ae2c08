"""Lines of Vowpal Wabbit's text to rows of hashed names; what is out of the ordinary is told."""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import borrowed, load_u8, store_u64
from streaml1.text.byte_names import (
    ALL_TEXT,
    LATER,
    UNKNOWN,
    comes_again,
    copied,
    is_ascii,
    is_head,
    short_copied,
)
from streaml1.text.feature_spans import (
    MOST,
    hash_those_left,
    read_those_left,
    read_value,
    without_zeros,
)
from streaml1.text.numbers import number
from streaml1.text.structural_index import (
    BAR,
    BLANK,
    COLON,
    NEWLINE,
    RETURN,
    TAB,
    lines_at_once,
    place_of,
    vw_delimiters,
)
from streaml1.text.vw_simd import by_eights, may_be_eight

__all__ = ["rows"]

_NO_TEXT, _LAST_BIT = np.uint64(2**64 - 1), np.uint64(63)

_ZERO, _ONE, _TWO, _EIGHT, _HALF = map(np.uint64, (0, 1, 2, 8, 32))
_QUOTE, _CARET, _EQUALS = map(np.uint64, b"'^=")


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == BLANK) | (c == TAB))


@inlined
def _text_of(start: Any, end: Any, texts: Any, sizes: Any) -> Any:
    """Which of the texts has the name between two addresses; or none."""
    found = _NO_TEXT
    for z in range(np.uint64(len(texts))):
        if end - start == sizes[z] and is_head(start, texts[z], sizes[z]):
            found = np.uint64(z)
    return found


@inlined
def _is_of_text(start: Any, end: Any, texts: Any, sizes: Any) -> bool:
    """Whether the name between two addresses is that of a text, or of one of its words."""
    found = False
    for z in range(np.uint64(len(texts))):
        behind = start + sizes[z]
        if end >= behind and (end == behind or load_u8(behind) == _EQUALS):
            found |= is_head(start, texts[z], sizes[z])
    return found


@inlined
def _ordinary(
    start: Any, places: Any, kinds: Any, i: Any, at: Any, k: Any, to: Any, most: Any, prefix: Any,
    prefix_end: Any, numbers: Any, hashes: Any, spans: Any,
) -> Any:  # fmt: skip
    """Find up to eight features of a namespace, as long as a blank stands behind each.

    Returns
    -------
    The next delimiter, where the next word begins, how many features there are then, and where the
    next name goes.
    """
    before = prefix_end - prefix
    last = k + _EIGHT
    while True:
        d = start + place_of(places, i)
        end, c = d, load_u8(kinds + i)
        where, step = _ZERO, _ONE
        if c == COLON:
            end = start + place_of(places, i + _ONE)
            c = load_u8(kinds + i + _ONE)
            where, step = ((d + _ONE - start) << _HALF) | (end - d - _ONE), _TWO
        if c != BLANK or d == at or to + (d - at) + before + np.uint64(32) > most:
            return i, at, k, to
        first, size = at, d - at
        if before:
            first = to
            to = copied(prefix, prefix_end, to)
            store_u64(to, _CARET)
            to = short_copied(at, d, to + _ONE)
            size = to - first
        numbers[k] = where
        hashes[k] = LATER
        spans[k] = ((first - start) << _HALF) | size
        k += _ONE
        i += step
        at = end + _ONE
        if k == last:
            return i, at, k, to


@inlined
def _before_bar(start: Any, table: Any, places: Any, i: Any, at: Any) -> Any:
    """Read what stands before the bar of a line: up to three words, of which the last may be a tag.

    Returns
    -------
    The delimiter behind them, how many numbers there are, the label, the weight, and whether all
    is well.
    """
    label, weight = np.nan, 1.0
    count = _ZERO
    tagged: Any = False
    good: Any = True
    d = start + place_of(places, i)
    c = load_u8(d)
    while True:
        if d > at:
            tagged = c == BAR or load_u8(at) == _QUOTE
            if not tagged:
                if count == _ZERO:
                    label = number(at, d, table)
                    good &= label == label
                else:
                    weight = number(at, d, table)
                    good &= weight >= 0.0 and count == _ONE
                count += _ONE
            elif c != BAR:
                # A word in quotes is the tag only where it is the last.
                after = d
                while _is_blank(load_u8(after)):
                    after += _ONE
                good &= load_u8(after) == BAR
        if not _is_blank(c):
            return i, count, label, weight, good
        i += _ONE
        at = d + _ONE
        d = start + place_of(places, i)
        c = load_u8(d)


@inlined
def _text(start: Any, places: Any, i: Any, prefix: Any, prefix_end: Any, to: Any, most: Any) -> Any:
    """Write the name and the text of a namespace, which goes up to the next bar or the line's end.

    Returns
    -------
    The delimiter that ends it, where the next name goes, and whether all is well.
    """
    d = start + place_of(places, i)
    c = load_u8(d)
    at = d + np.uint64(_is_blank(c))
    while c != BAR and c != NEWLINE:
        i += _ONE
        d = start + place_of(places, i)
        c = load_u8(d)
    stop = d
    if c == NEWLINE and stop > at:
        stop -= np.uint64(load_u8(d - _ONE) == RETURN)
    at = min(at, stop)
    returns_twice = c == NEWLINE and stop > at and load_u8(stop - _ONE) == RETURN
    size = prefix_end - prefix + stop - at
    if returns_twice or to + size + np.uint64(32) > most:
        return i, to, False
    to = copied(prefix, prefix_end, to)
    store_u64(to, _EQUALS)
    return i, short_copied(at, stop, to + _ONE), True


@inlined
def _features(
    start: Any, table: Any, places: Any, kinds: Any, i: Any, at: Any, k: Any, to: Any, most: Any,
    numbers: Any, hashes: Any, values: Any, spans: Any, texts: Any, sizes: Any,
) -> Any:  # fmt: skip
    """Find the features of a line from behind its first bar on, and read what is read by eights.

    Returns
    -------
    The delimiter that ends the line, or where it is odd one before that; how many features there
    are then; where the next name goes; up to which feature values are read; whether one of these is
    zero; whether no namespace has a value; and whether all is well.
    """
    ordinary = len(texts) == 0
    known = k
    plain: Any = True  # no namespace has a value
    zeros: Any = False
    scale = 1.0
    prefix = prefix_end = at
    opened = True  # the namespace may have a name here
    seen = _ZERO  # the texts of the line
    while True:
        if ordinary and plain and not opened:
            if may_be_eight(kinds, i):
                i, at, k, to, known, zero, ended = by_eights(
                    start, table, places, kinds, i, at, k, to, most, prefix, prefix_end, known,
                    numbers, hashes, values, spans,
                )  # fmt: skip
                zeros |= zero
                if ended:
                    return i, k, to, known, zeros, plain, True
            i, at, k, to = _ordinary(
                start, places, kinds, i, at, k, to, most, prefix, prefix_end, numbers, hashes,
                spans,
            )  # fmt: skip
        d = start + place_of(places, i)
        c = load_u8(d)
        stop = d
        if c == NEWLINE:
            stop -= np.uint64(d > at and load_u8(d - _ONE) == RETURN)
            if stop > at and load_u8(stop - _ONE) == RETURN:
                break
        name_end = value_at = stop
        where = _ZERO
        if c == COLON:
            if d == at:
                break
            i += _ONE
            d = start + place_of(places, i)
            c = load_u8(d)
            stop = d
            if c == NEWLINE:
                stop -= np.uint64(load_u8(d - _ONE) == RETURN)
            value_at = name_end + _ONE
            where = ((value_at - start) << _HALF) | (stop - value_at)
            if c == COLON:
                break
        if name_end > at and opened:
            prefix, prefix_end = at, name_end
            if where:
                scale = read_value(value_at, stop, table, False)
                for j in range(known, k if plain else known):
                    values[j] = 1.0
                plain = False
                if not abs(scale) < MOST:
                    break
            which = _text_of(at, name_end, texts, sizes)
            if which != _NO_TEXT:
                bit = _ONE << min(which, _LAST_BIT)
                if where or seen & bit:  # it has a value, or has come
                    break
                seen |= bit
                first = to
                i, to, fine = _text(start, places, i, prefix, prefix_end, to, most)
                if not fine:
                    break
                d = start + place_of(places, i)
                c = load_u8(d)
                values[k] = 1.0
                numbers[k] = _ZERO
                hashes[k] = LATER
                spans[k] = ((first - start) << _HALF) | (to - first)
                k += _ONE
        elif name_end > at:
            first, size = at, name_end - at
            if prefix_end > prefix:
                if to + size + (prefix_end - prefix) + np.uint64(32) > most:
                    break
                first = to
                to = copied(prefix, prefix_end, to)
                store_u64(to, _CARET)
                to = short_copied(at, name_end, to + _ONE)
                size = to - first
            elif _is_of_text(at, name_end, texts, sizes):
                break
            values[k] = scale
            numbers[k] = where
            hashes[k] = LATER
            spans[k] = ((first - start) << _HALF) | size
            k += _ONE
        opened = False
        if c == NEWLINE:
            return i, k, to, known, zeros, plain, True
        if c == BAR:
            opened = True
            scale = 1.0
            prefix = prefix_end = d
        i += _ONE
        at = d + _ONE
    return i, k, to, known, zeros, plain, False


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
    texts: Any,
    sizes: Any,
) -> Any:
    """Read the lines between two addresses, the last byte a newline.

    As `streaml1.text.svmlight.rows`, but blank lines are odd, and of each feature `hashes` has the
    hash of its name; `spans` has where from `start` the name begins, times 2**32, and its length.
    A name that does not stand so in the text is written from the address `names` on, up to the
    address `most`. A value of zero is left out. `coding` tells whether all is UTF-8; where it is
    not, a line with other bytes than ASCII is odd; where it is UNKNOWN, and there is such a byte,
    nothing is read, and no lines are told. `numbers` has a place for each feature. `texts` has
    where the names of namespaces are that are raw text, some bytes behind each, and `sizes` how
    long: such a one is one feature, its name the name=text.

    Returns
    -------
    How many rows, how many of them odd, how many lines, whether all values are such as may be
    learnt, and whether no row is known to have a name twice.
    """
    hashes, values, spans = borrowed((hashes, values, spans))
    numbers, texts, sizes = borrowed((numbers, texts, sizes))
    row, k, n_odd, line = _ZERO, _ZERO, _ZERO, _ZERO
    valued: Any = True
    places, of_kinds = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    i, n, at, to = _ZERO, _ZERO, start, names
    last = np.uint64(len(hashes))
    indptr[0] = 0
    while at < end:
        if i == n:
            i = _ZERO
            n, ascii_ = vw_delimiters(start, at, lines_at_once(at, end), places, of_kinds)
            if coding == UNKNOWN and not ascii_:
                return _ZERO, _ZERO, _ZERO, False, False
        begun, begin, first_name = k, at, to
        i, count, label, weight, good = _before_bar(start, table, places, i, at)
        d = start + place_of(places, i)
        good &= load_u8(d) == BAR and (count > _ZERO or not labelled)
        plain: Any = True
        has_zeros: Any = False
        large: Any = False
        known = k
        if good:
            i, k, to, known, has_zeros, plain, good = _features(
                start, table, places, of_kinds, i + _ONE, d + _ONE, k, to, most, numbers, hashes,
                values, spans, texts, sizes,
            )  # fmt: skip
        if good and known < k:
            good, zeros, large = read_those_left(
                start, table, numbers, values, known, k, plain, False
            )
            has_zeros |= zeros
        if good:
            hash_those_left(hashes, spans, start, begun, k)
        if good and has_zeros:
            k, zeros = without_zeros(hashes, values, spans, begun, k)
            good = not comes_again(hashes, begun, k, last, zeros)
        if good and coding != ALL_TEXT and coding != UNKNOWN:
            good = is_ascii(begin, start + place_of(places, i))
        while load_u8(start + place_of(places, i)) != NEWLINE:
            i += _ONE
        at = start + place_of(places, i) + _ONE
        i += _ONE
        if not good:
            k, to = begun, first_name
            odd[n_odd] = row
            n_odd += _ONE
            weight, large = 1.0, False
        y[row] = label
        w[row] = weight
        lines[row] = line
        begins[row] = begin - start
        ends[row] = at - start
        row += _ONE
        line += _ONE
        indptr[row] = k
        valued &= not large
    return row, n_odd, line, valued, False
