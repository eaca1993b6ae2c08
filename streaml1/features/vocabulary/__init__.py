"""Which slot each name has. Three kinds of names, of which a model has one at a time.

| kind | slot of a name | gives way |
|---|---|---|
| `IntVocabulary` | an int is its own slot: rows of numbered columns need no look-up | to `InternedVocabulary`, at the first other name, or where slots would be far more than names |
| `InternedVocabulary` | the next free one; names whose weights are zero are given back | to `IntVocabulary`, where all are ints and close together |
| `HashedVocabulary` | a hash of `bits` bits; no name is kept | never |

| verb | meaning |
|---|---|
| `find_all(names)` | slots, uint32; `MISSING` where a name has none |
| `find_ints(ids)` | the same of an array of int names, uint32 |
| `name(slot)` | the name that has a slot |
| `names_at(slots)` | the names of some slots, a list |
| `hashes(slots)` | hashes of the names of some slots that are the same in every process |
| `state_dict(slots)` | names of some slots as a dict of plain things; `vocabulary_from_state_dict` takes it |
| `check(size)` | raises AssertionError where an invariant is broken |
"""  # noqa: E501

from streaml1.features.vocabulary.hash_table import InternedVocabulary
from streaml1.features.vocabulary.hashed import HashedVocabulary
from streaml1.features.vocabulary.ints import INTS, IntVocabulary
from streaml1.features.vocabulary.probing import MISSING

__all__ = ["INTS", "MISSING", "HashedVocabulary", "IntVocabulary", "InternedVocabulary"]
