"""Raw text to word features.

`spec` says in Python what they are. Kernels count the words of ASCII without making strings of
them: of many rows `rows`, of one dict `streaml1.features.dict_reader.raw_text`.
"""

from __future__ import annotations

from streaml1.features.ngrams.ngram_rows import counted_batch
from streaml1.features.ngrams.spec import Words, checked_text, words_of

__all__ = ["Words", "checked_text", "counted_batch", "words_of"]
