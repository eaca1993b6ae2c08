"""How errors and warnings name options: as the command line does, or as keywords of Python.

A remedy such as ``--ignore a,b`` is of no use to a program, which passes ``ignore=["a", "b"]``. The
command line declares itself by `command_line_options`; any other caller is a program.
"""

from __future__ import annotations

import csv
import io
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import wraps
from typing import Any

__all__ = [
    "by_caller",
    "command_line_flags",
    "command_line_options",
    "flag_of",
    "list_of",
    "named_option",
    "named_options",
    "option_name",
    "set_command_line_flags",
    "with_flags_of_caller",
]


class _Caller:
    """The caller of this process."""

    flags: Mapping[str, str] | None = None
    """The options of the command line by the names of keywords; None if the caller is a program."""


@contextmanager
def command_line_options(flags: Mapping[str, str]) -> Iterator[None]:
    """Name options in errors as the command line does.

    Parameters
    ----------
    flags
        Options by the names of keywords. Others are derived from the name: ``--until-end`` from
        ``until_end``.

    Examples
    --------
    >>> from streaml1.core.named_options import command_line_options, named_option
    >>> with command_line_options({"start": "--from"}):
    ...     named_option("start", "latest"), named_option("until_end", True)
    ('--from latest', '--until-end')
    """
    before, _Caller.flags = _Caller.flags, flags
    try:
        yield
    finally:
        _Caller.flags = before


def command_line_flags() -> Mapping[str, str] | None:
    """Return the flags of `command_line_options`, for worker processes; None in programs."""
    return _Caller.flags


def set_command_line_flags(flags: Mapping[str, str] | None) -> None:
    """Name options as the process that has started this one does."""
    _Caller.flags = flags


def with_flags_of_caller(task: Callable[..., Any]) -> Callable[..., Any]:
    """Return a task that names options as this process does, wherever it runs."""
    flags = _Caller.flags
    if flags is None:
        return task

    @wraps(task)
    def run(*args: Any) -> Any:
        with command_line_options(flags):
            return task(*args)

    return run


def by_caller(command_line: str, python: str) -> str:
    """Return the words for the caller, where more than the name of an option differs."""
    return python if _Caller.flags is None else command_line


def named_option(name: str, *values: Any) -> str:
    """Return an option with its value as the caller writes it.

    Parameters
    ----------
    name
        Name of the keyword. ``kafka.user`` is the key `user` of the dict `kafka`.
    values
        Its value; several are alternatives, and without any the option is only mentioned. In a
        list, ``...`` stands for further names.

    Examples
    --------
    >>> from streaml1.core.named_options import command_line_options, named_option
    >>> given = ("ignore", ["a", "b c"]), ("header", False), ("format", "csv", "vw"), ("at",)
    >>> print(*(named_option(*option) for option in given), sep="; ")
    ignore=["a", "b c"]; header=False; format="csv" or "vw"; at=
    >>> with command_line_options({}):
    ...     print(*(named_option(*option) for option in given), sep="; ")
    --ignore 'a,b c'; --no-header; --format csv or vw; --at
    >>> with command_line_options({}):
    ...     named_option("passes", 1)
    '--passes 1'
    >>> named_option("kafka.user"), named_option("column_names", ["NAME", ...])
    ('kafka={"user": ...}', 'column_names=["NAME", ...]')
    """
    if _Caller.flags is not None:
        flag = flag_of(name)
        if len(values) == 1 and isinstance(values[0], bool):  # 1 == True, but 1 is not a switch
            return flag if values[0] else flag.replace("--", "--no-", 1)
        return f"{flag} {_alternatives(map(_shell_word, values))}" if values else flag
    keyword, _, key = name.partition(".")
    literals = _alternatives(map(_literal, values))
    return f'{keyword}={{"{key}": {literals or "..."}}}' if key else f"{keyword}={literals}"


def named_options(given: Mapping[str, Any]) -> str:
    """Return options with their values, as the caller writes them one after the other.

    Examples
    --------
    >>> from streaml1.core.named_options import named_options
    >>> named_options({"format": "csv", "delimiter": ";"})
    'format="csv", delimiter=";"'
    """
    listed = [named_option(name, value) for name, value in given.items()]
    return (", " if _Caller.flags is None else " ").join(listed)


def flag_of(name: str) -> str:
    """Return the option of the command line for a keyword."""
    derived = f"--{name.replace('_', '-').replace('.', '-')}"
    return (_Caller.flags or {}).get(name, derived)


def option_name(name: str) -> str:
    """Return the name of an option as the caller knows it: ``--hash-bits`` or ``hash_bits``."""
    return name if _Caller.flags is None else flag_of(name)


def list_of(names: Iterable[str]) -> str:
    """Return names as an option lists them: those with commas or quotes are quoted.

    Examples
    --------
    >>> from streaml1.core.named_options import list_of
    >>> list_of(["site", "price, net"])
    'site,"price, net"'
    """
    out = io.StringIO()
    csv.writer(out, lineterminator="").writerow(list(names))
    return out.getvalue()


def _alternatives(words: Iterable[str]) -> str:
    *first, last = [*words] or [""]
    return f"{', '.join(first)} or {last}" if first else last


def _shell_word(value: Any) -> str:
    if isinstance(value, list):
        value = list_of("..." if name is ... else name for name in value)
    return shlex.quote(str(value))


def _literal(value: Any) -> str:
    if isinstance(value, list):
        return f"[{', '.join('...' if name is ... else _literal(name) for name in value)}]"
    if isinstance(value, str) and '"' not in value:
        return '"' + repr(f"'{value}")[2:]  # with an apostrophe in it, repr has double quotes
    return repr(value)
