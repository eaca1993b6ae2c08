"""Columns of CSV files that hold text although no option says so: they are read as categories."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.learnt_columns import (
    listed_columns,
    report_missing,
    report_other_kinds,
    report_spellings,
)
from streaml1.cli.messages import report_problem
from streaml1.core.named_options import named_option
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.sources import SourceOptions
    from streaml1.sources.readers.csv_kinds import ColumnSummary

__all__ = ["with_categories"]

N_LINES = 100
"""JSON lines in which numbers as text are looked for."""

UNUSUAL = ("id-like", "time-like")
"""Kinds of columns that are rarely of use as they are."""
MAX_LISTED = 8
"""Labels that a message lists."""


def with_categories(
    source: str | list[str], reading: SourceOptions, model: Any = None
) -> SourceOptions:
    """Add the columns of text and of codes among the first rows of a CSV file to its categories.

    The command's option --categorical turns this off, even with an empty list. So do sources that
    cannot be read twice. A message on standard error lists the columns.

    Parameters
    ----------
    source
        The argument SOURCE. Of several files, the first that has rows decides.
    reading
        How the source is read.
    model
        The model that predicts the examples, or None. Messages name columns that it has learnt
        as another kind, and those that the file lacks.
    """
    keys = _key_columns(source, reading)
    learnt = _key_categories(source, keys, reading, model)
    reading = _with_text_columns(source, keys, reading, model)
    return replace(reading, categorical=[*reading.categorical, *learnt]) if learnt else reading


def _key_columns(source: str | list[str], reading: SourceOptions) -> list[ColumnSummary]:
    """Return the columns whose values are in the names of directories."""
    from streaml1.sources import SourceError, is_many, key_columns, list_files

    if not is_many(source) and not os.path.isfile(str(source)):
        return []
    try:
        keys = key_columns(list_files(source) if is_many(source) else [str(source)], reading)
    except SourceError:  # the reader reports it
        return []
    return [] if keys is None else keys.summaries()


def _key_categories(
    source: str | list[str], keys: Sequence[ColumnSummary], reading: SourceOptions, model: Any
) -> list[str]:
    """Return the columns of directories whose numbers the model has learnt as categories.

    A message lists the columns of directories without a role.
    """
    from streaml1.sources import list_files

    columns = _features(keys, reading)
    if not columns:
        return []
    name = f"{source} (names of directories)" if isinstance(source, str) else list_files(source)[0]
    learnt = [] if model is None else report_other_kinds(name, columns, model, are_keys=True)
    categories = [column for column in columns if column.holds_text or column in learnt]
    numbers = [column for column in columns if column not in categories]
    kinds = {"categories": categories, "numbers": numbers}
    clauses = [f"{kind}: {listed_columns(listed)}" for kind, listed in kinds.items() if listed]
    report_problem(f"{name}: {'; '.join(clauses)}", "columns")
    return [column.name for column in learnt]


def _with_text_columns(
    source: str | list[str], keys: Sequence[ColumnSummary], reading: SourceOptions, model: Any
) -> SourceOptions:
    """Add the columns of text among the first rows of a CSV file to its categories."""
    from streaml1.sources import SourceError, format_of, is_many, list_files
    from streaml1.sources.arrow.files import ARROW, PARQUET
    from streaml1.sources.readers.remote import is_remote

    if is_given := _is_given("categorical"):
        reading = replace(reading, categorical=[name for name in reading.categorical if name])
        if model is None:
            return reading
    every: list[ColumnSummary] = []
    columns: list[ColumnSummary] = []
    for name in list_files(source) if is_many(source) else [str(source)]:
        is_file = is_remote(name) or os.path.isfile(name)
        try:
            kind = format_of(name, reading.format) if is_file else ""
        except SourceError:  # the reader reports it, and may know the formats of other files
            return reading
        if is_given and kind != "csv":
            return reading
        if kind == "jsonl" and (reading.target is not None or model is not None):
            _report_members(name, reading, model)
        if kind in (PARQUET, ARROW) and not is_remote(name):
            _report_table(name, kind, keys, reading, model)
        if kind != "csv":
            return reading
        try:
            every = _columns(name, reading)
        except SourceError:  # the reader reports it, with all other problems of the file
            return reading
        columns = _features(every, reading)
        if any(column.kind != "empty" for column in columns):
            break
    if model is not None:
        report_missing(name, [*every, *keys], columns, model)
        report_spellings(name, every, model)
    if is_given:
        return reading
    categories = [column for column in columns if column.holds_text]
    if model is not None:
        report_other_kinds(name, columns, model)
    if categories or any(column.kind in UNUSUAL for column in columns):
        report_problem(f"{name}: {_kinds(columns)}", "columns")
    if model is None:
        _report_texts(name, columns)
    _report_marks(name, columns, reading)
    _report_labels(name, every, reading)
    if not categories:
        return reading
    return replace(reading, categorical=[column.name for column in categories])


def _report_members(name: str, reading: SourceOptions, model: Any) -> None:
    """Report members of flat JSON lines without a role that hold numbers as text, or next to words.

    With a model, report the members that it has learnt as another kind instead.
    """
    from streaml1.sources import SourceError
    from streaml1.sources.json_samples import ARRAY, mixed_members, quoted_numbers, sample_json
    from streaml1.sources.readers.json_documents import json_lines
    from streaml1.sources.samples import sample_text

    try:
        text, _ = sample_text(name, N_LINES, partial(json_lines, at=reading.at))
        lines = text.split(b"\n", N_LINES)[:N_LINES]
    except SourceError:  # the reader reports it
        return
    sample = sample_json(b"\n".join(lines), reading.at)
    roles = {*reading.columns, *(reading.text or ())}
    columns = [] if sample is None else sample.columns
    columns = [column for column in columns if column.name not in roles and column.kind != ARRAY]
    if model is not None:
        report_other_kinds(name, columns, model, has_types=True)
        return
    for sentence in filter(None, (quoted_numbers(columns), mixed_members(columns))):
        report_problem(f"{name}: {sentence}", "columns")
    _report_texts(name, columns)


def _report_table(
    name: str, kind: str, keys: Sequence[ColumnSummary], reading: SourceOptions, model: Any
) -> None:
    """Report raw text in a Parquet or Arrow file, and how its columns differ from a model's."""
    from streaml1.sources import SourceError
    from streaml1.sources.arrow.samples import NESTED, sample_arrow
    from streaml1.sources.json_samples import ARRAY

    try:
        every = sample_arrow(name, kind).columns
    except SourceError:  # the reader reports it
        return
    columns = [
        replace(column, values=_category_texts(column.values))
        for column in _features(every, reading)
        if column.kind not in (ARRAY, NESTED)
    ]
    if model is None:
        _report_texts(name, columns)
        return
    report_missing(name, [*every, *keys], columns, model)
    report_other_kinds(name, columns, model, has_types=True)


def _category_texts(values: Counter[str]) -> Counter[str]:
    """Return values with whole floats as categories of tables have them, without ``.0``."""
    texts: Counter[str] = Counter()
    for value, n in values.items():
        texts[value.removesuffix(".0")] += n
    return texts


def _report_texts(name: str, columns: Sequence[ColumnSummary]) -> None:
    """Report raw text that is read as categories, of which few occur twice."""
    options = click.get_current_context().command.params
    if not any(option.name == "text" for option in options):
        return
    texts = [
        column
        for column in columns
        if column.kind == "text"
        and 2 * len(column.values) > column.values.total()
        and not next(iter(column.values)).lstrip().startswith("{")  # an object as text, for --at
    ]
    if texts:
        remedy = named_option("text", [column.name for column in texts])
        report_problem(
            f"{name}: texts of several words are categories: {listed_columns(texts)}; to learn "
            f"their words, use {remedy}",
            "columns",
        )


def _report_marks(name: str, columns: Sequence[ColumnSummary], reading: SourceOptions) -> None:
    """Report numbers that are read in another way than they are written."""
    from streaml1.sources import cell_rules, csv_delimiter
    from streaml1.sources.readers.csv_kinds import (
        describe_marks,
        describe_other_marks,
        describe_units,
    )

    delimiter = csv_delimiter(name, reading)
    if reading.decimal is None and reading.thousands is None:
        sentence = describe_marks(columns, delimiter)
    else:
        sentence = describe_other_marks(columns, cell_rules(reading), delimiter)
    if sentence := sentence or describe_units(columns):
        report_problem(f"{name}: {sentence}", "columns")


def _report_labels(name: str, columns: Sequence[ColumnSummary], reading: SourceOptions) -> None:
    """Report labels that --positive reads as False although this may not be meant."""
    from streaml1.features.positive_label import is_positive

    if reading.positive is None or not reading.require_label:
        return
    positive = reading.positive.strip()
    for column in columns:
        if reading.target not in (column.name, str(column.position)):
            continue
        others = [label for label in column.values if not is_positive(label, positive)]
        if len(others) < 2:  # another label than the positive one, which may be rare
            return
        listed = ", ".join(repr(printable(label)) for label in others[:MAX_LISTED])
        listed += f" and {len(others) - MAX_LISTED:,} more" * (len(others) > MAX_LISTED)
        if len(others) < len(column.values):
            sentence = f"labels other than {positive!r} are read as False: {listed}"
        else:
            sentence = f"none of the first labels is {positive!r}, so all are False: {listed}"
        report_problem(f"{name}: column {column.name!r}: {sentence}", "columns")
        return


def _is_given(option: str) -> bool:
    source = click.get_current_context().get_parameter_source(option)
    return source is not None and source.name != "DEFAULT"


def _columns(name: str, reading: SourceOptions) -> list[ColumnSummary]:
    """Return the columns of a file."""
    from streaml1.sources import cell_rules, csv_delimiter
    from streaml1.sources.readers.csv_header import DelimiterError, other_delimiter
    from streaml1.sources.samples import sample_csv, sample_text

    # The reader reports damage, after the lines before it.
    text, is_whole = sample_text(name, may_be_damaged=True)
    given = None if reading.column_names is None else list(reading.column_names)
    columns = sample_csv(
        name, text, is_whole, csv_delimiter(name, reading), cell_rules(reading), reading.header,
        given, reading.target,
    ).columns  # fmt: skip
    if delimiter := other_delimiter([column.name for column in columns]):
        raise DelimiterError(name, delimiter, columns[0].name)
    return columns


def _features(columns: Sequence[ColumnSummary], reading: SourceOptions) -> list[ColumnSummary]:
    """Return the columns that have no role yet."""
    names = {column.name for column in columns}
    roles = {*reading.columns, *(reading.text or ())}

    def has_role(column: ColumnSummary) -> bool:
        number = str(column.position)
        return not column.name or column.name in roles or (number in roles - names)

    return [column for column in columns if not has_role(column)]


def _kinds(columns: Sequence[ColumnSummary]) -> str:
    """Say what the columns hold, in one line."""
    unusual = [column for column in columns if column.kind in UNUSUAL]
    categories = [column for column in columns if column.holds_text and column not in unusual]
    numbers = [column for column in columns if column not in categories and column not in unusual]
    kinds = {
        "categories": categories,
        "numbers": numbers,
        "ids or times, which --ignore leaves out": unusual,
    }
    clauses = [f"{kind}: {listed_columns(listed)}" for kind, listed in kinds.items() if listed]
    if unusual:
        clauses[-1] += " (learnt unless ignored)"
    return "; ".join([*clauses, "to choose, use --categorical (see streaml1 inspect)"])
