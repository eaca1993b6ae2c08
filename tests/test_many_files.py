"""Several files, directories and patterns as one source."""

from __future__ import annotations

import bz2
import gzip
import json
import os
import pickle
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier, progressive
from streaml1.cli import cli
from streaml1.core import exit_codes as exits
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers.many_files import ManyFiles
from streaml1.sources.source import Lost
from streaml1.training import convert, evaluate, predictions
from streaml1.training.checkpoint import CheckpointError, load_latest

Write = Callable[..., None]

HEADER = "a,site,y\n"


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Return a function that writes files into the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(**contents: str | bytes) -> None:
        for name, content in contents.items():
            path = Path(name.replace("__", "/"))
            path.parent.mkdir(exist_ok=True)
            path.write_bytes(content.encode() if isinstance(content, str) else content)

    return write


def svm(first: int, n: int) -> str:
    """Return n lines of examples with distinct values."""
    return "".join(f"{k % 2} {k % 5}:1 {10 + k % 3}:{k}\n" for k in range(first, first + n))


def csv_part(first: int, n: int) -> str:
    rows = (f"{k},{'news' if k % 3 else 'mail'},{k % 2}\n" for k in range(first, first + n))
    return HEADER + "".join(rows)


def fail(place: str, reason: str, number: int | None = None, origin: Any = None) -> None:
    raise AssertionError(f"{place}: {reason}")


def read(source: Any, size: int = 1000, reject: Any = fail) -> list[tuple[str, int, Any]]:
    """Return place, number and features of each example."""
    return [
        (block.place(row), block.lines[row], dict(block.x[row]))
        for block in source.blocks(size, reject)
        for row in range(len(block))
    ]


def state(model: Any) -> bytes:
    return pickle.dumps((model.weights, model.intercept, model.n_iterations))


def run(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(cli, arguments)
    output: str = result.output
    assert result.exit_code == code, output
    return output


# Which files are read


def test_places_name_the_part_and_numbers_continue(write: Write) -> None:
    write(**{"a.svm": svm(0, 3), "b.svm": "\n" + svm(3, 2), "c.svm": svm(5, 1)})
    found = read(open_source(["a.svm", "b.svm", "c.svm"]))
    assert [place for place, _, _ in found] == [
        "a.svm:1", "a.svm:2", "a.svm:3", "b.svm:2", "b.svm:3", "c.svm:1",
    ]  # fmt: skip
    assert [number for _, number, _ in found] == [1, 2, 3, 5, 6, 7]
    assert [x for _, _, x in found] == [{k % 5: 1.0, 10 + k % 3: float(k)} for k in range(6)]


def test_a_list_keeps_its_order_and_other_names_are_sorted_by_bytes(write: Write) -> None:
    names = ["day__part-10.svm", "day__part-9.svm", "day__Part-1.svm", "day__part-2.svm.bz2"]
    write(**dict.fromkeys(names, bz2.compress(svm(0, 1).encode())), **{"x.svm": svm(0, 1)})
    in_order = ["Part-1.svm", "part-10.svm", "part-2.svm.bz2", "part-9.svm"]

    def files(spec: Any) -> list[str]:
        source = open_source(spec)
        assert isinstance(source, ManyFiles)
        assert [place for place, _, _ in read(source)] == [f"{name}:1" for name in source.files]
        return source.files

    assert files("day") == [f"day/{name}" for name in in_order]
    assert files(Path("day")) == files("day/") == files(["day/"])
    assert files("day/*") == files("day")
    assert files("day/part-?.svm") == ["day/part-9.svm"]
    assert files(["x.svm", "day/part*"]) == ["x.svm", *(f"day/{n}" for n in in_order[1:])]


def test_files_that_are_not_data_are_left_out_of_directories(write: Write) -> None:
    skipped = ["_SUCCESS", "_committed_1", ".part-0.svm.crc", ".hidden", "part-0.svm.crc"]
    write(**{f"day__{name}": b"junk" for name in skipped}, **{"day__part-0.svm": svm(0, 2)})
    Path("day/_temporary").mkdir()
    assert len(read(open_source("day"))) == 2


def test_empty_parts_have_no_examples(write: Write) -> None:
    write(day__a="", day__b=csv_part(0, 2), day__c="", day__d=csv_part(2, 1), day__e="")
    source: Any = open_source("day", format="csv", target="y", categorical="site")
    source.begin(None)
    assert [place for place, _, _ in read(source)] == ["day/b:2", "day/b:3", "day/d:2"]
    assert source.position()["name"] == "e"
    source.begin(source.position())
    assert read(source) == []


def test_each_part_may_be_compressed(write: Write) -> None:
    write(**{
        "day__a.svm": svm(0, 2), "day__b.svm.gz": gzip.compress(svm(2, 2).encode()),
        "day__c.svm": bz2.compress(svm(4, 1).encode()),
    })  # fmt: skip
    assert [x for _, _, x in read(open_source("day"))] == [
        dict(row) for row in open_source_of(svm(0, 5))
    ]


def open_source_of(text: str) -> list[Any]:
    Path("whole.svm").write_text(text)
    return [x for _, _, x in read(open_source("whole.svm"))]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ("empty", "empty is a directory without a file to read"),
        ("empty/*", r"no file matches 'empty/\*'"),
        (["a.svm", "none.svm"], r"none\.svm: there is no such file"),
        (["a.svm", "-"], "several sources must be files, got standard input"),
        (["a.svm", "river:Phishing"], "several sources must be files, got river:Phishing"),
        (["a.svm", "kafka://h:1/t"], "several sources must be files, got kafka://h:1/t"),
        (["a.svm", "a.svm"], r"a\.svm is listed twice"),
        (["a.svm", "./a.svm"], r"\./a\.svm is listed twice"),
        (["a.svm", "b.vw"], r"b\.vw is vw, but a\.svm is svmlight"),
        (["a.svm", "c.rows"], r"c\.rows is a row cache, which cannot be read with other files"),
        ("odd", r"format of odd/README is unknown, .* use the pattern 'odd/\*\.svm', or list"),
        ("plain", r"cannot infer the format of plain/part-0 from its name"),
        ("packed", r"packed/a\.svm and packed/a\.svm\.gz seem .* pattern such as 'packed/\*\.svm'"),
        ("packed/*", r"packed/a\.svm and packed/a\.svm\.gz seem to hold the same examples"),
        ("nested", r"nested contains the directory day: use a pattern such as 'nested/\*/\*'"),
    ],
)
def test_invalid_lists(write: Write, spec: Any, reason: str) -> None:
    write(**{"a.svm": svm(0, 1), "b.vw": "1 | a\n", "c.rows": b"", "odd__README": "",
             "empty___SUCCESS": "", "odd__a.svm": "", "plain__part-0": "", "plain__part-1": "",
             "packed__a.svm": "", "packed__a.svm.gz": b"", "packed__A.svm": ""})  # fmt: skip
    Path("nested/day").mkdir(parents=True)
    with pytest.raises(SourceError, match=reason):
        open_source(spec)


def test_directories_with_the_name_of_another_source(write: Write) -> None:
    write(**{"data__a.csv": csv_part(0, 3), "data__b.csv": csv_part(3, 1)})
    for command in (["learn", "data", "--target", "y"], ["inspect", "data"]):
        assert "; to read the files of that name, use ./data" in run(*command, code=2)
    assert "examples          4" in run("learn", "./data", "--target", "y")


def test_options_for_other_sources_are_rejected(write: Write) -> None:
    write(**{"a.svm": svm(0, 1), "b.svm": svm(0, 1)})
    for options in ({"seed": 1}, {"until_end": True}, {"target": "y"}):
        with pytest.raises(SourceError, match=r"appl(y|ies) to"):
            open_source(["a.svm", "b.svm"], **options)


def test_a_file_whose_name_looks_like_a_pattern_is_a_file(write: Write) -> None:
    write(**{"a[1].svm": svm(0, 1), "a1.svm": svm(0, 2)})
    assert [place for place, _, _ in read(open_source("a[1].svm"))] == ["a[1].svm:1"]


def test_pipes_are_read_once(write: Write, tmp_path: Path) -> None:
    write(**{"a.svm": svm(0, 1)})
    os.mkfifo("pipe.svm")
    source = open_source(["a.svm", "pipe.svm"])
    source.blocks(10, fail)
    with pytest.raises(SourceError, match=r"pipe\.svm cannot be read twice"):
        source.blocks(10, fail)


# CSV


CSV = {"target": "y", "categorical": ["site"]}


def test_the_order_of_columns_may_differ_between_parts(write: Write) -> None:
    write(**{"a.csv": csv_part(1, 1), "b.csv": "y,site,a\n0,mail,2\n"})
    assert read(open_source("*.csv", **CSV)) == [
        ("a.csv:2", 2, {"a": 1.0, "site": "news"}), ("b.csv:2", 4, {"a": 2.0, "site": "mail"}),
    ]  # fmt: skip


@pytest.mark.parametrize("row", ["5,news,1\n", "five,news,yes\n"])
def test_parts_of_which_the_first_alone_has_a_header(write: Write, row: str) -> None:
    """As `split -l` writes them."""
    write(**{"p1.csv": csv_part(0, 3), "p2.csv": row * 3})
    with pytest.raises(Lost, match=r"join them, as with cat \*\.csv > all\.csv$") as error:
        read(open_source("p*.csv", **CSV))
    assert str(error.value).startswith("p2.csv")


@pytest.mark.parametrize(
    ("header", "difference"),
    [
        ("a,site,y,b", "adds 'b'"),
        ("b,site,y", "lacks 'a' and adds 'b'"),
        ("a,site,site2,y,z", "adds 'site2', 'z'"),
        ("y,site", "lacks 'a'"),
    ],
)
def test_other_columns_are_rejected_by_name(write: Write, header: str, difference: str) -> None:
    row = ",".join("1" if name != "site" else "news" for name in header.split(","))
    write(**{"p1.csv": csv_part(0, 3), "p2.csv": csv_part(3, 1), "p3.csv": f"{header}\n{row}\n"})
    found: list[str] = []
    with pytest.raises(
        Lost, match=rf"p3\.csv has other columns than p1\.csv: it {difference}; all parts"
    ):
        for block in open_source("p*.csv", **CSV).blocks(100, fail):
            found += map(block.place, range(len(block)))
    assert found == ["p1.csv:2", "p1.csv:3", "p1.csv:4", "p2.csv:2"]


def test_columns_are_compared_with_those_of_the_first_part_after_a_resume(write: Write) -> None:
    write(**{"p1.csv": csv_part(0, 3), "p2.csv": csv_part(3, 2)})
    source: Any = open_source("p*.csv", **CSV)
    source.begin(None)
    [_, block] = source.blocks(100, fail)
    Path("p2.csv").write_text("a,b,site,y\n3,9,news,1\n4,9,news,1\n")
    source = open_source("p*.csv", **CSV)
    source.begin(block.after(0) | {"line": 0})
    with pytest.raises(Lost, match=r"p2\.csv has other columns than p1\.csv: it adds 'b'"):
        read(source)


# Runs


def test_a_run_over_parts_equals_one_over_the_whole(write: Write) -> None:
    write(**{"p1.svm": svm(0, 31), "p2.svm": svm(31, 7), "p3.svm": svm(38, 50)})
    write(**{"whole.svm": svm(0, 88)})
    models = []
    for source in ("whole.svm", "p*.svm"):
        model = ElasticNetClassifier(l1=1e-3)
        report = progressive(model, source, passes=2, every=40, holdout=7)
        # The loss of held-out rows depends on blocks; what is learnt does not.
        models.append((state(model), [line.examples for line in report.lines]))
    assert models[0] == models[1]


def test_lists_in_python(write: Write) -> None:
    write(**{"p1.svm": svm(0, 30), "p2.svm": svm(30, 20)})
    model = ElasticNetClassifier()
    consumer = streaml1.Consumer(model, ["p1.svm", Path("p2.svm")])
    assert consumer.run().examples == 50
    assert evaluate(model, "p*.svm").examples == 50
    assert [found.place for found in predictions(model, ["p2.svm", "p1.svm"])][19:21] == [
        "p2.svm:20", "p1.svm:1",
    ]  # fmt: skip
    assert convert("p*.svm", "all.rows").rows == 50
    [block] = open_source("all.rows").blocks(100, fail)
    assert block.place(31) == "p2.svm:2"
    again = ElasticNetClassifier()
    progressive(again, "all.rows")
    assert state(again) == state(model)


def test_rejections_name_the_part(write: Write) -> None:
    write(**{"p1.svm": svm(0, 3), "p2.svm": svm(3, 2) + "bad\n" + svm(5, 1)})
    with pytest.raises(ValueError, match=r"^p2\.svm:3: "):
        progressive(ElasticNetClassifier(), "p*.svm")
    seen: list[tuple[str, int | None]] = []
    read(
        open_source("p*.svm"), reject=lambda place, _, number, origin: seen.append((place, number))
    )
    assert seen == [("p2.svm:3", 6)]
    report = progressive(ElasticNetClassifier(), "p*.svm", bad="skip", limit=6)
    assert (report.examples, report.rejected) == (6, 1)


@given(
    sizes=st.lists(st.integers(0, 9), min_size=1, max_size=5),
    size=st.integers(1, 7),
    cut=st.integers(0, 60),
    final_newline=st.booleans(),
)
def test_any_position_resumes(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int], size: int, cut: int,
    final_newline: bool,
) -> None:  # fmt: skip
    folder = tmp_path_factory.mktemp("parts")
    first = 0
    for k, n in enumerate(sizes):
        text = svm(first, n).replace("\n", "\n\n" if k % 2 else "\n")
        (folder / f"{k}.svm").write_text(text if final_newline else text.removesuffix("\n"))
        first += n
    whole = read(open_source(folder), size)
    assert len(whole) == first
    source: Any = open_source(folder)
    at, before = source.begin(None), 0
    for block in source.blocks(size, fail):
        if before + len(block) >= cut:
            at, before = block.after(cut - before), cut
            break
        before += len(block)
        at = block.after(len(block))
        assert at == source.position() or final_newline or before == first
    else:
        at = source.position()
    resumed: Any = open_source(folder)
    assert resumed.begin(json.loads(json.dumps(at))) == at
    assert read(resumed, size) == whole[before:]


# Checkpoints


def learn(directory: str, source: Any, limit: int | None = None, **options: Any) -> tuple[Any, Any]:
    model = ElasticNetClassifier(l1=1e-3)
    return model, progressive(model, source, checkpoint=directory, limit=limit, **options)


def learn_partly(source: Any, n: int, **options: Any) -> None:
    """Learn about n examples and stop."""
    report: Any = None

    def start(given: Any) -> None:
        nonlocal report
        report = given

    learn("kept", source, stop=lambda: report is not None and report.examples >= n, every=10,
          on_start=start, **options)  # fmt: skip


def test_checkpoints_resume_in_the_right_part(write: Write) -> None:
    write(**{f"p{k}.svm": svm(20 * k, 20) for k in range(4)})
    learn_partly("p*.svm", 50)
    found = load_latest(Path("kept"))
    assert found is not None
    assert (found.position["name"], found.position["line"]) == ("p2.svm", 10)
    model, report = learn("kept", "p*.svm")
    expected = ElasticNetClassifier(l1=1e-3)
    progressive(expected, ["p0.svm", "p1.svm", "p2.svm", "p3.svm"])
    assert report.examples == 80
    assert state(model) == state(expected)


def test_parts_may_be_appended(write: Write) -> None:
    write(**{"day__p1.svm": svm(0, 20), "day__p2.svm": svm(20, 20)})
    learn("kept", "day")
    write(**{"day__p3.svm": svm(40, 20), "day__p4.svm": svm(60, 1)})
    model, report = learn("kept", "day")
    assert report.examples == 61
    expected = ElasticNetClassifier(l1=1e-3)
    progressive(expected, "day")
    assert state(model) == state(expected)
    _, report = learn("kept", "day")  # nothing is left
    assert report.examples == 61


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        (["p1.svm", "p0.svm", "p2.svm"], "its file 1 is 'p0.svm', that of .* is 'p1.svm'"),
        (["p0.svm", "p1.svm"], "its file 3 is 'p2.svm', that of .* is missing"),
        (["p0.svm", "p2.svm"], "its file 2 is 'p1.svm', that of .* is 'p2.svm'"),
        ("p0.svm", "it is of several files, and p0.svm is one"),
    ],
)
def test_other_parts_are_rejected(write: Write, source: Any, reason: str) -> None:
    write(**{f"p{k}.svm": svm(20 * k, 20) for k in range(3)})
    learn_partly("p*.svm", 30)
    with pytest.raises(CheckpointError, match=f"kept belongs to other files: {reason}; only files"):
        learn("kept", source)


def test_a_checkpoint_of_one_file_is_not_one_of_several(write: Write) -> None:
    write(**{f"p{k}.svm": svm(20 * k, 20) for k in range(3)})
    learn("kept", "p0.svm")
    with pytest.raises(CheckpointError, match=r"it is of one file, and p\*\.svm is several"):
        learn("kept", "p*.svm")


def test_changed_parts_are_rejected(write: Write) -> None:
    write(**{f"p{k}.svm": svm(20 * k, 20) for k in range(3)})
    learn_partly("p*.svm", 30)
    write(**{"p1.svm": svm(21, 20)})
    with pytest.raises(SourceError, match=r"p1\.svm does not match the checkpoint"):
        learn("kept", "p*.svm")
    write(**{"p1.svm": svm(20, 20), "p0.svm": svm(0, 19)})
    with pytest.raises(SourceError, match=r"the 1 files before p1\.svm have changed in size"):
        learn("kept", "p*.svm")


# The command line


def test_commands_take_several_files(write: Write) -> None:
    write(**{"p1.csv": csv_part(0, 30), "p2.csv": csv_part(30, 30), "q__p3.csv": csv_part(60, 9)})
    roles = ["--target", "y", "--categorical", "site"]
    out = run("learn", "p1.csv", "p2.csv", "q", *roles, "--save", "m", "--passes", "2")
    assert re.search(r"^examples +138$", out, re.M)
    assert re.search(r"^examples +60$", run("evaluate", "m", "p?.csv", *roles), re.M)
    assert "69 examples" in run("convert", "p1.csv", "p2.csv", "q", "all.rows", *roles)
    lines = run("predict", "m", "p1.csv", "p2.csv", "--json", *roles).splitlines()
    assert [json.loads(line)["place"] for line in (lines[0], lines[30])] == [
        "p1.csv:2", "p2.csv:2",
    ]  # fmt: skip
    assert "--save p2.csv is also SOURCE" in run(
        "learn", "p*.csv", *roles, "--save", "p2.csv", code=exits.USAGE_ERROR
    )
    assert "no file matches 'x*'" in run("learn", "x*", *roles, code=exits.USAGE_ERROR)
    assert "requires a Kafka source, got p1.csv p2.csv" in run(
        "learn", "p1.csv", "p2.csv", "--per-partition", "--group", "g", "--checkpoint", "k",
        code=exits.USAGE_ERROR,
    )  # fmt: skip


def test_an_interrupted_command_resumes_in_the_right_part(write: Write) -> None:
    write(**{"day__p1.csv": csv_part(0, 30), "day__p2.csv": csv_part(30, 20) + "x,news,1\n"})
    arguments = ["learn", "day", "--target", "y", "--categorical", "site", "--checkpoint", "kept"]
    assert "day/p2.csv:22: column 'a': 'x' is not a number" in run(
        *arguments, code=exits.DATA_ERROR
    )
    write(**{"day__p2.csv": csv_part(30, 25)})
    assert re.search(r"^examples +55$", run(*arguments), re.M)
    write(**{"day__p0.csv": csv_part(0, 1)})
    assert "kept belongs to other files: its file 1 is 'p1.csv'" in run(
        *arguments, code=exits.USAGE_ERROR
    )


def test_memory_does_not_grow_with_the_number_of_parts(write: Write) -> None:
    """Only the names of the parts are held: no source, parser or block of one that was read."""
    import gc

    text = np.str_(svm(0, 5))
    for k in range(400):
        Path(f"p{k:03}.svm").write_text(text)
    counts: list[int] = []
    source: Any = open_source("p*.svm")
    source.begin(None)
    for k, block in enumerate(source.blocks(10, fail)):
        del block
        if k in (99, 399):
            gc.collect()
            counts.append(len(gc.get_objects()))
    assert counts[1] - counts[0] < 50
