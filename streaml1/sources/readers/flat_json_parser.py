"""The parser of flat JSON lines: a kernel, and `flat_json` for the lines that it declines."""

from __future__ import annotations

import logging
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import orjson

from streaml1.core.jit import COMPILED
from streaml1.core.types import Floats
from streaml1.features.positive_label import positive_labels
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles, parse_flat
from streaml1.sources.readers.jsonl import JsonParser
from streaml1.sources.readers.parsed_lines import Chunk, ParsedChunk
from streaml1.sources.readers.unseen_members import MIN_RECORDS, UnseenMembers, decoded_lines
from streaml1.text import jsonl
from streaml1.text.parsed_rows import NamedRows

__all__ = ["FlatJsonParser"]

logger = logging.getLogger("streaml1")

MANY_IRREGULAR = 8
"""If one line in this many is irregular, those of the next chunk may have objects inside."""

HEAD = 2**14
"""Bytes that usually contain the first line of a chunk."""


class FlatJsonParser(JsonParser):
    r"""Parse lines by a kernel, irregular ones by `parse_flat`.

    Parameters
    ----------
    roles
        The members that are not plain features.
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.
    name
        The file, for errors about all of it.

    Examples
    --------
    >>> from streaml1.sources.readers.flat_json import JsonRoles
    >>> from streaml1.sources.readers.flat_json_parser import FlatJsonParser
    >>> parsed = FlatJsonParser(JsonRoles("clicked")).read(b'{"clicked": 1, "site": "news"}\n')
    >>> list(parsed.x), parsed.y
    ([{'site': 'news'}], array([1.]))
    """

    def __init__(
        self,
        roles: JsonRoles = NO_ROLES,
        require_label: bool = True,
        what: str = "file",
        name: str = "",
    ) -> None:
        self._nested = False
        self._form = _Form(False, False)
        self._needs_tree = _needs_tree(roles)
        self._json_roles = roles
        self._unseen = UnseenMembers(roles, 1 if what == "file" else MIN_RECORDS)
        # A request without a label may hold any members; a file to predict is like those learnt.
        self._is_checked = not (require_label or name) or self._unseen.is_done
        parse = partial(parse_flat, roles=roles)
        super().__init__(require_label, what, parse, roles.codes, name)
        self.roles = roles.identity
        # The kernel cannot open an envelope, the empty name has no hash, and the text of a number
        # begins after the first equals sign of `key=text`.
        self.compiled = (
            COMPILED
            and roles.at is None
            and "" not in roles.codes
            and not any("=" in name for name in roles.numeric)
        )

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk; warn of members that options name but the first lines lack.

        Raises
        ------
        SourceError
            If the beginning of a file shows that it is JSON, but not JSON lines.
        """
        if not self._is_checked:
            lines = chunk.text.tobytes().splitlines()
            for sentence in self._unseen.search(decoded_lines(lines)):
                logger.warning("%s", f"{self._name}: {sentence}" if self._name else sentence)
            self._is_checked = self._unseen.is_done
        return super().parse_chunk(chunk)

    def _uses_kernel(self, chunk: Chunk) -> bool:
        """Return whether the kernel parses a chunk; choose its form by the first line."""
        first = _first_line(chunk)
        starts_with_x = self._json_roles.target is None and isinstance(first.get("x"), dict)
        self._nested |= not {dict, list}.isdisjoint(map(type, first.values()))
        flat = not starts_with_x
        form = _Form(flat, flat and self._nested and not self._needs_tree)
        if form != self._form:
            self._form = form
            self.kernel = jsonl.parse_nested_lines if form.nested else jsonl.parse_lines
            self._extra = self._extra_arguments(len(self._scratch.irregular) - 1)
        # The kernel knows no roles in lines with x.
        in_python = not self.compiled or (starts_with_x and self._json_roles.named)
        return not in_python and super()._uses_kernel(chunk)

    def reset(self) -> None:
        """Expect the beginning of a file next."""
        super().reset()
        self._nested = False

    def _complete(self, x: NamedRows, rows: Any, irregular: list[int], n_lines: int) -> ParsedChunk:
        # The first line of a chunk may have null where others have objects.
        self._nested |= MANY_IRREGULAR * len(irregular) > len(x)
        return super()._complete(x, rows, irregular, n_lines)

    def _is_flat(self) -> bool:
        return self._form.flat

    def _convert_labels(self, y: Floats, labels: dict[int, Any]) -> dict[int, Any]:
        if self._json_roles.positive is None:
            return labels
        rest = {row: label for row, label in labels.items() if label is None}
        numbers = ~np.isnan(y)
        y[numbers] = positive_labels(y[numbers], self._json_roles.positive)
        texts = [row for row in labels if row not in rest]
        y[texts] = positive_labels([labels[row] for row in texts], self._json_roles.positive)
        return rest


class _Form(NamedTuple):
    """How the kernel reads the lines of a chunk."""

    flat: bool
    """Whether the members of a line are features."""
    nested: bool
    """Whether objects and arrays may be inside. Other lines are read faster without."""


def _first_line(chunk: Chunk) -> dict[str, Any]:
    """Return the object in the first line of a chunk; an empty one if there is none."""
    text = chunk.text
    head = text[:HEAD].tobytes()
    if b"\n" not in head:
        head = text.tobytes()
    try:
        line = orjson.loads(head.partition(b"\n")[0])
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def _needs_tree(roles: JsonRoles) -> bool:
    """Return whether a role may name something else than a member that the kernel finds.

    That is an element of an array, which may be a category of it, or the category itself; or a
    member inside of an ignored one.
    """
    names = roles.codes
    inside = any(name.startswith(f"{outer}.") for name in names for outer in roles.ignore)
    return inside or any("=" in name or any(map(str.isdecimal, name.split("."))) for name in names)
