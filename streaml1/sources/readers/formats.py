"""The formats of one example a line, and what reads each."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from streaml1.sources.readers.events import parse_event
from streaml1.sources.readers.jsonl import JsonParser
from streaml1.sources.readers.parsed_lines import LineParser
from streaml1.sources.readers.svmlight import SvmlightParser
from streaml1.sources.readers.vw import VwParser

__all__ = ["line_parser"]


def line_parser(
    format: str, require_label: bool = True, what: str = "file", texts: Collection[str] = ()
) -> LineParser:
    """Make the parser of svmlight, vw or jsonl.

    Parameters
    ----------
    format
        One of the three; or events, JSON lines whose labels come late, or untimed events, where
        times are not looked for in the lines.
    require_label
        Whether a line without a label is refused; else its label is None.
    what
        Has the lines, for a sentence about them: a file, or a record.
    texts
        Of vw, namespaces that are raw text; the others know them by their values.

    """
    if format == "svmlight":
        return SvmlightParser(require_label, what)
    if format == "vw":
        return VwParser(require_label, what, texts)
    if format in ("events", "untimed events"):
        return LineParser(partial(parse_event, timed=format == "events"), what)
    return JsonParser(require_label, what)
