"""Columns of CSV files that hold text although no option says so: they are read as categories."""

from __future__ import annotations

import os
import re
import shlex
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.messages import report_problem
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.sources import SourceOptions
    from streaml1.sources.readers.csv_kinds import ColumnSummary

__all__ = ["with_categories"]

N_LINES = 100
"""JSON lines in which numbers as text are looked for."""

_QUOTED = re.compile(rb'\\?":\s*\\?"[-+]?[0-9.]+([eE][-+]?[0-9]+)?\\?"')
"""A member that is a number as text, perhaps inside of a text."""

_WHOLE = re.compile(r"[0-9]+(\.0)?")

UNUSUAL = ("id-like", "time-like")
"""Kinds of columns that are rarely of use as they are."""
MAX_LISTED = 8
"""Columns of each kind that the message lists."""
MAX_VALUES = 20
"""Most frequent values of a column that are looked up as categories of a model."""


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
        The model that predicts the examples, or None. A message names columns that it has learnt
        as another kind.
    """
    keys = _key_categories(source, reading, model)
    reading = _with_text_columns(source, reading, model)
    return replace(reading, categorical=[*reading.categorical, *keys]) if keys else reading


def _key_categories(source: str | list[str], reading: SourceOptions, model: Any) -> list[str]:
    """Return the columns of directories whose numbers the model has learnt as categories.

    A message lists the columns of directories without a role.
    """
    from streaml1.sources import SourceError, is_many, key_columns, list_files

    if not is_many(source) and not os.path.isfile(str(source)):
        return []
    try:
        files = list_files(source) if is_many(source) else [str(source)]
        keys = key_columns(files, reading)
    except SourceError:  # the reader reports it
        return []
    columns = _features([] if keys is None else keys.summaries(), reading)
    name = f"{source} (names of directories)" if isinstance(source, str) else files[0]
    learnt = [] if model is None else _report_other_kinds(name, columns, model, are_keys=True)
    categories = [column for column in columns if column.holds_text or column in learnt]
    numbers = [column for column in columns if column not in categories]
    kinds = {"categories": categories, "numbers": numbers}
    if columns:
        clauses = [f"{kind}: {_listed(listed)}" for kind, listed in kinds.items() if listed]
        report_problem(f"{name}: {'; '.join(clauses)}", "columns")
    return [column.name for column in learnt]


def _with_text_columns(
    source: str | list[str], reading: SourceOptions, model: Any
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
        if kind in (PARQUET, ARROW) and model is not None and not is_remote(name):
            _report_table(name, kind, reading, model)
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
        _report_spellings(name, every, model)
    if is_given:
        return reading
    categories = [column for column in columns if column.holds_text]
    if model is not None:
        _report_other_kinds(name, columns, model)
    if categories or any(column.kind in UNUSUAL for column in columns):
        report_problem(f"{name}: {_kinds(columns)}", "columns")
    _report_marks(name, columns, reading)
    _report_labels(name, every, reading)
    if not categories:
        return reading
    return replace(reading, categorical=[column.name for column in categories])


def _report_members(name: str, reading: SourceOptions, model: Any) -> None:
    """Report members of flat JSON lines without a role that hold numbers as text.

    With a model, report the members that it has learnt as another kind instead.
    """
    from streaml1.sources import SourceError
    from streaml1.sources.json_samples import ARRAY, quoted_numbers, sample_json
    from streaml1.sources.readers.json_documents import json_lines
    from streaml1.sources.samples import sample_text

    try:
        text, _ = sample_text(name, N_LINES, partial(json_lines, at=reading.at))
        lines = text.split(b"\n", N_LINES)[:N_LINES]
    except SourceError:  # the reader reports it
        return
    text = b"\n".join(lines)
    if model is None and not _QUOTED.search(text):
        return  # a sample takes a fraction of the start of a short run
    sample = sample_json(text, reading.at)
    roles = {*reading.columns, *(reading.text or ())}
    columns = [] if sample is None else sample.columns
    columns = [column for column in columns if column.name not in roles and column.kind != ARRAY]
    if model is not None:
        _report_other_kinds(name, columns, model, has_types=True)
    elif sentence := quoted_numbers(columns):
        report_problem(f"{name}: {sentence}", "columns")


def _report_table(name: str, kind: str, reading: SourceOptions, model: Any) -> None:
    """Report columns of a Parquet or Arrow file that a model has learnt as another kind."""
    from streaml1.sources import SourceError
    from streaml1.sources.arrow.samples import NESTED, sample_arrow
    from streaml1.sources.json_samples import ARRAY

    try:
        columns = sample_arrow(name, kind).columns
    except SourceError:  # the reader reports it
        return
    columns = [
        replace(column, values=_category_texts(column.values))
        for column in _features(columns, reading)
        if column.kind not in (ARRAY, NESTED)
    ]
    _report_other_kinds(name, columns, model, has_types=True)


def _category_texts(values: Counter[str]) -> Counter[str]:
    """Return values with whole floats as categories of tables have them, without ``.0``."""
    texts: Counter[str] = Counter()
    for value, n in values.items():
        texts[value.removesuffix(".0")] += n
    return texts


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


def _report_other_kinds(
    name: str,
    columns: Sequence[ColumnSummary],
    model: Any,
    has_types: bool = False,
    are_keys: bool = False,
) -> list[ColumnSummary]:
    """Report columns of words that the model has learnt as numbers, and the reverse.

    The reverse is returned, and not reported if the columns are those of directories.
    """
    from streaml1.core.named_options import list_of
    from streaml1.sources.readers.csv_kinds import are_codes

    values = {
        column.name: [
            f"{column.name}={value}" for value, _ in column.values.most_common(MAX_VALUES)
        ]
        for column in columns
    }
    known = _known_features(
        model, [*values, *(text for texts in values.values() for text in texts)]
    )
    texts = [column for column in columns if column.holds_text and column.name in known]
    numbers = [
        column
        for column in columns
        if not column.holds_text and column.name not in known and known & {*values[column.name]}
    ]
    if texts:
        remedy = "give the options that learn had, such as --thousands, --decimal or --missing"
        if has_types or are_keys or all(are_codes({*column.values}) for column in texts):
            remedy = f"use --numeric {shlex.quote(list_of(column.name for column in texts))}"
        report_problem(
            f"{name}: the model has learnt numbers from {_listed(texts)}, where this file has "
            f"words: {remedy}",
            "columns",
        )
    if numbers and not are_keys:
        # Where values have types, texts are categories anyway.
        words = [c.name for c in columns if c.holds_text and c not in texts and not has_types]
        listed = list_of([*words, *(column.name for column in numbers)])
        report_problem(
            f"{name}: the model has learnt categories from {_listed(numbers)}, where this file has "
            f"numbers: use --categorical {shlex.quote(listed)}",
            "columns",
        )
    return numbers


def _report_spellings(name: str, columns: Sequence[ColumnSummary], model: Any) -> None:
    """Report a category such as 7.0 where the model has learnt 7, or the reverse.

    Programs write all whole numbers of a column with decimals if one of its values is missing.
    """
    spellings = {}
    for column in columns:
        for value, _ in column.values.most_common(MAX_VALUES):
            if _WHOLE.fullmatch(value):
                other = value.removesuffix(".0") if value.endswith(".0") else f"{value}.0"
                spellings[f"{column.name}={value}"] = (column.name, value, other)
    others = {f"{column}={other}" for column, _, other in spellings.values()}
    known = _known_features(model, {*spellings, *others})
    for text, (column_name, value, other) in spellings.items():
        if text not in known and f"{column_name}={other}" in known:
            report_problem(
                f"{name}: column {column_name!r} holds {value!r} where the model has learnt the "
                f"category {other!r}: write such numbers alike, as with astype('Int64') in pandas",
                "columns",
            )
            return


def _known_features(model: Any, names: Collection[str]) -> set[str]:
    """Return the names that have a weight in a model; none if its names are not stored."""
    from streaml1.models.base import OnlineModel

    if not isinstance(model, OnlineModel) or model.hash_bits is not None:
        return set()
    explained = model.explain_one(dict.fromkeys(names, 1.0))
    if isinstance(explained, dict):  # by label
        explained = next(iter(explained.values()), None)
    return set() if explained is None else {*names} - {*explained.unknown}


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
    clauses = [f"{kind}: {_listed(listed)}" for kind, listed in kinds.items() if listed]
    if unusual:
        clauses[-1] += " (learnt unless ignored)"
    return "; ".join([*clauses, "to choose, use --categorical (see streaml1 inspect)"])


def _listed(columns: Sequence[ColumnSummary]) -> str:
    names = ", ".join(
        shlex.quote(column.name) if column.name.isprintable() else str(printable(column.name))
        for column in columns[:MAX_LISTED]
    )
    n_more = len(columns) - MAX_LISTED
    return names + (f" and {n_more} more" if n_more > 0 else "")
