"""Vowpal Wabbit's text format to rows of hashed names.

`parse_lines` reads a chunk of lines from top to bottom:

1. `index_vw` writes the delimiters of about 32 KiB of lines (stage 1, `structural_index.py`).
2. `_read_head` reads label, importance and tag up to the first pipe.
3. `_find_features` finds names and values: eight features at a time while the delimiters repeat
   (`vw_simd.py`), then up to eight plain ones, then one by one.
4. `read_pending_values` and `hash_pending_names` complete what was only found (`feature_spans.py`).

A line that any of these steps does not understand is *irregular*: its row stays empty, and Python
parses the line (`streaml1.sources.readers.vw.parse_vw`), so the fast path never has to decide what
an unusual line means.

The feature `b` of the namespace `a` is named `a^b`, and `b` if the namespace has no name. Names
that are not in the text as they are, such as `a^b`, are written to a separate memory area.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from streaml1.core.jit import inlined, kernel
from streaml1.core.simd import borrowed, load_u8, store_u64
from streaml1.text.byte_names import (
    UNHASHED,
    UTF8_UNKNOWN,
    UTF8_VALID,
    bytes_equal,
    copy_bytes,
    copy_short_bytes,
    is_ascii,
    shares_hash,
)
from streaml1.text.feature_spans import (
    MAX_VALUE,
    drop_zeros,
    hash_pending_names,
    read_pending_values,
    read_value,
)
from streaml1.text.numbers import parse_number
from streaml1.text.structural_index import (
    COLON,
    CR,
    NEWLINE,
    PIPE,
    SPACE,
    TAB,
    batch_end,
    index_vw,
    position_of,
)
from streaml1.text.vw_simd import find_features_x8, may_start_x8

__all__ = ["parse_lines"]

_NO_TEXT, _LAST_BIT = np.uint64(2**64 - 1), np.uint64(63)
_ZERO, _ONE, _TWO, _EIGHT = map(np.uint64, (0, 1, 2, 8))
_OFFSET_BITS = np.uint64(32)
_QUOTE, _CARET, _EQUALS = map(np.uint64, b"'^=")
_SLACK = np.uint64(32)  # bytes that copies may write after a name


@kernel
def parse_lines(
    start: Any,
    end: Any,
    powers: Any,
    require_label: Any,
    utf8: Any,
    positions: Any,
    kinds: Any,
    hashes: Any,
    values: Any,
    names: Any,
    names_end: Any,
    spans: Any,
    y: Any,
    w: Any,
    indptr: Any,
    lines: Any,
    begins: Any,
    ends: Any,
    irregular: Any,
    value_spans: Any,
    texts: Any,
    text_sizes: Any,
    n_tags: Any,
) -> Any:
    """Parse the lines between two addresses; the last byte must be a newline.

    Each line, blank ones too, becomes a row. Irregular lines become empty rows.

    Parameters
    ----------
    start, end
        Addresses of the lines. All offsets below count from `start`.
    powers
        `streaml1.text.numbers.POWERS`.
    require_label
        Treat lines without a label as irregular. Otherwise their label is NaN.
    utf8
        Whether the lines are valid UTF-8. With UTF8_UNKNOWN the kernel stops at the first batch
        with a non-ASCII byte and reports 0 lines; with UTF8_INVALID lines with such a byte are
        irregular.
    positions, kinds
        Scratch arrays for the structural index.
    hashes, values, spans
        Receive the features: the hash of the name, the value, and where the name is,
        ``offset << 32 | length``. Features with value 0 are left out.
    names, names_end
        Addresses between which names are written that are not in the text.
    y, w
        Receive label and importance of each row.
    indptr
        Receives where the features of each row begin.
    lines, begins, ends
        Receive the number of the line of each row, from 0, and its first and last offset.
    irregular
        Receives the rows of irregular lines.
    value_spans
        Scratch array with an entry for each feature.
    texts, text_sizes
        Addresses and sizes of the names of namespaces that are raw text. Such a namespace is one
        feature, named `namespace=text`.
    n_tags
        Array of one count, to which the number of regular lines with a tag is added.

    Returns
    -------
    tuple
        The fields of `LineCounts`.
    """
    hashes, values, spans = borrowed((hashes, values, spans))
    value_spans, texts, text_sizes = borrowed((value_spans, texts, text_sizes))
    row, k, n_irregular, line = _ZERO, _ZERO, _ZERO, _ZERO
    values_checked: Any = True
    positions_at, kinds_at = np.uint64(positions.ctypes.data), np.uint64(kinds.ctypes.data)
    i, n, pos, name_pos = _ZERO, _ZERO, start, names
    last = np.uint64(len(hashes))
    indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < end:
        if i == n:
            i = _ZERO
            n, all_ascii = index_vw(start, pos, batch_end(pos, end), positions_at, kinds_at)
            if utf8 == UTF8_UNKNOWN and not all_ascii:
                return _ZERO, _ZERO, _ZERO, False, False
        first_feature, begin, first_name = k, pos, name_pos
        i, count, label, weight, tagged, valid = _read_head(start, powers, positions_at, i, pos)
        d = start + position_of(positions_at, i)
        valid &= load_u8(d) == PIPE and (count > _ZERO or not require_label)
        unscaled: Any = True
        has_zero: Any = False
        has_large: Any = False
        n_read = k
        if valid:
            i, k, name_pos, n_read, has_zero, unscaled, valid = _find_features(
                start, powers, positions_at, kinds_at, i + _ONE, d + _ONE, k, name_pos, names_end,
                value_spans, hashes, values, spans, texts, text_sizes,
            )  # fmt: skip
        if valid and n_read < k:
            valid, zero_read, has_large = read_pending_values(
                start, powers, value_spans, values, n_read, k, unscaled, False
            )
            has_zero |= zero_read
        if valid:
            hash_pending_names(hashes, spans, start, first_feature, k)
        if valid and has_zero:
            # Python drops a zero after it has summed duplicates: leave duplicates of zeros to it.
            k, n_zeros = drop_zeros(hashes, values, spans, first_feature, k, True)
            valid = not shares_hash(hashes, first_feature, k, last, n_zeros)
        if valid and utf8 != UTF8_VALID and utf8 != UTF8_UNKNOWN:
            valid = is_ascii(begin, start + position_of(positions_at, i))
        while load_u8(start + position_of(positions_at, i)) != NEWLINE:
            i += _ONE
        pos = start + position_of(positions_at, i) + _ONE
        i += _ONE
        if not valid:
            k, name_pos = first_feature, first_name
            if load_u8(begin + np.uint64(load_u8(begin) == CR)) == NEWLINE:  # an empty line
                line += _ONE
                continue
            irregular[n_irregular] = row
            n_irregular += _ONE
            weight, has_large = 1.0, False
        n_tags[0] += valid and tagged
        y[row] = label
        w[row] = weight
        lines[row] = line
        begins[row] = begin - start
        ends[row] = pos - start
        row += _ONE
        line += _ONE
        indptr[row] = k
        values_checked &= not has_large
    return row, n_irregular, line, values_checked, False


class _Head(NamedTuple):
    """What is in front of the first pipe of a line."""

    i: Any
    """The delimiter that ends it."""
    count: Any
    """How many numbers there are: label, then importance."""
    label: Any
    weight: Any
    tagged: Any
    """Whether the last word is the tag."""
    valid: Any


@inlined
def _read_head(start: Any, powers: Any, positions: Any, i: Any, pos: Any) -> Any:
    """Read label, importance and tag of the line at `pos`, whose first delimiter is the i-th.

    The tag touches the pipe or begins with a quote. Returns a `_Head`.
    """
    label, weight = np.nan, 1.0
    count = _ZERO
    tagged: Any = False
    valid: Any = True
    d = start + position_of(positions, i)
    c = load_u8(d)
    # Invariant: the words before `pos` are read; the next delimiter is c at address d.
    while True:
        if d > pos:
            tagged = c == PIPE or load_u8(pos) == _QUOTE
            if not tagged:
                if count == _ZERO:
                    label = parse_number(pos, d, powers)
                    valid &= label == label
                else:
                    weight = parse_number(pos, d, powers)
                    valid &= weight >= 0.0 and count == _ONE
                count += _ONE
            elif c != PIPE:
                # A word that begins with a quote is the tag only if it is the last one.
                after = d
                while _is_blank(load_u8(after)):
                    after += _ONE
                valid &= load_u8(after) == PIPE
        if not _is_blank(c):
            return _Head(i, count, label, weight, tagged, valid)
        i += _ONE
        pos = d + _ONE
        d = start + position_of(positions, i)
        c = load_u8(d)


class _Found(NamedTuple):
    """The features of a line."""

    i: Any
    """The delimiter that ends the line, or one before it if the line is irregular."""
    k: Any
    """The end of the features."""
    name_pos: Any
    """Where the next name goes."""
    n_read: Any
    """The end of the features whose values are read."""
    has_zero: Any
    """Whether one of these values is zero."""
    unscaled: Any
    """Whether no namespace has a value."""
    valid: Any


@inlined
def _find_features(
    start: Any, powers: Any, positions: Any, kinds: Any, i: Any, pos: Any, k: Any, name_pos: Any,
    names_end: Any, value_spans: Any, hashes: Any, values: Any, spans: Any, texts: Any,
    text_sizes: Any,
) -> Any:  # fmt: skip
    """Find the features of a line, from the byte after its first pipe on. Returns a `_Found`."""
    # The SIMD paths look at no names, so they would miss features named like a raw text.
    simd_ok = len(texts) == 0
    n_read = k
    unscaled: Any = True
    has_zero: Any = False
    scale = 1.0
    prefix = prefix_end = pos
    in_namespace_name = True  # the token at `pos` is the name of a namespace
    seen_texts = _ZERO
    # Invariant: the tokens before `pos` are features up to k. Those up to n_read have values; the
    # others have value_spans. `prefix` to `prefix_end` is the name of the namespace.
    while True:
        if simd_ok and unscaled and not in_namespace_name:
            if may_start_x8(kinds, i):
                i, pos, k, name_pos, n_read, zero_read, ended = find_features_x8(
                    start, powers, positions, kinds, i, pos, k, name_pos, names_end, prefix,
                    prefix_end, n_read, value_spans, hashes, values, spans,
                )  # fmt: skip
                has_zero |= zero_read
                if ended:
                    return _Found(i, k, name_pos, n_read, has_zero, unscaled, True)
            i, pos, k, name_pos = _find_plain_features(
                start, positions, kinds, i, pos, k, name_pos, names_end, prefix, prefix_end,
                value_spans, hashes, spans,
            )  # fmt: skip
        d = start + position_of(positions, i)
        c = load_u8(d)
        stop = d
        if c == NEWLINE:
            stop -= np.uint64(d > pos and load_u8(d - _ONE) == CR)
            if stop > pos and load_u8(stop - _ONE) == CR:
                break
        name_end = value_begin = stop
        value_span = _ZERO
        if c == COLON:
            if d == pos:
                break
            i += _ONE
            d = start + position_of(positions, i)
            c = load_u8(d)
            stop = d
            if c == NEWLINE:
                stop -= np.uint64(load_u8(d - _ONE) == CR)
            value_begin = name_end + _ONE
            value_span = ((value_begin - start) << _OFFSET_BITS) | (stop - value_begin)
            if c == COLON:
                break
        if name_end > pos and in_namespace_name:
            prefix, prefix_end = pos, name_end
            if value_span:
                scale = read_value(value_begin, stop, powers, False)
                # Features before this namespace rely on `unscaled`: give them their factor now.
                for j in range(n_read, k if unscaled else n_read):
                    values[j] = 1.0
                unscaled = False
                if not abs(scale) < MAX_VALUE:
                    break
            text = _text_named(pos, name_end, texts, text_sizes)
            if text != _NO_TEXT:
                bit = _ONE << min(text, _LAST_BIT)
                if value_span or seen_texts & bit:  # it has a value, or occurs twice
                    break
                seen_texts |= bit
                first = name_pos
                i, name_pos, copied = _copy_text(
                    start, positions, i, prefix, prefix_end, name_pos, names_end
                )
                if not copied:
                    break
                d = start + position_of(positions, i)
                c = load_u8(d)
                values[k] = 1.0
                value_spans[k] = _ZERO
                hashes[k] = UNHASHED
                spans[k] = ((first - start) << _OFFSET_BITS) | (name_pos - first)
                k += _ONE
        elif name_end > pos:
            first, size = pos, name_end - pos
            if prefix_end > prefix:
                if name_pos + size + (prefix_end - prefix) + _SLACK > names_end:
                    break
                first = name_pos
                name_pos = copy_bytes(prefix, prefix_end, name_pos)
                store_u64(name_pos, _CARET)
                name_pos = copy_short_bytes(pos, name_end, name_pos + _ONE)
                size = name_pos - first
            elif _belongs_to_text(pos, name_end, texts, text_sizes):
                break
            values[k] = scale
            value_spans[k] = value_span
            hashes[k] = UNHASHED
            spans[k] = ((first - start) << _OFFSET_BITS) | size
            k += _ONE
        in_namespace_name = False
        if c == NEWLINE:
            return _Found(i, k, name_pos, n_read, has_zero, unscaled, True)
        if c == PIPE:
            in_namespace_name = True
            scale = 1.0
            prefix = prefix_end = d
        i += _ONE
        pos = d + _ONE
    return _Found(i, k, name_pos, n_read, has_zero, unscaled, False)


@inlined
def _find_plain_features(
    start: Any, positions: Any, kinds: Any, i: Any, pos: Any, k: Any, name_pos: Any,
    names_end: Any, prefix: Any, prefix_end: Any, value_spans: Any, hashes: Any, spans: Any,
) -> Any:  # fmt: skip
    """Find up to eight features of a namespace, as long as a space follows each of them.

    Returns
    -------
    The next delimiter, where the next token begins, the end of the features, and where the next
    name goes.
    """
    prefix_size = prefix_end - prefix
    last = k + _EIGHT
    while True:
        d = start + position_of(positions, i)
        end, c = d, load_u8(kinds + i)
        value_span, step = _ZERO, _ONE
        if c == COLON:
            end = start + position_of(positions, i + _ONE)
            c = load_u8(kinds + i + _ONE)
            value_span = ((d + _ONE - start) << _OFFSET_BITS) | (end - d - _ONE)
            step = _TWO
        if c != SPACE or d == pos or name_pos + (d - pos) + prefix_size + _SLACK > names_end:
            return i, pos, k, name_pos
        first, size = pos, d - pos
        if prefix_size:
            first = name_pos
            name_pos = copy_bytes(prefix, prefix_end, name_pos)
            store_u64(name_pos, _CARET)
            name_pos = copy_short_bytes(pos, d, name_pos + _ONE)
            size = name_pos - first
        value_spans[k] = value_span
        hashes[k] = UNHASHED
        spans[k] = ((first - start) << _OFFSET_BITS) | size
        k += _ONE
        i += step
        pos = end + _ONE
        if k == last:
            return i, pos, k, name_pos


# Namespaces that are raw text


@inlined
def _copy_text(
    start: Any, positions: Any, i: Any, prefix: Any, prefix_end: Any, name_pos: Any, names_end: Any
) -> Any:
    """Write `namespace=text`; the text extends to the next pipe or to the end of the line.

    Returns
    -------
    The delimiter that ends the text, where the next name goes, and whether there was room.
    """
    d = start + position_of(positions, i)
    c = load_u8(d)
    pos = d + np.uint64(_is_blank(c))
    while c != PIPE and c != NEWLINE:
        i += _ONE
        d = start + position_of(positions, i)
        c = load_u8(d)
    stop = d
    if c == NEWLINE and stop > pos:
        stop -= np.uint64(load_u8(d - _ONE) == CR)
    pos = min(pos, stop)
    second_return = c == NEWLINE and stop > pos and load_u8(stop - _ONE) == CR
    size = prefix_end - prefix + stop - pos
    if second_return or name_pos + size + _SLACK > names_end:
        return i, name_pos, False
    name_pos = copy_bytes(prefix, prefix_end, name_pos)
    store_u64(name_pos, _EQUALS)
    return i, copy_short_bytes(pos, stop, name_pos + _ONE), True


@inlined
def _text_named(start: Any, end: Any, texts: Any, text_sizes: Any) -> Any:
    """Return the index of the raw text with the name between two addresses, or _NO_TEXT."""
    found = _NO_TEXT
    for z in range(np.uint64(len(texts))):
        if end - start == text_sizes[z] and bytes_equal(start, texts[z], text_sizes[z]):
            found = np.uint64(z)
    return found


@inlined
def _belongs_to_text(start: Any, end: Any, texts: Any, text_sizes: Any) -> bool:
    """Return whether a feature is named like a raw text, or like one of its n-grams."""
    found = False
    for z in range(np.uint64(len(texts))):
        after = start + text_sizes[z]
        if end >= after and (end == after or load_u8(after) == _EQUALS):
            found |= bytes_equal(start, texts[z], text_sizes[z])
    return found


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == SPACE) | (c == TAB))
