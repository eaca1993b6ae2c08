"""The command line: output, written files, rejected arguments and exit codes."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import click
import pytest

import streaml1
from streaml1.cli import cli
from streaml1.training import progressive
from tests.command import error_of, run
from tests.conftest import WARM

ROOT = Path(__file__).parent.parent
LEARN = ["learn", "--l1", "1e-3", "--lr", "0.1"]


pytestmark = pytest.mark.usefixtures("cwd")


ROWS = [f"{'+1' if i % 3 else '-1'} {i % 7}:1 {10 + i % 11}:0.5" for i in range(100)]


@pytest.fixture
def svm(cwd: Path) -> str:
    """Write `ROWS` to a file and return its name."""
    (cwd / "a.svm").write_text("\n".join(ROWS) + "\n")
    return "a.svm"


@pytest.fixture
def saved_model(svm: str) -> str:
    """Save a model that has learnt `svm` and return its name."""
    run(*LEARN, svm, "--save", "old.model")
    return "old.model"


def file_contents() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


# learn


OPTIONS = {
    "adaptive": (["--lr", "0.5", "--delta", "0.2"], {"lr": 0.5, "delta": 0.2}),
    "coin": (["--wealth", "2", "--l1", "3"], {"wealth": 2.0, "l1": 3.0}),
    "eg": (
        ["--radius", "3", "--n-features", "30", "--nonnegative"],
        {"radius": 3.0, "n_features": 30, "nonnegative": True},
    ),
    "elastic-net": (["--l2", "0.1", "--update", "sgd"], {"l2": 0.1, "update": "sgd"}),
    "fobos": (["--strength", "0.01", "--norm", "linf"], {"strength": 0.01, "norm": "linf"}),
    "ftrl": (["--alpha", "0.5", "--beta", "2"], {"alpha": 0.5, "beta": 2.0}),
    "l1-ball": (
        ["--radius", "0.2", "--nonnegative", "--index", "tree"],
        {"radius": 0.2, "nonnegative": True, "index": "tree"},
    ),
    "pegasos": (["--l2", "0.01", "--no-project"], {"l2": 0.01, "project": False}),
    "smidas": (["--l1", "1e-3", "--p", "5"], {"l1": 1e-3, "p": 5.0}),
    "softmax": (["--penalty", "l1/l2", "--strength", "0.1"], {"penalty": "l1/l2", "strength": 0.1}),
    "truncated-gradient": (["--gravity", "0.1", "--period", "7"], {"gravity": 0.1, "period": 7}),
}


@pytest.mark.parametrize("learner", OPTIONS)
def test_options_of_learners_are_saved_and_shown(svm: str, learner: str) -> None:
    options, expected = OPTIONS[learner]
    run("learn", svm, "--model", learner, *options, "--save", "m")
    model, shown = streaml1.load("m"), run("show", "m").stdout
    assert type(model).__name__ in shown and model.n_iterations == 100
    for name, value in expected.items():
        assert getattr(model, name) == value
        text = f"{value:g}" if isinstance(value, float) else value
        assert re.search(rf"(?m)^  {name} +{text}$", shown)


@pytest.mark.parametrize("name", ["elastic-net", "truncated-gradient", "pegasos"])
def test_averages_are_reported_and_saved(svm: str, name: str) -> None:
    for path, option in (("mean.model", ["--average"]), ("last.model", [])):
        run("learn", svm, "--model", name, *option, "--report", f"{path}.jsonl", "--save", path)
    mean, last = streaml1.load("mean.model"), streaml1.load("last.model")
    lines = [json.loads(line) for line in Path("mean.model.jsonl").read_text().splitlines()]
    assert lines[-1]["n_nonzero"] == mean.n_nonzero == len(mean.weights)
    assert mean.weights != last.weights and mean.intercept != last.intercept
    shown = run("show", "mean.model").stdout
    assert re.search(r"average +True", shown)
    assert f"{mean.intercept:.6g}" in shown
    run("learn", svm, "--load", "mean.model", "--average", "--save", "mean.model")
    assert streaml1.load("mean.model").n_iterations == 200
    message = error_of("learn", svm, "--load", "last.model", "--average")
    assert "--average cannot change from False to True for last.model: omit it" in message


def test_learn_prints_a_table_and_writes_outputs(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "112")  # the width of all columns of the default
    result = run(*LEARN, svm, "--every", "40", "--plot", "a.png", "--report", "a.jsonl")
    assert result.stderr == ""
    lines = result.stdout.split("\n")
    assert lines[0].split() == [
        "log-loss", "log-loss", "calibr.", "calibr.", "non-", "features", "per",
    ]  # fmt: skip
    assert lines[1].split() == [
        "examples", "(recent)", "(all)", "baseline", "error", "(recent)", "(all)", "zeros",
        "seen", "sparsity", "added", "dropped", "second",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:5]] == ["40", "80", "100"]
    assert len({len(line) for line in lines[1:5]}) == 1, "columns are of a fixed width"
    assert lines[6].split() == ["weight", "for", "True", "weight", "for", "False"]
    first = next(k for k, line in enumerate(lines) if line.startswith("examples "))
    assert re.match(r"examples +100$", lines[first])
    assert re.match(r"log-loss +0\.\d+, baseline 0\.\d+ \(lower is better\)$", lines[first + 1])
    places = [re.match(r"[^ ]+( [^ ]+)* {2,}", line) for line in lines[first : first + 5]]
    assert None not in places
    assert len({place.end() for place in places if place}) == 1, "the figures are aligned"
    assert lines[-3:] == ["report: a.jsonl", "a.png", ""]
    assert Path("a.png").read_bytes()[1:4] == b"PNG"
    report = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert [line["examples"] for line in report] == [40, 80, 100]


def test_learn_equals_the_library(svm: str) -> None:
    run(*LEARN, svm, "--save", "a.model", "--l2", "0.01", "--update", "sgd", "--loss", "hinge",
        "--lr", "0.3", "--schedule", "constant", "--intercept-lr", "0.1", "--intercept-init",
        "0.5", "--clip-gradient", "2", "--limit", "60", "--passes", "2")  # fmt: skip
    model = streaml1.ElasticNetClassifier(
        l1=1e-3, l2=0.01, update="sgd", loss="hinge", lr=0.3, schedule="constant",
        intercept_lr=0.1, intercept_init=0.5, clip_gradient=2.0,
    )  # fmt: skip
    progressive(model, svm, limit=60, passes=2)
    loaded = streaml1.load("a.model")
    assert loaded.weights == model.weights and loaded.intercept == model.intercept
    assert repr(loaded) == repr(model)


def test_defaults_match_the_library(svm: str) -> None:
    run("learn", svm, "--save", "a.model")
    assert repr(streaml1.load("a.model")) == repr(streaml1.ElasticNetClassifier(lr="auto"))
    for option, params in (
        (["--schedule", "invsqrt"], {"lr": 0.1}),
        (["--stamps", "explicit"], {"stamps": "explicit"}),
        (["--average"], {"average": True}),
        (["--lr", "auto"], {"lr": "auto"}),
        (["--no-average"], {"lr": "auto"}),  # the default
        (["--stamps", "folded"], {"lr": "auto"}),
    ):
        run("learn", svm, *option, "--save", "b.model")
        assert repr(streaml1.load("b.model")) == repr(streaml1.ElasticNetClassifier(**params))


def test_top_weights_are_listed_by_label(svm: str) -> None:
    model = streaml1.ElasticNetClassifier(l1=1e-3, lr=0.1)
    progressive(model, svm)
    ranked = [(str(name), w) for name, w in model.top_weights(100)]
    positive = [name for name, w in ranked if w > 0]
    negative = [name for name, w in ranked if w < 0]
    assert len(positive) > 2 > len(negative) == 1
    shown = run(*LEARN, svm, "--top", "2").stdout.split("for False\n")[1].split("\n\n")[0]
    assert [line.split()[1::2] for line in shown.split("\n")] == [
        [positive[0], negative[0]],
        [positive[1]],
    ]
    assert "for True" not in run(*LEARN, svm, "--top", "0").stdout


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        (["a.svm"], "ElasticNetClassifier"),
        (["a.svm", "--loss", "squared"], "ElasticNetRegressor"),
        (["a.svm", "--task", "regression"], "ElasticNetRegressor"),
        (["a.svm", "--loss", "smoothed_hinge"], "ElasticNetClassifier"),
        (["river:Phishing"], "ElasticNetClassifier"),
        (["river:ChickWeights", "--lr", "1e-4"], "ElasticNetRegressor"),
    ],
)
def test_task_is_inferred_from_the_loss_or_the_river_dataset(
    args: list[str], kind: str, svm: str
) -> None:
    result = run("learn", *args, "--save", "a.model")
    assert type(streaml1.load("a.model")).__name__ == kind
    assert ("raise the value" in result.stdout) == (kind == "ElasticNetRegressor")


@pytest.mark.parametrize("categorical", [["shop,day"], ["shop", "--categorical", "day"]])
def test_csv_column_options(categorical: list[str]) -> None:
    rows = ["shop,day,price,sold,n", "fr,mo,2,1,3", "de,tu,1,0,1", "de,,,0,1"]
    Path("a.csv").write_text("\n".join(rows) + "\n")
    columns = ["--target", "sold", "--weight", "n", "--categorical", *categorical]
    run("learn", "a.csv", *columns, "--save", "a.model")
    names = {"shop=fr", "shop=de", "day=mo", "day=tu", "price"}
    assert set(streaml1.load("a.model").weights) == names
    out = run("predict", "a.model", "a.csv", *columns).stdout.split()
    assert len(out) == 3 and float(out[0]) > float(out[1])
    args = ["--target", "sold", "--ignore", "day", "--ignore", "n,price", "--categorical", "shop"]
    run("learn", "a.csv", *args, "--save", "a.model")
    assert set(streaml1.load("a.model").weights) == {"shop=fr", "shop=de"}


def test_resuming_with_other_columns_is_rejected() -> None:
    Path("a.csv").write_text("a,b,day,y\n1,x,3,1\n2,z,4,0\n")
    columns = ["--target", "y", "--categorical", "b", "--checkpoint", "kept"]
    run("learn", "a.csv", *columns)
    Path("a.csv").write_text("a,b,day,y\n1,x,3,1\n2,z,4,0\n3,x,4,1\n")
    for changed, difference in [
        (["--categorical", "day"], "its categorical is ['b'], that of a.csv is ['b', 'day']"),
        (["--target", "day"], "its target is 'y', that of a.csv is 'day'"),
        (["--weight", "a"], "its weight is None, that of a.csv is 'a'"),
        (["--ignore", "a"], "its ignore is [], that of a.csv is ['a']"),
        (["--delimiter", "tab"], r"its delimiter is ',', that of a.csv is '\t'"),
    ]:
        message = error_of("learn", "a.csv", *columns, *changed)
        assert difference in message and message.endswith("use another directory")
    assert re.search(r"^examples +3$", run("learn", "a.csv", *columns).stdout, re.M)


def test_auto_rate_model_cannot_change_rate_or_loss(svm: str) -> None:
    run("learn", svm, "--save", "m")
    for option, initial in ((["--lr", "0.3"], "auto"), (["--loss", "hinge"], "logistic")):
        message = error_of("learn", svm, "--load", "m", *option)
        assert message == (
            f"{option[0]} cannot change from {initial} to {option[1]} for m: omit it or start a "
            "new model without --load"
        )


def test_run_without_new_examples_says_so(svm: str) -> None:
    args, sentence = ("learn", svm, "--checkpoint", "kept"), "no new examples since the checkpoint"
    assert sentence not in run(*args).stdout
    assert run(*args).stdout.endswith(f"checkpoint: kept\n{sentence}\n")


def test_checkpoint_folder_is_accepted_as_a_model(svm: str) -> None:
    run("learn", svm, "--l1", "1e-4", "--checkpoint", "kept", "--save", "m")
    folder, file = streaml1.load("kept"), streaml1.load("m")
    assert folder.weights == file.weights and folder.n_iterations == file.n_iterations
    assert run("show", "kept").stdout == run("show", "m").stdout
    assert run("predict", "kept", svm).stdout == run("predict", "m", svm).stdout
    assert run("learn", svm, "--load", "kept").stdout.endswith("sparse\n")
    Path("empty").mkdir()
    message = "empty is a directory without a checkpoint; give a model file"
    assert error_of("show", "empty") == error_of("predict", "empty", svm) == message


def test_damaged_checkpoint_is_passed_over_with_a_warning(svm: str) -> None:
    """The model is an older one."""
    run("learn", svm, "--checkpoint", "kept", "--limit", "5")
    run("learn", svm, "--checkpoint", "kept")
    latest = max(Path("kept").glob("*.checkpoint"))
    latest.write_bytes(b"damaged")
    warning = f"streaml1: {latest} is not a checkpoint, or is truncated; using the previous"
    for command in (
        ["show", "kept"], ["predict", "kept", svm], ["evaluate", "kept", svm],
        ["diff", "kept", "kept"], ["learn", svm, "--load", "kept"],
        ["merge", "kept", "kept", "-o", "m", "--probe", svm],
    ):  # fmt: skip
        result = run(*command)
        assert result.stderr.count(warning) == command.count("kept"), (command, result.stderr)
    shown = run("show", "kept").stdout
    assert "examples learnt   5\n" in shown


def test_directory_of_a_group_is_no_model(svm: str) -> None:
    run("learn", svm, "--checkpoint", "kept/t-0")
    run("learn", svm, "--checkpoint", "kept/t-10")
    message = (
        "kept holds a model per partition: give one of them, such as kept/t-0, or merge them with "
        "streaml1 merge kept -o FILE --probe SOURCE"
    )
    commands: list[list[str]] = [["show", "kept"], ["predict", "kept", svm], ["serve", "kept"]]
    for command in commands:
        assert error_of(*command) == message


def test_unreadable_partitions_are_reported(svm: str) -> None:
    run("learn", svm, "--checkpoint", "kept/t-0")
    for file in Path("kept/t-0").glob("*.checkpoint"):
        file.write_bytes(b"damaged")
    message = error_of("partitions", "kept", code=65)
    assert message.startswith("kept/t-0 holds no readable checkpoint: ")


def test_checkpoint_stores_the_text_columns() -> None:
    Path("a.csv").write_text("y,t\n1,hello you\n0,bye you\n")
    run("learn", "a.csv", "--target", "y", "--text", "t", "--checkpoint", "kept")
    run("learn", "a.csv", "--target", "y", "--load", "kept", "--save", "m")
    assert set(streaml1.load("m").weights) == {"t=hello", "t=bye", "t=you"}
    message = error_of("learn", "a.csv", "--target", "y", "--load", "m", "--plot", "m")
    assert message == "--plot m is the model that is read; choose another name"
    run("learn", "a.csv", "--target", "y", "--load", "m", "--save", "m")


@pytest.mark.parametrize("model", ["elastic-net", "softmax", "pegasos"])
def test_predict_warns_if_no_feature_has_a_weight(model: str, svm: str) -> None:
    run("learn", svm, "--model", model, "--save", "m")
    Path("other.vw").write_text("|site b c\n|site d\n" * 600)
    warning = run("predict", "m", "other.vw").stderr
    assert warning.startswith(
        "streaml1: none of the first 1,200 examples has a feature with a weight"
    )
    assert warning.count("\n") == 1
    assert run("predict", "m", svm).stderr == ""
    Path("one.svm").write_text("1:1\n" + "9999:1\n" * 3)
    assert run("predict", "m", "one.svm").stderr == ""
    assert "the first 20 examples" in run("predict", "m", "other.vw", "--limit", "20").stderr
    assert run("predict", "m", "other.vw", "--limit", "19").stderr == ""


def test_expired_labels_write_nothing() -> None:
    events = [{"id": k, "x": {"a": 1}, "time": 100.0 * k} for k in range(30)]
    events += [{"id": k, "y": 1, "time": 3000.0 + k} for k in range(20)]
    Path("late.jsonl").write_text("".join(json.dumps(event) + "\n" for event in events))
    Path("m").write_text("precious")
    result = run("learn", "late.jsonl", "--label-within", "10", "--save", "m", "--plot", "p.png")
    assert Path("m").read_text() == "precious" and not Path("p.png").exists()
    assert re.match(r"examples +0\n", result.stdout) and "model: " not in result.stdout
    assert "no label arrived in time; nothing was learnt or written\n" in result.stderr
    # Stream time ends at 3019: the labels up to 3008 have waited for more than ten seconds.
    assert "9 labels arrived for unknown or expired examples: raise" in result.stderr


def test_learn_reads_standard_input() -> None:
    text = '{"x": {"a": 1}, "y": 1}\n{"x": {"b": "c"}, "y": 0}\n'
    run("learn", "-", "--format", "jsonl", "--save", "a.model", input=text)
    assert set(streaml1.load("a.model").weights) == {"a", "b=c"}


def test_control_characters_in_names_are_escaped() -> None:
    line = json.dumps({"x": {"\x1b[31m": 1, "": 1, "[bold]": 1, ":smile:": 1}, "y": 1})
    result = run("learn", "-", "--format", "jsonl", input=line + "\n")
    assert "'\\x1b[31m'" in result.stdout and "[bold]" in result.stdout
    assert "\x1b" not in result.stdout and ":smile:" in result.stdout


def test_skewed_labels_add_columns(cwd: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{int(i % 25 == 0)} {i % 7}:1" for i in range(300)]
    (cwd / "a.svm").write_text("\n".join(rows) + "\n")
    assert "ROC AUC" in run("learn", "a.svm").stdout.split("\n")[0]
    monkeypatch.setenv("COLUMNS", "150")
    out = run("learn", "a.svm").stdout
    assert "normalised" in out.split("\n")[0] and "ROC AUC" in out
    assert re.search(r"^normalised entropy +\d\.\d{4}$", out, re.M)
    assert re.search(r"^ROC AUC +0\.\d{4}, last 2\^20 examples \(higher is better\)$", out, re.M)


def test_divergence_advises_a_lower_rate() -> None:
    rows = "".join(f"{i} 1:{i}\n" for i in range(1000, 1100))
    options = ["--format", "svm", "--task", "regression"]
    assert run("learn", "-", *options, input=rows).stderr == ""  # --lr auto finds a rate
    result = run("learn", "-", *options, "--lr", "0.1", input=rows)
    assert "lower --lr" in result.stderr


def test_advice_for_losses_that_a_positive_weight_raises() -> None:
    rows = "".join(f"{int(k % 50 == 0)} 1:1 2:{k % 7}\n" for k in range(2000))
    learn = ["learn", "-", "--format", "svm", "--on-drift", "ignore"]
    result = run(*learn, "--positive-weight", "50", input=rows)
    assert result.stderr == (
        "streaml1: the loss is far above that of the baseline: leave out --positive-weight, which "
        "raises predictions, or check for rows or labels far larger than the others\n"
    )
    assert run(*learn, input=rows).stderr == ""


# Resuming


@pytest.mark.parametrize("lr", ["0.1", "auto"])
def test_resumed_model_equals_an_uninterrupted_one(cwd: Path, svm: str, lr: str) -> None:
    (cwd / "first.svm").write_text("\n".join(ROWS[:37]) + "\n")
    (cwd / "rest.svm").write_text("\n".join(ROWS[37:]) + "\n")
    run(*LEARN, "--l2", "1e-3", "--lr", lr, "first.svm", "--save", "m")
    run("learn", "rest.svm", "--load", "m", "--save", "m")
    run(*LEARN, "--l2", "1e-3", "--lr", lr, svm, "--save", "whole")
    resumed, whole = streaml1.load("m"), streaml1.load("whole")
    assert resumed.weights == whole.weights and resumed.intercept == whole.intercept
    assert resumed.n_iterations == whole.n_iterations == 100
    assert repr(resumed) == repr(whole)


def test_load_overrides_or_rejects_parameters(saved_model: str, svm: str) -> None:
    run("learn", svm, "--load", saved_model, "--l2", "0.5", "--loss", "logistic", "--save", "new")
    assert streaml1.load("new").l2 == 0.5 and streaml1.load("new").l1 == 1e-3
    run("learn", svm, "--load", saved_model, "--loss", "hinge", "--save", "new")
    assert streaml1.load("new").loss == "hinge"
    assert "squared" in error_of("learn", svm, "--load", saved_model, "--loss", "squared")
    assert "--intercept-init cannot" in error_of(
        "learn", svm, "--load", saved_model, "--intercept-init", "1"
    )
    assert error_of("learn", svm, "--load", saved_model, "--task", "regression") == (
        "--task regression does not match old.model, which holds classification: omit --task or "
        "start a new model without --load"
    )
    message = error_of("learn", svm, "--load", saved_model, "--l1", "-1")
    assert "l1 must be a number from 0 to 1e+30, got -1.0" in message
    assert "--budget requires" in error_of("learn", svm, "--load", saved_model, "--budget", "100")
    run("learn", svm, "--save", "auto")
    auto_message = error_of("learn", svm, "--load", "auto", "--schedule", "constant")
    assert "--schedule cannot be combined with --lr auto" in auto_message


def test_learn_resumes_from_a_checkpoint(svm: str, cwd: Path) -> None:
    (cwd / "b.svm").write_text("\n".join(ROWS[:37]) + "\n")
    run(*LEARN, svm, "--save", "whole")
    options = ["--checkpoint", "kept", "--every", "40"]
    assert "checkpoint: kept\n" in run(*LEARN, "b.svm", *options).stdout
    out = run(*LEARN, svm, *options, "--save", "m").stdout
    assert [line.split()[0] for line in out.split("\n")[2:5]] == ["40", "80", "100"]
    assert streaml1.load("m").weights == streaml1.load("whole").weights
    out = run("learn", svm, *options).stdout  # no new examples; parameters are read from kept
    assert re.search(r"^examples +100$", out, re.M)
    run("learn", svm, *options, "--l1", "0.5", "--save", "m")
    assert streaml1.load("m").l1 == 0.5
    assert error_of("learn", svm, *options, "--intercept-init", "1") == (
        "--intercept-init cannot change from 0.0 to 1.0 for the checkpoint in kept: omit it or use "
        "another directory"
    )
    assert "--model ftrl does not match the checkpoint" in error_of(
        "learn", svm, *options, "--model", "ftrl"
    )
    from streaml1.training.checkpoint import Checkpoints

    with Checkpoints("kept"):
        assert "kept is in use by process" in error_of("learn", svm, *options, code=75)
    Path("kept2").touch()
    assert "'kept2' is a file" in error_of("learn", svm, "--checkpoint", "kept2")


# Rejected arguments and data

GOOD = "+1 1:1\n"
KEPT = ("learn", "a.svm", "--checkpoint", "kept")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["learn", "no.svm"], "no.svm: there is no such file"),
        (["learn", "a.b:92/t"], "a.b:92/t: there is no such file; to read a topic, use kafka://a.b"),
        (["learn", "two\nlines.svm"], r"two\nlines.svm: there is no such file"),
        (["learn", "*.vw"], "no file matches '*.vw'"),
        (["learn", "a.svm", "--cross", "a,b"], "a.svm is svmlight, whose features have no name"),
        (["sweep", "a.svm", "--cross", "a,b"], "a.svm is svmlight, whose features have no name"),
        (["learn", "a.svm", "--stalled", "5"], "--stalled requires --metrics or --page"),
        (["learn", "a.svm", "--checkpoint-every", "5"], "--checkpoint-every requires --checkpoint"),
        (["learn", "a.svm", "--session-timeout", "5"], "--session-timeout requires --per"),
        (["learn", "a.svm", "--lr", "auto", "--schedule", "constant"],
         "--schedule cannot be combined with --lr auto"),
        (["learn", "a.svm", "--model", "softmax", "--radius", "1"],
         "--radius requires --penalty ball"),
        (["learn", "a.svm", "--model", "softmax", "--penalty", "ball", "--strength", "1"],
         "--strength cannot be combined with --penalty ball"),
        (["learn", "a.svm", "--seed", "1"],
         "--seed applies to sources that shuffle (stdlib, data:...), not to a.svm"),
        (["learn", "river:Phishing", "--seed", "1"], "not to river:Phishing; leave it"),
        (["learn", "kafka://h:1/t", "--seed", "1"], "not to kafka://h:1/t; leave it"),
        (["learn", "kafka://h"], "kafka://h is not a topic URL; use kafka://host:port/topic"),
        (["learn", "kafka://h/t", "--passes", "2"], "cannot be read twice: it has no end; add"),
        (["learn", "kafka://h/t", "--partitions", "a"], "must be a list of numbers such as 0,2"),
        (["learn", "kafka://h/t", "--from", "now"], "--from must be earliest, latest, check"),
        (["learn", "kafka://h/t", "--group", "g"], "--group requires --checkpoint"),
        (["learn", "a.svm", "--group", "g", "--checkpoint", "k"],
         "apply to kafka://... only, not to a.svm"),
        (["learn", "a.svm", "--until-end"], "apply to kafka://... only, not to a.svm"),
        (["learn", "-"], "standard input has no file name to infer the format from; use --format"),
        (["learn", "a.svm", "--model", "forest"], "'forest' is not one of 'elastic-net'"),
        (["learn", "a.svm", "--gravity", "1"], "--gravity is not an option of elastic-net; its"),
        (["learn", "a.svm", "--model", "ftrl", "--lr", "1"], "--lr is not an option of ftrl;"),
        (["learn", "a.svm", "--norm", "linf"], "--norm is not an option of elastic-net; its"),
        (["learn", "a.svm", "--model", "fobos", "--l1", "1"], "--l1 is not an option of fobos;"),
        (["learn", "a.svm", "--model", "fobos", "--norm", "l1"], "'l1' is not one of 'l2', 'linf'"),
        (["learn", "a.svm", "--model", "truncated-gradient", "--l1", "1"], "--l1 is not an option"),
        (["learn", "a.svm", "--los", "hinge"], "No such option '--los'"),
        (["learn", "a.svm", "--loss", "log"], "'log' is not one of 'logistic', 'hinge'"),
        (["learn", "a.svm", "--l1", "much"], "'much' is not a number; see streaml1 learn"),
        (["learn", "a.svm", "--every", "b.svm"], "'b.svm' is not an integer; see streaml1 learn"),
        (["learn", "a.svm", "--lr", "much"], "must be a number or auto, got 'much'; see streaml1"),
        (["learn", "a.svm", "--lr", "nan"], "lr must be a number from 0 to 1e+10, got nan"),
        (["learn", "a.svm", "--every", "0"], "0 is not in the range x>=1"),
        (["learn", "a.svm", "--task", "regression", "--loss", "hinge"], "loss must be one of"),
        (["learn", "a.svm", "--target", "y"], "apply to CSV and JSON lines only, not to a.svm"),
        (["learn", "river:Elec3"], "river:Elec3 is not one of river's data sets"),
        (["learn"], "Missing argument 'SOURCE': name a file, or - for standard input; see str"),
        (["convert"], "Missing argument 'SOURCE': name a file, or - for standard input; see str"),
        (
            ["convert", "a.svm"],
            "Missing argument: convert takes SOURCE... and FILE.rows, got only a.svm; see str",
        ),
        (["completion"], "{bash|zsh|fish}'. Choose from: bash, zsh, fish; see streaml1 compl"),
        (["teach"], "No such command 'teach'; see streaml1 --help"),
        (["explain", "m"], "No such command 'explain' (did you mean predict?)"),
        (["predict", "m", "a.svm", "-o", "p"], "'-o': predict prints to standard output; append"),
        (["export", "m", "--csv", "w"], "(w): export prints to standard output; append > FILE"),
        (["learn", "a.svn"], "a.svn: there is no such file (did you mean a.svm?); a source is"),
        (["learn", "a.svm", "--load", "a.svm"], "a.svm is not a streaml1 model"),
        (["learn", "a.svm", "--load", "none"], "none: no such file"),
        (["learn", "a.svm", "--save", "no/m"], "--save no/m cannot be written: there is no such"),
        (["learn", "a.svm", "--save", "a.svm"], "--save a.svm is also SOURCE; choose another name"),
        (["learn", "a.svm", "--save", "/dev/null"], "--save /dev/null is not a regular file"),
        (["learn", "a.svm", "--save", "m", "--report", "./m"], "--report m is also --save"),
        (["learn", "a.svm", "--save", "m", "--checkpoint", "./m"], "--save m is also --checkpoint"),
        (["learn", ""], "the name of the source is empty: name a file, or - for standard input"),
        (["learn", "a.svm", "--plot", "a.txt"], "--plot a.txt must end in .png, .svg or .pdf"),
        (["show", "a.svm"], "a.svm is not a streaml1 model"),
        (["show", "none"], "none: no such file"),
        (["predict", "none", "a.svm"], "none: no such file"),
        (["predict", "a.svm", "a.svm"], "a.svm is not a streaml1 model"),
        ([*KEPT, "--regret"], "--regret cannot be combined with --checkpoint"),
        ([*KEPT, "--l1", "-1"], "l1 must be a number from 0 to 1e+30, got -1.0"),
        ([*KEPT, "--model", "pegasos", "--task", "regression"],
         "pegasos supports classification, not regression"),
        ([*KEPT, "--budget", "5"], "--budget requires --stamps explicit"),
        ([*KEPT, "--bad", "dead-letter"], "--bad dead-letter requires a Kafka source"),
        ([*KEPT, "--publish", "foo"], "--publish foo names no broker"),
        ([*KEPT, "--most-bad", "0.5"], "--most-bad requires --bad dead-letter or skip"),
    ],
)  # fmt: skip
def test_rejected_arguments_write_nothing(args: list[str], message: str, svm: str) -> None:
    """Not even the directory of checkpoints."""
    before = file_contents()
    assert message in error_of(*args)
    assert file_contents() == before and not Path("kept").exists()


def test_source_before_model_is_recognized(svm: str) -> None:
    run("learn", "a.svm", "--save", "m")
    for command in ("predict", "evaluate"):
        assert "; MODEL comes before SOURCE, and m is one" in error_of(command, "a.svm", "m")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("+1 1:nan", "a.svm:3: "),
        ("+1 1:inf", "a.svm:3: "),
        ("+1 1:1e60", "a.svm:3: the value 1e+60 of 1 is too large: scale it to below 1e50"),
        ("2 1:1", "a.svm:3: invalid label 2: recode files with labels 1/2"),
        ("nan 1:1", "a.svm:3: "),
        ("+1 1:x", "a.svm:3: "),
        ("spam", "a.svm:3: "),
        ("", "a.svm has no example to learn; nothing was written"),
    ],
)
def test_bad_input_ends_the_run_and_overwrites_nothing(line: str, message: str, cwd: Path) -> None:
    (cwd / "a.svm").write_text(f"# good\n{GOOD if line else ''}{line}\n")
    for name in ("m", "r.jsonl", "p.png"):
        (cwd / name).write_text("precious")
    before = file_contents()
    outputs = ["--save", "m", "--report", "r.jsonl", "--plot", "p.png"]
    result = run("learn", "a.svm", *outputs, code=65 if line else 2)
    assert result.stderr.startswith(f"streaml1: {message}") and result.stderr.count("\n") == 1
    assert file_contents() == before


def test_skipped_examples_are_counted(cwd: Path) -> None:
    bad = ["+1 1:nan", "spam", "2 1:1", "+1 1:1e60"] * 3
    (cwd / "a.svm").write_text("\n".join([*ROWS[:50], *bad, *ROWS[50:]]) + "\n")
    result = run(*LEARN, "a.svm", "--bad", "skip", "--save", "m", "--report", "r.jsonl")
    (cwd / "good.svm").write_text("\n".join(ROWS) + "\n")
    run(*LEARN, "good.svm", "--save", "good")
    assert streaml1.load("m").weights == streaml1.load("good").weights
    messages = result.stderr.splitlines()
    assert len(messages) == 6 and re.match(r"streaml1: skipped a.svm:5\d: ", messages[0])
    assert messages[-1] == "streaml1: skipped 7 more, 12 in all"
    assert "rejected" in result.stdout.split("\n")[1]
    assert result.stdout.split("\n")[2].split()[-1] == "12"
    assert json.loads(Path("r.jsonl").read_text().splitlines()[-1])["refused"] == 12


def test_resumed_run_counts_only_its_own_skipped_examples(cwd: Path) -> None:
    args = (*LEARN, "a.svm", "--bad", "skip", "--checkpoint", "kept")
    (cwd / "a.svm").write_text(GOOD + "spam\n" * 7)
    assert "skipped 2 more, 7 in all" in run(*args).stderr
    with (cwd / "a.svm").open("a") as file:
        file.write(GOOD)
    assert run(*args).stderr == ""
    with (cwd / "a.svm").open("a") as file:
        file.write("spam\n" * 6)
    *messages, last = run(*args).stderr.splitlines()
    assert len(messages) == 5 and last == "streaml1: skipped 1 more, 6 in all"


@pytest.mark.parametrize("command", ["learn", "convert"])
def test_json_log_lists_each_skipped_example(cwd: Path, command: str) -> None:
    (cwd / "a.svm").write_text(GOOD + "spam\n" * 11)
    args = [command, "a.svm", *(["a.rows"] if command == "convert" else []), "--bad", "skip"]
    events = [json.loads(line) for line in run(*args, "--log", "json").stderr.splitlines()]
    skipped = [event for event in events if event["event"] == "example_refused"]
    n = GOOD.count("\n")
    assert [event["place"] for event in skipped] == [f"a.svm:{n + k}" for k in range(1, 12)]
    assert {event["level"] for event in skipped} == {"warning"}
    (summary,) = (event for event in events if event["event"] == "examples_refused")
    assert (summary["message"], summary["refused"]) == ("skipped 11 in all", 11)
    *messages, last = run(*args).stderr.splitlines()
    assert len(messages) == 5 and last == "streaml1: skipped 6 more, 11 in all"


def test_no_valid_example_is_an_error() -> None:
    stderr = run("learn", "-", "--format", "svm", "--bad", "skip", input="spam\n", code=2).stderr
    assert stderr.endswith(
        "streaml1: - has no example to learn (1 rejected); nothing was written\n"
    )


def test_standard_input_cannot_be_read_twice() -> None:
    message = error_of("learn", "-", "--format", "svm", "--passes", "2", "--save", "m", input=GOOD)
    assert message == "standard input cannot be read twice: write it to a file and read that"
    assert file_contents() == {}


def test_unwritable_output_is_rejected_before_the_run(
    svm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def deny(**options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", deny)
    message = error_of("learn", svm, "--report", "r.jsonl")
    assert message == "--report r.jsonl cannot be written: permission denied"


def test_read_only_output_is_rejected(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m").write_text("precious")
    # Root may write all files, so that file modes would not do.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "m")
    assert error_of("learn", svm, "--save", "m") == "--save m cannot be written: it is read-only"


def test_missing_matplotlib_is_reported_before_the_run(
    svm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    message = error_of("learn", svm, "--plot", "a.png")
    assert message == ("--plot a.png needs matplotlib; run pip install 'streaml1[plot]'")


def test_full_disk_keeps_the_old_model(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def raise_full_disk(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", raise_full_disk)
    Path("m").write_text("precious")
    result = run("learn", svm, "--save", "m", code=75)
    assert re.match(r"streaml1: m cannot be written.*no space left on device.*\n", result.stderr)
    assert Path("m").read_text() == "precious"


def test_text_columns_are_read_from_checkpoint_and_model() -> None:
    """--text is required only for a new model."""
    lines = [f"{k % 2},w{k % 5} now\n" for k in range(40)]
    options = ("--target", "y", "--save", "m")
    for name, part_lines in (("a.csv", lines), ("b.csv", lines[:25])):
        Path(name).write_text("y,m\n" + "".join(part_lines))
    run("learn", "a.csv", *options, "--text", "m", "--ngrams", "2")
    whole = streaml1.load("m").weights
    run("learn", "b.csv", *options, "--text", "m", "--ngrams", "2", "--checkpoint", "c")
    Path("b.csv").write_text("y,m\n" + "".join(lines))
    run("learn", "b.csv", *options, "--checkpoint", "c")
    assert streaml1.load("m").weights == whole and "m=w1 now" in whole
    run("learn", "b.csv", *options, "--load", "m")


# show, predict, warm, help


def test_show_lists_parameters_and_weights(saved_model: str) -> None:
    model = streaml1.load(saved_model)
    out = run("show", saved_model, "--top", "3").stdout
    facts = dict(re.findall(r"^  (\S+(?: \S+)*?)  +(.+)$", out, re.M))
    assert out.startswith("ElasticNetClassifier\n")
    assert facts["l1"] == "0.001" and facts["loss"] == "logistic"
    assert facts["examples learnt"] == "100"
    assert facts["non-zero weights"] == str(model.n_nonzero)
    assert facts["features seen"].endswith("18")
    assert float(facts["intercept"]) == pytest.approx(model.intercept, rel=1e-5)
    shown = [line.split() for line in out.split("feature\n")[1].splitlines()]
    assert [(name, float(w)) for w, name in shown] == [
        (str(name), float(f"{w:.4g}")) for name, w in model.top_weights(3)
    ]
    assert "feature\n" not in run("show", saved_model, "--top", "0").stdout


@pytest.mark.parametrize("model", ["elastic-net", "softmax"])
@pytest.mark.parametrize("hashed", [[], ["--hash-bits", "10"]], ids=["names", "hashed"])
def test_show_finds_numeric_feature_names(model: str, hashed: list[str], cwd: Path) -> None:
    lines = ['{"x": {"7": 1, "a": 1}, "y": 1}', '{"x": {"a": 1}, "y": 0}'] * 20
    Path("a.jsonl").write_text("\n".join(lines))
    run("learn", "a.jsonl", "--model", model, "--lr", "0.1", *hashed, "--save", "m")
    learner = streaml1.load("m")
    key = learner.slot("7") if hashed else "7"
    weights = learner.weights[key]
    w = weights[1] if model == "softmax" else weights
    out = run("show", "m", "--feature", "7", "--feature", "9" * 5000).stdout
    shown = next(line.split() for line in out.splitlines() if line.split()[1:2] == ["7"])
    assert shown[0] == f"{w:+.4f}" and abs(w) > 1e-3
    assert shown[2:3] == [f"{key}"] if hashed else f"{key}" not in shown[2:]


def test_show_omits_the_schedule_of_an_auto_rate(saved_model: str, svm: str) -> None:
    run("learn", svm, "--save", "auto")
    out = run("show", "auto").stdout
    assert re.search(r"^  lr +auto$", out, re.M) and "schedule" not in out
    assert re.search(r"^  schedule +invsqrt$", run("show", saved_model).stdout, re.M)


def test_show_quotes_blank_feature_names(cwd: Path) -> None:
    Path("a.jsonl").write_text('{"x": {"": 1}, "y": 1}\n{"x": {" ": 1}, "y": 0}\n' * 9)
    run("learn", "a.jsonl", "--save", "m")
    lines = run("show", "m").stdout.split("feature\n")[1].splitlines()
    assert sorted(line.split(maxsplit=1)[1] for line in lines) == ["' '", "''"]


def test_show_of_a_model_without_weights(svm: str) -> None:
    out = run("learn", svm, "--l1", "1e9", "--save", "m").stdout
    assert "All weights are zero." in out
    assert "no weights" in run("show", "m").stdout


def test_predict_prints_probabilities(saved_model: str, svm: str) -> None:
    model = streaml1.load(saved_model)
    X = [{i % 7: 1.0, 10 + i % 11: 0.5} for i in range(100)]
    expected = [model.predict_proba_one(x)[True] for x in X]
    assert [float(p) for p in run("predict", saved_model, svm).stdout.split()] == expected
    records = [
        json.loads(t) for t in run("predict", saved_model, svm, "--json").stdout.splitlines()
    ]
    assert records == [{"line": i + 1, "p": p} for i, p in enumerate(expected)]
    assert len(run("predict", saved_model, svm, "--limit", "7").stdout.split()) == 7


def test_predict_needs_no_labels_and_keeps_lines_aligned(saved_model: str) -> None:
    text = "1:1\nspam spam\n+1 1:1\n2:1e60\n3:1\n"
    out = run("predict", saved_model, "-", "--format", "svm", "--bad", "skip", input=text)
    assert [bool(line) for line in out.stdout.split("\n")] == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    args = ["predict", saved_model, "-", "--format", "svm", "--bad", "skip", "--json"]
    records = [json.loads(line) for line in run(*args, input=text).stdout.splitlines()]
    assert [record["line"] for record in records] == [1, 2, 3, 4, 5]
    assert records[1]["p"] is None and records[0] == {"line": 1, "p": records[2]["p"]}
    failed = run("predict", saved_model, "-", "--format", "svm", input=text, code=65)
    assert failed.stderr.startswith("streaml1: -:2: ") and failed.stdout.count("\n") == 1


def test_predict_prints_values_of_a_regressor(svm: str) -> None:
    run("learn", svm, "--task", "regression", "--save", "m")
    record = json.loads(run("predict", "m", svm, "--limit", "1", "--json").stdout)
    assert record == {
        "line": 1,
        "value": streaml1.load("m").freeze().predict_one({0: 1.0, 10: 0.5}),
    }


def test_warm_compiles_the_named_models() -> None:
    out = run("warm", "--model", "elastic-net", "--model", "ftrl").stdout
    assert re.fullmatch(r"compiled in \d+\.\d s.*\n", out)
    assert "'ball' is not one of" in run("warm", "--model", "ball", code=2).stderr
    assert "'words' is not one of" in run("warm", "--with", "words", code=2).stderr
    run("warm", "--model", "ftrl", "--with", "text")


@pytest.mark.parametrize("command", ["learn", "predict", "evaluate", "convert"])
def test_help_lists_only_options_of_the_command(command: str) -> None:
    out = run(command, "--help-all").stdout
    assert ("(of each pass)" in out) == (command == "learn")
    assert ("dead-letter]" in out) == (command in ("learn", "predict"))


@pytest.mark.parametrize(
    "command", [[], ["learn"], ["show"], ["predict"], ["warm"], ["export"], ["diff"]]
)
def test_help_ends_with_an_example(command: list[str]) -> None:
    out = run(*command, "--help").stdout
    assert "Example: " in out
    if command:
        assert out.rstrip().split("\n\n")[-1].strip().startswith("Example: ")


def test_version_and_missing_command() -> None:
    assert run("--version").stdout == f"streaml1 {streaml1.__version__}\n"
    assert "Usage: " in run(code=2).stderr


# Real processes


def reset_signals() -> None:
    """Restore the default handlers: children of background jobs and nohup ignore these signals."""
    for signal_no in (signal.SIGINT, signal.SIGHUP):
        signal.signal(signal_no, signal.SIG_DFL)


@pytest.fixture
def start(cwd: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Return a function that starts the command line in a new process."""
    processes = []

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        process = subprocess.Popen(
            [sys.executable, "-m", "streaml1", *args],
            cwd=cwd,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=reset_signals,
            **options,
        )
        processes.append(process)
        return process

    yield start
    for process in processes:
        process.kill()
        process.communicate()


def read_until(process: subprocess.Popen[str], text: str) -> None:
    """Read standard output up to the first line that contains `text`."""
    assert process.stdout is not None
    timeout = threading.Timer(120.0, process.kill)
    timeout.start()
    for line in iter(process.stdout.readline, ""):
        if text in line:
            timeout.cancel()
            return
    pytest.fail(f"{text!r} was not printed: {process.communicate()}")


def feed(process: subprocess.Popen[str], rows: list[str]) -> None:
    """Write rows to standard input."""
    assert process.stdin is not None
    process.stdin.write("\n".join(rows) + "\n")
    process.stdin.flush()


@pytest.mark.parametrize("signal_no", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_signal_during_slow_input_writes_outputs(start: Callable[..., Any], signal_no: int) -> None:
    outputs = ["--save", "m", "--report", "r.jsonl", "--plot", "p.svg"]
    process = start("learn", "-", "--format", "svm", "--every", "2", *outputs, stdin=-1)
    feed(process, ROWS[:2])
    read_until(process, "        2 ")
    feed(process, ROWS[2:3])  # an incomplete block
    time.sleep(0.3)
    sent_at = time.monotonic()
    process.send_signal(signal_no)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - sent_at < 10.0
    assert process.returncode == 128 + signal_no, err
    assert err == "streaml1: interrupted after 3 examples; m, r.jsonl, p.svg were written\n"
    assert out.endswith("features seen, 0.0% sparse\n")
    assert streaml1.load("m").n_iterations == 3
    assert len(Path("r.jsonl").read_text().splitlines()) == 2
    assert sorted(file_contents()) == ["m", "p.svg", "r.jsonl"]


def test_signal_in_the_middle_of_a_file_saves_the_model(
    start: Callable[..., Any], cwd: Path
) -> None:
    (cwd / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    process = start("learn", "long.svm", "--passes", "100000", "--holdout", "0", "--save", "m")
    read_until(process, "20,000 ")
    sent_at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - sent_at < 10.0
    assert process.returncode == 143, err
    n = streaml1.load("m").n_iterations
    assert n >= 20_000
    assert err == f"streaml1: interrupted after {n:,} examples; m was written\n"


def test_closed_terminal_saves_the_model(cwd: Path) -> None:
    """After SIGHUP nothing can be printed, but the model is saved."""
    (cwd / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    args = ["learn", "long.svm", "--passes", "100000", "--holdout", "0", "--save", "m"]
    args += ["--checkpoint", "kept"]
    terminal, child_terminal = pty.openpty()

    def attach_terminal() -> None:
        reset_signals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", *args], cwd=cwd,
        stdin=child_terminal, stdout=child_terminal, stderr=child_terminal,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        preexec_fn=attach_terminal,
    )  # fmt: skip
    os.close(child_terminal)
    output = b""
    while b"20,000 " not in output:
        output += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(30) == 129
    model = streaml1.load("m")
    assert model.n_iterations >= 20_000
    assert streaml1.load("kept").n_iterations == model.n_iterations


def test_signal_before_the_first_example_overwrites_nothing(
    start: Callable[..., Any], cwd: Path
) -> None:
    (cwd / "m").write_text("precious")
    process = start("learn", "-", "--format", "svm", "--save", "m", stdin=-1)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert (cwd / "m").read_text() == "precious"


@pytest.mark.parametrize("save", [[], ["--save", "m"]])
def test_closed_pipe_ends_quietly(start: Callable[..., Any], cwd: Path, save: list[str]) -> None:
    (cwd / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    process = start("learn", "long.svm", "--passes", "100000", "--holdout", "0", *save)
    read_until(process, "1,000 ")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(30) == 141
    if save:
        assert re.fullmatch(r"streaml1: output closed after \S+ examples; m was written\n", err)
        assert streaml1.load("m").n_iterations >= 1000
    else:
        assert err == ""


def test_predict_into_a_closed_pipe_ends_quietly(
    start: Callable[..., Any], cwd: Path, saved_model: str
) -> None:
    (cwd / "long.svm").write_text("\n".join(ROWS * 1000) + "\n")
    process = start("predict", saved_model, "long.svm")
    read_until(process, "0.")
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(30) == 141


def test_predictions_are_printed_without_buffering(
    start: Callable[..., Any], saved_model: str
) -> None:
    process = start("predict", saved_model, "-", "--format", "svm", "--limit", "2", stdin=-1)
    for row in ("1:1", "2:1"):
        feed(process, [row])
        read_until(process, "0.")
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_output_without_a_terminal_is_plain(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    result = run("learn", svm, "--every", "10")
    assert "\x1b" not in result.output and "\r" not in result.output
    assert result.stdout.count("log-loss log-loss") == 1, "the header comes once"


def test_terminal_shows_progress(cwd: Path, svm: str) -> None:
    parent, child = pty.openpty()
    args = ["learn", svm, "--every", "50", "--passes", "20", "--holdout", "0"]
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", *args], cwd=cwd, stdout=child, stderr=child,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
    )  # fmt: skip
    os.close(child)
    output = b""
    while True:
        try:
            chunk = os.read(parent, 65536)
        except OSError:  # the child has closed its end
            break
        if not chunk:
            break
        output += chunk
    os.close(parent)
    assert process.wait(30) == 0
    assert b"\x1b[2K" in output and re.search(rb"\d examples  \d+%  [\d,]+ per second", output)
    assert len(re.findall(rb" [\d,]+ +0\.\d{4} +0\.\d{4}", output)) == 40


def test_help_imports_nothing_heavy(python: Callable[..., str]) -> None:
    script = (
        "import sys, streaml1; package = set(sys.modules)\n"
        "from streaml1.cli import cli\n"
        "for args in (['--help'], ['--help-model', 'ftrl']):\n"
        "    try: cli.main(['learn', *args])\n"
        "    except SystemExit: pass\n"
        "new = set(sys.modules) - package\n"
        "print(sorted(new & {'river', 'numba', 'scipy', 'numpy', 'rich', 'matplotlib', 'pandas'}))"
    )
    assert python("-c", script).rstrip().endswith("[]")


RECORD_KERNELS = """
import atexit, json, sys
from streaml1.cli import cli
from streaml1.core.jit import loader
atexit.register(lambda: print("dict kernels:", *loader._loaded))
for command in json.loads(sys.argv[1]):
    if isinstance(command, str):
        exec(command)
        continue
    try:
        cli.main(command)
    except SystemExit as end:
        assert not end.code, command
"""


@pytest.mark.slow
def test_warm_leaves_nothing_to_compile(python: Callable[..., str], svm: str, cwd: Path) -> None:
    def kernels_of(*commands: list[str] | str) -> set[str]:
        """Run commands and code in one process; return the kernels that it loads or saves."""
        out = python("-c", RECORD_KERNELS, json.dumps(commands), NUMBA_DEBUG_CACHE="1", **WARM)
        dict_kernels = re.findall(r"^dict kernels:(.*)$", out, re.MULTILINE)
        return {
            *re.findall(r"data (?:loaded from|saved to) '(.*\.nbc)'", out),
            *dict_kernels[-1].split(),
        }

    warmed = kernels_of(["warm", "--model", "elastic-net"])
    Path("a.jsonl").write_text('{"x": {"b": "c", "a": 1}, "y": 1}\n' * 3)
    commands: list[list[str] | str] = []
    for path, task in ((svm, "classification"), (svm, "regression"), ("a.jsonl", "regression")):
        source, model = str(cwd / path), str(cwd / "m")
        commands.append(["learn", source, "--task", task, "--save", model])
        commands.append(["learn", source, "--load", model, "--save", model])
        commands.append(["show", model])
        commands.append(["predict", model, source])
    hashed = ("--hash-bits", "9", "--max-features", "1")
    commands.append(["learn", str(cwd / "a.jsonl"), *hashed])
    script = "m = streaml1.ElasticNetClassifier()\nfor x in ({'a': 1.0}, {'a': 'b'}) * 2:\n"
    script += "    m.predict_proba_one(x)\n    m.learn_one(x, True)\n"
    commands.append(f"import streaml1\n{script}")
    commands.append(f"import streaml1\n{script}".replace("()", "(hash_bits=9)", 1))
    needed = kernels_of(*commands)
    assert any(path.endswith(".nbc") for path in needed)
    assert any(path.startswith("streaml1_") for path in needed)
    assert needed <= warmed


@pytest.mark.slow
def test_demo_of_the_standard_library(cwd: Path) -> None:
    out = subprocess.run(
        [sys.executable, str(ROOT / "demos" / "stdlib_stream.py")], cwd=cwd,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True,
        timeout=300,
    ).stdout  # fmt: skip
    assert out.splitlines()[-1] == "out/stdlib_stream.png"
    assert (cwd / "out" / "stdlib_stream.png").stat().st_size > 10_000
    loss, baseline = map(float, re.findall(r"log-loss +([\d.]+), baseline ([\d.]+)", out)[0])
    assert loss < baseline - 0.1


@pytest.mark.parametrize("command", ["learn", "predict", "evaluate"])
def test_docs_describe_every_option(command: str) -> None:
    documented = set(re.findall(r"`(--[a-z0-9-]+)`", (ROOT / "docs" / f"{command}.md").read_text()))
    parameters = [
        parameter
        for parameter in cli.commands[command].params
        if isinstance(parameter, click.Option)
    ]
    options = {
        name for parameter in parameters for name in (*parameter.opts, *parameter.secondary_opts)
    }
    assert options <= documented
