"""Readers of text files: one module per format, a chunk reader, a background thread, decompression.

``docs/internals/walks.md`` follows a line of a `.vw` file through the modules to its weights.
"""
