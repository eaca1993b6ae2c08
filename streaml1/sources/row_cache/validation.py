"""Checks of what a `.rows` file says about itself.

A checksum finds damage, but not forgery: a forged file has valid checksums. Kernels take addresses
from the row boundaries, the ids and the names, and models trust that rows are plain where a block
says so: all of that is checked once for each part of a file, when the part is first read.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

import numpy as np

from streaml1.core.hashing import utf8_hashes
from streaml1.core.rows import are_valid_values, max_id
from streaml1.core.types import Bytes, Hashes, Indptr, Ints, Values
from streaml1.features.dedup import repeats
from streaml1.sources.row_cache.layout import HEADER, LARGE, MAX_NAME_BYTES, NAMED, BlockHead, Index

__all__ = [
    "Invalid",
    "check_block",
    "check_extra",
    "check_hashes",
    "check_head",
    "check_labels",
    "check_names",
    "read_index",
    "read_json",
]

N_NAME_PARTS = 3
_CONTINUATION, _CONTINUATION_MASK = 0x80, 0xC0  # of bytes that continue a character in UTF-8


class Invalid(ValueError):
    """A part of a file contradicts itself or another; the text is a clause for an error message."""


def _require(condition: Any, reason: str) -> None:
    if not condition:
        raise Invalid(reason)


def read_json(raw: bytes, what: str) -> Any:
    """Return the value of JSON in a file."""
    try:
        return json.loads(raw)
    except (ValueError, RecursionError):
        raise Invalid(f"{what} are not valid JSON") from None


def read_index(raw: bytes, index_offset: int) -> Index:
    """Return the index in bytes whose checksum has been verified.

    Raises
    ------
    Invalid
        If they are not an index, the parts do not fill the file up to it, or the counts disagree.
    """
    try:
        index = Index.read(raw)
        counts = [index.about[key] for key in ("rows", "features", "names")]
        texts = [index.about[key] for key in ("source", "format")]
    except (ValueError, RecursionError, TypeError, KeyError):
        raise Invalid("its index is invalid") from None
    _require(
        all(type(n) is int and 0 <= n < 2**62 for n in counts)
        and all(isinstance(text, str) for text in texts)
        and len(index.parts) >= N_NAME_PARTS,
        "its index is invalid",
    )
    offsets, sizes, rows, _ = index.parts.T
    # Sizes are bounded before they are added up, so that the sums cannot overflow.
    _require(((sizes >= 0) & (sizes <= index_offset)).all(), "a part has an invalid size")
    ends = HEADER.size + np.cumsum(sizes)
    starts = np.concatenate([[HEADER.size], ends[:-1]])
    filled = (offsets == starts).all() and ends[-1] == index_offset and not (sizes % 8).any()
    _require(filled, "its parts overlap")
    in_range = ((rows >= 0) & (rows <= index_offset)).all()
    _require(in_range and rows[:-N_NAME_PARTS].sum() == counts[0], "a part has wrong rows")
    return index


def check_head(head: BlockHead, rows: int) -> None:
    """Raise `Invalid` unless the fields of a block are in range, and it has a number of rows."""
    flags = (head.valued, head.weighted, head.plain)
    _require(
        min(head) >= 0
        and max(head) < 2**62
        and head.kind <= NAMED
        and max(flags) <= 1
        and head.rows == rows,
        "the head of a block is inconsistent",
    )


def check_block(head: BlockHead, indptr: Indptr, ids: Any, values: Values, names: int) -> int:
    """Return the bound of the ids of a block, 0 for `LARGE` ids.

    Raises
    ------
    Invalid
        If the row boundaries are out of order, an id is not the index of a name, or the block
        claims to be plain and is not.
    """
    # Neighbours are compared, because their differences may overflow.
    ordered = indptr[0] == 0 and indptr[-1] == head.features and (indptr[1:] >= indptr[:-1]).all()
    has_small_ids = head.features and head.kind != LARGE
    bound = max_id(ids) + 1 if has_small_ids else 0
    _require(ordered and (head.kind != NAMED or bound <= names), "rows or names are inconsistent")
    if head.plain and head.features:
        _require(
            head.kind != LARGE
            and (not head.valued or are_valid_values(values))
            and not repeats(ids, indptr.view(np.uint64)),
            "a block that claims to be plain has a duplicate feature or an invalid value",
        )
    return bound


def check_hashes(hashes: Hashes, names: int) -> None:
    """Raise `Invalid` unless there is one hash for each name, and no hash occurs twice."""
    _require(len(hashes) == names, "the number of its names is wrong")
    # A random factor, because crafted hashes could make the look-ups quadratic. It is odd, so that
    # the products are distinct if and only if the hashes are.
    factor = np.uint64(secrets.randbits(64) | 1)
    bounds = np.array([0, names], np.uint64)
    _require(not repeats(hashes * factor, bounds), "two names have the same hash")


def check_names(ends: Ints, text: Bytes, hashes: Hashes) -> None:
    """Raise `Invalid` unless `ends` cuts the text into names in UTF-8 that have these hashes."""
    _require(len(ends) == len(hashes), "the number of its names is wrong")
    begins = np.concatenate([[0], ends])
    # Ends are compared with the size first, so that none is negative.
    in_text = ((ends >= 0) & (ends <= min(len(text), MAX_NAME_BYTES - 1))).all()
    _require(in_text and (begins[1:] >= begins[:-1]).all(), "its names are out of order")
    _require(
        np.array_equal(utf8_hashes(text, ends.view(np.uint64)), hashes),
        "a name has the hash of another",
    )
    raw = text[: int(begins[-1])].tobytes()
    if raw.isascii():
        return
    try:
        raw.decode("utf-8", "surrogatepass")
    except UnicodeDecodeError:
        raise Invalid("a name is not valid UTF-8") from None
    firsts = text[begins[:-1][begins[:-1] < begins[-1]]]
    _require(((firsts & _CONTINUATION_MASK) != _CONTINUATION).all(), "a name is not valid UTF-8")


def check_labels(labels: Any, rows: int) -> None:
    """Raise `Invalid` unless JSON labels are a text, a number or null for each row."""
    _require(
        _is_list_of(rows, labels)
        and all(y is None or isinstance(y, str | int | float) for y in labels),
        "the labels of a block are inconsistent",
    )


def check_extra(extra: Any, rows: int) -> None:
    """Raise `Invalid` unless there is an id for each row or for none, and likewise a place."""
    _require(isinstance(extra, dict), "the ids of a block are inconsistent")
    ids, places = extra.get("ids"), extra.get("places")
    _require(ids is None or _is_list_of(rows, ids), "the ids of a block are inconsistent")
    _require(
        places is None
        or (_is_list_of(rows, places) and all(isinstance(place, str) for place in places)),
        "the places of a block are inconsistent",
    )


def _is_list_of(rows: int, values: Any) -> bool:
    return isinstance(values, list) and len(values) == rows
