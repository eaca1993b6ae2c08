"""Dataclass fields that carry their documentation and their check.

A frozen dataclass of such fields is the single place where an option is described: its name, type,
default, sentence and check. Docstrings of functions that take the options are generated from it.
"""

from __future__ import annotations

import difflib
import textwrap
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, field, fields, is_dataclass
from typing import Any, TypeVar

from streaml1.core.other_names import counterpart

__all__ = [
    "Check",
    "document_options",
    "option",
    "option_names",
    "parameter_entries",
    "unexpected_option",
    "validate_options",
]

Check = Callable[[str, Any], object]
"""Called with the name and the value of an option; raises `ValueError` or `TypeError`."""

Documented = TypeVar("Documented")

PLACEHOLDER = "{options}"

WIDTH = 88
"""Columns of the text of a generated entry."""


def option(
    default: Any,
    doc: str,
    *,
    check: Check | None = None,
    convert: Callable[[Any], Any] | None = None,
    internal: bool = False,
) -> Any:
    """Declare a field of a dataclass of options.

    Parameters
    ----------
    default
        Value if the option is not given.
    doc
        Description for the Parameters section, one or two sentences.
    check
        Validates a value. It is not called for None if None is the default.
    convert
        Maps a value to the one that is stored, before the check.
    internal
        True if the library sets the option itself; `option_names` leaves it out.
    """
    return field(
        default=default,
        metadata={"doc": doc, "check": check, "convert": convert, "internal": internal},
    )


def validate_options(options: Any) -> None:
    """Convert and check all fields; call it in `__post_init__`."""
    for field_ in fields(options):
        value = getattr(options, field_.name)
        if value is None and field_.default is None:
            continue
        convert, check = field_.metadata.get("convert"), field_.metadata.get("check")
        if convert is not None:
            value = convert(value)
            object.__setattr__(options, field_.name, value)
        if check is not None:
            check(field_.name, value)


def option_names(kind: type, internal: bool = False) -> list[str]:
    """Return the names of the fields of a dataclass of options.

    Parameters
    ----------
    kind
        The dataclass.
    internal
        Whether to include fields that only the library sets.
    """
    return [
        field_.name for field_ in fields(kind) if internal or not field_.metadata.get("internal")
    ]


def unexpected_option(caller: str, name: str, known: Iterable[str]) -> TypeError:
    """Return the error for an unknown keyword; it names the similar one, or all that are known.

    Examples
    --------
    >>> unexpected_option("progressive", "evry", ["every", "limit"])
    TypeError("progressive() got an unexpected keyword argument 'evry'; did you mean 'every'?")
    >>> unexpected_option("train", "size", ["every", "limit"])
    TypeError("train() got an unexpected keyword argument 'size'; expected one of: every, limit")
    >>> unexpected_option("progressive", "nrows", ["every", "limit"])
    TypeError("progressive() got an unexpected keyword argument 'nrows'; did you mean 'limit'?")
    """
    known = list(known)
    usual = (counterpart(name) or "").partition(" ")[0].replace("-", "_")
    similar = [usual] if usual in known else difflib.get_close_matches(name, known, n=1)
    hint = f"did you mean {similar[0]!r}?" if similar else f"expected one of: {', '.join(known)}"
    return TypeError(f"{caller}() got an unexpected keyword argument {name!r}; {hint}")


def parameter_entries(kind: type, only: Iterable[str] | None = None) -> str:
    """Format fields as entries of a numpydoc Parameters section, without indentation."""
    names = option_names(kind) if only is None else list(only)
    by_name = {field_.name: field_ for field_ in fields(kind)}
    return "\n".join(_entry(by_name[name]) for name in names)


def _entry(field_: Field[Any]) -> str:
    kind = str(field_.type).replace(" | ", " or ")
    default = f", default {field_.default!r}"
    if field_.default is MISSING or is_dataclass(field_.default):
        default = ""
    doc = textwrap.indent(textwrap.fill(field_.metadata["doc"], WIDTH), "    ")
    return f"{field_.name} : {kind}{default}\n{doc}"


def document_options(*entries: str) -> Callable[[Documented], Documented]:
    """Replace the line ``{options}`` of a docstring by the given parameter entries."""

    def decorate(target: Documented) -> Documented:
        doc = target.__doc__
        if doc is not None:  # it is None under ``python -OO``
            lines: list[str] = []
            for line in doc.split("\n"):
                if line.strip() == PLACEHOLDER:
                    indent = line[: line.index(PLACEHOLDER)]
                    listed = "\n".join(entries).split("\n")
                    lines += [indent + text if text else text for text in listed]
                else:
                    lines.append(line)
            target.__doc__ = "\n".join(lines)
        return target

    return decorate
