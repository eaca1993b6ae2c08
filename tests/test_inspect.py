"""``streaml1 inspect``: kinds of columns, and a command that learns from the file."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from pyarrow import parquet

import streaml1
from streaml1.cli import cli
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_kinds import summarize_columns
from streaml1.sources.samples import sample_csv
from tests.command import error_of, run

pytestmark = pytest.mark.usefixtures("cwd")


@pytest.mark.parametrize(
    ("cells", "kind"),
    [
        (["1", "2.5", "NULL"], "number"),
        (["0", "1", "0"], "boolean"),
        (["true", "FALSE", ""], "boolean"),
        (["0", "1", "2"], "number"),
        (["news", "mail", "1"], "category"),
        ([f"w{k % 7}" for k in range(100)], "category"),
        ([f"user {k}" for k in range(100)], "id-like"),
        ([str(k) for k in range(100)], "id-like"),
        ([str(10**9 * 7 + k * k) for k in range(100)], "id-like"),
        ([str(k * k % 97) for k in range(100)], "number"),
        ([f"{k / 7}" for k in range(100)], "number"),
        (["1764000000", "1764003600"], "time-like"),
        (["1764000000000", "1764003600000"], "time-like"),
        (["2026-01-31", "2026-01-31T06:00:00Z"], "time-like"),
        (["20260131", "20260201"], "time-like"),
        (["31.01.2026", "1.2.2026"], "time-like"),
        (["1/31/2026 6:00 PM", "2/1/2026 11:30 AM"], "time-like"),
        (["2026/01/31", "2026/02/01 06:00"], "time-like"),
        (["31.01.26", "01.02.26"], "time-like"),
        (["1/31/26", "2/1/26 11:30"], "time-like"),
        (["31-Jan-2026", "01-Feb-26"], "time-like"),
        (["Jan 31, 2026", "September 1, 2026"], "time-like"),
        (["1.10.26", "1.9.3"], "category"),
        (["Mars 10, 2026", "Jan"], "category"),
        (["31.01-2026", "1.2.2026"], "category"),
        (["2026-01-31 06:00:07.123456 UTC", "2026-01-31 06:00:08 UTC"], "time-like"),
        (["2026-01-31T06:00:07+01:00[Europe/Berlin]", "2026-01-31T06:00Z"], "time-like"),
        (["20260131T060000Z", "20260201T0600"], "time-like"),
        (["Sat Jan 31 06:00:07 UTC 2026", "Sun Feb  1 06:00:07 CET 2026"], "time-like"),
        (["Sat, 31 Jan 2026 06:00:07 GMT", "Sun, 1 Feb 2026 06:00:07 +0100"], "time-like"),
        (["31/Jan/2026:06:00:07 +0000", "01/Feb/2026:06:00:07 +0000"], "time-like"),
        (["00:05:10", "1 day, 0:05:10.5"], "time-like"),
        (["PT5M", "P1DT2H"], "time-like"),
        (["0 days 00:05:10", "3 days"], "time-like"),
        (["1:2", "3:4"], "category"),
        (["3 days left", "1 day"], "category"),
        ([f"4111 1111 1111 {k:04}" for k in range(30)], "id-like"),
        (["20260131", "20261301"], "number"),
        ([f"the {k}th line of text" for k in range(30)], "text"),
        (["7", "7", "NaN"], "constant"),
        (["", "NULL", "?"], "empty"),
    ],
)
def test_kinds(cells: list[str], kind: str) -> None:
    (column,) = summarize_columns(["a"], [[cell] for cell in cells], CellRules())
    assert column.kind == kind


def test_rare_words_in_a_column_of_numbers_may_be_missing_values() -> None:
    cells = [*map(str, range(30)), "-", "-"]
    (column,) = summarize_columns(["a"], [[cell] for cell in cells], CellRules())
    assert (column.kind, column.words, column.missing) == ("id-like", ("-",), 2 / 32)
    cells = [str(k / 7) for k in range(20)] + ["-"] * 20
    (column,) = summarize_columns(["a"], [[cell] for cell in cells], CellRules())
    assert (column.kind, column.words, column.missing) == ("number", ("-",), 0.5)
    (column,) = summarize_columns(["a"], [[cell] for cell in [*cells, "-"]], CellRules())
    assert (column.kind, column.words) == ("category", ())
    cells = ["1", "2", "-"]  # a third is not rare
    (column,) = summarize_columns(["a"], [[cell] for cell in cells], CellRules())
    assert (column.kind, column.words) == ("category", ())


def test_sample_of_a_part_of_a_file() -> None:
    text = b"a,y\n1,1\n1\na,y\n2,0\n"
    for is_whole in (False, True):
        sample = sample_csv("a.csv", text, is_whole, ",", CellRules())
        assert (sample.n_rows, sample.n_invalid, sample.has_header) == (2, 1, True)
        assert sample.is_whole == is_whole


N = 60
ROWS = [
    (f"s{k % 3}", f"{k / 7:.2f}", 2000 + k, 1764000000 + k * k, "yn"[k % 2], f"a b c d e{k}")
    for k in range(N)
]
FILES = {
    "plain": ("a.csv", "site,n,year,ts,label,words\n", ",",
              "--target label --positive y --categorical site --text words --ignore year,ts"),
    "semicolons": ("a.csv", "site;n;year;ts;label;words\n", ";",
                   "--delimiter ';' --target label --positive y --categorical site --text words "
                   "--ignore year,ts"),
    "no header": ("a.tsv", "", "\t",
                  "--no-header --target 4 --positive y --categorical 0 --text 5 --ignore 2,3"),
    "odd names": ("a b.csv", '"a,b",n,n,"it\'s","y""",words\n', ",",
                  "--target 'y\"' --positive y --categorical '\"a,b\"' --text words "
                  "--ignore 'it'\"'\"'s,2'"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_command(case: str) -> None:
    """The command that is printed is quoted for a shell, and it learns from the file."""
    name, header, delimiter, options = FILES[case]
    lines = [delimiter.join(map(str, row)) for row in ROWS]
    Path(name).write_text(header + "\n".join(lines) + "\n")
    *_, summary, _, command = run("inspect", name).stdout.splitlines()
    assert summary.startswith(f"all {N} examples, 6 columns")
    assert command == f"streaml1 learn {shlex.quote(name)} {options}"
    assert re.search(rf"^examples +{N}$", run(*shlex.split(command)[1:]).stdout, re.M)


@pytest.mark.parametrize(
    ("content", "options"),
    [
        ("a,b,target\n1,2,7.5\n2,3,8\n3,4,1\n", "--target target --task regression"),
        ("a,class\n1,u\n2,v\n3,w\n", "--target class --model softmax"),
        ("a,b,y\n1,-,1\n" + "2,3,0\n" * 30, "--target y --missing "
         "'NaN,nan,NULL,null,None,N/A,NA,\\N,?,-'"),
        (",a,y\nx,1,1\nz,2,0\n", "--target y --ignore 0"),
        ("a,b\n3,0\n4,1\n5,1\n", "--target b"),
        ("const,y\nnews,1\nnews,0\n", "--target y --categorical const"),
    ],
)  # fmt: skip
def test_command_for(content: str, options: str) -> None:
    Path("a.csv").write_text(content)
    command = run("inspect", "a.csv").stdout.splitlines()[-1]
    assert command == f"streaml1 learn a.csv {options}"
    run(*shlex.split(command)[1:])


@pytest.mark.parametrize(("delimiter", "option"), [(";", "';'"), ("\t", "tab"), ("|", "'|'")])
def test_learn_answers_with_the_command_for_another_delimiter(delimiter: str, option: str) -> None:
    rows = [("site", "price", "y"), ("news", "1.5", "1"), ("mail", "2", "0")]
    Path("a.csv").write_text("".join(delimiter.join(row) + "\n" for row in rows))
    error = (
        f"streaml1: a.csv: {option} seems to separate the cells: use --delimiter {option} "
        "(the columns are then: site, price, y); run streaml1 learn a.csv"
    )
    for given, added in (("", " --target COLUMN"), (" --target y --save 'a b'", "")):
        result = CliRunner().invoke(cli, shlex.split(f"learn a.csv{given}"), prog_name="streaml1")
        assert result.exit_code == 2
        assert result.stderr == f"{error}{given} --delimiter {option}{added}\n"
    inspected = CliRunner().invoke(cli, ["inspect", "a.csv"], prog_name="streaml1").stdout
    assert f"streaml1 learn a.csv --delimiter {option} " in inspected


def test_columns_that_the_model_has_learnt_as_another_kind() -> None:
    """Options of learn that evaluate and predict lack are missed, not ignored in silence."""
    rows = [f'{hour},"1,{hour}50",news,{hour % 2}' for hour in range(4)] * 5
    Path("a.csv").write_text("\n".join(["hour,price,site,y", *rows]) + "\n")
    learn = ["learn", "a.csv", "--target", "y", "--thousands", ",", "--lr", "0.1"]
    run(*learn, "--categorical", "hour,site", "--save", "a.model")
    for command in (["evaluate"], ["predict"]):
        stderr = run(*command, "a.model", "a.csv", "--target", "y").stderr
        assert (
            "streaml1: a.csv: the model has learnt numbers from price, where this file has words: "
            "give the options that learn had, such as --thousands"
        ) in stderr
        assert (
            "streaml1: a.csv: the model has learnt categories from hour, where this file has "
            "numbers: use --categorical site,hour\n"
        ) in stderr
        right = ["--thousands", ",", "--categorical", "hour,site"]
        assert "learnt" not in run(*command, "a.model", "a.csv", "--target", "y", *right).stderr
        stderr = run(*command, "a.model", "a.csv", "--target", "y", "--thousands", ",").stderr
        assert "learnt numbers" not in stderr and "use --categorical site,hour\n" in stderr


def test_columns_that_the_model_has_learnt_and_the_file_lacks() -> None:
    """A column with another name is noticed although the others are known."""
    rows = [f"{20 + k},{k % 3}.5,{'ab'[k % 2]},{k},{k % 2}" for k in range(40)]
    Path("a.csv").write_text("\n".join(["age,price,site,user.id,y", *rows]) + "\n")
    learn = ["--target", "y", "--lr", "0.1"]
    assert "lacks" not in run("learn", "a.csv", *learn, "--save", "a.model").stderr
    commands = [["evaluate", "a.model"], ["predict", "a.model"], ["learn", "--load", "a.model"]]
    for header, old, new in (
        ("Age,price,site,user.id,y", "age", "Age"),
        ("age,price,Site,user,y", "site, user.id", "Site, user"),
        ("a b,price,c,user.id,y", "age, site", "'a b', c"),
        ("age,price,site,user.id,y", "", ""),
        ("a,b,c,d,y", "", ""),  # the run reports names that are all unknown
    ):
        Path("b.csv").write_text("\n".join([header, *rows]) + "\n")
        sentence = (
            f"streaml1: b.csv: the model has learnt from columns that this file lacks: {old}; "
            f"rename columns that are the same (new to the model: {new})\n"
        )
        for command in commands:
            stderr = run(*command, "b.csv", *learn[:2]).stderr
            assert (sentence in stderr) if old else ("lacks" not in stderr)
    rows_without_age = [row[3:-2] for row in rows]
    Path("b.csv").write_text("\n".join(["price,site,user.id", *rows_without_age]) + "\n")
    stderr = run("predict", "a.model", "b.csv").stderr
    assert "that this file lacks: age; examples are read without them\n" in stderr
    ignored = ["predict", "a.model", "a.csv", "--ignore", "age,y"]
    assert "lacks" not in run(*ignored).stderr  # on purpose


@pytest.mark.parametrize(
    ("cells", "is_code"),
    [
        (["02139", "10115", ""], True),
        (["007", "8", "0"], True),
        (["07", "23"], True),
        (["02139"], True),
        ([f"{k:05}" for k in range(30)], True),  # id-like
        (["02139", "10115", "10117", "K1A"], True),
        (["02139", "NULL", "n/a"], True),
        (["0", "1", "2"], False),
        (["0", "0.5", "-0"], False),
        (["07", "2.5"], False),
        (["-01", "12"], False),
        (["05%", "10%"], False),
        (["1e05", "01e5"], False),
    ],
)
def test_learn_and_inspect_agree_about_codes(cells: list[str], is_code: bool) -> None:
    (column,) = summarize_columns(["zip"], [[cell] for cell in cells], CellRules())
    assert column.holds_text == is_code
    assert column.is_category == (is_code and column.kind != "id-like")
    rows = [f"{cell},{k % 2}\n" for k in range(4) for cell in cells]
    Path("a.csv").write_text("zip,y\n" + "".join(rows))
    learn = ["learn", "a.csv", "--target", "y", "--lr", "0.1", "--bad", "skip"]
    learn += ["--most-bad", "1", "--missing", "NULL,n/a"]
    stderr = run(*learn, "--save", "a.model").stderr
    assert ("categories: zip" in stderr or "ids or times" in stderr) == is_code
    categories = {f"zip={cell}" for cell in cells if cell not in ("", "NULL", "n/a")}
    weights = streaml1.load("a.model").weights
    assert {*weights} <= (categories if is_code else {"zip"})
    assert weights
    if "K1A" not in cells:
        run(*learn, "--numeric", "zip", "--save", "a.model")
        assert {*streaml1.load("a.model").weights} <= {"zip"}
    if is_code and cells[0] != "02139":
        stderr = run("predict", "a.model", "a.csv", "--target", "y").stderr
        assert (
            "the model has learnt numbers from zip, where this file has words: use --num" in stderr
        )


def test_codes_resume_with_the_same_kind() -> None:
    Path("a.csv").write_text("zip,y\n02139,1\n10115,0\n")
    learn = ["learn", "a.csv", "--target", "y", "--checkpoint", "kept"]
    run(*learn, "--limit", "1")
    with Path("a.csv").open("a") as file:
        file.write("10117,1\n")
    assert re.search("^examples +3$", run(*learn, "--save", "m").stdout, re.M)
    assert "zip=10117" in streaml1.load("m").weights
    error = error_of(*learn, "--numeric", "zip")
    assert (
        "kept belongs to another source: its categorical is ['zip'], that of a.csv is []" in error
    )


def test_standard_input_and_other_formats() -> None:
    Path("a.csv").write_text("site,y\nnews,1\nmail,0\n")
    out = run("inspect", "-", "--format", "csv", input=Path("a.csv").read_text()).stdout
    assert out.endswith("streaml1 learn - --format csv --target y --categorical site\n")
    Path("a.svm").write_text("1 1:2 3:1\n-1 1:1\nx\n1 2:1\n")
    assert run("inspect", "a.svm").stdout == (
        "first 3 examples, 1 invalid: 3 features, 1.3 in an example; labels: 1.0 (2), -1.0 (1)\n"
        "invalid: a.svm:3: label: 'x' is not a number: words are labels in Vowpal Wabbit text, CSV "
        "and JSON lines only\n"
        "\nstreaml1 learn a.svm\n"
    )


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        ("0 1", ""), ("-1 1", ""), ("1", ""), ("1 2", " --model softmax"),
        ("-1 0 1", " --model softmax"), ("0.5 1", " --task regression"),
        (" ".join(map(str, range(30))), " --task regression"),
    ],
)  # fmt: skip
def test_command_follows_from_the_labels(labels: str, options: str) -> None:
    Path("a b.txt").write_text("".join(f"{label} 3:1\n" for label in labels.split()))
    out = run("inspect", "a b.txt", "--format", "svm").stdout
    assert out.splitlines()[-1] == f"streaml1 learn 'a b.txt' --format svm{options}"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["a.csv"], "a.csv is empty: a CSV file begins with the names of its columns"),
        (["b.csv"], "b.csv: there is no such file"),
        (["a.svm", "--from", "latest"], "options of topics (--from) apply to kafka://... only"),
        (["a.svm"], "a.svm has no example (1 rejected): a.svm:1: label: 'x' is not a number"),
    ],
)
def test_what_cannot_be_inspected(args: list[str], message: str) -> None:
    Path("a.csv").write_text("")
    Path("a.svm").write_text("x\n")
    assert message in error_of("inspect", *args)


# Commands without --categorical

SHOWN = [(k % 2, f"s{k % 3}", k % 5 or "NULL", k * 7 % 13, 1764000000 + k) for k in range(60)]
CLICKS = "click,site,ad,n,ts\n" + "".join(",".join(map(str, row)) + "\n" for row in SHOWN)


def models(*commands: list[str]) -> list[dict[str, float]]:
    """Run `learn` with some arguments each; return the weights."""
    found = []
    for command in commands:
        result = run("learn", *command, "--lr", "0.1", "--target", "click", "--save", "m.model")
        assert result.exit_code == 0, result.output
        found.append(dict(streaml1.load("m.model").top_weights(20)))
    return found


def test_columns_of_text_are_categories() -> None:
    Path("a.csv").write_text(CLICKS)
    result = run("learn", "a.csv", "--target", "click", "--ignore", "ts")
    assert result.exit_code == 0
    assert result.stderr.splitlines()[0] == (
        "streaml1: a.csv: categories: site; numbers: ad, n; to choose, use --categorical (see "
        "streaml1 inspect)"
    )
    assert (
        "ids or times, which --ignore leaves out: ts"
        in run("learn", "a.csv", "--target", "click").stderr
    )
    inferred, explicit = models(["a.csv"], ["a.csv", "--categorical", "site"])
    assert inferred == explicit and {"site=s0", "ad"} <= inferred.keys()


def test_columns_of_numbers_with_some_words_are_no_categories() -> None:
    rows = "".join(f"{k % 2},s{k % 3},{k * 7 % 13 if k % 10 else f'w{k}'}\n" for k in range(100))
    Path("a.csv").write_text("click,site,n\n" + rows)
    result = run("learn", "a.csv", "--target", "click", code=65)
    assert "a.csv: categories: site; numbers: n;" in result.stderr
    assert "a.csv:2: column 'n': 'w0' is not a number" in result.stderr


def test_columns_of_numbers_can_be_named() -> None:
    Path("a.csv").write_text("click,site,n\n" + "1,s1,w0\n" * 9 + "0,s2,3\n")
    command = ["learn", "a.csv", "--target", "click"]
    assert "categories: site, n;" in run(*command).stderr
    result = run(*command, "--numeric", "n", code=65)
    assert "a.csv: categories: site;" in result.stderr
    assert "a.csv:2: column 'n': 'w0' is not a number" in result.stderr
    result = run(*command, "--numeric", "m", code=2)
    assert "a.csv has no column 'm'" in result.stderr


def test_given_categories_are_the_only_ones() -> None:
    Path("a.csv").write_text(CLICKS)
    for given in ("", "ad"):
        command = ["learn", "a.csv", "--target", "click", "--categorical", given]
        assert "a.csv:2: column 'site': 's0' is not a number" in run(*command, code=65).stderr


def test_roles_and_raw_text_are_no_categories() -> None:
    Path("a.csv").write_text("y,w,title,site\nyes,1,so it goes on,a\nno,2,so it ends,b\n")
    options = ["--target", "y", "--weight", "1", "--positive", "yes", "--text", "title"]
    result = run("learn", "a.csv", *options)
    assert result.exit_code == 0 and "a.csv: categories: site;" in result.stderr
    assert "site=a" in result.stdout and "title=goes" in result.stdout


def test_raw_text_that_is_read_as_categories_is_reported() -> None:
    """Each text would be a category that occurs once."""
    titles = [f"order {k} arrived at {k % 7} o'clock" for k in range(40)]
    stages = ["new and not paid yet", "paid but not sent yet"] * 20
    rows = list(zip([0, 1] * 20, titles, stages, strict=True))
    Path("a.csv").write_text("y,title,stage\n" + "".join(f"{y},{t},{s}\n" for y, t, s in rows))
    Path("a.jsonl").write_text(
        "".join(json.dumps({"y": y, "title": t, "stage": s}) + "\n" for y, t, s in rows)
    )
    parquet.write_table(pa.table({"y": [0, 1] * 20, "title": titles, "stage": stages}), "a.parquet")
    for name in ("a.csv", "a.jsonl", "a.parquet"):
        advice = (
            f"streaml1: {name}: texts of several words are categories: title; to learn their "
            "words, use --text title"
        )
        command = ["learn", name, "--target", "y"]
        assert advice in run(*command).stderr.splitlines()
        for option in ("--text title", "--categorical title,stage", "--ignore title"):
            assert "several words" not in run(*command, *option.split()).stderr
        run(*command, "--text", "title", "--save", "m.model")
        assert "several words" not in run(*command, "--load", "m.model").stderr
        assert "several words" not in run("predict", "m.model", name, "--target", "y").stderr
        # Row caches hold no raw text.
        assert "several words" not in run("convert", name, "a.rows", "--target", "y").stderr


def test_the_first_of_several_files_decides_and_resumes_agree() -> None:
    Path("parts").mkdir()
    Path("parts/0.csv").write_text(CLICKS)
    Path("parts/1.csv").write_text(CLICKS.replace("s1", "7"))
    command = ["parts", "--checkpoint", "kept"]
    run("learn", *command, "--target", "click", "--lr", "0.1", "--limit", "50")
    resumed, whole = models(command, ["parts"])
    assert resumed == whole and "site=7" in whole
    Path("parts/2.csv").write_text("click,site,ad,n,ts\n1,x,1,1,1\n")
    assert run("predict", "kept", "parts/2.csv", "--target", "click").exit_code == 0


# JSON lines


def test_members_of_json_lines() -> None:
    rows = [
        {
            "label": "spam" if k % 3 else "ham",
            "user": {"age": 20 + k % 30, "zip": f"0{k % 5}"},
            "text": f"this is the {k}th message of many",
            "tags": ["a", "b"],
            "id": f"m{k}",
            "at": f"2026-01-31T06:00:{k % 60:02d}Z",
        }
        for k in range(50)
    ]
    lines = [json.dumps(row) for row in rows]
    Path("a.jsonl").write_text("\n".join([*lines[:20], "{", "[1]", *lines[20:]]) + "\n")
    out = run("inspect", "a.jsonl").stdout.splitlines()
    kinds = {line[8:].split()[0]: line[8:].split()[1] for line in out[1:8]}
    assert kinds == {
        "label": "category", "user.age": "number", "user.zip": "category", "text": "text",
        "tags": "array", "id": "id-like", "at": "time-like",
    }  # fmt: skip
    assert "first 50 examples, 7 members, 2 invalid" in out
    assert out[-1] == (
        "streaml1 learn a.jsonl --target label --positive spam --text text --ignore id,at"
    )
    learn = shlex.split(out[-1])[1:]
    assert "examples" in run(*learn, "--bad", "skip", "--most-bad", "0.5").stdout


@pytest.mark.parametrize(
    ("program", "at", "around"),
    [
        ("Debezium", "payload.after", {"payload": {"op": "c", "ts_ms": 5, "before": None}}),
        ("Debezium", "after", {"op": "c", "before": None, "source": {"db": "shop"}}),
        ("Kafka Connect", "payload", {"schema": {"type": "struct", "optional": False}}),
        ("Maxwell", "data", {"database": "shop", "table": "clicks", "type": "insert", "xid": 3}),
        ("AWS DMS", "data", {"metadata": {"operation": "insert", "table-name": "clicks"}}),
        ("CloudEvents", "data", {"specversion": "1.0", "id": "7", "source": "/shop"}),
    ],
)
def test_envelopes_are_recognized(program: str, at: str, around: dict[str, Any]) -> None:
    lines = []
    for k in range(40):
        line = inside = json.loads(json.dumps(around))
        *outer, last = at.split(".")
        for name in outer:
            inside = inside[name]
        inside[last] = {"price": k % 7, "site": f"s{k % 3}", "clicked": k % 2}
        lines.append(line)
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    for given in ([], ["--target", "clicked"]):
        out = run("inspect", "a.jsonl", *given).stdout
        assert f"the objects are envelopes of {program}: --at {at} reads the examples" in out
        command = out.splitlines()[-1]
        assert command == f"streaml1 learn a.jsonl --at {at} --target clicked"
    assert "40" in run(*shlex.split(command)[1:]).stdout


def test_members_like_those_of_an_envelope_are_examples() -> None:
    lines = [
        {"data": {"price": k % 7}, "op": "c", "payload": k, "clicked": k % 2} for k in range(9)
    ]
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = run("inspect", "a.jsonl").stdout
    assert "envelope" not in out and out.splitlines()[-1].startswith("streaml1 learn a.jsonl --tar")


def test_json_lines_in_an_envelope_and_a_given_target() -> None:
    examples = [{"a": k % 4, "b": k % 2} for k in range(30)]
    lines: list[Any] = [{"after": example, "op": "c"} for example in examples]
    lines += [{"after": json.dumps(examples[0])}, {"after": None}, None, {"op": "d"}]
    Path("a.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = run("inspect", "a.jsonl", "--at", "after", "--target", "a").stdout
    # An example that null stands for is skipped, as `learn` does.
    assert "first 31 examples, 2 members, 1 invalid" in out
    assert out.splitlines()[-1] == (
        "streaml1 learn a.jsonl --at after --target a --task regression"
    )
    assert "no member 'c'" in error_of("inspect", "a.jsonl", "--at", "after", "--target", "c")
    Path("b.jsonl").write_text("nothing\n")
    assert "has no JSON object in its first lines" in error_of("inspect", "b.jsonl")


def test_json_lines_with_x_have_no_columns() -> None:
    Path("a.jsonl").write_text('{"x": {"a": 1}, "y": 1}\n' * 3)
    assert "1 features, 1.0 in an example" in run("inspect", "a.jsonl").stdout
