"""Report how the columns of a file differ from those that a model has learnt."""

from __future__ import annotations

import re
import shlex
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from streaml1.cli.messages import report_problem
from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.sources.readers.csv_kinds import ColumnSummary

__all__ = ["listed_columns", "report_missing", "report_other_kinds", "report_spellings"]

MAX_LISTED = 8
"""Columns of each kind that a message lists."""

MAX_VALUES = 20
"""Most frequent values of a column that are looked up as categories of a model."""

MAX_FEATURES = 100_000
"""Features of a model whose columns are looked up. As a rule the first rows have all columns."""

_WHOLE = re.compile(r"[0-9]+(\.0)?")

_SEPARATOR = re.compile(r"[=^.]")
"""What may follow a column in the name of a feature: a category, a word, a member."""


def report_other_kinds(
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

    values = {column.name: _categories(column) for column in columns}
    known = _known_features(
        model, [*values, *(text for texts in values.values() for text in texts)]
    )
    # JSON may hold both: then the model knows the words of such a member, too.
    texts = [
        column
        for column in columns
        if column.holds_text and column.name in known and not known & {*values[column.name]}
    ]
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
            f"{name}: the model has learnt numbers from {listed_columns(texts)}, where this file "
            f"has words: {remedy}",
            "columns",
        )
    if numbers and not are_keys:
        # Where values have types, texts are categories anyway.
        words = [c.name for c in columns if c.holds_text and c not in texts and not has_types]
        listed = list_of([*words, *(column.name for column in numbers)])
        report_problem(
            f"{name}: the model has learnt categories from {listed_columns(numbers)}, where this "
            f"file has numbers: use --categorical {shlex.quote(listed)}",
            "columns",
        )
    return numbers


def report_spellings(name: str, columns: Sequence[ColumnSummary], model: Any) -> None:
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


def report_missing(
    name: str, columns: Sequence[ColumnSummary], features: Sequence[ColumnSummary], model: Any
) -> None:
    """Report columns that the model has learnt and the file lacks: they may have another name.

    Nothing is reported if the file has none of the columns: the run reports unknown names itself.

    Parameters
    ----------
    name
        The file.
    columns
        All of its columns, those with a role included.
    features
        Those without a role.
    model
        The model.
    """
    names = {column.name: column.kind for column in columns}
    learnt = {_column_of(feature, names) for feature in _learnt_features(model)}
    missing = sorted(learnt - names.keys())
    if not missing or learnt.isdisjoint(names):
        return
    texts = {column.name: [column.name, *_categories(column)] for column in features}
    known = _known_features(model, {text for names in texts.values() for text in names})
    unknown = [column for column, names in texts.items() if known.isdisjoint(names)]
    remedy = "examples are read without them"
    if unknown:
        remedy = f"rename columns that are the same (new to the model: {_shown(unknown)})"
    report_problem(
        f"{name}: the model has learnt from columns that this file lacks: {_shown(missing)}; "
        f"{remedy}",
        "columns",
    )


def _learnt_features(model: Any) -> list[str]:
    """Return the names of the first features with a weight; none if they are not stored."""
    from streaml1.models.base import OnlineModel

    if not isinstance(model, OnlineModel) or model.hash_bits is not None:
        return []
    state = model._state
    with state.exclusive():
        slots, _ = state.live_weights()
        names = state.vocabulary.names_at(slots[:MAX_FEATURES])
    return [name for name in names if isinstance(name, str)]


def _column_of(feature: str, kinds: Mapping[str, str]) -> str:
    """Return the column of a feature: one of those given, or else the one that its name suggests.

    Parameters
    ----------
    feature
        The name of the feature.
    kinds
        The kind of each column by its name.
    """
    from streaml1.sources.arrow.samples import NESTED
    from streaml1.training.vocabulary_check import prefix_of

    if feature in kinds:
        return feature
    for match in _SEPARATOR.finditer(feature, 1):
        column = feature[: match.start()]
        if column in kinds and (match[0] != "." or kinds[column] == NESTED):
            return column
    return prefix_of(feature)


def _categories(column: ColumnSummary) -> list[str]:
    """Return the names that the most frequent values of a column have as categories."""
    return [f"{column.name}={value}" for value, _ in column.values.most_common(MAX_VALUES)]


def _known_features(model: Any, names: Collection[str]) -> set[str]:
    """Return the names that have a weight in a model; none if its names are not stored."""
    from streaml1.models.base import OnlineModel

    if not isinstance(model, OnlineModel) or model.hash_bits is not None:
        return set()
    explained = model.explain_one(dict.fromkeys(names, 1.0))
    if isinstance(explained, dict):  # by label
        explained = next(iter(explained.values()), None)
    return set() if explained is None else {*names} - {*explained.unknown}


def listed_columns(columns: Sequence[ColumnSummary]) -> str:
    """Return the names of columns as a message lists them."""
    return _shown([column.name for column in columns])


def _shown(names: Sequence[str]) -> str:
    """Return the first names, quoted for a shell, and the number of the others."""
    shown = ", ".join(
        shlex.quote(name) if name.isprintable() else str(printable(name))
        for name in names[:MAX_LISTED]
    )
    n_more = len(names) - MAX_LISTED
    return shown + (f" and {n_more} more" if n_more > 0 else "")
