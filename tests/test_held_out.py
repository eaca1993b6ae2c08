"""Held-out rows of runs with several passes, and the model of the best pass."""

from __future__ import annotations

import contextlib
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import click
import numpy as np
import pytest
import scipy.sparse as sp
from click.testing import CliRunner, Result
from river import preprocessing

import streaml1
from streaml1.cli import cli
from streaml1.cli.options import Holdout
from streaml1.core import jit
from streaml1.core.rows import BadExample
from streaml1.sources import Block, open_source
from streaml1.sources.readers import chunks, text_file
from streaml1.training import Batch, Observer, RunConfig, progressive
from streaml1.training.checkpoint import CheckpointError, Checkpoints
from streaml1.training.example_sources import select_rows
from streaml1.training.held_out import HeldOut

Rows = list[tuple[dict[Any, float], Any]]
CLOCK = {"seconds": 0.0, "per_second": 0.0}


pytestmark = pytest.mark.usefixtures("cwd")


def noisy_rows(n: int, seed: int = 1, n_features: int = 60) -> Rows:
    """Return few rows of many features: a model without a penalty learns them by heart."""
    rng = np.random.default_rng(seed)
    rows: Rows = []
    for _ in range(n):
        ids = np.sort(rng.choice(n_features, 6, replace=False))  # margins are sums in this order
        values = rng.normal(size=6)
        y = values[ids < 10].sum() + rng.normal() > 0.0
        rows.append(({int(k): float(v) for k, v in zip(ids, values, strict=True)}, bool(y)))
    return rows


def as_svm(rows: Rows, name: str = "a.svm") -> str:
    lines = [f"{int(y)} " + " ".join(f"{k}:{v!r}" for k, v in sorted(x.items())) for x, y in rows]
    Path(name).write_text("\n".join(lines) + "\n")
    return name


def new_model(**params: Any) -> Any:
    return streaml1.ElasticNetClassifier(**{"lr": 0.5, "schedule": "constant"} | params)


def state(model: Any) -> Any:
    return dict(model.weights), model.intercept, model.n_iterations


def log_loss(p: float, y: bool) -> float:
    return -math.log(p if y else 1.0 - p)


class Twin:
    """Passes with held-out rows as a loop over single examples.

    A batch ends at each multiple of `batch` examples of the run, and of each pass (where a block
    of the source ends), and with a pass.
    """

    def __init__(self, rows: Rows, passes: int, every: int, model: Any, batch: int) -> None:
        self.losses: list[float] = []  # of the held-out rows, by pass
        self.progressive: list[float] = []  # of all rows of the first pass
        states = []
        n = 0
        for number in range(passes):
            held_out: dict[int, float] = {}
            costs: list[float] = []
            for line, (x, y) in enumerate(rows, start=1):
                if (line - 1) % batch == 0 or n % batch == 0:  # predict those of this batch
                    size = min(batch - n % batch, batch - (line - 1) % batch)
                    last = min(line + size, len(rows) + 1)
                    for k in range(line, last):
                        if k % every == 0:
                            ahead, label = rows[k - 1]
                            held_out[k] = log_loss(model.predict_proba_one(ahead)[True], label)
                if line % every:
                    costs.append(log_loss(model.predict_proba_one(x)[True], y))
                    model.learn_one(x, y)
                else:
                    costs.append(held_out[line])
                n += 1
            if number == 0:
                self.progressive = costs
            self.losses.append(math.fsum(held_out.values()) / len(held_out))
            states.append(state(model))
        self.best = int(np.argmin(self.losses))
        self.state = states[self.best]
        self.states = states


@pytest.mark.parametrize("kind", ["svm", "dicts", "csr", "pipeline"])
@pytest.mark.parametrize("every", [3, 10])
def test_run_equals_a_loop(kind: str, every: int) -> None:
    rows = noisy_rows(95)
    twin = Twin(rows, 5, every, new_model(), 40)
    assert twin.best < 4, "the last pass is not the best: learnt by heart"
    model = new_model()
    source: Any = rows
    if kind == "svm":
        source = as_svm(rows)
    elif kind == "csr":
        dense = np.zeros((len(rows), 60))
        for row, (x, _) in enumerate(rows):
            dense[row, list(x)] = list(x.values())
        source = sp.csr_matrix(dense), [y for _, y in rows]
    trained = preprocessing.StandardScaler(with_std=False) | model if kind == "pipeline" else model
    report = progressive(trained, source, passes=5, holdout=every, every=40)
    if kind == "pipeline":  # the scaler shifts features: compare with the pipeline itself
        assert report.kept is not None and report.kept[1] == 5
        return
    assert state(model) == twin.state
    assert report.kept == (twin.best + 1, 5, pytest.approx(twin.losses[twin.best]))
    first, *later = ([line for line in report.lines if line.pass_number == k + 1] for k in range(5))
    assert [line.examples for line in first] == [40, 80, 95]
    assert first[-1].loss == pytest.approx(np.mean(twin.progressive))
    for lines, loss in zip(later, twin.losses[1:], strict=True):
        assert lines[-1].loss == pytest.approx(loss)
    assert all(line.held_out == (line.pass_number > 1) for line in report.lines)
    assert report.lines[-1].examples == 5 * 95


def test_last_pass_may_be_the_best() -> None:
    rows = noisy_rows(400, n_features=12)
    model = new_model(lr=0.01)
    twin = Twin(rows, 3, 10, new_model(lr=0.01), 1000)
    report = progressive(model, rows, passes=3)
    assert twin.best == 2 and state(model) == twin.state
    assert report.kept == (3, 3, pytest.approx(twin.losses[2]))
    assert "; kept the model of pass 3 of 3 (held-out log-loss 0." in report.summary()


def test_zero_holds_out_nothing() -> None:
    rows = noisy_rows(40)
    model, twin = new_model(), new_model()
    report = progressive(model, rows, passes=2, holdout=0, every=30)
    for x, y in rows * 2:
        twin.learn_one(x, y)
    assert state(model) == state(twin)
    assert [line.examples for line in report.lines] == [30, 60, 80]
    assert report.kept is None and not any(line.held_out for line in report.lines)


def test_single_pass_holds_out_nothing_unless_asked() -> None:
    rows = noisy_rows(40)
    model = new_model()
    assert progressive(model, rows).kept is None and model.n_iterations == 40
    model = new_model()
    report = progressive(model, rows, holdout=4)
    assert model.n_iterations == 30 and report.examples == 40 and report.kept is None


def test_too_few_rows_to_hold_out() -> None:
    rows = noisy_rows(9)
    model, twin = new_model(), new_model()
    report = progressive(model, rows, passes=3)
    progressive(twin, rows, passes=3, holdout=0)
    assert state(model) == state(twin) and report.kept is None
    assert report.lines[-1].loss is not None and not report.lines[-1].held_out


@pytest.mark.parametrize("value", [1, -1, True, 2.0, "3"])
def test_invalid_holdout(value: Any) -> None:
    with pytest.raises(ValueError, match="holdout must be 0 or an integer >= 2, got"):
        RunConfig(holdout=value)
    with pytest.raises(ValueError, match="holdout must be 0 with delayed labels, got 5"):
        RunConfig(holdout=5, label_within=1.0)


def test_rejected_rows_do_not_shift_the_choice() -> None:
    rows = noisy_rows(60)
    lines = Path(as_svm(rows)).read_text().splitlines()
    lines[6] = "spam"
    Path("b.svm").write_text("\n".join(lines) + "\n")
    seen: list[int] = []

    class HeldOutLines(Observer):
        def on_batch(self, batch: Batch) -> None:
            if batch.held_out is not None:
                lines = np.asarray(batch.block.lines[batch.lo : batch.hi])
                seen.extend(lines[batch.held_out].tolist())

    model = new_model()
    progressive(model, "b.svm", passes=2, bad="skip", observers=[HeldOutLines()])
    assert seen == [10, 20, 30, 40, 50, 60] * 2
    bad = noisy_rows(30)
    bad[9] = ({1: math.inf}, True)  # a held-out row that no model accepts
    with pytest.raises(BadExample, match="examples:10"):
        progressive(new_model(), bad, passes=2)
    assert progressive(new_model(), bad, passes=2, bad="skip").rejected == 2


def test_limit_ends_each_pass() -> None:
    rows = noisy_rows(95)
    twin = Twin(rows[:57], 4, 10, new_model(), 30)
    model = new_model()
    report = progressive(model, as_svm(rows), passes=4, limit=57, every=30)
    assert state(model) == twin.state and report.examples == 4 * 57
    assert report.kept is not None and report.kept[0] == twin.best + 1


def test_softmax_leaves_out_labels_that_were_never_learnt() -> None:
    rows: Rows = [(x, "ab"[y]) for x, y in noisy_rows(60)]
    rows[9] = rows[9][0], "only held out"
    model = streaml1.SoftmaxClassifier(lr=0.5)
    report = progressive(model, rows, passes=2)
    assert set(model.classes_met) == {"a", "b"}
    assert report.examples == 2 * 60 and report.lines[-1].held_out


def test_regression() -> None:
    rows: Rows = [(x, float(y) + 0.5) for x, y in noisy_rows(80)]
    report = progressive(streaml1.ElasticNetRegressor(lr=0.05), rows, passes=3)
    assert report.kept is not None and "held-out squared loss" in report.summary()


def test_recent_loss_and_baseline_are_of_held_out_rows() -> None:
    rows = noisy_rows(100)
    report = progressive(new_model(), rows, passes=2, holdout=5, every=50)
    labels = [y for line, (_, y) in enumerate(rows, start=1) if line % 5 == 0]
    expected, n_true = 0.0, 0
    for n, y in enumerate(labels):
        p = (n_true + 0.5) / (n + 1.0)
        expected += log_loss(p, y) / len(labels)
        n_true += y
    last = report.lines[-1]
    assert last.constant_loss == pytest.approx(expected)
    assert last.rate == pytest.approx(np.mean(labels))
    halves = [line for line in report.lines if line.held_out]
    assert [line.examples for line in halves] == [150, 200]
    assert None not in (halves[0].recent_loss, halves[1].recent_loss, last.loss)
    assert (halves[0].recent_loss + halves[1].recent_loss) / 2 == pytest.approx(last.loss)  # type: ignore[operator]
    assert sum(b.examples for b in report.reliability()) == len(labels)


# Checkpoints


def without_clock(report: Any) -> list[Any]:
    return [replace(line, **CLOCK) for line in report.lines]


@pytest.mark.parametrize("kind", ["every step", "limit"])
def test_resumed_run_is_bit_identical(kind: str) -> None:
    source = as_svm(noisy_rows(95))
    options: dict[str, Any] = {"passes": 4, "every": 30}
    if kind == "limit":
        options["limit"] = 70
    expected = new_model()
    expected_report = progressive(expected, source, checkpoint="whole", **options)
    n_runs = 0
    while True:
        model = new_model()
        calls = iter(range(10**6))

        def stop(calls: Any = calls) -> bool:
            return next(calls) >= 6  # after a block or two

        with Checkpoints("kept", seconds=0) as store:
            report = progressive(model, source, checkpoint=store, stop=stop, **options)
        n_runs += 1
        if report.kept is not None:
            break
        assert n_runs < 60
    assert n_runs > 4
    assert state(model) == state(expected) and report.kept == expected_report.kept
    assert without_clock(report) == without_clock(expected_report)
    # A finished run that is started again keeps the same model.
    again = new_model()
    assert progressive(again, source, checkpoint="kept", **options).kept == report.kept
    assert state(again) == state(expected)


@pytest.mark.parametrize("kind", ["one file", "two files"])
@pytest.mark.parametrize("end", ["stopped", "killed"])
def test_held_out_loss_does_not_depend_on_interruptions(
    kind: str, end: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A resumed run reads chunks that end elsewhere, but blocks that end at the same lines."""
    monkeypatch.setattr(chunks, "FIRST_CHUNK", 700)
    monkeypatch.setattr(chunks, "MIN_CHUNK", 1900)
    monkeypatch.setattr(chunks, "CHUNK", 1900)
    monkeypatch.setattr(text_file, "FULL_EXAMPLES", 4)
    rows = noisy_rows(300)
    parts = [rows] if kind == "one file" else [rows[:170], rows[170:]]
    source: Any = [as_svm(part, f"{k}.svm") for k, part in enumerate(parts)]
    source = source[0] if kind == "one file" else source
    expected = new_model()
    expected_report = progressive(expected, source, passes=2, every=50, checkpoint="whole")
    for n_blocks in (1, 3, 8):
        directory = f"kept-{n_blocks}"
        blocks: list[int] = []

        class Interruption(Observer):
            essential = True

            def on_block_end(self, blocks: list[int] = blocks, n: int = n_blocks) -> None:
                blocks.append(1)
                if end == "killed" and len(blocks) == n:
                    raise KeyboardInterrupt

        def stop(blocks: list[int] = blocks, n: int = n_blocks) -> bool:
            return end == "stopped" and len(blocks) >= n

        for observers in ([Interruption()], []):
            model = new_model()
            with (
                Checkpoints(directory, seconds=0) as store,
                contextlib.suppress(KeyboardInterrupt),
            ):
                options = {"passes": 2, "every": 50, "observers": observers}
                options["stop"] = stop if observers else None
                report = progressive(model, source, checkpoint=store, **options)
        assert state(model) == state(expected) and report.kept == expected_report.kept
        assert without_clock(report) == without_clock(expected_report)


def test_finished_run_continues_with_more_passes() -> None:
    rows = noisy_rows(95)
    source = as_svm(rows)
    model = new_model()
    progressive(model, source, passes=2, checkpoint="kept")
    model = new_model()
    report = progressive(model, source, passes=4, checkpoint="kept")
    expected = new_model()
    assert progressive(expected, source, passes=4).kept == report.kept
    assert state(model) == state(expected)
    # The checkpoint holds the state of the last pass, from which a run continues.
    assert state(streaml1.load("kept")) == Twin(rows, 4, 10, new_model(), 1000).states[-1]


def test_fewer_passes_than_before_are_rejected() -> None:
    """The passes are over: it would not notice new lines, or another source."""
    source = as_svm(noisy_rows(50))
    progressive(new_model(), source, passes=3, checkpoint="kept")
    with Path(source).open("a") as file:
        file.write("1 3:1\n")
    message = "kept is in pass 3 of its source, got passes=2; use passes=3 or more, or another dir"
    with pytest.raises(CheckpointError, match=message):
        progressive(new_model(), source, passes=2, checkpoint="kept")
    report = progressive(new_model(), source, passes=3, checkpoint="kept")
    assert report.examples == 151
    result = run("learn", source, "--lr", "0.5", "--schedule", "constant", "--checkpoint", "kept")
    assert result.exit_code == 2 and result.stderr == (
        "streaml1: kept is in pass 3 of its source, got --passes 1; use --passes 3 or more, or "
        "another directory\n"
    )


def test_rows_that_were_learnt_are_not_held_out_later() -> None:
    source = as_svm(noisy_rows(50))
    progressive(new_model(), source, checkpoint="kept")
    model = new_model()
    report = progressive(model, source, passes=2, checkpoint="kept")
    assert model.n_iterations == 100 and report.kept is None
    with pytest.raises(CheckpointError, match="kept belongs to a run with holdout=0, got 5; leave"):
        progressive(new_model(), source, passes=2, holdout=5, checkpoint="kept")


# Command line


def run(*args: str) -> Result:
    return CliRunner().invoke(cli, list(args))


def test_table_says_held_out() -> None:
    source = as_svm(noisy_rows(95))
    args = ["learn", source, "--lr", "0.5", "--schedule", "constant", "--every", "50"]
    result = run(*args, "--passes", "3", "--save", "m", "--report", "r.jsonl", "--top", "0")
    assert result.exit_code == 0, result.output
    model = new_model()
    report = progressive(model, source, passes=3, every=50)
    assert state(streaml1.load("m")) == state(model)
    assert result.stdout.count("held-out held-out") == 1
    assert report.table().count("held-out held-out") == 1
    assert "\n" + "\n".join(report.summary_lines()) + "\n" in result.stdout
    assert re.search(r"^kept the model of +pass \d of 3 \(held-out log-loss 0", result.stdout, re.M)
    lines = [json.loads(line) for line in Path("r.jsonl").read_text().splitlines()]
    assert [(line["pass_number"], line["held_out"]) for line in lines] == [
        (line.pass_number, line.held_out) for line in report.lines
    ]
    single = run(*args, "--holdout", "0", "--passes", "2", "--top", "0")
    assert "held-out" not in single.stdout and "kept the model" not in single.stdout


@pytest.mark.parametrize(
    ("value", "every"),
    [("0", 0), ("10", 10), ("0.1", 10), ("0.25", 4), ("0.333", 3), ("0.5", 2), ("1", 1)],
)
def test_a_share_is_held_out(value: str, every: int) -> None:
    assert Holdout().convert(value, None, None) == every


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("0.9", "must be a share that is one N-th, such as 0.5, got 0.9"),
        ("0.3", "must be a share that is one N-th, such as 0.3333, got 0.3"),
        *((value, "must be a share such as 0.1, or a whole number, got") for value in
          ("-1", "2.5", "inf", "nan", "a")),
    ],
)  # fmt: skip
def test_invalid_shares(value: str, message: str) -> None:
    with pytest.raises(click.BadParameter, match=message):
        Holdout().convert(value, None, None)


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--holdout", "1"], "--holdout must be 0 or at least 2, got 1: it would leave nothing"),
        (["--holdout", "4", "--regret"], "--regret cannot be combined with --holdout"),
    ],
)
def test_command_rejects(args: list[str], message: str) -> None:
    result = run("learn", as_svm(noisy_rows(9)), *args)
    assert result.exit_code == 2 and message in result.stderr


@pytest.mark.parametrize("kind", ["svm", "vw", "rows"])
@pytest.mark.parametrize("lo", [0, 7])
def test_selected_rows_equal_those_of_a_list(kind: str, lo: int) -> None:
    source = as_svm(noisy_rows(40))
    if kind != "svm":
        lines = [line.replace(" ", " | ", 1) for line in Path(source).read_text().splitlines()]
        text = "\n".join(lines) + "\n"
        Path("a.vw").write_text(text)
        source = "a.vw"
    if kind == "rows":
        streaml1.training.convert("a.vw", "a.rows")
        source = "a.rows"
    (block,) = open_source(source).blocks(100, lambda *error: None)
    x = block.x[lo:]
    for rows in ([], [0], [3, 4, 20], list(range(len(x)))):
        part = select_rows(x, np.array(rows, np.int64))
        assert list(part) == [x[row] for row in rows]
        if jit.COMPILED or kind == "rows":  # interpreted, lines are parsed to a list of dicts
            keys, values, indptr = part.csr()
            assert len(part) == len(rows) and indptr[-1] == len(keys) == len(values)
        assert list(select_rows(list(x), np.array(rows, np.int64))) == list(part)
        model, twin = new_model(), new_model()
        if rows:
            labels = [row % 2 == 0 for row in rows]
            model.learn_many(part, labels)
            twin.learn_many([x[row] for row in rows], labels)
            assert state(model) == state(twin)


class Record(NamedTuple):
    partition: int
    offset: int


def test_records_of_a_topic_are_chosen_by_offset() -> None:
    """Partitions arrive in any order, and a resumed run counts its lines from 1."""
    rows = [(p, offset) for offset in range(40) for p in (0, 1)]

    class Records(Block):
        def origin(self, row: int) -> Any:
            return Record(*rows[row])

    block = Records([{}] * 80, [], None, "topic", range(1, 81))
    for lo, hi in ((0, 80), (13, 61)):
        mask = HeldOut(10).mask(block, lo, hi)
        assert mask is not None
        assert mask.tolist() == [offset % 10 == 9 for _, offset in rows[lo:hi]]
    assert HeldOut(10).mask(block, 0, 17) is None is HeldOut(0).mask(block, 0, 80)
