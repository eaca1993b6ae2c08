"""Requests whose heads were parsed before are answered as all others are."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1.serving import ModelStore, Service
from streaml1.serving.http_protocol import Connections, HttpProtocol
from streaml1.serving.model_source import open_source
from streaml1.serving.request_heads import MAX_BYTES, MAX_HEADS, RequestHeads
from streaml1.serving.service import Request
from tests.test_serving import RecordingTransport

POST = b"POST /predict HTTP/1.1\r\n"
REQUESTS = [
    POST + b'Content-Length: 13\r\n\r\n{"word":"w1"}',
    POST + b'Content-Length: 13\r\n\r\n{"word":"w2"}',
    POST + b'content-length: 12\r\nX: y\r\n\r\n{"word":"w"}',
    POST + b'Content-Length: 16\r\n\r\n{"w":"\r\n\r\n","v":1}',
    POST + b"Content-Type: text/vw\r\nContent-Length: 6\r\n\r\n| w=w1",
    POST + b"Content-Length: 2\r\n\r\n[]",
    POST + b"\r\n",
    b"GET /livez HTTP/1.1\r\n\r\n",
    b"\r\nGET /livez HTTP/1.1\r\n\r\n",
    b"HEAD /livez HTTP/1.1\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nConnection: close\r\n\r\n",
    b"GET /livez HTTP/1.0\r\n\r\n",
    b"GET /livez HTTP/1.1\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    POST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\n{}",
    POST + b'Transfer-Encoding: chunked\r\n\r\n8\r\n{"word":\r\n4\r\n"w"}\r\n0\r\n\r\n',
    POST + b"Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
    POST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    POST + b"Expect: 100-continue\r\nContent-Length: 2\r\n\r\n{}",
    POST + b"Content-Length: 20000\r\n\r\n{",
    b"nonsense\r\n\r\n",
]


class Transport(RecordingTransport):
    """A transport that ignores writes after it is closed, and is never paused."""

    def __init__(self) -> None:
        super().__init__()
        self.is_closed = False

    def write(self, data: Any) -> None:
        if not self.is_closed:
            super().write(data)

    def close(self) -> None:
        self.is_closed = True

    def write_eof(self) -> None:
        pass

    def is_closing(self) -> bool:
        return self.is_closed

    def pause_reading(self) -> None:
        pass

    def resume_reading(self) -> None:
        pass


def answers(connections: Connections, parts: list[bytes]) -> tuple[bytes, bool]:
    """Return what a connection that sends some parts gets, and whether it is closed."""
    protocol, transport = HttpProtocol(connections), Transport()
    protocol.connection_made(transport)
    for part in parts:
        if not transport.is_closed:
            protocol.data_received(part)
    protocol.connection_lost(None)
    return b"".join(transport.written), transport.is_closed


class NoHeads(RequestHeads):
    """Heads that are all forgotten."""

    def add(self, data: bytes, request: Request) -> None:
        pass


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Connections, Connections]:
    path = tmp_path_factory.mktemp("heads") / "m"
    model = streaml1.ElasticNetClassifier()
    for k in range(60):
        model.learn_one({"word": f"w{k % 3}"}, k % 3 == 0)
    model.save(path)
    service = Service(ModelStore({"m": open_source(str(path))}))
    known, parsed = Connections(service), Connections(service)
    parsed.heads = NoHeads()
    return known, parsed


def test_repeated_requests_get_the_same_answers(both: tuple[Connections, Connections]) -> None:
    known, parsed = both
    for pair in itertools.product(REQUESTS, repeat=2):
        assert answers(known, [*pair]) == answers(parsed, [*pair])


@given(
    st.lists(st.sampled_from(REQUESTS), max_size=6),
    st.lists(st.integers(0, 400), max_size=3),
    st.booleans(),
)
def test_known_heads_change_no_answer(
    both: tuple[Connections, Connections], requests: list[bytes], cuts: list[int], joined: bool
) -> None:
    """Whatever a connection sends, cut anywhere; heads are kept from one example to the next."""
    known, parsed = both
    parts = requests
    if joined:
        whole = b"".join(requests)
        places = sorted({0, *(c for c in cuts if c < len(whole)), len(whole)})
        parts = [whole[a:b] for a, b in zip(places, places[1:], strict=False)]
    assert answers(known, parts) == answers(parsed, parts)


def test_heads_are_known(both: tuple[Connections, Connections]) -> None:
    known, _ = both
    head = POST + b"Content-Length: 13\r\nX: known\r\n\r\n"
    answers(known, [head + b'{"word":"w1"}'])
    request = known.heads.parse(head + b'{"word":"w2"}')
    assert request is not None and request.body == b'{"word":"w2"}'
    assert known.heads.parse(head + b'{"word":"w2"') is None
    assert known.heads.parse(head + b'{"word":"w2"}G') is None


def test_memory_is_bounded() -> None:
    heads, request = RequestHeads(), Request("GET", "/", {}, b"")
    for k in range(3 * MAX_HEADS):
        data = b"GET / HTTP/1.1\r\nX: %d\r\n\r\n" % k
        heads.add(data, request)
        assert heads.parse(data) == request
    assert len(heads._heads) <= MAX_HEADS
    long = b"GET / HTTP/1.1\r\nX: " + b"x" * MAX_BYTES + b"\r\n\r\n"
    heads.add(long, request)
    assert heads.parse(long) is None
