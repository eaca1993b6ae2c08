"""Heads of requests that were parsed before.

A client that keeps its connection sends the same head again and again, of which only the length of
the body may change. Comparing it as bytes takes a tenth of the time of parsing it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from streaml1.serving.service import Request

__all__ = ["RequestHeads"]

MAX_HEADS = 256
MAX_BYTES = 2**11
"""Longer heads are parsed each time, so that they cannot fill the memory."""

_END = b"\r\n\r\n"


class _Head(NamedTuple):
    """What a head says."""

    method: str
    target: str
    headers: Mapping[str, str]
    body_bytes: int


class RequestHeads:
    r"""The heads that were parsed, by their bytes. Equal bytes are always parsed alike.

    Examples
    --------
    >>> from streaml1.serving.request_heads import RequestHeads
    >>> from streaml1.serving.service import Request
    >>> heads = RequestHeads()
    >>> head = b"POST /predict HTTP/1.1\r\ncontent-length: 8\r\n\r\n"
    >>> heads.add(head + b'{"a": 1}', Request("POST", "/predict", {}, b'{"a": 1}'))
    >>> heads.parse(head + b'{"b": 2}')
    Request(method='POST', target='/predict', headers={}, body=b'{"b": 2}')
    >>> heads.parse(head + b'{"b": ')  # the rest has not arrived
    """

    def __init__(self) -> None:
        self._heads: dict[bytes, _Head] = {}

    def add(self, data: bytes, request: Request) -> None:
        """Remember the head of a request that arrived as `data` and nothing else."""
        end = data.find(_END) + len(_END)
        # A body in chunks is shorter than what arrived. After "100 Continue" it comes by itself.
        if end > MAX_BYTES or len(data) - end != len(request.body) or "expect" in request.headers:
            return
        if len(self._heads) >= MAX_HEADS:
            self._heads.clear()
        method, target, headers, body = request
        self._heads[data[:end]] = _Head(method, target, headers, len(body))

    def parse(self, data: bytes) -> Request | None:
        """Return the request that begins and ends with `data`; None if its head must be parsed."""
        end = data.find(_END) + len(_END)
        head = self._heads.get(data[:end])
        if head is None or len(data) - end != head.body_bytes:
            return None
        return Request(head.method, head.target, head.headers, data[end:])
