"""What is to be crossed, and the plain road: one example by name."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.hashing import name_hash
from streaml1.core.rows import BadExample, check_value, shown
from streaml1.features.vocabulary.crossed_name import JOINT, hash_of_factors

__all__ = [
    "MOST_CROSSED",
    "MOST_PARTS",
    "Interaction",
    "Interactions",
    "check_cross",
    "interactions_of",
    "too_many",
    "too_many_parts",
]

MOST_CROSSED = 2**22  # of one example
MOST_PARTS = 2**20 - 1
"""Features of an example that belong to prefixes: their places have 20 bits, one says none."""

MOST_PREFIXES = 64
ENDS = ("=", "^")
"""What a name has behind its prefix."""

NONE = 2**64 - 1
# Where in a plan what stands.
PREFIXES, SPECS, SPECS_AT, BOUNDS_AT, LETTERS_AT, FIRST_BYTES = range(6)
HEAD = FIRST_BYTES + 256


def too_many(n: int) -> str:
    """Say that an example has too many crossed features."""
    return (
        f"an example may have {n:,} crossed features, more than {MOST_CROSSED:,}: cross less of it"
    )


def too_many_parts(n: int) -> str:
    """Say that an example has too many features that are to be crossed."""
    return (
        f"an example has {n:,} features to cross, more than {MOST_PARTS:,}: give it in parts, or "
        "cross prefixes of fewer"
    )


class Interaction(NamedTuple):
    """A crossed feature of an example."""

    hash: int
    value: float
    parts: tuple[str, ...]  # by prefix, then by hash


def check_cross(name: str, value: Any) -> list[tuple[str, ...]] | None:
    """Check what a model is asked to cross: None, or pairs and triples of prefixes.

    Raises
    ------
    ValueError
        One sentence, where it is none.
    """
    if value is None:
        return None
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(f'{name}={shown(value)} is no list; give one such as [("site", "ad")]')
    listed = tuple(value)
    try:
        return list(_checked(name, listed)) or None
    except TypeError:  # there are lists in it
        return list(_checked.__wrapped__(name, listed)) or None


@lru_cache(64)
def _checked(name: str, value: tuple[Any, ...]) -> list[tuple[str, ...]]:
    """As `check_cross`; copies of a model with hundreds of crosses are made in no time."""
    asked = [_one(name, cross) for cross in value]
    seen: set[tuple[str, ...]] = set()
    for cross in asked:
        if tuple(sorted(cross)) in seen:
            raise ValueError(f"{name} has {','.join(cross)} twice: once crosses all of it")
        seen.add(tuple(sorted(cross)))
    if len({prefix for cross in asked for prefix in cross}) > MOST_PREFIXES:
        raise ValueError(f"{name} has more than {MOST_PREFIXES} prefixes: cross fewer")
    return asked


def _one(name: str, cross: Any) -> tuple[str, ...]:
    listed = isinstance(cross, Sequence) and not isinstance(cross, str | bytes)
    if not listed or len(cross) not in (2, 3) or not all(isinstance(p, str) for p in cross):
        raise ValueError(
            f"{name} has {shown(cross)}, no cross; give two or three prefixes of names, "
            'such as ("site", "ad")'
        )
    for prefix in cross:
        if JOINT in prefix:
            raise ValueError(
                f"{name} has {shown(prefix)}, no prefix: {JOINT!r} joins the names of what is "
                "crossed; name the features otherwise"
            )
        if not prefix or "=" in prefix:
            raise ValueError(
                f"{name} has {shown(prefix)}, no prefix: it is what a name has before = or ^"
            )
        try:
            prefix.encode()
        except UnicodeEncodeError:
            raise ValueError(f"{name} has {ascii(prefix)}, which is no text: repair it") from None
    return tuple(cross)


class Interactions:
    """The crosses of a model.

    A name belongs to the prefix `p` if it is `p`, or begins with `p=` or `p^`. A cross of some
    prefixes has a feature for each set of distinct features that can be given to them one to
    each; its value is the product of theirs.

    Parameters
    ----------
    asked
        Pairs and triples of prefixes, as `check_cross` gives them.

    Examples
    --------
    >>> for cross in Interactions([("site", "ad")]).of({"site=news": 1.0, "ad": 2.0, "age": 31.0}):
    ...     print(cross.parts, cross.value)
    ('site=news', 'ad') 2.0
    """

    def __init__(self, asked: Sequence[tuple[str, ...]]) -> None:
        self.crosses = list(asked)
        self.prefixes = list(dict.fromkeys(p for cross in asked for p in cross))
        self.prefix_indices = [tuple(self.prefixes.index(p) for p in cross) for cross in asked]
        self.max_prefixes_per_name = max(self.mask(p).bit_count() for p in self.prefixes)
        self.plan = self._plan()

    def __reduce__(self) -> tuple[Any, ...]:
        return Interactions, (self.crosses,)

    def _plan(self) -> Any:
        """All of it as one array for kernels."""
        texts = [p.encode() for p in self.prefixes]
        letters = b"".join(texts)
        letters += bytes(-len(letters) % 8 + 8)
        n, s = len(texts), len(self.crosses)
        plan = np.zeros(HEAD + 3 * s + n + 1 + len(letters) // 8, np.uint64)
        plan[:FIRST_BYTES] = (n, s, HEAD, HEAD + 3 * s, HEAD + 3 * s + n + 1)
        for k, text in enumerate(texts):
            plan[FIRST_BYTES + text[0]] |= np.uint64(1 << k)
        for k, cross in enumerate(self.prefix_indices):
            plan[HEAD + 3 * k : HEAD + 3 * k + 3] = (*cross, *([NONE] * (3 - len(cross))))
        plan[HEAD + 3 * s + 1 : HEAD + 3 * s + n + 1] = np.cumsum([len(one) for one in texts])
        plan[HEAD + 3 * s + n + 1 :] = np.frombuffer(letters, np.uint64)
        return plan

    @property
    def disjoint(self) -> bool:
        """Whether no name belongs to two prefixes: no feature is crossed in two ways then."""
        return self.max_prefixes_per_name == 1

    def mask(self, name: Hashable) -> int:
        """Return the prefixes that a name belongs to, a bit each."""
        if not isinstance(name, str):
            return 0
        bits = 0
        for k, p in enumerate(self.prefixes):
            if str.startswith(name, p) and (len(name) == len(p) or name[len(p)] in ENDS):
                bits |= 1 << k
        return bits

    def of(self, plain: dict[Hashable, float]) -> list[Interaction]:
        """Return the crossed features of an example, given by name without zeros.

        Raises
        ------
        BadExample
            Where a product is too large, or there are too many of them or of their parts.
        """
        parts = [(name, self.mask(name)) for name in plain]
        parts = [part for part in parts if part[1]]
        if len(parts) > MOST_PARTS:
            raise BadExample(too_many_parts(len(parts)))
        n = self._bound([mask for _, mask in parts])
        if n > MOST_CROSSED:
            raise BadExample(too_many(n))
        hashes = [name_hash(name) for name, _ in parts]
        crosses: list[Interaction] = []
        for chosen in self._sets([mask for _, mask in parts]):
            ordered = sorted(chosen, key=hashes.__getitem__)
            h = hash_of_factors([hashes[k] for k in ordered])
            v = prod(plain[parts[k][0]] for k in ordered)
            told = sorted(ordered, key=lambda k: parts[k][1] & -parts[k][1])  # the first prefix
            names = tuple(str(parts[k][0]) for k in told)
            check_value(JOINT.join(names), v)
            if v != 0.0:
                crosses.append(Interaction(h, v, names))
        return crosses

    def _bound(self, masks: list[int]) -> int:
        sizes = [sum(mask >> p & 1 for mask in masks) for p in range(len(self.prefixes))]
        return sum(prod(sizes[p] for p in cross) for cross in self.prefix_indices)

    def _sets(self, masks: list[int]) -> Iterator[tuple[int, ...]]:
        for cross in self.prefix_indices:
            groups = [[i for i, mask in enumerate(masks) if mask >> p & 1] for p in cross]
            for chosen in product(*groups):
                if len(set(chosen)) == len(chosen) and not any(
                    other < chosen
                    and all(masks[i] >> p & 1 for i, p in zip(other, cross, strict=True))
                    for other in permutations(chosen)
                ):
                    yield chosen

    def factors_of(self, name: Hashable) -> list[str] | None:
        """Return the factors of the interaction of this name, if it can be one."""
        if not isinstance(name, str):
            return None
        parts = name.split(JOINT)
        return parts if len(parts) in (2, 3) and all(map(self.mask, parts)) else None

    def require_plain(self, name: Hashable) -> None:
        """Refuse a plain name that reads as that of a crossed feature.

        Raises
        ------
        BadExample
            One sentence that says so.
        """
        if not isinstance(name, str) or JOINT not in name:
            return
        if any(map(self.mask, name.split(JOINT)[1:])) and self.mask(name):
            raise BadExample(
                f"the name {shown(name)} reads as a cross of this model, which makes crosses "
                "itself: leave it out, or name it otherwise"
            )


@lru_cache(64)
def interactions_of(asked: tuple[tuple[str, ...], ...]) -> Interactions:
    """Return the interactions of a model, which never change."""
    return Interactions(asked)
