"""Raw text namespaces of `.vw` lines: kernel against `parse_vw`, sources, CLI and topics."""

from __future__ import annotations

import json
import re
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.cli import cli
from streaml1.sources import SourceError, open_source
from streaml1.sources.kafka.record_formats import record_parser
from streaml1.sources.readers.named_lines import flatten_features
from streaml1.sources.readers.vw import VwParser, parse_vw
from streaml1.training import convert, evaluate, prediction_blocks
from streaml1.training.consumer_group import Group
from streaml1.training.model_registry import reader

TEXT_NAMESPACES = ["mail", "m", "t2"]
FRAGMENTS = (
    *(
        "|mail ",
        "|m ",
        "|t2\t",
        "|mail",
        "|mails ",
        "| mail ",
        "| mail=x ",
        "|m:2 ",
        "|mail:",
        "| ",
    ),
    *(
        "|site ",
        "a b",
        "a:2",
        "Cheap PILLS!",
        "mail=",
        "=",
        ":",
        " ",
        "\t",
        "\r",
        "é",
        "\xa0",
        "w:0 ",
    ),
)


def features(x: Any) -> list[list[tuple[str, float]]]:
    """Return the sorted (name, value) pairs of each row of a kernel's result."""
    hashes, values, indptr = x.csr()
    names = x.feature_names(np.arange(len(hashes)))
    return [
        sorted(zip(names[lo:hi], values[lo:hi].tolist(), strict=True))
        for lo, hi in zip(indptr, indptr[1:], strict=False)
    ]


def python_features(x: dict[str, Any]) -> list[tuple[str, float]]:
    return sorted(zip(*flatten_features(x), strict=True))


@given(st.lists(st.lists(st.sampled_from(FRAGMENTS), max_size=12).map("".join), min_size=1))
def test_kernel_matches_the_python_parser(bodies: list[str]) -> None:
    lines = [f"1 {body}" for body in bodies]
    parsed = VwParser(texts=TEXT_NAMESPACES).read("".join(f"{line}\n" for line in lines).encode())
    expected, faults = [], {}
    for k, line in enumerate(lines):
        try:
            example = parse_vw(line, texts=TEXT_NAMESPACES)
        except ValueError as error:
            faults[k] = str(error)
            continue
        if example is not None:
            expected.append(python_features(example[0]))
    assert dict(parsed.faults) == faults
    got = []
    for row in features(parsed.x):
        sums: dict[str, float] = {}
        for name, v in row:
            sums[name] = sums.get(name, 0.0) + v
        got.append(sorted((name, v) for name, v in sums.items() if v))
    assert got == expected


def test_text_extends_to_the_next_bar() -> None:
    x = parse_vw("1 |mail Re: cheap pills!|site news |mail again\r\n", texts=["mail"])
    assert x == ({"mail": "Re: cheap pills! again", "site^news": 1.0}, 1.0, 1.0)
    assert parse_vw("1 |mail", texts=["mail"]) == ({"mail": ""}, 1.0, 1.0)
    assert parse_vw("1 |mail a b") == ({"mail^a": 1.0, "mail^b": 1.0}, 1.0, 1.0)
    names = [f"n{k}" for k in range(70)]
    line = b"1 " + b" ".join(b"|n%d a b " % k for k in range(70)) + b"\n"
    assert list(VwParser(texts=names).read(line).x) == [{name: "a b  " for name in names[:-1]} | {
        "n69": "a b "
    }]  # fmt: skip


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1 |mail:2 a", "namespace 'mail:2' is raw text and cannot have a value; remove it"),
        (
            "1 | mail:2 |mail a",
            "feature 'mail' has the name of the raw text 'mail' or of its n-grams",
        ),
        (
            "1 | mail=a |mail a",
            "feature 'mail=a' has the name of the raw text 'mail' or of its n-grams",
        ),
    ],
)
def test_invalid_text_namespaces_are_rejected(line: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_vw(line, texts=["mail"])
    parsed = VwParser(texts=["mail"]).read(line.encode() + b"\n")
    assert len(parsed.x) == 0 and message in parsed.faults[0][1]


def labelled_texts(n: int) -> list[tuple[int, str, str]]:
    random = Random(5)
    vocabulary = ["Re:", "cheap", "PILLS,", "now", "see", "you", "at", "ten", "o'clock", "é", "Σ"]
    texts = [" ".join(random.choices(vocabulary, k=random.randrange(9))) for _ in range(n)]
    return [(random.randrange(2), random.choice("ab"), text) for text in texts]


@pytest.mark.parametrize("params", [{}, {"hash_bits": 20}, {"cross": [("site", "mail")]}])
def test_vw_json_and_dicts_train_the_same_model(params: Any, tmp_path: Path) -> None:
    """VW prefixes the site features with their namespace; otherwise the inputs are the same."""
    data = labelled_texts(500)
    vw, jsonl = tmp_path / "a.vw", tmp_path / "a.jsonl"
    named = [(y, {f"site^{s}": 1.0, "mail": text}) for y, s, text in data]
    vw.write_text("".join(f"{y} |site {s} |mail {text}\n" for y, s, text in data))
    jsonl.write_text("".join(json.dumps({"x": x, "y": y}) + "\n" for y, x in named))
    models = [ElasticNetClassifier(text=["mail"], ngrams=3, l1=1e-6, **params) for _ in range(3)]
    for model, path in zip(models, (vw, jsonl), strict=False):
        streaml1.progressive(model, path, every=200)
    for y, x in named:
        models[2].learn_one(x, y)
    assert models[0].weights == models[1].weights == models[2].weights
    assert models[0].n_nonzero > 20
    if "hash_bits" not in params:
        assert {"site^a", "mail=cheap pills", "mail=o clock ten"} <= set(models[0].weights)


def test_kafka_records_support_text() -> None:
    parsed = record_parser("vw", True, ["mail"])(b"1 |mail Buy now |site a\n")
    assert list(parsed.x) == [{"mail": "Buy now ", "site^a": 1.0}]


def test_sources_opened_without_text_are_rejected(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such sources would yield other features, so they are rejected before learning."""
    monkeypatch.chdir(tmp_path)
    Path("a.vw").write_text("1 |mail Cheap pills, cheap!\n0 |mail see you\n")
    Path("a.csv").write_text('mail,y\n"Cheap pills, cheap!",1\nsee you,0\n')
    convert("a.csv", "a.rows", target="y", categorical=["mail"])
    model = ElasticNetClassifier(lr=0.1, text=["mail"])
    cases: list[tuple[str, dict[str, Any], str]] = [
        ("a.vw", {}, "open it by open_source(..., text=['mail']), or give its name"),
        ("a.csv", {"target": "y"}, "open it by open_source(..., text=['mail'])"),
        ("a.rows", {}, "use the file it was converted from"),
    ]
    for name, options, remedy in cases:
        message = f"the model reads 'mail' as text, but {name} was opened without it; {remedy}"
        for consume in (streaml1.progressive, evaluate, prediction_blocks):
            with pytest.raises(SourceError, match=re.escape(message)):
                consume(model, open_source(name, **options))
    assert not model.n_iterations
    for name, options in (("a.vw", {}), ("a.csv", {"target": "y"})):
        streaml1.progressive(model, open_source(name, text=["mail"], **options))
    streaml1.progressive(model, open_source("a.csv", target="y", categorical=["mail"]))
    assert set(model.weights) == {"mail=cheap", "mail=pills", "mail=see", "mail=you"}


def test_consumer_group_reads_text() -> None:
    group = Group(
        ElasticNetClassifier(lr=0.1, text=["mail"]),
        "kafka://localhost:1/a",
        group="g",
        directory="kept",
        format="vw",
    )
    assert list(group._source.reader()._parser(b"1 |mail Buy now |site a\n").x) == [
        {"mail": "Buy now ", "site^a": 1.0}
    ]


def test_model_from_a_topic_knows_its_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`--load kafka://...` needs no `--text`: the topic is read once, with the given options."""
    path, saved = tmp_path / "a.vw", tmp_path / "m"
    path.write_text("1 |mail Cheap pills\n0 |mail see you\n")
    model, url = ElasticNetClassifier(lr=0.1, text=["mail"]), "kafka://localhost:1/models"
    model.learn_one({"mail": "see"}, True)
    reads: list[tuple[str, str]] = []

    def read_model(topic: Any) -> ElasticNetClassifier:
        reads.append((topic.url, topic.security.protocol))
        return model

    monkeypatch.setattr(reader, "read", read_model)
    args = ["learn", str(path), "--load", url, "--save", str(saved), "--kafka-security", "SSL"]
    result = CliRunner().invoke(cli, args)
    assert result.exit_code == 0, result.output
    assert reads == [(url, "SSL")]
    result = CliRunner().invoke(cli, ["predict", url, str(path), *args[-2:]])
    assert result.exit_code == 0 and reads == [(url, "SSL")] * 2, result.output
    for option in ("--predictions", "--publish"):
        unreachable = ["learn", str(path), option, "kafka://127.0.0.1:1/t", *args[-2:]]
        result = CliRunner().invoke(cli, unreachable)
        assert result.exit_code == 75 and "no broker answers at 127.0.0.1:1" in result.output
    assert set(model.weights) == {"mail=cheap", "mail=pills", "mail=see", "mail=you"}


def test_command_line(tmp_path: Path) -> None:
    """Continued training and prediction know the text namespaces from the model."""
    path, model = tmp_path / "a.vw", tmp_path / "m.model"
    path.write_text("".join(f"{y} |site {s} |mail {text}\n" for y, s, text in labelled_texts(300)))

    def run(*args: str) -> str:
        result = CliRunner().invoke(cli, list(args))
        assert result.exit_code == 0, result.output
        return result.output

    learn_args = ["learn", str(path), "--lr", "0.1", "--text", "mail", "--ngrams", "2"]
    run(*learn_args, "--save", str(model))
    loaded = streaml1.load(model)
    assert loaded.text == ["mail"] and "mail=cheap pills" in loaded.weights
    predicted = [float(p) for p in run("predict", str(model), str(path)).split()]
    example = parse_vw(path.read_text().splitlines()[0], texts=["mail"])
    assert example is not None and predicted[0] == loaded.predict_proba_one(example[0])[True]
    run("learn", str(path), "--load", str(model), "--save", str(model))
    assert set(streaml1.load(model).weights) == set(loaded.weights)
    checkpoints = tmp_path / "checkpoints"
    run(*learn_args, "--checkpoint", str(checkpoints), "--limit", "100")
    run("learn", str(path), "--checkpoint", str(checkpoints), "--save", str(model))
    uninterrupted = tmp_path / "uninterrupted"
    run(*learn_args, "--save", str(uninterrupted))
    assert streaml1.load(model).weights == streaml1.load(uninterrupted).weights
