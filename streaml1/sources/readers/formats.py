"""The formats with one example per line, and their parsers."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial

from streaml1.sources.readers.events import parse_event
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles
from streaml1.sources.readers.flat_json_parser import FlatJsonParser
from streaml1.sources.readers.jsonl import JsonParser
from streaml1.sources.readers.parsed_lines import LineParser
from streaml1.sources.readers.svmlight import SvmlightParser
from streaml1.sources.readers.vw import VwParser

__all__ = ["line_parser"]


def line_parser(
    format: str,
    require_label: bool = True,
    what: str = "file",
    texts: Collection[str] = (),
    roles: JsonRoles = NO_ROLES,
    name: str = "",
) -> LineParser:
    """Return the parser of a format.

    Parameters
    ----------
    format
        ``svmlight``, ``vw`` or ``jsonl``; ``events`` for JSON lines whose labels are delayed, or
        ``untimed events`` to ignore the times in these lines.
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.
    texts
        VW namespaces that are raw text. Other formats recognize text by its type.
    roles
        Roles of the members of flat JSON lines.
    name
        Name of the file, for errors about all of it.

    Examples
    --------
    >>> from streaml1.sources.readers.formats import line_parser
    >>> list(line_parser("svmlight").read(b"1 3:0.5").x)
    [{3: 0.5}]
    """
    if format == "svmlight":
        return SvmlightParser(require_label, what)
    if format == "vw":
        return VwParser(require_label, what, texts)
    if format in ("events", "untimed events"):
        return LineParser(partial(parse_event, timed=format == "events"), what)
    if require_label and roles == NO_ROLES:
        return JsonParser(require_label, what, name=name)
    return FlatJsonParser(roles, require_label, what, name)
