"""Bytes that kernels look for and write, as uint64."""

from __future__ import annotations

from streaml1.core.jit import u64

__all__ = [
    "BACKSLASH",
    "CARET",
    "CLOSING_BRACE",
    "COLON",
    "COMMA",
    "CR",
    "EQUALS",
    "NEWLINE",
    "OPENING_BRACE",
    "PIPE",
    "POINT",
    "QUOTE",
    "SPACE",
    "TAB",
]

NEWLINE, CR, TAB, SPACE = map(u64, b"\n\r\t ")
COLON, COMMA, POINT, EQUALS, CARET, PIPE = map(u64, b":,.=^|")
QUOTE, BACKSLASH, OPENING_BRACE, CLOSING_BRACE = map(u64, b'"\\{}')
