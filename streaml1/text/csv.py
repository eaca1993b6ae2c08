"""Records of CSV to rows of hashed names, up to the first that is out of the ordinary.

An ordinary record has as many cells as there are columns, each plain or in quotes, with doubled
quotes, marks between cells and line ends within these; numbers, a label and a weight stand in the
columns for them. What an empty cell and an empty line mean is what `csv_schema` says.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import (
    gather_u64,
    load_u8,
    load_u32x8,
    loadu_u64,
    loadu_u64x8,
    movemask,
    splat,
    store_f64x8,
    store_u64,
    store_u64x8,
)
from streaml1.text.byte_names import (
    ALL_TEXT,
    EIGHT_NAMES,
    LATER,
    UNKNOWN,
    copied,
    is_ascii,
    joined_eight,
    murmur_of_pairs,
    put_joined,
    short_copied,
)
from streaml1.text.feature_spans import hash_those_left, read_value
from streaml1.text.structural_index import BLANK, NEWLINE, RETURN, alike, csv_delimiters, place_of

__all__ = [
    "AT", "DONE", "FOUND", "IGNORED", "LABEL", "LARGE", "LINE", "NAMES", "NEXT", "ODD",
    "OPEN", "ROW", "START", "STATE", "TEXT", "UNREAD", "WEIGHT", "few_texts", "rows",
]  # fmt: skip

START, FOUND, NEXT, AT, LINE, ROW, FEATURE, NAMES, LARGE = range(9)
STATE = 9
"""Where the reading stands: whether delimiters were looked for, how many there are, which is next,
bytes and lines that are done with, rows, features, bytes of names, and whether a value is as large
as the limit. Whoever reads a record
otherwise counts its bytes, its lines and its row."""

TEXT, LABEL, WEIGHT, IGNORED = map(np.uint64, (1, 2, 3, 4))
"""What a column is, if not 0: a number."""

DONE, ODD, OPEN, UNREAD = range(4)
"""Why a reading ends: all is read; the next record is odd; it may be open; the coding counts."""

_KIND, _BEGIN, _SIZE, _HASH, _HEAD, _RUN = map(np.uint64, range(6))

_ZERO, _ONE, _FOUR, _SEVEN, _EIGHT, _HALF = map(np.uint64, (0, 1, 4, 7, 8, 32))
_QUOTE, _EQUALS = map(np.uint64, b'"=')
_EIGHT_TIMES = np.uint64(0x0101010101010101)
_ALL_BITS = np.uint64(2**64 - 1)
_BYTE, _PRINTED, _OTHERS = map(np.uint64, (0xFF, 0x21, 0x7F - 0x21))
_LAST_ASCII = np.uint64(127)
_LONGEST = np.uint64(131_000)  # Python's csv refuses longer cells
_LEADS = tuple(map(np.uint64, (0xC3, 0xE1, 0xE3)))  # blanks of other scripts begin with C2, E1-E3


@inlined
def _undoubled(start: Any, end: Any, to: Any) -> Any:
    """Copy a text with one quote for two; returns the address behind the copy."""
    while start < end:
        c = load_u8(start)
        store_u64(to, c)
        to += _ONE
        start += _ONE
        start += np.uint64(c == _QUOTE)
    return to


@inlined
def _is_word(at: Any, end: Any) -> bool:
    """Whether a text begins with something other than a blank of any script, for sure."""
    c = load_u8(at)
    low, lo, hi = _LEADS
    other = c >= low and (c < lo or c > hi)
    return bool(at < end and ((c > BLANK and c <= _LAST_ASCII) or other))


@inlined
def _is_blank(at: Any, end: Any) -> bool:
    while at < end and load_u8(at) == BLANK:
        at += _ONE
    return bool(at == end)


@inlined
def _read(at: Any, end: Any, table: Any) -> Any:
    while at < end and load_u8(at) == BLANK:
        at += _ONE
    while at < end and load_u8(end - _ONE) == BLANK:
        end -= _ONE
    return read_value(at, end, table, False)


@inlined
def _eight_texts(
    start: Any, mark: Any, places: Any, kinds: Any, i: Any, column: Any, done: Any, columns: Any,
    k: Any, to: Any, most: Any, hashes: Any, values: Any, spans: Any,
) -> Any:  # fmt: skip
    """Read eight cells of text, of which the i-th delimiter ends that of the `column`.

    Fewer are left at the end of a record: these and the last of those that are `done`, which this
    has read already.

    Returns
    -------
    How many cells more are read, 0 where they are not ordinary enough, how many delimiters, and
    where the next name goes.
    """
    width = np.uint64(columns.shape[1])
    texts = columns[_RUN, column]
    n = alike(kinds, i, (mark * _EIGHT_TIMES,))
    c = load_u8(kinds + i + n)
    ended = n < _EIGHT and c in (NEWLINE, RETURN)
    count = n + np.uint64(ended)
    ended &= texts == count and column + count == width and done + count >= _EIGHT
    if not (ended or (n == _EIGHT and texts >= _EIGHT)):
        return _ZERO, _ZERO, to
    again = _EIGHT - count
    j, f, first = k - again, i - again, column - again
    begins = load_u32x8(places + _FOUR * f - _FOUR) + _ONE
    size = load_u32x8(places + _FOUR * f) - begins
    cells = gather_u64(begins + start)
    # Of 1 to 8 bytes, which begin with one of ASCII that is printed.
    odd = ((size - _ONE) > _SEVEN) | (((cells & _BYTE) - _PRINTED) > _OTHERS)
    if movemask(odd) or to + EIGHT_NAMES > most:
        return _ZERO, _ZERO, to
    of = np.uint64(columns.ctypes.data) + _EIGHT * first
    names = loadu_u64x8(of + _EIGHT * width * _HEAD)
    sizes = loadu_u64x8(of + _EIGHT * width * _SIZE) - _ONE
    low, high = joined_eight(names, sizes, _EQUALS, cells, size)
    size = size + sizes + _ONE
    store_u64x8(np.uint64(hashes.ctypes.data) + _EIGHT * j, murmur_of_pairs(low, high, size))
    store_f64x8(np.uint64(values.ctypes.data) + _EIGHT * j, splat(1.0))
    to = put_joined(low, high, size, again, to, start, np.uint64(spans.ctypes.data) + _EIGHT * j)
    return count, n, to


@inlined
def _in_quotes(start: Any, mark: Any, places: Any, i: Any, n: Any, end: Any) -> Any:
    """Find the end of a cell in quotes, the first of which is the i-th of n delimiters.

    Returns
    -------
    The delimiter behind the closing quote; where that quote is, or `end` without one; how many
    lines end within; and whether there is a doubled quote.
    """
    lines, doubled = _ZERO, False
    i += _ONE
    while i < n:
        stop = start + place_of(places, i)
        c = load_u8(stop)
        i += _ONE
        if c == _QUOTE:
            if load_u8(stop + _ONE) != _QUOTE:
                return i, stop, lines, doubled
            doubled = True
            i += _ONE
        elif c == NEWLINE:
            lines += _ONE
        elif c != mark and c != RETURN:
            return i, stop, lines, doubled
    return i, end, lines, doubled


@inlined
def _category(
    start: Any, columns: Any, column: Any, first: Any, stop: Any, doubled: Any, k: Any, to: Any,
    most: Any, hashes: Any, values: Any, spans: Any,
) -> Any:  # fmt: skip
    """Write the name of a cell of text, if there is more than blanks between two addresses.

    Returns
    -------
    How many features there are then, where the next name goes, and whether all is well.
    """
    if not _is_word(first, stop):
        return k, to, _is_blank(first, stop)
    size = columns[_SIZE, column]
    if to + size + (stop - first) + np.uint64(32) > most:
        return k, to, False
    name = to
    before = start + columns[_BEGIN, column]
    to = copied(before, before + size, to)
    to = _undoubled(first, stop, to) if doubled else short_copied(first, stop, to)
    hashes[k] = LATER
    values[k] = 1.0
    spans[k] = ((name - start) << _HALF) | (to - name)
    return k + _ONE, to, True


@kernel
def rows(
    start: Any,
    end: Any,
    mark: Any,
    table: Any,
    labelled: Any,
    coding: Any,
    columns: Any,
    positions: Any,
    kinds: Any,
    hashes: Any,
    values: Any,
    names: Any,
    most: Any,
    spans: Any,
    labels: Any,
    w: Any,
    indptr: Any,
    lines: Any,
    begins: Any,
    ends: Any,
    after: Any,
    state: Any,
) -> Any:
    """Read the records between two addresses, the last byte a newline, on from where `state` is.

    Parameters
    ----------
    mark
        What stands between cells.
    columns
        For each what it is; where from `start` its name is, with an equals sign behind it where
        it is of text; how long that is; the hash of the name; its first eight bytes; how many
        columns from it on are of text, with names of up to seven bytes.
    names, most
        Between these addresses names of categories are written.
    labels
        Where from `start` the label of each row begins and ends.
    after
        How many lines are read with each row.

    Returns
    -------
    One of DONE, ODD, OPEN and UNREAD.
    """
    places, of_kinds = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    if state[START] == 0:
        n, ascii_ = csv_delimiters(start, end, mark, places, of_kinds)
        if coding == UNKNOWN and not ascii_:
            return UNREAD
        state[START] = 1
        state[FOUND] = n
    n, i, at = np.uint64(state[FOUND]), np.uint64(state[NEXT]), start + np.uint64(state[AT])
    line, row, k = np.uint64(state[LINE]), np.uint64(state[ROW]), np.uint64(state[FEATURE])
    to = names + np.uint64(state[NAMES])
    width = np.uint64(columns.shape[1])
    ascii_only = coding != ALL_TEXT and coding != UNKNOWN
    status = DONE
    indptr[row] = k
    while i < n and start + place_of(places, i) < at:
        i += _ONE
    while at < end:
        begin, begun, first_name, first_line, first_i = at, k, to, line, i
        d = start + place_of(places, i)
        if d == at and (load_u8(at) == NEWLINE or load_u8(at) == RETURN):
            # An empty line is no record.
            returns = np.uint64(load_u8(at) == RETURN)
            if load_u8(at + returns) != NEWLINE:
                status = ODD
                break
            i += returns + _ONE
            at += returns + _ONE
            line += _ONE
            continue
        weight = 1.0
        label_at = label_end = start
        column = done = _ZERO
        status = ODD
        while column < width:
            if columns[_RUN, column] + done >= _EIGHT and i > _ZERO:
                count, n_found, to = _eight_texts(
                    start, mark, places, of_kinds, i, column, done, columns, k, to, most, hashes,
                    values, spans,
                )  # fmt: skip
                if count:
                    done += count
                    column += count
                    k += count
                    i += n_found
                    d = start + place_of(places, i)
                    if n_found == _EIGHT:
                        at = start + place_of(places, i - _ONE) + _ONE
                        continue
                    if load_u8(d) == RETURN and load_u8(d + _ONE) == NEWLINE:
                        i += _ONE
                        d += _ONE
                    if load_u8(d) == NEWLINE:
                        status = DONE
                    break
            done = _ZERO
            doubled = False
            if load_u8(at) == _QUOTE:
                first = at + _ONE
                i, stop, more_lines, doubled = _in_quotes(start, mark, places, i, n, end)
                line += more_lines
                if stop == end:
                    status = OPEN
                    break
                at = stop + _ONE
                d = start + place_of(places, i)
                if load_u8(stop) != _QUOTE or d != at:
                    break
            else:
                first = at
                d = start + place_of(places, i)
                stop = d
            c = load_u8(d)
            if stop - first > _LONGEST:
                break
            what = columns[_KIND, column]
            if what == TEXT:
                k, to, fine = _category(
                    start, columns, column, first, stop, doubled, k, to, most, hashes, values,
                    spans,
                )  # fmt: skip
                if not fine:
                    break
            elif what == LABEL:
                label_at, label_end = first, stop
                ordinary = _is_word(first, stop) and load_u8(stop - _ONE) > BLANK
                empty = first == stop and not labelled
                if doubled or not (empty or (ordinary and load_u8(stop - _ONE) <= _LAST_ASCII)):
                    break
            elif what == WEIGHT:
                weight = _read(first, stop, table)
                if not weight >= 0.0:
                    break
            elif what != IGNORED and first < stop and not _is_blank(first, stop):
                v = _read(first, stop, table)
                if v != v:
                    break
                if not abs(v) < VALUE_LIMIT:
                    state[LARGE] = 1
                if v != 0.0:
                    hashes[k] = columns[_HASH, column]
                    values[k] = v
                    spans[k] = (columns[_BEGIN, column] << _HALF) | columns[_SIZE, column]
                    k += _ONE
            column += _ONE
            if c != mark:
                if c == RETURN and load_u8(d + _ONE) == NEWLINE:
                    i += _ONE
                    d += _ONE
                    c = NEWLINE
                if c == NEWLINE and column == width:
                    status = DONE
                break
            i += _ONE
            at = d + _ONE
        if status == DONE and ascii_only and not is_ascii(begin, d):
            status = ODD
        if status != DONE:
            at, k, to, line, i = begin, begun, first_name, first_line, first_i
            break
        hash_those_left(hashes, spans, start, begun, k)
        lines[row] = first_line
        line += _ONE
        i += _ONE
        at = d + _ONE
        w[row] = weight
        labels[row, _ZERO] = label_at - start
        labels[row, _ONE] = label_end - start
        begins[row] = begin - start
        ends[row] = at - start
        after[row] = line
        row += _ONE
        indptr[row] = k
    state[NEXT], state[AT], state[LINE] = i, at - start, line
    state[ROW], state[FEATURE], state[NAMES] = row, k, to - names
    return status


@kernel
def few_texts(start: Any, bounds: Any, words: Any, movemask: Any) -> Any:
    """Tell apart texts of up to eight bytes, given where from an address they begin and end.

    Parameters
    ----------
    start, bounds
        The address, and int64 of shape (n, 2).
    words
        Gets the texts, each once, zeros behind.
    which
        Gets which of these each text is, uint8.

    Returns
    -------
    How many there are; one more than `words` has room for, where there are more or longer ones.
    """
    most, found = np.uint64(len(words)), _ZERO
    for row in range(np.uint64(len(bounds))):
        begin = np.uint64(bounds[row, 0])
        size = np.uint64(bounds[row, 1]) - begin
        if size > _EIGHT:
            return most + _ONE
        word = _ZERO
        if size:
            word = loadu_u64(start + begin) & (_ALL_BITS >> (_EIGHT * (_EIGHT - size)))
            if not word >> (_EIGHT * (size - _ONE)):  # a zero at its end is not seen in a word
                return most + _ONE
        k = _ZERO
        while k < found and words[k] != word:
            k += _ONE
        if k == found:
            if found == most:
                return most + _ONE
            words[k] = word
            found += _ONE
        movemask[row] = k
    return found
