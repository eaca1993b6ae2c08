"""The command of ``streaml1 learn`` that `streaml1 inspect` suggests for a source."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from streaml1.core.text_table import printable

if TYPE_CHECKING:
    from streaml1.sources.readers.csv_kinds import ColumnSummary
    from streaml1.sources.samples import CsvSample

__all__ = [
    "command_for_csv",
    "command_for_members",
    "describe_label",
    "rejection_options",
    "task_options",
]

MAX_CLASSES = 20
"""Whole numbers are labels of classes if there are at most that many."""
USUAL_MISSING = 0.02
"""A share of missing labels from which --most-bad must be larger than by default."""

REGRESSION = ["--task", "regression"]
CLASS_NAMES = ("class", "label", "target", "category", "species")
"""Names of columns whose whole numbers are more likely classes than amounts."""
BINARY = {"0", "1", "-1", "true", "false", "True", "False", "TRUE", "FALSE"}
YES = ("yes", "y", "true", "t", "positive", "pos", "spam", "fraud", "click", "clicked", "churn",
       "churned", "converted", ">50k", "ja", "oui", "si", "sí", "sì", "sim", "tak", "ano",
       "да", "так", "evet", "igen", "kyllä", "是", "はい", "on", "success", "pass",
       "win")  # fmt: skip
WEIGHT_NAMES = ("sample_weight", "sample_weights", "instance_weight", "importance_weight")
"""Names of columns that are sample weights if no option says so."""


def command_for_csv(
    source: str, options: dict[str, Any], sample: CsvSample, target: ColumnSummary | None
) -> str:
    """Return a command that learns from the file, quoted for a shell."""
    from streaml1.core.named_options import list_of
    from streaml1.features.number_texts import MISSING_WORDS

    columns = [column for column in sample.columns if column is not target]
    options = _with_weight(columns, options)
    words = ["streaml1", "learn", source]
    for name in ("format", "delimiter", "positive", "decimal", "thousands", "weight"):
        if options.get(name) is not None:
            value = {"\t": "tab", "\x01": r"\x01"}.get(options[name], options[name])
            words += [f"--{name}", value]
    if not sample.has_header and options.get("column_names") is None:
        words.append("--no-header")
    elif options.get("column_names") is not None:
        words += ["--columns", list_of(options["column_names"])]
    names = Counter(column.name for column in sample.columns)

    def reference(column: ColumnSummary) -> str:
        """Return the name of a column, or its number if the name is ambiguous or unprintable."""
        is_clear = column.name.isprintable() and names[column.name] == 1
        return column.name if column.name and is_clear else str(column.position)

    words += ["--target", "COLUMN" if target is None else reference(target)]
    if target is not None:
        words += _label_options(target, options)
    columns = [column for column in columns if reference(column) != options.get("weight")]
    # Columns without a name, and all but the first of each name, cannot be read.
    seen = {target.name} if target is not None else set()
    unreadable = []
    for column in columns:
        if not column.name or column.name in seen:
            unreadable.append(column)
        seen.add(column.name)
    by_kind = {
        "--categorical": [c for c in columns if c.is_category],
        "--text": [c for c in columns if c.kind == "text"],
        "--ignore": [c for c in columns if c.kind in ("id-like", "time-like")],
    }
    for found in by_kind.values():
        found[:] = [c for c in found if c not in unreadable]
    by_kind["--ignore"] += unreadable
    for option, found in by_kind.items():
        if found:
            words += [option, list_of(map(reference, found))]
    missing = list(dict.fromkeys(word for column in columns for word in column.words))
    given = options.get("missing")
    if missing or given is not None:
        words += ["--missing", list_of([*(MISSING_WORDS if given is None else given), *missing])]
    return " ".join(map(shlex.quote, words))


def command_for_members(
    source: str,
    options: dict[str, Any],
    columns: list[ColumnSummary],
    target: ColumnSummary | None,
    ignored: tuple[str, ...] = ("id-like", "time-like"),
    what: str = "MEMBER",
) -> str:
    """Return a command that learns from flat JSON lines or a table, quoted for a shell."""
    from streaml1.core.named_options import list_of

    options = _with_weight(columns, options)
    words = ["streaml1", "learn", source]
    for name in ("format", "schema_registry", "schema", "at", "positive", "weight", "id"):
        if options.get(name) is not None:
            words += [f"--{name.replace('_', '-')}", options[name]]
    words += ["--target", what if target is None else target.name]
    if target is not None:
        words += _label_options(target, options)
    others = [
        column
        for column in columns
        if column is not target and column.name not in (options.get("weight"), options.get("id"))
    ]
    by_kind = {
        "--categorical": [c.name for c in others if c.is_mixed],
        "--numeric": [c.name for c in others if c.is_quoted],
        "--text": [c.name for c in others if c.kind == "text"],
        "--ignore": [c.name for c in others if c.kind in ignored],
    }
    for option, names in by_kind.items():
        if names:
            words += [option, list_of(names)]
    return " ".join(map(shlex.quote, words))


def _label_options(target: ColumnSummary, options: dict[str, Any]) -> list[str]:
    """Return the options that a label column needs."""
    return _classes(target, options) + rejection_options(target.missing)


def rejection_options(missing: float) -> list[str]:
    """Return the options that skip the examples without a label, if there are others.

    Parameters
    ----------
    missing
        The share of examples without a label.
    """
    if not 0.0 < missing < 1.0:
        return []
    limit = ["--most-bad", str(min(1.0, round(2 * missing + 0.05, 1)))]
    return ["--bad", "skip", *(limit if missing > USUAL_MISSING else [])]


def _classes(target: ColumnSummary, options: dict[str, Any]) -> list[str]:
    """Return the options that say what the labels are."""
    from streaml1.core.named_options import list_of
    from streaml1.sources.readers.column_hints import alike_labels

    labels = {*target.values}
    if labels <= BINARY or options.get("positive") is not None:
        return []
    numbers = _numbers(labels, options)
    if numbers and {*numbers} <= {0.0, 1.0, -1.0}:
        return []
    if len(numbers) == 2:  # such as 1 and 2
        return ["--positive", max(numbers.items())[1]]
    groups = alike_labels(target)
    are_numbers = target.kind == "number" or (target.kind == "id-like" and not target.holds_text)
    if len(groups) == 2 and not are_numbers:
        likely = [group for group in groups if group[0].strip().lower() in YES]
        likely = likely or [max(groups, key=_digits)] * (len({*map(_digits, groups)}) == 2)
        return ["--positive", list_of(likely[0] if likely else groups[-1])]
    are_classes = not are_numbers or (
        target.name.strip().lower() in CLASS_NAMES and _are_whole(target, options)
    )
    return ["--model", "softmax"] if are_classes else REGRESSION


def _digits(group: Sequence[str]) -> str:
    """Return the digits and control characters of a label, such as ``b'1'`` or ``class_1``."""
    return "".join(c for c in group[0] if c.isdecimal() or not c.isprintable())


def _numbers(labels: Iterable[str], options: dict[str, Any]) -> dict[float, str]:
    """Return the labels by their values, or nothing unless all of them are numbers."""
    from streaml1.sources.readers.csv_cells import CellRules

    rules = CellRules(decimal=options.get("decimal") or ".", thousands=options.get("thousands"))
    with suppress(ValueError):
        return {float(rules.label(label) or label): label for label in labels}
    return {}


def task_options(labels: Iterable[Any]) -> list[str]:
    """Return the options that examples with these labels need."""
    known = {label for label in labels if label is not None}
    if known <= {0, 1} or known <= {-1, 1}:
        return []
    is_class = all(isinstance(label, str) or float(label).is_integer() for label in known)
    return ["--model", "softmax"] if is_class and len(known) <= MAX_CLASSES else REGRESSION


def describe_label(target: ColumnSummary, options: dict[str, Any]) -> str:
    """Return a sentence about labels that may be read in another way; or "".

    Parameters
    ----------
    target
        The column of the labels.
    options
        The options that the suggested command has, such as ``decimal``.
    """
    from streaml1.sources.readers.column_hints import alike_labels

    groups = alike_labels(target)
    if alike := [group for group in groups if len(group) > 1]:
        listed = ", ".join(repr(printable(label)) for label in alike[0])
        sentence = f"labels differ only in case or blanks, such as {listed}: "
        if len(groups) == 2:
            return f"{sentence}--positive takes all spellings of one label"
        return f"{sentence}each spelling is a class of its own"
    words = _classes(target, options)
    if target.kind != "number" or len(groups) > MAX_CLASSES or "--positive" in words:
        return ""
    if words == REGRESSION:
        if not _are_whole(target, options):
            return ""
        return f"the {len(groups)} labels are read as numbers; as classes with --model softmax"
    if words:
        return f"the {len(groups)} labels are read as classes; as numbers with --task regression"
    return ""


def _are_whole(target: ColumnSummary, options: dict[str, Any]) -> bool:
    """Return whether labels are few whole numbers, each of them several times."""
    numbers = _numbers(target.values, options)
    return (
        0 < len(numbers) <= MAX_CLASSES
        and all(number.is_integer() for number in numbers)
        and target.values.total() >= 2 * len(numbers)
    )


def _with_weight(columns: list[ColumnSummary], options: dict[str, Any]) -> dict[str, Any]:
    """Return the options, and the column that is clearly the sample weight."""
    if options.get("weight") is not None:
        return options
    kinds = ("number", "boolean", "constant")
    found = (c.name for c in columns if c.name.lower() in WEIGHT_NAMES and c.kind in kinds)
    return options | {"weight": next(found, None)}
