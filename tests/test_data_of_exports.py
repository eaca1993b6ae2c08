"""Exports of spreadsheets, statistics programs and databases: read, or rejected in a sentence."""

from __future__ import annotations

import csv
import gzip
import json
import shlex
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from streaml1 import ElasticNetClassifier, ElasticNetRegressor, load
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers.csv_cells import CellRules, number_marks
from streaml1.training import progressive
from tests.command import error_of, run
from tests.test_data_of_programs import CSV, FRAME, SITES, N, suggested

LEARN = ["--target", "click", "--categorical", "site", "--lr", "0.1"]
ROWS = FRAME.to_dict("records")


pytestmark = pytest.mark.usefixtures("cwd")


def write_lines(name: str, rows: list[Any]) -> None:
    Path(name).write_text("".join(json.dumps(row) + "\n" for row in rows))


# Numbers


@pytest.mark.parametrize(
    ("cell", "delimiter", "marks"),
    [
        ("0,123", ",", {"decimal": ","}),
        ("-0,123", ";", {"decimal": ","}),
        ("1,234", ",", {"thousands": ","}),
        ("1,234", ";", {"decimal": ","}),
        ("1,234,567", ";", {"thousands": ","}),
        ("1,5E+3", ";", {"decimal": ","}),
        ("12,34,567", ",", {"thousands": ","}),
        ("-1,00,000.50", ";", {"thousands": ","}),
        ("12,34", ",", {"decimal": ","}),
        ("1,23,45", ",", None),
        ("0.123", ",", None),
    ],
)
def test_a_comma_with_three_digits_behind(
    cell: str, delimiter: str, marks: dict[str, str] | None
) -> None:
    assert number_marks(cell, delimiter) == marks


@pytest.mark.parametrize(
    ("separator", "scale", "options"),
    [(";", 1e-4, ["--decimal", ","]), (";", 1.0, ["--decimal", ","]), (",", 1e-4, ["--decimal"])],
)
def test_inspect_reads_three_decimals(separator: str, scale: float, options: list[str]) -> None:
    """Read as groups of thousands, they were 1,000 times too large."""
    prices = [f"{scale * price:.3f}".replace(".", ",") for price in FRAME.price]
    FRAME.assign(price=prices).to_csv("a.csv", index=False, sep=separator)
    command = suggested("a.csv")
    assert [word for word in command if word in options] == options


@pytest.mark.parametrize(
    ("cell", "rules"),
    [
        ("0.123", CellRules(decimal=",", thousands=".")),
        ("-0.123 €", CellRules(decimal=",", thousands=".")),
        ("0,734", CellRules(thousands=",")),
        ("0 123", CellRules(thousands=" ")),
    ],
)
def test_no_thousands_follow_a_zero(cell: str, rules: CellRules) -> None:
    """A column with the other decimal mark was read as numbers 1,000 times too large."""
    assert not rules.is_number(cell)
    assert rules.label(cell) == cell
    assert rules.is_number(cell.replace("0", "10"))


@pytest.mark.parametrize("word", ["#NV", "#N/D", "#BEZUG!", "#¡VALOR!", ".", ".A"])
def test_missing_numbers_of_spreadsheets_and_sas(word: str) -> None:
    prices = [word if k % 3 else str(p).replace(".", ",") for k, p in enumerate(FRAME.price)]
    FRAME.assign(price=prices).to_csv("a.csv", index=False, sep=";")
    command = suggested("a.csv")
    assert command[command.index("--missing") + 1].endswith(word)
    assert command[command.index("--categorical") + 1] == "site"
    assert "examples          60" in run(*command).stdout


def test_words_with_a_number_sign_are_categories() -> None:
    FRAME.assign(tag=[f"#t{k % 7}" if k else "5" for k in range(N)]).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    assert command[command.index("--categorical") + 1] == "site,tag"


def test_digits_after_a_zero_are_codes() -> None:
    codes = [f"{k % 40:05}" for k in range(N)]
    FRAME.assign(zip=codes).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    assert command[command.index("--categorical") + 1] == "site,zip"


@pytest.mark.parametrize(
    ("name", "target"),
    [("click\xa0", "click"), ("\u200bclick", "click"), ("cl\x01ick", "click"),
     ("cle\u0301", "cl\xe9"), ("cl\xe9", "cle\u0301")],
)  # fmt: skip
def test_names_that_cannot_be_typed(name: str, target: str) -> None:
    """Excel and macOS write them: the number of the column is shown, and selects it."""
    FRAME.rename(columns={"click": name}).to_csv("a.csv", index=False)
    message = run("learn", "a.csv", "--target", target, code=2).stderr.splitlines()[-1]
    assert f"(did you mean {name!a}, column 3? select it by its number)" in message
    assert "examples          60" in run("learn", "a.csv", "--target", "3").stdout
    if not name.isprintable():
        assert suggested("a.csv", "--target", "3")[2:4] == ["--target", "3"]


@pytest.mark.parametrize(
    ("positive", "other"),
    [("b'1'", "b'0'"), ("\x01", "\x00"), ("class_1", "class_0"), ("[1]", "[0]"), ("on", "off"),
     ("1", "-")],
)  # fmt: skip
def test_inspect_takes_the_larger_label_for_the_positive_one(positive: str, other: str) -> None:
    for labels in ([positive, other], [other, positive]):
        FRAME.assign(click=labels * 30).to_csv("a.csv", index=False)
        command = suggested("a.csv")
        assert command[command.index("--positive") + 1] == positive


def test_commas_in_a_file_of_tabs() -> None:
    Path("a.tsv").write_text(CSV)
    learn = ["learn", "a.tsv", "--target", "click"]
    message = run(*learn, code=2).stderr.splitlines()[-1]
    command = message.rpartition("; run streaml1 ")[2].split()
    assert command == [*learn, "--delimiter", ","]
    assert "examples          60" in run(*command).stdout


def test_no_name_is_meant_if_none_is_alike() -> None:
    FRAME.to_csv("a.csv", index=False)
    message = run("learn", "a.csv", "--target", "x\xa0", code=2).stderr
    assert "has no column 'x\\xa0'; the columns are: site" in message


def test_remedies_repeat_the_columns_that_options_replace() -> None:
    codes = [("12e4", "45a1", "00b2", "7e10")[k % 4] for k in range(N)]
    FRAME.assign(code=codes, shop=SITES).to_csv("a.csv", index=False)
    learn = ["learn", "a.csv", "--target", "click"]
    message = run(*learn, "--ignore", "shop", code=65).stderr.splitlines()[-1]
    assert "use --categorical site,code for text, or --ignore shop,code" in message
    run(*learn, "--ignore", "shop", "--categorical", "site,code")
    run(*learn, "--ignore", "shop,code")


def test_all_columns_of_words_are_named_at_once() -> None:
    """With `--categorical` no column of words is found, so one error names the others."""
    FRAME.assign(shop=SITES, hour=1).to_csv("a.csv", index=False)
    learn = ["learn", "a.csv", "--target", "click"]
    message = run(*learn, "--categorical", "hour", code=65).stderr.splitlines()[-1]
    assert "is not a number, nor are the cells of 'shop': " in message
    assert "use --categorical hour,site,shop for text, or --ignore site,shop" in message
    run(*learn, "--categorical", "hour,site,shop")
    run(*learn, "--categorical", "hour", "--ignore", "site,shop")


def test_an_error_names_few_of_many_columns_of_words() -> None:
    names = [f"c{k}" for k in range(500)]
    Path("a.csv").write_text("\n".join([",".join(["y", *names]), ",".join(["1", *["x"] * 500])]))
    message = run("learn", "a.csv", "--target", "y", "--categorical", "c499", code=65).stderr
    assert "'c19', 'c20' and 478 more: leave" in message and "--categorical ...,c0,c1," in message
    assert len(message) < 1_000


@pytest.mark.parametrize(
    ("weight", "remedy"),
    [("", "to leave such examples out, use --bad skip"), ("-1", "use --bad skip"),
     ('"1,5"', "if it is a number, use --decimal ,")],
)  # fmt: skip
def test_invalid_sample_weights(weight: str, remedy: str) -> None:
    Path("a.csv").write_text(f"n,click,w\n1,1,2\n1,0,{weight}\n")
    learn = ["learn", "a.csv", "--target", "click", "--weight", "w"]
    message = error_of(*learn, code=65)
    assert message.startswith("a.csv:3: column 'w': weight must be a number >= 0, got ")
    assert message.endswith(remedy)


# Lines of CSV that are no records


@pytest.mark.parametrize("compiled", [True, False])
def test_blank_rows_are_skipped(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Spreadsheets write them above and below a table."""
    monkeypatch.setattr("streaml1.sources.readers.csv.COMPILED", compiled)
    Path("a.csv").write_text(CSV)
    Path("b.csv").write_text(f",,,\n{CSV} ,,,\n" + ",,,\n" * 100)
    reports = [run("learn", name, *LEARN).stdout.partition("examples  ")[2] for name in
               ("a.csv", "b.csv")]  # fmt: skip
    assert reports[0] == reports[1]
    run("learn", "a.csv", *LEARN, "--save", "a.model")
    out = run("predict", "a.model", "b.csv", "--ignore", "click", "--categorical", "site").stdout
    assert len(out.splitlines()) == N + 101  # without labels each row is predicted
    assert suggested("b.csv")[2:] == suggested("a.csv")[2:]


RULE = "the line is a rule of a printed table ({}): remove it, or export the table as CSV"


def test_rules_of_printed_tables() -> None:
    head, rest = CSV.split("\n", 1)
    Path("a.csv").write_text(f"{head}\n----,-----,-,-----\n{rest}")
    message = "a.csv:2: " + RULE.format("'----'")
    assert error_of("learn", "a.csv", *LEARN, code=65) == message
    assert (
        f"60 examples, 4 columns, 1 invalid\ninvalid: {message}" in run("inspect", "a.csv").stdout
    )
    Path("b.csv").write_text(f"{head}\n----+-----\n{rest}".replace(",", "|"))
    options = ["--delimiter", "|"]
    assert error_of("learn", "b.csv", *LEARN, *options, code=65).endswith(
        RULE.format("'----+-----'")
    )
    assert suggested("b.csv")[2:4] == options
    Path("c.csv").write_text(f"+---+---+\n{CSV}")
    for command in (["learn", "c.csv", *LEARN], ["inspect", "c.csv"]):
        assert error_of(*command) == (
            "c.csv:1: the line is a rule of a printed table ('+---+---+'): export the table as "
            "CSV, as with psql --csv or mysql --batch"
        )


def test_a_line_that_describes_the_columns() -> None:
    head, rest = CSV.split("\n", 1)
    Path("a.csv").write_text(f"{head}\nString,Float64,UInt8,UInt8\n{rest}")
    message = error_of("learn", "a.csv", *LEARN, code=65)
    assert message.endswith("; if the line only describes the columns, remove it")
    out = run("inspect", "a.csv").stdout
    assert "invalid: a.csv:2: the line has no numbers: remove it if it describes the columns" in out
    assert suggested("a.csv") == ["learn", "a.csv", "--target", "click", "--categorical", "site"]


def test_headers_that_come_again() -> None:
    """With a mark of joined files, or in capitals: no words of the data."""
    Path("a.csv").write_text(f"{CSV}\ufeff{CSV}")
    expected = ["--target", "click", "--categorical", "site"]
    assert suggested("a.csv")[2:] == expected
    Path("a.csv").write_text(CSV + CSV.split("\n")[0].upper() + "\n" + CSV.split("\n", 1)[1])
    assert "invalid: a.csv:62: the line has no numbers" in run("inspect", "a.csv").stdout
    assert suggested("a.csv")[2:] == expected


def test_lines_that_are_quoted_as_a_whole() -> None:
    """Spreadsheets write them where the lines of a table are the texts of one column."""
    lines = CSV.splitlines()
    quoted = [f'"{line}"' for line in lines]
    Path("a.csv").write_text("\n".join(quoted))
    for command in (["inspect", "a.csv"], ["learn", "a.csv", *LEARN]):
        assert error_of(*command).startswith("a.csv:1: each line is quoted as a whole: remove ")
    Path("a.csv").write_text("\n".join([lines[0], *quoted[1:]]))
    message = error_of("learn", "a.csv", *LEARN, code=65)
    assert message.endswith(": remove the quotes around the whole line")
    Path("a.csv").write_text('"price,net"\n"1,5"\n"2,5"\n')
    assert "price,net" in run("inspect", "a.csv").stdout


def test_ids_and_times_among_numbers_alone_are_reported() -> None:
    """They would be learnt as measurements: the row numbers of pandas, and times in seconds."""
    for values in (range(60), range(1_764_000_000, 1_764_003_600, 60)):
        rows = [f"{value},{k % 7}.5,{k % 2}\n" for k, value in enumerate(values)]
        Path("a.csv").write_text("Unnamed: 0,n,click\n" + "".join(rows))
        message = run("learn", "a.csv", "--target", "click").stderr
        assert "numbers: n; ids or times, which --ignore leaves out: 'Unnamed: 0' (le" in message
        assert not run("learn", "a.csv", "--target", "click", "--ignore", "Unnamed: 0").stderr


@pytest.mark.parametrize("separator", [";", "\t", "|", ","])
def test_quoted_names_with_another_delimiter(separator: str) -> None:
    """As write.csv2 of R and MySQL write them; the error was about a quote."""
    name = "a.tsv" if separator == "," else "a.csv"
    FRAME.to_csv(name, index=False, sep=separator, quoting=csv.QUOTE_NONNUMERIC)
    word = {";": "';'", "|": "'|'", "\t": "tab", ",": ","}[separator]
    learn = ["learn", name, "--target", "click"]
    message = error_of(*learn)
    assert f"seems to separate the cells: use --delimiter {word} (the columns are then: " in message
    command = shlex.split(message.partition("; run streaml1 ")[2])
    assert command[-2] == "--delimiter" and "examples          60" in run(*command).stdout


@pytest.mark.parametrize("suffix", ["csv", "jsonl"])
@pytest.mark.parametrize(("positive", "two"), [("2", ("1.0", "2.0")), ("2.0", ("1", "2"))])
def test_positive_numbers_are_compared_by_value(
    suffix: str, positive: str, two: tuple[str, str]
) -> None:
    """pandas writes 2.0 once a label is missing; no label was positive then."""
    rows = [{"n": k % 7 + 0.5, "click": two[k % 3 % 2]} for k in range(60)]
    pd.DataFrame(rows).to_csv("a.csv", index=False)
    write_lines("a.jsonl", rows)
    result = run("learn", f"a.{suffix}", "--target", "click", "--positive", positive)
    expected = [{**row, "click": row["click"] == two[1]} for row in rows]
    write_lines("b.jsonl", expected)
    assert not result.stderr
    assert result.stdout.splitlines()[3:] == run(
        "learn", "b.jsonl", "--target", "click"
    ).stdout.splitlines()[3:]  # fmt: skip


@pytest.mark.parametrize("words", [("Ja", "Nein"), ("да", "нет"), ("evet", "hayır"), ("y", "t")])
def test_labels_in_other_languages(words: tuple[str, str]) -> None:
    rows = [f"{k % 7}.5,{words[k % 2]}\n" for k in range(60)]
    Path("a.csv").write_text("".join(rows))
    out = run("inspect", "a.csv", "--columns", "n,click").stdout
    assert f"--positive {words[0]}\n" in out.replace("'", "") and "\nall 60 examples" in out
    assert "2 columns; no header\n" in out
    assert "; no header: columns are selected by" in run("inspect", "a.csv", "--no-header").stdout


@pytest.mark.parametrize("share", [0.0, 0.01, 0.4])
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "parquet", "vw"])
def test_inspect_skips_examples_without_a_label(suffix: str, share: float) -> None:
    n = round(share * 300)
    frame = pd.concat([FRAME] * 5, ignore_index=True)
    frame["click"] = [None if (k * 7) % 300 < n else y for k, y in enumerate(frame.click)]
    frame["click"] = frame.click.astype("Int64")
    name = f"a.{suffix}"
    if suffix == "csv":
        frame.to_csv(name, index=False)
    elif suffix == "jsonl":
        frame.to_json(name, orient="records", lines=True)
    elif suffix == "vw":
        labels = ["" if pd.isna(y) else f"{y} " for y in frame.click]
        Path(name).write_text("".join(f"{y}|f a:{k % 7}\n" for k, y in enumerate(labels)))
    else:
        frame.to_parquet(name)
    command = suggested(name)
    assert ("--bad" in command, "--most-bad" in command) == (n > 0, n > 100)
    assert f"examples          {300 - n}" in run(*command).stdout


# Headers


@pytest.mark.parametrize("mark", [",", "\t", ";", "|", " "])
def test_row_names_of_r(mark: str) -> None:
    rows = "".join(f'"{k}",{line}\n' for k, line in enumerate(CSV.splitlines()[1:], 1))
    Path("a.csv").write_text((CSV.split("\n")[0] + "\n" + rows).replace(",", mark))
    delimiter = ["--delimiter", "tab" if mark == "\t" else mark]
    for command in (["learn", "a.csv", *LEARN, *delimiter], ["inspect", "a.csv", *delimiter]):
        assert error_of(*command) == (
            "a.csv:1: the header has 4 cells, but the lines below have 5: if the first ones are "
            "row names of R, export without them (row.names = FALSE); otherwise quote cells that "
            "contain the delimiter"
        )


def test_delimiters_at_the_ends_of_lines() -> None:
    head, rest = CSV.split("\n", 1)
    Path("a.csv").write_text(head + "\n" + rest.replace("\n", ",\n"))
    message = error_of("learn", "a.csv", *LEARN)
    assert message.endswith("remove the delimiter at their ends, as with sed -E 's/,$//'")


def test_empty_columns_beside_a_table_are_ignored() -> None:
    Path("a.csv").write_text(CSV)
    expected = run("learn", "a.csv", *LEARN).stdout
    for n, what in ((1, "a column"), (3, "3 columns")):
        Path("a.csv").write_text(CSV.replace("\n", "," * n + "\n"))
        learnt = run("learn", "a.csv", *LEARN)
        assert f"a.csv:1: {what} without a name and values: ignored, as with --ignore ''" in (
            learnt.stderr
        )
        assert learnt.stdout.splitlines()[3:] == expected.splitlines()[3:]
    Path("a.csv").write_text(CSV.replace("\n", ",\n", 1).replace("\n", ",x\n").replace(",,x", ","))
    assert "column 5 has no name" in error_of("learn", "a.csv", *LEARN)


def test_a_title_that_contains_another_delimiter() -> None:
    Path("a.csv").write_text("|1x3 Cross validator\n" + CSV)
    for command in (["learn", "a.csv", *LEARN], ["inspect", "a.csv"]):
        message = error_of(*command)
        assert message.startswith("a.csv:1: the line has 1 cell ('|1x3 Cross validator')")


def test_blanks_between_cells() -> None:
    Path("a.csv").write_text(CSV.replace(",", " "))
    for command in (["learn", "a.csv", "--target", "click"], ["inspect", "a.csv"]):
        message = error_of(*command)
        assert "' ' seems to separate the cells: use --delimiter ' ' (the columns" in message
    assert "examples          60" in run(*suggested("a.csv", "--delimiter", " ")).stdout
    quoted = "\n".join(" ".join(f'"{c}"' for c in line.split(",")) for line in CSV.splitlines())
    Path("a.csv").write_text(quoted)
    assert error_of("inspect", "a.csv").endswith(
        "; if blanks separate the cells, use --delimiter ' '"
    )
    Path("a.csv").write_text(FRAME.to_string(index=False))
    for command in (["learn", "a.csv", "--target", "click"], ["inspect", "a.csv"]):
        assert error_of(*command) == (
            "a.csv: blanks seem to separate the cells: write one comma instead, as with sed -E "
            "'s/^ +| +$//g; s/ +/,/g'"
        )
    Path("a.csv").write_text("1::5::3\n2::7::4\n")
    assert error_of("inspect", "a.csv").startswith("a.csv: '::' seems to separate the cells")


@pytest.mark.parametrize(("written", "given"), [(";", ","), ("\t", ","), (",", ";")])
def test_predictions_name_the_delimiter(written: str, given: str) -> None:
    FRAME.to_csv("a.csv", index=False)
    run("learn", "a.csv", *LEARN, "--save", "m")
    X = FRAME.drop(columns="click").assign(price=FRAME.price.round(1))
    X.to_csv("b.csv", index=False, sep=written, decimal="," if written == ";" else ".")
    message = error_of("predict", "m", "b.csv", "--delimiter", given, "--categorical", "")
    assert "seems to separate the cells: use --delimiter" in message
    assert message.partition("columns are then: ")[2].startswith("site, price, n)")
    # Such a name is possible where the cells below have no delimiter.
    pd.DataFrame({"a;b": [1.5, 2.5]}).to_csv("b.csv", index=False)
    assert run("predict", "m", "b.csv").exit_code == 0


def test_the_delimiter_of_hive() -> None:
    Path("a.csv").write_text(CSV.split("\n", 1)[1].replace(",", "\x01"))
    command = suggested("a.csv")
    assert command[2:5] == ["--delimiter", r"\x01", "--no-header"]
    assert "examples          60" in run(*command).stdout


def test_a_name_that_occurs_below_itself_is_data() -> None:
    Path("a.tsv").write_text("ham\tsee you\nspam\twin now\nham\tgood night\nham\tsee you\n")
    command = suggested("a.tsv")
    assert command[2:5] == ["--no-header", "--target", "0"]
    assert "examples          4" in run(*command).stdout


# Other text


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("INSERT INTO clicks (a, y) VALUES ('x', 1);\n", "a dump in SQL, not a table"),
        ("--\n-- PostgreSQL database dump\n--\n", "a dump in SQL, not a table"),
        ("-- MySQL dump 10.13\n", "a dump in SQL, not a table"),
        ("@relation clicks\n@data\n1,2\n", "a file of Weka (ARFF), not CSV"),
        ("__label__1 good film\n", "in the format of fastText, not CSV"),
    ],
)
def test_text_that_is_no_table(text: str, what: str) -> None:
    Path("a.csv").write_text(text)
    for command in (["learn", "a.csv", "--target", "y"], ["inspect", "a.csv"]):
        assert error_of(*command).startswith(f"a.csv is {what}; ")


# JSON


@pytest.mark.parametrize("orient", ["split", "index", "columns", "table", "values", "list"])
def test_tables_of_pandas_in_one_object(orient: Any) -> None:
    """With --at 0 the first row was all that was learnt."""
    if orient == "list":
        write_lines("a.json", [FRAME.to_dict("list")])
    else:
        FRAME.to_json("a.json", orient=orient)
    what = "is one array of arrays" if orient == "values" else "is one table, as pandas writes it"
    for command in (["learn", "a.json", "--target", "click", "--at", "0"], ["inspect", "a.json"]):
        assert error_of(*command).startswith(f"a.json {what}, but JSON lines have one object per")


def test_one_example_of_objects_is_no_table() -> None:
    Path("a.json").write_text('{"user": {"1": 2, "y": 1}, "ad": {"1": 3, "y": 1}}\n')
    assert "examples          1" in run("learn", "a.json", "--target", "user.y").stdout
    write_lines("b.json", [{"n": k, "tags": ["a"], "click": k % 2} for k in range(9)])
    run("learn", "b.json", "--target", "click", "--save", "a.model")
    event = '{"tags": ["a", "b"], "n": [1, 2]}\n'  # without a label there is no other member
    assert run("predict", "a.model", "-", "--format", "jsonl", input=event).stdout.count("\n") == 1


@pytest.mark.parametrize("action", [{"index": {"_index": "c", "_id": "1"}}, {"create": {}}])
def test_bulk_requests_of_elasticsearch(action: dict[str, Any]) -> None:
    write_lines("a.json", [line for row in ROWS for line in (action, row)])
    report = progressive(ElasticNetClassifier(lr=0.1), "a.json", target="click")
    assert (report.examples, report.rejected) == (N, 0)
    assert "first 60 examples, 4 members" in run("inspect", "a.json").stdout


@pytest.mark.parametrize("indent", [None, 2])
def test_responses_with_an_array_of_objects(indent: int | None) -> None:
    hits = {"total": [N], "hits": [{"_source": row, "hits": [1]} for row in ROWS]}
    Path("a.json").write_text(json.dumps({"took": 3, "hits": hits, "more": [1]}, indent=indent))
    command = "use --at {} if each of its objects is an example (in files)"
    message = error_of("learn", "a.json", "--target", "click", code=65)
    assert message.endswith("; the array 'hits.hits' holds it: " + command.format("hits.hits"))
    message = error_of("learn", "a.json", "--target", "click", "--at", "hits", code=65)
    assert message.endswith("; the array 'hits' holds it: " + command.format("hits.hits"))
    assert error_of("inspect", "a.json").endswith(
        "use --at hits.hits to read each of them as an example"
    )
    model, same = ElasticNetClassifier(lr=0.1), ElasticNetClassifier(lr=0.1)
    progressive(model, "a.json", target="click", at="hits.hits._source")
    write_lines("b.jsonl", ROWS)
    progressive(same, "b.jsonl", target="click")
    assert model.weights == same.weights
    assert suggested("a.json", "--at", "hits.hits._source")[2:6] == (
        ["--at", "hits.hits._source", "--target", "click"]
    )


def test_arrays_in_each_line() -> None:
    write_lines("a.jsonl", [{"batch": k, "rows": ROWS[k : k + 5]} for k in range(0, N, 5)])
    report = progressive(ElasticNetClassifier(lr=0.1), "a.jsonl", target="click", at="rows")
    assert (report.examples, report.rejected) == (N, 0)


def test_invalid_objects_of_an_array_are_rejected_one_by_one() -> None:
    rows = [json.dumps(row) for row in ROWS]
    rows[2], rows[4], rows[6] = '{"click": 1 2}', "7", '{"click": 1, "s": "a\nb"}'
    Path("a.json").write_text("[" + ",\n".join(rows) + ',\n{"click": 1, "s')
    faults: list[tuple[str, str]] = []
    source = open_source("a.json", target="click")
    n = sum(len(block) for block in source.blocks(7, lambda *fault: faults.append(fault)))
    assert n == N - 3
    assert [place for place, _ in faults] == [f"a.json:{k}" for k in (3, 5, 7, N + 1)]
    assert all("not JSON" in reason for _, reason in [faults[0], *faults[2:]])
    assert faults[1][1].startswith("7 is not an example")


@pytest.mark.parametrize("indent", [None, 1])
def test_nulls_before_the_objects_of_an_array(indent: int | None) -> None:
    """Firebase writes one for each number that is not used."""
    Path("a.json").write_text(json.dumps([None, None, *ROWS], indent=indent))
    assert error_of("learn", "a.json", "--target", "click", code=65)
    out = run("learn", "a.json", "--target", "click", "--bad", "skip").stdout
    assert "examples          60" in out
    Path("a.json").write_text(json.dumps([None, *ROWS]))
    assert error_of("learn", "a.json", "--target", "click", code=65) == (
        "a.json:1: null is not an example: it must be an object of features; to leave such "
        "examples out, use --bad skip"
    )


def test_several_arrays_in_one_object() -> None:
    Path("a.json").write_text(json.dumps({"train": ROWS, "test": ROWS}))
    message = error_of("learn", "a.json", "--target", "click", code=65)
    assert "the array 'train' holds it: use --at train" in message
    assert "use --at train" in error_of("inspect", "a.json")
    assert "examples          60" in run(*suggested("a.json", "--at", "train")).stdout


def test_inspect_reads_lines_of_texts_that_hold_objects() -> None:
    Path("a.jsonl").write_text("".join(json.dumps(json.dumps(row)) + "\n" for row in ROWS))
    assert suggested("a.jsonl") == ["learn", "a.jsonl", "--target", "click"]


@pytest.mark.parametrize(
    ("line", "found", "remedy"),
    [
        ("# exported", "column 1 ('# exported')", "JSON has no comments, remove the line"),
        ("{'click': 1}", "column 2 (\"'click': 1}\")", "as json.dumps writes them"),
        ('{"click": True}', "column 11 ('True}')", "write true and false"),
        ('{"click": 1, "n": nan}', "column 19 ('nan}')", "write null for a missing value"),
        ('{"click": 1, "s": "a\tb"}', "column 21 ('\\tb\"}')", r"escape it in the text, as \t"),
        ('2025-01-01Z {"click": 1}', "column 5 ('-01-01Z", "as with sed 's/^[^{]*//'"),
        ('web-1  | {"click": 1}', "column 1 ('web-1", "as with sed 's/^[^{]*//'"),
        ("site click", "column 1 ('site click')", "column 1 ('site click')"),
    ],
)
def test_lines_that_are_not_json(line: str, found: str, remedy: str) -> None:
    Path("a.jsonl").write_text(f"{line}\n")
    message = error_of("learn", "a.jsonl", "--target", "click", code=65)
    assert message.startswith("a.jsonl:1: not JSON: ")
    assert found in message and message.endswith(remedy)


@pytest.mark.parametrize(
    ("member", "value", "end"),
    [
        ("click", None, "is null; to leave such examples out, use --bad skip"),
        ("other", 1, "its members are: other; to leave such examples out, use --bad skip"),
        ("Click", 1, "its members are: Click; did you mean --target Click?"),
    ],
)
def test_labels_that_json_lines_lack(member: str, value: Any, end: str) -> None:
    write_lines("a.jsonl", [{member: value}])
    assert error_of("learn", "a.jsonl", "--target", "click", code=65).endswith(end)


@pytest.mark.parametrize("model", ["elastic-net", "softmax"])
def test_labels_of_nan_are_missing(model: str) -> None:
    labels = FRAME.click.astype(float)
    labels[3] = float("nan")
    pa.parquet.write_table(pa.table({"n": FRAME.n, "click": labels.to_numpy()}), "a.parquet")
    learn = ["learn", "a.parquet", "--target", "click", "--model", model]
    assert error_of(*learn, code=65).startswith("a.parquet:4: the label is missing")
    assert "examples          59" in run(*learn, "--bad", "skip").stdout
    with pytest.raises(ValueError, match=r"^rows:4: the label is missing; .* use bad=\"skip\"$"):
        progressive(ElasticNetRegressor(), (FRAME[["n"]], labels))


def test_an_array_resumes_from_a_checkpoint_and_through_a_pipe() -> None:
    Path("a.json").write_text(json.dumps(ROWS, indent=2))
    learn = ["--target", "click", "--lr", "0.1"]
    run("learn", "a.json", *learn, "--limit", "20", "--checkpoint", "kept")
    run("learn", "a.json", *learn, "--checkpoint", "kept", "--save", "resumed.model")
    text = Path("a.json").read_text()
    run("learn", "-", "--format", "json", *learn, "--save", "piped.model", input=text)
    progressive(whole := ElasticNetClassifier(lr=0.1), "a.json", target="click")
    assert load("resumed.model").weights == load("piped.model").weights == whole.weights


@pytest.mark.parametrize(
    ("label", "place"), [([1], "click.0"), ({"$numberInt": "1"}, "'click.$numberInt'")]
)
def test_labels_in_an_object_or_array_of_their_own(label: Any, place: str) -> None:
    write_lines("a.json", [{"n": k, "click": label} for k in range(9)])
    message = error_of("learn", "a.json", "--target", "click", code=65)
    assert message.endswith(f"true or false; use --target {place} for the value inside")
    assert "examples          9" in run("learn", "a.json", "--target", place.strip("'")).stdout


def test_a_text_that_holds_the_example() -> None:
    write_lines("a.json", [{"offset": 3, "value": json.dumps(row)} for row in ROWS])
    message = error_of("learn", "a.json", "--target", "click", code=65)
    assert message.endswith("; use --at value if that text is the example")
    assert "examples          60" in run("learn", "a.json", "--at", "value", *LEARN[:2]).stdout


def test_arrays_in_lines() -> None:
    write_lines("a.json", [["news", 1], ["mail", 0]])
    for command, code in ((["learn", "a.json", "--target", "y"], 65), (["inspect", "a.json"], 2)):
        message = error_of(*command, code=code)
        assert message.endswith("; convert arrays to CSV, as with jq -r @csv")


def test_numbers_as_text_are_reported() -> None:
    """Those of BigQuery, ClickHouse, MongoDB and DynamoDB; codes of few values are not."""
    rows = [
        {
            "price": {"N": str(row["price"])},
            "zip": f"{k:05}",
            "hour": str(k % 7),
            "click": str(row["click"]),
            "count": str(k * 7),
        }
        for k, row in enumerate(ROWS)
    ]
    write_lines("a.jsonl", rows)
    sentence = (
        "numbers as text are categories: price.N,count; to learn them as numbers, use --numeric "
        "price.N,count\n"
    )
    learn = ["learn", "a.jsonl", "--target", "click"]
    assert f"\n{sentence}\n" in run("inspect", "a.jsonl").stdout
    assert run(*learn).stderr == f"streaml1: a.jsonl: {sentence}"
    assert "price.N,count" not in run(*learn, "--ignore", "price.N,count").stderr
    command = suggested("a.jsonl")
    assert command[command.index("--numeric") + 1] == "price.N,count"
    learnt = run(*learn, "--numeric", "price.N,count", "--save", "a.model")
    assert "price.N,count" not in learnt.stderr
    predict = ["predict", "a.model", "a.jsonl", "--ignore", "click"]
    assert run(*predict).stderr == (
        "streaml1: a.jsonl: the model has learnt numbers from price.N, count, where this file has "
        "words: use --numeric price.N,count\n"
    )
    assert run(*predict, "--numeric", "price.N,count").stderr == ""
    assert "learnt numbers from price.N" in run(*learn, "--load", "a.model").stderr
    names = set(load("a.model").weights)
    assert {"price.N", "count", "zip=00007"} <= names and not {"count=7", "price.N=0.1"} & names
    run(*learn, "--save", "a.model")
    write_lines("a.jsonl", [{**row, "hour": int(row["hour"])} for row in rows])
    for command in (predict, [*learn, "--load", "a.model"], ["evaluate", "a.model", *learn[1:]]):
        assert run(*command).stderr.startswith(
            "streaml1: a.jsonl: the model has learnt categories from hour, where this file has "
            "numbers: use --categorical hour\n"
        )
    write_lines("a.jsonl", [{**row, "price": 1, "count": 1} for row in rows])
    assert run(*learn).stderr == "" and "as text" not in run("inspect", "a.jsonl").stdout


def test_members_that_hold_values_of_several_types() -> None:
    """The texts of numbers are meant as numbers; numbers among words, as categories."""
    rows = [
        {
            "age": str(20 + k % 9) if k % 3 else 20 + k % 9,
            "flag": "true" if k % 3 else False,
            "zip": f"K{k % 5}" if k % 3 else 94110 + k % 5,
            "click": row["click"],
        }
        for k, row in enumerate(ROWS)
    ]
    write_lines("a.jsonl", rows)
    numbers = (
        "numbers as text are categories: age,flag; to learn them as numbers, use --numeric age,flag"
    )
    mixed = "numbers next to words stay numbers: zip; to learn them as categories, use --cat"
    out = run("inspect", "a.jsonl").stdout
    assert f"\n{numbers}\n{mixed}egorical zip\n\n" in out
    learn = ["learn", "a.jsonl", "--target", "click"]
    assert suggested("a.jsonl") == [*learn, "--categorical", "zip", "--numeric", "age,flag"]
    learnt = run(*learn, "--save", "a.model").stderr
    assert learnt.startswith(f"streaml1: a.jsonl: {numbers}\nstreaml1: a.jsonl: {mixed}")
    # The model has learnt both kinds, as the file holds both.
    for command in (["predict", "a.model"], ["evaluate", "a.model"], ["learn", "--load=a.model"]):
        assert run(*command, *learn[1:]).stderr.count("where this file has") == 0
    right = [*suggested("a.jsonl"), "--save", "b.model"]
    assert run(*right).stderr == ""
    names = {*load("b.model").weights}
    assert {"age", "flag", "zip=94110", "zip=K1"} <= names
    assert not {"zip", "age=21", "flag=true"} & names


@pytest.mark.parametrize("given", [["--categorical", "hour"], []])
@pytest.mark.parametrize("suffixes", [("", ".0"), (".0", "")])
def test_categories_that_are_whole_numbers_with_and_without_decimals(
    given: list[str], suffixes: tuple[str, str]
) -> None:
    """Programs write 7.0 once a value of the column is missing; the categories are others."""
    for name, suffix in zip(("a.csv", "b.csv"), suffixes, strict=True):
        rows = [f"{k % 24}{suffix},{k % 2}\n" for k in range(60)]
        Path(name).write_text("hour,click\n" + "".join(rows))
    run("learn", "a.csv", "--target", "click", "--categorical", "hour", "--save", "a.model")
    own, other = (f"0{suffix}" for suffix in suffixes)
    for command in (["predict", "a.model"], ["evaluate", "a.model"], ["learn", "--load=a.model"]):
        sentence = f"'hour' holds {other!r} where the model has learnt the category {own!r}: write"
        assert sentence in run(*command, "b.csv", "--target", "click", *given).stderr
        assert "where the model has learnt the category" not in run(
            *command, "a.csv", "--target", "click", *given
        ).stderr  # fmt: skip


# Parquet and Arrow


@pytest.mark.parametrize("suffix", ["parquet", "arrow"])
def test_tables_with_columns_that_the_model_knows_as_another_kind(suffix: str) -> None:
    def write(frame: Any) -> str:
        name = f"a.{suffix}"
        frame.to_parquet(name) if suffix == "parquet" else frame.to_feather(name)
        return name

    frame = FRAME.assign(hour=[k % 7 for k in range(N)], price=[k * 7 for k in range(N)])
    source = write(frame)
    learn = ["learn", source, "--target", "click"]
    assert run(*learn, "--categorical", "hour", "--save", "m").stderr == ""
    sentence = (
        f"streaml1: {source}: the model has learnt categories from hour, where this file has "
        "numbers: use --categorical hour\n"
    )
    predict = ["predict", "m", source, "--ignore", "click"]
    for hours in (frame.hour, frame.hour.astype(float)):
        write(frame.assign(hour=hours))
        for command in (predict, [*learn, "--load", "m"], ["evaluate", "m", *learn[1:]]):
            assert run(*command).stderr.startswith(sentence)
        assert run(*predict, "--categorical", "hour").stderr == ""
    write(frame.assign(hour=frame.hour.astype(str), price=frame.price.astype(str)))
    assert run(*predict).stderr == (
        f"streaml1: {source}: the model has learnt numbers from price, where this file has words: "
        "use --numeric price\n"
    )
    assert run(*predict, "--numeric", "price").stderr == ""


def test_tables_that_lack_columns_of_the_model() -> None:
    frame = FRAME.assign(user=[{"age": k % 9} for k in range(N)])
    frame.to_parquet("a.parquet")
    learn = ["learn", "a.parquet", "--target", "click"]
    run(*learn, "--save", "m")
    assert "lacks" not in run("evaluate", "m", *learn[1:]).stderr
    frame.rename(columns={"site": "Site"}).to_parquet("a.parquet")
    assert run("evaluate", "m", *learn[1:]).stderr == (
        "streaml1: a.parquet: the model has learnt from columns that this file lacks: site; rename "
        "columns that are the same (new to the model: Site)\n"
    )


def test_inspect_of_columns_that_cannot_be_read() -> None:
    columns = [FRAME.site, FRAME.n, FRAME.n, FRAME.click]
    names = ["site", "n", "n", "click"]
    parquet.write_table(pa.Table.from_arrays([pa.array(c) for c in columns], names), "a.parquet")
    for command in (["learn", "a.parquet", "--target", "click"], ["inspect", "a.parquet"]):
        assert error_of(*command).startswith(
            "a.parquet has several columns 'n': rename all but one"
        )
    uuids = pa.ExtensionArray.from_storage(pa.uuid(), pa.array([bytes(16)] * N, pa.binary(16)))
    feather.write_feather(pa.table(FRAME).append_column("uuid", uuids), "a.arrow")
    command = suggested("a.arrow")
    assert command[-2:] == ["--ignore", "uuid"] and "examples  " in run(*command).stdout


def test_parquet_that_is_none() -> None:
    pa.parquet.write_table(pa.table({"n": [1.0, 2.0], "click": [1, 0]}), "plain.parquet")
    packed = gzip.compress(Path("plain.parquet").read_bytes())
    learn = ["learn", "a.parquet", "--target", "click"]
    Path("a.parquet").write_bytes(packed)
    assert error_of(*learn) == (
        "a.parquet is compressed by gzip, and Parquet files are compressed inside: decompress it "
        "first"
    )
    Path("a.parquet.gz").write_bytes(packed)
    assert error_of("learn", "a.parquet.gz", "--target", "click").endswith("; decompress it first")
    Path("a.parquet").write_text(CSV)
    assert error_of(*learn).endswith("its first line looks like --format csv")
    Path("a.parquet").write_bytes(b"PAR1\x15\xff" * 9)
    assert "is not a valid Parquet file" in error_of(*learn, code=65)


def test_feather_of_version_1() -> None:
    Path("a.feather").write_bytes(b"FEA1" + bytes(40))
    for command in (["learn", "a.feather", "--target", "y"], ["inspect", "a.feather"]):
        assert error_of(*command).startswith("a.feather is a Feather file of version 1: write it")


def test_parts_that_disagree_about_text() -> None:
    """A column of numbers here and of text there became two features."""
    Path("parts").mkdir()
    FRAME.to_parquet("parts/0.parquet")
    FRAME.assign(n=None).to_parquet("parts/1.parquet")
    FRAME.assign(n=FRAME.n.astype(str)).to_parquet("parts/2.parquet")
    assert error_of("learn", "parts", "--target", "click", code=65) == (
        "column 'n' of parts/2.parquet holds text, that of parts/0.parquet holds numbers: use "
        "--categorical n for categories, or convert one of them"
    )
    assert "examples          180" in run("learn", "parts", *LEARN[:3], "site,n").stdout
    FRAME.assign(n=FRAME.n * 1.0, site=pd.Categorical(FRAME.site)).to_parquet("parts/2.parquet")
    assert "examples          180" in run("learn", "parts", "--target", "click").stdout


# Python


def test_a_dict_of_columns_has_no_rows() -> None:
    for orient in ("list", "dict", "split"):
        with pytest.raises(TypeError, match="source must have rows, got a dict: make a frame"):
            progressive(ElasticNetClassifier(), FRAME.to_dict(orient), target="click")  # type: ignore[call-overload]


def test_a_text_is_no_name() -> None:
    with pytest.raises(SourceError) as error:
        progressive(ElasticNetClassifier(), CSV, target="click")
    message = str(error.value)
    assert "there is no such file; write examples in a string to a file first" in message
    assert "\n" not in message
    with pytest.raises(SourceError, match="no file matches '.*[.][.][.]: check the") as error:
        progressive(ElasticNetClassifier(), FRAME.to_json(orient="records"), target="click")
    assert len(str(error.value)) < 200


def test_label_and_weight_of_xgboost() -> None:
    Path("a.svm").write_text("1:0.5 3:1\n")
    message = error_of("learn", "a.svm", code=65)
    assert message.endswith("; if this is label:weight, remove the weight")


# Labels


@pytest.mark.parametrize("write", ["csv", "jsonl", "parquet"])
def test_labels_that_differ_in_case_alone_are_one(write: str) -> None:
    spellings = {1: ("Yes", "yes", "YES "), 0: ("No", "no")}
    labels = [spellings[y][k % len(spellings[y])] for k, y in enumerate(FRAME.click)]
    frame = FRAME.assign(click=labels)
    if write == "csv":
        frame.to_csv("a.csv", index=False)
    elif write == "jsonl":
        write_lines("a.jsonl", frame.to_dict("records"))
    else:
        frame.to_parquet("a.parquet", index=False)
    printed = run("inspect", f"a.{write}").stdout
    assert "labels differ only in case or blanks, such as " in printed
    assert ": --positive takes all spellings of one label" in printed
    command = suggested(f"a.{write}")
    positive = command[command.index("--positive") + 1]
    assert {word.strip() for word in positive.split(",")} == {"Yes", "yes", "YES"}
    models = [ElasticNetClassifier(lr=0.1), ElasticNetClassifier(lr=0.1)]
    roles: Any = {"target": "click"}
    roles |= {"categorical": ["site"]} if write == "csv" else {}
    progressive(models[0], f"a.{write}", positive=positive, **roles)
    FRAME.to_csv("b.csv", index=False)
    progressive(models[1], "b.csv", target="click", categorical=["site"])
    assert models[0].weights == models[1].weights


def test_labels_with_units_are_numbers() -> None:
    FRAME.assign(click=[f"{k}%" for k in range(N)]).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    assert command[command.index("--task") + 1] == "regression"
    assert run(*command).exit_code == 0
    write_lines("a.jsonl", [{"a": 1.0, "price": "-$0.50"}] * 9)
    model = ElasticNetRegressor(lr=0.5)
    progressive(model, "a.jsonl", target="price")
    assert -0.6 < model.predict_one({"a": 1.0}) < -0.2
    write_lines("a.jsonl", [{"a": 1.0, "price": "$1,5"}])
    with pytest.raises(ValueError, match="invalid label"):
        progressive(ElasticNetRegressor(lr=0.1), "a.jsonl", target="price")


@pytest.mark.parametrize("label", ["1,234.5", "2,5", "1.234,5", "$1,200"])
def test_labels_with_other_marks_are_rejected_with_a_remedy(label: str) -> None:
    Path("a.csv").write_text(f'a,price\n1,"{label}"\n')
    command = ["learn", "a.csv", "--target", "price", "--task", "regression"]
    message = error_of(*command, code=65)
    assert message.endswith("separated thousands of CSV, use --decimal and --thousands")
    Path("a.csv").write_text("a,price\n1,cheap\n")
    assert error_of(*command, code=65).endswith("'cheap': it must be a finite number")


@pytest.mark.parametrize(("name", "option"), [("class", "softmax"), ("visits", "regression")])
def test_few_whole_labels_are_classes_or_numbers_by_name(name: str, option: str) -> None:
    frame = FRAME.drop(columns="click").assign(**{name: [k % 3 + 1 for k in range(N)]})
    frame.to_csv("a.csv", index=False)
    printed = run("inspect", "a.csv", "--target", name).stdout
    assert option in printed.splitlines()[-1]
    other = "as numbers with --task regression" if option == "softmax" else "with --model softmax"
    assert other in printed


def test_inspect_reads_labels_with_the_marks_of_the_file() -> None:
    frame = FRAME.drop(columns="click")
    two = [float(k % 2) for k in range(N)]
    for name, labels, options in (
        ("y", two, []),
        ("y", [1 + label for label in two], ["--positive", "2,0"]),
        ("class", [float(k % 3) for k in range(N)], ["--model", "softmax"]),
        ("y", [k % 5 / 2 for k in range(N)], ["--task", "regression"]),
    ):  # fmt: skip
        frame.assign(**{name: labels}).to_csv("a.csv", index=False, sep=";", decimal=",")
        printed = run("inspect", "a.csv", "--target", name).stdout
        command = suggested("a.csv", "--target", name)
        after = command.index("--target") + 2
        assert command[after : after + 2] == (options or ["--categorical", "site"])
        assert ("are read as classes" in printed) == ("softmax" in command)
        assert run(*command).exit_code == 0
    frame.assign(stars=[k % 5 / 2 for k in range(N)]).to_csv("a.csv", index=False)
    printed = run("inspect", "a.csv", "--target", "stars").stdout
    assert "--task regression" in printed and "are read as" not in printed


def test_numbers_that_stand_for_missing_values() -> None:
    ages = [-999 if k % 9 == 0 else 20 + k % 40 for k in range(N)]
    FRAME.assign(n=ages, price=[9999.0 if k % 7 == 0 else k for k in range(N)]).to_csv("a.csv")
    printed = run("inspect", "a.csv").stdout
    words = "'NaN,nan,NULL,null,None,N/A,NA,\\N,?'"
    for name, number, others in (("n", "-999", "20 to 59"), ("price", "9999.0", "1 to 59")):
        start = next(line for line in printed.splitlines() if f"column {name!r} holds" in line)
        assert f"holds {number} in " in start and f"(others: {others})" in start
        assert start.endswith(f"use --missing {words},{number}")
    # Plain numbers, and an amount far from the others that occurs once, are not reported.
    FRAME.assign(n=[9999, *range(N - 1)]).to_csv("a.csv", index=False)
    assert "missing value" not in run("inspect", "a.csv").stdout


def test_sample_weights_are_recognized_by_their_name() -> None:
    FRAME.assign(sample_weight=[1.0, 2.0, 0.5] * (N // 3)).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    assert command[command.index("--weight") + 1] == "sample_weight"
    write_lines("a.jsonl", FRAME.assign(sample_weight=1.5).to_dict("records"))
    assert "--weight" in suggested("a.jsonl")


# Footers, envelopes, names


@pytest.mark.parametrize(
    "footer",
    ["(60 rows)", "\n(60 rows affected)", "60 rows selected.", "\\.", "(1 row)\n\n", "\x1a"],
)
def test_footers_of_databases_are_skipped(footer: str) -> None:
    Path("a.csv").write_text(f"{CSV}{footer}\n")
    out = run("inspect", "a.csv").stdout
    assert "all 60 examples, 4 columns" in out and "invalid" not in out
    done = run(*suggested("a.csv"))
    assert "examples          60" in done.stdout
    assert "skipped a line that ends a table" in done.stderr
    # Elsewhere such a text is a value.
    Path("b.csv").write_text("rows,click\n" + "60 rows,1\n2 rows,0\n" * 3)
    progressive(
        model := ElasticNetClassifier(lr=0.1), "b.csv", target="click", categorical=["rows"]
    )
    assert {*model.weights} == {"rows=60 rows", "rows=2 rows"}


def test_numbers_of_typed_json_are_read_as_numbers() -> None:
    write_lines("a.jsonl", [{"n": {"$numberLong": str(k % 5)}, "zip": "01307", "click": k % 2}
                            for k in range(N)])  # fmt: skip
    command = suggested("a.jsonl")
    assert command[command.index("--numeric") + 1] == "n.$numberLong"


def test_texts_that_hold_the_example_are_named() -> None:
    write_lines(
        "a.jsonl", [{"offset": k, "payload": json.dumps(row)} for k, row in enumerate(ROWS)]
    )
    out = run("inspect", "a.jsonl").stdout
    assert "member payload holds JSON as text: to read the example from it, use --at payload" in out
    assert suggested("a.jsonl", "--at", "payload")[4:6] == ["--target", "click"]


def test_inspect_reports_what_learn_rejects() -> None:
    Path("a.jsonl").write_text('{"click": 1, "n": 2, "n": 3}\n{"click": 0, "n": 1}\n' * 2)
    out = run("inspect", "a.jsonl").stdout
    assert "first 2 examples, 2 members, 2 invalid" in out
    assert "invalid: line 1: the name 'n' occurs twice in an object" in out


def test_one_object_of_objects() -> None:
    Path("a.json").write_text(json.dumps({f"-Nx{k}": row for k, row in enumerate(ROWS)}))
    assert error_of("inspect", "a.json") == (
        "a.json is one object of 60 objects: if each of them is an example, write a line for each, "
        "as with jq -c '.[]'"
    )
    assert "first 1 example" in run("inspect", "a.json", "--target", "-Nx7.click").stdout
