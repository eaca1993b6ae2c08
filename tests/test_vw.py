"""Vowpal Wabbit text: parsing of valid lines and error messages of invalid ones."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import open_source
from streaml1.sources.readers.vw import parse_vw
from tests.test_sources import Rejections, lines_of, rows_of


@pytest.mark.parametrize(
    ("line", "row"),
    [
        ("1 |a b", ({"a^b": 1.0}, 1.0, 1.0)),
        ("-1 | b c:2", ({"b": 1.0, "c": 2.0}, -1.0, 1.0)),
        ("0 2.5 'tag|a:2 b:3 c |d:0.5 e", ({"a^b": 6.0, "a^c": 2.0, "d^e": 0.5}, 0.0, 2.5, "tag")),
        ("1 1 tag|a b", ({"a^b": 1.0}, 1.0, 1.0, "tag")),
        ("1 'tag |a b", ({"a^b": 1.0}, 1.0, 1.0, "tag")),
        ("1 '|a b", ({"a^b": 1.0}, 1.0, 1.0)),
        ("1 0 |a b", ({"a^b": 1.0}, 1.0, 0.0)),
        ("0.25 |a b\tc:-1e-2 \r\n", ({"a^b": 1.0, "a^c": -0.01}, 0.25, 1.0)),
        ("  1  |  b", ({"b": 1.0}, 1.0, 1.0)),
        ("\t1 2\t|a b", ({"a^b": 1.0}, 1.0, 2.0)),
        ("1\t'tag|a b", ({"a^b": 1.0}, 1.0, 1.0, "tag")),
        ("1 |a", ({}, 1.0, 1.0)),
        ("1 |", ({}, 1.0, 1.0)),
        ("1 || |a", ({}, 1.0, 1.0)),
        ("1 |a b|c d|a e", ({"a^b": 1.0, "c^d": 1.0, "a^e": 1.0}, 1.0, 1.0)),
        ("1 |a b b:0.5 |a:2 b", ({"a^b": 3.5}, 1.0, 1.0)),
        ("1 |a b:1 b:-1", ({"a^b": 0.0}, 1.0, 1.0)),
        ("1 |a^b c |a b^c", ({"a^b^c": 2.0}, 1.0, 1.0)),
        ("sports 2 |ü é=ß", ({"ü^é=ß": 1.0}, "sports", 2.0)),
        ("1 |a 3:4 x#y", ({"a^3": 4.0, "a^x#y": 1.0}, 1.0, 1.0)),
        ("1 | a\u00a0b", ({"a\u00a0b": 1.0}, 1.0, 1.0)),
        ("1 |f color:red b", ({"f^color=red": 1.0, "f^b": 1.0}, 1.0, 1.0)),
        ("1 |f:2 color:red color=red |g ü:é", ({"f^color=red": 4.0, "g^ü=é": 1.0}, 1.0, 1.0)),
        ("07.0 | a", ({"a": 1.0}, 7.0, 1.0)),
    ],
)
def test_valid_lines(line, row):
    parsed = parse_vw(line)
    assert parsed == row
    assert parsed is not None and list(parsed[0]) == list(row[0])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("1", "'1' has no bar: it must be label |name:value name:value"),
        (
            "1|a b",
            "the line has no label: '1' is read as its tag, because no blank separates it from",
        ),
        ("|a b", "the line has no label: it must begin with one, as in 1 |name:value"),
        ("'tag|a b", "the line has no label: it must begin with one"),
        ("1 1 0.5 |a b", "'0.5' before the bar is an initial prediction: only label, importance"),
        ("1 1 0.5 |a b", "make it a feature and use offset="),
        ("1 1 0 2 |a b", "'0' before the bar is unexpected: only label"),
        ("1 -1 |a b", "weight must be a number >= 0, got '-1'"),
        (
            "1 a |a b",
            "weight must be a number >= 0, got 'a'; if it is the tag, write an apostrophe",
        ),
        ("slates shared 0.8 |a b", "label 'slates' marks a line of contextual bandits"),
        ("nan |a b", "label: 'nan' is not finite"),
        ("1:0.5:0.1 |a b", "label '1:0.5:0.1' has a colon: labels with costs or probabilities"),
        ("1 |:2 b", "':2' after the bar has no name: it must be namespace:value"),
        ("1 |a:x b", "namespace 'a': 'x' is not a number: remove it with its colon, or write a"),
        ("1 |a: b", "namespace 'a': '' is not a number: remove it with its colon, or write a bl"),
        ("1 2 tag |a b", "'tag' before the bar is not a number: if it is the tag, write an apos"),
        ("1 |a :2", "':2' has no name: it must be name:value"),
        ("1 |a b:", "feature 'a^b': '' is not a number: write its value after the colon, or"),
        ("1 | a:1.5.2", "feature 'a': '1.5.2' is not a number: write a=1.5.2 if it is a category"),
        ("1 |a http://x.org/b", "'//x.org/b' is not a number: colons separate names from values"),
        ("1 | b:red:1", "feature 'b': 'red:1' is not a number: colons separate names from values"),
        ("1 | b:NaN", "feature 'b': 'NaN' is not finite: leave the feature out if its value is"),
        ("1 | b:NULL", "feature 'b': 'NULL' is not a number: leave the feature out if its value"),
        ("1,2 | a", "label '1,2' has a comma: several labels are not supported"),
        ("shared | a", "label 'shared' marks a line of contextual bandits"),
        ("1 |a b:1:2", "feature 'a^b': '1:2' is not a number"),
        ("1 |a b:1,5", "feature 'a^b': '1,5' is not a number: write b=1,5 if it is a category"),
        ("1 2 'a b|c d", '"\'a" before the bar begins as a tag does, and is not the last word'),
        ("'a 1 |c d", '"\'a" before the bar begins as a tag does, and is not the last word'),
        (
            "7\t1 |a b",
            "a tab separates '7' from '1' before the bar, and vw reads the label after a tab: "
            "write a space, or remove '7'",
        ),
        ("key \t 1 2.5 'tag|a b", "a tab separates 'key' from '1' before the bar"),
        ("1 |a b:inf", "feature 'a^b': 'inf' is not finite"),
        ("1 |a:1e200 b:1e200", "the value of feature 'a^b' overflows to infinity"),
        ("1 |a b:1e308 b:1e308", "the value of feature 'a^b' overflows to infinity"),
    ],
)
def test_invalid_lines_are_rejected(line, reason):
    with pytest.raises(ValueError) as error:
        parse_vw(line)
    assert reason in str(error.value)
    assert len(str(error.value)) < 150 and "\n" not in str(error.value)


def test_labels_are_optional():
    assert parse_vw("|a b", require_label=False) == ({"a^b": 1.0}, None, 1.0)
    assert parse_vw("1|a b", require_label=False) == ({"a^b": 1.0}, None, 1.0, "1")
    assert parse_vw("1 |a b", require_label=False) == ({"a^b": 1.0}, 1.0, 1.0)


def test_file_with_invalid_lines(tmp_path: Path):
    path = tmp_path / "a.vw"
    path.write_bytes(b"\xef\xbb\xbf1 |a b\r\n\n0 2 |a c:2\n \t\n1 | \xff\nspam\n0 | d")
    rejected = Rejections()
    assert lines_of(open_source(path), rejected) == [1, 3, 7]
    assert [place.rpartition(":")[2] for place, _ in rejected] == ["5", "6"]
    assert rejected[0][1] == (
        "byte 0xff at column 5 is not UTF-8: convert the file to UTF-8, as with iconv "
        "-f WINDOWS-1252 -t UTF-8 if Excel wrote it"
    )
    rows = rows_of(open_source(path), reject=rejected)
    assert rows[:2] == [({"a^b": 1.0}, 1.0, 1.0), ({"a^c": 2.0}, 0.0, 2.0)]


feature_names = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=" \t\r\n:|"), min_size=1, max_size=6
)
finite_floats = st.floats(allow_nan=False, allow_infinity=False)


@given(
    finite_floats,
    st.floats(0, 1e300),
    st.dictionaries(feature_names, st.dictionaries(feature_names, finite_floats)),
)
def test_round_trip(y, w, spaces):
    namespaces = "".join(
        f"|{space} {' '.join(f'{name}:{value}' for name, value in x.items())}"
        for space, x in spaces.items()
    )
    summed: dict[str, float] = {}
    for space, x in spaces.items():
        for name, value in x.items():
            summed[f"{space}^{name}"] = summed.get(f"{space}^{name}", 0.0) + value
    if namespaces and all(abs(value) < 1e307 for value in summed.values()):
        assert parse_vw(f"{y} {w} {namespaces}") == (summed, y, w)
