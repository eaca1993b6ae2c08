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

from streaml1.core.ascii import CARET, COLON, CR, EQUALS, NEWLINE, PIPE, SPACE, TAB
from streaml1.core.jit import inlined, kernel, u64
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
from streaml1.text.line_arrays import Features
from streaml1.text.numbers import parse_number
from streaml1.text.structural_index import batch_end, delimiter_at, index_vw, indexed_text, span_of
from streaml1.text.vw_simd import find_features_x8, may_start_x8

__all__ = ["Texts", "parse_lines"]

_NO_TEXT, _LAST_BIT = u64(2**64 - 1), u64(63)
_APOSTROPHE = u64(ord("'"))
_SLACK = u64(32)  # bytes that copies may write after a name


class Texts(NamedTuple):
    """The namespaces that are raw text; each is one feature, named `namespace=text`."""

    names: Any
    """The addresses of their names."""
    sizes: Any
    """The sizes of these names in bytes."""


@kernel
def parse_lines(lines: Any, rows: Any, scratch: Any, texts: Any, n_tags: Any) -> Any:
    """Parse lines. Irregular lines become empty rows, and empty lines none.

    Parameters
    ----------
    lines, rows, scratch
        `Lines`, `RowArrays` and `Scratch` of `line_arrays`.
    texts
        The namespaces that are raw text.
    n_tags
        Array of one count, to which the number of regular lines with a tag is added.

    Returns
    -------
    tuple
        The fields of `LineCounts`.
    """
    lines, texts = borrowed(lines), borrowed(texts)
    rows, scratch = borrowed(rows), borrowed(scratch)
    features = Features(rows.hashes, rows.values, rows.spans, scratch.value_spans)
    text = indexed_text(lines.start, scratch.positions, scratch.kinds)
    row, k, n_irregular, number = u64(0), u64(0), u64(0), u64(0)
    values_checked: Any = True
    i, n, pos, name_pos = u64(0), u64(0), lines.start, lines.names
    rows.indptr[0] = 0
    # Invariant: the lines before `pos` are in rows 0 to `row`, their features in 0 to `k`. The i-th
    # of the n delimiters of this batch is the first one at or after `pos`.
    while pos < lines.end:
        if i == n:
            i = u64(0)
            stop = batch_end(pos, lines.end)
            n, all_ascii = index_vw(text.start, pos, stop, text.positions, text.kinds)
            if lines.utf8 == UTF8_UNKNOWN and not all_ascii:
                return u64(0), u64(0), u64(0), False, False
        begin = pos
        head = _read_head(text, lines.powers, i, pos)
        line = _read_features(text, lines, features, texts, head, k, name_pos)
        i, valid = line.i, line.valid
        if valid and lines.utf8 != UTF8_VALID and lines.utf8 != UTF8_UNKNOWN:
            valid = is_ascii(begin, delimiter_at(text, i))
        while load_u8(delimiter_at(text, i)) != NEWLINE:
            i += u64(1)
        pos = delimiter_at(text, i) + u64(1)
        i += u64(1)
        if valid:
            k, name_pos = line.k, line.name_pos
            values_checked &= not line.has_large
            n_tags[0] += head.tagged
        elif load_u8(begin + np.uint64(load_u8(begin) == CR)) == NEWLINE:  # an empty line
            number += u64(1)
            continue
        else:
            scratch.irregular[n_irregular] = row
            n_irregular += u64(1)
        rows.y[row] = head.label
        rows.w[row] = head.weight if valid else 1.0
        rows.lines[row] = number
        rows.begins[row], rows.ends[row] = begin - text.start, pos - text.start
        row += u64(1)
        number += u64(1)
        rows.indptr[row] = k
    return row, n_irregular, number, values_checked, False


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
def _read_head(text: Any, powers: Any, i: Any, pos: Any) -> Any:
    """Read label, importance and tag of the line at `pos`, whose first delimiter is the i-th.

    The tag touches the pipe or begins with a quote. Returns a `_Head`.
    """
    label, weight = np.nan, 1.0
    count = u64(0)
    tagged: Any = False
    valid: Any = True
    tab_after_label: Any = False
    d = delimiter_at(text, i)
    c = load_u8(d)
    # Invariant: the words before `pos` are read; the next delimiter is c at address d.
    while True:
        if d > pos:
            tagged = c == PIPE or load_u8(pos) == _APOSTROPHE
            if not tagged:
                if count == u64(0):
                    label = parse_number(pos, d, powers)
                    valid &= label == label
                else:
                    weight = parse_number(pos, d, powers)
                    valid &= weight >= 0.0 and count == u64(1) and not tab_after_label
                count += u64(1)
            elif c != PIPE:
                # A word that begins with a quote is the tag only if it is the last one.
                after = d
                while _is_blank(load_u8(after)):
                    after += u64(1)
                valid &= load_u8(after) == PIPE
        if not _is_blank(c):
            return _Head(i, count, label, weight, tagged, valid)
        tab_after_label |= c == TAB and count > u64(0)
        i += u64(1)
        pos = d + u64(1)
        d = delimiter_at(text, i)
        c = load_u8(d)


class _Line(NamedTuple):
    """The row of a line."""

    i: Any
    """The delimiter that ends the line, or one before it if the line is irregular."""
    k: Any
    """The end of its features."""
    name_pos: Any
    """Where the next name goes."""
    has_large: Any
    """Whether a value reaches the limit that models accept."""
    valid: Any


@inlined
def _read_features(
    text: Any, lines: Any, features: Any, texts: Any, head: Any, first_feature: Any, name_pos: Any
) -> Any:
    """Read the features of the line with a `_Head`. Returns a `_Line`."""
    i, k, d = head.i, first_feature, delimiter_at(text, head.i)
    valid: Any = head.valid and load_u8(d) == PIPE
    valid = valid and (head.count > u64(0) or not lines.require_label)
    has_large: Any = False
    if valid:
        found = _find_features(text, lines, features, texts, i + u64(1), d + u64(1), k, name_pos)
        i, k, name_pos, valid = found.i, found.k, found.name_pos, found.valid
        has_zero = found.has_zero
        if valid and found.n_read < k:
            valid, zero_read, has_large = read_pending_values(
                text.start, lines.powers, features.value_spans, features.values, found.n_read, k,
                found.unscaled, False,
            )  # fmt: skip
            has_zero |= zero_read
        if valid:
            hash_pending_names(features.hashes, features.spans, text.start, first_feature, k)
        if valid and has_zero:
            # Python drops a zero after it has summed duplicates: leave duplicates of zeros to it.
            hashes, last = features.hashes, np.uint64(len(features.hashes))
            k, n_zeros = drop_zeros(hashes, features.values, features.spans, first_feature, k, True)
            valid = not shares_hash(hashes, first_feature, k, last, n_zeros)
    return _Line(i, k, name_pos, has_large, valid)


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
    text: Any, lines: Any, features: Any, texts: Any, i: Any, pos: Any, k: Any, name_pos: Any
) -> Any:
    """Find the features of a line, from the byte after its first pipe on. Returns a `_Found`."""
    # The SIMD paths look at no names, so they would miss features named like a raw text.
    simd_ok = len(texts.names) == 0
    n_read = k
    unscaled: Any = True
    has_zero: Any = False
    scale = 1.0
    prefix = prefix_end = pos
    in_namespace_name = True  # the token at `pos` is the name of a namespace
    seen_texts = u64(0)
    # Invariant: the tokens before `pos` are features up to k. Those up to n_read have values; the
    # others have value_spans. `prefix` to `prefix_end` is the name of the namespace.
    while True:
        if simd_ok and unscaled and not in_namespace_name:
            if may_start_x8(text.kinds, i):
                i, pos, k, name_pos, n_read, zero_read, ended = find_features_x8(
                    text, lines, features, i, pos, k, name_pos, prefix, prefix_end, n_read
                )
                has_zero |= zero_read
                if ended:
                    return _Found(i, k, name_pos, n_read, has_zero, unscaled, True)
            i, pos, k, name_pos = _find_plain_features(
                text, lines, features, i, pos, k, name_pos, prefix, prefix_end
            )
        token = _read_token(text, i, pos)
        i, d, c = token.i, token.end, token.delimiter
        if not token.valid:
            break
        if token.name_end > pos and in_namespace_name:
            prefix, prefix_end = pos, token.name_end
            has_value = token.value_begin != token.name_end
            if has_value:
                scale = read_value(token.value_begin, token.value_end, lines.powers, False)
                # Features before this namespace rely on `unscaled`: give them their factor now.
                for j in range(n_read, k if unscaled else n_read):
                    features.values[j] = 1.0
                unscaled = False
                if not abs(scale) < MAX_VALUE:
                    break
            z = _text_named(pos, token.name_end, texts)
            if z != _NO_TEXT:
                bit = u64(1) << min(z, _LAST_BIT)
                if has_value or seen_texts & bit:  # it has a value, or occurs twice
                    break
                seen_texts |= bit
                first = name_pos
                i, name_pos, copied = _copy_text(text, lines, i, prefix, prefix_end, name_pos)
                if not copied:
                    break
                d = delimiter_at(text, i)
                c = load_u8(d)
                features.values[k] = 1.0
                _write_feature(features, k, span_of(text, first, name_pos), u64(0))
                k += u64(1)
        elif token.name_end > pos:
            if prefix_end == prefix and _belongs_to_text(pos, token.name_end, texts):
                break
            if not _name_fits(lines, prefix, prefix_end, pos, token.name_end, name_pos):
                break
            span, name_pos = _write_name(text, prefix, prefix_end, pos, token.name_end, name_pos)
            features.values[k] = scale
            _write_feature(features, k, span, _value_span(text, token))
            k += u64(1)
        in_namespace_name = False
        if c == NEWLINE:
            return _Found(i, k, name_pos, n_read, has_zero, unscaled, True)
        if c == PIPE:
            in_namespace_name = True
            scale = 1.0
            prefix = prefix_end = d
        i += u64(1)
        pos = d + u64(1)
    return _Found(i, k, name_pos, n_read, has_zero, unscaled, False)


class _Token(NamedTuple):
    """A word of a line, with or without a value."""

    i: Any
    """The delimiter that ends it."""
    end: Any
    """The address of this delimiter."""
    delimiter: Any
    """Its byte."""
    name_end: Any
    value_begin: Any
    """Where the value begins; equal to `name_end` if there is none."""
    value_end: Any
    valid: Any


@inlined
def _read_token(text: Any, i: Any, pos: Any) -> Any:
    """Return the `_Token` at `pos`; the i-th delimiter is the next one."""
    d = delimiter_at(text, i)
    c = load_u8(d)
    stop = d
    if c == NEWLINE:
        stop -= np.uint64(d > pos and load_u8(d - u64(1)) == CR)
    name_end = value_begin = stop
    valid = c != NEWLINE or stop == pos or load_u8(stop - u64(1)) != CR
    if c == COLON:
        valid = d != pos
        i += u64(1)
        d = delimiter_at(text, i)
        c = load_u8(d)
        stop = d
        if c == NEWLINE:
            stop -= np.uint64(load_u8(d - u64(1)) == CR)
        value_begin = name_end + u64(1)
        valid &= c != COLON
    return _Token(i, d, c, name_end, value_begin, stop, valid)


@inlined
def _value_span(text: Any, token: Any) -> Any:
    """Return where the value of a `_Token` is, 0 if it has none."""
    if token.value_begin == token.name_end:
        return u64(0)
    return span_of(text, token.value_begin, token.value_end)


@inlined
def _write_feature(features: Any, k: Any, span: Any, value_span: Any) -> None:
    """Write where name and value of a feature are; its name is hashed later."""
    features.value_spans[k] = value_span
    features.hashes[k] = UNHASHED
    features.spans[k] = span


@inlined
def _name_fits(
    lines: Any, prefix: Any, prefix_end: Any, begin: Any, end: Any, name_pos: Any
) -> Any:
    """Return whether there is room for `_write_name`."""
    return name_pos + (end - begin) + (prefix_end - prefix) + _SLACK <= lines.names_end


@inlined
def _write_name(
    text: Any, prefix: Any, prefix_end: Any, begin: Any, end: Any, name_pos: Any
) -> Any:
    """Write the name of a feature unless it is as in the text: `namespace^name`.

    Returns
    -------
    Where the name is, and where the next one goes.
    """
    if prefix_end == prefix:
        return span_of(text, begin, end), name_pos
    first = name_pos
    name_pos = copy_bytes(prefix, prefix_end, name_pos)
    store_u64(name_pos, CARET)
    name_pos = copy_short_bytes(begin, end, name_pos + u64(1))
    return span_of(text, first, name_pos), name_pos


@inlined
def _find_plain_features(
    text: Any, lines: Any, features: Any, i: Any, pos: Any, k: Any, name_pos: Any, prefix: Any,
    prefix_end: Any,
) -> Any:  # fmt: skip
    """Find up to eight features of a namespace, as long as a space follows each of them.

    Returns
    -------
    The next delimiter, where the next token begins, the end of the features, and where the next
    name goes.
    """
    last = k + u64(8)
    while True:
        d = delimiter_at(text, i)
        end, c = d, load_u8(text.kinds + i)
        value_span, step = u64(0), u64(1)
        if c == COLON:
            end = delimiter_at(text, i + u64(1))
            c = load_u8(text.kinds + i + u64(1))
            value_span = span_of(text, d + u64(1), end)
            step = u64(2)
        fits = _name_fits(lines, prefix, prefix_end, pos, d, name_pos)
        if c != SPACE or d == pos or not fits:
            return i, pos, k, name_pos
        span, name_pos = _write_name(text, prefix, prefix_end, pos, d, name_pos)
        _write_feature(features, k, span, value_span)
        k += u64(1)
        i += step
        pos = end + u64(1)
        if k == last:
            return i, pos, k, name_pos


# Namespaces that are raw text


@inlined
def _copy_text(text: Any, lines: Any, i: Any, prefix: Any, prefix_end: Any, name_pos: Any) -> Any:
    """Write `namespace=text`; the text extends to the next pipe or to the end of the line.

    Returns
    -------
    The delimiter that ends the text, where the next name goes, and whether there was room.
    """
    d = delimiter_at(text, i)
    c = load_u8(d)
    pos = d + np.uint64(_is_blank(c))
    while c != PIPE and c != NEWLINE:
        i += u64(1)
        d = delimiter_at(text, i)
        c = load_u8(d)
    stop = d
    if c == NEWLINE and stop > pos:
        stop -= np.uint64(load_u8(d - u64(1)) == CR)
    pos = min(pos, stop)
    second_return = c == NEWLINE and stop > pos and load_u8(stop - u64(1)) == CR
    size = prefix_end - prefix + stop - pos
    if second_return or name_pos + size + _SLACK > lines.names_end:
        return i, name_pos, False
    name_pos = copy_bytes(prefix, prefix_end, name_pos)
    store_u64(name_pos, EQUALS)
    return i, copy_short_bytes(pos, stop, name_pos + u64(1)), True


@inlined
def _text_named(start: Any, end: Any, texts: Any) -> Any:
    """Return the index of the raw text with the name between two addresses, or _NO_TEXT."""
    found = _NO_TEXT
    for z in range(np.uint64(len(texts.names))):
        size = texts.sizes[z]
        if end - start == size and bytes_equal(start, texts.names[z], size):
            found = np.uint64(z)
    return found


@inlined
def _belongs_to_text(start: Any, end: Any, texts: Any) -> bool:
    """Return whether a feature is named like a raw text, or like one of its n-grams."""
    found = False
    for z in range(np.uint64(len(texts.names))):
        after = start + texts.sizes[z]
        if end >= after and (end == after or load_u8(after) == EQUALS):
            found |= bytes_equal(start, texts.names[z], texts.sizes[z])
    return found


@inlined
def _is_blank(c: Any) -> bool:
    return bool((c == SPACE) | (c == TAB))
