"""The weights of a model as CSV, JSON or SQL."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Hashable, Iterator, Sequence
from typing import Any, NamedTuple

from streaml1.cli.program import CommandError
from streaml1.core.exit_codes import DATA_ERROR
from streaml1.core.rows import shown

__all__ = ["WeightTable", "csv_lines", "json_lines", "sql_lines", "weight_table"]

ROWS_PER_INSERT = 1000
MAX_LOG_MEAN = "115.12925464970229e0"  # log(1e50), see `losses.poisson_mean`

SIGMOID = """\
CASE WHEN margin >= 0
         THEN 1 / (1 + EXP(-margin))
         ELSE EXP(margin) / (1 + EXP(margin))
    END AS p"""
MEAN = f"EXP(CASE WHEN margin < {MAX_LOG_MEAN} THEN margin ELSE {MAX_LOG_MEAN} END) AS value"

MARKER = "-- The score of each example."
"""The comment in front of the query, the last statement of the SQL."""


class WeightTable(NamedTuple):
    """The weights of a model, largest first.

    Attributes
    ----------
    class_name : str
        The class of the model.
    loss : str
        Its loss; "softmax" for a multiclass model.
    is_classifier : bool
    hashed : bool
        Whether names are slots.
    labels : list
        The labels of a multiclass model; empty for any other model.
    intercepts : list of float
        One for each label; a single one without labels.
    rows : list of (name, weights)
        A feature and its weight for each label; one weight without labels.
    notes : list of str
        Sentences on what the weights alone do not reproduce.
    """

    class_name: str
    loss: str
    is_classifier: bool
    hashed: bool
    labels: list[Hashable]
    intercepts: list[float]
    rows: list[tuple[Hashable, list[float]]]
    notes: list[str]


def weight_table(learner: Any) -> WeightTable:
    """Return the weights of a model that is published: features with a non-zero weight only."""
    labels: list[Hashable] = list(getattr(learner, "classes_met", ()))
    weights, intercept = learner.weights, learner.intercept
    if hasattr(learner, "classes_met"):
        rows = [(name, [row.get(label, 0.0) for label in labels]) for name, row in weights.items()]
        intercepts = [intercept[label] for label in labels]
    else:
        rows, intercepts = [(name, [w]) for name, w in weights.items()], [intercept]
        if learner.offset is not None:  # to a query, a feature of weight 1
            rows.append((learner.offset, [1.0]))
    rows.sort(key=lambda row: -max(map(abs, row[1])))
    return WeightTable(
        type(learner).__name__,
        "softmax" if hasattr(learner, "classes_met") else learner.loss,
        hasattr(learner, "predict_proba_one"),
        learner.hash_bits is not None,
        labels,
        intercepts,
        rows,
        _notes(learner),
    )


def _notes(learner: Any) -> list[str]:
    from streaml1.optim.update_rule import unknown_slot

    notes = []
    if learner._is_scaled:
        notes.append(
            "the model scales values by their mean size and bounds them: scores from its weights "
            "are approximate"
        )
    if getattr(learner, "nonnegative", False) and unknown_slot(learner._state.rule) is not None:
        notes.append(
            "the model gives features that it has not learnt a weight, too: scores from its "
            "weights are approximate"
        )
    if learner.cross or learner.text:
        notes.append(
            "the model adds features to its examples (cross, text): add them before scoring, under "
            "the names in the table"
        )
    return notes


def text_of(name: Hashable) -> str:
    """Return a name or label as text: strings and ints as they are, anything else as its repr."""
    return str(name) if isinstance(name, str | int) else repr(name)


# CSV


def csv_lines(table: WeightTable) -> Iterator[str]:
    """Yield the lines of a CSV file: ``kind,name,weight``, with labels ``kind,name,label,weight``.

    The kind is ``intercept`` or ``feature``. The weights of a label that are zero are omitted.
    """
    if not table.labels:
        yield _csv_line(["kind", "name", "weight"])
        yield from (_csv_line(["intercept", "", repr(b)]) for b in table.intercepts)
        for name, (w,) in table.rows:
            yield _csv_line(["feature", text_of(name), repr(w)])
        return
    yield _csv_line(["kind", "name", "label", "weight"])
    labels = [*map(text_of, table.labels)]
    for label, b in zip(labels, table.intercepts, strict=True):
        yield _csv_line(["intercept", "", label, repr(b)])
    for name, row in table.rows:
        for label, w in zip(labels, row, strict=True):
            if w:
                yield _csv_line(["feature", text_of(name), label, repr(w)])


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\r\n").writerow(cells)  # quotes the letters of its line end
    return text.getvalue().removesuffix("\r\n")


# JSON


def json_lines(table: WeightTable) -> Iterator[str]:
    """Yield the lines of one JSON object, with a line for each feature."""
    head: dict[str, Any] = {"class": table.class_name, "loss": table.loss, "hashed": table.hashed}
    if table.loss == "softmax":
        head["labels"] = [_json_name(label) for label in table.labels]
        head["intercepts"] = table.intercepts
    else:
        head["intercept"] = table.intercepts[0]
    head["notes"] = table.notes
    yield json.dumps(head)[:-1] + ', "weights": ['
    last = len(table.rows) - 1
    for k, (name, row) in enumerate(table.rows):
        weights = row if table.loss == "softmax" else row[0]
        yield f"  {json.dumps([_json_name(name), weights])}{',' if k < last else ''}"
    yield "]}"


def _json_name(name: Hashable) -> Any:
    return name if isinstance(name, str | int | float) or name is None else repr(name)


# SQL


def sql_lines(table: WeightTable) -> Iterator[str]:
    """Yield SQL that creates tables of weights, and a query of the scores of a table of examples.

    It is standard SQL; tests run it in DuckDB and SQLite. The query reads a table
    `examples` with the columns `example_id`, `name` and `value`.

    Raises
    ------
    CommandError
        If two names are the same as text, or one has a null character.
    """
    yield f"-- {table.class_name}, {len(table.rows)} features, written by streaml1 export."
    for note in table.notes:
        yield f"-- Note: {note}."
    yield "-- Needs a table examples (example_id, name TEXT, value DOUBLE PRECISION) with a row for"
    yield "-- each feature of an example that is not zero. A category is the name site=news with"
    yield "-- value 1."
    if table.loss == "softmax":
        yield from _multiclass_sql(table)
        return
    yield "CREATE TABLE weights (name TEXT PRIMARY KEY, weight DOUBLE PRECISION NOT NULL);"
    names = _distinct_literals([name for name, _ in table.rows], "features")
    rows = zip(names, table.rows, strict=True)
    yield from _inserts("weights", [f"({name}, {_float(w)})" for name, (_, (w,)) in rows])
    output = "margin AS value"
    if table.is_classifier:
        output = SIGMOID
    elif table.loss == "poisson":
        output = MEAN
    yield MARKER
    yield "SELECT"
    yield "    example_id,"
    yield "    margin,"
    yield f"    {output}"
    yield "FROM ("
    yield f"    SELECT e.example_id, {_float(table.intercepts[0])}"
    yield "        + COALESCE(SUM(e.value * w.weight), 0) AS margin"
    yield "    FROM examples AS e LEFT JOIN weights AS w ON w.name = e.name"
    yield "    GROUP BY e.example_id"
    yield ") AS margins"
    yield "ORDER BY example_id;"


def _multiclass_sql(table: WeightTable) -> Iterator[str]:
    labels = _distinct_literals(table.labels, "labels")
    intercepts = map(_float, table.intercepts)
    yield (
        "CREATE TABLE labels (id INTEGER PRIMARY KEY, label TEXT NOT NULL, "
        "intercept DOUBLE PRECISION NOT NULL);"
    )
    pairs = enumerate(zip(labels, intercepts, strict=True))
    yield from _inserts("labels", [f"({i}, {label}, {b})" for i, (label, b) in pairs])
    yield (
        "CREATE TABLE weights (name TEXT, label_id INTEGER, weight DOUBLE PRECISION NOT NULL, "
        "PRIMARY KEY (name, label_id));"
    )
    names = _distinct_literals([name for name, _ in table.rows], "features")
    rows = [
        f"({name}, {i}, {_float(w)})"
        for name, (_, row) in zip(names, table.rows, strict=True)
        for i, w in enumerate(row)
        if w
    ]
    yield from _inserts("weights", rows)
    yield MARKER
    yield """\
WITH margins AS (
    SELECT e.example_id, l.id, l.label,
        l.intercept + COALESCE(SUM(e.value * w.weight), 0) AS margin
    FROM examples AS e
    CROSS JOIN labels AS l
    LEFT JOIN weights AS w ON w.name = e.name AND w.label_id = l.id
    GROUP BY e.example_id, l.id, l.label, l.intercept
), ranked AS (
    SELECT example_id, label, margin,
        MAX(margin) OVER (PARTITION BY example_id) AS largest,
        ROW_NUMBER() OVER (PARTITION BY example_id ORDER BY margin DESC, id) AS place
    FROM margins
)
SELECT
    example_id,
    MAX(CASE WHEN place = 1 THEN label END) AS label,
    1 / SUM(EXP(margin - largest)) AS p
FROM ranked
GROUP BY example_id
ORDER BY example_id;"""


def _inserts(name: str, rows: Sequence[str]) -> Iterator[str]:
    for lo in range(0, len(rows), ROWS_PER_INSERT):
        yield f"INSERT INTO {name} VALUES"
        yield ",\n".join(rows[lo : lo + ROWS_PER_INSERT]) + ";"


def _float(number: float) -> str:
    """Return a float as a literal with an exponent: without one databases read a decimal."""
    text = repr(number)
    return text if "e" in text else f"{text}e0"


def _distinct_literals(names: Sequence[Hashable], what: str) -> list[str]:
    """Return names as string literals.

    A quote is doubled. Nothing else has a meaning within a literal of standard SQL.
    """
    owners: dict[str, Hashable] = {}
    for name in names:
        text = text_of(name)
        if "\0" in text:
            raise CommandError(
                f"the name {shown(name)} has a null character, which SQL cannot hold; use --csv or "
                "--json",
                DATA_ERROR,
            )
        if text in owners:
            raise CommandError(
                f"two {what} are {shown(text)} as text, {shown(owners[text])} and {shown(name)}, "
                "but names in SQL are text; use --json",
                DATA_ERROR,
            )
        owners[text] = name
    return ["'" + text.replace("'", "''") + "'" for text in owners]
