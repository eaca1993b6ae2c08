"""Examples on their way to a file of rows, gathered to blocks of a good size."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.rows import are_valid_values
from streaml1.features.dedup import repeats
from streaml1.sources.row_cache.layout import LARGE, BlockHead
from streaml1.sources.source import Block

__all__ = ["Cut", "Gathered", "Piece", "piece_of"]

MOST_FEATURES, MOST_ROWS = 2**20, 2**13
"""What a block holds at most, but for a row that alone has more: 12 MB. A block costs some 100 us
beside its rows to read, whatever it holds."""


class Cut(NamedTuple):
    """Consecutive examples of a block, from the `first`, whose ids are of one kind."""

    first: int
    kind: int
    ids: Any
    values: Any
    indptr: Any

    def first_ones(self, n: int) -> Cut:
        """The first n of them, or all."""
        return self if n >= len(self.indptr) - 1 else self._replace(indptr=self.indptr[: n + 1])

    def pieces(self) -> Iterator[Cut]:
        """They in blocks that are not too large, one row at least in each."""
        n = len(self.indptr) - 1
        lo = 0
        while lo < n:
            most = int(self.indptr[lo]) + MOST_FEATURES
            hi = int(np.searchsorted(self.indptr, most, side="right")) - 1
            hi = min(max(hi, lo + 1), lo + MOST_ROWS, n)
            a, b = int(self.indptr[lo]), int(self.indptr[hi])
            indptr = self.indptr[lo : hi + 1] - a
            yield Cut(self.first + lo, self.kind, self.ids[a:b], self.values[a:b], indptr)
            lo = hi

    def is_plain(self) -> bool:
        """Whether models can learn the rows as they are."""
        if self.kind == LARGE:
            return False
        ids, values = (np.require(a, None, ["C", "W"]) for a in (self.ids, self.values))
        if not are_valid_values(values) or not (values != 0.0).all():
            return False
        return not repeats(ids, self.indptr.astype(np.uint64))


class Piece(NamedTuple):
    """Examples that wait for others; `values` and `ids` are bytes already."""

    kind: int
    plain: bool
    y: Any
    """float64, or a list where others are among them."""
    w: Any
    """float64, or None where all of them are 1."""
    indptr: Any
    lines: Any
    values: bytes
    valued: bool
    ids: bytes
    known: list[Any] | None
    """What the source calls each example, or None."""
    places: list[str] | None
    """Where each was read, where its line does not tell."""

    @property
    def n(self) -> int:
        """How many examples."""
        return len(self.lines)

    @property
    def n_features(self) -> int:
        """How many features they have together."""
        return int(self.indptr[-1])


def piece_of(rows: Cut, block: Block) -> Piece:
    """Some rows of a block, with what else is kept of these examples."""
    lo, hi = rows.first, rows.first + len(rows.indptr) - 1
    w = None if block.w is None else np.asarray(block.w[lo:hi], np.float64)
    return Piece(
        rows.kind, rows.is_plain(), _labels(block.y[lo:hi]),
        None if w is None or (w == 1.0).all() else w,
        rows.indptr.astype(np.int64), np.asarray(block.lines[lo:hi], np.int64),
        np.ascontiguousarray(rows.values).tobytes(), bool((rows.values != 1.0).any()),
        np.ascontiguousarray(rows.ids, np.int64 if rows.kind == LARGE else np.uint32).tobytes(),
        _known(block, lo, hi), _places(block, lo, hi),
    )  # fmt: skip


def _labels(y: Any) -> Any:
    if isinstance(y, np.ndarray) and y.dtype == np.float64:
        return y.copy()
    listed = [one.item() if isinstance(one, np.generic) else one for one in y]
    return np.array(listed, np.float64) if all(type(one) is float for one in listed) else listed


def _known(block: Block, lo: int, hi: int) -> list[Any] | None:
    ids = [] if block.ids is None else list(block.ids[lo:hi])
    return ids if any(one is not None for one in ids) else None


def _places(block: Block, lo: int, hi: int) -> list[str] | None:
    told = type(block).place is Block.place or getattr(block, "places", True) is None
    return None if told else [block.place(row) for row in range(lo, hi)]


class Gathered:
    """Pieces that wait to be one block.

    Attributes
    ----------
    n, n_features : int
        How many examples they have, and features.
    """

    def __init__(self) -> None:
        self.n = self.n_features = 0
        self._pieces: list[Piece] = []

    def fits(self, piece: Piece) -> bool:
        """Whether a piece may be in one block with them."""
        if not self._pieces:
            return True
        last = self._pieces[-1]
        return (
            last.kind == piece.kind
            and (last.places is None) == (piece.places is None)
            and self.n + piece.n <= MOST_ROWS
            and self.n_features + piece.n_features <= MOST_FEATURES
        )

    def add(self, piece: Piece) -> None:
        """Have one more, which fits."""
        self._pieces.append(piece)
        self.n += piece.n
        self.n_features += piece.n_features

    def parts(self) -> list[bytes]:
        """The parts of the block, in their order."""
        held = self._pieces
        lines = np.concatenate([one.lines for one in held])
        in_turn = lines[0] > 0 and (np.diff(lines) == 1).all()
        valued = any(one.valued for one in held)
        weighted = any(one.w is not None for one in held)
        labels, extra = _told_as_json(held)
        before = np.cumsum([0, *(one.n_features for one in held)])
        head = BlockHead(
            self.n, self.n_features, held[0].kind, int(valued), int(weighted),
            int(all(one.plain for one in held)), int(lines[0]) if in_turn else 0, len(labels),
            len(extra),
        )  # fmt: skip
        indptr = [one.indptr[1:] + at for one, at in zip(held, before, strict=False)]
        parts: list[bytes | None] = [
            np.array(head, np.uint64).tobytes(),
            labels or np.concatenate([one.y for one in held]).tobytes(),
            np.concatenate([np.ones(one.n) if one.w is None else one.w for one in held]).tobytes()
            if weighted
            else None,
            np.concatenate([[0], *indptr]).astype(np.int64).tobytes(),
            None if in_turn else lines.tobytes(),
            b"".join(one.values for one in held) if valued else None,
            b"".join(one.ids for one in held),
            extra,
        ]
        return [one for one in parts if one is not None]


def _told_as_json(held: Sequence[Piece]) -> tuple[bytes, bytes]:
    """Labels where not all are floats, and what few examples have."""
    labels, extra = b"", dict[str, list[Any]]()
    if any(isinstance(one.y, list) for one in held):
        columns = (one.y if isinstance(one.y, list) else one.y.tolist() for one in held)
        labels = json.dumps([*chain.from_iterable(columns)]).encode()
    if any(one.known for one in held):
        extra["ids"] = [*chain.from_iterable(one.known or [None] * one.n for one in held)]
    if held[0].places is not None:
        extra["places"] = [*chain.from_iterable(one.places or [] for one in held)]
    return labels, json.dumps(extra).encode() if extra else b""
