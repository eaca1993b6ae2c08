"""Functions of Python's standard library: real data that needs no download."""

from __future__ import annotations

import ast
import functools
import random
import re
import sys
import sysconfig
import tokenize
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from streaml1.sources.source import (
    DATA_SETS,
    SOURCES,
    Block,
    Numbered,
    Reject,
    SourceError,
    blocks_of,
)

__all__ = ["Stdlib", "stdlib"]

LabelledFunction = tuple[tuple[str, ...], bool]
"""The distinct features of a function, and whether it has a docstring."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

# Some systems package these separately. Without them all machines read the same modules.
EXCLUDED = {"idlelib", "tkinter", "turtledemo", "lib2to3", "distutils", "ensurepip"}
EXCLUDED |= {"test", "tests", "site-packages"}

# Strings are matched first, so that a "#" inside a string does not start a comment.
STRING = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
)
COMMENT = re.compile(rf"({STRING})|#[^\n]*", re.DOTALL)

# `_getItem` gives "_", "get", "Item": leading underscores mark private names.
TOKEN = re.compile(r"(?<!\w)_+|[A-Z]?[a-z]+|[A-Z]+(?![a-z])", re.ASCII)


class Stdlib(Numbered):
    """The functions of Python's standard library; the label says if one has a docstring.

    An example is a function or method, including the functions inside it. Its features are the
    unigrams ("open") and bigrams ("with open") of its code in lower case, each with the value 1.0.
    Docstrings and comments are removed first.

    Parameters
    ----------
    seed
        Seed of the shuffle.
    root
        Directory of the library; by default that of the running Python.

    Notes
    -----
    The files are read on the first iteration and then kept in memory, for all seeds. Files that
    cannot be decoded or parsed are skipped.
    """

    name = "stdlib"

    def __init__(self, seed: int = 0, root: Path | None = None) -> None:
        self.seed = seed
        self.root = Path(sysconfig.get_path("stdlib")) if root is None else root

    def __repr__(self) -> str:
        """Return the call that makes it."""
        return f"stdlib(seed={self.seed})"

    def __len__(self) -> int:
        """Return the number of examples."""
        return len(self._shuffled)

    def __iter__(self) -> Iterator[tuple[dict[str, float], bool]]:
        """Yield (x, y), like the streams of river."""
        for features, label in self._shuffled:
            yield dict.fromkeys(features, 1.0), label

    def blocks(self, size: int, reject: Reject) -> Iterator[Block]:
        """Yield blocks of at most `size` examples; no example is ever rejected."""
        return blocks_of(self.numbered(self), self.name, size)

    def identity(self) -> dict[str, Any]:
        """Return what a resumed run compares before it trusts a position."""
        return {"source": self.name, "seed": self.seed, "examples": len(self)}

    @functools.cached_property
    def _shuffled(self) -> list[LabelledFunction]:
        examples = list(_read(self.root))
        random.Random(self.seed).shuffle(examples)
        return examples


def stdlib(seed: int = 0) -> Stdlib:
    """Return the functions of Python's standard library, shuffled.

    Parameters
    ----------
    seed
        Seed of the shuffle.

    Returns
    -------
    Stdlib
        More than 12,000 examples with about 50 features each; the label says if the function has a
        docstring. Their number and their text depend on the version of Python.

    Examples
    --------
    >>> from streaml1.datasets import stdlib
    >>> data = stdlib(seed=1)
    >>> len(data) > 12_000
    True
    >>> x, y = next(iter(data))
    >>> x["def"], y in (False, True)
    (1.0, True)
    """
    return Stdlib(seed)


def _open(spec: str, seed: int) -> Stdlib:
    if spec != Stdlib.name:
        raise SourceError(f"stdlib takes no parameters, got {spec}; write only stdlib")
    return stdlib(seed)


SOURCES[Stdlib.name] = _open
DATA_SETS[Stdlib.name] = Stdlib.name


@functools.lru_cache(maxsize=1)
def _read(root: Path) -> tuple[LabelledFunction, ...]:
    """Read all examples below `root`, in the order of the file names."""
    interned: dict[str, str] = {}  # one copy of each feature name
    examples = tuple(
        (tuple(interned.setdefault(feature, feature) for feature in _features(code)), documented)
        for path in _files(root)
        for code, documented in _functions(path)
    )
    if not examples:
        raise SourceError(
            f"{root} holds no source files of Python's standard library; run stdlib with a Python "
            "that has them"
        )
    return examples


def _files(root: Path) -> list[Path]:
    """List the source files of the modules in `sys.stdlib_module_names`."""
    tops = [root / name for name in sys.stdlib_module_names - EXCLUDED]
    candidates = [path for top in tops for path in (top.with_suffix(".py"), *top.rglob("*.py"))]
    return sorted(
        (
            path
            for path in candidates
            if path.is_file() and EXCLUDED.isdisjoint(_relative_parts(path, root))
        ),
        key=lambda path: _relative_parts(path, root),
    )


def _relative_parts(path: Path, root: Path) -> tuple[str, ...]:
    return path.relative_to(root).parts


def _functions(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the code of each outermost function, without docstrings and comments, and its label."""
    try:
        with tokenize.open(path) as file, warnings.catch_warnings(action="ignore"):
            text = file.read()
            tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    # ast counts columns in bytes of UTF-8. Decoding as latin-1 makes each byte one character.
    text = text.encode().decode("latin-1")
    starts = [0, *(newline.end() for newline in re.finditer("\n", text))]
    for function in _outermost(tree.body):
        documented = ast.get_docstring(function, clean=False) is not None
        yield COMMENT.sub(r"\1", _without_strings(function, text, starts)), documented


def _outermost(block: list[ast.stmt]) -> Iterator[Function]:
    """Yield the functions and methods that are not inside another function."""
    for statement in block:
        if isinstance(statement, Function):
            yield statement
        else:
            for inner in _blocks(statement):
                yield from _outermost(inner)


def _without_strings(function: Function, text: str, starts: list[int]) -> str:
    """Remove docstrings from a function, and all other strings that are statements.

    A block of nothing else becomes `pass`: an empty block would reveal that there was a docstring.
    """
    first = function.decorator_list[0] if function.decorator_list else function
    position = starts[first.lineno - 1] + first.col_offset
    pieces = []
    for string, replacement in _bare_strings(function):
        pieces += [text[position : starts[string.lineno - 1] + string.col_offset], replacement]
        position = _end(string, starts)
    return "".join([*pieces, text[position : _end(function, starts)]])


def _end(node: ast.stmt, starts: list[int]) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.end_lineno - 1] + node.end_col_offset


def _bare_strings(statement: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the strings that are statements, in order, with their replacements."""
    for block in _blocks(statement):
        replacement = "pass" if all(map(_is_bare_string, block)) else ""
        for inner in block:
            if _is_bare_string(inner):
                yield inner, replacement
                replacement = ""
            else:
                yield from _bare_strings(inner)


def _is_bare_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks directly inside a statement, in the order of the source."""
    yield getattr(statement, "body", [])
    for clause in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield clause.body
    yield getattr(statement, "orelse", [])
    yield getattr(statement, "finalbody", [])


def _features(code: str) -> dict[str, None]:
    """Return the distinct unigrams of the code, then the distinct bigrams, in order."""
    tokens = " ".join(TOKEN.findall(code)).lower().split(" ")
    bigrams = map(" ".join, zip(tokens, tokens[1:], strict=False))
    return dict.fromkeys([*tokens, *bigrams])
