"""What several test files share."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tests.broker import Broker, given

# A first call compiles for seconds, and the machine is shared: no deadline says anything here.
settings.register_profile(
    "streaml1",
    deadline=None,
    max_examples=int(os.environ.get("STREAML1_EXAMPLES", "15")),
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.load_profile("streaml1")

ROOT = Path(__file__).parent.parent
# For a process that finds there what other tests have compiled.
WARM = {k: v for k, v in os.environ.items() if k == "NUMBA_CACHE_DIR"}


@pytest.fixture
def python(tmp_path: Path) -> Callable[..., str]:
    """Run `python args...` at the project's root with settings in its environment."""

    def run(*args: str, timeout: float = 300.0, **environment: str) -> str:
        environment = {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
            **environment,
        }
        done = subprocess.run(
            [sys.executable, *args],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=timeout,
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    return run


@pytest.fixture(scope="session")
def broker() -> Iterator[Broker]:
    """The broker of the run; a module that needs a real one asks for that over this."""
    one = given()
    yield one
    one.close()


@pytest.fixture
def no_thread_is_left() -> Iterator[None]:
    """Whatever a test opens on a topic or saves beside learning has ended with the test."""
    yield
    left = {one.name for one in threading.enumerate()}
    assert not left & {"kafka-io-streaml1", "streaml1-checkpoint"}


KAFKA = {
    "real": "an Apache Kafka broker",
    "mock": "librdkafka's mock cluster: what needs groups or times was left out",
    "none": "left out, as --no-kafka asks",
    None: "left out, as no broker was given: scripts/test starts one",
}[os.environ.get("STREAML1_KAFKA_KIND")]


def pytest_collection_modifyitems(config: Any, items: list[Any]) -> None:
    if os.environ.get("STREAML1_KAFKA_KIND") not in ("real", "mock"):
        left_out = [item for item in items if item.get_closest_marker("kafka")]
        config.hook.pytest_deselected(items=left_out)
        items[:] = [item for item in items if item not in left_out]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.write_line(f"Kafka tests: {KAFKA}")


@pytest.fixture
def disk_steps(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[str]]:
    """From its call on, note what reaches the disk: a file, its name, a folder."""

    def watched() -> list[str]:
        steps: list[str] = []
        fsync, rename = os.fsync, os.replace

        def watched_fsync(number: int) -> None:
            steps.append("folder" if os.path.isdir(f"/proc/self/fd/{number}") else "file")
            fsync(number)

        def watched_rename(*args: Any) -> None:
            steps.append("name")
            rename(*args)

        monkeypatch.setattr("os.fsync", watched_fsync)
        monkeypatch.setattr("os.replace", watched_rename)
        return steps

    return watched
