"""The server of ``streaml1 serve``: sockets, worker processes, signals."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from streaml1.core import exit_codes as exits
from streaml1.serving.example_log import ExampleLog
from streaml1.serving.http_protocol import Connections, HttpProtocol, Timeouts
from streaml1.serving.model_source import ModelSource
from streaml1.serving.model_store import CHECK_SECONDS, ModelStore
from streaml1.serving.service import Limits, Service
from streaml1.training.http_server import cannot_listen

if TYPE_CHECKING:
    from streaml1.sources.readers.flat_json import JsonRoles

__all__ = ["ServerConfig", "ServerError", "serve"]

logger = logging.getLogger("streaml1")

DRAIN_SECONDS = 10.0
BACKLOG = 2048
HANDLED = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class ServerError(ValueError):
    """A server that cannot start; the message is one sentence."""

    exit_code = exits.USAGE_ERROR


@dataclass(frozen=True)
class ServerConfig:
    """Configuration of a server.

    Parameters
    ----------
    host, port
        Address; port 0 picks a free one.
    workers
        Number of processes.
    limits, timeouts, connections
        Limits of requests, of time, and of connections per process.
    max_age
        See `Service`.
    check_seconds
        Interval of checks for a new version.
    to
        Topic that ``/learn`` and ``/label`` write to, or None.
    security
        How to connect to Kafka.
    roles
        How members of JSON objects are read, see `json_requests.roles_of`.
    """

    host: str = "127.0.0.1"
    port: int = 8500
    workers: int = 1
    limits: Limits = field(default_factory=Limits)
    timeouts: Timeouts = field(default_factory=Timeouts)
    connections: int = 1000
    max_age: float | None = None
    check_seconds: float = CHECK_SECONDS
    to: str | None = None
    security: Any = None
    roles: JsonRoles | None = None


def serve(
    sources: Mapping[str, ModelSource],
    config: ServerConfig,
    on_start: Callable[[ModelStore, str], None] = lambda store, address: None,
) -> int:
    """Serve models until a signal; return its number.

    The models are read before the worker processes are forked, which share their memory.

    Parameters
    ----------
    sources
        The sources by name.
    config
        The configuration.
    on_start
        Called with the models and the URL once the server listens.

    Raises
    ------
    ServerError
        If it cannot listen.
    OSError, SourceError, ModelFileError
        If a model cannot be read.
    """
    store = ModelStore(sources)
    if config.to is not None:
        ExampleLog(config.to, config.security).close()  # fails now if it cannot be written
    with contextlib.ExitStack() as stack:
        listening: list[socket.socket] = []
        port = config.port
        if config.workers > 1:
            # Workers share their port with any process that asks to, such as another server.
            _listen(config.host, port, shared=False).close()
        for _ in range(config.workers):
            listening.append(stack.enter_context(_listen(config.host, port, config.workers > 1)))
            port = listening[0].getsockname()[1]
        host = f"[{config.host}]" if ":" in config.host else config.host
        on_start(store, f"http://{host}:{port}")
        if config.workers == 1:
            return _run_worker(store, config, listening[0])
        for source in sources.values():
            source.close()  # a connection cannot be shared
        return _supervise(store, config, listening)


def _listen(host: str, port: int, shared: bool) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if shared:
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listening.bind((host, port))
        listening.listen(BACKLOG)
    except OSError as error:
        listening.close()
        raise ServerError(cannot_listen(host, port, error)) from None
    listening.setblocking(False)
    return listening


# Worker processes


class _Worker(NamedTuple):
    """A worker process: the socket it accepts from, and when it started."""

    listening: socket.socket
    started: float


def _supervise(store: ModelStore, config: ServerConfig, listening: list[socket.socket]) -> int:
    """Run a worker for each socket until a signal; one that dies is replaced.

    Until a signal, sockets stay open here, so that connections wait for the replacement.
    """
    workers: dict[int, _Worker] = {}
    received = 0
    parent, held = os.pipe()  # closed by the system however this process ends

    def start(own: socket.socket) -> None:
        others = [held, *(other.fileno() for other in listening if other is not own)]
        pid = _fork(store, config, own, others, parent)
        workers[pid] = _Worker(own, time.monotonic())
        if received:  # before the worker was in the dict
            os.kill(pid, signal.SIGTERM)

    def stop(number: int, frame: object) -> None:
        nonlocal received
        received = received or number
        for own in listening:  # clients are refused from here on, not left waiting
            own.close()
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)

    before = [signal.signal(number, stop) for number in HANDLED]
    try:
        for own in listening:
            start(own)
        while workers:
            pid, status = os.wait()
            ended = workers.pop(pid, None)
            if ended is not None and not received:
                if os.WIFSIGNALED(status):  # after an error, the worker has said so itself
                    number = os.WTERMSIG(status)
                    name = signal.strsignal(number)
                    logger.warning(
                        "worker %d was ended by signal %d (%s); it is replaced", pid, number, name
                    )
                # At most one restart a second.
                time.sleep(max(0.0, ended.started + 1.0 - time.monotonic()))
                if not received:
                    start(ended.listening)
    finally:
        for number, handler in zip(HANDLED, before, strict=True):
            signal.signal(number, handler)
        os.close(parent)
        os.close(held)
    return received


def _fork(
    store: ModelStore, config: ServerConfig, own: socket.socket, others: list[int], parent: int
) -> int:
    """Start a worker; return its process. It closes `others`, which belong to its parent."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        for number in HANDLED:
            signal.signal(number, signal.SIG_DFL)
        for other in others:
            with contextlib.suppress(OSError):  # a signal has closed it
                os.close(other)
        _run_worker(store, config, own, parent)
        code = 0
    except Exception as error:  # its parent starts another one
        logger.error("a worker has failed: %s", str(error) or repr(error))
    finally:
        os._exit(code)


def _run_worker(
    store: ModelStore, config: ServerConfig, listening: socket.socket, parent: int | None = None
) -> int:
    """Serve in this process until a signal, or the end of its parent; return its number."""
    log = None if config.to is None else ExampleLog(config.to, config.security)
    service = Service(store, config.limits, config.max_age, log, config.roles)
    connections = Connections(service, config.connections, config.timeouts)
    store.start(config.check_seconds)
    try:
        with asyncio.Runner(loop_factory=_new_loop) as runner:
            return runner.run(_serve(connections, listening, parent))
    finally:
        store.close()
        if log is not None:
            log.close()


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


async def _serve(
    connections: Connections, listening: socket.socket, parent: int | None = None
) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in HANDLED:
        loop.add_signal_handler(number, stop, number)
    if parent is not None:
        loop.add_reader(parent, stop, signal.SIGTERM)  # it ends only when the parent has
    server = await loop.create_server(lambda: HttpProtocol(connections), sock=listening)
    while not stopped.done():
        await asyncio.wait([stopped], timeout=1.0)
        connections.sweep(time.monotonic())
    if parent is not None:
        loop.remove_reader(parent)
    server.close()
    connections.drain()
    deadline = time.monotonic() + DRAIN_SECONDS
    while connections.open and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
        connections.sweep(time.monotonic())
    for protocol in [*connections.open]:
        protocol.abort()
    return stopped.result()
