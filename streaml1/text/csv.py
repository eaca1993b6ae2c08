"""CSV records to rows of hashed names, up to the first irregular record.

`parse_records` works on a whole chunk:

1. `index_csv` writes all delimiters (stage 1, `structural_index.py`).
2. `_read_record` steps through the cells of a record. Runs of short category cells are read eight
   at a time (`_read_categories_x8`), other cells one by one (`_read_category`, `_read_value`, and
   the functions of `csv_cells.py`).
3. `hash_pending_names` completes the names of a record (`feature_spans.py`).

At an irregular record the kernel stops, and Python reads this record
(`streaml1.sources.readers.csv_schema`); then the kernel continues after it. A regular record has as
many cells as there are columns, plain or quoted, with numbers in the columns of numbers. Quoted
cells may contain doubled quotes, delimiters and newlines.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.ascii import CR, EQUALS, NEWLINE, QUOTE, SPACE
from streaml1.core.jit import inlined, kernel, u64
from streaml1.core.rows import VALUE_LIMIT
from streaml1.core.simd import (
    borrowed,
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
from streaml1.core.spans import OFFSET_BITS
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
from streaml1.text.structural_index import delimiter_at, index_csv, indexed_text, matching_kinds

__all__ = [
    "CATEGORY", "DONE", "IGNORED", "IRREGULAR", "LABEL", "N_STATE", "OPEN", "STATE_DELIMITERS",
    "STATE_FEATURE", "STATE_HAS_LARGE", "STATE_INDEXED", "STATE_LINE", "STATE_NAME_BYTES",
    "STATE_NEXT", "STATE_OFFSET", "STATE_ROW", "UTF8_NEEDED", "WEIGHT", "RecordArrays", "Table",
    "encode_short_texts", "parse_records",
]  # fmt: skip

(
    STATE_INDEXED, STATE_DELIMITERS, STATE_NEXT, STATE_OFFSET, STATE_LINE, STATE_ROW,
    STATE_FEATURE, STATE_NAME_BYTES, STATE_HAS_LARGE,
) = range(9)  # fmt: skip
N_STATE = 9
"""Entries of the state of a chunk: whether it is indexed, how many delimiters it has, the next
one; how many bytes, lines, rows, features and bytes of names are done; whether a value exceeds what
models accept. Python advances offset, line and row when it has read a record."""

CATEGORY, LABEL, WEIGHT, IGNORED = map(u64, (1, 2, 3, 4))
"""Kinds of columns; 0 is a column of numbers."""

DONE, IRREGULAR, OPEN, UTF8_NEEDED = range(4)
"""Why `parse_records` returns: all records are read; the next record is irregular; the next record
may continue after the chunk; the caller must check whether the text is valid UTF-8."""

_KIND, _BEGIN, _SIZE, _HASH, _HEAD, _RUN = map(u64, range(6))  # rows of `columns`

_BYTE_ONES = u64(0x0101010101010101)
_BYTE = u64(2**8 - 1)
_FIRST_VISIBLE, _N_VISIBLE = map(u64, (0x21, 0x7F - 0x21))
_MAX_CELL = u64(131_000)  # Python's csv module rejects longer cells


class Table(NamedTuple):
    """The text of a chunk, and what its columns are."""

    start: Any
    end: Any
    names: Any
    names_end: Any
    powers: Any
    require_label: Any
    utf8: Any
    """As in `line_arrays.Lines`; names are `column=cell`. With UTF8_UNKNOWN the kernel returns
    UTF8_NEEDED if a byte is not ASCII."""
    delimiter: Any
    """The byte between cells."""
    columns: Any
    """Describes the columns, uint64, shape (6, columns): kind; offset and size of the name, with an
    equals sign at its end for categories; hash of the name; its first eight bytes; how many columns
    from this one on are categories with names of up to seven bytes."""
    words: Any
    """Missing words, decimal mark and header; see `csv_cells.WORDS_LIST`."""


class RecordArrays(NamedTuple):
    """What the kernel writes."""

    positions: Any
    kinds: Any
    """Scratch arrays for the structural index."""
    hashes: Any
    values: Any
    spans: Any
    """The features: the hash of the name, the value, and where the name is,
    ``offset << 32 | length``. Features with value 0 are left out."""
    labels: Any
    """The first and last offset of the label of each row, shape (rows, 2)."""
    w: Any
    """The sample weights."""
    indptr: Any
    """Where the features of each row begin."""
    lines: Any
    begins: Any
    ends: Any
    """The first line of each record, from 0, and its first and last offset."""
    lines_after: Any
    """How many lines are read once a record is."""


@kernel
def parse_records(table: Any, arrays: Any, state: Any) -> Any:
    """Parse records from where `state` points to.

    Parameters
    ----------
    table, arrays
        `Table` and `RecordArrays`.
    state
        N_STATE entries, int64, zeros at first.

    Returns
    -------
    DONE, IRREGULAR, OPEN or UTF8_NEEDED.
    """
    table, arrays = borrowed(table), borrowed(arrays)
    text = indexed_text(table.start, arrays.positions, arrays.kinds)
    if state[STATE_INDEXED] == 0:
        n, all_ascii = index_csv(
            table.start, table.end, table.delimiter, text.positions, text.kinds
        )
        if table.utf8 == UTF8_UNKNOWN and not all_ascii:
            return UTF8_NEEDED
        state[STATE_INDEXED] = 1
        state[STATE_DELIMITERS] = n
    n, i = np.uint64(state[STATE_DELIMITERS]), np.uint64(state[STATE_NEXT])
    pos, line = table.start + np.uint64(state[STATE_OFFSET]), np.uint64(state[STATE_LINE])
    row, k = np.uint64(state[STATE_ROW]), np.uint64(state[STATE_FEATURE])
    name_pos = table.names + np.uint64(state[STATE_NAME_BYTES])
    ascii_only = table.utf8 != UTF8_VALID and table.utf8 != UTF8_UNKNOWN
    status = DONE
    arrays.indptr[row] = k
    # Skip the delimiters of a record that Python has read.
    while i < n and delimiter_at(text, i) < pos:
        i += u64(1)
    # Invariant: the records before `pos` are in rows 0 to `row`, their features in 0 to `k`. The
    # i-th delimiter is the first one at or after `pos`.
    while pos < table.end:
        if delimiter_at(text, i) == pos and load_u8(pos) in (NEWLINE, CR):
            # An empty line is not a record.
            returns = np.uint64(load_u8(pos) == CR)
            if load_u8(pos + returns) != NEWLINE:
                status = IRREGULAR
                break
            i += returns + u64(1)
            pos += returns + u64(1)
            line += u64(1)
            continue
        record = _read_record(text, table, arrays, i, n, pos, k, name_pos)
        status = record.status
        if status == DONE and ascii_only and not is_ascii(pos, record.end):
            status = IRREGULAR
        if status != DONE:
            break
        hash_pending_names(arrays.hashes, arrays.spans, table.start, k, record.k)
        if record.has_large:
            state[STATE_HAS_LARGE] = 1
        begin = pos
        i, pos, k, name_pos = record.i + u64(1), record.end + u64(1), record.k, record.name_pos
        arrays.w[row] = record.weight
        arrays.labels[row, u64(0)] = record.label_begin - table.start
        arrays.labels[row, u64(1)] = record.label_end - table.start
        arrays.begins[row], arrays.ends[row] = begin - table.start, pos - table.start
        arrays.lines[row] = line
        line += record.inner_lines + u64(1)
        arrays.lines_after[row] = line
        row += u64(1)
        arrays.indptr[row] = k
    state[STATE_NEXT], state[STATE_OFFSET], state[STATE_LINE] = i, pos - table.start, line
    state[STATE_ROW], state[STATE_FEATURE] = row, k
    state[STATE_NAME_BYTES] = name_pos - table.names
    return status


class _Record(NamedTuple):
    """A record, whose features are written."""

    i: Any
    """The newline that ends it, as a delimiter."""
    end: Any
    """The address of this newline."""
    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    inner_lines: Any
    """How many newlines are in its cells."""
    label_begin: Any
    label_end: Any
    weight: Any
    has_large: Any
    """Whether a value reaches the limit that models accept."""
    status: Any
    """DONE, IRREGULAR or OPEN."""


@inlined
def _read_record(
    text: Any, table: Any, arrays: Any, i: Any, n: Any, pos: Any, k: Any, name_pos: Any
) -> Any:
    """Read the record at `pos`; the i-th of n delimiters is the next one. Returns a `_Record`."""
    columns = table.columns
    width = np.uint64(columns.shape[1])
    words = np.uint64(table.words.ctypes.data)
    label_begin = label_end = table.start
    weight, inner_lines = 1.0, u64(0)
    has_large: Any = False
    column = in_run = u64(0)
    d = pos
    status = DONE if not _may_repeat_header(table, pos) else IRREGULAR
    # Invariant: the cells before `column` are read, the last `in_run` of them eight at a time. The
    # next cell is at `pos`. At the end of a regular record the status is DONE.
    while status == DONE:
        status = IRREGULAR
        if column == width:
            break
        if columns[_RUN, column] + in_run >= u64(8) and i > u64(0):
            count, n_matched, name_pos = _read_categories_x8(
                text, table, arrays, words, i, column, in_run, k, name_pos
            )
            if count:
                in_run += count
                column += count
                k += count
                i += n_matched
                d = delimiter_at(text, i)
                if n_matched == u64(8):
                    pos = delimiter_at(text, i - u64(1)) + u64(1)
                    status = DONE
                    continue
                returns = np.uint64(load_u8(d) == CR and load_u8(d + u64(1)) == NEWLINE)
                i += returns
                d += returns
                if load_u8(d) == NEWLINE:
                    status = DONE
                break
        in_run = u64(0)
        cell = _find_cell(text, table, i, n, pos)
        i, d = cell.i, cell.delimiter
        inner_lines += cell.lines
        if cell.status != DONE:
            status = cell.status
            break
        kind = columns[_KIND, column]
        valid: Any = True
        if kind == CATEGORY:
            k, name_pos, valid = _read_category(table, arrays, words, column, cell, k, name_pos)
        elif kind == LABEL:
            label_begin, label_end = cell.begin, cell.end
            valid = _is_label(table, words, cell)
        elif kind == WEIGHT:
            weight = read_number(
                cell.begin, cell.end, table.powers, words, name_pos, table.names_end, np.nan
            )
            valid = weight >= 0.0
        elif kind != IGNORED:
            k, is_large, valid = _read_value(table, arrays, words, column, cell, k, name_pos)
            has_large |= is_large
        if not valid:
            break
        column += u64(1)
        c = load_u8(d)
        if c != table.delimiter:
            returns = np.uint64(c == CR and load_u8(d + u64(1)) == NEWLINE)
            i += returns
            d += returns
            if load_u8(d) == NEWLINE and column == width:
                status = DONE
            break
        i += u64(1)
        pos = d + u64(1)
        status = DONE
    return _Record(
        i, d, k, name_pos, inner_lines, label_begin, label_end, weight, has_large, status
    )


@inlined
def _may_repeat_header(table: Any, pos: Any) -> Any:
    """Return whether the record at `pos` may be the header again; Python decides."""
    columns = table.columns
    size = columns[_SIZE, 0] - np.uint64(columns[_KIND, 0] == CATEGORY)  # no equals sign
    if not (table.words[WORDS_HEADER] >> (load_u8(pos) & SIX_BITS)) & u64(1):
        return False
    return may_be_header(pos, table.start + columns[_BEGIN, 0], size, table.delimiter)


class _Cell(NamedTuple):
    """A cell, without the quotes around it."""

    i: Any
    """The delimiter after it."""
    delimiter: Any
    """The address of this delimiter."""
    begin: Any
    end: Any
    lines: Any
    """How many newlines are inside."""
    doubled: Any
    """Whether a doubled quote is inside."""
    status: Any
    """DONE, IRREGULAR or OPEN."""


@inlined
def _find_cell(text: Any, table: Any, i: Any, n: Any, pos: Any) -> Any:
    """Find the cell at `pos`; the i-th of n delimiters is the next one. Returns a `_Cell`."""
    if load_u8(pos) != QUOTE:
        end = delimiter_at(text, i)
        status = DONE if end - pos <= _MAX_CELL else IRREGULAR
        return _Cell(i, end, pos, end, u64(0), False, status)
    quoted = quoted_cell(text, table.delimiter, i, n, table.end)
    begin, end = pos + u64(1), quoted.stop
    if end == table.end:
        return _Cell(quoted.i, end, begin, end, quoted.lines, quoted.doubled, OPEN)
    after = delimiter_at(text, quoted.i)
    regular = load_u8(end) == QUOTE and after == end + u64(1) and end - begin <= _MAX_CELL
    status = DONE if regular else IRREGULAR
    return _Cell(quoted.i, after, begin, end, quoted.lines, quoted.doubled, status)


@inlined
def _is_label(table: Any, words: Any, cell: Any) -> Any:
    """Return whether a cell is certainly a label, or an empty one that is not required."""
    first, stop = cell.begin, cell.end
    last = load_u8(stop - u64(1))
    is_text = begins_visibly(first, stop) and last > SPACE and last <= LAST_ASCII
    is_empty = first == stop and not table.require_label
    if cell.doubled or not (is_empty or is_text):
        return False
    # Elsewhere the label is left out when the labels are encoded.
    return not table.require_label or missing_state(first, stop, words) == PRESENT


@inlined
def _read_value(
    table: Any, arrays: Any, words: Any, column: Any, cell: Any, k: Any, name_pos: Any
) -> Any:
    """Write the number or bool of a cell, unless it is zero or the cell is blank.

    Returns
    -------
    The end of the features, whether the value reaches the limit that models accept, and whether the
    cell is regular.
    """
    if cell.begin >= cell.end or is_blank(cell.begin, cell.end):
        return k, False, True
    v = read_number(cell.begin, cell.end, table.powers, words, name_pos, table.names_end, 0.0)
    if v != v:
        v = read_boolean(cell.begin, cell.end)
    if v != v:
        return k, False, False
    if v != 0.0:
        columns = table.columns
        arrays.hashes[k] = columns[_HASH, column]
        arrays.values[k] = v
        arrays.spans[k] = (columns[_BEGIN, column] << OFFSET_BITS) | columns[_SIZE, column]
        k += u64(1)
    return k, not abs(v) < VALUE_LIMIT, True


@inlined
def _read_categories_x8(
    text: Any, table: Any, arrays: Any, words: Any, i: Any, column: Any, in_run: Any, k: Any,
    name_pos: Any,
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
    columns, positions, start = table.columns, text.positions, text.start
    width = np.uint64(columns.shape[1])
    run = columns[_RUN, column]
    n = matching_kinds(text.kinds, i, (table.delimiter * _BYTE_ONES,))
    c = load_u8(text.kinds + i + n)
    ended = n < u64(8) and c in (NEWLINE, CR)
    count = n + np.uint64(ended)
    ended &= run == count and column + count == width and in_run + count >= u64(8)
    if not (ended or (n == u64(8) and run >= u64(8))):
        return u64(0), u64(0), name_pos
    overlap = u64(8) - count
    j, f, first = k - overlap, i - overlap, column - overlap
    begins = load_u32x8(positions + u64(4) * f - u64(4)) + u64(1)
    size = load_u32x8(positions + u64(4) * f) - begins
    cells = gather_u64(begins + start)
    # Sizes must be 1 to 8. The first byte must be visible ASCII: cells of white space are empty.
    first_byte = cells & _BYTE
    irregular_mask = ((size - u64(1)) > u64(7)) | ((first_byte - _FIRST_VISIBLE) > _N_VISIBLE)
    # Cells that may be missing words are read one by one.
    own = cells & (ALL_ONES >> (((u64(8) - size) * u64(8)) & SIX_BITS))
    second = ((own >> u64(8)) ^ cells ^ (size << u64(3))) & SIX_BITS
    word_mask = splat_u64(word_at(words, WORDS_FIRST)) >> (cells & SIX_BITS)
    word_mask &= (splat_u64(word_at(words, WORDS_SECOND)) >> second) & u64(1)
    if movemask(irregular_mask | word_mask) or name_pos + NAMES_X8_BYTES > table.names_end:
        return u64(0), u64(0), name_pos
    columns_at = np.uint64(columns.ctypes.data) + u64(8) * first
    heads = loadu_u64x8(columns_at + u64(8) * width * _HEAD)
    head_sizes = loadu_u64x8(columns_at + u64(8) * width * _SIZE) - u64(1)
    low, high = join_names_x8(heads, head_sizes, EQUALS, cells, size)
    size = size + head_sizes + u64(1)
    hashes_at = np.uint64(arrays.hashes.ctypes.data)
    values_at, spans_at = np.uint64(arrays.values.ctypes.data), np.uint64(arrays.spans.ctypes.data)
    store_u64x8(hashes_at + u64(8) * j, murmur_x8_of_joined(low, high, size))
    store_f64x8(values_at + u64(8) * j, splat(1.0))
    name_pos = write_names_x8(low, high, size, overlap, name_pos, start, spans_at + u64(8) * j)
    return count, n, name_pos


@inlined
def _read_category(
    table: Any, arrays: Any, words: Any, column: Any, cell: Any, k: Any, name_pos: Any
) -> Any:
    """Write the name `column=cell` of a category cell, unless the cell is blank.

    Returns
    -------
    The end of the features, where the next name goes, and whether the cell is regular.
    """
    first, stop = cell.begin, cell.end
    if not begins_visibly(first, stop):
        return k, name_pos, is_blank(first, stop)
    missing = missing_state(first, stop, words)
    if missing != PRESENT:
        return k, name_pos, missing == MISSING
    columns = table.columns
    size = columns[_SIZE, column]
    if name_pos + size + (stop - first) + SLACK > table.names_end:
        return k, name_pos, False
    name = name_pos
    prefix = table.start + columns[_BEGIN, column]
    name_pos = copy_bytes(prefix, prefix + size, name_pos)
    if cell.doubled:
        name_pos = copy_undoubled(first, stop, name_pos)
    else:
        name_pos = copy_short_bytes(first, stop, name_pos)
    arrays.hashes[k] = UNHASHED
    arrays.values[k] = 1.0
    arrays.spans[k] = ((name - table.start) << OFFSET_BITS) | (name_pos - name)
    return k + u64(1), name_pos, True


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
    max_distinct, found = np.uint64(len(distinct)), u64(0)
    # Invariant: the texts before `row` have codes below `found`.
    for row in range(np.uint64(len(bounds))):
        begin = np.uint64(bounds[row, 0])
        size = np.uint64(bounds[row, 1]) - begin
        if size > u64(8):
            return max_distinct + u64(1)
        word = u64(0)
        if size:
            word = loadu_u64(start + begin) & (ALL_ONES >> (u64(8) * (u64(8) - size)))
            if not word >> (u64(8) * (size - u64(1))):  # padding would hide a zero byte at the end
                return max_distinct + u64(1)
        k = u64(0)
        while k < found and distinct[k] != word:
            k += u64(1)
        if k == found:
            if found == max_distinct:
                return max_distinct + u64(1)
            distinct[k] = word
            found += u64(1)
        codes[row] = k
    return found
