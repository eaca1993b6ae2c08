"""Compare the compiled text parsers with the pure Python parsers on mutated input.

`STREAML1_FUZZ=1000000` sets the number of mutated lines per format (default: 2500).
"""

from __future__ import annotations

import copy
import gzip
import json
import os
import pickle
import struct
import tempfile
from collections.abc import Callable
from functools import cache
from itertools import product
from pathlib import Path
from random import Random
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from river import preprocessing

import streaml1
from streaml1.core.hashing import name_hash
from streaml1.core.jit import COMPILED
from streaml1.sources import open_source
from streaml1.sources.readers import chunks
from streaml1.sources.readers.csv import CsvParser
from streaml1.sources.readers.csv_cells import CellRules
from streaml1.sources.readers.csv_header import RequestedRoles, Roles
from streaml1.sources.readers.csv_schema import Columns, Records, SkippedRecord, TextLines
from streaml1.sources.readers.flat_json import JsonRoles
from streaml1.sources.readers.flat_json_parser import FlatJsonParser
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.jsonl import parse_json
from streaml1.sources.readers.named_lines import flatten_features
from streaml1.sources.readers.parsed_lines import (
    BytesLineParser,
    LineParser,
    ParsedChunk,
    pad_text,
)
from streaml1.sources.readers.svmlight import parse_svmlight
from streaml1.sources.readers.vw import parse_vw
from streaml1.text import numbers, structural_index
from streaml1.text.parsed_rows import IntRows, NamedRows
from streaml1.training import predictions
from tests.test_sources import Rejections, rows_of

FUZZ = int(os.environ.get("STREAML1_FUZZ", "2500"))

compiled = pytest.mark.skipif(not COMPILED, reason="raw memory is read by compiled code only")


def bits(v: float | None) -> bytes | None:
    return None if v is None else struct.pack("<d", v)


# Numbers


def parse_number(text: bytes, parse: Any = numbers.parse_number) -> float:
    buffer, lo, hi, _ = pad_text(text)
    start = buffer.ctypes.data
    ends = (np.uint64(start + lo), np.uint64(start + hi - 1))
    return float(parse(*ends, numbers.POWERS))


def matches_float(text: str, parse: Any = numbers.parse_number) -> bool:
    """Check that the kernel declines the number or returns the same bits as `float`."""
    parsed = parse_number(text.encode() + b"\n", parse)
    return parsed != parsed or bits(parsed) == bits(float(text))


EDGES = [
    *("0", "-0", "0.0", "-0.000", "1", "+1", "1.", ".5", "-.5e1", "9" * 19, "0" * 40 + "1"),
    *("9007199254740993", "9007199254740992.5", "1e22", "1e23", "8.5e-23", "123456789012345678e-9"),
    *("2.2250738585072014e-308", "1.7976931348623157e308", "5e-324", "1e400", "1e-400", "0e999"),
    *("4503599627370497.5", "4503599627370496.5", "9007199254740991.49999999999999999999"),
    *("0.1234567890123456789", "0.0000000000000000000012345678", "7.000000000000000000"),
    *(
        "18446744073709551616",
        "-92233720368547758080",
        "1844674407370955161600",
        "1.8446744073709551616",
    ),
]


@compiled
@pytest.mark.parametrize("text", EDGES)
def test_edge_cases_of_number_parsing(text: str) -> None:
    assert matches_float(text) and matches_float(text, numbers.parse_number_long)


@compiled
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["%r", "%.17g", "%.3f", "%.6g", "%.17e", "%+.9f", "%.24f", "%g"]),
)
def test_parsed_floats_are_bit_identical(v: float, form: str) -> None:
    assert matches_float(form % v) and matches_float(form % v, numbers.parse_number_long)


@compiled
@given(st.integers(0, 2**64 - 1), st.integers(-330, 320))
def test_integer_digits_with_any_exponent(m: int, power: int) -> None:
    text = f"{m}e{power}"
    assert matches_float(text)
    if m and abs(power) < 200 and len(str(m)) <= 19:
        assert parse_number(text.encode() + b"\n") == float(text), "the kernel must not decline it"


@compiled
@given(st.integers(2**52, 2**53 - 1), st.integers(-50, 60))
def test_midpoints_between_adjacent_floats(m: int, power: int) -> None:
    """Test the midpoint and its two neighbours at 19 digits."""
    midpoint = (2 * m + 1) * 2**power if power >= 0 else None
    text = str(midpoint) if midpoint is not None else None
    if text is None:
        digits = (2 * m + 1) * 10 ** (-power) // 2 ** (-power)
        text = f"{digits}e{power}"
    leading = f"{text.partition('e')[0][:19]}"
    n_dropped = len(text.partition("e")[0]) - len(leading)
    exponent = int(text.partition("e")[2] or 0) + n_dropped
    for delta in (-1, 0, 1):
        assert matches_float(f"{int(leading) + delta}e{exponent}")


@compiled
@pytest.mark.parametrize(
    "text",
    ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e5.", "1.2.3", "1_0", "nan", "inf", "0x1", "--1"]
    + ["1 ", " 1", "1a", "١", "1e12345", "1\t", "1,5", "1e 5"],
)
def test_malformed_numbers_are_left_to_float(text: str) -> None:
    for parse in (numbers.parse_number, numbers.parse_number_long):
        assert parse_number(text.encode() + b"\n", parse) != 0
        assert np.isnan(parse_number(text.encode() + b"\n", parse))


# Lines


def features(x: Any, i: int) -> dict[Any, float]:
    """Return the features of row `i` as a model sees them: duplicates summed, zeros dropped."""
    if isinstance(x, IntRows):
        return dict(x[i])
    if isinstance(x, NamedRows):
        row = x[i : i + 1]
        hashes, values, _ = row.csr()
        names = row.feature_names(np.arange(len(hashes)))
        assert [name_hash(name) for name in names] == hashes.tolist()
        summed: dict[Any, float] = {}
        for name, v in zip(names, values.tolist(), strict=True):
            assert v != 0.0
            summed[name] = summed.get(name, 0.0) + v
        return {name: v for name, v in summed.items() if v}
    if all(isinstance(name, int) for name in x[i]):
        return dict(x[i])
    merged: dict[Any, float] = {}
    for name, v in zip(*flatten_features(x[i]), strict=True):
        merged[name] = merged.get(name, 0.0) + v
    return {name: v for name, v in merged.items() if v}


def outcome(parsed: ParsedChunk) -> list[Any]:
    """Return everything a parser reports about a chunk, floats as bits, in line order."""
    w = [1.0] * len(parsed) if parsed.w is None else parsed.w
    outcomes: list[Any] = [(line, reason) for line, reason in parsed.faults]
    for i, (y, weight, line, end) in enumerate(
        zip(parsed.y, w, parsed.lines, parsed.ends, strict=True)
    ):
        pairs = [(name, type(name), bits(v)) for name, v in features(parsed.x, i).items()]
        label = y if isinstance(y, str | bool) else bits(y)
        example_id = None if parsed.ids is None else parsed.ids[i]
        fields = (type(label), label, float(weight), type(example_id), example_id)
        outcomes.append((int(line), pairs, *fields, int(end)))
    return [*sorted(outcomes, key=lambda item: item[0]), parsed.n_lines]


def python_parser(format: str, require_label: bool) -> BytesLineParser:
    """Return the reference: the pure Python parser applied line by line."""
    parser = parser_of(format, require_label)
    return BytesLineParser(parser.parse_line)


def simd_number(random: Random) -> str:
    """Return a number that the SIMD kernel accepts, or one just outside its range."""
    v = random.random() * random.choice([1, 1, 9.99, 12, 10 ** random.randrange(9)])
    integer = random.choice(["", "", "", "0"]) + str(
        random.randrange(10 ** random.randrange(1, 10))
    )
    text = random.choice([f"{v:.{random.randrange(1, 10)}f}", integer])
    return random.choice(["", "", "-"]) + random.choice([text, text, str(random.randrange(10))])


def svmlight_cell(random: Random, regular: bool) -> str:
    name = random.choice([random.randrange(30), random.randrange(10**6), random.randrange(2**33)])
    if regular:
        digits = random.randrange(1, 10)
        return f"{random.randrange(10**digits)}:{simd_number(random)}"
    value: Any = random.choice(
        [1, random.random(), round(random.random(), 6), random.randrange(-9, 9), 0]
    )
    number_format = random.choice(["%r", "%r", "%g", "%.3e", "%.20f"])
    return f"{name}:{number_format % value}"


def svmlight_line(random: Random) -> bytes:
    label = random.choice(["1", "-1", "0", "+1", "0.5", "1e-3", ""])
    regular = random.random() < 0.6
    n_cells = random.randrange(6) if random.random() < 0.5 else random.randrange(7, 26)
    cells = [svmlight_cell(random, regular and random.random() < 0.98) for _ in range(n_cells)]
    blank = " " if regular else random.choice([" ", " ", " ", "\t", "  "])
    qid = random.choice(["", "", f"qid:{random.randrange(9)}{blank}"])
    end = random.choice(["", "", " ", "\r", " \r", " # more", "#é"])
    return f"{label}{blank}{qid}{blank.join(cells)}{end}".encode()


FRAGMENTS = [
    *(bytes([c]) for c in b" :-+.eE0159#\t\r\x00\x0b\xff_n|'"),
    b"\xc2\xa0",
    b"nan",
    b"9" * 12,
]


def vw_line(random: Random) -> bytes:
    label = random.choice(["1", "-1", "0", "+1", "0.5", "1e-3", "", "spam"])
    weight = random.choice(["", "", " 2", " 0.25", " 0", " -1", "\t2"])
    tag = random.choice([" ", " ", " 'tag", " tag", "", " 'tag "])
    line = f"{label}{weight}{tag}"
    for _ in range(random.randrange(1, 4)):
        namespace = random.choice(["", "a", "user", "message", "features", "ad:2", "ad:0.5", "a:0"])
        tokens = [random.choice(["a", "b", "c=d", "né", f"w{random.randrange(99)}", "x" * 20])]
        tokens = [f"{w}{random.choice(['', ':1', ':0.25', ':0', ':-1e3'])}" for w in tokens * 2]
        if random.random() < 0.4:
            tokens = tokens if random.random() < 0.5 else []
            letters = "abcdefghijklmnopqrstuvwxyz" * 2
            longest, value_rate = random.choice([3, 7, 26]), random.choice([0.0, 0.5, 1.0])
            for _ in range(random.randrange(5, 40)):
                value = f":{simd_number(random)}" if random.random() < value_rate else ""
                tokens.append(
                    f"{random.randrange(99)}{letters[: random.randrange(longest)]}{value}"
                )
        blank = random.choice([" ", " ", "\t", "  "])
        line += f"|{namespace}{blank}{blank.join(tokens)}{random.choice(['', ' '])}"
    return (line + random.choice(["", "", " ", "\r", "\r\r"])).encode()


JSON_FRAGMENTS = [
    *(bytes([c]) for c in b'"\\{}[],: \t\r\x00\x7f\xff-+.eE0159xywid'),
    *(
        b'"a":',
        b'"x":',
        b'"y":1,',
        b"null",
        b"true",
        b"-0",
        b"NaN",
        b"1e999",
        b"9" * 20,
        b"\\u0061",
    ),
    *("é".encode(), b"\xed\xa0\x80", b"\xc2\x85", b"/*"),
]


def json_value(random: Random) -> str:
    number_format = random.choice(["%r", "%r", "%g", "%.3e", "%.20f", "%d"])
    v = random.choice([random.random(), random.randrange(-9, 1000), 10 ** random.randrange(25), 0])
    literals = ["true", "false", "null", '"fr"', '"a b"', '"é"', '",}"', '"a:b"', '""', f'"{v}"']
    return random.choice([number_format % v, number_format % v, random.choice(literals)])


def joined_members(pairs: list[tuple[str, str]], random: Random) -> str:
    blank = random.choice(["", " ", " "])
    comma = f",{random.choice(['', ' ', blank])}"
    return "{" + comma.join(f'"{name}":{blank}{value}' for name, value in pairs) + "}"


def json_cells(random: Random) -> list[tuple[str, str]]:
    names = ["a", "b", "c=d", "né", "a,b", "x", "", "site", *(f"w{k}" for k in range(20))]
    n_cells = random.choice([0, 1, 2, 5, 9])
    cells = [(random.choice(names), json_value(random)) for _ in range(n_cells)]
    if random.random() < 0.6:
        text_rate, longest = random.choice([0.0, 0.0, 0.3, 1.0, 1.0]), random.choice([1, 2, 7])
        cells = cells if random.random() < 0.3 else []
        for k in range(random.randrange(5, 40)):
            text = f'"{"x" * random.choice([1, 2, 7, random.randrange(longest + 2), 8, 9])}"'
            value = text if random.random() < text_rate else simd_number(random)
            cells.append((f"{'key' * random.randrange(longest)}{k}", value))
        if random.random() < 0.1:
            cells.append(random.choice(cells))
    return cells


def json_line(random: Random) -> bytes:
    x = joined_members(json_cells(random), random)
    label = random.choice(["1", "0", "-1", "true", "false", '"spam"', '"é"', "null", "0.5", "-0"])
    members = [("x", x), ("y", label)]
    optional = [("w", "2"), ("w", "0.25"), ("w", "-1"), ("w", '"2"'), ("w", "-0"), ("w", "true")]
    optional += [
        ("id", "7"),
        ("id", "-0"),
        ("id", '"v7"'),
        ("id", "1.5"),
        ("id", "true"),
        ("id", "[]"),
    ]
    optional += [("when", json_value(random)), ("where", "[1, {}]"), ("xy", "1"), ("when", "2")]
    members += [random.choice(optional) for _ in range(random.choice([0, 0, 0, 1, 2]))]
    random.shuffle(members)
    end = random.choice(["", "", " ", "\r", " \r", "\t"])
    line = joined_members(members, random)
    return f"{random.choice(['', '', '', ' '])}{line}{end}".encode()


FLAT_ROLES = {
    "flat": JsonRoles("y", ignore=frozenset({"b", "w7", "key3"}), id="id"),
    "flat-categories": JsonRoles(
        "user.y",
        "w",
        categorical=frozenset({"a", "c=d", "site", "né", *(f"w{k}" for k in range(9))}),
    ),
    "flat-numbers": JsonRoles(
        "y", id="id", categorical=frozenset({"a"}), numeric=frozenset({"price", "user.n", "w7"})
    ),
    "flat-no-roles": JsonRoles(),
}
NUMBER_TEXTS = [
    *("12", "-0.5", "1e3", "7", "31", "0", "-0", "1e60", "", " 7", "12%", "$3.50", "NULL", "true"),
    *("1,234", "word", "1_0", "1e999", "0.000000000000001234567890123", "é"),
]


LABELS = ["1", "0", "-1", "true", "false", '"spam"', '"é"', "null", "0.5", "-0", '""', "[1]"]
WEIGHTS = ["2", "0.25", "1", "1.0", "-0", "3.5", "7", '"2"', "true"]


def flat_json_line(random: Random, roles: JsonRoles) -> bytes:
    """Return a line whose members are features, label and so on, some of them nested."""
    members = json_cells(random)
    members = list(dict(members).items()) if random.random() < 0.9 else members
    for member, values in ((roles.target, LABELS), (roles.weight, WEIGHTS)):
        if member is not None:
            members.append((member, random.choice(values)))
    optional = [("id", v) for v in ("7", "-0", '"v7"', "1.5", "true", "null", "[]")]
    optional += [("user", '{"y": 1, "age": 3}'), ("tags", '["p", "q", "p"]'), ("vec", "[1, 0.5]")]
    optional += [("user.age", "4"), ("x", '{"a": 1}'), ("x", "3"), ("b", '{"a": [0]}')]
    members += [random.choice(optional) for _ in range(random.choice([0, 0, 0, 1, 2]))]
    if "price" in roles.numeric:
        price, n = (json.dumps(text) for text in random.choices(NUMBER_TEXTS, k=2))
        members += random.choice([[("price", price)], [("user", f'{{"n": {n}}}')], []])
    random.shuffle(members)
    end = random.choice(["", "", " ", "\r", " \r", "\t"])
    return f"{random.choice(['', '', '', ' '])}{joined_members(members, random)}{end}".encode()


def mutate(line: bytes, random: Random, fragments: list[bytes] = FRAGMENTS) -> bytes:
    """Insert, delete or replace up to three pieces of a line."""
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        pos = random.randrange(len(line) + 1)
        operation = random.randrange(3)
        replacement = b"" if operation == 0 else random.choice(fragments)
        line = line[:pos] + replacement + line[pos + (operation != 1) :]
    return line


def mutated_json_line(random: Random) -> bytes:
    return mutate(json_line(random), random, JSON_FRAGMENTS)


MUTATED_LINE: dict[str, Callable[[Random], bytes]] = {
    "svmlight": lambda random: mutate(svmlight_line(random), random),
    "vw": lambda random: mutate(vw_line(random), random),
    "jsonl": mutated_json_line,
}
for name, roles in FLAT_ROLES.items():
    MUTATED_LINE[name] = lambda random, roles=roles: mutate(  # type: ignore[misc]
        flat_json_line(random, roles), random, JSON_FRAGMENTS
    )


def parser_of(format: str, require_label: bool) -> LineParser:
    if format in FLAT_ROLES:
        return FlatJsonParser(FLAT_ROLES[format], require_label)
    return line_parser(format, require_label)


def assert_same_features(features: Any, parsed: ParsedChunk) -> None:
    """Hold `read_features` to what `read` returns for the same text."""
    if parsed.faults or not len(parsed):
        assert features is None
        return
    assert [*features] == [*parsed.x]
    pairs = zip(features.csr(), parsed.x.csr(), strict=True)
    assert all(np.array_equal(mine, theirs) for mine, theirs in pairs)


@pytest.mark.parametrize(
    ("format", "require_label"),
    [pair for pair in product(MUTATED_LINE, [True, False]) if pair != ("flat-no-roles", True)],
)
def test_mutated_lines_match_the_python_parser(format: str, require_label: bool) -> None:
    random = Random(f"{format} {require_label}")
    parser, reference = parser_of(format, require_label), python_parser(format, require_label)
    remaining = FUZZ // 2
    accepted = 0
    while remaining > 0:
        n = random.choice([1, 2, 10, 500])
        remaining -= n
        text = b"\n".join(MUTATED_LINE[format](random) for _ in range(n))
        text += random.choice([b"", b"\n"])
        parsed = parser.read(text)
        accepted += len(parsed)
        assert outcome(parsed) == outcome(reference.read(text)), text
        assert_same_features(parser.read_features(text), parsed)
    assert FUZZ / 9 < accepted < FUZZ / 2


LINE_PARTS = {
    "svmlight": ("{} ", "{}:0.5", " "),
    "vw": ("{} | ", "n{}:0.5", " "),
    "jsonl": ('{{"y": {}, "x": {{', '"n{}": 0.5', ", "),
}


def line_of_size(format: str, size: int, random: Random) -> bytes:
    """Return a line of `size` bytes, including its newline."""
    head, member, separator = LINE_PARTS[format]
    end = "}}\n" if format == "jsonl" else "\n"
    line, k = head.format(random.randrange(2)), random.randrange(9)
    line += member.format(k)
    while size - len(line) - len(end) >= 24:
        k += random.randrange(1, 9)
        line += separator + member.format(k)
    # Trailing zeros of the last number fill the line up to `size`.
    return f"{line}{'0' * (size - len(line) - len(end))}{end}".encode()


@pytest.mark.parametrize("format", LINE_PARTS)
@pytest.mark.parametrize("last", [b"", b"1 |n \xc3\xa9\n"])
def test_line_ends_at_any_batch_boundary(format: str, last: bytes) -> None:
    """Test line ends around each boundary of the batches in which delimiters are found."""
    random = Random(format)
    batch_size = int(structural_index._BATCH)
    sizes = [batch_size + k for k in (-1, 0, 1, 63, 64, 65)] + [3 * batch_size + 7, 2 * batch_size]
    sizes += [random.choice([50, 64, 65, 700]) for _ in range(300)]
    for k in (0, 1, 2, 64):  # three line ends close together before, at and after the boundary
        sizes += [batch_size - 128 - k, 64, 64]
    text = b"".join(line_of_size(format, size, random) for size in sizes) + last
    parsed = line_parser(format).read(text)
    assert outcome(parsed) == outcome(python_parser(format, True).read(text))
    assert len(parsed) == len(sizes) + (format == "vw" and last != b"")


NUMBERED_NAMES = [f"{'key' * (k % 3)}{k}" for k in range(19)]
REGULAR_LINES = {
    "svmlight": ["1 " + " ".join(f"{k + 3}:0.{k}5" for k in range(19))],
    "vw": [
        "1 | " + " ".join(f"{name}:0.5{k}" for k, name in enumerate(NUMBERED_NAMES)),
        "1 |ab " + " ".join(f"{name}:{k}" for k, name in enumerate(NUMBERED_NAMES)),
        "-1 | " + " ".join(NUMBERED_NAMES),
        "-1 |ab " + " ".join(NUMBERED_NAMES),
    ],
    "jsonl": [
        json.dumps({"y": 1, "x": dict.fromkeys(NUMBERED_NAMES, value)}, separators=separators)
        for value in (0.25, "fr")
        for separators in ((", ", ": "), (",", ":"))
    ],
}
"""Lines whose features the SIMD kernels parse eight at a time."""


def single_edits(line: bytes, fragments: list[bytes]) -> list[bytes]:
    """Return every line that differs by one inserted, replaced or deleted piece."""
    edited = [line]
    for pos in range(len(line)):
        edited += [line[:pos] + fragment + line[pos:] for fragment in fragments]
        edited += [line[:pos] + fragment + line[pos + 1 :] for fragment in [*fragments, b""]]
    return [edit for edit in edited if b"\n" not in edit]


@pytest.mark.parametrize("format", REGULAR_LINES)
def test_every_single_edit_matches_the_python_parser(format: str) -> None:
    parser, reference = line_parser(format), python_parser(format, True)
    for line in REGULAR_LINES[format]:
        lines = single_edits(line.encode(), JSON_FRAGMENTS if format == "jsonl" else FRAGMENTS)
        text = b"\n".join(lines) + b"\n"
        for got, expected in zip(
            outcome(parser.read(text)), outcome(reference.read(text)), strict=True
        ):
            assert got == expected, lines[expected[0]]


# CSV: records, in chunks of lines

CSV_FRAGMENTS = [
    *(bytes([c]) for c in b'",\n\r\t \x00\x0b\xff.-+eE015a'),
    *(
        b'""',
        b'"\n"',
        b"\r\n",
        b',"',
        b'",',
        b"nan",
        b"9" * 20,
        "é".encode(),
        b"\xc2\xa0",
        b"\xe3\x80\x80",
        b"NULL",
        b",NA,",
        b"?",
    ),
]


MISSING_CELLS = [
    "NaN", '"NULL"', " NA", "NA ", "N/A\t", "\\N", "?", "None", "Nano", "n", "?\xa0", "unknown",
    "an unknown value", '"an unknown ""value"', "an unknown valley", "NULL or None",
]  # fmt: skip
"""Cells that may be missing words, and cells that almost are."""

CELL_RULES: list[Any] = [
    {},
    {},
    {"missing": []},
    {"missing": ["-", "unknown", "an unknown value"]},
    {"missing": ["1", "a", "é", "か", "", "x" * 8, "spam"]},
    {"decimal": ",", "thousands": "."},
    {"decimal": ",", "positive": "spam"},
    {"thousands": " ", "positive": "1"},
]


def csv_record(random: Random) -> bytes:
    number = random.choice(
        ["1", "0", "-0", "0.25", "-1e-3", " 2 ", "", " ", '"5"', "31", repr(random.random()),
         *MISSING_CELLS, '"1,5"', "1.234", '" -1.234,50"', "1 234.5", '",5"', '"1,2,3"',
         "True", "false", "FALSE", "tRUE", '"true"']
    )  # fmt: skip
    texts = [
        "fr",
        "é",
        "",
        " ",
        '"a,b"',
        '"two\nlines"',
        '"a ""b"""',
        '"\r\n"',
        "Ж",
        "か",
        "a b",
        " c",
        '""',
        *MISSING_CELLS,
    ]
    label = random.choice(
        ["1", "0", "true", "spam", "a longer one", '"1"', "", " 1", "é", "0", "NULL", '"?"', "NaN "]
    )
    weight = random.choice(["1", "2", "0.5", "1", "1", "", "-1"])
    cells = [number, random.choice(texts), label, random.choice(texts), weight, number]
    end = random.choice(["", "", "", "\r"])
    return f"{','.join(cells)}{end}".encode()


TEXT_COLUMNS = [f"{'name' * (k % 5 == 4)}{k}" for k in range(20)]
"""Text columns; every fifth has a long name."""


def wide_record(random: Random, ends_in_text: bool) -> bytes:
    """Return a record of cells that the SIMD kernel accepts, or some just outside its range."""
    irregular = ["", " ", "é", " a", "a ", '"a"', '"a,b"', "x" * 9, "x" * 30, '"two\nlines"', "Ж"]
    irregular += random.sample(MISSING_CELLS, 4)
    regular = ["a", "1", "-", "3f", "x" * 7, "x" * 8, "1b2c", "a b", "aé", "no", "Nano", "NULLs"]
    irregular_rate = random.choice([0.0, 0.0, 0.02, 0.1])
    cells = [
        random.choice(irregular if random.random() < irregular_rate else regular)
        for _ in TEXT_COLUMNS
    ]
    label_and_weight = [random.choice(["1", "0", "spam"]), random.choice(["1", "2", "0.5"])]
    cells = (
        [*label_and_weight, *cells]
        if ends_in_text
        else [label_and_weight[0], *cells, label_and_weight[1]]
    )
    cells = cells[: random.choice([len(cells)] * 9 + [len(cells) - 1])]
    return f"{','.join(cells)}{random.choice(['', '', chr(13)])}".encode()


def parse_csv_in_python(text: bytes, parser: Any, delimiter: str = ",") -> list[Any]:
    """Parse a file with the pure Python CSV reader."""
    outcomes: list[Any] = []
    lines = TextLines(text if text.endswith(b"\n") or not text else text + b"\n")
    records = iter(Records(lines, delimiter))
    target, weight, texts, require_label, *more = parser
    header: Any = next(records)[1]
    ignored, rules = more or ((), None)
    roles = RequestedRoles(target, weight, tuple(texts), (), tuple(ignored))
    columns = Columns(
        header, roles.resolve(header, "a.csv"), require_label, rules, delimiter=delimiter
    )
    for first_line, record in records:
        try:
            x, y, w = columns.example(record)
        except SkippedRecord:
            continue
        except ValueError as error:
            outcomes.append((first_line, str(error)))
            continue
        summed: dict[Any, float] = {}
        for name, v in zip(*flatten_features(x), strict=True):
            summed[name] = summed.get(name, 0.0) + v
        pairs = [(name, bits(v)) for name, v in summed.items() if v]
        outcomes.append((first_line, pairs, y, w, x, lines.number, lines.offset))
    return outcomes


@pytest.mark.parametrize("require_label", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_mutated_csv_matches_the_python_parser(require_label: bool, wide: bool) -> None:
    random = Random(f"csv {require_label}")
    remaining, accepted = FUZZ // (4 if wide else 2), 0
    while remaining > 0:
        n = random.choice([1, 2, 10, 200])
        remaining -= n
        ends_in_text = bool(random.randrange(2))
        rows = [wide_record(random, ends_in_text) if wide else csv_record(random) for _ in range(n)]
        if random.randrange(3):
            rows = [mutate(row, random, CSV_FRAGMENTS) for row in rows]
        header = random.choice([b"a,b,y,c,w,d", b'"a\nq",b,y,c,w,"d,""e"""', b"b=fr,b,y,c,w,d"])
        texts = ["b", "c"]
        if wide:
            texts = TEXT_COLUMNS
            header = ",".join(
                ["y", "w", *TEXT_COLUMNS] if ends_in_text else ["y", *TEXT_COLUMNS, "w"]
            ).encode()
        quoted = b'"' + header.replace(b'"', b'""').replace(b",", b'","') + b'"'
        for again in random.sample([header, quoted, b"\xef\xbb\xbf" + header], 2):
            if random.randrange(2):
                again = mutate(again, random, CSV_FRAGMENTS) if random.randrange(2) else again
                rows.insert(random.randrange(len(rows) + 1), again)
        text = header + b"\n" + b"\n".join(rows) + random.choice([b"", b"\n", b"\n\n \n"])
        delimiter = random.choice([",", ",", "\t", ";", "\x01", " "])
        text = text.translate(bytes.maketrans(b"," + delimiter.encode(), delimiter.encode() + b","))
        ignored = random.choice([[], [], ["c"], TEXT_COLUMNS[3:5], ["w"]])
        ignored = [item for item in ignored if (item in TEXT_COLUMNS) == wide or item == "w"]
        weight = None if "w" in ignored else "w"
        texts = [item for item in texts if item not in ignored]
        rules = CellRules(**random.choice(CELL_RULES))
        parser = CsvParser(
            "a.csv", "y", texts, weight, require_label, ignored, delimiter, rules=rules
        )
        outcomes: list[Any] = []
        first_line = 0
        text_chunks = [text]
        if random.randrange(2):
            lines = text.splitlines(keepends=True)
            lines = b"".join(lines).split(b"\n")
            text_chunks = [item + b"\n" for item in lines[:-1]] + [lines[-1]] * bool(lines[-1])
        parsed_chunks = [parser.parse_chunk(pad_text(chunk)) for chunk in text_chunks]
        for parsed in [*parsed_chunks, parser.finish()]:
            if parsed is None:
                continue
            outcomes += [(first_line + line + 1, reason) for line, reason in parsed.faults]
            for i in range(len(parsed)):
                pairs = [(name, bits(v)) for name, v in features(parsed.x, i).items()]
                w = 1.0 if parsed.w is None else float(parsed.w[i])
                fields = (
                    first_line + int(parsed.lines[i]) + 1,
                    pairs,
                    parsed.y[i],
                    w,
                    dict(parsed.x[i]),
                )
                outcomes.append((*fields, first_line + parsed.lines_read(i)))
            first_line += parsed.n_lines
        roles = ("y", weight, frozenset(texts), require_label, frozenset(ignored), rules)
        expected = parse_csv_in_python(text, roles, delimiter)
        accepted += sum(len(item) > 2 for item in expected)
        assert sorted(outcomes, key=lambda item: item[0]) == [item[:6] for item in expected], text
    assert FUZZ / 40 < accepted < FUZZ / 2


@pytest.mark.parametrize("end", ["", "\r"])
def test_every_single_edit_of_a_csv_record_matches_the_python_parser(end: str) -> None:
    header = ",".join(["y", *TEXT_COLUMNS]).encode()
    record = (",".join(["1", *(f"{k}a" for k in range(20))]) + end).encode()
    parser = CsvParser("a.csv", "y", TEXT_COLUMNS)
    edited = single_edits(record, CSV_FRAGMENTS)
    batches = [[line] for line in edited if b'"' in line]  # a quote may take in the next line
    unquoted = [line for line in edited if b'"' not in line]
    batches += [unquoted[k : k + 100] for k in range(0, len(unquoted), 100)]
    for lines in batches:
        text = b"\n".join([header, *(part for line in lines for part in (record, line))]) + b"\n"
        parsed = parser.read(text)
        outcomes: list[Any] = [(line + 1, reason) for line, reason in parsed.faults]
        for i in range(len(parsed)):
            pairs = [(name, bits(v)) for name, v in features(parsed.x, i).items()]
            outcomes.append((int(parsed.lines[i]) + 1, pairs, parsed.y[i]))
        expected = parse_csv_in_python(text, ("y", None, frozenset(TEXT_COLUMNS), True))
        assert sorted(outcomes, key=lambda item: item[0]) == [item[:3] for item in expected], text


@compiled
def test_regular_csv_records_use_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    header = b"a,site,y,w\n"
    text = b'1,news,1,2\r\n\n-2.5,"two, ""x""\nlines",-1,1\n,,1,1\n 1e5 ,\xc3\xa9,"1",0.5\n'
    parser = CsvParser("a.csv", "y", ["site"], "w")
    parser.skip(np.frombuffer(header, np.uint8))
    monkeypatch.setattr(Columns, "example", None)
    parsed = parser.parse_chunk(pad_text(text))
    assert list(parsed.y) == ["1", "-1", "1", "1"] and parsed.w.tolist() == [2.0, 1.0, 1.0, 0.5]
    assert features(parsed.x, 1) == {"a": -2.5, 'site=two, "x"\nlines': 1.0}
    assert parser.finish() is None


@pytest.mark.parametrize(
    "labels",
    [
        ["1", "-1", "1", "12345678", "1", "é"],
        ["1", "123456789", "12345678", "1"],
        [f"label {k % 256}" for k in range(600)],
        [f"label {k % 257}" for k in range(600)],
        ["1", '"a, ""b"""', "1", '"two\nlines"', "0"],
    ],
    ids=["short", "long", "many", "too many", "quoted"],
)
def test_csv_labels_are_returned_as_text(labels: list[str]) -> None:
    text = "y,a\n" + "".join(f"{label},1\n" for label in labels)
    parsed = CsvParser("a.csv", "y").read(text.encode())
    unquoted = [label[1:-1].replace('""', '"') for label in labels]
    expected = [unquoted[k] if label[0] == '"' else label for k, label in enumerate(labels)]
    assert list(parsed.y) == parsed.y.tolist() == [parsed.y[k] for k in range(len(labels))]
    assert list(parsed.y) == expected and list(parsed.y[1:3]) == expected[1:3]


def test_missing_csv_label_is_none() -> None:
    parsed = CsvParser("a.csv", "y", require_label=False).read(b"y,a\n1,1\n,2\n")
    assert list(parsed.y) == ["1", None]


@pytest.mark.parametrize("chunk", [1, 7, 300, 2**18])
def test_chunk_size_does_not_change_csv_rows(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunk size changes neither the rows nor resuming from the end of a block."""
    random = Random(7)
    records = [mutate(csv_record(random), random, CSV_FRAGMENTS) for _ in range(400)]
    text = b"a,b,y,c,w,d\n" + b"\n".join(records)
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    columns: Any = {"target": "y", "categorical": ["b", "c"], "weight": "w"}
    rejected = Rejections()
    source: Any = open_source(path, **columns)
    source.begin(None)
    blocks = list(source.blocks(17, rejected))
    rows = [
        row
        for block in blocks
        for row in zip(block.lines, map(dict, block.x), block.y, strict=True)
    ]
    expected = parse_csv_in_python(text, ("y", "w", frozenset(["b", "c"]), True))
    assert rows == [(row[0], row[4], row[2]) for row in expected if len(row) > 2]
    assert len(rejected) == sum(len(row) == 2 for row in expected)
    for resume_index in (0, 3, len(blocks) - 1):
        source.begin(blocks[resume_index].end)
        resumed = [line for block in source.blocks(17, rejected) for line in block.lines]
        assert resumed == [line for block in blocks[resume_index + 1 :] for line in block.lines]


@compiled
def test_regular_lines_use_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that no line falls back to the Python parser."""
    texts = {
        "svmlight": b"1 1:0.5 7:2\r\n\n-1 3:-1e-5\t4:12.25 \n0  qid:3 5:1 # x\n1\n1 4294967295:1\n",
        "vw": b"1 |a b:0.5 c\r\n-1 2.5 'tag|a:2 \xc3\xa9 c:1e3|d\n0 tag| e |f |g h\n"
        b"  1 0\t'tag  | b\n1 |\n",
        "jsonl": b'{"x": {"a": 1, "b": "c", "d": 0.25, "e": null}, "y": 1}\r\n{"y":true,"x":{}}\n'
        b'{"id": "v7", "y": "spam", "x": {"a": -1.5e-7, "b": true, ",}": 31}, "w": 0.5} \n'
        b'{ "x" : { "\xc3\xa9" : 12345678901 , "b": false } , "y" : -2 , "id" : 7 , "z": null }\n'
        b'{"x": {"a": 0.1234567890123456, "b": "123"}, "y": 0, "w": 2, "t": "2026"}\n',
    }
    for format, text in texts.items():
        parser = line_parser(format)
        monkeypatch.setattr(parser, "parse_line", None)
        assert len(parser.read(text)) == 5


def test_ids_beyond_32_bits_mix_with_small_ids() -> None:
    text = f"1 {2**32 - 1}:1\n1 {2**32}:1 5:2\n-1 5:1 {2**63 - 1}:3\n1 5:1\n".encode()
    parsed = line_parser("svmlight").read(text)
    assert outcome(parsed) == outcome(python_parser("svmlight", True).read(text))
    model, reference = (streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3) for _ in range(2))
    model.learn_many(parsed.x, parsed.y > 0)
    reference.learn_many(list(parsed.x), parsed.y > 0)
    assert model.weights == reference.weights and model.n_features_seen == 4


def test_empty_input_yields_no_rows() -> None:
    for text in (b"", b"\n", b"\r\n\n", b"# no\n"):
        assert len(line_parser("svmlight").read(text)) == 0
    assert line_parser("svmlight").read(b"").n_lines == 0


@pytest.mark.parametrize("format", ["svmlight", "vw", "jsonl"])
def test_every_byte_may_be_a_line(format: str) -> None:
    """A blank line has one byte and takes the irregular path of vw and jsonl."""
    n = 300_000
    parsed = line_parser(format).read(b"\n" * n)
    assert len(parsed) == 0 and parsed.n_lines == n and not parsed.faults


def test_parsed_rows_index_as_dicts() -> None:
    parsed = line_parser("svmlight").read(b"1 3:1 4:2\n1\n1 5:1 5:2\n1 7:1\n")
    x = parsed.x
    assert x[1:][1] == x[-2] == {5: 3.0} and x[1] == {} and len(x[1:3]) == 2
    assert list(x[4:]) == [] and list(x[2:1]) == []
    with pytest.raises(IndexError):
        x[4]
    assert list(type(x).concatenate([x[2:], x[:1]])) == [{5: 3.0}, {7: 1.0}, {3: 1.0, 4: 2.0}]


# Files


def mutated_svmlight_lines(n: int, seed: int) -> list[bytes]:
    random = Random(seed)
    return [mutate(svmlight_line(random), random) for _ in range(n)]


@pytest.mark.parametrize("chunk", [1, 7, 64, 300, 2**18])
@pytest.mark.parametrize("compressed", [False, True])
def test_chunk_size_does_not_change_rows(
    chunk: int, compressed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"\n".join(mutated_svmlight_lines(300, 5))
    path = tmp_path / ("a.svm.gz" if compressed else "a.svm")
    path.write_bytes(gzip.compress(text) if compressed else text)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    rejected = Rejections()
    rows = rows_of(open_source(path), 17, rejected)
    expected, faults = [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            example = parse_svmlight(line.decode())
        except ValueError:
            faults.append(number)
        else:
            expected += [] if example is None else [example]
    assert rows == expected
    assert [int(place.rpartition(":")[2]) for place, _ in rejected] == faults


def training_line(format: str, random: Random) -> str:
    """Return a labelled line with rare names, duplicate names and zero values."""
    y = random.randrange(2)
    names = [int(2000 * random.random() ** 2) for _ in range(20)]
    values = [random.choice([random.random(), 1.0, 1.0, 0.0, -2.5]) for _ in names]
    if format == "svm":
        return f"{y} " + " ".join(f"{j}:{v!r}" for j, v in zip(names, values, strict=True))
    weight = random.choice(["", " 2", " 0.5"])
    if format == "jsonl":
        x: dict[str, Any] = {f"w{j}": v for j, v in zip(names, values, strict=True)}
        x |= {f"c{k}": f"v{int(9 * random.random() ** 2)}" for k in range(3)}
        w = random.choice([{}, {"w": 2}, {"w": 0.5}])
        return json.dumps({"x": x, "y": y, **w})
    if format == "csv":
        values = [round(random.random(), 3), random.choice([0.0, -2.5])]
        texts = [f"v{int(300 * random.random() ** 2)}" for _ in range(12)]
        return ",".join([str(y), *map(str, values), *texts, random.choice(["1", "2", "0.5"])])
    cells = [f"w{j}:{v!r}" if v != 1.0 else f"w{j}" for j, v in zip(names, values, strict=True)]
    return f"{y}{weight} |a {' '.join(cells[:10])} | {' '.join(cells[10:])}"


MODELS: dict[str, Callable[[], Any]] = {
    "elastic net": lambda: streaml1.ElasticNetClassifier(lr=0.1, l1=3e-3),
    "hashed": lambda: streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, hash_bits=8),
    "capped": lambda: streaml1.ElasticNetClassifier(lr=0.1, l1=1e-4, max_features=50),
    "ball": lambda: streaml1.L1BallClassifier(radius=5.0),
    "ftrl": lambda: streaml1.FTRLClassifier(),
    "eg": lambda: streaml1.EGClassifier(n_features=8000),
    "softmax": lambda: streaml1.SoftmaxClassifier(),
    "regressor": lambda: streaml1.ElasticNetRegressor(lr=0.1, l1=1e-3),
}


CSV_NAMES = ["y", "n0", "n1", *(f"c{k}" for k in range(12)), "w"]
CSV_ROLES: dict[str, Any] = {"target": "y", "categorical": CSV_NAMES[3:-1], "weight": "w"}


def parse_csv(line: str) -> Any:
    columns = Columns(CSV_NAMES, Roles(0, len(CSV_NAMES) - 1, frozenset(range(3, 15))))
    return columns.example(line.split(","))


PARSERS: dict[str, Any] = {
    "svm": parse_svmlight, "vw": parse_vw, "jsonl": parse_json, "csv": parse_csv,
}  # fmt: skip


@cache
def training_data(format: str) -> tuple[list[str], list[Any]]:
    """Return lines and what the pure Python parser reads from them."""
    random = Random(1)
    rows = [training_line(format, random) for _ in range(1500)]
    return rows, [PARSERS[format](row) for row in rows]


SVM_VW_CASES = [(format, name) for format in ("svm", "vw") for name in MODELS]
JSONL_CSV_CASES = [
    (f, name) for f in ("jsonl", "csv") for name in ("elastic net", "hashed", "softmax")
]


@pytest.mark.parametrize(("format", "name"), SVM_VW_CASES + JSONL_CSV_CASES)
def test_file_trains_the_same_model_as_its_dicts(name: str, format: str, tmp_path: Path) -> None:
    rows, examples = training_data(format)
    path = tmp_path / f"a.{format}"
    path.write_text("\n".join([",".join(CSV_NAMES)] * (format == "csv") + rows))
    source = open_source(path, **CSV_ROLES) if format == "csv" else path
    model, reference = MODELS[name](), MODELS[name]()
    report = streaml1.progressive(model, source, every=400)
    for x, y, w in examples:
        label = float(y) if name == "regressor" else int(y)
        reference.learn_one(x, label, w)
    assert report.examples == 1500
    assert model.weights == reference.weights and model.intercept == reference.intercept
    # n_features_seen is an estimate once names were evicted.
    assert model.n_features_seen == pytest.approx(reference.n_features_seen, rel=0.1)
    model._state.check()
    predicted = [prediction.p for prediction in predictions(model, source)]
    dicts = [x for x, _, _ in examples]
    if name == "softmax":
        assert predicted == [reference.predict_proba_one(x) for x in dicts]
    elif name == "regressor":
        assert predicted == [reference.predict_one(x) for x in dicts]
    else:
        assert predicted == [reference.predict_proba_one(x)[True] for x in dicts]


def test_names_from_text_and_dicts_share_weights(tmp_path: Path) -> None:
    """Alternate text and dicts, with eviction of zero weights and save/load in between."""
    random = Random(3)
    text_model, dict_model = (streaml1.ElasticNetClassifier(lr=0.1, l1=2e-2) for _ in range(2))
    parser = line_parser("vw")
    for k in range(40):
        lines = [
            f"{random.randrange(2)} |a "
            + " ".join(f"c=w{int(60 * random.random() ** 2) + 7 * k}" for _ in range(60))
            for _ in range(30)
        ]
        parsed = parser.read("\n".join(lines).encode())
        dicts = [parse_vw(line)[0] for line in lines]  # type: ignore[index]
        assert list(parsed.x) == dicts
        batch: Any = parsed.x if k % 2 else dicts
        if k % 4 == 0:  # categorical values as strings
            batch = [{"a^c": name.partition("=")[2]} for x in dicts for name in x][:30]
            dicts = [{f"a^c={x['a^c']}": 1.0} for x in batch]
        text_p = text_model.progressive_many(batch, parsed.y > 0)
        dict_p = dict_model.progressive_many(dicts, parsed.y > 0)
        assert text_p.tolist() == dict_p.tolist()
        assert (
            text_model.predict_many(parsed.x).tolist()
            == dict_model.predict_many(list(parsed.x)).tolist()
        )
        frozen = dict_model.freeze().predict_proba_many(parsed.x)
        assert frozen.tolist() == dict_model.predict_proba_many(list(parsed.x)).tolist()
        if k % 10 == 9:
            text_model.save(tmp_path / "m")
            text_model = streaml1.load(tmp_path / "m")
        text_model._state.check()
    assert text_model.weights == dict_model.weights and len(text_model.weights) > 10


EVENTS = ["text"] * 4 + ["dicts", "one", "category", "predict", "save", "evict", "tuple", "int"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5)), max_size=25))
def test_pending_byte_names_behave_like_strings(events: list[tuple[str, int]]) -> None:
    """Compare a model fed with text and one fed with dicts, under any interleaving of events."""
    text_model, dict_model = (streaml1.ElasticNetClassifier(l1=3e-2, lr=0.5) for _ in range(2))
    parser = line_parser("vw")
    for k, (event, shift) in enumerate(events):
        random = Random(k)
        cells = [f"c=é{int(40 * random.random() ** 2) + 9 * shift}" for _ in range(60)]
        rows = (" ".join(cells[lo : lo + 6]) for lo in range(0, 60, 6))
        lines = [f"{random.randrange(2)} | {row}" for row in rows]
        parsed = parser.read("\n".join(lines).encode())
        dicts: Any = list(parsed.x)
        y = parsed.y > 0
        batch: Any = dicts
        if event == "text":
            batch = parsed.x
        elif event == "category":
            batch = [{"c": name.partition("=")[2]} for x in dicts for name in x][:10]
            dicts = [{f"c={x['c']}": 1.0} for x in batch]
        elif event == "tuple":
            batch = dicts = [{("c", shift): 1.0}] * 10
        elif event == "int":
            batch = dicts = [{shift: 1.0, f"c=é{shift}": 2.0}] * 10
        elif event == "predict":
            assert (
                text_model.predict_many(parsed.x).tolist()
                == dict_model.predict_many(dicts).tolist()
            )
        elif event == "save":
            text_model, dict_model = (
                pickle.loads(pickle.dumps(text_model)),
                copy.deepcopy(dict_model),
            )
        elif event == "evict" and text_model.n_features_seen:
            for model in (text_model, dict_model):
                model._state._make_room(50)
        if event == "one":
            for model in (text_model, dict_model):
                model.learn_one(dicts[0], bool(y[0]))
        elif event not in ("predict", "save", "evict"):
            text_p, dict_p = (
                text_model.progressive_many(batch, y),
                dict_model.progressive_many(dicts, y),
            )
            assert text_p.tolist() == dict_p.tolist()
        text_model._state.check()
        assert [*text_model.weights.items()] == [*dict_model.weights.items()], "including the order"
        if event != "evict":
            assert text_model.n_features_seen == dict_model.n_features_seen
    assert streaml1.load(save_model(text_model)).weights == text_model.weights


def save_model(model: Any) -> Path:
    path = Path(tempfile.mkdtemp()) / "m"
    model.save(path)
    return path


def test_new_names_are_decoded_lazily() -> None:
    model = streaml1.ElasticNetClassifier(lr=0.1, l1=1e-3)
    x = line_parser("vw").read(b"1 |a b c=d\n0 | b a^b\n").x
    model.learn_many(x, [True, False])
    model.learn_many(x, [True, False])
    vocabulary = model._state.vocabulary
    assert vocabulary.keys == [] and len(vocabulary) == 3 and len(vocabulary.pending) == 3
    assert model.weights.keys() == {"a^b", "a^c=d", "b"} and vocabulary.keys == []
    model.learn_one({"b": 1.0}, True)
    assert vocabulary.keys == ["a^b", "a^c=d", "b"] and not len(vocabulary.pending)
    assert model.n_features_seen == 3


def test_bad_value_in_text_is_rejected_with_its_row() -> None:
    for text in (b"1 |a b:1\n0 |a b:1e60 c:0\n", b"1 |a b:1\n0 |a b:9e49 b:9e49\n"):
        for hash_bits in (None, 10):
            model, reference = (
                streaml1.ElasticNetClassifier(lr=0.1, hash_bits=hash_bits) for _ in range(2)
            )
            x = line_parser("vw").read(text).x
            errors = []
            for learner, batch in ((model, x), (reference, list(x))):
                with pytest.raises(streaml1.BadExample) as error:
                    learner.learn_many(batch, [True, False])
                errors.append(error.value)
                assert learner.n_iterations == 0 and learner.weights == {}
            assert errors[0].row == errors[1].row == 1
            assert errors[0].reason == errors[1].reason


@pytest.mark.parametrize("format", ["svm", "vw"])  # StandardScaler does not accept strings
def test_pipelines_learn_from_files_as_from_dicts(format: str, tmp_path: Path) -> None:
    random = Random(4)
    rows = [training_line(format, random) for _ in range(200)]
    path = tmp_path / f"a.{format}"
    path.write_text("\n".join(rows))
    parse = PARSERS[format]
    model, reference = (
        preprocessing.StandardScaler() | streaml1.ElasticNetClassifier(lr=0.1) for _ in range(2)
    )
    streaml1.progressive(model, path)
    for x, y, w in map(parse, rows):
        reference.predict_proba_one(x)
        reference.learn_one(x, int(y), w=w)
    assert model["ElasticNetClassifier"].weights == reference["ElasticNetClassifier"].weights


def test_results_of_one_parser_do_not_share_memory() -> None:
    parser = line_parser("svmlight")
    results = [parser.read(f"1 {k}:1 {k + 1}:2\n".encode()) for k in range(10)]
    assert [list(parsed.x) for parsed in results] == [[{k: 1.0, k + 1: 2.0}] for k in range(10)]
    parser = line_parser("vw")
    results = [parser.read(f"1 |a b{k} c:{k}\n".encode()) for k in range(1, 10)]
    for k, parsed in enumerate(results, start=1):
        assert features(parsed.x, 0) == {f"a^b{k}": 1.0, "a^c": float(k)} == parsed.x[0]


@pytest.mark.parametrize("format", ["svm", "vw", "jsonl"])
def test_concatenation_preserves_rows(format: str) -> None:
    random = Random(2)
    rows = [training_line(format, random).encode() for _ in range(40)]
    parser = line_parser({"svm": "svmlight"}.get(format, format))
    slices = [parser.read(b"\n".join(rows[lo : lo + 10])).x[2:9] for lo in range(0, 40, 10)]
    joined = type(slices[0]).concatenate(slices)
    expected = [row for lo in range(0, 40, 10) for row in rows[lo + 2 : lo + 9]]
    whole = parser.read(b"\n".join(expected)).x
    assert list(joined) == list(whole)
    for k in range(len(expected)):
        assert features(joined, k) == features(whole, k)


WIDE = " ".join(f"{100 + k}:0.5" for k in range(20))


@pytest.mark.parametrize("suffix", ["", f" {WIDE}"])
@pytest.mark.parametrize(
    ("cells", "plain"),
    [
        ("1:1 2:2", True),
        ("2:1 1:2", False),
        ("1:1 1:2", False),
        ("1:1 2:0", False),
        ("1:1 2:1e60", False),
        ("1:1 2:nan", False),
    ],
)
def test_plain_flag_of_id_rows(cells: str, plain: bool, suffix: str) -> None:
    parser = line_parser("svmlight", True)
    assert parser.read(f"1 {WIDE}\n-1 {cells}{suffix}\n1 3:1\n".encode()).x.plain == plain
    assert parser.read(f"1 {suffix}{cells}\n".encode()).x.plain == (plain and not suffix)
    assert parser.read(f"1 {WIDE}\n".encode()).x.plain


@pytest.mark.parametrize("n_more", [0, 20])
@pytest.mark.parametrize(("value", "checked"), [("1", True), ("0", True), ("-1e60", False)])
@pytest.mark.parametrize("format", ["vw", "jsonl", "csv"])
def test_values_checked_flag_of_named_rows(
    format: str, value: str, checked: bool, n_more: int, tmp_path: Path
) -> None:
    names = ["a", *(f"b{k}" for k in range(n_more))]
    values = [value, *("0.25" for _ in range(n_more))]
    pairs = list(zip(names, values, strict=True))
    text = {
        "vw": "1 | " + " ".join(map(":".join, pairs)),
        "jsonl": '{"y": 1, "x": {' + ", ".join(f'"{a}": {v}' for a, v in pairs) + "}}",
        "csv": f"y,{','.join(names)}\n1,{','.join(values)}",
    }[format]
    path = tmp_path / f"some.{format}"
    path.write_text(f"{text}\n")
    source = open_source(path, **({"target": "y"} if format == "csv" else {}))
    (block,) = source.blocks(10, print)
    assert isinstance(block.x, NamedRows)
    assert block.x.values_checked == checked
    assert block.x[:1].values_checked == checked
    model = streaml1.ElasticNetClassifier(lr=0.1)
    if not checked:
        with pytest.raises(streaml1.BadExample, match="'a' is too large"):
            model.learn_many(block.x, [True])
    else:
        model.learn_many(block.x, [True])
        assert model.n_features_seen == n_more + (value != "0")


NAMES_WITH_EQUALS = st.sampled_from(["a", "b", "a=b", "b=a", "a=b=a", "="])


def format_rows(rows: list[dict[str, Any]], names: list[str], format: str) -> str:
    if format == "jsonl":
        return "".join(f"{json.dumps({'y': 1, 'x': x})}\n" for x in rows)
    records = [["y", *names], *(["1", *(str(x.get(a, "")) for a in names)] for x in rows)]
    return "".join(f"{','.join(cells)}\n" for cells in records)


@given(
    st.lists(
        st.dictionaries(NAMES_WITH_EQUALS, st.one_of(NAMES_WITH_EQUALS, st.just(0.5)), min_size=1),
        min_size=1,
        max_size=9,
    ),
    st.booleans(),
)
@pytest.mark.parametrize("wide", [0, 9])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_plain_flag_implies_unique_names(
    format: str, wide: int, rows: list[dict[str, Any]], no_equals: bool
) -> None:
    if no_equals:
        rows = [
            {a: v for a, v in x.items() if "=" not in a and "=" not in str(v)} | {"c": 0.5}
            for x in rows
        ]
    rows = [x | {f"more{k}": 0.25 for k in range(wide)} for x in rows]
    names = [*dict.fromkeys(name for x in rows for name in x)]
    roles: dict[str, Any] = {}
    if format == "csv":  # a column holds either texts or numbers
        texts = {a for a in names if any(isinstance(x.get(a), str) for x in rows)}
        rows = [{a: str(v) if a in texts else v for a, v in x.items()} for x in rows]
        roles = {"target": "y", "categorical": texts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{format}"
        path.write_text(format_rows(rows, names, format))
        (block,) = open_source(path, **roles).blocks(100, print)
    if COMPILED:
        sources = names if format == "csv" else map(str, rows)
        assert block.x.plain == block.x[1:].plain == (not any("=" in source for source in sources))
    for row, x in enumerate(rows):
        text_model, dict_model = (
            streaml1.ElasticNetClassifier(lr=0.1),
            streaml1.ElasticNetClassifier(lr=0.1),
        )
        text_model.learn_many(block.x[row : row + 1], [True])
        dict_model.learn_one(x, True)
        assert text_model.weights == dict_model.weights


@given(
    st.lists(
        st.lists(
            st.tuples(st.sampled_from("abcdefghij"), st.sampled_from([0.1, 0.3, 0.7, -0.1, 1e30])),
            min_size=1,
            max_size=30,
        ),
        min_size=1,
        max_size=5,
    ),
    st.integers(1, 3),
)
def test_duplicate_names_are_summed_before_hashing(
    rows: list[list[tuple[str, float]]], hash_bits: int
) -> None:
    lines = ["1 | " + " ".join(f"{a}:{v!r}" for a, v in row) for row in rows]
    x = line_parser("vw").read("\n".join(lines).encode()).x
    for k, line in enumerate(lines):
        text_model, dict_model = (
            streaml1.ElasticNetClassifier(lr=0.1, hash_bits=hash_bits) for _ in range(2)
        )
        text_model.learn_many(x[k : k + 1], [True])
        dict_model.learn_one(parse_vw(line)[0], True)
        assert text_model.weights == dict_model.weights


@pytest.mark.parametrize("format", ["vw", "jsonl", "svmlight"])
def test_rows_stay_valid_while_the_parser_continues(format: str) -> None:
    template = {"vw": "1 | a%d:2", "jsonl": '{"x": {"a%d": 2}, "y": 1}', "svmlight": "1 %d:2"}[
        format
    ]
    texts = ["".join(f"{template % (7 * n + k)}\n" for k in range(500)).encode() for n in range(9)]
    results = [line_parser(format).read(text) for text in texts]
    discarding, parser = line_parser(format), line_parser(format)
    for text in texts:
        discarding.read(text)  # the result is dropped
    results += [parser.read(text) for text in texts]
    for n, parsed in enumerate(results):
        ids = range(7 * (n % 9), 7 * (n % 9) + 500)
        names = ids if format == "svmlight" else [f"a{k}" for k in ids]
        assert list(parsed.x) == [{name: 2.0} for name in names]
        assert parsed.y.tolist() == [1.0] * 500


@pytest.mark.parametrize("format", ["vw", "jsonl", "svmlight"])
def test_first_input_of_a_thread_may_be_empty(format: str) -> None:
    """A Kafka message may hold no example."""
    results: list[ParsedChunk] = []
    thread = Thread(target=lambda: results.append(line_parser(format).read(b"")))
    thread.start()
    thread.join()
    assert [len(parsed.x) for parsed in results] == [0]
