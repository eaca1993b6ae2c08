"""The remedies of errors: keywords for programs in Python, options for the command line."""

from __future__ import annotations

import ast
import datetime
import re
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from click.testing import CliRunner

import streaml1
from streaml1 import ElasticNetClassifier, progressive
from streaml1.cli import cli
from streaml1.core.named_options import command_line_options, named_option, named_options
from streaml1.distributed import ProcessExecutor
from streaml1.sources import SourceError, SourceOptions, open_source

_KEYWORD = re.compile(r"""\b[a-z_]+=(?:"[^"]*"|\[[^]]*\]|\{[^}]*\}|True|False)""")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def proposed(error: BaseException) -> list[dict[str, Any]]:
    """Return the keywords in an error as Python reads them."""
    text = str(error)
    assert "--" not in text and "\n" not in text
    return [eval(f"dict({keyword})") for keyword in _KEYWORD.findall(text)]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--lr -1", "--lr must be a number from 0 to 1e+10, got -1.0"),
        ("--hash-bits 40", "--hash-bits must be an integer from 1 to 30, got 40"),
        ("--loss hinge --negative-rate 0.5", "--negative-rate requires --loss logistic, got 'hi"),
        ("--model softmax --penalty ball --l2 1", "--l2 must be 0 with --penalty ball, got 1.0"),
        ("--model softmax --classes a,a", "--classes must not contain duplicates"),
        ("--model ftrl --alpha auto --no-scaled", "--alpha auto requires scaled features; leave "
         "--no-scaled out"),
        ("--model eg --lr auto", "--lr auto is only supported by the elastic net and softmax"),
        ("--offset a --text a", "--offset must not be a text feature, got 'a'"),
        ("--text ,", "--text has an empty name"),
        ("--cross a", "--cross has ('a',), which is not an interaction"),
    ],
)  # fmt: skip
def test_errors_of_parameters_name_options(options: str, message: str) -> None:
    result = CliRunner().invoke(cli, ["learn", "stdlib", *options.split()])
    assert result.exit_code == 2
    assert result.stderr.startswith(f"streaml1: {message}"), result.stderr


def learn(source: Any, options: dict[str, Any]) -> None:
    progressive(ElasticNetClassifier(), source, every=10, **options)


DAYS = [datetime.date(2026, 11, day) for day in (1, 2)]
ENVELOPE = '{"op": "c", "after": {"a": 1, "y": 1}}\n'


@pytest.mark.parametrize(
    ("source", "content", "options", "remedy"),
    [
        ("a.csv", "a;y\n1;0\n2;1\n", {"target": "y"}, {"delimiter": ";"}),
        ("a.csv", "a\ty\n1\t0\n", {"target": "y"}, {"delimiter": "tab"}),
        ("a.csv", "a\x01y\n1\x010\n", {"target": "y"}, {"delimiter": r"\x01"}),
        ("a.txt", "a,y\n1,0\n", {"target": "y"}, {"format": "csv"}),
        ("a.csv", "1,0.5,0\n2,0.7,1\n", {"target": "2"}, {"header": False}),
        ("a.csv", "a,a,y\n1,2,0\n", {"target": "y"}, {"ignore": ["1"]}),
        ("a.csv", "a,,y\n1,b,0\n", {"target": "y"}, {"ignore": ""}),
        ("a.csv", "s,y\nred,0\n", {"target": "y"}, {"categorical": ["s"]}),
        ("a.csv", 'n,y\n"2,5",0\n', {"target": "y"}, {"decimal": ","}),
        ("a.csv", "n,y\n1,2\n", {"target": "y"}, {"positive": "2"}),
        ("a.csv", "n,y\n1,\n2,1\n", {"target": "y"}, {"bad": "skip"}),
        ("a.jsonl", ENVELOPE, {"target": "y"}, {"at": "after"}),
        ("a.jsonl", ENVELOPE, {"target": "y"}, {"target": "after.y"}),
        ("a.jsonl", '{"y": {"long": 1}, "a": 1}\n', {"target": "y"}, {"target": "y.long"}),
        ("a.svm", "1 |ad site\n", {}, {"format": "vw"}),
        (pa.table({"day": DAYS, "y": [0, 1]}), "", {"target": "y"}, {"ignore": ["day"]}),
        (pa.table({"day": DAYS, "y": [0, 1]}), "", {"target": "y"}, {"categorical": ["day"]}),
        (pa.table({"y": [{"a": 1}]}), "", {"target": "y"}, {"target": "y.a"}),
        (pd.DataFrame({"y": [2, 1]}), "", {"target": "y"}, {"positive": "2"}),
        ([{"a": 1, "y": 2}], "", {"target": "y"}, {"positive": "2"}),
    ],
)
def test_remedies_help(
    source: Any, content: str, options: dict[str, Any], remedy: dict[str, Any]
) -> None:
    if content:
        Path(source).write_text(content)
    with pytest.raises(ValueError, match=r".") as caught:
        learn(source, options)
    assert remedy in proposed(caught.value)
    learn(source, options | remedy)


FRAME = pd.DataFrame({name: [1] for name in "abcdefgh"})
MIXED = pd.DataFrame({"y": [0, 1], "s": pd.Series(["a", 1.0], dtype=object)})


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (FRAME, {}, 'use target="COLUMN" to name the label column, or give the frame with its '
                    "labels, (frame, y); the columns are: a, b, c, d, e and 3 more"),
        (MIXED, {"target": "y"}, "use categorical= or ignore="),
        ([{"a": "x", "y": 1}], {"target": "y", "numeric": ["a"]}, "leave it out of numeric="),
        (pd.DataFrame({"y": ["no"]}), {"target": "y"},
         "by positive= (CSV, JSON, frames and dicts), or use SoftmaxClassifier for any labels"),
        ([({"a": 1}, 0.5)], {}, "use a regressor for numbers, or use SoftmaxClassifier"),
        (["a.jsonl", "a.jsonl"], {}, "list each file once, and use passes= to read them again"),
        ("a.jsonl", {}, 'use target="NAME" to name the label of flat lines'),
        ("a.jsonl", {"seed": 1}, "seed= applies to sources that shuffle"),
        ("a.jsonl", {"schema": "a.avsc"}, "schema= and schema_registry= apply to the records"),
        ("river:Phishing", {"format": "csv"}, "format= and column options apply to files only"),
        ("a.rows", {"target": "y"}, "(rows): give them to streaml1.training.convert"),
        ("kafka://ann:secret@h/t", {}, 'use kafka={"user": ...} and set STREAML1_KAFKA_PASSWORD'),
        ("kafka://h/t", {"kafka": {"mechanism": "PLAIN"}}, 'use kafka={"user": ...}'),
        ("kafka://h/t", {"kafka": {"user": "a"}}, 'use kafka={"mechanism": ...} with one of'),
        ("kafka://h/t", {"kafka": {"ca": "x", "security": "PLAINTEXT"}},
         'kafka={"ca": ...} requires SSL, but the protocol is PLAINTEXT; remove it, or change '
         'kafka={"security": ...}'),
        ("kafka://h/t", {"kafka": "p"}, "the properties file p: no such file"),
        ("kafka://h/t", {"schema": "a"}, 'schema= needs format="avro" or "protobuf"'),
        ("kafka://h/t", {"format": "avro"}, 'give schema_registry="URL" or schema="FILE"'),
        ("kafka://h/t", {"format": "vw", "target": "y"}, "(target=, ignore=, ...) need JSON"),
        ("kafka://h/t", {"format": "csv", "target": "y"}, "name their columns by column_names="),
        ("kafka://h/t", {"format": "csv", "at": "a"}, "at= does not apply to CSV records"),
    ],
)  # fmt: skip
def test_remedies_name_keywords(source: Any, options: dict[str, Any], message: str) -> None:
    Path("a.jsonl").write_text('{"a": 1, "y": 1}\n')
    Path("a.rows").touch()
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        learn(source, options)
    proposed(caught.value)


def test_the_command_line_names_its_options() -> None:
    Path("a.csv").write_text("a,y\n1,0\n")
    for _ in range(2):
        result = CliRunner().invoke(cli, ["learn", "a.csv", "--columns", "a,y", "--header"])
        assert (
            "streaml1: --columns is for files without a header: leave --header out" in result.stderr
        )
        with pytest.raises(SourceError, match="^column_names= is for .*: leave header= out"):
            open_source("a.csv", SourceOptions(column_names=["a", "y"], header=True))


def test_worker_processes_speak_as_their_parent() -> None:
    with ProcessExecutor(1) as executor:
        assert [*executor.gather([executor.submit(named_option, "at", "a")])] == ['at="a"']
    with command_line_options({"start": "--from"}), ProcessExecutor(1) as executor:
        handles = [executor.submit(named_option, name, "a b") for name in ("start", "schema")]
        assert [*executor.gather(handles)] == ["--from 'a b'", "--schema 'a b'"]


@pytest.mark.parametrize(
    "name", ["a", "it's", 'say "a"', "a, b", "line\nend", "é\\", " ", "'", '"']
)
def test_values_are_valid_python(name: str) -> None:
    for value in (name, [name, "b"]):
        assert eval(f"dict({named_option('ignore', value)})") == {"ignore": value}
    assert eval(f"dict({named_options({'at': name, 'header': True})})") == {
        "at": name,
        "header": True,
    }


OF_THE_COMMAND_LINE = {
    "core/logging.py", "core/named_options.py", "distributed/mixing/group.py",
    "sources/readers/signatures.py", "training/consumer_group.py", "training/metrics_server.py",
    "training/page/finished.py",
}  # fmt: skip
"""Files with options that only the command line has, or that choose by the caller."""

OTHER_PROGRAMS = ("psql --csv", "protoc --include_imports", "--descriptor_set_out")


def texts_with_options(tree: ast.AST) -> list[str]:
    """Return the strings with an option, except for docstrings and arguments of `by_caller`."""
    left_out: set[ast.AST] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            left_out.add(node.value)
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "by_caller":
            left_out.update(ast.walk(node))
    nodes = (node for node in ast.walk(tree) if node not in left_out)
    texts = (node.value for node in nodes if isinstance(node, ast.Constant))
    return [text for text in texts if isinstance(text, str) and re.search(r"\B--[a-z]", text)]


def test_no_error_has_an_option_of_its_own() -> None:
    package = Path(streaml1.__file__).parent
    found = {
        path.relative_to(package).as_posix()
        for path in package.rglob("*.py")
        for text in texts_with_options(ast.parse(path.read_text()))
        if not any(program in text for program in OTHER_PROGRAMS)
    }
    assert {name for name in found if not name.startswith("cli/")} == OF_THE_COMMAND_LINE
