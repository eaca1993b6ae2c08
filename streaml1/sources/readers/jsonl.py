"""JSON lines: ``{"x": {"age": 31, "country": "fr"}, "y": 1, "w": 0.5}``, one example per line.

Regular lines are parsed by the kernel `streaml1.text.jsonl.parse_lines`, all others by
`parse_json`, which defines the format. `parse_json` itself has a fast path: orjson decodes the line
if the result is certain to be that of the strict decoder, which rejects duplicate names, keeps long
integers exact and has precise errors. `flat_json` reads lines without an ``x``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from math import isfinite
from types import MappingProxyType
from typing import Any, NoReturn

import numpy as np
import orjson

from streaml1.core.named_options import named_option
from streaml1.core.types import Bytes
from streaml1.features.batch import category_text
from streaml1.features.flat_members import DuplicateNames, check_feature, list_members
from streaml1.features.records import example_id
from streaml1.sources.readers.named_lines import NamedLineParser
from streaml1.sources.readers.parsed_lines import Chunk, ParsedChunk
from streaml1.sources.readers.signatures import format_hint
from streaml1.sources.source import SourceError, read_weight, shown
from streaml1.text import jsonl
from streaml1.text.json_roles import N_ROLES, Roles, role_table
from streaml1.text.jsonl import MAX_KEYS, MAX_LEVELS, MAX_OTHER_MEMBERS, JsonArrays
from streaml1.text.numbers import FALSE, NULL, NUMBER, STRING, TRUE
from streaml1.text.parsed_rows import NamedRows

__all__ = [
    "EXACT",
    "STRICT_HOOKS",
    "JsonExample",
    "JsonParser",
    "Label",
    "decode_object",
    "decode_strict",
    "label_of",
    "parse_json",
    "read_features",
    "read_label",
    "require_lines",
    "with_id",
    "without_features",
]

Label = float | bool | str | None
JsonExample = tuple[dict[str, Any], Label, float] | tuple[dict[str, Any], Label, float, int | str]
"""Features, label and weight, and the id if there is one."""

EXACT = 2.0**63
"""From here on orjson reads integers as floats."""


class JsonParser(NamedLineParser):
    r"""Parse lines by a kernel, irregular ones by `parse_json`.

    Parameters
    ----------
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.
    parse
        Parses an irregular line; by default `parse_json`.
    roles
        The members of flat lines that have a role of `streaml1.text.json_roles`.
    name
        The file, for errors about all of it.

    Examples
    --------
    >>> from streaml1.sources.readers.jsonl import JsonParser
    >>> parsed = JsonParser().read(b'{"x": {"a": 1, "b": "c"}, "y": 1}\n{"x": {"a": 1}}\n')
    >>> list(parsed.x), parsed.y
    ([{'a': 1, 'b': 'c'}], array([1.]))
    >>> parsed.faults
    [(1, 'the example has no "y": its label; its members are: x')]
    """

    kernel = staticmethod(jsonl.parse_lines)
    header = ()

    def __init__(
        self,
        require_label: bool = True,
        what: str = "file",
        parse: Callable[..., JsonExample | None] | None = None,
        roles: Mapping[str, int] = MappingProxyType({}),
        name: str = "",
    ) -> None:
        self._members = roles
        self._has_labels = require_label
        self._name = name
        self.reset()
        super().__init__(parse or parse_json, require_label, what)

    def reset(self) -> None:
        """Expect the beginning of a file next."""
        self._has_begun = not self._name

    def parse_chunk(self, chunk: Chunk) -> ParsedChunk:
        """Parse the lines of a chunk.

        Raises
        ------
        SourceError
            If the beginning of a file shows that it is JSON, but not JSON lines.
        """
        if not self._has_begun and chunk.hi > chunk.lo:
            self._has_begun = True
            require_lines(chunk.text.tobytes(), self._name, self._has_labels)
        return super().parse_chunk(chunk)

    def _extra_arguments(self, n: int) -> tuple[Any, ...]:
        # Each line is a row, and the shortest line has one byte.
        label_id_spans = np.empty((n + 1, 6), np.uint64)
        n_keys = int(MAX_KEYS)
        key_hashes = np.empty(3 * n_keys + int(MAX_OTHER_MEMBERS), np.uint64)
        role_sizes = np.zeros(N_ROLES, np.uint64)
        for name, role in self._members.items():
            role_sizes[role] = len(name.encode())
        found_roles = np.empty((2, len(self._members) + 1), np.uint64)
        levels = np.empty((3, MAX_LEVELS), np.uint64)
        arrays = JsonArrays(label_id_spans, key_hashes, np.empty(2 * n_keys, np.uint64), levels)
        roles = Roles(role_table(self._members), role_sizes, found_roles)
        return arrays, roles, self._is_flat()

    def _is_flat(self) -> bool:
        """Return whether the kernel reads the members of a line as features."""
        return False

    def _labels_and_ids(self, x: NamedRows) -> tuple[dict[int, Any], dict[int, Any]]:
        if self._is_flat() and not self._members:
            return {}, {}  # flat lines have a label or an id only if a member has the role
        spans = self._extra[0].label_id_spans[: len(x)]
        # The text of a label is in the line, or in its name `key=text`.
        return _labels(x.names, spans[:, :3]), _ids(x.names, spans[:, 3:])


def require_lines(text: bytes, name: str, has_labels: bool = True) -> None:
    """Reject a file that is an array of arrays, or one object with the cells of a table.

    Parameters
    ----------
    text
        The beginning of the file.
    name
        The file.
    has_labels
        Whether examples have labels, so that none consists of objects or arrays alone.

    Raises
    ------
    SourceError
        If it is JSON, but not JSON lines.
    """
    first, _, rest = text.lstrip().partition(b"\n")
    first, rest = first.rstrip(), rest.lstrip()
    reason, command = "", "jq -r '.[] | @csv' to CSV"
    if re.match(rb"\s*\[\s*\[", text):
        reason = "is one array of arrays"
    elif first.startswith(b"{") and not rest and _is_table(first, has_labels):
        reason = "is one table, as pandas writes it"
        command = 'to_json(orient="records", lines=True)'
    if reason:
        raise SourceError(
            f"{name} {reason}, but JSON lines have one object per line: convert it, for example "
            f"by {command}"
        )


def _is_table(line: bytes, has_labels: bool) -> bool:
    """Return whether an object holds all cells of a data frame of pandas, in any orientation."""
    try:
        table = orjson.loads(line)
    except ValueError:
        return False
    if {*table} in ({"columns", "index", "data"}, {"schema", "data"}):
        return isinstance(table["data"], list)
    members = list(table.values())
    if len(members) < 2 or not has_labels:
        return False
    if all(isinstance(member, list) for member in members):
        if all(isinstance(member[0], dict) for member in members if member):
            return False  # several tables, such as train and test
        [n, *others] = {*map(len, members)}
        return n > 1 and not others
    if not all(isinstance(member, dict) for member in members):
        return False
    # The rows, outside or inside, are numbered; an example has another member, its label.
    names = [*members[0]]
    same = all([*member] == names for member in members)
    return same and (all(map(str.isdecimal, table)) or all(map(str.isdecimal, names)))


def _labels(text: Bytes, spans: Any) -> dict[int, Any]:
    """Return by row the labels that are not floats, given kind, begin and end of all labels."""
    kinds = spans[:, 0]
    labels: dict[int, Any] = {}
    if (kinds == NUMBER).all():
        return labels
    for kind, label in ((FALSE, False), (TRUE, True), (NULL, None)):
        labels |= dict.fromkeys(np.flatnonzero(kinds == kind).tolist(), label)
    for row in np.flatnonzero(kinds == STRING).tolist():
        labels[row] = text[int(spans[row, 1]) : int(spans[row, 2])].tobytes().decode()
    return labels


def _ids(text: Bytes, spans: Any) -> dict[int, int | str]:
    """Return by row the ids that are strings or numbers, given kind, begin and end of all ids."""
    kinds = spans[:, 0]
    ids: dict[int, int | str] = {}
    for row in np.flatnonzero((kinds == STRING) | (kinds == NUMBER)).tolist():
        token = text[int(spans[row, 1]) : int(spans[row, 2])].tobytes().decode()
        if kinds[row] == STRING:
            ids[row] = token
        else:
            ids[row] = (
                int(token) if token.removeprefix("-").isdigit() else category_text(float(token))
            )
    return ids


# One line in Python


def parse_json(text: str, require_label: bool = True) -> JsonExample | None:
    """Parse one line.

    Parameters
    ----------
    text
        The line: an object with the features ``x`` (numbers, strings, true, false or null), the
        label ``y`` and, if it is not 1, the weight ``w``; it may have an ``id``, a string or a
        number. Other members are ignored. A number whose name occurs twice counts with the sum.
    require_label
        Whether a line without a label is rejected. Otherwise its label is None.

    Returns
    -------
    The features, the label and the weight, and the id if there is one; None for an empty line.

    Raises
    ------
    ValueError
        If the line is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.sources.readers.jsonl import parse_json
    >>> parse_json('{"x": {"age": 31, "country": "fr"}, "y": true}')
    ({'age': 31, 'country': 'fr'}, True, 1.0)
    >>> parse_json('{"id": "v7", "x": {"age": 31}, "y": true}')
    ({'age': 31}, True, 1.0, 'v7')
    """
    text = text.rstrip()
    if not text:
        return None
    try:
        return _read_example(text, require_label)
    except RecursionError:
        raise ValueError("not an example: its values are nested too deeply") from None


def _read_example(text: str, require_label: bool) -> JsonExample:
    example = decode_object(text)
    x, y = read_features(example), read_label(example, require_label)
    return with_id(x, y, read_weight(example.get("w", 1.0)), example.get("id"))


def with_id(x: dict[str, Any], y: Label, w: float, value: Any) -> JsonExample:
    """Return an example, with its id if that is a string or a number."""
    found = example_id(value)
    return (x, y, w) if found is None else (x, y, w, found)


def decode_object(text: str) -> dict[str, Any]:
    """Decode a line.

    Raises
    ------
    ValueError
        If the line is not a JSON object, or a name outside of ``x`` occurs twice.
    """
    example = _decode_fast(text)
    if example is not None:
        return example
    example = decode_strict(text)
    if isinstance(example, DuplicateNames):
        raise ValueError("a name outside of x, such as y, occurs twice: it may occur only once")
    if not isinstance(example, dict):
        raise ValueError(f'{shown(example)} is not an example: write {{"x": {{...}}, "y": 1}}')
    return example


def _decode_fast(text: str) -> dict[str, Any] | None:
    """Decode a line by orjson; None if the result might differ from that of the strict decoder.

    It is the same if the line is valid, no name occurs twice, and no integer has more than 64 bits.
    """
    try:
        example = orjson.loads(text)
    except ValueError:
        return None
    if type(example) is not dict or '"  ' in text or "\t" in text:
        return None
    x = example.get("x")
    if type(x) is dict and not _has_exact_numbers(x):
        return None
    n_names = len(example) + (len(x) if type(x) is dict else 0)
    # Each name is followed by a quote and a colon, with at most one space between. Fewer names
    # than such pairs mean a duplicate name (or the pair inside a string: then be strict, too).
    if text.count('":') + text.count('" :') != n_names or type(example.get("id")) is float:
        return None
    return example


def _has_exact_numbers(x: dict[str, Any]) -> bool:
    """Return whether no value can be an integer with more than 64 bits."""
    values = x.values()
    try:
        return not x or bool(min(values) > -EXACT and max(values) < EXACT)
    except TypeError:  # some values are not numbers
        return not any(type(v) is float and abs(v) >= EXACT for v in values)


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | DuplicateNames:
    distinct = dict(pairs)
    return distinct if len(distinct) == len(pairs) else DuplicateNames(pairs)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: write null for a missing value")


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts (sys.set_int_max_str_digits)
        return float(text)


_WORD = re.compile("[A-Za-z]+")
_BRACKETS = re.compile(r"^\"|[][(){}]")

STRICT_HOOKS: dict[str, Any] = {"object_pairs_hook": _object, "parse_constant": _reject_constant}
_decode_strict = json.JSONDecoder(**STRICT_HOOKS, parse_int=_integer).decode


def decode_strict(text: str, decode: Callable[[str], Any] = _decode_strict) -> Any:
    """Decode a text by the strict decoder; an object with a name twice becomes `DuplicateNames`.

    Raises
    ------
    ValueError
        If the text is not JSON; the message is one sentence.
    """
    try:
        value = decode(text)
    except json.JSONDecodeError as error:
        line = f"line {error.lineno}, " if error.lineno > 1 else ""
        found = text[error.pos :].partition("\n")[0]
        excerpt = f" ({shown(found)})" if found.strip() else ""
        raise ValueError(
            f"not JSON: {error.msg.removesuffix(' at')} at {line}column {error.colno}{excerpt}"
            f"{_remedy(text.strip(), found)}"
        ) from None
    if "\\u" in text:
        _reject_surrogates(value)
    return value


def _remedy(text: str, found: str) -> str:
    """Return a clause that says how to write a text as JSON, given where it is not; or ""."""
    if text.startswith(("#", "//", "/*")):
        return ": JSON has no comments, remove the line"
    if found.startswith("'"):
        return ": texts have double quotes, as json.dumps writes them"
    word = _WORD.match(found)
    if word and word[0] in ("True", "False"):
        return ": write true and false"
    if word and word[0].lower() in ("nan", "inf", "none", "null", "undefined"):
        return ": write null for a missing value"
    if found[:1] < " " and found:
        return f": escape it in the text, as {json.dumps(found[0])[1:-1]}"
    if not text.startswith(("{", "[", '"')) and "{" in text and text.endswith("}"):
        return ": remove the text before the object, as with sed 's/^[^{]*//'"
    return "" if _BRACKETS.search(text) else format_hint(text, "jsonl")


def _reject_surrogates(example: Any) -> None:
    """Reject half of a surrogate pair: it has no UTF-8, so models could not hash or save it."""
    try:
        json.dumps(example, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = ascii(error.object[error.start])
        raise ValueError(f"{half} is half of a surrogate pair: its other half is missing") from None


def read_label(example: Mapping[str, Any], require_label: bool) -> Label:
    """Return the label ``y`` of an object.

    Raises
    ------
    ValueError
        If it is not a number, string or bool, or if it is required and missing.
    """
    y = example.get("y")
    if y is None and require_label:
        raise ValueError(f'the example has no "y": its label; {list_members(example)}')
    return label_of(y)


def label_of(y: Any) -> Label:
    """Return a label, None if it is null; raise ValueError if it is an array or an object."""
    if y is None:
        return None
    if isinstance(y, (bool, str)):
        return y
    try:
        return float(y)
    except (TypeError, OverflowError):
        raise ValueError(f"label {shown(y)} is not a number, a string, true or false") from None


def read_features(example: dict[str, Any]) -> dict[str, Any]:
    """Return the features ``x`` of an object.

    Raises
    ------
    ValueError
        If ``x`` is missing, or not an object of finite numbers, strings, bools and null.
    """
    if "x" not in example:
        raise ValueError(without_features(example))
    x = example["x"]
    if isinstance(x, dict):
        try:
            if all(map(isfinite, x.values())):
                return x
        except (TypeError, OverflowError):
            pass  # some values are not numbers
        for name, value in x.items():
            check_feature(name, value)
        return x
    if isinstance(x, DuplicateNames):
        return _sum_duplicates(x)
    raise ValueError(f'"x" must be an object, {{"name": value, ...}}, got {shown(x)}')


def without_features(example: Mapping[str, Any]) -> str:
    """Return the error for a line without ``x`` and without a target."""
    return (
        f'the line has no object "x" of features: use {named_option("target", "NAME")} to name the '
        f'label of flat lines, or write {{"x": {{"a": 1}}, "y": 1}}; {list_members(example)}'
    )


def _sum_duplicates(pairs: DuplicateNames) -> dict[str, Any]:
    x: dict[str, Any] = {}
    for name, value in pairs:
        check_feature(name, value)
        if name in x:
            if isinstance(value, str) or isinstance(x[name], str):
                raise ValueError(f"feature {shown(name)} occurs twice: only numbers can be summed")
            value = (x[name] or 0) + (value or 0)
            check_feature(name, value)
        x[name] = value
    return x
