"""The name and the hash of a crossed feature, from those of its factors.

A crossed feature is the product of two or three features, its *factors*. Its hash does not depend
on their order; its name lists them in the order of the prefixes of the interaction.
"""

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
    """The names of the factors in display order; `JOINT` joins them to the name."""

    __slots__ = ()


def display_order(names: Sequence[str]) -> CrossedName:
    """Sort the names of factors into display order.

    Names with the same head, the part before the first `=` or `^`, are adjacent and sorted; heads
    are in the order of their first occurrence.

    Parameters
    ----------
    names
        The names of the factors, in the order of the prefixes of their interaction.

    Examples
    --------
    >>> display_order(["site=news", "word^b", "word^a"])
    ('site=news', 'word^a', 'word^b')
    """
    if len(names) == 2 and names[0] <= names[1]:
        return CrossedName(names)
    heads = [_HEAD.match(name).group() for name in names]  # type: ignore[union-attr]
    rank = {head: heads.index(head) for head in heads}
    order = sorted(range(len(names)), key=lambda k: (rank[heads[k]], names[k]))
    return CrossedName(names[k] for k in order)


def hash_of_factors(hashes: Sequence[int]) -> int:
    """Return the stable hash of a crossed feature, given those of its factors in any order."""
    mixed, *rest = sorted(hashes)
    for h in rest:
        mixed = mix64_int(mixed * _GOLDEN + h & _MASK)
    return mixed


def cross_hash(names: Sequence[str]) -> int:
    """Return the stable hash of a crossed feature, given the names of its factors in any order."""
    return hash_of_factors([name_hash(name) for name in names])
