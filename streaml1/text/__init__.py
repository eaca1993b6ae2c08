"""Kernels that parse text: bytes in, CSR rows out.

This package knows no files and no vocabularies. Each format has one module with the kernel that the
readers of `streaml1.sources.readers` call:

============== ======================================= =======================================
module         kernel                                  fast path for eight features at a time
============== ======================================= =======================================
`svmlight`     `svmlight.parse_lines`                  `svmlight._read_features_x8`
`vw`           `vw.parse_lines`                        `vw_simd.find_features_x8`
`jsonl`        `jsonl.parse_lines`                     `json_simd.find_members_x8`
`csv`          `csv.parse_records`                     `csv._read_categories_x8`
============== ======================================= =======================================

All of them follow the same plan. `structural_index` finds the delimiters (stage 1). The kernel
steps from delimiter to delimiter and finds features (stage 2). `feature_spans` then reads the
values and hashes the names that stage 2 has left. `numbers` and `byte_names` provide the operations
on numbers and names. `line_arrays` groups the arguments of kernels. `parsed_rows` holds the rows
that come out.

Text is processed as raw memory: addresses are uint64, and a parser may read up to
`structural_index.PAD` bytes before and after its text.
"""
