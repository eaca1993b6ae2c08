"""Executors: where tasks run. A task is a pure function, so it can run anywhere, and again.

The seam to an engine has two calls. `submit` starts a task, `gather` waits for results in the order
of submission. Nothing else of an engine is used, so the results do not depend on it.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from streaml1.core import exit_codes
from streaml1.core.named_options import (
    command_line_flags,
    set_command_line_flags,
    with_flags_of_caller,
)
from streaml1.core.rows import shown
from streaml1.sources.readers.background import cores
from streaml1.training.config import require_positive

__all__ = [
    "MAX_ATTEMPTS",
    "DaskExecutor",
    "EngineUnavailable",
    "Executor",
    "InlineExecutor",
    "ProcessExecutor",
    "RayExecutor",
    "TaskFailed",
    "executor_of",
]

logger = logging.getLogger("streaml1")

MAX_ATTEMPTS = 3
"""How many times a task is tried whose worker dies."""


class TaskFailed(RuntimeError):
    """The worker of a task died each time it was tried.

    Attributes
    ----------
    index
        The index of the task among those that were gathered.
    """

    exit_code = exit_codes.TEMPORARY_FAILURE

    def __init__(self, task: str, index: int) -> None:
        super().__init__(
            f"{task} was tried {MAX_ATTEMPTS} times, and its worker died each time: check the "
            'memory, and that the script starts workers under if __name__ == "__main__"'
        )
        self.index = index


class EngineUnavailable(RuntimeError):
    """A cluster does not answer, or no longer; the text is one sentence."""

    exit_code = exit_codes.TEMPORARY_FAILURE


class Executor(Protocol):
    """Runs tasks. Use it as a context manager."""

    def submit(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a task, a picklable function of picklable arguments; return a handle of it."""

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of tasks in the order of `handles`.

        An error that a task raised is raised here.
        """

    def __enter__(self) -> Self:
        """Return the executor."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """Release the workers; tasks that have not started are cancelled."""


class _Call(NamedTuple):
    """A task and its arguments."""

    task: Callable[..., Any]
    args: tuple[Any, ...]


class InlineExecutor(Executor):
    """Runs each task in this process, when its result is requested.

    Examples
    --------
    >>> from streaml1.distributed import InlineExecutor
    >>> with InlineExecutor() as executor:
    ...     handles = [executor.submit(pow, 2, k) for k in range(4)]
    ...     print(*executor.gather(handles))
    1 2 4 8
    """

    def submit(self, task: Callable[..., Any], *args: Any) -> _Call:
        """Return a handle of a task."""
        return _Call(task, args)

    def gather(self, handles: Sequence[_Call]) -> Iterator[Any]:
        """Run the tasks one after the other, and yield their results."""
        for call in handles:
            yield call.task(*call.args)

    def __exit__(self, *error: object) -> None:
        """Do nothing."""


def executor_of(given: Executor | None) -> Executor:
    """Return the executor that was given; for None, one that runs tasks in this process.

    Raises
    ------
    TypeError
        If it is none, such as a number of workers.
    """
    if given is None:
        return InlineExecutor()
    if not (hasattr(given, "submit") and hasattr(given, "gather")):
        raise TypeError(
            f"executor must be an executor such as ProcessExecutor(2), got {shown(given)}"
        )
    return given


def _start_worker(flags: Mapping[str, str] | None, set_up: Callable[[], object] | None) -> None:
    set_command_line_flags(flags)
    if set_up is not None:
        set_up()


class ProcessExecutor(Executor):
    """Runs tasks in processes of this machine.

    Processes are started anew (`spawn`), since compiled code and its threads do not survive a fork.
    A script that uses them must do so under ``if __name__ == "__main__":``, as each worker imports
    it. If a worker dies, the tasks without a result are run again by new workers.

    Parameters
    ----------
    workers
        Number of processes; None: one per core.
    set_up
        A function that each process calls at its start.
    """

    def __init__(
        self, workers: int | None = None, set_up: Callable[[], object] | None = None
    ) -> None:
        if workers is not None:
            require_positive("workers", workers)
        self.workers = workers or cores()
        self._set_up = set_up
        self._pool = self._new_pool()

    def _new_pool(self) -> ProcessPoolExecutor:
        return ProcessPoolExecutor(
            self.workers, multiprocessing.get_context("spawn"), _start_worker,
            (command_line_flags(), self._set_up),
        )  # fmt: skip

    def submit(self, task: Callable[..., Any], *args: Any) -> _Started:
        """Start a task; return a handle of it."""
        return _Started(_Call(task, args), self._start(_Call(task, args)))

    def _start(self, call: _Call) -> Future[Any] | None:
        try:
            return self._pool.submit(call.task, *call.args)
        except BrokenProcessPool:  # `gather` starts it again
            return None

    def gather(self, handles: Sequence[_Started]) -> Iterator[Any]:
        """Yield the results of tasks in order.

        Raises
        ------
        TaskFailed
            If the worker of a task died `MAX_ATTEMPTS` times.
        """
        for k, handle in enumerate(handles):
            while not handle.ends():
                self._repeat(handles[k:], k)
            yield handle.result()

    def _restart(self) -> None:
        """Replace the pool, whose processes were stopped when one of them died."""
        self._pool.shutdown(wait=False, cancel_futures=True)
        self._pool = self._new_pool()

    def _repeat(self, handles: Sequence[_Started], first: int) -> None:
        """Start all tasks without a result again; the first of `handles` has the index `first`.

        Which of the running tasks has killed its worker is unknown, so an attempt counts for each
        that could have started. The last attempt of a task is made alone: a death is then its own.
        """
        self._restart()
        numbered = enumerate(handles, first)
        waiting = [(k, handle) for k, handle in numbered if not handle.has_result()]
        for _, handle in waiting:
            handle.attempts += 1
        alone = any(handle.attempts == MAX_ATTEMPTS for _, handle in waiting)
        for k, handle in waiting:
            handle.future = self._start(handle.call)
            while alone and not handle.ends():
                if handle.attempts >= MAX_ATTEMPTS:
                    raise TaskFailed(handle.call.task.__name__, k)
                handle.attempts += 1
                self._restart()
                handle.future = self._start(handle.call)

    def __exit__(self, *error: object) -> None:
        """Stop the processes; tasks that have not started are cancelled."""
        self._pool.shutdown(cancel_futures=True)


class _Started:
    """A task that was started."""

    def __init__(self, call: _Call, future: Future[Any] | None) -> None:
        self.call, self.future, self.attempts = call, future, 1

    def ends(self) -> bool:
        """Wait for the task; return whether it has ended, as `has_result` does."""
        if self.future is not None:
            wait([self.future])
        return self.has_result()

    def result(self) -> Any:
        """Return the result of a task that has ended, or raise its error."""
        assert self.future is not None
        return self.future.result()

    def has_result(self) -> bool:
        """Return whether the task has ended, neither cancelled nor lost with its worker."""
        future = self.future
        if future is None or not future.done() or future.cancelled():
            return False
        return not isinstance(future.exception(), BrokenProcessPool)


class DaskExecutor(Executor):
    """Runs tasks on a Dask cluster.

    Parameters
    ----------
    address
        Address of a scheduler, `tcp://HOST:PORT`; None starts a cluster on this machine.
    workers
        Number of processes of a cluster on this machine; None: one per core.

    Raises
    ------
    ValueError
        If the address is invalid.
    EngineUnavailable
        If no scheduler answers there.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Dask is not installed: pip install 'streaml1[dask]'", name=error.name
            ) from None
        engine: Any = distributed
        if workers is not None:
            require_positive("workers", workers)
        self._killed: type[Exception] = engine.scheduler.KilledWorker
        self._cluster: Any = None
        if address is None:
            import dask.config

            with dask.config.set({"distributed.scheduler.allowed-failures": MAX_ATTEMPTS - 1}):
                self._cluster = engine.LocalCluster(
                    n_workers=workers or cores(), threads_per_worker=1, dashboard_address=None
                )
        self._client: Any = (
            engine.Client(self._cluster) if address is None else _client_of(engine, address)
        )
        self._may_lack_workers = address is not None

    def submit(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a task; Dask runs it again if its worker dies."""
        if self._may_lack_workers and not self._client.nthreads():
            # A cluster may start its workers when there are tasks.
            logger.warning("the Dask scheduler has no workers yet: waiting for one")
        self._may_lack_workers = False
        # Equal calls would share a key, and so a result whose model the caller may change.
        return self._client.submit(with_flags_of_caller(task), *args, pure=False, retries=0)

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of tasks in order.

        Raises
        ------
        TaskFailed
            If the worker of a task died as often as the scheduler allows.
        EngineUnavailable
            If the connection to the scheduler is lost.
        """
        from distributed.client import FutureCancelledError
        from distributed.comm.core import CommClosedError

        for k, handle in enumerate(handles):
            try:
                result = handle.result()
            except self._killed:
                raise TaskFailed(str(handle.key), k) from None
            except (FutureCancelledError, CommClosedError):
                raise EngineUnavailable(
                    "the connection to the Dask scheduler was lost: start it, and run this again"
                ) from None
            yield result

    def __exit__(self, *error: object) -> None:
        """Disconnect, and stop the cluster if it was started here."""
        self._client.close()
        if self._cluster is not None:
            self._cluster.close()


def _client_of(engine: Any, address: str) -> Any:
    """Return a client of the Dask scheduler at an address; `engine` is Dask's module."""
    failure: Exception
    try:
        return engine.Client(address)
    except ValueError:
        failure = ValueError(
            f"the address of a Dask scheduler must be tcp://HOST:PORT, got {shown(address)}"
        )
    except OSError:
        failure = EngineUnavailable(f"no Dask scheduler answers at {address}: is it running there?")
    # The client that failed closes when it is collected. If that happens while another one starts,
    # both wait for the same lock.
    gc.collect()
    raise failure


class RayExecutor(Executor):
    """Runs tasks on a Ray cluster.

    Parameters
    ----------
    address
        Address of the cluster, such as `ray://HOST:10001`; None starts one on this machine.
    workers
        Number of processes of a cluster on this machine; None: one per core.

    Raises
    ------
    EngineUnavailable
        If no cluster answers there, which Ray decides after minutes.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        try:
            import ray
        except ModuleNotFoundError as error:
            raise ModuleNotFoundError(
                "Ray is not installed: pip install 'streaml1[ray]'", name=error.name
            ) from None
        if workers is not None:
            require_positive("workers", workers)
        self._ray = ray
        local = {} if address else {"num_cpus": workers or cores(), "include_dashboard": False}
        try:
            ray.init(address, log_to_driver=False, **local)
        except ConnectionError:
            raise EngineUnavailable(
                f"no Ray cluster answers at {address}: is it running there?"
            ) from None

    def submit(self, task: Callable[..., Any], *args: Any) -> Any:
        """Start a task; Ray runs it again if its worker dies."""
        remote = self._ray.remote(max_retries=MAX_ATTEMPTS - 1)(with_flags_of_caller(task))
        return remote.remote(*args)

    def gather(self, handles: Sequence[Any]) -> Iterator[Any]:
        """Yield the results of tasks in order."""
        for handle in handles:
            yield self._ray.get(handle)

    def __exit__(self, *error: object) -> None:
        """Disconnect, and stop the cluster if it was started here."""
        self._ray.shutdown()
