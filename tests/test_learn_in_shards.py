"""``learn --workers``: the options, the table and the files of a run in shards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import streaml1
from streaml1 import CoinBettingClassifier, ElasticNetClassifier, FTRLClassifier
from streaml1.cli import cli, sharded
from streaml1.cli.termination import Terminated
from streaml1.distributed import TaskFailed, rounds, train
from streaml1.training import convert

SETTINGS: dict[str, Any] = {"shards": 2, "rounds": 2, "warm": 0.1, "probe": 20}
COMMAND = ["--model", "ftrl", "--l1", "0.5", "--workers", "1"]
SHARDS = ["--shards", "2", "--rounds", "2", "--warm", "0.1", "--probe-rows", "20"]


@pytest.fixture(autouse=True)
def few_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rounds, "MIN_SHARD_ROWS", 20)


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    for k, n in enumerate((70, 130)):
        lines = [f"{i % 2} {i % 2 + 1 + i % 5}:1 {i % 3 + 10}:{i % 5 + 1}" for i in range(n)]
        (tmp_path / f"{k}.svm").write_text("\n".join(lines))
        convert(tmp_path / f"{k}.svm", tmp_path / f"part-{k}.rows")
    return str(tmp_path / "part-*.rows")


def invoke(*args: object) -> Any:
    return CliRunner().invoke(cli, ["learn", *map(str, args)])


def test_the_command_is_train(pattern: str, tmp_path: Path) -> None:
    save, report, kept = (tmp_path / name for name in ("x.model", "x.jsonl", "kept"))
    files = ["--save", save, "--report", report, "--checkpoint", kept, "--top", 3]
    result = invoke(pattern, *COMMAND, *SHARDS, *files)
    assert result.exit_code == 0, result.output
    expected = train(FTRLClassifier(l1=0.5), pattern, **SETTINGS)
    assert streaml1.load(save)._encode() == expected.model._encode()
    assert streaml1.load(kept)._encode() == expected.model._encode()
    lines = result.stdout.splitlines()
    assert lines[0] == expected.table().splitlines()[0]
    for line, one in zip(lines[1:], expected.rounds, strict=False):
        assert line.split()[:-1] == expected_cells(one, expected)
    assert "for True" in result.stdout and "200 examples in 2 shards" in result.stdout
    assert lines[-3:] == [f"model: {save}", f"checkpoint: {kept}", f"report: {report}"]
    assert result.stderr.splitlines()[-1] == "4 of 4 rounds"
    written = [json.loads(line) for line in report.read_text().splitlines()]
    assert [line["name"] for line in written] == ["warm-up", "1", "2", "rest"]
    assert written[1]["candidates"][0]["name"] == "sum" and written[1]["loss"] > 0.0
    again = invoke(pattern, *COMMAND, *SHARDS, "--checkpoint", kept)
    assert again.exit_code == 0 and again.stdout.splitlines()[:5] == lines[:5]


def expected_cells(one: Any, trained: Any) -> list[str]:
    """Return the cells of a line of the table, without the seconds."""
    rows = trained._replace(rounds=[one]).table().splitlines()
    return rows[1].split()[:-1]


@pytest.mark.parametrize(
    ("options", "model"),
    [([], ElasticNetClassifier()), (["--model", "coin"], CoinBettingClassifier())],
)
def test_models_without_a_rate(
    pattern: str, tmp_path: Path, options: list[str], model: Any
) -> None:
    """They learn in two processes; in one shard, they have the bits of one learner."""
    save, whole = tmp_path / "x.model", tmp_path / "whole.model"
    result = invoke(pattern, *options, "--workers", 2, *SHARDS, "--save", save)
    assert result.exit_code == 0, result.output
    expected = train(model, pattern, **SETTINGS)
    assert streaml1.load(save)._encode() == expected.model._encode()
    one = str(tmp_path / "part-1.rows")
    in_shards = ["--workers", 1, "--shards", 1, "--rounds", 1, "--warm", 0]
    for target, extra in ((save, in_shards), (whole, [])):
        result = invoke(one, *options, *extra, "--save", target)
        assert result.exit_code == 0, result.output
    assert streaml1.load(save)._encode() == streaml1.load(whole)._encode()


def test_a_model_learns_on(pattern: str, tmp_path: Path) -> None:
    base = FTRLClassifier(l1=0.5)
    streaml1.progressive(base, tmp_path / "0.svm")
    base.save(tmp_path / "base.model")
    files = ["--load", tmp_path / "base.model", "--save", tmp_path / "x.model"]
    result = invoke(pattern, "--shards", 1, "--workers", 1, *files)
    assert result.exit_code == 0, result.output
    for name in ("0.svm", "1.svm"):
        streaml1.progressive(base, tmp_path / name)
    assert streaml1.load(tmp_path / "x.model")._encode() == base._encode()


def test_a_worker_that_dies_again_and_again(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*args: Any, **options: Any) -> Any:
        raise TaskFailed("a.rows:1-7 (round 3)", 0)

    monkeypatch.setattr("streaml1.distributed.train", fail)
    result = invoke(pattern, *COMMAND, "--save", tmp_path / "x.model")
    assert result.exit_code == 75 and "a.rows:1-7 (round 3) was tried 3 times" in result.stderr
    assert not (tmp_path / "x.model").exists()


def test_a_signal_ends_the_run(
    pattern: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any, **options: Any) -> Any:
        raise Terminated(15)

    monkeypatch.setattr("streaml1.distributed.train", interrupt)
    result = invoke(pattern, *COMMAND, "--checkpoint", tmp_path / "kept")
    assert result.exit_code == 143
    assert f"interrupted; {tmp_path / 'kept'} holds the rounds that were merged" in result.stderr
    result = invoke(pattern, *COMMAND)
    assert result.exit_code == 143 and "interrupted; nothing was written" in result.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--every", "5"], "--every cannot be combined with --workers or --shards"),
        (["--passes", "2"], "--passes cannot be combined with --workers or --shards"),
        (["--bad", "skip"], "--bad cannot be combined with --workers or --shards"),
        (["--model", "l1-ball"], "L1BallClassifier does not support it"),
        (["--shards", "11"], "--shards must be <= 10 for 200 rows, one for 20 rows, got 11"),
        (["--rounds", "400"], "--rounds 400, --shards 4 and --probe-rows 2000; lower one of them"),
        (["--warm", "1"], "Invalid value for '--warm'"),
        (["--dask", "tcp://h:1", "--ray", "h"], "--dask cannot be combined with --ray"),
    ],
)  # fmt: skip
def test_rejected_options(pattern: str, options: list[str], message: str) -> None:
    given = {"--model": "ftrl", "--workers": "1", **pairs(options)}
    result = invoke(pattern, *(text for pair in given.items() for text in pair))
    assert result.exit_code == 2 and message in result.output


def pairs(options: list[str]) -> dict[str, str]:
    return dict(zip(options[::2], options[1::2], strict=True))


def test_options_of_shards_alone(pattern: str, tmp_path: Path) -> None:
    result = invoke(pattern, "--rounds", "2")
    assert "--rounds requires --workers, --dask, --ray or --shards" in result.output
    result = invoke(tmp_path / "0.svm", *COMMAND)
    assert result.exit_code == 2 and "require .rows files, got svmlight: write" in result.output
    result = invoke(tmp_path / "0.csv", "--target", "y", *COMMAND)
    assert result.exit_code == 2 and "require .rows files, got csv: write" in result.output
    result = invoke(pattern, *COMMAND, "--save", tmp_path / "part-0.rows")
    assert result.exit_code == 2 and "is also SOURCE" in result.output


def test_the_default_number_of_shards() -> None:
    assert sharded.DEFAULT_SHARDS == rounds.MAX_SHARDS
