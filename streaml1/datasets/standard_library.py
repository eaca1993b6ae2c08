"""Real text that needs no download: the source code of Python's own standard library."""

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

from streaml1.sources.source import SOURCES, Block, Numbered, Refuse, SourceError, blocks_of

__all__ = ["Stdlib", "stdlib"]

Labelled = tuple[tuple[str, ...], bool]
"""The distinct features of one function, and whether it has a docstring."""

Function = ast.FunctionDef | ast.AsyncFunctionDef

# Systems package these apart from the rest: left out, all machines read the same.
LEFT_OUT = {"idlelib", "tkinter", "turtledemo", "lib2to3", "distutils", "ensurepip"}
LEFT_OUT |= {"test", "tests", "site-packages"}

# The string alternatives come first, so that a "#" inside a string starts no comment.
STRING = (
    r'"""[^"\\]*(?:(?:\\.|"(?!""))[^"\\]*)*"""'
    r"|'''[^'\\]*(?:(?:\\.|'(?!''))[^'\\]*)*'''"
    r'|"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    r"|'[^'\\\n]*(?:\\.[^'\\\n]*)*'"
)
COMMENT = re.compile(rf"({STRING})|#[^\n]*", re.DOTALL)

# `_getItem` is read as "_", "get", "Item": leading underscores say who may call it.
WORD = re.compile(r"(?<!\w)_+|[A-Z]?[a-z]+|[A-Z]+(?![a-z])", re.ASCII)


class Stdlib(Numbered):
    """The functions of Python's standard library, and which of them have a docstring.

    One example is one function or method, with the functions inside it. Its features are the words
    of its code, in lower case ("open"), and the pairs of neighbouring words ("with open"), each
    with the value 1.0. The label is True where the function has a docstring. Docstrings and
    comments are taken out before the words are read.

    Parameters
    ----------
    seed
        The examples are shuffled by it.
    root
        The folder of the library; that of the running Python by default.

    Notes
    -----
    The files are read when the first example is asked for; further passes, and further seeds, come
    from memory. Files that cannot be decoded or parsed are left out.

    """

    name = "stdlib"

    def __init__(self, seed: int = 0, root: Path | None = None) -> None:
        self.seed = seed
        self.root = Path(sysconfig.get_path("stdlib")) if root is None else root

    def __repr__(self) -> str:
        """Show how to make it again."""
        return f"stdlib(seed={self.seed})"

    def __len__(self) -> int:
        """How many examples there are."""
        return len(self._shuffled)

    def __iter__(self) -> Iterator[tuple[dict[str, float], bool]]:
        """Yield (x, y), as river's streams do."""
        for words, label in self._shuffled:
            yield dict.fromkeys(words, 1.0), label

    def blocks(self, size: int, refuse: Refuse) -> Iterator[Block]:
        """Read from the start, at most `size` examples at a time; none is ever refused."""
        return blocks_of(self.numbered(self), self.name, size)

    def identity(self) -> dict[str, Any]:
        """What must be the same, by name, for a position to mean the same."""
        return {"source": self.name, "seed": self.seed, "examples": len(self)}

    @functools.cached_property
    def _shuffled(self) -> list[Labelled]:
        examples = list(_read(self.root))
        random.Random(self.seed).shuffle(examples)
        return examples


def stdlib(seed: int = 0) -> Stdlib:
    """Return the functions of Python's standard library, shuffled, as a source of examples.

    Parameters
    ----------
    seed
        The examples are shuffled by it.

    Returns
    -------
    Stdlib
        More than 12,000 examples of about 50 features each; the label says whether the function
        has a docstring. How many they are, and their text, depends on the version of Python.

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
        raise SourceError(f"{spec} is no source: stdlib has no parts, so write only stdlib")
    return stdlib(seed)


SOURCES[Stdlib.name] = _open


@functools.lru_cache(maxsize=1)
def _read(root: Path) -> tuple[Labelled, ...]:
    """Read every example below `root`, in the order of the files' names."""
    kept: dict[str, str] = {}  # one copy of each name, however many functions use it
    examples = tuple(
        (tuple(kept.setdefault(feature, feature) for feature in _features(code)), documented)
        for path in _files(root)
        for code, documented in _functions(path)
    )
    if not examples:
        raise SourceError(
            f"{root} holds no source files of Python's standard library: stdlib reads these, "
            f"so run it with a Python that has them"
        )
    return examples


def _files(root: Path) -> list[Path]:
    """List the source files of the modules that Python itself names as its own."""
    tops = [root / name for name in sys.stdlib_module_names - LEFT_OUT]
    found = [path for top in tops for path in (top.with_suffix(".py"), *top.rglob("*.py"))]
    return sorted(
        (path for path in found if path.is_file() and LEFT_OUT.isdisjoint(_parts(path, root))),
        key=lambda path: _parts(path, root),
    )


def _parts(path: Path, root: Path) -> tuple[str, ...]:
    return path.relative_to(root).parts


def _functions(path: Path) -> Iterator[tuple[str, bool]]:
    """Yield the bare code of each outermost function of a file, and whether it has a docstring."""
    try:
        with tokenize.open(path) as file, warnings.catch_warnings(action="ignore"):
            text = file.read()
            tree = ast.parse(text)
    except (OSError, SyntaxError, ValueError, RecursionError):
        return
    # ast counts columns in bytes of UTF-8: here every byte becomes one character.
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
    """Cut out the docstrings in a function, and every other string that is a statement.

    A block of nothing else becomes `pass`: an empty block would tell of the docstring.
    """
    first = function.decorator_list[0] if function.decorator_list else function
    position = starts[first.lineno - 1] + first.col_offset
    kept = []
    for string, instead in _bare_strings(function):
        kept += [text[position : starts[string.lineno - 1] + string.col_offset], instead]
        position = _end(string, starts)
    return "".join([*kept, text[position : _end(function, starts)]])


def _end(node: ast.stmt, starts: list[int]) -> int:
    assert node.end_lineno is not None and node.end_col_offset is not None
    return starts[node.end_lineno - 1] + node.end_col_offset


def _bare_strings(statement: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    """Yield the strings that stand as statements, in order, and what to put in their place."""
    for block in _blocks(statement):
        instead = "pass" if all(map(_is_bare_string, block)) else ""
        for inner in block:
            if _is_bare_string(inner):
                yield inner, instead
                instead = ""
            else:
                yield from _bare_strings(inner)


def _is_bare_string(statement: ast.stmt) -> bool:
    return (
        isinstance(statement, ast.Expr)
        and isinstance(statement.value, ast.Constant)
        and isinstance(statement.value.value, str)
    )


def _blocks(statement: ast.stmt) -> Iterator[list[ast.stmt]]:
    """Yield the blocks of statements right inside a statement, in the order of the source."""
    yield getattr(statement, "body", [])
    for part in (*getattr(statement, "handlers", ()), *getattr(statement, "cases", ())):
        yield part.body
    yield getattr(statement, "orelse", [])
    yield getattr(statement, "finalbody", [])


def _features(code: str) -> dict[str, None]:
    """Return the distinct words of the code, then the distinct pairs, in order."""
    words = " ".join(WORD.findall(code)).lower().split(" ")
    pairs = map(" ".join, zip(words, words[1:], strict=False))
    return dict.fromkeys([*words, *pairs])
