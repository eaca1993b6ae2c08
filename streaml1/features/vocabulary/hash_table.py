"""Vocabulary that stores names and gives each the next free slot.

=================================  =================================  ==========================
name                               found by                           in
=================================  =================================  ==========================
string                             Python's hash of this process      `entries`
int of 64 bits                     a bijective mix with a seed        `entries`
category, given as {key: value}    alias: a mix of both hashes        `entries`
irregular name                     equality                           `irregular`, a dict
string that arrives as bytes       keyed hash of its bytes            `byte_index`
crossed feature                    mix of the hashes of its factors   `crossed`
=================================  =================================  ==========================

Strings are compared by their 64-bit hashes only: among n strings, two share a hash, and are one
feature, with a probability of about n**2 / 2**65. Two ints never share a hash.

The name of a category is ``key=value``, split at the first `=`. Look-up by alias avoids joining
the strings. The same name given as one string has its own hash; a name that was given both ways has
two entries.

A new name that arrives as bytes stays bytes, pending in one of the last slots. `materialize` turns
all pending names into strings as soon as a name is looked up as a Python object. A crossed feature
has a slot, too; while pending it has an empty name there.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import compress, groupby

import numpy as np

from streaml1.core.rows import ensure
from streaml1.core.types import Bools, Bytes, Hashes, Ids, Ints, Slots
from streaml1.features.vocabulary import hash_keys
from streaml1.features.vocabulary.byte_interning import HashIndex
from streaml1.features.vocabulary.crossed_name import CrossedName
from streaml1.features.vocabulary.interaction_factors import InteractionFactors
from streaml1.features.vocabulary.name_arena import NameArena
from streaml1.features.vocabulary.name_index import ALIASED, USED, WHOLE, NameIndex
from streaml1.features.vocabulary.probing import MISSING, capacity_of, taken_pairs
from streaml1.features.vocabulary.slot_names import CROSS
from streaml1.text.keyed_names import keyed_hashes, keyed_hashes_of

__all__ = ["InternedVocabulary"]


class InternedVocabulary(NameIndex):
    """Vocabulary of names of any hashable type; see `SlotNames` and `NameIndex` for its arrays."""

    def __init__(self) -> None:
        super().__init__()
        self._byte_index: HashIndex | None = None

    @property
    def byte_index(self) -> HashIndex:
        """Index of all strings by their keyed hashes, brought up to date at each access."""
        index = HashIndex() if self._byte_index is None else self._byte_index
        n_keys = len(self.keys)
        if index.n < n_keys:
            added = range(index.n, n_keys)
            strings = np.array([j for j in added if isinstance(self.keys[j], str)], np.uint32)
            index.enter(keyed_hashes_of(self.names_at(strings)), strings)
        if index.n < len(self):
            pending = np.arange(max(index.n, n_keys), len(self))
            pending = pending[self.crossed.positions_of(pending) < 0]
            hashes = self.pending.keyed_hashes()[pending - n_keys]
            index.enter(hashes, pending.astype(np.uint32))
        index.n = len(self)
        self._byte_index = index
        return index

    def materialize(self) -> None:
        """Turn the pending names into strings; a no-op if there are none."""
        if not len(self.pending):
            return
        n_keys, names = len(self.keys), list(self.pending.names())
        slots = np.arange(n_keys, len(self), dtype=np.uint32)
        new_keys: list[str | None] = [*names]
        new_values: list[bool | None] = [None] * len(names)
        if len(self.crossed):
            plain = self.crossed.positions_of(slots) < 0
            new_values = [None if is_plain else CROSS for is_plain in plain.tolist()]
            pairs = zip(names, new_values, strict=True)
            new_keys = [name if value is None else None for name, value in pairs]
            names, slots = list(compress(names, plain.tolist())), slots[plain]
        hashes, _ = hash_keys.hashes_of(names)
        try:
            self._reserve(len(names))
            self.counts[USED] += hash_keys.put(self.entries, hashes, slots)
            self.counts[WHOLE] += hash_keys.count_with_equals(names)
            self.keys.extend(new_keys)
            self.category_values.extend(new_values)
            self.pending = NameArena()
        except BaseException:  # a signal: undo, unless all is done
            if len(self.pending):
                self._truncate_keys(n_keys)
            raise

    def find_all(self, names: Sequence[Hashable]) -> Ids:
        """Return the slots of names; `MISSING` for unknown names."""
        self.materialize()
        return self._find_hashed(*hash_keys.hashes_of(names), names)

    def find_ints(self, ids: Slots) -> Ids:
        """Return the slots of the int names in an array; `MISSING` for unknown ones."""
        slots = hash_keys.find_ints(self.entries, ids)
        if self.irregular:
            for k in np.flatnonzero(slots == MISSING).tolist():
                slots[k] = self.irregular.get(int(ids[k]), MISSING)
        return slots

    def intern_all(self, names: Sequence[Hashable]) -> Ids:
        """Return the slots of distinct names; unknown names get the next slots.

        If this raises, the names and their slots are as before; `entries` may be another array.
        """
        self.materialize()
        hashes, irregular = hash_keys.hashes_of(names)
        slots = self._find_hashed(hashes, irregular, names)
        new = np.flatnonzero(slots == MISSING)
        if self.counts[ALIASED]:
            self._add_own_hashes(hashes, slots, names)
        if not len(new):
            return slots
        size = len(self)
        self.reserve(len(new))
        try:
            hashed = np.ones(len(names), bool)
            hashed[irregular] = False
            # Runs of hashed and of irregular names, so that slots follow the order of names.
            for is_hashed, run in groupby(new.tolist(), hashed.__getitem__):
                positions = list(run)
                self._add([names[k] for k in positions], positions, slots, hashes, is_hashed)
        except BaseException:  # a signal, or an exception of a name's `__eq__`
            self.truncate(size)
            raise
        return slots

    def intern_items(
        self, hashes: Hashes, names: Sequence[str], values: Sequence[str | None]
    ) -> bool:
        """Give the next slots to new features by their hashes; the caller has reserved entries.

        Parameters
        ----------
        hashes : ndarray of uint64, shape (n,)
            Hashes of names, and aliases of categories.
        names
            Names, and keys of categories.
        values
            Values of categories, else None.

        Returns
        -------
        bool
            False if a feature has a slot already, or two have the same hash. Then nothing has
            changed.
        """
        if (hash_keys.find(self.entries, hashes) != MISSING).any():
            return False
        size, n = len(self), len(names)
        slots = np.empty(n, np.uint32)
        try:
            hash_keys.intern(self.entries, hashes, slots, np.uint64(size))
            self._append(names, values)
        except BaseException:  # a signal
            self.truncate(size)
            raise
        if slots[-1] != size + n - 1:  # two have the same hash
            self.truncate(size)
            return False
        return True

    def intern_entered(
        self, enter: Callable[[int], tuple[Sequence[str], Sequence[str | None]] | None]
    ) -> bool:
        """Give the next slots to new features that a kernel enters into the hash table.

        Parameters
        ----------
        enter
            Gets the next slot; returns `names` and `values` (see `intern_items`) of the features
            that it has entered, in the order of their slots, or None if it failed.

        Returns
        -------
        bool
            False if `enter` failed. Then nothing has changed, but `entries` may be another array.
        """
        size = len(self.keys)
        try:
            entered = enter(size)
            if entered is not None:
                self._append(*entered)
                return True
        except BaseException:  # a signal
            self.truncate(size)
            raise
        self.truncate(size)
        return False

    def _append(self, names: Sequence[str], values: Sequence[str | None]) -> None:
        """Append the names of the next slots, which have entries; see `intern_items`."""
        self.keys.extend(names)
        self.category_values.extend(values)
        n_categories = len(names) - values.count(None)
        self.counts[USED] += len(names)
        self.counts[ALIASED] += n_categories
        if n_categories < len(names):
            whole = [name for name, value in zip(names, values, strict=True) if value is None]
            self.counts[WHOLE] += hash_keys.count_with_equals(whole)

    # Names that arrive as bytes, and crossed features

    def intern_bytes(
        self, hashes: Hashes, slots: Ids, text: Bytes, spans: Hashes, max_slots: int,
        start: int = 0, keyed: Hashes | None = None,
    ) -> int:  # fmt: skip
        """Write the slots of names that arrive as bytes to `slots`; new names become pending.

        `hashes` are the stable hashes of the names, and `keyed` their keyed hashes if these are
        known. See `HashIndex.intern` for the other parameters and the returned position.
        """
        if keyed is None:
            keyed = keyed_hashes(hashes, text, spans)
        return self.byte_index.intern(
            keyed, slots, text, spans, self.pending, max_slots, start, hashes
        )

    def intern_crossed(
        self,
        hashes: Hashes,
        slots: Ids,
        factors: InteractionFactors,
        max_slots: int = MISSING,
        start: int = 0,
    ) -> int:
        """Write the slots of crossed features to `slots`; new ones become pending.

        See `CrossedTable.intern` for the parameters and the returned position.
        """
        size, index = len(self), self._byte_index
        end = self.crossed.intern(hashes, slots, factors, self.pending, size, max_slots, start)
        if index is not None and index.n == size:  # crossed features are not in the byte index
            index.n = len(self)
        return end

    # Capacity and released slots

    def reserve(self, n: int) -> None:
        """Make room for `n` more entries, so that half of all entries stay free."""
        self.materialize()
        self._reserve(n)

    def truncate(self, size: int) -> None:
        """Remove the names of the slots from `size` on."""
        self.materialize()
        if len(self.crossed):
            slots = np.arange(len(self))
            self.crossed = self.crossed.remapped(np.where(slots < size, slots, -1))
        self._truncate_keys(size)

    def _truncate_keys(self, size: int) -> None:
        """Remove the names from `size` on of those that are not pending."""
        if self._byte_index is not None and self._byte_index.n > size:
            self._byte_index = None
        del self.keys[size:], self.category_values[size:]
        self.irregular = {name: slot for name, slot in self.irregular.items() if slot < size}
        taken = taken_pairs(self.entries)
        self._rewrite(taken[taken[:, 1] < size], capacity_of(self.entries))
        self._count()

    def retain(self, retained: Bools) -> tuple[InternedVocabulary, Ints]:
        """Return a vocabulary of the retained slots; this one is unchanged.

        Parameters
        ----------
        retained : ndarray of bool
            For each slot whether it is retained. Flags behind the last name are ignored.

        Returns
        -------
        vocabulary : InternedVocabulary
            The vocabulary, its slots numbered from 0 in the same order.
        new_slots : ndarray of int64, shape (len(self),)
            The new slot of each slot, negative for released ones.
        """
        retained = retained[: len(self)]
        new_slots = np.where(retained, np.cumsum(retained) - 1, -1)
        target = InternedVocabulary()
        self._copy_subset_to(target, retained, new_slots)
        if self._byte_index is not None:
            target._byte_index = self._byte_index.remapped(new_slots)
        if not self.keys:
            return target, new_slots
        taken = taken_pairs(self.entries)
        slots = new_slots[taken[:, 1].astype(np.int64)]
        taken = np.stack([taken[:, 0], slots.astype(np.uint64)], axis=1)[slots >= 0]
        remapped = {name: int(new_slots[slot]) for name, slot in self.irregular.items()}
        target.irregular = {name: slot for name, slot in remapped.items() if slot >= 0}
        target.counts[WHOLE] = self.counts[WHOLE]
        target._rewrite(taken, 1 << max(10, (4 * len(taken)).bit_length()))
        target._count()
        return target, new_slots

    def as_ints(self) -> Ints | None:
        """Return the names by slot as ints; None unless all names are non-negative ints."""
        if self.irregular or len(self.pending) or len(self.crossed):
            return None
        if not all(type(name) is int and name >= 0 for name in self.keys):
            return None
        return np.array(self.keys, np.int64)

    # Model files

    @staticmethod
    def from_state_dict(
        names: Iterable[Hashable], joints: Sequence[int] | Ints
    ) -> InternedVocabulary:
        """Return the vocabulary of saved names, slots in their order; inverse of `state_dict`.

        Raises
        ------
        AssertionError
            If the names or joints are inconsistent.
        """
        names = list(names)
        ensure(
            len(joints) == len(names),
            f"each name needs a joint, got {len(joints)} joints of {len(names)} names",
        )
        vocabulary = InternedVocabulary()
        crossed = np.fromiter((isinstance(name, CrossedName) for name in names), bool, len(names))
        plain = [name for name in names if not isinstance(name, CrossedName)]
        vocabulary.intern_all(plain)
        ensure(len(vocabulary) == len(plain), "names must be distinct, got a duplicate")
        if crossed.any():
            vocabulary._insert_crossed(names, crossed)
        categories = np.flatnonzero(np.asarray(joints) >= 0).tolist()
        if categories:
            vocabulary._split_categories({k: int(joints[k]) for k in categories})
        return vocabulary

    def _insert_crossed(self, names: list[Hashable], crossed: Bools) -> None:
        """Insert the crossed features among `names`; the others are in this vocabulary, in order.

        `crossed` has a flag for each name. Each name gets its position in `names` as its slot.
        """
        slots = np.flatnonzero(~crossed).astype(np.uint32)
        taken = taken_pairs(self.entries)
        taken[:, 1] = slots[taken[:, 1].astype(np.int64)]
        self._rewrite(taken, capacity_of(self.entries))
        self.irregular = {name: int(slots[slot]) for name, slot in self.irregular.items()}
        self.keys, self.category_values = list(names), [None] * len(names)
        crossed_slots = np.flatnonzero(crossed)
        for k in crossed_slots.tolist():
            self.keys[k], self.category_values[k] = None, CROSS
        self.crossed.restore([names[k] for k in crossed_slots.tolist()], crossed_slots)  # type: ignore

    def _split_categories(self, joints: dict[int, int]) -> None:
        """Replace the entries of some names by entries for their aliases.

        `joints` maps the slot of each name to the position of its first `=`.
        """
        whole = taken_pairs(self.entries)
        whole = whole[~np.isin(whole[:, 1], np.array(list(joints), np.uint64))]
        aliases = []
        for slot, joint in joints.items():
            name = self.keys[slot]
            is_category = isinstance(name, str) and str.find(name, "=") == joint
            ensure(is_category, f"joint {joint} of slot {slot} is not the first '=' of its name")
            self.keys[slot], self.category_values[slot] = name[:joint], name[joint + 1 :]  # type: ignore
            h = hash_keys.alias_of(name)  # type: ignore[arg-type]
            aliases.append((h, slot))
        both = np.concatenate([whole, np.array(aliases, np.uint64)])
        self._rewrite(both, capacity_of(self.entries))
        self._count()

    def check(self, size: int) -> None:
        """Raise AssertionError if the hash tables, the dict and the lists disagree.

        `size` is the number of slots of the rule.
        """
        n = len(self)
        ensure(n <= size, f"more names than slots: {n} names, {size} slots")
        crossed = self.crossed_mask()
        if len(self.pending):
            pending = np.flatnonzero(~crossed[len(self.keys) :]) + len(self.keys)
            all_names = self.names()
            pending_names = [all_names[j] for j in pending.tolist()]
            found, unknown = self.byte_index.find(keyed_hashes_of(pending_names))
            ensure(not len(unknown), "a pending name is not in the byte index")
            ensure((found == pending).all(), "a pending name has another slot in the byte index")
            n = len(self.keys)
        n_values = len(self.category_values)
        ensure(n_values == n, f"{n} keys have {n_values} category values")
        flags = [value is CROSS for value in self.category_values]
        ensure(crossed[:n].tolist() == flags, "marks of crossed features disagree with `crossed`")
        plain = np.flatnonzero(~crossed[:n])
        plain_names = self.names_at(plain)
        slots = self._find_hashed(*hash_keys.hashes_of(plain_names), plain_names)
        ensure((slots == plain).all(), "a name is not found at its slot")
        self.crossed.check()
        taken = taken_pairs(self.entries)[:, 1]
        used = int(self.counts[USED])
        ensure(len(taken) == used, f"{len(taken)} entries are taken, counted {used}")
        ensure(np.all(taken < n), "an entry has a slot without a name")
        hashed = len(plain) - len(self.irregular)
        ensure(hashed == len(np.unique(taken)), "a name has no entry")
        capacity = capacity_of(self.entries)
        ensure(2 * len(taken) <= capacity, "more than half of the entries are taken")
        counts = self.counts.copy()
        self._count()
        ensure((counts == self.counts).all(), f"counts must be {self.counts}, got {counts}")
