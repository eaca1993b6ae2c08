"""Raw text to n-gram features.

- `spec`: defines the features, in pure Python.
- `tokenizer`: kernels that tokenize, count and hash without creating strings.
- `ngram_rows`: applies them to a batch; `streaml1.features.dict_reader.raw_text` to a single dict.
"""

from __future__ import annotations

from streaml1.features.ngrams.ngram_rows import ngram_batch
from streaml1.features.ngrams.spec import NGrams, check_text, tokenize

__all__ = ["NGrams", "check_text", "ngram_batch", "tokenize"]
