"""Fixtures and settings that several test files share."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.broker import Broker, connect_or_skip

# The first call of a kernel compiles for seconds, so that a deadline per example is meaningless.
settings.register_profile(
    "streaml1",
    deadline=None,
    max_examples=int(os.environ.get("STREAML1_EXAMPLES", "10")),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("streaml1")

ROOT = Path(__file__).parent.parent
# Environment of a subprocess that shares the compilation cache of this test run.
WARM = {k: v for k, v in os.environ.items() if k == "NUMBA_CACHE_DIR"}


@pytest.fixture(autouse=True, scope="module")
def frozen_heap() -> None:
    """Exempt what earlier modules left behind from garbage collection.

    Compiling leaves millions of objects, which each full collection would traverse again; river's
    checks of memory alone collect several hundred times.
    """
    freeze_heap()


def freeze_heap() -> None:
    """Exempt all objects from garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def cwd(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty directory, so that paths are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run `python args...` in the project's root; keyword arguments extend its environment."""

    def run(*args: str, timeout: float = 300.0, **environment: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            **environment,
        }
        result = subprocess.run(
            [sys.executable, *args],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-4000:]
        return result.stdout

    return run


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """Yield the broker of the test run; modules that need a real one override this fixture."""
    broker = connect_or_skip()
    yield broker
    broker.close()


@pytest.fixture(params=["kafka-python", "confluent"])
def kafka_client(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Run a test with both Kafka clients."""
    client: str = request.param
    monkeypatch.setenv("STREAML1_KAFKA_CLIENT", client)
    return client


@pytest.fixture
def no_leaked_threads() -> Iterator[None]:
    """Assert that the threads of Kafka clients and background checkpoints end with the test."""
    yield
    running = {thread.name for thread in threading.enumerate()}
    assert not running & {"kafka-io-streaml1", "streaml1-checkpoint"}


KAFKA_SUMMARY = {
    "real": "run with an Apache Kafka broker",
    "mock": "run with librdkafka's mock cluster; tests of groups and timestamps were skipped",
    "none": "deselected by --no-kafka",
    None: "deselected, no broker is configured; scripts/test starts one",
}[os.environ.get("STREAML1_KAFKA_KIND")]


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    """Deselect Kafka tests unless scripts/test has started a broker; run a long file earlier."""
    if os.environ.get("STREAML1_KAFKA_KIND") not in ("real", "mock"):
        deselected = [item for item in items if item.get_closest_marker("kafka")]
        config.hook.pytest_deselected(items=deselected)
        items[:] = [item for item in items if item not in deselected]
    items[:] = with_earlier(items, LONG_FILE, before="test_m")


LONG_FILE = "test_state_invariance.py"
"""A file that takes minutes: near the end of the alphabet it would be the last to end."""


def with_earlier(items: list[Any], name: str, before: str) -> list[Any]:
    """Return the items with those of one file before the first file from `before` on."""
    long = [item for item in items if item.path.name == name]
    others = [item for item in items if item.path.name != name]
    later = (k for k, item in enumerate(others) if item.path.name >= before)
    at = next((k for k in later if others[k].path.parent == ROOT / "tests"), len(others))
    return others[:at] + long + others[at:]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Report how the Kafka tests were run."""
    terminalreporter.write_line(f"Kafka tests: {KAFKA_SUMMARY}")


@pytest.fixture
def disk_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """Return a function that starts to record, and returns, the steps of writing to the disk.

    The steps are "file" (fsync of a file), "name" (rename) and "folder" (fsync of a directory).
    """

    def start_recording() -> list[str]:
        steps: list[str] = []
        fsync, rename = os.fsync, os.replace

        def recorded_fsync(fd: int) -> None:
            steps.append("folder" if os.path.isdir(f"/proc/self/fd/{fd}") else "file")
            fsync(fd)

        def recorded_rename(*args: Any) -> None:
            steps.append("name")
            rename(*args)

        monkeypatch.setattr("os.fsync", recorded_fsync)
        monkeypatch.setattr("os.replace", recorded_rename)
        return steps

    return start_recording
