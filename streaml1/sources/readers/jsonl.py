"""JSON lines: ``{"x": {"age": 31, "country": "fr"}, "y": 1, "w": 0.5}``, one example per line.

Regular lines are parsed by the kernel `streaml1.text.jsonl.parse_lines`, all others by
`parse_json`, which defines the format. `parse_json` itself has a fast path: orjson decodes the line
if the result is certain to be that of the strict decoder, which rejects duplicate names, keeps long
integers exact and has precise errors.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from math import isfinite
from typing import Any, NoReturn

import numpy as np
import orjson

from streaml1.core.types import Bytes
from streaml1.sources.readers.parsed_lines import NamedLineParser
from streaml1.sources.source import read_weight, shown
from streaml1.text import jsonl
from streaml1.text.jsonl import MAX_KEYS, MAX_OTHER_MEMBERS
from streaml1.text.numbers import FALSE, NULL, NUMBER, STRING, TRUE
from streaml1.text.parsed_rows import NamedRows

__all__ = ["JsonParser", "decode_object", "parse_json", "read_features", "read_label"]

Label = float | bool | str | None
JsonExample = tuple[dict[str, Any], Label, float] | tuple[dict[str, Any], Label, float, int | str]
"""Features, label and weight, and the id if there is one."""

EXACT = 2.0**63
"""From here on orjson reads integers as floats."""


class JsonParser(NamedLineParser):
    r"""Parse lines by a kernel, irregular ones by `parse_json`.

    Examples
    --------
    >>> from streaml1.sources.readers.jsonl import JsonParser
    >>> parsed = JsonParser().read(b'{"x": {"a": 1, "b": "c"}, "y": 1}\n{"y": 1}\n')
    >>> list(parsed.x), parsed.y
    ([{'a': 1, 'b': 'c'}], array([1.]))
    >>> parsed.faults
    [(1, 'the example has no "x", its features: write {"x": {"a": 1}, "y": 1}')]
    """

    kernel = staticmethod(jsonl.parse_lines)
    header = ()

    def __init__(self, require_label: bool = True, what: str = "file") -> None:
        super().__init__(parse_json, require_label, what)

    def _extra_arguments(self, n: int) -> tuple[Any, ...]:
        # Each line is a row, and the shortest line has one byte.
        label_id_spans = np.empty((n + 1, 6), np.uint64)
        twice = 2 * int(MAX_KEYS)
        key_hashes = np.empty(twice + int(MAX_OTHER_MEMBERS), np.uint64)
        return label_id_spans, key_hashes, np.empty(twice, np.uint64)

    def _labels_and_ids(self, x: NamedRows) -> tuple[dict[int, Any], dict[int, Any]]:
        spans = self._extra[0][: len(x)]
        return _labels(x.text, spans[:, :3]), _ids(x.text, spans[:, 3:])


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
    """Return by row the ids that are strings or integers, given kind, begin and end of all ids."""
    kinds = spans[:, 0]
    ids: dict[int, int | str] = {}
    for row in np.flatnonzero((kinds == STRING) | (kinds == NUMBER)).tolist():
        token = text[int(spans[row, 1]) : int(spans[row, 2])].tobytes().decode()
        if kinds[row] == STRING:
            ids[row] = token
        elif token.removeprefix("-").isdigit():
            ids[row] = int(token)
    return ids


# One line in Python


def parse_json(text: str, require_label: bool = True) -> JsonExample | None:
    """Parse one line.

    Parameters
    ----------
    text
        The line: an object with the features ``x`` (numbers, strings, true, false or null), the
        label ``y`` and, if it is not 1, the weight ``w``; it may have an ``id``, a string or an
        integer. Other members are ignored. A number whose name occurs twice counts with the sum.
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
    w, id = read_weight(example.get("w", 1.0)), example.get("id")
    if isinstance(id, str | int) and not isinstance(id, bool):
        return x, y, w, id
    return x, y, w


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
    try:
        example = _decode_strict(text)
    except json.JSONDecodeError as error:
        raise ValueError(
            f"not JSON: {error.msg.removesuffix(' at')} at column {error.pos + 1}"
        ) from None
    if isinstance(example, _DuplicateNames):
        raise ValueError("a name outside of x, such as y, occurs twice: it may occur only once")
    if not isinstance(example, dict):
        raise ValueError(f'{shown(example)} is not an example: write {{"x": {{...}}, "y": 1}}')
    if "\\u" in text:
        _reject_surrogates(example)
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


class _DuplicateNames(list[tuple[str, Any]]):
    """The members of an object in which a name occurs twice."""


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any] | _DuplicateNames:
    distinct = dict(pairs)
    return distinct if len(distinct) == len(pairs) else _DuplicateNames(pairs)


def _reject_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON: write null for a missing value")


def _integer(text: str) -> int | float:
    try:
        return int(text)
    except ValueError:  # more digits than Python converts (sys.set_int_max_str_digits)
        return float(text)


_decode_strict = json.JSONDecoder(
    object_pairs_hook=_object, parse_constant=_reject_constant, parse_int=_integer
).decode


def _reject_surrogates(example: dict[str, Any]) -> None:
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
    if y is None:
        if require_label:
            raise ValueError('the example has no "y": its label')
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
        raise ValueError('the example has no "x", its features: write {"x": {"a": 1}, "y": 1}')
    x = example["x"]
    if isinstance(x, dict):
        try:
            if all(map(isfinite, x.values())):
                return x
        except (TypeError, OverflowError):
            pass  # some values are not numbers
        for name, value in x.items():
            _check_value(name, value)
        return x
    if isinstance(x, _DuplicateNames):
        return _sum_duplicates(x)
    raise ValueError(f'"x" must be an object, {{"name": value, ...}}, got {shown(x)}')


def _check_value(name: str, value: Any) -> None:
    if value is None or isinstance(value, str):
        return
    if isinstance(value, (dict, list)):
        raise ValueError(
            f"feature {shown(name)} is nested: "
            "a value must be a number, a string, true, false or null"
        )
    try:
        finite = isfinite(value)
    except OverflowError:
        finite = False
    if not finite:
        raise ValueError(f"feature {shown(name)}: {shown(value)} is too large for a float")


def _sum_duplicates(pairs: _DuplicateNames) -> dict[str, Any]:
    x: dict[str, Any] = {}
    for name, value in pairs:
        _check_value(name, value)
        if name in x:
            if isinstance(value, str) or isinstance(x[name], str):
                raise ValueError(f"feature {shown(name)} occurs twice: only numbers can be summed")
            value = (x[name] or 0) + (value or 0)
            _check_value(name, value)
        x[name] = value
    return x
