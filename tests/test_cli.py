"""The command line: what it prints, what it writes, what it refuses, how it ends."""

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
from click.testing import CliRunner, Result

import streaml1
from streaml1.cli import cli
from streaml1.training import progressive
from tests.conftest import WARM

ROOT = Path(__file__).parent.parent
PLAIN = ["learn", "--l1", "1e-3", "--lr", "0.1"]


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Work in an empty folder, so that names are short."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str, input: str | None = None, code: int = 0) -> Result:
    result = CliRunner().invoke(cli, list(args), input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == code, result.output
    return result


def refused(*args: str, input: str | None = None, code: int = 2) -> str:
    """The one sentence on standard error; nothing else is printed."""
    result = run(*args, input=input, code=code)
    assert result.stderr.startswith("streaml1: ") and result.stderr.count("\n") == 1
    assert "Traceback" not in result.output
    return result.stderr.removeprefix("streaml1: ").rstrip("\n")


ROWS = [f"{'+1' if i % 3 else '-1'} {i % 7}:1 {10 + i % 11}:0.5" for i in range(100)]


@pytest.fixture
def svm(here: Path) -> str:
    (here / "a.svm").write_text("\n".join(ROWS) + "\n")
    return "a.svm"


@pytest.fixture
def saved(svm: str) -> str:
    run(*PLAIN, svm, "--save", "old.model")
    return "old.model"


def files() -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in Path().iterdir()}


# learn


@pytest.mark.parametrize("name", ["elastic-net", "truncated-gradient", "pegasos"])
def test_averages_are_learnt_told_and_kept(svm: str, name: str) -> None:
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
    said = refused("learn", svm, "--load", "last.model", "--average")
    assert "--average cannot change from False to True for last.model: omit it" in said


def test_learn(svm: str) -> None:
    result = run(*PLAIN, svm, "--every", "40", "--plot", "a.png", "--report", "a.jsonl")
    assert result.stderr == ""
    lines = result.stdout.split("\n")
    assert lines[0].split() == [
        "log-loss", "log-loss", "non-", "features", "per",
    ]  # fmt: skip
    assert lines[1].split() == [
        "examples", "(recent)", "(all)", "baseline", "error", "zeros", "seen", "sparsity",
        "added", "dropped", "second",
    ]  # fmt: skip
    assert [line.split()[0] for line in lines[2:5]] == ["40", "80", "100"]
    assert len({len(line) for line in lines[1:5]}) == 1, "columns are of a fixed width"
    assert lines[6].split() == ["weight", "for", "True", "weight", "for", "False"]
    assert "100 examples: log-loss" in result.stdout
    assert lines[-3:] == ["report: a.jsonl", "a.png", ""]
    assert Path("a.png").read_bytes()[1:4] == b"PNG"
    report = [json.loads(line) for line in Path("a.jsonl").read_text().splitlines()]
    assert [line["examples"] for line in report] == [40, 80, 100]


def test_learn_equals_the_library(svm: str) -> None:
    run(*PLAIN, svm, "--save", "a.model", "--l2", "0.01", "--update", "sgd", "--loss", "hinge",
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


def test_the_defaults_are_those_of_the_library(svm: str) -> None:
    run("learn", svm, "--save", "a.model")
    assert repr(streaml1.load("a.model")) == repr(streaml1.ElasticNetClassifier(lr="auto"))
    for option, params in (
        (["--schedule", "invsqrt"], {}),
        (["--stamps", "explicit"], {"stamps": "explicit"}),
        (["--average"], {"average": True}),
        (["--lr", "auto"], {"lr": "auto"}),
        (["--no-average"], {"lr": "auto"}),  # as it is without
        (["--stamps", "folded"], {"lr": "auto"}),
    ):
        run("learn", svm, *option, "--save", "b.model")
        assert repr(streaml1.load("b.model")) == repr(streaml1.ElasticNetClassifier(**params))


def test_top_weights_stand_by_label(svm: str) -> None:
    model = streaml1.ElasticNetClassifier(l1=1e-3)
    progressive(model, svm)
    ranked = [(str(name), w) for name, w in model.top_weights(100)]
    up = [name for name, w in ranked if w > 0]
    down = [name for name, w in ranked if w < 0]
    assert len(up) > 2 > len(down) == 1
    shown = run(*PLAIN, svm, "--top", "2").stdout.split("for False\n")[1].split("\n\n")[0]
    assert [line.split()[1::2] for line in shown.split("\n")] == [[up[0], down[0]], [up[1]]]
    assert "for True" not in run(*PLAIN, svm, "--top", "0").stdout


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
def test_the_task_is_that_of_the_loss_or_of_rivers_set(
    args: list[str], kind: str, svm: str
) -> None:
    result = run("learn", *args, "--save", "a.model")
    assert type(streaml1.load("a.model")).__name__ == kind
    assert ("raise the value" in result.stdout) == (kind == "ElasticNetRegressor")


@pytest.mark.parametrize("text", [["shop,day"], ["shop", "--categorical", "day"]])
def test_a_csv_file(text: list[str]) -> None:
    rows = ["shop,day,price,sold,n", "fr,mo,2,1,3", "de,tu,1,0,1", "de,,,0,1"]
    Path("a.csv").write_text("\n".join(rows) + "\n")
    columns = ["--target", "sold", "--weight", "n", "--categorical", *text]
    run("learn", "a.csv", *columns, "--save", "a.model")
    names = {"shop=fr", "shop=de", "day=mo", "day=tu", "price"}
    assert set(streaml1.load("a.model").weights) == names
    out = run("predict", "a.model", "a.csv", *columns).stdout.split()
    assert len(out) == 3 and float(out[0]) > float(out[1])
    left = ["--target", "sold", "--ignore", "day", "--ignore", "n,price", "--categorical", "shop"]
    run("learn", "a.csv", *left, "--save", "a.model")
    assert set(streaml1.load("a.model").weights) == {"shop=fr", "shop=de"}


def test_a_checkpoint_is_of_the_columns_it_was_of() -> None:
    Path("a.csv").write_text("a,b,day,y\n1,x,3,1\n2,z,4,0\n")
    columns = ["--target", "y", "--categorical", "b", "--checkpoint", "kept"]
    run("learn", "a.csv", *columns)
    Path("a.csv").write_text("a,b,day,y\n1,x,3,1\n2,z,4,0\n3,x,4,1\n")
    for other, said in [
        (["--categorical", "day"], "its categorical is ['b'], that of a.csv is ['b', 'day']"),
        (["--target", "day"], "its target is 'y', that of a.csv is 'day'"),
        (["--weight", "a"], "its weight is None, that of a.csv is 'a'"),
        (["--ignore", "a"], "its ignore is [], that of a.csv is ['a']"),
        (["--delimiter", "tab"], r"its delimiter is ',', that of a.csv is '\t'"),
    ]:
        told = refused("learn", "a.csv", *columns, *other)
        assert said in told and told.endswith("use another directory")
    assert "3 examples" in run("learn", "a.csv", *columns).stdout


def test_what_a_model_of_all_rates_cannot_become(svm: str) -> None:
    run("learn", svm, "--save", "m")
    for option, began in ((["--lr", "0.3"], "auto"), (["--loss", "hinge"], "logistic")):
        told = refused("learn", svm, "--load", "m", *option)
        assert told == (
            f"{option[0]} cannot change from {began} to {option[1]} for m: omit it or start a new "
            "model without --load"
        )


def test_a_folder_of_checkpoints_is_a_model(svm: str) -> None:
    run("learn", svm, "--l1", "1e-4", "--checkpoint", "kept", "--save", "m")
    folder, file = streaml1.load("kept"), streaml1.load("m")
    assert folder.weights == file.weights and folder.n_iterations == file.n_iterations
    assert run("show", "kept").stdout == run("show", "m").stdout
    assert run("predict", "kept", svm).stdout == run("predict", "m", svm).stdout
    assert run("learn", svm, "--load", "kept").stdout.endswith("sparse\n")
    Path("empty").mkdir()
    told = "empty is a directory without a checkpoint; give a model file"
    assert refused("show", "empty") == refused("predict", "empty", svm) == told


def test_a_folder_knows_what_is_text() -> None:
    Path("a.csv").write_text("y,t\n1,hello you\n0,bye you\n")
    run("learn", "a.csv", "--target", "y", "--text", "t", "--checkpoint", "kept")
    run("learn", "a.csv", "--target", "y", "--load", "kept", "--save", "m")
    assert set(streaml1.load("m").weights) == {"t=hello", "t=bye", "t=you"}
    told = refused("learn", "a.csv", "--target", "y", "--load", "m", "--plot", "m")
    assert told == "--plot m is the model that is read; choose another name"
    run("learn", "a.csv", "--target", "y", "--load", "m", "--save", "m")


@pytest.mark.parametrize("model", ["elastic-net", "softmax", "pegasos"])
def test_a_model_of_other_data_is_told(model: str, svm: str) -> None:
    run("learn", svm, "--model", model, "--save", "m")
    Path("other.vw").write_text("|site b c\n|site d\n" * 600)
    told = run("predict", "m", "other.vw").stderr
    assert told.startswith("streaml1: none of the first 1,200 examples has a feature with a weight")
    assert told.count("\n") == 1
    assert run("predict", "m", svm).stderr == ""
    Path("one.svm").write_text("1:1\n" + "9999:1\n" * 3)
    assert run("predict", "m", "one.svm").stderr == ""
    assert "the first 20 examples" in run("predict", "m", "other.vw", "--limit", "20").stderr
    assert run("predict", "m", "other.vw", "--limit", "19").stderr == ""


def test_labels_that_all_come_too_late_write_nothing() -> None:
    events = [{"id": k, "x": {"a": 1}, "time": 100.0 * k} for k in range(30)]
    events += [{"id": k, "y": 1, "time": 3000.0 + k} for k in range(20)]
    Path("late.jsonl").write_text("".join(json.dumps(one) + "\n" for one in events))
    Path("m").write_text("precious")
    done = run("learn", "late.jsonl", "--label-within", "10", "--save", "m", "--plot", "p.png")
    assert Path("m").read_text() == "precious" and not Path("p.png").exists()
    assert done.stdout.startswith("no examples") and "model: " not in done.stdout
    assert "no label arrived in time; nothing was learnt or written\n" in done.stderr
    assert "10 labels arrived for unknown or expired examples: raise" in done.stderr


def test_standard_input() -> None:
    text = '{"x": {"a": 1}, "y": 1}\n{"x": {"b": "c"}, "y": 0}\n'
    run("learn", "-", "--format", "jsonl", "--save", "a.model", input=text)
    assert set(streaml1.load("a.model").weights) == {"a", "b=c"}


def test_names_that_would_not_print() -> None:
    line = json.dumps({"x": {"\x1b[31m": 1, "": 1, "[bold]": 1, ":smile:": 1}, "y": 1})
    result = run("learn", "-", "--format", "jsonl", input=line + "\n")
    assert "'\\x1b[31m'" in result.stdout and "[bold]" in result.stdout
    assert "\x1b" not in result.stdout and ":smile:" in result.stdout


def test_skewed_labels_have_more_columns(here: Path) -> None:
    rows = [f"{int(i % 25 == 0)} {i % 7}:1" for i in range(300)]
    (here / "a.svm").write_text("\n".join(rows) + "\n")
    out = run("learn", "a.svm").stdout
    assert "normalised" in out.split("\n")[0] and "ROC AUC" in out
    assert "ROC AUC" in out.split("\n")[-2]


def test_advice_where_a_model_diverges() -> None:
    rows = "".join(f"{i} 1:{i}\n" for i in range(1000, 1100))
    options = ["--format", "svm", "--task", "regression"]
    assert run("learn", "-", *options, input=rows).stderr == ""  # a rate is found
    result = run("learn", "-", *options, "--lr", "0.1", input=rows)
    assert "lower --lr" in result.stderr


# Going on


def test_going_on_equals_never_having_stopped(here: Path, svm: str) -> None:
    (here / "first.svm").write_text("\n".join(ROWS[:37]) + "\n")
    (here / "rest.svm").write_text("\n".join(ROWS[37:]) + "\n")
    run(*PLAIN, "--l2", "1e-3", "first.svm", "--save", "m")
    run("learn", "rest.svm", "--load", "m", "--save", "m")
    run(*PLAIN, "--l2", "1e-3", svm, "--save", "whole")
    one, other = streaml1.load("m"), streaml1.load("whole")
    assert one.weights == other.weights and one.intercept == other.intercept
    assert one.n_iterations == other.n_iterations == 100
    assert repr(one) == repr(other)


def test_parameters_of_a_loaded_model(saved: str, svm: str) -> None:
    run("learn", svm, "--load", saved, "--l2", "0.5", "--loss", "logistic", "--save", "new")
    assert streaml1.load("new").l2 == 0.5 and streaml1.load("new").l1 == 1e-3
    run("learn", svm, "--load", saved, "--loss", "hinge", "--save", "new")
    assert streaml1.load("new").loss == "hinge"
    assert "squared" in refused("learn", svm, "--load", saved, "--loss", "squared")
    assert "--intercept-init cannot" in refused(
        "learn", svm, "--load", saved, "--intercept-init", "1"
    )
    assert refused("learn", svm, "--load", saved, "--task", "regression") == (
        "--task regression does not match old.model, which holds classification: omit --task or "
        "start a new model without --load"
    )
    said = refused("learn", svm, "--load", saved, "--l1", "-1")
    assert "l1 must be a number from 0 to 1e+30, got -1.0" in said
    assert "--budget requires" in refused("learn", svm, "--load", saved, "--budget", "100")
    run("learn", svm, "--save", "auto")
    told = refused("learn", svm, "--load", "auto", "--schedule", "constant")
    assert "--schedule cannot be combined with --lr auto" in told


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--regret"], "--regret cannot be combined with --checkpoint"),
        (["--l1", "-1"], "l1 must be a number from 0 to 1e+30, got -1.0"),
        (
            ["--model", "pegasos", "--task", "regression"],
            "pegasos supports classification, not regression",
        ),
        (["--budget", "5"], "--budget requires --stamps explicit"),
        (["--bad", "dead-letter"], "--bad dead-letter requires a Kafka source"),
        (["--publish", "foo"], "--publish foo names no broker"),
        (["--most-bad", "0.5"], "--most-bad requires --bad dead-letter or skip"),
    ],
)
def test_a_run_that_is_refused_leaves_no_folder(
    svm: str, here: Path, options: list[str], sentence: str
) -> None:
    assert sentence in refused("learn", svm, "--checkpoint", "kept", *options)
    assert not (here / "kept").exists()


def test_a_checkpoint_is_gone_on_from(svm: str, here: Path) -> None:
    (here / "b.svm").write_text("\n".join(ROWS[:37]) + "\n")
    run(*PLAIN, svm, "--save", "whole")
    options = ["--checkpoint", "kept", "--every", "40"]
    assert "checkpoint: kept\n" in run(*PLAIN, "b.svm", *options).stdout
    out = run(*PLAIN, svm, *options, "--save", "m").stdout
    assert [line.split()[0] for line in out.split("\n")[2:5]] == ["40", "80", "100"]
    assert streaml1.load("m").weights == streaml1.load("whole").weights
    out = run("learn", svm, *options).stdout  # nothing new, and the parameters are known
    assert "100 examples: " in out
    run("learn", svm, *options, "--l1", "0.5", "--save", "m")
    assert streaml1.load("m").l1 == 0.5
    assert refused("learn", svm, *options, "--intercept-init", "1") == (
        "--intercept-init cannot change from 0.0 to 1.0 for the checkpoint in kept: omit it or use "
        "another directory"
    )
    assert "--model ftrl does not match the checkpoint" in refused(
        "learn", svm, *options, "--model", "ftrl"
    )
    from streaml1.training.checkpoint import Checkpoints

    with Checkpoints("kept"):
        assert "kept is in use by process" in refused("learn", svm, *options, code=75)
    Path("kept2").touch()
    assert "'kept2' is a file" in refused("learn", svm, "--checkpoint", "kept2")


# What is refused

GOOD = "+1 1:1\n"


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["learn", "no.svm"], "no.svm: there is no such file"),
        (["learn", "two\nlines.svm"], r"two\nlines.svm: there is no such file"),
        (["learn", "."], ". is a directory"),
        (["learn", "a.svm", "--cross", "a,b"], "a.svm is svmlight, whose features have no name"),
        (["learn", "a.svm", "--stalled", "5"], "--stalled requires --metrics"),
        (["learn", "a.svm", "--checkpoint-every", "5"], "--checkpoint-every requires --checkpoint"),
        (["learn", "a.svm", "--session-timeout", "5"], "--session-timeout requires --per"),
        (["learn", "a.svm", "--budget", "9"], "--budget requires --stamps explicit"),
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
        (["learn", "kafka://h/t", "--from", "now"], "start must be earliest, latest, check"),
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
        (["learn", "a.svm", "--model", "pegasos", "--task", "regression"], "supports classif"),
        (["learn", "a.svm", "--model", "truncated-gradient", "--l1", "1"], "--l1 is not an option"),
        (["learn", "a.svm", "--los", "hinge"], "No such option '--los'"),
        (["learn", "a.svm", "--loss", "log"], "'log' is not one of 'logistic', 'hinge'"),
        (["learn", "a.svm", "--l1", "much"], "'much' is not a valid float; see streaml1 learn"),
        (["learn", "a.svm", "--lr", "much"], "must be a number or auto, got 'much'; see streaml1"),
        (["learn", "a.svm", "--l1", "-1"], "l1 must be a number from 0 to 1e+30, got -1.0"),
        (["learn", "a.svm", "--lr", "nan"], "lr must be a number from 0 to 1e+10, got nan"),
        (["learn", "a.svm", "--every", "0"], "0 is not in the range x>=1"),
        (["learn", "a.svm", "--task", "regression", "--loss", "hinge"], "loss must be one of"),
        (["learn", "a.svm", "--target", "y"], "apply to CSV files only, not to a.svm"),
        (["learn", "river:Elec3"], "river:Elec3 is not one of river's data sets"),
        (["learn"], "Missing argument 'SOURCE'; see streaml1 learn --help"),
        (["teach"], "No such command 'teach'; see streaml1 --help"),
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
    ],
)  # fmt: skip
def test_one_sentence_and_nothing_written(args: list[str], said: str, svm: str) -> None:
    before = files()
    assert said in refused(*args)
    assert files() == before


@pytest.mark.parametrize(
    ("line", "said"),
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
def test_bad_input_ends_the_run_and_overwrites_nothing(line: str, said: str, here: Path) -> None:
    (here / "a.svm").write_text(f"# good\n{GOOD if line else ''}{line}\n")
    for name in ("m", "r.jsonl", "p.png"):
        (here / name).write_text("precious")
    before = files()
    outputs = ["--save", "m", "--report", "r.jsonl", "--plot", "p.png"]
    result = run("learn", "a.svm", *outputs, code=65 if line else 2)
    assert result.stderr.startswith(f"streaml1: {said}") and result.stderr.count("\n") == 1
    assert files() == before


def test_bad_input_is_counted_with_skip(here: Path) -> None:
    bad = ["+1 1:nan", "spam", "2 1:1", "+1 1:1e60"] * 3
    (here / "a.svm").write_text("\n".join([*ROWS[:50], *bad, *ROWS[50:]]) + "\n")
    result = run(*PLAIN, "a.svm", "--bad", "skip", "--save", "m", "--report", "r.jsonl")
    (here / "good.svm").write_text("\n".join(ROWS) + "\n")
    run(*PLAIN, "good.svm", "--save", "good")
    assert streaml1.load("m").weights == streaml1.load("good").weights
    told = result.stderr.splitlines()
    assert len(told) == 6 and re.match(r"streaml1: skipped a.svm:5\d: ", told[0])
    assert told[-1] == "streaml1: skipped 7 more, 12 in all"
    assert "rejected" in result.stdout.split("\n")[1]
    assert result.stdout.split("\n")[2].split()[-1] == "12"
    assert json.loads(Path("r.jsonl").read_text().splitlines()[-1])["refused"] == 12


def test_a_run_that_goes_on_tells_what_it_has_refused_itself(here: Path) -> None:
    kept = (*PLAIN, "a.svm", "--bad", "skip", "--checkpoint", "kept")
    (here / "a.svm").write_text(GOOD + "spam\n" * 7)
    assert "skipped 2 more, 7 in all" in run(*kept).stderr
    with (here / "a.svm").open("a") as file:
        file.write(GOOD)
    assert run(*kept).stderr == ""
    with (here / "a.svm").open("a") as file:
        file.write("spam\n" * 6)
    *told, last = run(*kept).stderr.splitlines()
    assert len(told) == 5 and last == "streaml1: skipped 1 more, 6 in all"


@pytest.mark.parametrize("command", ["learn", "convert"])
def test_machines_are_told_each_example_that_is_skipped(here: Path, command: str) -> None:
    (here / "a.svm").write_text(GOOD + "spam\n" * 11)
    args = [command, "a.svm", *(["a.rows"] if command == "convert" else []), "--bad", "skip"]
    told = [json.loads(line) for line in run(*args, "--log", "json").stderr.splitlines()]
    refused = [one for one in told if one["event"] == "example_refused"]
    n = GOOD.count("\n")
    assert [one["place"] for one in refused] == [f"a.svm:{n + k}" for k in range(1, 12)]
    assert {one["level"] for one in refused} == {"warning"}
    (last,) = (one for one in told if one["event"] == "examples_refused")
    assert (last["message"], last["refused"]) == ("skipped 11 in all", 11)
    *some, more = run(*args).stderr.splitlines()
    assert len(some) == 5 and more == "streaml1: skipped 6 more, 11 in all"


def test_all_refused_is_an_error() -> None:
    said = run("learn", "-", "--format", "svm", "--bad", "skip", input="spam\n", code=2).stderr
    assert said.endswith("streaml1: - has no example to learn (1 rejected); nothing was written\n")


def test_standard_input_cannot_be_read_twice() -> None:
    said = refused("learn", "-", "--format", "svm", "--passes", "2", "--save", "m", input=GOOD)
    assert said == "standard input cannot be read twice: write it to a file and read that"
    assert files() == {}


def test_an_unwritable_place_is_refused_at_once(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def denied(**options: Any) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", denied)
    said = refused("learn", svm, "--report", "r.jsonl")
    assert said == "--report r.jsonl cannot be written: permission denied"


def test_a_read_only_file_is_refused(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("m").write_text("precious")
    # As root everything can be written.
    monkeypatch.setattr("os.access", lambda path, mode: Path(path).name != "m")
    assert refused("learn", svm, "--save", "m") == "--save m cannot be written: it is read-only"


def test_matplotlib_is_asked_for_before_the_stream(
    svm: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    said = refused("learn", svm, "--plot", "a.png")
    assert said == ("--plot a.png needs matplotlib; run pip install 'streaml1[plot]'")


def test_a_full_disk(svm: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    Path("m").write_text("precious")
    result = run("learn", svm, "--save", "m", code=75)
    assert re.match(r"streaml1: m cannot be written.*no space left on device.*\n", result.stderr)
    assert Path("m").read_text() == "precious"


def test_what_is_text_is_asked_for_once() -> None:
    """A checkpoint knows it, and a saved model."""
    lines = [f"{k % 2},w{k % 5} now\n" for k in range(40)]
    asked = ("--target", "y", "--save", "m")
    for name, part in (("a.csv", lines), ("b.csv", lines[:25])):
        Path(name).write_text("y,m\n" + "".join(part))
    run("learn", "a.csv", *asked, "--text", "m", "--ngrams", "2")
    whole = streaml1.load("m").weights
    run("learn", "b.csv", *asked, "--text", "m", "--ngrams", "2", "--checkpoint", "c")
    Path("b.csv").write_text("y,m\n" + "".join(lines))
    run("learn", "b.csv", *asked, "--checkpoint", "c")
    assert streaml1.load("m").weights == whole and "m=w1 now" in whole
    run("learn", "b.csv", *asked, "--load", "m")


# show, predict, warm, help


def test_show(saved: str) -> None:
    model = streaml1.load(saved)
    out = run("show", saved, "--top", "3").stdout
    facts = dict(re.findall(r"^  (\S+(?: \S+)*?)  +(.+)$", out, re.M))
    assert out.startswith("ElasticNetClassifier\n")
    assert facts["l1"] == "0.001" and facts["loss"] == "logistic"
    assert facts["examples learnt"] == "100"
    assert facts["non-zero weights"] == str(model.n_nonzero)
    assert facts["features seen"].endswith("18")
    assert float(facts["intercept"]) == pytest.approx(model.intercept, rel=1e-5)
    shown = [line.split() for line in out.split("feature\n")[1].splitlines()]
    assert [(name, float(w)) for w, name in shown] == [
        (str(name), round(w, 4)) for name, w in model.top_weights(3)
    ]
    assert "feature\n" not in run("show", saved, "--top", "0").stdout


@pytest.mark.parametrize("model", ["elastic-net", "softmax"])
@pytest.mark.parametrize("hashed", [[], ["--hash-bits", "10"]], ids=["names", "hashed"])
def test_show_finds_names_of_digits(model: str, hashed: list[str], here: Path) -> None:
    lines = ['{"x": {"7": 1, "a": 1}, "y": 1}', '{"x": {"a": 1}, "y": 0}'] * 20
    Path("a.jsonl").write_text("\n".join(lines))
    run("learn", "a.jsonl", "--model", model, "--lr", "0.1", *hashed, "--save", "m")
    learner = streaml1.load("m")
    key = learner.slot("7") if hashed else "7"
    found = learner.weights[key]
    w = found[1] if model == "softmax" else found
    out = run("show", "m", "--feature", "7", "--feature", "9" * 5000).stdout
    shown = next(line.split() for line in out.splitlines() if line.split()[1:2] == ["7"])
    assert shown[0] == f"{w:+.4f}" and abs(w) > 1e-3
    assert shown[2:3] == [f"{key}"] if hashed else f"{key}" not in shown[2:]


def test_show_tells_no_schedule_of_a_rate_that_is_auto(saved: str, svm: str) -> None:
    run("learn", svm, "--save", "auto")
    told = run("show", "auto").stdout
    assert re.search(r"^  lr +auto$", told, re.M) and "schedule" not in told
    assert re.search(r"^  schedule +invsqrt$", run("show", saved).stdout, re.M)


def test_show_a_name_that_would_print_as_nothing(here: Path) -> None:
    Path("a.jsonl").write_text('{"x": {"": 1}, "y": 1}\n{"x": {" ": 1}, "y": 0}\n' * 9)
    run("learn", "a.jsonl", "--save", "m")
    lines = run("show", "m").stdout.split("feature\n")[1].splitlines()
    assert sorted(line.split(maxsplit=1)[1] for line in lines) == ["' '", "''"]


def test_show_a_model_of_zeros(svm: str) -> None:
    out = run("learn", svm, "--l1", "1e9", "--save", "m").stdout
    assert "All weights are zero." in out
    assert "no weights" in run("show", "m").stdout


def test_predict(saved: str, svm: str) -> None:
    model = streaml1.load(saved)
    X = [{i % 7: 1.0, 10 + i % 11: 0.5} for i in range(100)]
    expected = [model.predict_proba_one(x)[True] for x in X]
    assert [float(p) for p in run("predict", saved, svm).stdout.split()] == expected
    told = [json.loads(t) for t in run("predict", saved, svm, "--json").stdout.splitlines()]
    assert told == [{"line": i + 1, "p": p} for i, p in enumerate(expected)]
    assert len(run("predict", saved, svm, "--limit", "7").stdout.split()) == 7


def test_predict_needs_no_labels_and_keeps_lines_aligned(saved: str) -> None:
    text = "1:1\nspam spam\n+1 1:1\n2:1e60\n3:1\n"
    out = run("predict", saved, "-", "--format", "svm", "--bad", "skip", input=text)
    assert [bool(line) for line in out.stdout.split("\n")] == [
        True,
        False,
        True,
        False,
        True,
        False,
    ]
    args = ["predict", saved, "-", "--format", "svm", "--bad", "skip", "--json"]
    told = [json.loads(line) for line in run(*args, input=text).stdout.splitlines()]
    assert [one["line"] for one in told] == [1, 2, 3, 4, 5]
    assert told[1]["p"] is None and told[0] == {"line": 1, "p": told[2]["p"]}
    failed = run("predict", saved, "-", "--format", "svm", input=text, code=65)
    assert failed.stderr.startswith("streaml1: -:2: ") and failed.stdout.count("\n") == 1


def test_predict_values(svm: str) -> None:
    run("learn", svm, "--task", "regression", "--save", "m")
    told = json.loads(run("predict", "m", svm, "--limit", "1", "--json").stdout)
    assert told == {"line": 1, "value": streaml1.load("m").predict_one({0: 1.0, 10: 0.5})}


def test_warm() -> None:
    told = run("warm", "--model", "elastic-net", "--model", "ftrl").stdout
    assert re.fullmatch(r"compiled in \d+\.\d s.*\n", told)
    assert "'ball' is not one of" in run("warm", "--model", "ball", code=2).stderr
    assert "'words' is not one of" in run("warm", "--with", "words", code=2).stderr
    run("warm", "--model", "ftrl", "--with", "text")


@pytest.mark.parametrize("command", ["learn", "predict", "evaluate", "convert"])
def test_help_offers_what_a_command_takes(command: str) -> None:
    told = run(command, "--help").stdout
    assert ("(of each pass)" in told) == (command == "learn")
    assert ("dead-letter]" in told) == (command in ("learn", "predict"))


@pytest.mark.parametrize("command", [[], ["learn"], ["show"], ["predict"], ["warm"]])
def test_help_ends_with_an_example(command: list[str]) -> None:
    out = run(*command, "--help").stdout
    assert "Example: " in out
    if command:
        assert out.rstrip().split("\n\n")[-1].strip().startswith("Example: ")


def test_version_and_no_command() -> None:
    assert run("--version").stdout == f"streaml1 {streaml1.__version__}\n"
    assert "Usage: " in run(code=2).stderr


# Real processes


def heed_signals() -> None:
    """Tests that run in the background, or by nohup, would hand on that these are ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@pytest.fixture
def start(here: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Start the command line as a process of its own."""
    started = []

    def start(*args: str, **options: Any) -> subprocess.Popen[str]:
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}
        one = subprocess.Popen(
            [sys.executable, "-m", "streaml1", *args],
            cwd=here,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=heed_signals,
            **options,
        )
        started.append(one)
        return one

    yield start
    for one in started:
        one.kill()
        one.communicate()


def read_until(process: subprocess.Popen[str], wanted: str) -> None:
    """Read standard output up to the first line that has `wanted`."""
    assert process.stdout is not None
    late = threading.Timer(120.0, process.kill)
    late.start()
    for line in iter(process.stdout.readline, ""):
        if wanted in line:
            late.cancel()
            return
    pytest.fail(f"{wanted!r} did not come: {process.communicate()}")


def feed(process: subprocess.Popen[str], rows: list[str]) -> None:
    assert process.stdin is not None
    process.stdin.write("\n".join(rows) + "\n")
    process.stdin.flush()


SIGNALS = pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])


@SIGNALS
def test_a_signal_while_input_is_slow(start: Callable[..., Any], number: int) -> None:
    outputs = ["--save", "m", "--report", "r.jsonl", "--plot", "p.svg"]
    process = start("learn", "-", "--format", "svm", "--every", "2", *outputs, stdin=-1)
    feed(process, ROWS[:2])
    read_until(process, "        2 ")
    feed(process, ROWS[2:3])  # half a block
    time.sleep(0.3)
    sent = time.monotonic()
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    assert time.monotonic() - sent < 10.0
    assert process.returncode == 128 + number, err
    assert err == "streaml1: interrupted after 3 examples; m, r.jsonl, p.svg were written\n"
    assert out.endswith("features seen, 0.0% sparse\n")
    assert streaml1.load("m").n_iterations == 3
    assert len(Path("r.jsonl").read_text().splitlines()) == 2
    assert sorted(files()) == ["m", "p.svg", "r.jsonl"]


@SIGNALS
def test_a_signal_in_the_middle_of_a_file(
    start: Callable[..., Any], number: int, here: Path
) -> None:
    (here / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    process = start("learn", "long.svm", "--passes", "100000", "--save", "m")
    read_until(process, "20,000 ")
    sent = time.monotonic()
    process.send_signal(number)
    _, err = process.communicate(timeout=30)
    assert time.monotonic() - sent < 10.0
    assert process.returncode == 128 + number, err
    n = streaml1.load("m").n_iterations
    assert n >= 20_000
    assert err == f"streaml1: interrupted after {n:,} examples; m was written\n"


def test_a_terminal_that_is_closed(here: Path) -> None:
    """SIGHUP comes, and nothing can be written any more: the model is saved."""
    (here / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    args = ["learn", "long.svm", "--passes", "100000", "--save", "m", "--checkpoint", "kept"]
    terminal, end = pty.openpty()

    def begin() -> None:
        heed_signals()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)

    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", *args], cwd=here, stdin=end, stdout=end, stderr=end,
        env={**os.environ, "PYTHONPATH": str(ROOT)}, start_new_session=True,
        preexec_fn=begin,
    )  # fmt: skip
    os.close(end)
    told = b""
    while b"20,000 " not in told:
        told += os.read(terminal, 4096)
    os.close(terminal)
    assert process.wait(30) == 129
    model = streaml1.load("m")
    assert model.n_iterations >= 20_000
    assert streaml1.load("kept").n_iterations == model.n_iterations


def test_a_signal_before_the_first_example(start: Callable[..., Any], here: Path) -> None:
    (here / "m").write_text("precious")
    process = start("learn", "-", "--format", "svm", "--save", "m", stdin=-1)
    time.sleep(4.0)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert (here / "m").read_text() == "precious"


@pytest.mark.parametrize("save", [[], ["--save", "m"]])
def test_a_closed_pipe_ends_quietly(start: Callable[..., Any], here: Path, save: list[str]) -> None:
    (here / "long.svm").write_text("\n".join(ROWS * 100) + "\n")
    process = start("learn", "long.svm", "--passes", "100000", *save)
    read_until(process, "1,000 ")
    process.stdout.close()
    err = process.stderr.read()
    assert process.wait(30) == 141
    if save:
        assert re.fullmatch(r"streaml1: output closed after \S+ examples; m was written\n", err)
        assert streaml1.load("m").n_iterations >= 1000
    else:
        assert err == ""


def test_predictions_into_a_closed_pipe(start: Callable[..., Any], here: Path, saved: str) -> None:
    (here / "long.svm").write_text("\n".join(ROWS * 1000) + "\n")
    process = start("predict", saved, "long.svm")
    read_until(process, "0.")
    process.stdout.close()
    assert process.stderr.read() == "" and process.wait(30) == 141


def test_predictions_come_as_the_input_does(start: Callable[..., Any], saved: str) -> None:
    process = start("predict", saved, "-", "--format", "svm", "--limit", "2", stdin=-1)
    feed(process, ["1:1"])
    time.sleep(0.6)
    feed(process, ["2:1"])
    read_until(process, "0.")
    process.communicate(timeout=30)
    assert process.returncode == 0


def test_piped_output_is_plain(start: Callable[..., Any], svm: str) -> None:
    out, err = start("learn", svm, "--every", "10").communicate(timeout=60)
    assert "\x1b" not in out + err and "\r" not in out
    assert out.count("log-loss log-loss") == 1, "the header comes once"


def test_a_terminal_shows_progress(here: Path, svm: str) -> None:
    pty = pytest.importorskip("pty")
    parent, child = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "streaml1", "learn", svm, "--every", "50", "--passes", "20"],
        cwd=here,
        env={**os.environ, "PYTHONPATH": str(ROOT), "TERM": "xterm", "COLUMNS": "100"},
        stdout=child,
        stderr=child,
    )
    os.close(child)
    seen = b""
    while True:
        try:
            part = os.read(parent, 65536)
        except OSError:  # the other end is closed
            break
        if not part:
            break
        seen += part
    os.close(parent)
    assert process.wait(30) == 0
    assert b"\x1b[" in seen and b"examples " in seen
    assert len(re.findall(rb" [\d,]+ +0\.\d{4} +0\.\d{4}", seen)) == 40


def test_the_module_is_the_command(python: Callable[..., str]) -> None:
    assert python("-m", "streaml1", "--version").startswith("streaml1 ")


def test_help_imports_nothing_heavy(python: Callable[..., str]) -> None:
    script = (
        "import sys; before = set(sys.modules); import streaml1; package = set(sys.modules)\n"
        "from streaml1.cli import cli\n"
        "try: cli.main(['learn', '--help'])\n"
        "except SystemExit: pass\n"
        "new = set(sys.modules) - package\n"
        "print(sorted(new & {'river', 'numba', 'scipy', 'numpy', 'rich', 'matplotlib', 'pandas'}))"
    )
    assert python("-c", script).rstrip().endswith("[]")


USING = """
import atexit, runpy, sys
from streaml1.core.jit import loader
atexit.register(lambda: print("kernels of dicts:", *loader._loaded))
kind, what, *sys.argv[1:] = sys.argv[1:]
if kind == "-m":
    runpy.run_module(what, run_name="__main__", alter_sys=True)
else:
    exec(what)
"""


@pytest.mark.slow
def test_warm_leaves_nothing_to_compile(python: Callable[..., str], svm: str, here: Path) -> None:
    # Kernels that others have compiled are loaded: which, is told as well.
    def used(*args: str) -> set[str]:
        out = python("-c", USING, *args, NUMBA_DEBUG_CACHE="1", **WARM)
        of_dicts = re.findall(r"^kernels of dicts:(.*)$", out, re.MULTILINE)
        return {
            *re.findall(r"data (?:loaded from|saved to) '(.*\.nbc)'", out),
            *of_dicts[-1].split(),
        }

    warmed = used("-m", "streaml1", "warm", "--model", "elastic-net")
    Path("a.jsonl").write_text('{"x": {"b": "c", "a": 1}, "y": 1}\n' * 3)
    needed = set()
    for name, task in ((svm, "classification"), (svm, "regression"), ("a.jsonl", "regression")):
        source, model = str(here / name), str(here / "m")
        needed |= used("-m", "streaml1", "learn", source, "--task", task, "--save", model)
        needed |= used("-m", "streaml1", "learn", source, "--load", model, "--save", model)
        needed |= used("-m", "streaml1", "show", model)
        needed |= used("-m", "streaml1", "predict", model, source)
    hashed = ("--hash-bits", "9", "--max-features", "1")
    needed |= used("-m", "streaml1", "learn", str(here / "a.jsonl"), *hashed)
    one = "m = streaml1.ElasticNetClassifier()\nfor x in ({'a': 1.0}, {'a': 'b'}) * 2:\n"
    one += "    m.predict_proba_one(x)\n    m.learn_one(x, True)\n"
    needed |= used("-c", f"import streaml1\n{one}")
    needed |= used("-c", f"import streaml1\n{one}".replace("()", "(hash_bits=9)", 1))
    assert any(name.endswith(".nbc") for name in needed)
    assert any(name.startswith("streaml1_") for name in needed)
    assert needed <= warmed


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
def test_a_full_disk_loses_no_model(here: Path, svm: str) -> None:
    def code(*args: str) -> tuple[int, str]:
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "streaml1", *args],
                cwd=here,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=120,
            )
        return done.returncode, done.stderr

    assert code("learn", svm, "--every", "10", "--save", "kept") == (
        75,
        "streaml1: standard output cannot be written (no space left on device) after 10 examples; "
        "kept was written\n",
    )
    assert code("show", "kept") == (
        75,
        "streaml1: standard output cannot be written: no space left on device\n",
    )


@pytest.mark.slow
def test_the_demo(python: Callable[..., str], here: Path) -> None:
    environment = {"PYTHONPATH": str(ROOT)}
    out = subprocess.run(
        [sys.executable, str(ROOT / "demos" / "stdlib_stream.py")],
        cwd=here,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
        timeout=300,
    ).stdout
    assert out.splitlines()[-1] == "out/stdlib_stream.png"
    assert (here / "out" / "stdlib_stream.png").stat().st_size > 10_000
    loss, constant = map(float, re.findall(r"log-loss ([\d.]+) \(baseline ([\d.]+)", out)[0])
    assert loss < constant - 0.1


@pytest.mark.parametrize("command", ["learn", "predict", "evaluate"])
def test_the_docs_name_every_option(command: str) -> None:
    told = set(re.findall(r"`(--[a-z0-9-]+)`", (ROOT / "docs" / f"{command}.md").read_text()))
    parameters = [one for one in cli.commands[command].params if isinstance(one, click.Option)]
    options = {name for one in parameters for name in (*one.opts, *one.secondary_opts)}
    assert options <= told
