"""The members of the first JSON lines of a file, to look at before it is read."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from streaml1.core.named_options import list_of, named_option
from streaml1.features.flat_members import array_of_objects, select_object
from streaml1.features.spark_vectors import is_vector
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_kinds import MIN_ROWS, ColumnSummary, summarize_columns
from streaml1.sources.readers.flat_json import JsonRoles, parse_flat
from streaml1.sources.readers.parsed_lines import decode_line
from streaml1.sources.samples import N_SAMPLED

__all__ = [
    "ARRAY", "Envelope", "JsonSample", "envelope_of", "members_of", "mixed_members",
    "quoted_numbers", "sample_json", "summarize_members", "texts_of_objects",
]  # fmt: skip

MAX_DEPTH = 64
"""Objects inside each other; `flat_json` rejects deeper ones."""

ARRAY = "array"
"""The kind of a member that is an array, of words or of numbers."""


TYPED_NUMBERS = {
    *("$numberInt", "$numberLong", "$numberDouble", "$numberDecimal"),  # MongoDB
    *("N", "integerValue"),  # DynamoDB, Firestore
}
"""Names of members whose texts are numbers, however few there are."""

MIN_MEMBERS = 3
"""Objects in a single one from which each is more likely an example than a part of it."""

MIN_OBJECTS = 0.9
"""Share of texts that hold JSON objects from which a member is taken for an envelope."""


class Envelope(NamedTuple):
    """An object around examples, as a program writes it.

    Parameters
    ----------
    program
        What writes it.
    at
        Path of the example.
    mark
        Path of a member that distinguishes the envelope from other objects with a member `at`.
    """

    program: str
    at: str
    mark: str


ENVELOPES = (
    Envelope("Debezium", "payload.after", "payload.op"),
    Envelope("Debezium", "after", "op"),
    Envelope("Kafka Connect", "payload", "schema.type"),
    Envelope("Maxwell", "data", "database"),
    Envelope("AWS DMS", "data", "metadata.operation"),
    Envelope("CloudEvents", "data", "specversion"),
)


class JsonSample(NamedTuple):
    """The members of the first lines.

    Parameters
    ----------
    columns
        The members, named by their paths.
    n_rows
        How many lines there are.
    n_invalid
        How many others are not JSON objects.
    fault
        The first of these lines, and why it is none; None if there are none.
    array
        The path of an array of objects in a line that is the only one.
    n_objects
        How many objects such a line consists of, as exports of Firebase do; 0 if of other values.
    """

    columns: list[ColumnSummary]
    n_rows: int
    n_invalid: int
    fault: str | None
    array: str | None = None
    n_objects: int = 0


def sample_json(text: bytes, at: str | None = None) -> JsonSample | None:
    """Summarize the members of the first lines; None if their features are in an object ``x``.

    Parameters
    ----------
    text
        The first lines of the file.
    at
        Path of the object that holds the example, in an envelope.

    Examples
    --------
    >>> from streaml1.sources.json_samples import sample_json
    >>> sample = sample_json(b'{"clicked": "no", "user": {"age": 31}, "tags": ["a", "b"]}')
    >>> [(column.name, column.kind) for column in sample.columns]
    [('clicked', 'constant'), ('user.age', 'constant'), ('tags', 'array')]
    """
    rows: list[dict[str, Any]] = []
    n_invalid, fault = 0, None
    value: Any = {}
    for number, line in enumerate(text.split(b"\n"), 1):
        if not line.strip() or len(rows) == N_SAMPLED:
            continue
        try:
            value = orjson.loads(line)
            if isinstance(value, str):  # a text that holds the object
                value = orjson.loads(value)
            if at is not None and (value := _example(value, at)) is None:
                continue
            members = dict(members_of(value))
            parse_flat(decode_line(line), JsonRoles(at=at), require_label=False)
            rows.append(members)
        except (ValueError, TypeError, AttributeError, RecursionError):
            n_invalid += 1
            fault = fault or f"line {number}: {_reason(line, at)}"
    if rows and all(isinstance(row.get("x"), dict) for row in rows):
        return None
    names = list(dict.fromkeys(name for row in rows for name in row))
    found = array_of_objects(value) if len(rows) == 1 and not n_invalid else None
    array = None if found is None else found[0]
    is_alone = len(rows) == 1 and not n_invalid and len(value) >= MIN_MEMBERS
    n_objects = len(value) if is_alone and all(map(_is_dict, value.values())) else 0
    columns = summarize_members(names, rows)
    return JsonSample(columns, len(rows), n_invalid, fault, array, n_objects)


def envelope_of(columns: Sequence[ColumnSummary]) -> Envelope | None:
    """Return the envelope whose members these are; None if they are those of an example.

    Examples
    --------
    >>> from streaml1.sources.json_samples import envelope_of, sample_json
    >>> sample = sample_json(b'{"op": "c", "before": null, "after": {"clicked": 1}}')
    >>> envelope_of(sample.columns).at
    'after'
    """
    names = {column.name for column in columns}
    for envelope in ENVELOPES:
        inside = f"{envelope.at}."
        if envelope.mark in names and any(name.startswith(inside) for name in names):
            return envelope
    return None


def _is_dict(value: Any) -> bool:
    return isinstance(value, dict)


def quoted_numbers(columns: Sequence[ColumnSummary]) -> str:
    """Return a sentence about members that hold numbers as text; "" if there are none."""
    names = [column.name for column in columns if column.is_quoted]
    if not names:
        return ""
    return (
        f"numbers as text are categories: {list_of(names)}; to learn them as numbers, use "
        f"{named_option('numeric', names)}"
    )


def mixed_members(columns: Sequence[ColumnSummary]) -> str:
    r"""Return a sentence about members that hold numbers next to words; "" if there are none.

    Examples
    --------
    >>> from streaml1.sources.json_samples import mixed_members, sample_json
    >>> sample = sample_json(b'{"zip": 94110, "n": 1}\n{"zip": "K1A 0B1", "n": 2}')
    >>> mixed_members(sample.columns)
    'numbers next to words stay numbers: zip; to learn them as categories, use categorical=["zip"]'
    """
    names = [column.name for column in columns if column.is_mixed]
    if not names:
        return ""
    return (
        f"numbers next to words stay numbers: {list_of(names)}; to learn them as categories, use "
        f"{named_option('categorical', names)}"
    )


def texts_of_objects(columns: Sequence[ColumnSummary]) -> str:
    r"""Return a sentence about members whose texts hold JSON objects; "" if there are none.

    Examples
    --------
    >>> from streaml1.sources.json_samples import sample_json, texts_of_objects
    >>> sample = sample_json(rb'{"key": 7, "value": "{\"clicked\": 1}"}')
    >>> texts_of_objects(sample.columns)
    'member value holds JSON as text: to read the example from it, use at="value"'
    """
    for column in columns:
        n = sum(k for text, k in column.values.items() if _is_object(text))
        if column.holds_text and n >= MIN_OBJECTS * column.values.total() > 0:
            name = shlex.quote(column.name)
            option = named_option("at", column.name)
            return f"member {name} holds JSON as text: to read the example from it, use {option}"
    return ""


def _is_object(text: str) -> bool:
    try:
        return text.lstrip().startswith("{") and isinstance(orjson.loads(text), dict)
    except ValueError:
        return False


def _example(line: Any, at: str) -> Any:
    """Return the object of an example in its envelope; None if null is there."""
    found = None if line is None else select_object(line, at)
    if found is None:
        return None
    return orjson.loads(found.value) if isinstance(found.value, str) else found.value


def _reason(line: bytes, at: str | None) -> str:
    """Return why a line is not an example."""
    try:
        parse_flat(decode_line(line), JsonRoles(at=at), require_label=False)
    except ValueError as error:
        return str(error)
    return f"nothing is at {at!r}"


def summarize_members(names: Sequence[str], rows: list[dict[str, Any]]) -> list[ColumnSummary]:
    """Infer the kinds of the values that rows have by these names."""
    cells = [[_cell(row.get(name)) for name in names] for row in rows]
    columns = summarize_columns(names, cells, CellRules(missing=()))
    return [_as_member(column, [row.get(column.name) for row in rows]) for column in columns]


def members_of(
    value: dict[str, Any], prefix: str = "", depth: int = 1
) -> Iterator[tuple[str, Any]]:
    """Yield the members of an object with their paths.

    Vectors of Spark and the ``x`` of an example stay whole.
    """
    for name, member in value.items():
        is_example = not prefix and name == "x" and "y" in value
        is_whole = is_example or not isinstance(member, dict) or _is_vector(member)
        if not is_whole and depth < MAX_DEPTH:
            yield from members_of(member, f"{prefix}{name}.", depth + 1)
        else:
            yield prefix + name, member


def _is_vector(value: Any) -> bool:
    return isinstance(value, dict) and is_vector(value)


def _cell(value: Any) -> str:
    """Return a value as the cell of a CSV file."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def _as_member(column: ColumnSummary, values: list[Any]) -> ColumnSummary:
    """Return the summary of a member: strings are categories even if they look like numbers.

    Among numbers, texts that look like them are meant as numbers, too.
    """
    present = [value for value in values if value is not None]
    if any(isinstance(value, list) or _is_vector(value) for value in present):
        return replace(column, kind=ARRAY, words=(), is_category=False, holds_text=False)
    are_words = any(isinstance(value, str) for value in present)
    have_types = are_words and any(not isinstance(value, str) for value in present)
    if are_words and column.kind in ("number", "boolean"):
        is_quoted = column.kind == "number" and _are_amounts(column, len(present))
        is_quoted |= column.name.rpartition(".")[2] in TYPED_NUMBERS or have_types
        column = replace(column, kind="category", words=(), is_category=True, is_quoted=is_quoted)
    elif have_types and column.kind in ("category", "constant"):
        column = replace(column, is_mixed=True)
    return replace(column, holds_text=are_words)


def _are_amounts(column: ColumnSummary, n: int) -> bool:
    """Return whether numbers are amounts rather than codes: most are different, or fractions."""
    is_varied = n >= MIN_ROWS and 2 * len(column.values) > n
    return is_varied or any(not cell.lstrip("+-").isdecimal() for cell in column.values)
