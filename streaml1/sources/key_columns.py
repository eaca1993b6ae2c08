"""Columns whose values are in names of directories, such as ``day=2026-11-01/part-0.parquet``.

`directory_keys` reads the names. `KeyColumns` gives the roles to these columns that options name,
and adds them to the blocks of the files, as if each file had them after its own columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.named_options import named_option
from streaml1.features.label_texts import LabelTexts
from streaml1.features.number_texts import BOOLEANS, read_number_text
from streaml1.sources.file_formats import JSON_FORMATS
from streaml1.sources.options import SourceOptions
from streaml1.sources.reader_options import cell_rules
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_header import RequestedRoles
from streaml1.sources.readers.csv_kinds import ColumnSummary, are_codes, summarize_columns
from streaml1.sources.source import Block, Lost, SourceError, read_number, shown
from streaml1.text.parsed_rows import NamedRows, with_constants

__all__ = ["KeyColumns", "KeyValues"]

KeyValues = Mapping[str, Mapping[str, str | None]]
"""By file, the values of the keys; None is a missing one."""


class _Constants(NamedTuple):
    """What all examples of a file have."""

    x: dict[str, Any]
    y: str | None = None
    w: float = 1.0
    id: str | None = None


class KeyColumns:
    """The columns of keys of some files.

    A key is a column of numbers if all of its values are numbers, none of them a code such as 02139
    (programs write numbers without leading zeros), else one of categories.

    Parameters
    ----------
    values
        The keys of each file and their values.
    options
        How the files are read.
    kind
        The format of the files. In CSV, values are read as cells.

    Raises
    ------
    SourceError
        If a role does not fit.
    """

    def __init__(self, values: KeyValues, options: SourceOptions, kind: str) -> None:
        self._values = values
        self._is_csv, self._is_json = kind == "csv", kind in JSON_FORMATS
        self._rules = cell_rules(options) if self._is_csv else CellRules((), options.positive)
        keys = list(next(iter(values.values())))
        self._requested = _roles_of(keys, options)
        roles = self._requested.resolve(keys, "names of directories")
        self._target, self._weight, self._id = (
            None if position is None else keys[position]
            for position in (roles.target, roles.weight, roles.id)
        )
        special = {roles.target, roles.weight, roles.id, *roles.ignored}
        features = [k for k in range(len(keys)) if k not in special]
        texts = {keys[k] for k in features if k in roles.text}
        self._numbers = {
            keys[k]
            for k in features
            if k in roles.numeric or (k not in roles.text and self._holds_numbers(keys[k]))
        }
        self._features = [keys[k] for k in features]
        self.texts = tuple(key for key in self._features if key in texts)
        self._found: tuple[str, _Constants] | None = None  # of the last file
        for file in values:
            self._constants(file)

    @property
    def identity(self) -> dict[str, Any]:
        """What must be equal for a position to be valid: roles and kinds of the columns."""
        single = {"target": self._target, "weight": self._weight, "id": self._id}
        kinds = {key: role for role, key in single.items() if key is not None}
        for key in self._features:
            kinds[key] = "number" if key in self._numbers else "category"
        return {"columns of directories": kinds}

    def summaries(self, first: int = 0) -> list[ColumnSummary]:
        """Return what the columns of features hold, numbered from `first`, as if a file were a row.

        Nearly each file may have another value, which does not make an id of them.
        """
        rows = [[values[key] or "" for key in self._features] for values in self._values.values()]
        rules = self._rules if self._is_csv else CellRules(())
        found = summarize_columns(self._features, rows, rules)
        return [self._as_key(column, first) for column in found]

    def _as_key(self, column: ColumnSummary, first: int) -> ColumnSummary:
        is_number = column.name in self._numbers
        kind = column.kind
        if kind in ("number", "category", "id-like", "text"):
            kind = "number" if is_number else "category"
        return replace(
            column, kind=kind, position=first + column.position, words=(),
            is_category=kind in ("category", "constant") and not is_number,
            holds_text=not is_number and kind != "empty",
        )  # fmt: skip

    def options_of_files(self, options: SourceOptions) -> SourceOptions:
        """Return the options for the files, without those of these columns."""
        keys = next(iter(self._values.values()))

        def rest(names: Any) -> Any:
            return None if names is None else tuple(name for name in names if name not in keys)

        def other(name: str | None) -> str | None:
            return None if name in keys else name

        ignored = rest(options.ignore)
        if self._is_json:  # some lines may have such a member, although the first one lacks it
            single = [self._target, self._weight, self._id]
            ignored = *options.ignore, *(key for key in single if key is not None)
        return replace(
            options, target=other(options.target), weight=other(options.weight),
            id=other(options.id), categorical=rest(options.categorical),
            numeric=rest(options.numeric), ignore=ignored, text=rest(options.text),
            positive=None if self._target is not None else options.positive,
            require_label=options.require_label and self._target is None, elsewhere=tuple(keys),
        )  # fmt: skip

    def added(self, block: Block) -> Block:
        """Return a block of a file with these columns.

        Raises
        ------
        Lost
            If an example has one of them, too.
        """
        constants = self._constants(block.name)
        n = len(block)
        changes: dict[str, Any] = {}
        if self._features:
            try:
                changes["x"] = _with_features(block.x, constants.x)
            except ValueError as error:
                raise Lost(
                    f"{block.name}: examples have {str(error)!r}, as its directory does; use "
                    f"{named_option('ignore')} to leave it out, or remove it from some of the files"
                ) from None
        if self._target is not None:
            changes["y"] = LabelTexts(np.zeros(n, np.int64), [constants.y])
        if self._weight is not None:
            changes["w"] = None if constants.w == 1.0 else np.full(n, constants.w)
        if self._id is not None:
            changes["ids"] = None if constants.id is None else [constants.id] * n
        return replace(block, **changes)

    def _constants(self, file: str) -> _Constants:
        if self._found is None or self._found[0] != file:
            self._found = file, self._read(file)
        return self._found[1]

    def _read(self, file: str) -> _Constants:
        values = self._values[file]
        x: dict[str, Any] = {}
        for key in self._features:
            text = values[key]
            if text is None or (self._is_csv and self._rules.is_missing(text)):
                x[key] = None
            elif key not in self._numbers:
                x[key] = text
            elif key in self._requested.numeric:
                x[key] = self._requested_number(file, key, text)
            else:
                x[key] = self._number(text)
        y, w, id = (None if key is None else values[key] for key in (
            self._target, self._weight, self._id
        ))  # fmt: skip
        try:
            weight = 1.0 if self._weight is None else self._rules.weight(w or "")
        except ValueError as error:
            raise SourceError(f"{file}: {error}") from None
        return _Constants(x, None if y is None else self._rules.label(y), weight, id)

    def _number(self, text: str) -> float | None:
        """Return the number in a value that is not missing; None if it is not a number."""
        try:
            if self._is_csv:
                return self._rules.number(text)
            return BOOLEANS[text] if text in BOOLEANS else read_number(text)
        except ValueError:
            return None

    def _requested_number(self, file: str, key: str, text: str) -> float | None:
        try:
            return self._rules.number(text) if self._is_csv else read_number_text(text)
        except ValueError:
            raise SourceError(
                f"{file}: {key!r} is {shown(text)}, not a number; leave it out of "
                f"{named_option('numeric')}"
            ) from None

    def _holds_numbers(self, key: str) -> bool:
        texts = {
            text
            for values in self._values.values()
            if (text := values[key]) is not None
            and not (self._is_csv and self._rules.is_missing(text))
        }
        are_numbers = all(self._number(text) is not None for text in texts)
        return bool(texts) and are_numbers and not are_codes(texts)


def _roles_of(keys: Collection[str], options: SourceOptions) -> RequestedRoles:
    """Return the roles that options give to keys."""

    def own(names: Any) -> Sequence[str]:
        return [name for name in dict.fromkeys(names or ()) if name in keys]

    def one(name: str | None) -> str | None:
        return name if name in keys else None

    return RequestedRoles(
        one(options.target), one(options.weight), own(options.categorical), own(options.text),
        own(options.ignore), one(options.id), own(options.numeric),
    )  # fmt: skip


def _with_features(x: Any, constants: dict[str, Any]) -> Any:
    """Return examples with further features; raise ValueError with the name of one they have."""
    if isinstance(x, NamedRows):
        return with_constants(x, constants)
    for example in x:
        for key, value in constants.items():
            if value is not None and example.get(key) is not None:
                raise ValueError(key)
    return [{**example, **constants} for example in x]
