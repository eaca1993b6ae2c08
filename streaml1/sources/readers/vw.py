"""Vowpal Wabbit's text format: ``label importance 'tag|namespace name:value name |other name``.

Regular lines are parsed by the kernel `streaml1.text.vw.parse_lines`, all others by `parse_vw`,
which defines the format.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import partial
from math import isfinite
from typing import Any

import numpy as np

from streaml1.core.named_options import named_option
from streaml1.sources.class_labels import MISSING_LABELS
from streaml1.sources.lazy_ids import LazyIds
from streaml1.sources.readers.named_lines import NamedLineParser
from streaml1.sources.readers.signatures import format_hint
from streaml1.sources.source import read_number, read_weight, shown
from streaml1.text import vw
from streaml1.text.parsed_rows import NamedRows
from streaml1.text.structural_index import PAD

__all__ = ["VwParser", "parse_vw"]

VwExample = (
    tuple[dict[str, Any], float | str | None, float]
    | tuple[dict[str, Any], float | str | None, float, str]
)
"""Features, label and importance, and the tag if there is one."""

_TAG_REMEDY = "if it is the tag, write an apostrophe before it"

BANDIT_LABELS = ("shared", "ccb", "slates")
"""Words in the place of the label that have a meaning of their own in Vowpal Wabbit."""


class VwParser(NamedLineParser):
    r"""Parse lines by a kernel, irregular ones by `parse_vw`.

    Parameters
    ----------
    require_label
        Whether lines without a label are rejected. Otherwise their label is None.
    what
        What contains the lines, for errors: a file, or a record.
    texts
        Namespaces that are raw text.

    Examples
    --------
    >>> from streaml1.sources.readers.vw import VwParser
    >>> parsed = VwParser().read(b"1 2 |a b c:0.5\n|a b\n0 | d\n")
    >>> list(parsed.x), parsed.y, parsed.w
    ([{'a^b': 1.0, 'a^c': 0.5}, {'d': 1.0}], array([1., 0.]), array([2., 1.]))
    >>> parsed.faults
    [(1, 'the line has no label: it must begin with one, as in 1 |name:value')]
    """

    kernel = staticmethod(vw.parse_lines)

    def __init__(
        self, require_label: bool = True, what: str = "file", texts: Collection[str] = ()
    ) -> None:
        raw = [name.encode("utf-8", "surrogatepass") for name in texts]
        # The kernel gets addresses, so these arrays must live as long as the parser.
        self._text_names = [np.frombuffer(name + bytes(PAD), np.uint8) for name in raw]
        addresses = [name.ctypes.data for name in self._text_names]
        self.texts = tuple(texts)
        self._n_tags = np.zeros(1, np.int64)
        self._text_spans = vw.Texts(
            np.array(addresses, np.uint64), np.array([*map(len, raw)], np.uint64)
        )
        super().__init__(partial(parse_vw, texts=texts), require_label, what)
        if texts:
            self.header = ()

    def _extra_arguments(self, n: int) -> tuple[Any, ...]:
        return self._text_spans, self._n_tags

    def _row_ids(self, x: NamedRows, ids: list[int | str | None] | None) -> Any:
        n_tags = int(self._n_tags[0])
        self._n_tags[0] = 0
        if not n_tags and ids is None:
            return None
        return LazyIds(
            lambda lo, hi: [_tag_of_line(x.line(row)) for row in range(lo, hi)], 0, len(x)
        )


def parse_vw(
    text: str, require_label: bool = True, texts: Collection[str] = ()
) -> VwExample | None:
    """Parse one line.

    Parameters
    ----------
    text
        The line. The feature `b` of the namespace `a` is named `a^b`, as in Vowpal Wabbit's own
        output; a feature of the namespace without a name, ``| b``, is named `b`. A feature without
        a value has the value 1, and ``color:red`` is the feature `color=red`. The value of a
        namespace multiplies its features. A feature that occurs twice counts with the sum. A label
        that is not a number is a string.
    require_label
        Whether a line without a label is rejected. Otherwise its label is None.
    texts
        Namespaces that are raw text up to the next bar: one string each.

    Returns
    -------
    The features, the label and the importance, and the tag without its quote if there is one; None
    for an empty line.

    Raises
    ------
    ValueError
        If the line is invalid; the text is one sentence.

    Examples
    --------
    >>> from streaml1.sources.readers.vw import parse_vw
    >>> parse_vw("-1 2.5 'first|site:0.5 news visits:3 | age:31")
    ({'site^news': 0.5, 'site^visits': 1.5, 'age': 31.0}, -1.0, 2.5, 'first')
    >>> parse_vw("1 |mail Re: cheap pills! |site news", texts=["mail"])
    ({'mail': 'Re: cheap pills! ', 'site^news': 1.0}, 1.0, 1.0)
    """
    text = text.rstrip("\r\n")
    if not text.strip(" \t"):
        return None
    head, bar, rest = text.partition("|")
    if not bar:
        hint = format_hint(text, "vw")
        raise ValueError(f"{shown(text)} has no bar: it must be label |name:value name:value{hint}")
    label, weight = _parse_head(head, require_label)
    x: dict[str, Any] = {}
    for namespace in rest.split("|"):
        if not _add_text(namespace, x, texts):
            _add_features(namespace, x, texts)
    tag = _tag(head)
    return (x, label, weight) if tag is None else (x, label, weight, tag)


def _tag(head: str) -> str | None:
    """Return the tag, without its quote, in the text before the first bar; None if it has none."""
    tokens = _tokens(head)
    if not tokens or not _is_tag(tokens[-1], head):
        return None
    return tokens[-1].removeprefix("'") or None


def _tag_of_line(line: bytes) -> str | None:
    return _tag(line.decode().partition("|")[0])


def _is_tag(token: str, head: str) -> bool:
    """Return whether the last token before the bar is a tag."""
    return token.startswith("'") or head.endswith(token)


def _parse_head(head: str, require_label: bool) -> tuple[float | str | None, float]:
    """Return label and importance, given the text before the first bar."""
    tokens = _tokens(head)
    tag = None
    if tokens and _is_tag(tokens[-1], head):
        tag = tokens.pop()
    if not tokens:
        if not require_label:
            return None, 1.0
        if tag is None or tag.startswith("'"):
            raise ValueError("the line has no label: it must begin with one, as in 1 |name:value")
        raise ValueError(
            f"the line has no label: {shown(tag)} is read as its tag, because no blank separates "
            "it from the bar"
        )
    label = _label(tokens[0])
    _check_words(tokens, head)
    if len(tokens) > 2:
        if len(tokens) == 3 and tokens[2][0].isalpha():
            raise ValueError(
                f"{shown(tokens[2])} before the bar is not a number: {_TAG_REMEDY}, or put a bar "
                "before the features"
            )
        if len(tokens) == 3:
            raise ValueError(
                f"{shown(tokens[2])} before the bar is an initial prediction: only label, "
                "importance and tag are supported; remove it, or make it a feature and use "
                f"{named_option('offset')}"
            )
        raise ValueError(
            f"{shown(tokens[2])} before the bar is unexpected: only label, importance and tag are "
            "supported; put a bar before the features"
        )
    return label, _importance(tokens[1]) if len(tokens) == 2 else 1.0


def _check_words(tokens: list[str], head: str) -> None:
    """Reject words before the bar that Vowpal Wabbit reads in another way.

    Parameters
    ----------
    tokens
        The words without the tag, at least one.
    head
        The text before the first bar.
    """
    for token in tokens:
        if token.startswith("'"):
            raise ValueError(
                f"{shown(token)} before the bar begins as a tag does, and is not the last word: a "
                "tag has no blanks, and follows label and importance"
            )
    if len(tokens) > 1:
        first, second = tokens[:2]
        after = head.lstrip(" \t")[len(first) :]
        if "\t" in after[: len(after) - len(after.lstrip(" \t"))]:
            raise ValueError(
                f"a tab separates {shown(first)} from {shown(second)} before the bar, and vw reads "
                f"the label after a tab: write a space, or remove {shown(first)}"
            )


def _importance(token: str) -> float:
    try:
        return read_weight(token)
    except ValueError as error:
        if not token[0].isalpha() or token.lower() in ("nan", "inf", "infinity"):
            raise
        raise ValueError(f"{error}; {_TAG_REMEDY}") from None


def _label(token: str) -> float | str:
    if ":" in token:
        raise ValueError(
            f"label {shown(token)} has a colon: labels with costs or probabilities are not "
            "supported; write one line for each label, as in 1 |name:value"
        )
    if "," in token:
        raise ValueError(
            f"label {shown(token)} has a comma: several labels are not supported; write one line "
            "for each label"
        )
    if token in BANDIT_LABELS:
        raise ValueError(
            f"label {shown(token)} marks a line of contextual bandits, which are not supported; "
            "add its features to the lines of the actions"
        )
    try:
        return read_number(token)
    except ValueError as error:
        if str(error) == "is not finite":
            raise ValueError(f"label: {shown(token)} {error}") from None
        return token


def _add_text(namespace: str, x: dict[str, Any], texts: Collection[str]) -> bool:
    """Add a namespace, given without its bar, if it is raw text; return whether it is."""
    name = namespace.replace("\t", " ").partition(" ")[0]
    if not name or name.partition(":")[0] not in texts:
        return False
    if ":" in name:
        raise ValueError(f"namespace {shown(name)} is raw text and cannot have a value; remove it")
    text = namespace[len(name) + 1 :]
    x[name] = f"{x[name]} {text}" if name in x else text
    return True


def _add_features(namespace: str, x: dict[str, Any], texts: Collection[str]) -> None:
    """Add the features of a namespace, given without its bar."""
    tokens = _tokens(namespace)
    prefix, scale = "", 1.0
    if tokens and namespace.startswith(tokens[0]):
        name, colon, value = tokens.pop(0).partition(":")
        if not name:
            raise ValueError(f"':{value}' after the bar has no name: it must be namespace:value")
        prefix = f"{name}^"
        scale = _scale(value, name) if colon else 1.0
    for token in tokens:
        name, colon, value = token.partition(":")
        if not name:
            raise ValueError(f"{shown(token)} has no name: it must be name:value")
        name = prefix + name
        if colon and _is_category(value):
            name, colon = f"{name}={value}", ""
        if not prefix and name.partition("=")[0] in texts:
            text = shown(name.partition("=")[0])
            raise ValueError(
                f"feature {shown(name)} has the name of the raw text {text} or of its n-grams; "
                "rename it"
            )
        v = _value(name, value, prefix) * scale if colon else scale
        v += x.get(name, 0.0)
        if not isfinite(v):
            raise ValueError(f"the value of feature {shown(name)} overflows to infinity")
        x[name] = v


def _is_category(value: str) -> bool:
    """Return whether the text after a colon is a category, as `red` in `color:red`.

    It is if it begins with a letter. Anything else is more likely a damaged number, a time or an
    address, whose colon was not meant to separate a name from a value.
    """
    if not value[:1].isalpha() or ":" in value:
        return False
    return value not in MISSING_LABELS and value.lower() not in ("nan", "inf", "infinity")


def _value(name: str, text: str, prefix: str) -> float:
    """Return the value of a feature; raise ValueError if it is not a finite number.

    The name begins with the prefix, which a feature in a line has not.
    """
    try:
        return read_number(text)
    except ValueError as error:
        reason = str(error)
    if not text:
        remedy = "write its value after the colon, or remove the colon"
    elif ":" in text or text.startswith("//"):
        remedy = "colons separate names from values; write %3A for those in names"
    elif reason == "is not finite" or text in MISSING_LABELS:
        remedy = "leave the feature out if its value is missing"
    else:
        remedy = f"write {name.removeprefix(prefix)}={text} if it is a category"
    raise ValueError(f"feature {shown(name)}: {shown(text)} {reason}: {remedy}")


def _tokens(text: str) -> list[str]:
    """Split a text at spaces and tabs only; other white space belongs to names."""
    return [token for token in text.replace("\t", " ").split(" ") if token]


def _scale(text: str, name: str) -> float:
    """Return the value of a namespace, which multiplies its features."""
    try:
        return read_number(text)
    except ValueError as error:
        raise ValueError(
            f"namespace {shown(name)}: {shown(text)} {error}: remove it with its colon, or write a "
            "blank after the bar if this is a feature"
        ) from None
