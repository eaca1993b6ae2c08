"""Vowpal Wabbit's text: ``label importance 'tag|namespace name:value name |other name``."""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from streaml1.sources.readers.named_lines import NamedParser
from streaml1.sources.source import read_number, read_weight, shown
from streaml1.text import vw
from streaml1.text.structural_index import PAD

__all__ = ["VwParser", "parse_vw"]


def parse_vw(
    text: str, require_label: bool = True, texts: Collection[str] = ()
) -> tuple[dict[str, Any], float | str | None, float] | None:
    """Read one line.

    Parameters
    ----------
    text
        The line. The feature `b` of the namespace `a` is named `a^b`, as Vowpal Wabbit tells it;
        one of the namespace without a name, `| b`, is named `b`. A feature without a value counts
        1, times the namespace's own value; one that comes twice counts with the sum. The tag is
        left out. A label that is no number is a text.
    require_label
        Whether a line without a label is refused; else its label is None.
    texts
        Namespaces that are raw text, up to the next bar: a string each.

    Returns
    -------
    The features, the label and the importance, or None for an empty line.

    Raises
    ------
    ValueError
        One sentence that says what is wrong with the line.

    Examples
    --------
    >>> from streaml1.sources.readers.vw import parse_vw
    >>> parse_vw("-1 2.5 'first|site:0.5 news visits:3 | age:31")
    ({'site^news': 0.5, 'site^visits': 1.5, 'age': 31.0}, -1.0, 2.5)
    >>> parse_vw("1 |mail Re: cheap pills! |site news", texts=["mail"])
    ({'mail': 'Re: cheap pills! ', 'site^news': 1.0}, 1.0, 1.0)

    """
    text = text.rstrip("\r\n")
    if not text.strip(" \t"):
        return None
    head, bar, rest = text.partition("|")
    if not bar:
        raise ValueError(f"{shown(text)} has no bar: it must be label |name:value name:value")
    label, weight = _head(head, require_label)
    x: dict[str, Any] = {}
    for namespace in rest.split("|"):
        if not _read_text(namespace, x, texts):
            _read(namespace, x, texts)
    return x, label, weight


class VwParser(NamedParser):
    r"""Reads lines by a kernel; those that are out of the ordinary by `parse_vw`.

    Examples
    --------
    >>> from streaml1.sources.readers.vw import VwParser
    >>> parsed = VwParser().read(b"1 2 |a b c:0.5\n|a b\n0 | d\n")
    >>> list(parsed.x), parsed.y, parsed.w
    ([{'a^b': 1.0, 'a^c': 0.5}, {'d': 1.0}], array([1., 0.]), array([2., 1.]))
    >>> parsed.faults
    [(1, 'the line has no label: it must begin with one, as in 1 |name:value')]

    """

    kernel = staticmethod(vw.rows)

    def __init__(
        self, require_label: bool = True, what: str = "file", texts: Collection[str] = ()
    ) -> None:
        super().__init__(partial(parse_vw, texts=texts), require_label, what)
        raw = [name.encode("utf-8", "surrogatepass") for name in texts]
        self._names = [np.frombuffer(one + bytes(PAD), np.uint8) for one in raw]
        at = [one.ctypes.data for one in self._names]
        self.texts = tuple(texts)
        self._texts = np.array(at, np.uint64), np.array([*map(len, raw)], np.uint64)
        if texts:
            self.header = ()

    def _more(self, n: int) -> tuple[Any, ...]:
        return self._texts


def _head(head: str, require_label: bool) -> tuple[float | str | None, float]:
    """Label and importance: what stands before the first bar, without the tag."""
    words = _words(head)
    tag = None
    if words and (words[-1].startswith("'") or head.endswith(words[-1])):
        tag = words.pop()
    if not words:
        if not require_label:
            return None, 1.0
        if tag is None or tag.startswith("'"):
            raise ValueError("the line has no label: it must begin with one, as in 1 |name:value")
        raise ValueError(
            f"the line has no label: {shown(tag)} is its tag, for want of a blank before the bar"
        )
    if len(words) > 2:
        what = "an initial prediction" if len(words) == 3 else "too much"
        raise ValueError(
            f"{shown(words[2])} before the bar is {what}: only label, importance and tag are read"
        )
    return _label(words[0]), read_weight(words[1]) if len(words) == 2 else 1.0


def _label(word: str) -> float | str:
    if ":" in word:
        raise ValueError(
            f"label {shown(word)} has a colon: labels with costs or probabilities are not read"
        )
    try:
        return read_number(word)
    except ValueError as error:
        if str(error) == "is not finite":
            raise ValueError(f"label: {shown(word)} {error}") from None
        return word


def _read_text(namespace: str, x: dict[str, Any], texts: Collection[str]) -> bool:
    """Add a namespace that is raw text, given without its bar; whether it is."""
    name = namespace.replace("\t", " ").partition(" ")[0]
    if not name or name.partition(":")[0] not in texts:
        return False
    if ":" in name:
        raise ValueError(
            f"namespace {shown(name)} has a value, but it is text: leave the value out"
        )
    text = namespace[len(name) + 1 :]
    x[name] = f"{x[name]} {text}" if name in x else text
    return True


def _read(namespace: str, x: dict[str, Any], texts: Collection[str]) -> None:
    """Add the features of a namespace, given without its bar."""
    words = _words(namespace)
    before, scale = "", 1.0
    if words and namespace.startswith(words[0]):
        name, colon, value = words.pop(0).partition(":")
        if not name:
            raise ValueError(f"':{value}' after the bar has no name: it must be namespace:value")
        before = f"{name}^"
        scale = _number(value, f"namespace {shown(name)}") if colon else 1.0
    for word in words:
        name, colon, value = word.partition(":")
        if not name:
            raise ValueError(f"{shown(word)} has no name: it must be name:value")
        name = before + name
        if not before and name.partition("=")[0] in texts:
            raise ValueError(
                f"feature {shown(name)} is named as the text {shown(name.partition('=')[0])} or "
                "its words: give it another name"
            )
        v = _number(value, f"feature {shown(name)}") * scale if colon else scale
        v += x.get(name, 0.0)
        if not isfinite(v):
            raise ValueError(f"the value of feature {shown(name)} comes to infinity")
        x[name] = v


def _words(text: str) -> list[str]:
    return [word for word in text.replace("\t", " ").split(" ") if word]


def _number(text: str, what: str) -> float:
    try:
        return read_number(text)
    except ValueError as error:
        raise ValueError(f"{what}: {shown(text)} {error}") from None
