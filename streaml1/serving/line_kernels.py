"""Bodies of many lines, or of an array, parsed by the kernels of files.

A process that has just started predicts without numba, which takes a second to load, and kernels
that were never compiled take a minute. So kernels are loaded in the background when the first body
needs them; until then lines are parsed in Python. No request waits for them.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from streaml1.core.types import Floats
from streaml1.serving.bodies import RequestError
from streaml1.sources.source import SourceError

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles
    from streaml1.sources.readers.parsed_lines import LineParser

__all__ = ["LineKernels"]

MIN_LINES = 8
"""Bodies of fewer lines are parsed as fast in Python."""

ARRAYS = "application/json"
"""The content type whose bodies may be arrays."""

KINDS = {
    ARRAYS: "jsonl",
    "application/x-ndjson": "jsonl",
    "application/jsonl": "jsonl",
    "text/vw": "vw",
    "text/svmlight": "svmlight",
}
"""Formats of lines by content type."""

_NEWLINE, _SPACE, _COMMA, _OPENING_BRACE, _CLOSING_BRACE = b"\n ,{}"


class _Needs(NamedTuple):
    """Kernels that a body needs: those that parse its lines, and those that predict."""

    kind: str
    texts: tuple[str, ...]
    predictor: Hashable


class LineKernels:
    """Parsers of lines, once they are loaded.

    Parameters
    ----------
    roles
        How members of JSON objects are read, see `json_requests.roles_of`.
    """

    def __init__(self, roles: JsonRoles | None = None) -> None:
        self._roles = roles
        self._parsers: dict[tuple[str, tuple[str, ...]], LineParser] = {}
        self._loading: threading.Thread | None = None  # the last one that was started
        self._begun: set[_Needs] = set()
        self._loaded: set[_Needs] = set()
        self._lock = threading.Lock()  # rows refer to the memory of their parser

    def predict(
        self,
        body: bytes,
        kind: str,
        texts: Sequence[str],
        predict: Callable[[Any], Floats],
        predictor: Hashable = None,
    ) -> Floats | None:
        """Return the predictions of the examples of a body, or None if Python must parse it.

        Parameters
        ----------
        body, kind
            The body and its content type.
        texts
            Names that the model reads as raw text.
        predict
            Predicts rows, which hold only during the call; it may raise `RequestError`. In the
            background, it is called to load its kernels.
        predictor
            Equal for models that predict by the same kernels.

        Returns
        -------
        What `predict` returns. None without kernels, or for a body that has few lines or an invalid
        one.
        """
        if kind == ARRAYS:
            if not body.startswith(b"["):
                return None
            body = _lines_of_array(body)
        if kind not in KINDS or not _has_many_lines(body):
            return None
        needs = _Needs(KINDS[kind], tuple(texts), predictor)
        # Other threads keep the lock for as long as kernels compile.
        if not self._lock.acquire(blocking=False):
            return None
        try:
            if needs in self._loaded:
                return self._parse(body, needs, predict)
            if needs not in self._begun:
                self._start_loading(body, needs, predict)
        finally:
            self._lock.release()
        return None

    def _start_loading(self, body: bytes, needs: _Needs, predict: Callable[[Any], Floats]) -> None:
        self._begun.add(needs)
        self._loading = threading.Thread(
            target=self._load, args=(body, needs, predict), name="streaml1-kernels", daemon=True
        )
        self._loading.start()

    def _load(self, body: bytes, needs: _Needs, predict: Callable[[Any], Floats]) -> None:
        from streaml1.core.jit import COMPILED

        if not COMPILED:
            return
        numbers = None
        with self._lock:
            with suppress(RequestError):  # with which Python answers this request
                numbers = self._parse(body, needs, predict)
            if numbers is None:
                self._begun.discard(needs)  # a later body loads the kernels that predict
            else:
                self._loaded.add(needs)

    def _parse(self, body: bytes, needs: _Needs, predict: Callable[[Any], Floats]) -> Floats | None:
        key = (needs.kind, needs.texts)
        parser = self._parsers.get(key)
        if parser is None:
            parser = self._parsers[key] = _new_parser(*key, self._roles)
        try:
            rows = parser.read_features(body)
        except SourceError:  # such as one array: Python says what is wrong
            return None
        return None if rows is None else predict(rows)


def _lines_of_array(body: bytes) -> bytes:
    r"""Return the elements of an array of objects as lines, or nothing if Python must parse it.

    A comma between two braces ends a line, even inside of a string or of an inner array. Then the
    line is not a complete object, so it is invalid. If all lines are valid, each is an element.

    Examples
    --------
    >>> _lines_of_array(b'[{"a": 1}, {"a": 2},{}]')
    b'{"a": 1} \n{"a": 2}\n{}'
    """
    if not body.endswith(b"}]") or b"\n" in body:
        return b""
    text = np.frombuffer(bytearray(memoryview(body)[1:-1]), np.uint8)
    commas = np.flatnonzero(text[:-1] == _CLOSING_BRACE) + 1
    commas = commas[text[commas] == _COMMA]
    ends = commas + (text[commas + 1] == _SPACE)
    between = text[ends + 1] == _OPENING_BRACE
    text[commas[between]] = _SPACE
    text[ends[between]] = _NEWLINE
    return text.tobytes()


def _has_many_lines(body: bytes) -> bool:
    at = -1
    for _ in range(MIN_LINES):
        at = body.find(b"\n", at + 1)
        if at < 0:
            return False
    return True


def _new_parser(kind: str, texts: tuple[str, ...], roles: JsonRoles | None) -> LineParser:
    from streaml1.sources.readers.flat_json import NO_ROLES
    from streaml1.sources.readers.formats import line_parser

    roles = NO_ROLES if roles is None else roles
    return line_parser(kind, require_label=False, texts=texts, roles=roles)
