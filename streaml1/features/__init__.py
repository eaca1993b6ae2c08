"""From named features to slots: everything between an example and a row of (slot, value).

- `vocabulary`: maps names to slots, by interning, by hashing, or for ints directly.
- `interactions`: crossed features, the products of two or three features.
- `ngrams`: raw text to words and n-grams.
- `dict_reader`: converts one dict to a row inside a compiled kernel.
- `batch`: lists of dicts, data frames and sparse matrices to rows.
- `dedup`, `dedup_text`: merge duplicate features in a row, drop zeros, reject non-finite sums.
- `labels`: labels of a batch to arrays.
"""
