"""The interactions of a model, and the pure Python fallback that crosses one example.

An interaction is a pair or triple of *prefixes*. A feature is a *factor* if its name belongs to
one of them; a *crossed feature* is the product of two or three factors.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import permutations, product
from math import prod
from typing import NamedTuple

import numpy as np

from streaml1.core.hashing import name_hash
from streaml1.core.named_options import by_caller, option_name
from streaml1.core.rows import BadExample, check_value, shown
from streaml1.core.types import UInts
from streaml1.features.vocabulary.crossed_name import JOINT, hash_of_factors

__all__ = [
    "MAX_CROSSED",
    "MAX_FACTORS",
    "CrossedFeature",
    "Interactions",
    "check_cross",
    "crossed_limit_message",
    "factor_limit_message",
    "interactions_of",
]

MAX_CROSSED = 2**22
"""Upper bound on the crossed features of one example."""

MAX_FACTORS = 2**20 - 1
"""Upper bound on the factors of one example.

Kernels pack their positions into 20 bits each; the remaining code means that there is no factor.
"""

MAX_PREFIXES = 64  # kernels keep the prefixes of a name as bits of a u64
SEPARATORS = ("=", "^")
"""Characters that may follow the prefix of a name."""

# Layout of a plan, the array by which kernels read the interactions:
#
# | u64 | content |
# |---|---|
# | `N_PREFIXES`, `N_CROSSES` | number of prefixes and of interactions |
# | `CROSSES_BASE` | base of the interactions: three prefix numbers each, the third may be absent |
# | `ENDS_BASE` | base of the offsets of the prefixes: prefix k is `bytes[ends[k]:ends[k + 1]]` |
# | `BYTES_BASE` | base of the bytes: the prefixes in UTF-8, eight bytes per u64 |
# | `FIRST_BYTES` + b | bit k is set if prefix k begins with byte b |
N_PREFIXES, N_CROSSES, CROSSES_BASE, ENDS_BASE, BYTES_BASE, FIRST_BYTES = range(6)
HEADER_SIZE = FIRST_BYTES + 256
NO_PREFIX = 2**64 - 1  # the third prefix of a pair


def crossed_limit_message(n: int) -> str:
    """Return the error message for an example with too many crossed features."""
    return (
        f"an example may have {n:,} crossed features, more than {MAX_CROSSED:,}; cross prefixes "
        "with fewer features"
    )


def factor_limit_message(n: int) -> str:
    """Return the error message for an example with too many factors."""
    return (
        f"an example has {n:,} features to cross, more than {MAX_FACTORS:,}; split the example, or "
        "cross prefixes with fewer features"
    )


class CrossedFeature(NamedTuple):
    """A crossed feature of an example.

    Attributes
    ----------
    hash : int
        Its stable hash, from those of the factors.
    value : float
        The product of the values of the factors.
    factors : tuple of str
        The names of the factors, ordered by their first prefix, ties by hash.
    """

    hash: int
    value: float
    factors: tuple[str, ...]


def check_cross(name: str, value: object) -> list[tuple[str, ...]] | None:
    """Validate the parameter `cross` of a model.

    Parameters
    ----------
    name
        Name of the parameter, for errors.
    value
        Pairs and triples of prefixes, or None.

    Returns
    -------
    list of tuple of str, or None
        The interactions; None if there are none.

    Raises
    ------
    ValueError
        If `value` is not a list of pairs or triples, repeats one, or a prefix is invalid.
    """
    if value is None:
        return None
    name = option_name(name)
    if isinstance(value, str) or not isinstance(value, Iterable):
        raise ValueError(
            f'{name} must be a list of pairs or triples of prefixes, such as [("site", "ad")], '
            f"got {shown(value)}"
        )
    crosses = tuple(value)
    try:
        return list(_checked(name, crosses)) or None
    except TypeError:  # an unhashable item, such as a list
        return list(_checked.__wrapped__(name, crosses)) or None


# Cached, so that copying a model with hundreds of interactions costs nothing.
@lru_cache(64)
def _checked(name: str, value: tuple[object, ...]) -> list[tuple[str, ...]]:
    crosses = [_checked_cross(name, cross) for cross in value]
    seen: set[tuple[str, ...]] = set()
    for cross in crosses:
        if tuple(sorted(cross)) in seen:
            raise ValueError(
                f"{name} has {','.join(cross)} twice; remove one, the order of prefixes is "
                "irrelevant"
            )
        seen.add(tuple(sorted(cross)))
    if len({prefix for cross in crosses for prefix in cross}) > MAX_PREFIXES:
        raise ValueError(f"{name} has more than {MAX_PREFIXES} prefixes; cross fewer")
    return crosses


def _checked_cross(name: str, cross: object) -> tuple[str, ...]:
    """Return one interaction as a tuple; raise ValueError if it is invalid."""
    if (
        not isinstance(cross, Sequence)
        or isinstance(cross, str | bytes)
        or len(cross) not in (2, 3)
        or not all(isinstance(p, str) for p in cross)
    ):
        raise ValueError(
            f"{name} has {shown(cross)}, which is not an interaction; give two or three prefixes "
            "of feature names, such as " + by_caller("site,ad", '("site", "ad")')
        )
    for prefix in cross:
        if JOINT in prefix:
            raise ValueError(
                f"{name} has the prefix {shown(prefix)}, but {JOINT!r} joins the names of factors; "
                "rename the features"
            )
        if not prefix or "=" in prefix:
            raise ValueError(
                f"{name} has {shown(prefix)}, which is not a prefix; give the part of a name "
                "before = or ^"
            )
        try:
            prefix.encode()
        except UnicodeEncodeError:
            raise ValueError(
                f"{name} has {ascii(prefix)}, which is not valid Unicode; remove its surrogates"
            ) from None
    return tuple(cross)


class Interactions:
    """The interactions of a model.

    A name belongs to the prefix `p` if it is `p`, or begins with `p=` or `p^`. An interaction has
    a crossed feature for each set of distinct features that can be assigned to its prefixes, one
    to each. Its value is the product of their values.

    Parameters
    ----------
    crosses
        Pairs and triples of prefixes, as `check_cross` returns them.

    Examples
    --------
    >>> interactions = Interactions([("site", "ad")])
    >>> for feature in interactions.crossed_features({"site=news": 1.0, "ad": 2.0, "age": 31.0}):
    ...     print(feature.factors, feature.value)
    ('site=news', 'ad') 2.0
    """

    def __init__(self, crosses: Sequence[tuple[str, ...]]) -> None:
        self.crosses = list(crosses)
        self.prefixes = list(dict.fromkeys(p for cross in crosses for p in cross))
        self.prefix_indices = [tuple(self.prefixes.index(p) for p in cross) for cross in crosses]
        # The prefixes that a name belongs to are nested, so the longest of them belongs to all of
        # them too: the maximum over all names is that over the prefixes.
        self.max_prefixes_per_name = max(self.mask(p).bit_count() for p in self.prefixes)
        self.plan = self._plan()

    def __reduce__(self) -> tuple[type[Interactions], tuple[list[tuple[str, ...]]]]:
        return Interactions, (self.crosses,)

    def _plan(self) -> UInts:
        """Return the plan for kernels; its layout is described at the top of this module."""
        texts = [p.encode() for p in self.prefixes]
        utf8 = b"".join(texts)
        utf8 += bytes(-len(utf8) % 8 + 8)
        n, s = len(texts), len(self.crosses)
        crosses_base = HEADER_SIZE
        ends_base = crosses_base + 3 * s
        bytes_base = ends_base + n + 1
        plan = np.zeros(bytes_base + len(utf8) // 8, np.uint64)
        plan[:FIRST_BYTES] = (n, s, crosses_base, ends_base, bytes_base)
        for k, text in enumerate(texts):
            plan[FIRST_BYTES + text[0]] |= np.uint64(1 << k)
        for k, cross in enumerate(self.prefix_indices):
            base = crosses_base + 3 * k
            plan[base : base + 3] = (*cross, *([NO_PREFIX] * (3 - len(cross))))
        plan[ends_base + 1 : bytes_base] = np.cumsum([len(text) for text in texts])
        plan[bytes_base:] = np.frombuffer(utf8, np.uint64)
        return plan

    @property
    def disjoint(self) -> bool:
        """True if no name belongs to two prefixes: no two interactions share a crossed feature."""
        return self.max_prefixes_per_name == 1

    def mask(self, name: Hashable) -> int:
        """Return the prefixes that a name belongs to: bit k for prefix k."""
        if not isinstance(name, str):
            return 0
        bits = 0
        for k, p in enumerate(self.prefixes):
            if str.startswith(name, p) and (len(name) == len(p) or name[len(p)] in SEPARATORS):
                bits |= 1 << k
        return bits

    def crossed_features(self, plain: dict[Hashable, float]) -> list[CrossedFeature]:
        """Return the crossed features of an example.

        Parameters
        ----------
        plain
            The example, without zeros.

        Raises
        ------
        BadExample
            If a product is too large, or there are too many products or factors.
        """
        factors = [(name, self.mask(name)) for name in plain]
        factors = [factor for factor in factors if factor[1]]
        if len(factors) > MAX_FACTORS:
            raise BadExample(factor_limit_message(len(factors)))
        masks = [mask for _, mask in factors]
        n = self._max_crossed(masks)
        if n > MAX_CROSSED:
            raise BadExample(crossed_limit_message(n))
        hashes = [name_hash(name) for name, _ in factors]
        crossed: list[CrossedFeature] = []
        for factor_set in self._factor_sets(masks):
            # Multiply in the order of hashes, as kernels do: products are bit-identical.
            by_hash = sorted(factor_set, key=hashes.__getitem__)
            h = hash_of_factors([hashes[k] for k in by_hash])
            v = prod(plain[factors[k][0]] for k in by_hash)
            by_prefix = sorted(by_hash, key=lambda k: masks[k] & -masks[k])  # the first prefix
            names = tuple(str(factors[k][0]) for k in by_prefix)
            check_value(JOINT.join(names), v)
            if v != 0.0:
                crossed.append(CrossedFeature(h, v, names))
        return crossed

    def _max_crossed(self, masks: list[int]) -> int:
        """Return an upper bound on the number of crossed features."""
        sizes = [sum(mask >> p & 1 for mask in masks) for p in range(len(self.prefixes))]
        return sum(prod(sizes[p] for p in cross) for cross in self.prefix_indices)

    def _factor_sets(self, masks: list[int]) -> Iterator[tuple[int, ...]]:
        """Yield the factors of each crossed feature, once per interaction, as positions."""
        for cross in self.prefix_indices:
            groups = [[i for i, mask in enumerate(masks) if mask >> p & 1] for p in cross]
            for factor_set in product(*groups):
                # Of all orders in which a set can be assigned to the prefixes, take the first.
                if len(set(factor_set)) == len(factor_set) and not any(
                    order < factor_set
                    and all(masks[i] >> p & 1 for i, p in zip(order, cross, strict=True))
                    for order in permutations(factor_set)
                ):
                    yield factor_set

    def factors_of(self, name: Hashable) -> list[str] | None:
        """Return the factors of the crossed feature of this name; None if it cannot be one."""
        if not isinstance(name, str):
            return None
        factors = name.split(JOINT)
        return factors if len(factors) in (2, 3) and all(map(self.mask, factors)) else None

    def require_plain(self, name: Hashable) -> None:
        """Reject the name of a plain feature that may equal that of a crossed one.

        Raises
        ------
        BadExample
            If the name may be that of a crossed feature.
        """
        if not isinstance(name, str) or JOINT not in name:
            return
        if any(map(self.mask, name.split(JOINT)[1:])) and self.mask(name):
            raise BadExample(
                f"the name {shown(name)} reads as a cross of this model, which computes crosses "
                "itself; remove or rename the feature"
            )


@lru_cache(64)
def interactions_of(crosses: tuple[tuple[str, ...], ...]) -> Interactions:
    """Return the interactions for `cross`; they are immutable, so equal ones are shared."""
    return Interactions(crosses)
