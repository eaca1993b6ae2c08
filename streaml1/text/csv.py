"""CSV records to rows of hashed names, up to the first irregular record.

`parse_records` works on a whole chunk:

1. `index_csv` writes all delimiters (stage 1, `structural_index.py`).
2. The loop of `parse_records` steps through the cells of each record. Runs of short category cells
   are read eight at a time (`_read_categories_x8`), other cells one by one (`_read_category`, and
   the functions of `csv_cells.py`).
3. `hash_pending_names` completes the names of a record (`feature_spans.py`).

At an irregular record the kernel stops, and Python reads this record
(`streaml1.sources.readers.csv_schema`); then the kernel continues after it. A regular record has as
many cells as there are columns, plain or quoted, with numbers in the columns of numbers. Quoted
cells may contain doubled quotes, delimiters and newlines.
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
    splat_u64,
    store_f64x8,
    store_u64x8,
)
from streaml1.text.byte_names import (
    NAMES_X8_BYTES,
    UNHASHED,
    UTF8_UNKNOWN,
    UTF8_VALID,
    copy_bytes,
    copy_short_bytes,
    is_ascii,
    join_names_x8,
    murmur_x8_of_joined,
    write_names_x8,
)
from streaml1.text.csv_cells import (
    ALL_ONES,
    LAST_ASCII,
    MISSING,
    PRESENT,
    QUOTE,
    SIX_BITS,
    SLACK,
    WORDS_FIRST,
    WORDS_HEADER,
    WORDS_SECOND,
    begins_visibly,
    copy_undoubled,
    is_blank,
    may_be_header,
    missing_state,
    quoted_cell,
    read_boolean,
    read_number,
    word_at,
)
from streaml1.text.feature_spans import hash_pending_names
from streaml1.text.structural_index import (
    CR,
    NEWLINE,
    SPACE,
    index_csv,
    matching_kinds,
    position_of,
)

__all__ = [
    "CATEGORY", "DONE", "IGNORED", "IRREGULAR", "LABEL", "N_STATE", "OPEN", "STATE_DELIMITERS",
    "STATE_FEATURE", "STATE_HAS_LARGE", "STATE_INDEXED", "STATE_LINE", "STATE_NAME_BYTES",
    "STATE_NEXT", "STATE_OFFSET", "STATE_ROW", "UTF8_NEEDED", "WEIGHT", "encode_short_texts",
    "parse_records",
]  # fmt: skip

(
    STATE_INDEXED, STATE_DELIMITERS, STATE_NEXT, STATE_OFFSET, STATE_LINE, STATE_ROW,
    STATE_FEATURE, STATE_NAME_BYTES, STATE_HAS_LARGE,
) = range(9)  # fmt: skip
N_STATE = 9
"""Entries of the state of a chunk: whether it is indexed, how many delimiters it has, the next
one; how many bytes, lines, rows, features and bytes of names are done; whether a value exceeds what
models accept. Python advances offset, line and row when it has read a record."""

CATEGORY, LABEL, WEIGHT, IGNORED = map(np.uint64, (1, 2, 3, 4))
"""Kinds of columns; 0 is a column of numbers."""

DONE, IRREGULAR, OPEN, UTF8_NEEDED = range(4)
"""Why `parse_records` returns: all records are read; the next record is irregular; the next record
may continue after the chunk; the caller must tell whether the text is valid UTF-8."""

_KIND, _BEGIN, _SIZE, _HASH, _HEAD, _RUN = map(np.uint64, range(6))  # rows of `columns`

_ZERO, _ONE, _THREE, _FOUR, _SEVEN, _EIGHT = map(np.uint64, (0, 1, 3, 4, 7, 8))
_OFFSET_BITS = np.uint64(32)
_EQUALS = np.uint64(ord("="))
_BYTE_ONES = np.uint64(0x0101010101010101)
_BYTE = np.uint64(2**8 - 1)
_FIRST_VISIBLE, _N_VISIBLE = map(np.uint64, (0x21, 0x7F - 0x21))
_MAX_CELL = np.uint64(131_000)  # Python's csv module rejects longer cells


@kernel
def parse_records(
    start: Any,
    end: Any,
    delimiter: Any,
    powers: Any,
    require_label: Any,
    utf8: Any,
    columns: Any,
    words: Any,
    positions: Any,
    kinds: Any,
    hashes: Any,
    values: Any,
    names: Any,
    names_end: Any,
    spans: Any,
    labels: Any,
    w: Any,
    indptr: Any,
    lines: Any,
    begins: Any,
    ends: Any,
    lines_after: Any,
    state: Any,
) -> Any:
    """Parse records from where `state` points to; the last byte before `end` must be a newline.

    Parameters
    ----------
    start, end
        Addresses of the chunk. All offsets below count from `start`.
    delimiter
        The byte between cells.
    powers
        `streaml1.text.numbers.POWERS`.
    require_label
        Treat records with an empty label as irregular.
    utf8
        Whether the chunk is valid UTF-8. With UTF8_UNKNOWN the kernel returns UTF8_NEEDED if a byte
        is not ASCII; with UTF8_INVALID records with such a byte are irregular.
    columns
        Describes the columns, uint64, shape (6, columns): kind; offset and size of the name, with
        an equals sign at its end for categories; hash of the name; its first eight bytes; how many
        columns from this one on are categories with names of up to seven bytes.
    words
        Missing words, decimal mark and header; see `WORDS_LIST`.
    positions, kinds
        Scratch arrays for the structural index.
    hashes, values, spans
        Receive the features: the hash of the name, the value, and where the name is,
        ``offset << 32 | length``. Features with value 0 are left out.
    names, names_end
        Addresses between which the names of categories are written, `column=cell`.
    labels
        Receives the first and last offset of the label of each row, shape (rows, 2).
    w
        Receives the sample weights.
    indptr
        Receives where the features of each row begin.
    lines, begins, ends
        Receive the first line of each record, from 0, and its first and last offset.
    lines_after
        Receives how many lines are read once a record is.
    state
        N_STATE entries, int64, zeros at first.

    Returns
    -------
    DONE, IRREGULAR, OPEN or UTF8_NEEDED.
    """
    positions_at, kinds_at = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    if state[STATE_INDEXED] == 0:
        n, all_ascii = index_csv(start, end, delimiter, positions_at, kinds_at)
        if utf8 == UTF8_UNKNOWN and not all_ascii:
            return UTF8_NEEDED
        state[STATE_INDEXED] = 1
        state[STATE_DELIMITERS] = n
    n, i = np.uint64(state[STATE_DELIMITERS]), np.uint64(state[STATE_NEXT])
    pos, line = start + np.uint64(state[STATE_OFFSET]), np.uint64(state[STATE_LINE])
    row, k = np.uint64(state[STATE_ROW]), np.uint64(state[STATE_FEATURE])
    name_pos = names + np.uint64(state[STATE_NAME_BYTES])
    width = np.uint64(columns.shape[1])
    words_at = np.uint64(words.ctypes.data)
    header_bytes = words[WORDS_HEADER]
    first_size = columns[_SIZE, 0] - np.uint64(columns[_KIND, 0] == CATEGORY)  # no equals sign
    ascii_only = utf8 != UTF8_VALID and utf8 != UTF8_UNKNOWN
    status = DONE
    indptr[row] = k
    # Skip the delimiters of a record that Python has read.
    while i < n and start + position_of(positions_at, i) < pos:
        i += _ONE
    # Invariant: the records before `pos` are in rows 0 to `row`, their features in 0 to `k`. The
    # i-th delimiter is the first one at or after `pos`.
    while pos < end:
        begin, first_feature, first_name, first_line, first_i = pos, k, name_pos, line, i
        d = start + position_of(positions_at, i)
        if d == pos and (load_u8(pos) == NEWLINE or load_u8(pos) == CR):
            # An empty line is not a record.
            returns = np.uint64(load_u8(pos) == CR)
            if load_u8(pos + returns) != NEWLINE:
                status = IRREGULAR
                break
            i += returns + _ONE
            pos += returns + _ONE
            line += _ONE
            continue
        status = IRREGULAR
        if (header_bytes >> (load_u8(pos) & SIX_BITS)) & _ONE and may_be_header(
            pos, start + columns[_BEGIN, 0], first_size, delimiter
        ):
            break
        weight = 1.0
        label_begin = label_end = start
        column = in_run = _ZERO
        # Invariant: the cells before `column` are read, the last `in_run` of them eight at a time.
        # The next cell is at `pos`. The status becomes DONE at the end of a regular record.
        while column < width:
            if columns[_RUN, column] + in_run >= _EIGHT and i > _ZERO:
                count, n_matched, name_pos = _read_categories_x8(
                    start, delimiter, positions_at, kinds_at, i, column, in_run, columns, words_at,
                    k, name_pos, names_end, hashes, values, spans,
                )  # fmt: skip
                if count:
                    in_run += count
                    column += count
                    k += count
                    i += n_matched
                    d = start + position_of(positions_at, i)
                    if n_matched == _EIGHT:
                        pos = start + position_of(positions_at, i - _ONE) + _ONE
                        continue
                    if load_u8(d) == CR and load_u8(d + _ONE) == NEWLINE:
                        i += _ONE
                        d += _ONE
                    if load_u8(d) == NEWLINE:
                        status = DONE
                    break
            in_run = _ZERO
            doubled = False
            if load_u8(pos) == QUOTE:
                first = pos + _ONE
                i, stop, more_lines, doubled = quoted_cell(
                    start, delimiter, positions_at, i, n, end
                )
                line += more_lines
                if stop == end:
                    status = OPEN
                    break
                pos = stop + _ONE
                d = start + position_of(positions_at, i)
                if load_u8(stop) != QUOTE or d != pos:
                    break
            else:
                first = pos
                d = start + position_of(positions_at, i)
                stop = d
            c = load_u8(d)
            if stop - first > _MAX_CELL:
                break
            kind = columns[_KIND, column]
            if kind == CATEGORY:
                k, name_pos, is_regular = _read_category(
                    start, columns, words_at, column, first, stop, doubled, k, name_pos, names_end,
                    hashes, values, spans,
                )  # fmt: skip
                if not is_regular:
                    break
            elif kind == LABEL:
                label_begin, label_end = first, stop
                is_text = begins_visibly(first, stop) and load_u8(stop - _ONE) > SPACE
                is_empty = first == stop and not require_label
                if doubled or not (is_empty or (is_text and load_u8(stop - _ONE) <= LAST_ASCII)):
                    break
                # Elsewhere the label is left out when the labels are encoded.
                if require_label and missing_state(first, stop, words_at) != PRESENT:
                    break
            elif kind == WEIGHT:
                weight = read_number(first, stop, powers, words_at, name_pos, names_end, np.nan)
                if not weight >= 0.0:
                    break
            elif kind != IGNORED and first < stop and not is_blank(first, stop):
                v = read_number(first, stop, powers, words_at, name_pos, names_end, 0.0)
                if v != v:
                    v = read_boolean(first, stop)
                if v != v:
                    break
                if not abs(v) < VALUE_LIMIT:
                    state[STATE_HAS_LARGE] = 1
                if v != 0.0:
                    hashes[k] = columns[_HASH, column]
                    values[k] = v
                    spans[k] = (columns[_BEGIN, column] << _OFFSET_BITS) | columns[_SIZE, column]
                    k += _ONE
            column += _ONE
            if c != delimiter:
                if c == CR and load_u8(d + _ONE) == NEWLINE:
                    i += _ONE
                    d += _ONE
                    c = NEWLINE
                if c == NEWLINE and column == width:
                    status = DONE
                break
            i += _ONE
            pos = d + _ONE
        if status == DONE and ascii_only and not is_ascii(begin, d):
            status = IRREGULAR
        if status != DONE:
            pos, k, name_pos, line, i = begin, first_feature, first_name, first_line, first_i
            break
        hash_pending_names(hashes, spans, start, first_feature, k)
        lines[row] = first_line
        line += _ONE
        i += _ONE
        pos = d + _ONE
        w[row] = weight
        labels[row, _ZERO] = label_begin - start
        labels[row, _ONE] = label_end - start
        begins[row] = begin - start
        ends[row] = pos - start
        lines_after[row] = line
        row += _ONE
        indptr[row] = k
    state[STATE_NEXT], state[STATE_OFFSET], state[STATE_LINE] = i, pos - start, line
    state[STATE_ROW], state[STATE_FEATURE], state[STATE_NAME_BYTES] = row, k, name_pos - names
    return status


@inlined
def _read_categories_x8(
    start: Any, delimiter: Any, positions: Any, kinds: Any, i: Any, column: Any, in_run: Any,
    columns: Any, words: Any, k: Any, name_pos: Any, names_end: Any, hashes: Any, values: Any,
    spans: Any,
) -> Any:  # fmt: skip
    """Read eight category cells of 1 to 8 bytes; the i-th delimiter ends the cell of `column`.

    At the end of a record fewer than eight cells may be left. They are processed together with
    those before them, which are then written a second time with the same results.

    Parameters
    ----------
    in_run
        How many of the cells before `column` were read here.

    Returns
    -------
    How many cells are read, 0 if they are irregular; how many delimiters; where the next name goes.
    """
    width = np.uint64(columns.shape[1])
    run = columns[_RUN, column]
    n = matching_kinds(kinds, i, (delimiter * _BYTE_ONES,))
    c = load_u8(kinds + i + n)
    ended = n < _EIGHT and c in (NEWLINE, CR)
    count = n + np.uint64(ended)
    ended &= run == count and column + count == width and in_run + count >= _EIGHT
    if not (ended or (n == _EIGHT and run >= _EIGHT)):
        return _ZERO, _ZERO, name_pos
    overlap = _EIGHT - count
    j, f, first = k - overlap, i - overlap, column - overlap
    begins = load_u32x8(positions + _FOUR * f - _FOUR) + _ONE
    size = load_u32x8(positions + _FOUR * f) - begins
    cells = gather_u64(begins + start)
    # Sizes must be 1 to 8. The first byte must be visible ASCII: cells of white space are empty.
    first_byte = cells & _BYTE
    irregular_mask = ((size - _ONE) > _SEVEN) | ((first_byte - _FIRST_VISIBLE) > _N_VISIBLE)
    # Cells that may be missing words are read one by one.
    text = cells & (ALL_ONES >> (((_EIGHT - size) * _EIGHT) & SIX_BITS))
    second = ((text >> _EIGHT) ^ cells ^ (size << _THREE)) & SIX_BITS
    word_mask = splat_u64(word_at(words, WORDS_FIRST)) >> (cells & SIX_BITS)
    word_mask &= (splat_u64(word_at(words, WORDS_SECOND)) >> second) & _ONE
    if movemask(irregular_mask | word_mask) or name_pos + NAMES_X8_BYTES > names_end:
        return _ZERO, _ZERO, name_pos
    columns_at = np.uint64(columns.ctypes.data) + _EIGHT * first
    heads = loadu_u64x8(columns_at + _EIGHT * width * _HEAD)
    head_sizes = loadu_u64x8(columns_at + _EIGHT * width * _SIZE) - _ONE
    low, high = join_names_x8(heads, head_sizes, _EQUALS, cells, size)
    size = size + head_sizes + _ONE
    store_u64x8(np.uint64(hashes.ctypes.data) + _EIGHT * j, murmur_x8_of_joined(low, high, size))
    store_f64x8(np.uint64(values.ctypes.data) + _EIGHT * j, splat(1.0))
    name_pos = write_names_x8(
        low, high, size, overlap, name_pos, start, np.uint64(spans.ctypes.data) + _EIGHT * j
    )
    return count, n, name_pos


@inlined
def _read_category(
    start: Any, columns: Any, words: Any, column: Any, first: Any, stop: Any, doubled: Any, k: Any,
    name_pos: Any, names_end: Any, hashes: Any, values: Any, spans: Any,
) -> Any:  # fmt: skip
    """Write the name `column=cell` of a category cell, unless the cell is blank.

    Returns
    -------
    The end of the features, where the next name goes, and whether the cell is regular.
    """
    if not begins_visibly(first, stop):
        return k, name_pos, is_blank(first, stop)
    missing = missing_state(first, stop, words)
    if missing != PRESENT:
        return k, name_pos, missing == MISSING
    size = columns[_SIZE, column]
    if name_pos + size + (stop - first) + SLACK > names_end:
        return k, name_pos, False
    name = name_pos
    prefix = start + columns[_BEGIN, column]
    name_pos = copy_bytes(prefix, prefix + size, name_pos)
    if doubled:
        name_pos = copy_undoubled(first, stop, name_pos)
    else:
        name_pos = copy_short_bytes(first, stop, name_pos)
    hashes[k] = UNHASHED
    values[k] = 1.0
    spans[k] = ((name - start) << _OFFSET_BITS) | (name_pos - name)
    return k + _ONE, name_pos, True


@kernel
def encode_short_texts(start: Any, bounds: Any, distinct: Any, codes: Any) -> Any:
    """Encode texts of up to eight bytes as indices into their distinct values.

    Parameters
    ----------
    start, bounds
        Text i is between the offsets ``bounds[i]`` from the address `start`; int64, shape (n, 2).
    distinct
        Receives the distinct texts as zero-padded words, in the order of their first occurrence.
    codes
        Receives the index of each text, uint8.

    Returns
    -------
    The number of distinct texts; ``len(distinct) + 1`` if there are more, or if a text is longer.
    """
    max_distinct, found = np.uint64(len(distinct)), _ZERO
    # Invariant: the texts before `row` have codes below `found`.
    for row in range(np.uint64(len(bounds))):
        begin = np.uint64(bounds[row, 0])
        size = np.uint64(bounds[row, 1]) - begin
        if size > _EIGHT:
            return max_distinct + _ONE
        word = _ZERO
        if size:
            word = loadu_u64(start + begin) & (ALL_ONES >> (_EIGHT * (_EIGHT - size)))
            if not word >> (_EIGHT * (size - _ONE)):  # padding would hide a zero byte at the end
                return max_distinct + _ONE
        k = _ZERO
        while k < found and distinct[k] != word:
            k += _ONE
        if k == found:
            if found == max_distinct:
                return max_distinct + _ONE
            distinct[k] = word
            found += _ONE
        codes[row] = k
    return found
