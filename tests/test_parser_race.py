"""Arrays are read in threads although Python's literal parser fails at random in threads."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from streaml1 import ElasticNetClassifier, load
from streaml1.core.parser_race import MAX_ATTEMPTS, retry_parse


class Disturbed:
    """A call that raises the error of a disturbed parser some times, then returns 7."""

    def __init__(self, n_errors: int) -> None:
        self.n_errors = n_errors
        self.n_calls = 0

    def __call__(self) -> int:
        self.n_calls += 1
        if self.n_calls <= self.n_errors:
            raise SystemError("AST constructor recursion depth mismatch (before=18, after=13)")
        return 7


@pytest.mark.parametrize("n_errors", [0, 1, 3, MAX_ATTEMPTS - 1])
def test_a_disturbed_call_is_repeated(n_errors: int) -> None:
    parse = Disturbed(n_errors)
    assert retry_parse(parse) == 7
    assert parse.n_calls == n_errors + 1


def test_a_call_that_always_fails_ends() -> None:
    parse = Disturbed(10**9)
    with pytest.raises(SystemError):
        retry_parse(parse)
    assert parse.n_calls == MAX_ATTEMPTS


def test_other_errors_are_raised_at_once() -> None:
    calls = []

    def parse() -> None:
        calls.append(1)
        raise ValueError("not an array")

    with pytest.raises(ValueError, match="not an array"):
        retry_parse(parse)
    assert calls == [1]


class Cycle:
    """Garbage whose finalizer runs long enough for a switch of threads."""

    def __init__(self) -> None:
        self.cycle = self

    def __del__(self) -> None:
        sum(range(300))


@pytest.fixture
def switches_in_the_parser() -> Iterator[None]:
    """Collect garbage all the time: only then does another thread run inside the parser."""
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    sys.setswitchinterval(1e-6)
    gc.set_threshold(10)
    yield
    sys.setswitchinterval(interval)
    gc.set_threshold(*threshold)


@pytest.mark.usefixtures("switches_in_the_parser")
def test_threads_load_models(tmp_path: Path) -> None:
    model = ElasticNetClassifier()
    model.learn_one({"a": 1.0}, True)
    path = tmp_path / "m"
    model.save(path)
    errors: list[Exception] = []

    def read() -> None:
        for _ in range(30):
            Cycle()
            try:
                load(path)
            except Exception as error:
                errors.append(error)

    threads = [threading.Thread(target=read) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not errors
