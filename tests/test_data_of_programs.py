"""Files and frames as other programs write them: what they mean, and one sentence if unreadable."""

from __future__ import annotations

import enum
import gzip
import json
import shlex
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.core.rows import BadExample
from streaml1.sources import SourceError
from streaml1.sources.readers.csv_cells import CellRules, number_marks
from streaml1.training import progressive
from tests.command import error_of, run

N = 60
SITES = [("news", "mail", "shop")[k * k % 7 % 3] for k in range(N)]
FRAME = pd.DataFrame({
    "site": SITES,
    "price": [k * 997 % 3000 + 0.25 for k in range(N)],
    "n": [k * 7 % 10 for k in range(N)],
    "click": [int(site == "news") for site in SITES],
})  # fmt: skip


pytestmark = pytest.mark.usefixtures("cwd")


def suggested(*args: str) -> list[str]:
    """Return the arguments of the command that `inspect` prints."""
    return shlex.split(run("inspect", *args).stdout.splitlines()[-1])[1:]


def weights_in(model: str) -> dict[str, float]:
    """Return the weights of a saved model."""
    return dict(streaml1.load(model).weights)


def names_of(X: Any, **options: Any) -> list[str]:
    """Return the names of features that a model learns; `learn_many` and `progressive` agree."""
    models = [ElasticNetClassifier(lr=0.1) for _ in range(2)]
    models[0].learn_many(X, **options)
    progressive(models[1], X, **options)
    names = [sorted(map(str, model.weights)) for model in models]
    assert names[0] == names[1]
    return names[0]


# Frames


def test_the_index_of_a_frame_is_no_feature() -> None:
    rows = FRAME[FRAME.n > 2]  # its index has gaps, so that pyarrow keeps it as a column
    table = pa.Table.from_pandas(rows)
    assert "__index_level_0__" in table.column_names
    expected = ["n", "price", "site=mail", "site=news", "site=shop"]
    assert names_of(table, target="click") == expected
    assert names_of(pl.DataFrame(table), target="click") == expected
    assert names_of(table.to_batches()[0], target="click") == expected


@pytest.mark.parametrize("target", [2, ("b", "click")])
def test_columns_named_by_numbers_and_tuples(target: Any) -> None:
    columns: Any = [0, 1, 2] if target == 2 else [("a", "x"), ("a", "y"), ("b", "click")]
    X = pd.DataFrame(FRAME[["price", "n", "click"]].to_numpy())
    X.columns = columns if target == 2 else pd.MultiIndex.from_tuples(columns)
    assert names_of(X, target=target) == [str(column) for column in columns[:2]]


COLUMNS = {
    "numbers": [0, 1, 2],
    "mixed": [0, "a", 2],
    "tuples": [("a", 1), ("a", 2), ("b", 3)],
}


@pytest.mark.parametrize("kind", COLUMNS)
def test_names_of_columns_that_are_not_texts(kind: str, caplog: pytest.LogCaptureFixture) -> None:
    """A model knows the columns of the frame that it has learnt, however it was given."""
    columns: Any = COLUMNS[kind]
    *features, target = columns
    X = FRAME[["price", "n", "click"]].copy()
    X.columns = pd.MultiIndex.from_tuples(columns) if kind == "tuples" else pd.Index(columns)
    models = [ElasticNetClassifier(lr=0.1) for _ in range(4)]
    progressive(models[0], X, target=target)
    progressive(models[1], [X], target=str(target) if kind == "numbers" else target)
    progressive(models[2], (X[features], X[target]))
    models[3].learn_many(X, target=str(target) if kind == "numbers" else target)
    assert {*models[0].weights} == {*features}
    assert all(model.weights == models[0].weights for model in models)
    assert caplog.text == "", "checks of the data know such names"


def test_ints_that_arrow_cannot_hold() -> None:
    message = r'^rows: column \'n\' holds ints beyond those of 64 bits: .* or ignore=\["n"\]$'
    for n in (2**63, 10**30):
        X = FRAME.assign(n=pd.Series([n] * N, dtype=object))
        with pytest.raises(SourceError, match=message):
            progressive(ElasticNetClassifier(), X, target="click")
    model = ElasticNetClassifier(lr=0.1)
    progressive(model, X, target="click", ignore=["n"])
    assert "price" in model.weights and "n" not in model.weights
    progressive(model, X, target="click", categorical=["n"])
    assert f"n={10**30}" in model.weights


@pytest.mark.parametrize(
    ("X", "y", "message"),
    [
        (np.ones(3), [1, 0, 1], r"^X has 1 dimension.* use X\.reshape\(-1, 1\)"),
        (np.ones((3, 1)), np.ones((3, 1)), r"must have the shape \(3,\).* labels\.ravel\(\)$"),
        (FRAME[["n"]], FRAME[["click"]], r"must have the shape \(60,\).* labels\.ravel\(\)$"),
        (np.ones((3, 1)), [1, 0], "^got 2 labels for 3 rows$"),
        (np.ones((3, 1)), iter([1, 0, 1]), "^labels must be an array, a series or a list, got"),
        (FRAME.n, FRAME.click, r"got a Series: .* X\.to_frame\(\)$"),
        (FRAME.to_records(), FRAME.click, r"^X is a structured array, .* pandas\.DataFrame\(X\)$"),
    ],
)
def test_arrays_of_another_shape(X: Any, y: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        progressive(ElasticNetClassifier(), (X, y))


def test_columns_and_structured_arrays_are_no_frames() -> None:
    model = ElasticNetClassifier()
    for X in (pl.Series(range(N)), pa.array(range(N)), pa.chunked_array([range(N)])):
        with pytest.raises(TypeError, match=r"^X is an? \w+; give a data frame, a scipy\.sparse"):
            model.learn_many(X, FRAME.click)
        with pytest.raises(TypeError, match=r"^X is an? \w+; give a data frame, a scipy\.sparse"):
            model.predict_many(X)
    with pytest.raises(
        TypeError, match=r"X is a structured array, .* give pandas\.DataFrame\(X\)$"
    ):
        model.learn_many(FRAME.to_records(), FRAME.click)
    with pytest.raises(TypeError, match=r"got a recarray: give pandas\.DataFrame\(X\)$"):
        model.learn_many(FRAME.to_records(), target="click")
    with pytest.raises(
        BadExample, match=r"must be a dict; give pandas\.DataFrame\(X\) of a struct"
    ):
        progressive(model, FRAME[["n", "click"]].to_records(), target="click")


class Row(NamedTuple):
    """A row as `itertuples` yields it."""

    n: int
    click: int


@dataclass
class Click:
    n: int
    click: int


@pytest.mark.parametrize(
    ("row", "remedy"),
    [
        (Row(1, 1), "it must be a dict, as from row._asdict()"),
        (Click(1, 1), "it must be a dict, as from dataclasses.asdict(row)"),
        ((1, 1), "it must be a dict"),
        ((1, pd.Series([1, 1], ["n", "click"])), "it must be a dict"),
        ("1,1", "it must be a dict"),
    ],
)
def test_rows_of_other_types(row: Any, remedy: str) -> None:
    rows = [row] if not isinstance(row, str) else iter([row])
    for learn in (
        lambda: ElasticNetClassifier().learn_many(rows, target="click"),
        lambda: progressive(ElasticNetClassifier(), iter([row]), target="click"),
    ):
        with pytest.raises(BadExample) as error:
            learn()
        assert str(error.value).endswith(f" is not an example: {remedy}")
        assert "\n" not in str(error.value)


def test_labels_in_the_place_of_their_column() -> None:
    for learn in (
        lambda: ElasticNetClassifier().learn_many(FRAME, target=FRAME.click),  # type: ignore[arg-type]
        lambda: progressive(ElasticNetClassifier(), FRAME, target=FRAME.click),
    ):
        with pytest.raises(TypeError, match="^target must be the name of a column, got a Series;"):
            learn()


def test_tracebacks_name_the_row_of_a_batch() -> None:
    with pytest.raises(BadExample) as error:
        ElasticNetClassifier().learn_many(FRAME.assign(click=[0, None] * 30), target="click")
    assert error.value.__notes__ == ["in row 1 of the batch, counted from 0"]


def test_categories_of_intervals_and_periods_are_named_as_in_csv() -> None:
    days = pd.Categorical(pd.period_range("2025-01-01", periods=3).repeat(N // 3))
    X = FRAME.assign(price=pd.cut(FRAME.price, [0, 1000, 3000]), day=days)[
        ["price", "day", "click"]
    ]
    assert names_of(X, target="click") == [
        "day=2025-01-01", "day=2025-01-02", "day=2025-01-03", "price=(0, 1000]",
        "price=(1000, 3000]",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("values", "texts"),
    [
        (pd.period_range("2025-01", periods=2, freq="M"), ["2025-01", "2025-02"]),
        (pd.arrays.IntervalArray.from_breaks([0, 1, 2]), ["(0, 1]", "(1, 2]"]),
        (pd.to_timedelta([1, 24], unit="h"), ["0 days 01:00:00", "1 days 00:00:00"]),
        (pd.Categorical(pd.to_timedelta([1, 24], unit="h")),
         ["0 days 01:00:00", "1 days 00:00:00"]),
        ([Decimal("1.50"), Decimal("2")], ["1.50", "2"]),
        ([True, "a"], ["True", "a"]),
        ([1.0, "a"], ["1", "a"]),
        ([2**70, None], [str(2**70)]),
        ([2**63, 1], ["1", str(2**63)]),
    ],
)  # fmt: skip
def test_categories_of_pandas_have_the_same_names_everywhere(values: Any, texts: list[str]) -> None:
    X = pd.DataFrame({"v": pd.Series(values, dtype=getattr(values, "dtype", object))})
    X["click"] = [1, 0]
    names = [f"v={text}" for text in texts]
    assert names_of(X, target="click", categorical=["v"]) == names


@pytest.mark.parametrize("kind", [pl.Int128, pl.UInt128])
@pytest.mark.parametrize("large", [2**70, 2**126])
def test_wide_ints_of_polars(kind: Any, large: int) -> None:
    X = pl.DataFrame({"n": pl.Series([3, large], dtype=kind), "click": [1, 0]})
    assert (
        names_of(X, target="click") == names_of(X.with_columns(l=[[1], [2]]), target="click")[-1:]
    )
    small = X.with_columns(pl.Series("n", [3, 2**70], dtype=kind))
    assert names_of(small, target="click", categorical=["n"]) == [f"n={2**70}", "n=3"]
    assert names_of(X, target="click", ignore=["n"]) == []


def test_objects_of_polars_are_categories_by_their_text() -> None:
    values = [UUID(int=1), UUID(int=2)]
    X = pl.DataFrame({"v": pl.Series(values, dtype=pl.Object), "click": [1, 0]})
    assert names_of(X, target="click", categorical=["v"]) == [f"v={value}" for value in values]
    with pytest.raises(SourceError, match=r'column \'v\' holds .*: use ignore=\["v"\]$'):
        progressive(ElasticNetClassifier(), X, target="click")


def test_errors_show_labels_as_python_does() -> None:
    for labels in ([0.5, 1.0], [2, 1]):
        with pytest.raises(BadExample, match=f"invalid label {labels[0]}: "):
            ElasticNetClassifier().learn_many(pl.DataFrame({"y": labels}), target="y")


DECIMALS = {
    pa.decimal128(38, 0): [2**60 + 1, 2**60 + 3], pa.decimal256(60, 2): ["1.50", "2.00"],
    pa.decimal64(18, 2): ["1.50", "2.00"], pa.decimal32(5, 0): ["1", "2"],
}  # fmt: skip


@pytest.mark.parametrize("kind", DECIMALS, ids=str)
def test_categories_keep_all_digits_of_decimals(kind: Any) -> None:
    """Databases write ids as decimals; as floats, two of them would be one category."""
    values = [Decimal(text) for text in DECIMALS[kind]]
    one = pa.array(values, kind)
    each = pa.array([[value] for value in values], pa.list_(kind))
    inside = pa.struct([("d", kind)])
    columns = {
        "d": one, "s": pa.StructArray.from_arrays([one], fields=list(inside)), "l": each,
        "m": pa.array([[{"d": value}] for value in values], pa.list_(inside)),
    }  # fmt: skip
    table = pa.table({**columns, "click": [1, 0]})
    expected = sorted(f"{name}={v}" for name in ("d", "s.d", "l", "m.0.d") for v in values)
    options: dict[str, Any] = {"target": "click", "categorical": ["d", "s.d", "l", "m"]}
    assert names_of(table, **options) == expected
    assert names_of(table.to_pylist(), **options) == expected
    feather.write_feather(table, "a.arrow")
    model = ElasticNetClassifier(lr=0.1)
    progressive(model, "a.arrow", **options)
    assert sorted(map(str, model.weights)) == expected
    assert "constant" not in run("inspect", "a.arrow").stdout


def test_rows_with_names_that_are_not_texts_without_kernels(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    X = pd.DataFrame({1: [2, 3], "site": ["news", "mail"], "click": [1, 0]})
    expected = names_of(X, target="click")
    monkeypatch.setattr("streaml1.sources.arrow.tables.COMPILED", False)
    assert names_of(X, target="click") == expected == ["1", "site=mail", "site=news"]


def test_sparse_columns_of_pandas() -> None:
    X = FRAME.assign(n=pd.arrays.SparseArray(FRAME.n))
    models = [ElasticNetClassifier(lr=0.1) for _ in range(2)]
    for model, rows in zip(models, (FRAME, X), strict=True):
        progressive(model, rows, target="click")
    assert models[0].weights == models[1].weights


def test_frames_that_arrow_cannot_hold_are_rejected_in_one_sentence() -> None:
    twice = pd.concat([FRAME, FRAME[["n"]]], axis=1)
    mixed = FRAME.assign(site=[k if k % 2 else "a" for k in range(N)])
    for X, reason in (
        (twice, "the frame has two columns 'n'; rename one of them"),
        (mixed, "Conversion failed for column site"),
    ):
        with pytest.raises(SourceError, match=reason) as error:
            progressive(ElasticNetClassifier(), X, target="click")
        assert "\n" not in str(error.value) and "(" not in str(error.value)
        assert ("several types" in str(error.value)) == (X is mixed)


# Parquet and Arrow


def test_all_unreadable_columns_are_named_at_once() -> None:
    day = pd.Timestamp("2025-01-01")
    X = FRAME.assign(day=day, raws=[[b"a"]] * N, hours=pd.Timedelta(1, "h"))
    X.to_parquet("a.parquet")
    assert error_of("learn", "a.parquet", "--target", "click") == (
        "a.parquet: columns 'day' (timestamp[us]), 'hours' (duration[us]) hold values of other "
        "types than numbers and text: use --ignore day,hours, or --categorical day,hours if few "
        "of them are different; column 'raws' holds values of the type list<element: binary>: use "
        "--ignore raws"
    )


def test_inspect_describes_parquet_and_arrow() -> None:
    X = FRAME.assign(
        day=pd.date_range("2025-01-01", periods=N), tags=[["a"]] * N, raw=[b"x"] * N,
        maybe=[None if k % 4 else 0.5 for k in range(N)], user=[f"u{k}" for k in range(N)],
        zip=[f"0{k % 5}" for k in range(N)],
    )  # fmt: skip
    X.to_parquet("a.parquet")
    X.to_feather("a.feather")
    for name in ("a.parquet", "a.feather"):
        out = run("inspect", name).stdout
        kinds = [line[8:].split()[:2] for line in out.splitlines()[1:11]]
        assert kinds == [
            ["site", "category"], ["price", "number"], ["n", "number"], ["click", "boolean"],
            ["day", "time-like"], ["tags", "array"], ["raw", "nested"], ["maybe", "constant"],
            ["user", "id-like"], ["zip", "category"],
        ]  # fmt: skip
        assert "75.0%" in out and "first 60 examples, 10 columns" in out
        command = suggested(name)
        assert command == [
            "learn", name, "--target", "click", "--ignore", "day,raw,user"
        ]  # fmt: skip
        assert "examples          60" in run(*command).stdout
    assert "no column 'c'" in error_of("inspect", "a.parquet", "--target", "c")


def test_empty_tables_and_arrow_streams() -> None:
    parquet.write_table(pa.table({"a": pa.array([], pa.int64())}), "a.parquet")
    assert "first 0 examples, 1 columns" in run("inspect", "a.parquet").stdout
    pl.DataFrame(FRAME).write_ipc_stream("a.arrow")
    for command in (["inspect", "a.arrow"], ["learn", "a.arrow", "--target", "click"]):
        assert error_of(*command).startswith("a.arrow is an Arrow stream")


# Directories


@pytest.mark.parametrize("suffix", ["csv", "json", "parquet"])
def test_inspect_shows_the_first_part_of_a_directory(suffix: str) -> None:
    Path("parts").mkdir()
    Path("parts/_SUCCESS").touch()
    Path("parts/.part-00000.crc").write_bytes(b"crc\0")
    for k in range(2):
        rows, name = FRAME.iloc[k * 30 : k * 30 + 30], f"parts/part-0000{k}.{suffix}"
        if suffix == "csv":
            rows.to_csv(name, index=False)
        elif suffix == "json":
            rows.to_json(name, orient="records", lines=True)
        else:
            rows.to_parquet(name)
    for source in ("parts", f"parts/*.{suffix}"):
        command = suggested(source)
        assert command[:4] == ["learn", source, "--target", "click"]
        assert "examples          60" in run(*command).stdout


def test_a_first_part_without_rows_decides_nothing() -> None:
    Path("parts").mkdir()
    Path("parts/part-0.csv").write_text(",".join(FRAME.columns) + "\n")
    FRAME.to_csv("parts/part-1.csv", index=False)
    result = run("learn", "parts", "--target", "click")
    assert "parts/part-1.csv: categories: site" in result.stderr


# Numbers and labels of CSV


@pytest.mark.parametrize(
    ("cell", "marks"),
    [
        ("1,234.5", {"thousands": ","}),
        ("-1,234,567", {"thousands": ","}),
        ("1.234.567,25", {"decimal": ",", "thousands": "."}),
        ("1.234.567", {"decimal": ",", "thousands": "."}),
        ("0,5", {"decimal": ","}),
        ("1 234,5", {"decimal": ",", "thousands": " "}),
        ("1\u202f234,5", {"decimal": ",", "thousands": "\u202f"}),
        ("1'234.5", {"thousands": "'"}),
        ("1,23,456", {"thousands": ","}),
        ("1,2,3", None),
        ("a,b", None),
        ("$1,234.5", {"thousands": ","}),
        ("-1.234,50 €", {"decimal": ",", "thousands": "."}),
        ("12,5 %", {"decimal": ","}),
        ("(1,234.50)", {"thousands": ","}),
        ("1.234,50-", {"decimal": ",", "thousands": "."}),
        ("12.5%", None),
        ("", None),
    ],
)
def test_marks_of_numbers(cell: str, marks: dict[str, str] | None) -> None:
    assert number_marks(cell) == marks
    if marks is not None:
        assert CellRules(**marks).number(cell) is not None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cell", "number"),
    [("12.5%", 12.5), ("-3 %", -3.0), ("$0.99", 0.99), ("-€ 5", -5.0), ("7 ₹", 7.0), ("$-2", -2.0),
     ("(873.49)", -873.49), ("( 5 )", -5.0), ("($0.99)", -0.99), ("$(7)", -7.0), ("(8 %)", -8.0),
     ("873.49-", -873.49), ("EUR 5", 5.0), ("-5 CHF", -5.0), ("(USD 7)", -7.0), ("R$ 5", 5.0),
     ("-US$5", -5.0), ("5 zł", 5.0), ("kr. 5", 5.0), ("SEK 5", 5.0), ("₩5", 5.0), ("5 руб.", 5.0),
     ("−5", -5.0), ("−$0.99", -0.99), ("€ −5", -5.0)],
)  # fmt: skip
def test_units_of_numbers(cell: str, number: float) -> None:
    assert CellRules().number(cell) == number


@pytest.mark.parametrize(
    "cell",
    ["%", "$", "5%%", "$5%", "-$-5", "$ a", "a%", "$nan", "5 $ 5", "()", "(a)", "(-5)", "-(5)",
     "((5))", "(5", "2-", "2026-", "-5.00-", "18-24", "a.50-",
     "EUR", "5EU", "EURO 5", "TOP 5", "5 C", "A 5", "zł", "5−3", "2−"],
)  # fmt: skip
def test_units_without_a_number(cell: str) -> None:
    assert not CellRules().is_number(cell)


@pytest.mark.parametrize("typed", [" ", "\u202f", "\u00a0"])
@pytest.mark.parametrize("written", ["1 234,5", "1\u202f234,5", "1\u00a0234,5", "1\u2009234,5"])
def test_blanks_in_numbers_are_alike(typed: str, written: str) -> None:
    """Keyboards have one of them, and programs write the others."""
    assert CellRules(decimal=",", thousands=typed).number(written) == 1234.5
    assert not CellRules(thousands=typed).is_number("12 34")
    assert CellRules(thousands="'").number("1’234") == 1234.0


@pytest.mark.parametrize(
    ("cells", "sentence"),
    [
        (["$5", "4 €"], "holds '$5' next to '4 €'"),
        (["12%", "0.2", "0"], "holds '12%' next to '0.2'"),
        (["12 %", "5 kr"], "holds '12 %' next to '5 kr'"),
        (["$5", "4", "0.5", "TRUE"], ""),
        (["5 kr", "7 kr.", "0"], ""),
        (["12%", "0", "0.0", "5 %", "NULL"], ""),
    ],
)
def test_numbers_in_several_units(cells: list[str], sentence: str) -> None:
    """They are read without their units, which would be compared."""
    rows = [f"{cell},{k % 2}" for k, cell in enumerate(cells * 3)]
    Path("a.csv").write_text("\n".join(["price,y", *rows]))
    found = run("learn", "a.csv", "--target", "y", "--lr", "0.1").stderr
    assert (sentence in found) if sentence else not found
    expected = f"column 'price' {sentence}: numbers are read without their units, so convert them "
    out = run("inspect", "a.csv").stdout
    assert (f"{expected}to one unit, or use --ignore price" in out) if sentence else (
        "holds" not in out
    )  # fmt: skip


def _european(price: float) -> str:
    return f"{price:,.2f}".translate({ord(","): ".", ord("."): ","})


@pytest.mark.parametrize(
    ("write", "separator", "options"),
    [
        (_european, ";", ["--delimiter", ";", "--decimal", ",", "--thousands", "."]),
        (lambda price: f"{price:,.2f}", ",", ["--thousands", ","]),
        (lambda price: str(price).replace(".", ","), "\t",
         ["--delimiter", "tab", "--decimal", ","]),
        (lambda price: f"${price:,.2f}", ",", ["--thousands", ","]),
        (lambda price: f"{_european(price)} €", ";",
         ["--delimiter", ";", "--decimal", ",", "--thousands", "."]),
        (lambda price: f"{price}%", ",", []),
    ],
)  # fmt: skip
def test_inspect_finds_how_numbers_are_written(
    write: Any, separator: str, options: list[str]
) -> None:
    FRAME.to_csv("plain.csv", index=False)
    FRAME.assign(price=FRAME.price.map(write)).to_csv("a.csv", index=False, sep=separator)
    command = suggested("a.csv")
    assert command[2 : 2 + len(options)] == options
    expected = run(*suggested("plain.csv"), "--save", "m").stdout
    assert run(*command, "--save", "m").stdout.splitlines()[3:] == expected.splitlines()[3:]


def test_negative_amounts_of_accounting_are_numbers() -> None:
    FRAME.assign(price=-FRAME.price).to_csv("plain.csv", index=False)
    FRAME.assign(price=FRAME.price.map("({:,.2f})".format)).to_csv("a.csv", index=False)
    run("learn", "plain.csv", "--target", "click", "--save", "plain.model")
    run("learn", "a.csv", "--target", "click", "--thousands", ",", "--save", "m")
    assert weights_in("m") == weights_in("plain.model")


def _grouped(price: float) -> str:
    return f"{int(price):,}".replace(",", ".")


@pytest.mark.parametrize(
    ("write", "hint"),
    [
        (lambda price: f"{price:,.2f}", "holds numbers such as '1,994.25': to read them, use "
                                        "--thousands ,"),
        (lambda price: str(price).replace(".", ","), "holds numbers such as '0,25': to read them, "
                                                     "use --decimal ,"),
        (_grouped, "holds '1.994' next to whole numbers below 1,000: if its point separates "
                   "thousands, use --decimal , --thousands ."),
        (lambda price: f"{price} kg", "holds numbers with a unit, such as '0.25 kg': to read them "
                                      "as numbers, remove 'kg'"),
        (lambda price: f"{price}kg", "holds numbers with a unit, such as '0.25kg': to read them "
                                     "as numbers, remove 'kg'"),
        (lambda price: f"{int(price)}A", None),
        (lambda price: f"{int(price) % 2} rooms", None),
        (lambda price: f"{price / 1000:.3f}", None),
        (lambda price: f"{price:.2f}", None),
    ],
)  # fmt: skip
def test_learn_and_inspect_name_the_marks_of_numbers(write: Any, hint: str | None) -> None:
    FRAME.assign(price=FRAME.price.map(write)).to_csv("a.csv", index=False)
    learnt = run("learn", "a.csv", "--target", "click")
    assert ("column 'price'" in learnt.stderr) == (hint is not None)
    if hint is not None:
        assert f"a.csv: column 'price' {hint}\n" in learnt.stderr
        options = shlex.split(hint.partition(", use ")[2])
    if hint is not None and options:
        assert "column 'price'" not in run("learn", "a.csv", "--target", "click", *options).stderr
    shown = run("inspect", "a.csv").stdout
    is_shown = hint is not None and (write is _grouped or "unit" in hint)
    assert ("column 'price'" in shown) == is_shown


def test_numbers_that_are_written_in_two_ways() -> None:
    mixed = FRAME.assign(price=FRAME.price.map(lambda price: str(price).replace(".", ",")))
    mixed.assign(n=FRAME.n / 4).to_csv("a.csv", index=False)
    sentence = "holds numbers such as '0,25', where 'n' has decimal points: write both alike"
    assert sentence in run("inspect", "a.csv").stdout
    assert sentence in run("learn", "a.csv", "--target", "click").stderr


def _in_two_ways(number: int) -> str:
    return f"{number},5" if number % 3 else f"{number}.5"


@pytest.mark.parametrize(
    ("prices", "options", "hint", "code"),
    [
        (
            [f"1.{k:03},5" for k in range(40)],
            ["--decimal", ","],
            "such as '1.000,5', which --decimal , does not read: use --decimal , --thousands .",
            0,
        ),
        (
            [f"1.{k:03},5" if k % 2 else f"1,{k:03}.5" for k in range(40)],
            ["--decimal", ",", "--thousands", "."],
            "such as '1,000.5', which --decimal , --thousands . does not read: write them alike",
            65,
        ),
        ([*map(_in_two_ways, range(40))], [], "such as '1,5' next to '0.5': write both alike", 0),
        (
            [*map(_in_two_ways, range(40))],
            ["--decimal", ","],
            "such as '0.5', which --decimal , does not read: write them alike",
            65,
        ),
        ([f"{k},5" for k in range(40)], ["--decimal", ","], None, 0),
        ([f"v1.{k}" for k in range(40)], ["--decimal", ","], None, 0),
    ],
)
def test_numbers_with_other_marks_than_the_given_ones(
    prices: list[str], options: list[str], hint: str | None, code: int
) -> None:
    table = pd.DataFrame({"price": prices, "click": [k % 2 for k in range(len(prices))]})
    table.to_csv("a.csv", index=False, sep=";")
    options = [*options, "--delimiter", ";"]
    shown = run("inspect", "a.csv", *options).stdout
    assert ("column 'price' holds numbers" in shown) == (hint is not None)
    if hint is not None:
        assert f"column 'price' holds numbers {hint}\n" in shown
        learnt = run("learn", "a.csv", "--target", "click", *options, code=code)
        assert f"a.csv: column 'price' holds numbers {hint}\n" in learnt.stderr


def test_the_error_of_a_number_with_other_marks() -> None:
    Path("a.csv").write_text("n;y\n1,5;1\n1.5;0\n")
    options = ["--delimiter", ";", "--decimal", ",", "--target", "y", "--categorical", ""]
    message = error_of("learn", "a.csv", *options, code=65)
    assert message.endswith("; if it is a number, write it with the marks of --decimal ,")


def test_the_error_of_a_number_names_its_marks() -> None:
    Path("a.csv").write_text('n,y\n"1,234.5",1\n')
    message = error_of("learn", "a.csv", "--target", "y", "--categorical", "", code=65)
    assert message.endswith("or --ignore n; if it is a number, use --thousands ,")


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (("0.0", "1.0"), []),
        (("-1", "1"), []),
        (("-1.0", "1.0"), []),
        (("1", "2"), ["--positive", "2"]),
    ],
)
def test_inspect_takes_labels_of_two_numbers_for_classes(
    labels: tuple[str, str], options: list[str]
) -> None:
    FRAME.assign(click=[labels[y] for y in FRAME.click]).to_csv("a.csv", index=False)
    rows = [dict(row, click=float(labels[row["click"]])) for row in FRAME.to_dict("records")]
    Path("a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    command = suggested("a.csv")
    assert command[2:4] == ["--target", "click"] and command[4:] == [
        *options, "--categorical", "site"
    ]  # fmt: skip
    assert "log-loss" in run(*command).stdout
    command = suggested("a.jsonl")
    assert command[4:5] == options[:1]
    assert "log-loss" in run(*command).stdout


# What inspect says about invalid lines


def test_inspect_says_why_lines_are_invalid() -> None:
    FRAME.to_csv("a.csv", index=False)
    with Path("a.csv").open("a") as file:
        file.write("# the end\n")
    out = run("inspect", "a.csv").stdout
    assert "all 60 examples, 4 columns, 1 invalid" in out
    assert "invalid: a.csv:62: the line has 1 cell (" in out
    Path("b.csv").write_text('a,y\n"x \\"y\\"",1\n')
    assert error_of("inspect", "b.csv").startswith("no record can be read: b.csv:2: not CSV:")
    Path("c.jsonl").write_text('{"a": NaN}\n')
    assert error_of("inspect", "c.jsonl") == (
        "c.jsonl has no JSON object in its first lines: line 1: NaN is not JSON: write null for a "
        "missing value"
    )


ROWS: list[dict[str, Any]] = [
    {"a": k + 0.50, "s": f'}} "[ {k}é', "n": {"t": ["b", "{"], "e": []}, "y": k % 2}
    for k in range(3)
]
LINES = [json.dumps(row) for row in ROWS]


JSON_FORMS = {
    "array": json.dumps(ROWS),
    "array with a line each": "[\n" + ",\n".join(LINES) + "\n]\n",
    "indented array": json.dumps(ROWS, indent=1),
    "indented objects": "\n".join(json.dumps(row, indent=1) for row in ROWS),
    "no space": "".join(LINES),
    "a blank": " ".join(LINES),
    "commas": ",\n".join(LINES),
    "record separators": "".join(f"\x1e{line}\n" for line in LINES),
    "byte order mark": "\ufeff" + json.dumps(ROWS),
    "two arrays": json.dumps(ROWS[:2]) + json.dumps(ROWS[2:]),
}


@pytest.mark.parametrize("form", JSON_FORMS)
def test_json_that_is_not_json_lines(form: str) -> None:
    Path("a.json").write_text(JSON_FORMS[form])
    Path("b.jsonl").write_text("\n".join(LINES))
    printed = [run("inspect", name).stdout for name in ("a.json", "b.jsonl")]
    assert printed[0].replace("a.json", "b.jsonl") == printed[1]
    models = [ElasticNetClassifier(lr=0.1) for _ in range(2)]
    for model, name in zip(models, ("a.json", "b.jsonl"), strict=True):
        progressive(model, name, target="y", categorical=["s"])
    assert models[0].weights == models[1].weights != {}


def test_braces_in_texts_are_no_second_object() -> None:
    Path("a.jsonl").write_text('{"a": "x} {y", "y": 1}\n' * 3)
    assert "examples          3" in run("learn", "a.jsonl", "--target", "y").stdout


# CSV of other programs


CSV = FRAME.to_csv(index=False)


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("separator", [";", ",", "|"])
@pytest.mark.parametrize("quote", ["", '"'])
def test_the_first_line_of_excel_names_the_delimiter(mark: str, separator: str, quote: str) -> None:
    table = FRAME.to_csv(index=False, sep=separator, lineterminator="\r\n")
    Path("a.csv").write_text(f"{mark}{quote}sep={separator}{quote}\r\n{table}", newline="")
    Path("b.csv").write_text(table, newline="")
    learn = ["--target", "click", "--categorical", "site", "--delimiter", separator, "--lr", "0.1"]
    reports = [run("learn", name, *learn).stdout.partition("examples  ")[2] for name in
               ("a.csv", "b.csv")]  # fmt: skip
    assert reports[0] == reports[1]
    assert "examples          60" in run(*suggested("a.csv")).stdout
    if separator != ",":
        assert error_of("learn", "a.csv", "--target", "click", "--categorical", "") == (
            f"a.csv:1: the line says that {separator!r} separates the cells: use --delimiter "
            f"{shlex.quote(separator)}"
        )
    message = error_of("learn", "a.csv", *learn, "--positive", "x", "--ignore", "k")
    assert message.startswith("a.csv has no column 'k'")


def test_places_and_checkpoints_after_the_line_of_the_delimiter() -> None:
    Path("a.csv").write_text("sep=,\n" + CSV + "news,1\n")
    learn = ["learn", "a.csv", "--target", "click", "--categorical", "site", "--lr", "0.1"]
    assert error_of(*learn, code=65).startswith("a.csv:63: the line has 2 cells")
    run(*learn, "--limit", "40", "--checkpoint", "kept")
    Path("a.csv").write_text("sep=,\n" + CSV)
    run(*learn, "--checkpoint", "kept", "--save", "resumed.model")
    run(*learn, "--save", "whole.model")
    assert weights_in("resumed.model") == weights_in("whole.model")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Report of 2025\n\n" + CSV,
         "a.csv:1: the line has 1 cell ('Report of 2025'), but those below have 4: remove the "
         "lines above the names of the columns"),
        ("# exported\n" + CSV,
         "a.csv:1: the line has 1 cell ('# exported'), but those below have 4: remove the lines "
         "above the names of the columns"),
        ("Report of 2025\n\nMade on,Monday\n\n" + CSV,
         "a.csv:1: the line has 1 cell ('Report of 2025'), but those below have 4: remove the "
         "lines above the names of the columns"),
        ("Made on,Monday\n" + CSV,
         "a.csv:1: the line has 2 cells ('Made on'), but those below have 4: remove the "
         "lines above the names of the columns"),
        ("page,,numbers,\n" + CSV,
         "a.csv:1: the line names 2 of 4 columns, but one below has words for each (site, price, "
         "n, ...): if these are the names, remove the lines above them"),
        ("Report of 2025,,,\n" + CSV,
         "a.csv:1: all cells of the line but one are empty ('Report of 2025'): remove the lines "
         "above the names of the columns"),
        (CSV.replace("\n", "\r"),
         "a.csv:1: invalid header: not CSV: new-line character seen in unquoted field; if lines "
         r"end in CR only, convert them, as with tr '\r' '\n'"),
        (CSV.replace("click", " click "),
         "a.csv has no column 'click' (did you mean ' click '?); the columns are: site, price, n, "
         " click "),
        ("<!DOCTYPE html>\n<html></html>\n",
         "a.csv is an HTML page, not text; download the file itself, not a page about it"),
        ("\n<html>\n", "a.csv is an HTML page, not text; download the file itself, not a page "
         "about it"),
        ('<?xml version="1.0"?>\n', "a.csv is an XML file, not text; export it as CSV or JSON "
         "lines first"),
        ("<table border=1><tr><td>site</td></tr></table>\n",
         "a.csv is an HTML table, not text; save it as CSV, as with pandas.read_html"),
        ("<Error><Code>AccessDenied</Code></Error>",
         "a.csv is a message of a server about an error, not text; download the file again"),
        ("%PDF-1.7\n%\n1 0 obj\n", "a.csv is a PDF document, not text; export its tables as CSV"),
        ("RDX3\nX\n", "a.csv is a file of R, not text; export it as CSV, as with write.csv(x, "
         "file, row.names = FALSE)"),
        ("BM\x00\x00\n", "a.csv is a binary file, not text; export it as CSV or "
         "JSON lines first"),
        ("site,cli\x00ck\nnews,1\n", "a.csv is text with zero bytes, not plain text; remove them "
         "first, as with tr -d '\\000'"),
        ("\x01site,cli\x00ck\nnews,1\n", "a.csv is a binary file, not text; export it as CSV or "
         "JSON lines first"),
        ('{"site": "news", "click": 1}\n',
         "a.csv: its first line is not CSV: use --format jsonl; run streaml1 learn a.csv --target "
         "click --categorical '' --format jsonl"),
        ('[\n {"site": "news", "click": 1}\n]',
         "a.csv: its first line is not CSV: use --format jsonl; run streaml1 learn a.csv --target "
         "click --categorical '' --format jsonl"),
        ("1 1:2 2:0.5\n", "a.csv: its first line is not CSV: use --format svmlight; run streaml1 "
         "learn a.csv --target click --categorical '' --format svmlight"),
        ("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n",
         "a.csv is a pointer of Git LFS, not text; fetch the file, as with git lfs pull"),
    ],
)  # fmt: skip
def test_files_that_are_no_table(text: str, message: str) -> None:
    Path("a.csv").write_text(text, newline="")
    assert error_of("learn", "a.csv", "--target", "click", "--categorical", "") == message
    if "not text" in message or "not CSV" in message:
        assert error_of("inspect", "a.csv").split(";")[0] == message.split(";")[0]
    if "not text" in message:
        within = f"a.data.gz is {message.removeprefix('a.csv is ')}"
        Path("a.data.gz").write_bytes(gzip.compress(Path("a.csv").read_bytes()))
        message = error_of("learn", "a.data.gz")
        assert message.replace(" compressed by gzip", "") == within


def test_the_first_line_of_a_compressed_file_without_a_known_suffix() -> None:
    Path("a.data.gz").write_bytes(gzip.compress(CSV.encode()))
    assert "its first line looks like --format csv" in error_of("learn", "a.data.gz")


@pytest.mark.parametrize(
    ("name", "line", "hint"),
    [
        ("a.jsonl", "site,click", "CSV, use --format csv"),
        ("a.json", "1 1:2", "svmlight, use --format svmlight"),
        ("a.vw", "1 1:2", "svmlight, use --format svmlight"),
        ("a.vw", '{"click": 1}', "JSON lines, use --format jsonl"),
        ("a.svm", '{"click": 1}', "JSON lines, use --format jsonl"),
        ("a.svm", "1 |site a", "Vowpal Wabbit text, use --format vw"),
        ("a.svm", "1 'tag |site a", "Vowpal Wabbit text, use --format vw"),
    ],
)
def test_files_with_the_suffix_of_another_format(name: str, line: str, hint: str) -> None:
    Path(name).write_text(f"{line}\n")
    target = ["--target", "click"] if name.startswith("a.js") else []
    assert error_of("learn", name, *target, code=65).endswith(f"; if this is {hint}")


@pytest.mark.parametrize("cut", [-20, -3])
def test_damage_within_the_first_rows(cut: int) -> None:
    """Columns of words are categories, as if the file ended there."""
    Path("a.csv.gz").write_bytes(gzip.compress(CSV.encode())[:cut])
    learn = ["learn", "a.csv.gz", "--target", "click"]
    message = run(*learn, code=65).stderr.splitlines()[-1]
    assert "the file cannot be read from here on" in message
    assert "site" not in message


def test_mails_have_a_remedy() -> None:
    for name in ("inbox.mbox", "1.eml"):
        Path(name).write_text("From ann@example.org\nSubject: lunch\n\nSee you\n")
        for command in ("learn", "inspect"):
            message = error_of(command, name)
            assert message.startswith(f"{name} holds mails; write them as JSON lines")


def test_names_that_are_too_long() -> None:
    assert error_of("learn", "x" * 300 + ".csv").endswith(" cannot be read: File name too long")


@pytest.mark.parametrize(
    "title", ["Report of 2025,,,", "page,,numbers,", "Report\n\nMade on,Monday"]
)
def test_inspect_rejects_titles(title: str) -> None:
    Path("a.csv").write_text(f"{title}\n{CSV}")
    assert "remove the lines above" in error_of("inspect", "a.csv")


WIDE = {"a.csv": CSV, "a.jsonl": LINES[0] + "\n", "a.vw": "1 | a b c d e\n",
        "a.svm": "1 1:1 2:0.5 3:1\n"}  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", WIDE)
def test_utf_16_without_a_mark(name: str, encoding: str) -> None:
    Path(name).write_bytes(WIDE[name].encode(encoding))
    target = ["--target", "click"] if name in ("a.csv", "a.jsonl") else []
    for command in (["learn", name, *target], ["inspect", name]):
        assert error_of(*command) == (
            f"{name} is encoded in UTF-16, not text; convert it to UTF-8 first, as with iconv "
            f"-f {'UTF-16LE' if encoding == 'utf-16-le' else 'UTF-16BE'} -t UTF-8"
        )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("name", WIDE)
def test_utf_16_with_a_mark(name: str, encoding: str) -> None:
    """Excel, SQL Server and PowerShell write it."""
    target = {"a.csv": ["--target", "click"], "a.jsonl": ["--target", "y"]}.get(name, [])
    found = []
    for mark, code in (("", "utf-8"), ("\ufeff", encoding)):
        Path(name).write_bytes((mark + WIDE[name].replace("\n", "\r\n")).encode(code))
        run("learn", name, *target, "--lr", "0.1", "--save", "a.model")
        found.append((weights_in("a.model"), run("inspect", name).stdout))
    assert found[0] == found[1]


def test_backslashes_before_quotes() -> None:
    Path("a.csv").write_text('text,click\n"say \\"hi\\"",1\n')
    message = error_of("learn", "a.csv", "--target", "click", "--categorical", "text", code=65)
    assert message.endswith(r'; if \" stands for a quote, export the file with "" instead')


@pytest.mark.parametrize(
    "words", [["<NA>"], ["#N/A", "#DIV/0!"], ["-nan", "1.#QNAN", "n/a", "NaT"]]
)
def test_inspect_knows_missing_numbers_of_other_programs(words: list[str]) -> None:
    cells = [words[k % len(words)] if k % 3 else price for k, price in enumerate(FRAME.price)]
    FRAME.assign(price=cells).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    listed = command[command.index("--missing") + 1].split(",")
    assert {*words} - {"n/a", "NaT"} <= {*listed}
    assert "price" in run("show", _saved(command)).stdout


def _saved(command: list[str]) -> str:
    run(*command, "--save", "a.model")
    return "a.model"


# Directories


def test_columns_in_names_of_directories_are_reported() -> None:
    for site, rows in FRAME.groupby("site"):
        Path(f"hive/site={site}/year=2025").mkdir(parents=True)
        rows.drop(columns="site").to_csv(f"hive/site={site}/year=2025/part-0.csv", index=False)
        Path(f"hive/site={site}/year=2025/part-0.svm").write_text("1 1:1\n0 2:1\n")
    learn = ["--target", "click", "--lr", "0.1", "--passes", "2"]
    for spec in ("hive/*/*/*.csv", "hive/site=news/*/*.csv"):
        stderr = run("learn", spec, *learn).stderr
        columns = f"{spec} (names of directories): categories: site; numbers: year\n"
        assert stderr.count(columns) == 1
        assert "not read" not in stderr
    stderr = run("learn", "hive/*/*/*.svm", *learn[2:]).stderr
    assert stderr.count("hive/*/*/*.svm: names of directories hold values of site, such as ") == 1
    assert "not read" not in run("learn", "hive/site=news/*/*.svm", *learn[2:]).stderr


# JSON in envelopes


def test_envelopes_with_tombstones_and_text() -> None:
    rows = [{"site": "news", "n": k, "click": k % 2} for k in range(8)]
    plain = "".join(json.dumps(row) + "\n" for row in rows)
    objects = "null\n".join(json.dumps({"payload": {"after": row}}) + "\n" for row in rows)
    texts = "".join(json.dumps({"payload": {"after": json.dumps(row)}}) + "\n" for row in rows)
    weights = []
    for text, at in ((plain, []), (objects, ["payload.after"]), (texts, ["payload.after"])):
        Path("a.jsonl").write_text(text)
        option = ["--at", *at] if at else []
        result = run("learn", "a.jsonl", *option, "--target", "click", "--save", "a.model")
        assert "examples          8" in result.stdout
        weights.append(weights_in("a.model"))
    assert weights[0] == weights[1] == weights[2]
    Path("a.jsonl").write_text('{"v": "{\\"a\\": }"}\n')
    learn = ["learn", "a.jsonl", "--at", "v", "--target", "y"]
    assert "the text at 'v' is not JSON: Expecting value" in error_of(*learn, code=65)
    Path("a.jsonl").write_text('{"v": "text"}\n')
    assert "'text' at 'v' is not an object" in error_of(*learn, code=65)
    Path("a.jsonl").write_text("null\n")
    message = error_of("learn", "a.jsonl", "--target", "y", code=65)
    assert message.startswith("a.jsonl:1: null is not an example: it must be an object of features")


# svmlight and names of files


def test_libffm_and_several_labels() -> None:
    Path("a.svm").write_text("1 0:8:1 1:12:0.5\n")
    assert error_of("learn", "a.svm", code=65) == (
        "a.svm:1: feature 0: '8:1' is not a number; if this is LibFFM's field:id:value, remove the "
        r"fields, as with sed -E 's/ [0-9]+:([0-9]+:)/ \1/g'"
    )
    Path("a.svm").write_text("0,2 1:1\n")
    assert error_of("learn", "a.svm", code=65) == (
        "a.svm:1: label: '0,2' is not a number: several labels need one line for each"
    )
    Path("a.svm").write_text("site,click\nnews,1\n")
    assert error_of("learn", "a.svm", code=65) == (
        "a.svm:1: label: 'site,click' is not a number: if this is CSV, use --format csv"
    )


def test_options_of_csv_are_named_as_the_command_line_does() -> None:
    Path("a.jsonl").write_text('{"y": 1}\n')
    assert error_of("learn", "a.jsonl", "--target", "y", "--columns", "y,n") == (
        "column options (such as --columns) apply to CSV files only, not to a.jsonl (jsonl)"
    )


def test_links_to_missing_files() -> None:
    Path("a.csv").symlink_to("gone.csv")
    assert error_of("learn", "a.csv", "--target", "y") == (
        "a.csv is a link to gone.csv, which does not exist"
    )


def test_names_of_files() -> None:
    Path("a.libsvm").write_text("1 1:2\n-1 2:1\n" * 3)
    assert "examples          6" in run("learn", "a.libsvm").stdout
    Path("a.xlsx").write_bytes(b"PK\x03\x04" + bytes(30))
    assert error_of("learn", "a.xlsx").startswith("a.xlsx is a zip archive (or an Excel workbook)")
    Path("a.txt").write_text("1 1:2\n")
    assert error_of("learn", "a.txt").startswith("cannot infer the format of a.txt")


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("site\tclick", "--format tsv --target COLUMN"),
        ("site,click", "--format csv --target COLUMN"),
        ("site|click", "--format csv --delimiter '|' --target COLUMN"),
        ("-1 3:0.5 7:1 # x", "--format svmlight"),
        ("1 2.0 'tag |site a b", "--format vw"),
        ("| a b", "--format vw"),
        ('{"site": "a", "y": 1}', "--format jsonl"),
    ],
)
def test_the_first_line_of_a_file_without_a_known_suffix(line: str, options: str) -> None:
    Path("a.txt").write_text(f"{line}\n")
    message = error_of("learn", "a.txt")
    assert message.endswith(f"; run streaml1 learn a.txt {options}")
    Path("a.txt").write_text("word\n")
    assert error_of("learn", "a.txt").endswith("csv, tsv or avro")


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (["stayed", "churned"], None),
        (["stayed", "stayed"], None),  # the positive label may be rare
        (["stayed", "churned", "Total"], "labels other than 'churned' are read as False: 'stayed', "
                                         "'Total'"),
        (["1", "2"], "none of the first labels is 'churned', so all are False: '1', '2'"),
        ([str(k) for k in range(10)], "none of the first labels is 'churned', so all are False: "
         "'0', '1', '2', '3', '4', '5', '6', '7' and 2 more"),
    ],
)  # fmt: skip
def test_labels_that_positive_reads_as_false(labels: list[str], sentence: str | None) -> None:
    words = [labels[k % len(labels)] for k in range(N)]
    FRAME.assign(click=words).to_csv("a.csv", index=False)
    for target in ("click", "3"):
        stderr = run("learn", "a.csv", "--target", target, "--positive", "churned").stderr
        assert ("a.csv: column 'click': " in stderr) == (sentence is not None)
        assert sentence is None or f"a.csv: column 'click': {sentence}\n" in stderr


@pytest.mark.parametrize(
    ("name", "write", "what"),
    [
        ("a.csv", lambda name: FRAME.drop(columns="click").to_csv(name), "column"),
        ("a.jsonl", lambda name: FRAME.drop(columns="click").to_json(
            name, orient="records", lines=True), "member"),
        ("a.parquet", lambda name: FRAME.drop(columns="click").to_parquet(name), "column"),
    ],
)  # fmt: skip
def test_no_column_is_clearly_the_label(name: str, write: Any, what: str) -> None:
    write(name)
    sentence = f"no {what} is clearly the label: name it, as in streaml1 inspect {name} --target"
    assert f"{sentence} {what.upper()}\n" in run("inspect", name).stdout
    assert sentence not in run("inspect", name, "--target", "site").stdout


def test_the_label_may_be_missing_in_some_rows() -> None:
    words = FRAME.click.map({0: "stayed", 1: "churned"}).where(FRAME.index % 9 > 0)
    FRAME.assign(click=words).rename(columns={"click": "status"}).to_csv("a.csv", index=False)
    command = suggested("a.csv")
    assert command[2:6] == ["--target", "status", "--positive", "churned"]
    assert "examples          53" in run(*command).stdout


# Values of dicts


class _Site(str, enum.Enum):  # noqa: UP042 (a StrEnum formats its text already)
    NEWS = "news"


def test_a_text_enum_is_its_text() -> None:
    rows: list[dict[str, Any]] = [{"site": _Site.NEWS, "n": 1.0}, {"site": "news", "n": 1.0}]
    models = [ElasticNetClassifier(lr=0.1, cross=[("site", "n")]) for _ in rows]
    for model, x in zip(models, rows, strict=True):
        model.learn_one(x, 1)
        model.learn_many([x, x], [1, 0])
        assert model.predict_one(rows[1]) is True
    assert models[0].weights == models[1].weights
    assert "site=news" in models[0].weights
