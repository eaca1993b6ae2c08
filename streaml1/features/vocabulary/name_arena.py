"""Names stored as bytes in one array, in UTF-8 with lone surrogates ("surrogatepass")."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from streaml1.core.aligned import aligned_empty
from streaml1.core.jit import COMPILED, inlined, kernel, u64
from streaml1.core.types import Bools, Hashes, Ints
from streaml1.text.byte_names import copy_short_bytes
from streaml1.text.keyed_names import keyed_hashes_between

__all__ = ["MIN_NAMES", "PADDING", "Counted", "NameArena", "copy_name"]

MIN_NAMES = 64
"""Initial capacity in names; small because a process may hold many copies of a model."""

PADDING = 32
"""Bytes behind the names of an arena, and behind those to copy: `copy_name` may touch them."""


@inlined
def _copy_name_bytewise(text: Any, begin: Any, size: Any, out: Any, out_pos: Any) -> Any:
    for i in range(begin, begin + size):
        out[out_pos] = text[i]
        out_pos += u64(1)
    return out_pos


@inlined
def _copy_name_wide(text: Any, begin: Any, size: Any, out: Any, out_pos: Any) -> Any:
    """Copy the bytes of a name from `text` to `out`; return where the copy ends.

    Writes up to `PADDING` bytes behind the copy.
    """
    if begin + size + np.uint64(PADDING) > np.uint64(len(text)):  # a wide load would leave `text`
        return _copy_name_bytewise(text, begin, size, out, out_pos)
    first, base = np.uint64(text.ctypes.data) + begin, np.uint64(out.ctypes.data)
    return copy_short_bytes(first, first + size, base + out_pos) - base


copy_name = _copy_name_wide if COMPILED else _copy_name_bytewise


@kernel
def _copy_retained(
    retained: Any, hashes: Any, ends: Any, bytes_: Any, out_hashes: Any, out_ends: Any, out: Any
) -> None:
    """Copy the retained names of an arena to the arrays of another."""
    n, out_pos = u64(0), u64(0)
    for k in range(np.uint64(len(retained))):
        if retained[k]:
            out_hashes[n] = hashes[k]
            out_pos = copy_name(bytes_, ends[k], ends[k + u64(1)] - ends[k], out, out_pos)
            n += u64(1)
            out_ends[n] = out_pos


class Counted:
    """A count that kernels can change: `count` is int64 of shape (1,), and `n` its value."""

    count: Ints

    @property
    def n(self) -> int:
        """The count."""
        return int(self.count[0])

    @n.setter
    def n(self, n: int) -> None:
        self.count[0] = n


class NameArena(Counted):
    """Append-only storage of names as UTF-8 in one array.

    The first `n` names never change, so a snapshot shares the arrays.

    Attributes
    ----------
    count : ndarray of int64, shape (1,)
        The number of names; `n` is its value.
    hashes : ndarray of uint64
        The stable hash of each name.
    ends : ndarray of uint64
        Name k is ``bytes[ends[k]:ends[k + 1]]``.
    bytes : ndarray of uint8
        The names, and at least `PADDING` unused bytes behind them.
    """

    def __init__(self) -> None:
        self.count = np.zeros(1, np.int64)
        self.hashes = np.empty(MIN_NAMES, np.uint64)
        self.ends = np.zeros(MIN_NAMES + 1, np.uint64)
        self.bytes = np.empty(8 * MIN_NAMES + PADDING, np.uint8)

    def __len__(self) -> int:
        return self.n

    @property
    def nbytes(self) -> int:
        """Size of the arrays in bytes."""
        return int(self.hashes.nbytes + self.ends.nbytes + self.bytes.nbytes)

    def needs_growth(self, n: int, n_bytes: int) -> bool:
        """Return whether `n` more names with `n_bytes` bytes in total exceed the capacity."""
        used = int(self.ends[self.n])
        return self.n + n > len(self.hashes) or used + n_bytes + PADDING > len(self.bytes)

    def reserve(self, n: int, n_bytes: int) -> None:
        """Make room for `n` more names with `n_bytes` bytes in total."""
        used = int(self.ends[self.n])
        if self.n + n > len(self.hashes):
            capacity = 2 * (self.n + n)
            # Both arrays are allocated before either is replaced: an error leaves them consistent.
            hashes = _grown(self.hashes, self.n, capacity)
            ends = _grown(self.ends, self.n + 1, capacity + 1)
            self.hashes, self.ends = hashes, ends
        if used + n_bytes + PADDING > len(self.bytes):
            self.bytes = _grown(self.bytes, used, 2 * (used + n_bytes) + PADDING)

    def keyed_hashes(self) -> Hashes:
        """Return the keyed hash of each name."""
        return keyed_hashes_between(self.hashes[: self.n], self.bytes, self.ends)

    def snapshot(self) -> NameArena:
        """Return a copy that names added later do not affect."""
        copy = NameArena.__new__(NameArena)
        copy.count = self.count.copy()
        copy.hashes, copy.ends, copy.bytes = self.hashes, self.ends, self.bytes
        return copy

    def retained(self, retained: Bools) -> NameArena:
        """Return an arena of the names whose flag is true, in the same order."""
        chosen = np.flatnonzero(retained)
        target, n = NameArena(), len(chosen)
        ends = self.ends[: self.n + 1]
        n_bytes = int((ends[1:][chosen] - ends[chosen]).sum())
        target.hashes, target.ends = np.empty(n, np.uint64), np.zeros(n + 1, np.uint64)
        target.bytes = np.empty(n_bytes + PADDING, np.uint8)
        _copy_retained(
            retained, self.hashes, ends, self.bytes, target.hashes, target.ends, target.bytes
        )
        target.n = n
        return target

    def name(self, k: int) -> str:
        """Return the k-th name."""
        ends = self.ends.data
        return str(self.bytes.data[ends[k] : ends[k + 1]], "utf-8", "surrogatepass")

    def names(self) -> Iterator[str]:
        """Iterate over all names in order; names from text have no lone surrogates."""
        ends = self.ends[: self.n + 1].tolist()
        raw = self.bytes[: ends[-1]].tobytes()
        if raw.isascii():
            text = raw.decode()
            return (text[lo:hi] for lo, hi in zip(ends, ends[1:], strict=False))
        return (raw[lo:hi].decode() for lo, hi in zip(ends, ends[1:], strict=False))


def _grown(a: Any, n: int, size: int) -> Any:
    """Return a larger array of `size` elements that begins with the first `n` of `a`."""
    grown = aligned_empty(size, a.dtype)
    grown[:n] = a[:n]
    return grown
