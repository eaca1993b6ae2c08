"""Fan-out over processes and Dask: the bits of single runs, whatever dies."""

from __future__ import annotations

import os
import pickle
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import streaml1
from streaml1 import distributed
from streaml1.cli import cli
from streaml1.core import exit_codes as exits
from streaml1.distributed import (
    DaskExecutor,
    EngineUnavailable,
    Executor,
    InlineExecutor,
    ProcessExecutor,
    RayExecutor,
    TaskFailed,
)
from streaml1.sources import SourceError
from streaml1.training import Observer, RunConfig, evaluate, predictions


def as_svmlight(n_lines: int, first: int = 0) -> str:
    rows = (
        f"{k % 2} {k % 7 + 1}:1 {k % 3 + 10}:{k % 5 + 1}" for k in range(first, first + n_lines)
    )
    return "\n".join(rows) + "\n"


@pytest.fixture
def parts(tmp_path: Path) -> list[str]:
    paths = [tmp_path / f"part-{k}.svm" for k in range(3)]
    for k, path in enumerate(paths):
        path.write_text(as_svmlight(60, first=17 * k))
    return [str(path) for path in paths]


@pytest.fixture(scope="module")
def processes() -> Iterator[ProcessExecutor]:
    with ProcessExecutor(2) as executor:
        yield executor


@pytest.fixture(params=["inline", "processes", "dask", "ray"])
def executor(request: pytest.FixtureRequest) -> Iterator[Executor]:
    if request.param == "processes":
        yield request.getfixturevalue("processes")
        return
    if request.param in ("dask", "ray"):
        pytest.importorskip("distributed" if request.param == "dask" else "ray")
    make: dict[str, Callable[[], Any]] = {
        "inline": InlineExecutor,
        "dask": lambda: DaskExecutor(workers=1),
        "ray": lambda: RayExecutor(workers=1),
    }
    with make[request.param]() as opened:
        yield opened


def state(model: Any, tmp_path: Path) -> bytes:
    model.save(tmp_path / "state")
    return (tmp_path / "state").read_bytes()


def figures(report: Any) -> list[dict[str, Any]]:
    timing = {"seconds", "per_second"}
    return [{k: v for k, v in x.as_dict().items() if k not in timing} for x in report.lines]


def test_fan_out_equals_single_runs(executor: Executor, parts: list[str], tmp_path: Path) -> None:
    models = [streaml1.FTRLClassifier(l1=0.5), streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3)]
    seen: list[tuple[int, int]] = []
    results = distributed.sweep(
        models, parts[0], executor=executor, progress=lambda *done: seen.append(done), every=20
    )
    assert seen == [(1, 2), (2, 2)]
    for model, swept in zip(models, results, strict=True):
        assert model.n_iterations == 0
        report = streaml1.progressive(model, parts[0], every=20)
        assert figures(swept.report) == figures(report)
        assert state(swept.model, tmp_path) == state(model, tmp_path)
    reports = distributed.evaluate(models[0], parts, executor=executor)
    expected = [figures(evaluate(models[0], part)) for part in parts]
    assert [figures(r) for r in reports] == expected
    found = list(distributed.predict(models[0], parts, executor=executor))
    assert found == [list(predictions(models[0], part)) for part in parts]
    converted = distributed.convert(parts, tmp_path / "rows", executor=executor)
    assert [c.rows for c in converted] == [60, 60, 60]
    again = distributed.evaluate(models[0], [str(tmp_path / "rows" / "part-1.rows")])
    assert figures(again[0]) == expected[1]


def test_reports_continue_after_pickling() -> None:
    model, examples = streaml1.FTRLClassifier(), [({k % 5: 1.0}, k % 3 == 0) for k in range(50)]
    report = streaml1.progressive(model, examples)
    copy = pickle.loads(pickle.dumps(report))
    for each in (report, copy):
        each.add(np.array([0.2, 0.9]), np.array([False, True]))
    assert figures(copy) == figures(report) and copy.line().auc == report.line().auc
    assert len(pickle.dumps(report)) < 100_000


def test_data_in_memory_is_sent_to_workers(processes: ProcessExecutor) -> None:
    X, y = np.eye(4)[[0, 1, 2, 3] * 5], np.array([True, False] * 10)
    (swept,) = distributed.sweep([streaml1.FTRLClassifier()], (X, y), executor=processes)
    assert swept.model.n_iterations == 20


def test_errors_of_tasks_reach_the_caller(processes: ProcessExecutor, tmp_path: Path) -> None:
    (tmp_path / "bad.svm").write_text("1 3:1\n2 4:1\n")
    with pytest.raises(streaml1.BadExample, match=r"bad\.svm:2"):
        distributed.sweep(
            [streaml1.FTRLClassifier()], str(tmp_path / "bad.svm"), executor=processes
        )


def test_dask_schedulers_that_do_not_answer(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("distributed")
    import dask.config

    for address in ("127.0.0.1", "http://127.0.0.1:8786"):
        with pytest.raises(ValueError, match=f"must be tcp://HOST:PORT, got '{address}'"):
            DaskExecutor(address)
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"tcp://127.0.0.1:{server.getsockname()[1]}"
    with (
        dask.config.set({"distributed.comm.timeouts.connect": "0.3s"}),
        pytest.raises(EngineUnavailable, match=f"no Dask scheduler answers at {address}") as found,
    ):
        DaskExecutor(address)
    assert found.value.exit_code == exits.TEMPORARY_FAILURE
    command = [sys.executable, "-m", "dask", "scheduler", "--no-dashboard"]
    port = address.rpartition(":")[2]
    with (
        subprocess.Popen([*command, "--port", port]) as scheduler,
        DaskExecutor(address) as executor,
    ):
        handle = executor.submit(os.getpid)
        scheduler.kill()
        with pytest.raises(EngineUnavailable, match="scheduler was lost: start it, and run"):
            list(executor.gather([handle]))
    assert "the Dask scheduler has no workers yet: waiting for one" in caplog.messages


def test_a_ray_cluster_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(address: str, **options: Any) -> None:
        raise ConnectionError(f"Failed to connect to Ray cluster at {address}")

    monkeypatch.setitem(sys.modules, "ray", SimpleNamespace(init=init))
    with pytest.raises(EngineUnavailable, match="no Ray cluster answers at h:1: is it running"):
        RayExecutor("h:1")


def die_once(marker: str, value: int) -> int:
    if value == 1 and not Path(marker).exists():
        Path(marker).touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return value * value


def die_always() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_tasks_of_a_killed_worker_run_again(tmp_path: Path) -> None:
    with ProcessExecutor(2) as executor:
        handles = [executor.submit(die_once, str(tmp_path / "died"), k) for k in range(6)]
        assert list(executor.gather(handles)) == [0, 1, 4, 9, 16, 25]
        assert (tmp_path / "died").exists()


def test_a_task_that_kills_each_worker_fails() -> None:
    """Tasks that were running when it died are not blamed."""
    with ProcessExecutor(1) as executor:
        handles = [executor.submit(pow, 2, 1), executor.submit(die_always)]
        handles += [executor.submit(pow, 2, 3)]
        results = executor.gather(handles)
        assert next(results) == 2
        with pytest.raises(TaskFailed, match="die_always was tried 3 times") as caught:
            next(results)
        assert caught.value.index == 1


def test_rejected_arguments(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="workers must be >= 1, got 0"):
        ProcessExecutor(0)
    with pytest.raises(ValueError, match="workers must be an integer >= 1, got '2'"):
        ProcessExecutor("2")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"executor must be an executor such as .*, got 2$"):
        distributed.sweep([streaml1.FTRLClassifier()], "stdlib", executor=2)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"a/x\.svm and b/x\.svm would both be .* x\.rows"):
        distributed.convert(["a/x.svm", "b/x.svm"], tmp_path / "rows")
    (tmp_path / "file").touch()
    for directory in (tmp_path / "file", tmp_path / "file" / "rows"):
        with pytest.raises(NotADirectoryError, match="give a directory for the .rows files"):
            distributed.convert(["x.svm"], directory)


def test_single_items_in_place_of_lists_are_rejected(tmp_path: Path) -> None:
    """The letters of a file name are not sources."""
    model: Any = streaml1.FTRLClassifier()
    name: Any = "part.svm"
    with pytest.raises(TypeError, match=r"models must be a list, got FTRLClassifier\(\); give"):
        distributed.sweep(model, [({1: 1.0}, True)])
    with pytest.raises(TypeError, match=r"sources must be a list, got 'part\.svm'; give a list"):
        distributed.evaluate(model, name)
    with pytest.raises(TypeError, match=r"sources must be a list, got 'part\.svm'; give a list"):
        distributed.predict(model, name)
    with pytest.raises(TypeError, match=r"sources must be a list, got \S+\('part\.svm'\); give"):
        distributed.convert(Path(name), tmp_path / "rows")  # type: ignore[arg-type]


def test_lists_may_be_any_iterable() -> None:
    models = {l1: streaml1.FTRLClassifier(l1=l1) for l1 in (0.1, 1.0)}
    swept: Any = distributed.sweep(models.values(), [({1: 1.0}, True)] * 5)  # type: ignore[arg-type]
    assert [one.model.l1 for one in swept] == [0.1, 1.0]


def test_runs_do_not_share_an_iterator() -> None:
    """The first run would leave no example to the second."""
    models = [streaml1.FTRLClassifier(l1=l1) for l1 in (0.1, 1.0)]
    examples = [({1: 1.0}, True)] * 5
    with pytest.raises(SourceError, match="cannot be read by several runs, since it is an iter"):
        distributed.sweep(models, iter(examples))
    with pytest.raises(SourceError, match="standard input cannot be read by several runs"):
        distributed.sweep(models, "-", format="svmlight")
    results = distributed.sweep((model for model in models), examples)
    assert [swept.report.examples for swept in results] == [5, 5]


def test_runs_do_not_share_a_checkpoint(tmp_path: Path) -> None:
    """The second run would resume from the model of the first."""
    models = [streaml1.FTRLClassifier(l1=l1) for l1 in (0.1, 0.1)]
    options: list[dict[str, Any]] = [
        {"checkpoint": tmp_path / "c"}, {"config": RunConfig(checkpoint=tmp_path / "c")}
    ]  # fmt: skip
    for given in options:
        with pytest.raises(ValueError, match="c' would be shared by the runs of 2 models; sweep"):
            distributed.sweep(models, [({1: 1.0}, True)] * 5, **given)
    assert not (tmp_path / "c").exists()


def test_workers_report_a_skipped_line_once(tmp_path: Path) -> None:
    path = tmp_path / "a.svm"
    path.write_text("1 x:y:z\n" + "1 1:1\n-1 2:1\n" * 40)
    options = ["--bad", "skip", "--l1", "1e-5,1e-4,1e-3", "--workers", "1"]
    done = subprocess.run(
        [sys.executable, "-m", "streaml1", "sweep", str(path), *options],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert done.stderr.count(f"skipped {path}:1: ") == 1 and "3 of 3 runs" in done.stderr


def test_command(parts: list[str], tmp_path: Path) -> None:
    best, report = tmp_path / "best.model", tmp_path / "report.jsonl"
    arguments = ["--l1", "0.1,50", "--model", "ftrl", "--alpha", "0.1", "--workers", "1"]
    files = ["--save", str(best), "--report", str(report)]
    result = CliRunner().invoke(cli, ["sweep", parts[0], *arguments, *files])
    assert result.exit_code == 0, result.output
    model = streaml1.FTRLClassifier(l1=50.0, alpha=0.1)
    line = streaml1.progressive(model, parts[0]).lines[-1]
    assert f"{line.loss:.4f}" in result.output and "* smallest loss" in result.output
    assert len(report.read_text().splitlines()) == 2
    assert state(streaml1.load(best), tmp_path) == state(model, tmp_path)


def test_command_ends_if_too_many_examples_are_rejected(parts: list[str]) -> None:
    bad = "".join("x 3:1\n" if k % 4 == 0 else f"{k % 2} 3:1\n" for k in range(200))
    Path(parts[0]).write_text(bad)
    command = ["sweep", parts[0], "--workers", "1", "--model", "ftrl", "--bad", "skip"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 65 and "were rejected, more than the maximum" in result.output
    result = CliRunner().invoke(cli, [*command, "--most-bad", "0.5"])
    assert result.exit_code == 0, result.output


def test_messages_of_workers_are_those_of_the_command(tmp_path: Path) -> None:
    path = tmp_path / "bad.svm"
    path.write_text("1 1:\x1b\n" + "1 1:1\n0 2:1\n" * 50)
    command = ["sweep", str(path), "--workers", "1", "--model", "ftrl", "--bad", "skip"]
    run = [sys.executable, "-m", "streaml1", *command]
    done = subprocess.run(run, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert f"streaml1: skipped {path}:1: " in done.stderr and "\x1b" not in done.stderr


class Limit(Observer):
    """Ends a run that learns more than one batch of 5 examples."""

    essential = True

    def __init__(self) -> None:
        self.n = 0

    def on_batch(self, batch: Any) -> None:
        self.n += batch.hi - batch.lo
        assert self.n <= 5


def test_each_run_has_observers_of_its_own() -> None:
    models, limit = [streaml1.FTRLClassifier() for _ in range(3)], Limit()
    results = distributed.sweep(models, [({1: 1.0}, True)] * 5, observers=[limit])
    assert [swept.report.examples for swept in results] == [5, 5, 5] and limit.n == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--format", "svmlight"], "standard input cannot be read by several runs"),
        (["x.svm", "--dask", "tcp://h:1", "--ray", "h"], "--dask cannot be combined with --ray"),
        (["stdlib", "--dask", "h"], "Dask scheduler must be tcp://HOST:PORT, got 'h'"),
        (["x.svm", "--l1", "1,b"], "'b' is not a number"),
        (["x.svm", "--l1", "1,2", "--workers", "1"], "x.svm: there is no such file"),
    ],
)
def test_rejected_commands(arguments: list[str], message: str) -> None:
    result = CliRunner().invoke(cli, ["sweep", *arguments])
    assert result.exit_code == 2 and message in result.output
