"""Encode examples as blocks of a `.rows` file."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import are_valid_values
from streaml1.core.types import Floats, Indptr, Ints, Values
from streaml1.features.dedup import repeats
from streaml1.sources.row_cache.layout import LARGE, BlockHead
from streaml1.sources.source import Block

__all__ = ["EncodedRows", "PendingRows", "RowSlice", "encode_rows"]

MAX_FEATURES, MAX_ROWS = 2**20, 2**13
"""Maximum size of a block, about 12 MB; a single row may exceed it. Reading a block costs some 100
us in addition to its rows."""


class RowSlice(NamedTuple):
    """Consecutive examples of a source's block whose ids are of one kind."""

    first: int
    """The position of the first example in the block."""
    kind: int
    """`SMALL`, `LARGE` or `NAMED`."""
    ids: Any
    values: Values
    indptr: Indptr

    def head(self, n: int) -> RowSlice:
        """Return the first n examples, or all."""
        return self if n >= len(self.indptr) - 1 else self._replace(indptr=self.indptr[: n + 1])

    def split(self) -> Iterator[RowSlice]:
        """Yield slices that fit in a block, with at least one row each."""
        n = len(self.indptr) - 1
        lo = 0
        while lo < n:
            max_feature = int(self.indptr[lo]) + MAX_FEATURES
            hi = int(np.searchsorted(self.indptr, max_feature, side="right")) - 1
            hi = min(max(hi, lo + 1), lo + MAX_ROWS, n)
            a, b = int(self.indptr[lo]), int(self.indptr[hi])
            indptr = self.indptr[lo : hi + 1] - a
            yield RowSlice(self.first + lo, self.kind, self.ids[a:b], self.values[a:b], indptr)
            lo = hi

    def is_plain(self) -> bool:
        """Return whether models can learn the rows without preparation: see `BlockHead.plain`."""
        if self.kind == LARGE:
            return False
        ids, values = (np.require(a, None, ["C", "W"]) for a in (self.ids, self.values))
        if not are_valid_values(values) or not (values != 0.0).all():
            return False
        return not repeats(ids, self.indptr.astype(np.uint64))


class EncodedRows(NamedTuple):
    """Examples that wait for their block to fill; `values` and `ids` are bytes already."""

    kind: int
    plain: bool
    y: Floats | list[Any]
    """Labels: float64, or a list if any label is something else."""
    w: Floats | None
    """Sample weights, or None if all of them are 1."""
    indptr: Indptr
    lines: Ints
    values: bytes
    valued: bool
    """Whether any value is not 1."""
    ids: bytes
    example_ids: list[Any] | None
    """The ids of the examples in their source, or None."""
    places: list[str] | None
    """Where each example was read; None if its line number says it all."""

    @property
    def n(self) -> int:
        """The number of examples."""
        return len(self.lines)

    @property
    def n_features(self) -> int:
        """The number of features of all examples."""
        return int(self.indptr[-1])


def encode_rows(rows: RowSlice, block: Block) -> EncodedRows:
    """Encode rows of a block, with the labels, weights and locations of these examples."""
    lo, hi = rows.first, rows.first + len(rows.indptr) - 1
    w = None if block.w is None else np.asarray(block.w[lo:hi], np.float64)
    id_type = np.int64 if rows.kind == LARGE else np.uint32
    return EncodedRows(
        rows.kind, rows.is_plain(), _labels(block.y[lo:hi]),
        None if w is None or (w == 1.0).all() else w,
        rows.indptr.astype(np.int64), np.asarray(block.lines[lo:hi], np.int64),
        np.ascontiguousarray(rows.values).tobytes(), bool((rows.values != 1.0).any()),
        np.ascontiguousarray(rows.ids, id_type).tobytes(),
        _example_ids(block, lo, hi), _places(block, lo, hi),
    )  # fmt: skip


def _labels(y: Any) -> Any:
    if isinstance(y, np.ndarray) and y.dtype == np.float64:
        return y.copy()
    labels = [label.item() if isinstance(label, np.generic) else label for label in y]
    all_floats = all(type(label) is float for label in labels)
    return np.array(labels, np.float64) if all_floats else labels


def _example_ids(block: Block, lo: int, hi: int) -> list[Any] | None:
    ids = [] if block.ids is None else list(block.ids[lo:hi])
    return ids if any(id is not None for id in ids) else None


def _places(block: Block, lo: int, hi: int) -> list[str] | None:
    line_tells = type(block).place is Block.place or getattr(block, "places", True) is None
    return None if line_tells else [block.place(row) for row in range(lo, hi)]


class PendingRows:
    """Encoded rows that are gathered into one block.

    Attributes
    ----------
    n, n_features : int
        How many examples and features there are.
    """

    def __init__(self) -> None:
        self.n = self.n_features = 0
        self._pieces: list[EncodedRows] = []

    def fits(self, piece: EncodedRows) -> bool:
        """Return whether the block can take more rows."""
        if not self._pieces:
            return True
        last = self._pieces[-1]
        return (
            last.kind == piece.kind
            and (last.places is None) == (piece.places is None)
            and self.n + piece.n <= MAX_ROWS
            and self.n_features + piece.n_features <= MAX_FEATURES
        )

    def add(self, piece: EncodedRows) -> None:
        """Add rows that fit."""
        self._pieces.append(piece)
        self.n += piece.n
        self.n_features += piece.n_features

    def encode(self) -> list[bytes]:
        """Return the parts of the block in order, see `streaml1.sources.row_cache.layout`."""
        pieces = self._pieces
        lines = np.concatenate([piece.lines for piece in pieces])
        consecutive = lines[0] > 0 and (np.diff(lines) == 1).all()
        valued = any(piece.valued for piece in pieces)
        weighted = any(piece.w is not None for piece in pieces)
        labels, extra = _json_labels(pieces), _json_extra(pieces)
        first_features = np.cumsum([0, *(piece.n_features for piece in pieces)])
        head = BlockHead(
            self.n, self.n_features, pieces[0].kind, int(valued), int(weighted),
            int(all(piece.plain for piece in pieces)), int(lines[0]) if consecutive else 0,
            len(labels), len(extra),
        )  # fmt: skip
        indptr = [p.indptr[1:] + first for p, first in zip(pieces, first_features, strict=False)]
        w = (np.ones(piece.n) if piece.w is None else piece.w for piece in pieces)
        parts: list[bytes | None] = [
            np.array(head, np.uint64).tobytes(),
            labels or np.concatenate([piece.y for piece in pieces]).tobytes(),
            np.concatenate([*w]).tobytes() if weighted else None,
            np.concatenate([[0], *indptr]).astype(np.int64).tobytes(),
            None if consecutive else lines.tobytes(),
            b"".join(piece.values for piece in pieces) if valued else None,
            b"".join(piece.ids for piece in pieces),
            extra,
        ]
        return [part for part in parts if part is not None]


def _json_labels(pieces: Sequence[EncodedRows]) -> bytes:
    """Return all labels as JSON if any of them is not a float; otherwise no bytes."""
    if not any(isinstance(piece.y, list) for piece in pieces):
        return b""
    columns = (piece.y if isinstance(piece.y, list) else piece.y.tolist() for piece in pieces)
    return json.dumps([*chain.from_iterable(columns)]).encode()


def _json_extra(pieces: Sequence[EncodedRows]) -> bytes:
    """Return ids and locations as JSON, or no bytes if there are none."""
    extra = dict[str, list[Any]]()
    if any(piece.example_ids for piece in pieces):
        ids = (piece.example_ids or [None] * piece.n for piece in pieces)
        extra["ids"] = [*chain.from_iterable(ids)]
    if pieces[0].places is not None:
        extra["places"] = [*chain.from_iterable(piece.places or [] for piece in pieces)]
    return json.dumps(extra).encode() if extra else b""
