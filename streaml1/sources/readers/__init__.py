"""Readers of text files: one module per format, a chunk reader, a background thread, decompression.

From one line of a `.vw` file to its weights
--------------------------------------------
Each file is entered once, in this order. Functions are listed in the order of their calls.

1. ``sources/readers/text_file.py``: `TextSource.blocks` opens the file, `_parse_file` iterates over
   chunks of whole lines and passes them to the parser, `_PendingBlock` gathers the rows in blocks.
   (`chunks.ChunkReader` splits the file at line ends; `background.read_ahead` runs `_parse_file` in
   a thread.)
2. ``sources/readers/named_lines.py``: `NamedLineParser.parse_chunk` allocates arrays, calls the
   kernel of the format, and has `vw.parse_vw` parse the irregular lines.
3. ``text/vw.py``: `parse_lines` indexes the delimiters, reads label and importance (`_read_head`),
   finds features (`_find_features`), reads their values and hashes their names. The result is a
   `NamedRows`.
4. ``features/batch.py``: `batch_of` makes a batch of the rows.
5. ``models/state/batch_learning.py``: `_rows` replaces the hashes of names by slots, which
   ``models/state/capacity.py`` reserves for new names; `_learn_rows` calls the loop.
6. ``optim/loop.py``: `learn` predicts row by row, and the update rule changes the weights.

Step 3 calls these operations, which call nothing else:

- ``text/structural_index.py``: `index_vw`, `batch_end`, `position_of`, `matching_kinds`
- ``text/vw_simd.py``: `find_features_x8`
- ``text/numbers.py``: `parse_number`, `parse_numbers_x8`
- ``text/feature_spans.py``: `read_pending_values`, `hash_pending_names`, `drop_zeros`
- ``text/byte_names.py``: `murmur_x8`, `join_names_x8`, `copy_bytes`

The other formats differ in steps 2 and 3: JSON lines have `jsonl.JsonParser` and ``text/jsonl.py``,
svmlight has `svmlight.SvmlightParser` and ``text/svmlight.py``, CSV has `csv.CsvParser`,
`csv_schema` and ``text/csv.py``.
"""
