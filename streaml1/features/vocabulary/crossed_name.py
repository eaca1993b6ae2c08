"""The name of a crossed feature: its parts, joined only when it is told."""

from __future__ import annotations

import re
from collections.abc import Sequence

from streaml1.core.hashing import mix64_int, name_hash

__all__ = ["JOINT", "CrossedName", "cross_hash", "hash_of_factors", "display_order"]

JOINT = " x "

_GOLDEN = 0x9E3779B97F4A7C15
_MASK = 2**64 - 1

_HEAD = re.compile(r"[^=^]*")


class CrossedName(tuple[str, ...]):
    """The names of the parts, in the order in which they are told."""

    __slots__ = ()


def display_order(names: Sequence[str]) -> CrossedName:
    """Return the factors of an interaction in display order, given by prefix.

    Those of one prefix are told in the order of their names.

    Examples
    --------
    >>> display_order(["site=news", "word^b", "word^a"])
    ('site=news', 'word^a', 'word^b')
    """
    if len(names) == 2 and names[0] <= names[1]:
        return CrossedName(names)
    heads = [_HEAD.match(name).group() for name in names]  # type: ignore[union-attr]
    first = {head: heads.index(head) for head in heads}
    order = sorted(range(len(names)), key=lambda k: (first[heads[k]], names[k]))
    return CrossedName(names[k] for k in order)


def hash_of_factors(hashes: Sequence[int]) -> int:
    """Return the hash of an interaction from those of its factors, in any order."""
    first, *rest = sorted(hashes)
    for h in rest:
        first = mix64_int(first * _GOLDEN + h & _MASK)
    return first


def cross_hash(parts: Sequence[str]) -> int:
    """Return the hash of a crossed feature, by the names of its parts."""
    return hash_of_factors([name_hash(name) for name in parts])
