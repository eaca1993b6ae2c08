"""Raw text to word features.

`spec` says in Python what they are. Kernels count the words of ASCII without making strings of
them: of many rows `rows`, of one dict `streaml1.features.dict_reader.raw_text`.
"""

from __future__ import annotations

from streaml1.features.ngrams.ngram_rows import ngram_batch
from streaml1.features.ngrams.spec import NGrams, check_text, tokenize

__all__ = ["NGrams", "check_text", "ngram_batch", "tokenize"]
