"""Compiled readers of text, held to the plain ones: no line is read differently.

`STREAML1_FUZZ=1000000` has a million mutated lines of each format tried.
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
from streaml1.sources.readers.csv_schema import Columns, Records, TextLines
from streaml1.sources.readers.formats import line_parser
from streaml1.sources.readers.jsonl import parse_json
from streaml1.sources.readers.parsed_lines import (
    BytesLineParser,
    ParsedChunk,
    flatten_features,
    pad_text,
)
from streaml1.sources.readers.svmlight import parse_svmlight
from streaml1.sources.readers.vw import parse_vw
from streaml1.text import numbers, structural_index
from streaml1.text.parsed_rows import IntRows, NamedRows
from streaml1.training import predictions
from tests.test_streams import Refused, rows_of

FUZZ = int(os.environ.get("STREAML1_FUZZ", "5000"))

compiled = pytest.mark.skipif(not COMPILED, reason="raw memory is read by compiled code only")


def bits(v: float | None) -> bytes | None:
    return None if v is None else struct.pack("<d", v)


# Numbers


def read_number(text: bytes, read: Any = numbers.parse_number) -> float:
    buffer, lo, hi, _ = pad_text(text)
    start = buffer.ctypes.data
    ends = (np.uint64(start + lo), np.uint64(start + hi - 1))
    return float(read(*ends, numbers.POWERS))


def is_floats(text: str, read: Any = numbers.parse_number) -> bool:
    """Whether a number is not read here, or is that of `float` to the bit."""
    found = read_number(text.encode() + b"\n", read)
    return found != found or bits(found) == bits(float(text))


EDGES = [
    *("0", "-0", "0.0", "-0.000", "1", "+1", "1.", ".5", "-.5e1", "9" * 19, "0" * 40 + "1"),
    *("9007199254740993", "9007199254740992.5", "1e22", "1e23", "8.5e-23", "123456789012345678e-9"),
    *("2.2250738585072014e-308", "1.7976931348623157e308", "5e-324", "1e400", "1e-400", "0e999"),
    *("4503599627370497.5", "4503599627370496.5", "9007199254740991.49999999999999999999"),
    *("0.1234567890123456789", "0.0000000000000000000012345678", "7.000000000000000000"),
]


@compiled
@pytest.mark.parametrize("text", EDGES)
def test_edges_of_numbers(text: str) -> None:
    assert is_floats(text) and is_floats(text, numbers.parse_number_long)


@compiled
@given(
    st.floats(allow_nan=False, allow_infinity=False),
    st.sampled_from(["%r", "%.17g", "%.3f", "%.6g", "%.17e", "%+.9f", "%.24f", "%g"]),
)
def test_floats_are_read_to_the_bit(v: float, form: str) -> None:
    assert is_floats(form % v) and is_floats(form % v, numbers.parse_number_long)


@compiled
@given(st.integers(0, 2**64 - 1), st.integers(-330, 320))
def test_any_digits_and_exponent(m: int, power: int) -> None:
    text = f"{m}e{power}"
    assert is_floats(text)
    if m and abs(power) < 200 and len(str(m)) <= 19:
        assert read_number(text.encode() + b"\n") == float(text), "it is read here"


@compiled
@given(st.integers(2**52, 2**53 - 1), st.integers(-50, 60))
def test_half_way_between_two_floats(m: int, power: int) -> None:
    """And as near to it as 19 digits go."""
    half = (2 * m + 1) * 2**power if power >= 0 else None
    text = str(half) if half is not None else None
    if text is None:
        digits = (2 * m + 1) * 10 ** (-power) // 2 ** (-power)
        text = f"{digits}e{power}"
    short = f"{text.partition('e')[0][:19]}"
    rest = len(text.partition("e")[0]) - len(short)
    exponent = int(text.partition("e")[2] or 0) + rest
    for last in (-1, 0, 1):
        assert is_floats(f"{int(short) + last}e{exponent}")


@compiled
@pytest.mark.parametrize(
    "text",
    ["", "-", "+", ".", "-.", "e5", "1e", "1e+", "1e5.", "1.2.3", "1_0", "nan", "inf", "0x1", "--1"]
    + ["1 ", " 1", "1a", "١", "1e12345", "1\t", "1,5", "1e 5"],
)
def test_what_is_no_number_is_left_to_float(text: str) -> None:
    for read in (numbers.parse_number, numbers.parse_number_long):
        assert read_number(text.encode() + b"\n", read) != 0
        assert np.isnan(read_number(text.encode() + b"\n", read))


# Lines


def features(x: Any, i: int) -> dict[Any, float]:
    """The features of a row; of rows of names what a model takes from it."""
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
    found: dict[Any, float] = {}
    for name, v in zip(*flatten_features(x[i]), strict=True):
        found[name] = found.get(name, 0.0) + v
    return {name: v for name, v in found.items() if v}


def outcome(parsed: ParsedChunk) -> list[Any]:
    """All that is told of some lines, to the bit and in the order of the lines."""
    w = [1.0] * len(parsed) if parsed.w is None else parsed.w
    found: list[Any] = [(line, reason) for line, reason in parsed.faults]
    for i, (y, one, line, end) in enumerate(
        zip(parsed.y, w, parsed.lines, parsed.ends, strict=True)
    ):
        pairs = [(name, type(name), bits(v)) for name, v in features(parsed.x, i).items()]
        label = y if isinstance(y, str | bool) else bits(y)
        known = None if parsed.ids is None else parsed.ids[i]
        told = (type(label), label, float(one), type(known), known)
        found.append((int(line), pairs, *told, int(end)))
    return [*sorted(found, key=lambda one: one[0]), parsed.n_lines]


def twin(format: str, require_label: bool) -> BytesLineParser:
    """The plain reader of each line."""
    parser = line_parser(format, require_label)
    return BytesLineParser(parser.parse_line)


def ordinary_value(random: Random) -> str:
    """A number such as is read with seven others at once; sometimes just not."""
    v = random.random() * random.choice([1, 1, 9.99, 12, 10 ** random.randrange(9)])
    whole = random.choice(["", "", "", "0"]) + str(random.randrange(10 ** random.randrange(1, 10)))
    text = random.choice([f"{v:.{random.randrange(1, 10)}f}", whole])
    return random.choice(["", "", "-"]) + random.choice([text, text, str(random.randrange(10))])


def svm_cell(random: Random, ordinary: bool) -> str:
    name = random.choice([random.randrange(30), random.randrange(10**6), random.randrange(2**33)])
    if ordinary:
        digits = random.randrange(1, 10)
        return f"{random.randrange(10**digits)}:{ordinary_value(random)}"
    value: Any = random.choice(
        [1, random.random(), round(random.random(), 6), random.randrange(-9, 9), 0]
    )
    form = random.choice(["%r", "%r", "%g", "%.3e", "%.20f"])
    return f"{name}:{form % value}"


def svm_line(random: Random) -> bytes:
    label = random.choice(["1", "-1", "0", "+1", "0.5", "1e-3", ""])
    ordinary = random.random() < 0.6
    few = random.randrange(6) if random.random() < 0.5 else random.randrange(7, 26)
    cells = [svm_cell(random, ordinary and random.random() < 0.98) for _ in range(few)]
    blank = " " if ordinary else random.choice([" ", " ", " ", "\t", "  "])
    qid = random.choice(["", "", f"qid:{random.randrange(9)}{blank}"])
    end = random.choice(["", "", " ", "\r", " \r", " # more", "#é"])
    return f"{label}{blank}{qid}{blank.join(cells)}{end}".encode()


PIECES = [
    *(bytes([c]) for c in b" :-+.eE0159#\t\r\x00\x0b\xff_n|'"),
    b"\xc2\xa0",
    b"nan",
    b"9" * 12,
]


def vw_line(random: Random) -> bytes:
    label = random.choice(["1", "-1", "0", "+1", "0.5", "1e-3", "", "spam"])
    weight = random.choice(["", "", " 2", " 0.25", " 0", " -1"])
    tag = random.choice([" ", " ", " 'tag", " tag", "", " 'tag "])
    line = f"{label}{weight}{tag}"
    for _ in range(random.randrange(1, 4)):
        name = random.choice(["", "a", "user", "message", "features", "ad:2", "ad:0.5", "a:0"])
        words = [random.choice(["a", "b", "c=d", "né", f"w{random.randrange(99)}", "x" * 20])]
        words = [f"{w}{random.choice(['', ':1', ':0.25', ':0', ':-1e3'])}" for w in words * 2]
        if random.random() < 0.4:
            words = words if random.random() < 0.5 else []
            letters = "abcdefghijklmnopqrstuvwxyz" * 2
            longest, valued = random.choice([3, 7, 26]), random.choice([0.0, 0.5, 1.0])
            for _ in range(random.randrange(5, 40)):
                value = f":{ordinary_value(random)}" if random.random() < valued else ""
                words.append(f"{random.randrange(99)}{letters[: random.randrange(longest)]}{value}")
        blank = random.choice([" ", " ", "\t", "  "])
        line += f"|{name}{blank}{blank.join(words)}{random.choice(['', ' '])}"
    return (line + random.choice(["", "", " ", "\r", "\r\r"])).encode()


JSON_PIECES = [
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
    form = random.choice(["%r", "%r", "%g", "%.3e", "%.20f", "%d"])
    v = random.choice([random.random(), random.randrange(-9, 1000), 10 ** random.randrange(25), 0])
    words = ["true", "false", "null", '"fr"', '"a b"', '"é"', '",}"', '"a:b"', '""', f'"{v}"']
    return random.choice([form % v, form % v, random.choice(words)])


def json_line(random: Random) -> bytes:
    blank = random.choice(["", " ", " "])

    def joined(pairs: list[tuple[str, str]]) -> str:
        comma = f",{random.choice(['', ' ', blank])}"
        return "{" + comma.join(f'"{name}":{blank}{value}' for name, value in pairs) + "}"

    names = ["a", "b", "c=d", "né", "a,b", "x", "", "site", *(f"w{k}" for k in range(20))]
    few = random.choice([0, 1, 2, 5, 9])
    cells = [(random.choice(names), json_value(random)) for _ in range(few)]
    if random.random() < 0.6:
        texts, longest = random.choice([0.0, 0.0, 0.3, 1.0, 1.0]), random.choice([1, 2, 7])
        cells = cells if random.random() < 0.3 else []
        for k in range(random.randrange(5, 40)):
            text = f'"{"x" * random.choice([1, 2, 7, random.randrange(longest + 2), 8, 9])}"'
            value = text if random.random() < texts else ordinary_value(random)
            cells.append((f"{'key' * random.randrange(longest)}{k}", value))
        if random.random() < 0.1:
            cells.append(random.choice(cells))
    x = joined(cells)
    label = random.choice(["1", "0", "-1", "true", "false", '"spam"', '"é"', "null", "0.5", "-0"])
    members = [("x", x), ("y", label)]
    rest = [("w", "2"), ("w", "0.25"), ("w", "-1"), ("w", '"2"'), ("w", "-0"), ("w", "true")]
    rest += [("id", "7"), ("id", "-0"), ("id", '"v7"'), ("id", "1.5"), ("id", "true"), ("id", "[]")]
    rest += [("when", json_value(random)), ("where", "[1, {}]"), ("xy", "1"), ("when", "2")]
    members += [random.choice(rest) for _ in range(random.choice([0, 0, 0, 1, 2]))]
    random.shuffle(members)
    end = random.choice(["", "", " ", "\r", " \r", "\t"])
    return f"{random.choice(['', '', '', ' '])}{joined(members)}{end}".encode()


def mutated(line: bytes, random: Random, pieces: list[bytes] = PIECES) -> bytes:
    """A line with up to three pieces put in, taken out or put in another's place."""
    for _ in range(random.choice([0, 0, 1, 1, 2, 3])):
        at = random.randrange(len(line) + 1)
        what = random.randrange(3)
        new = b"" if what == 0 else random.choice(pieces)
        line = line[:at] + new + line[at + (what != 1) :]
    return line


def json_mutated(random: Random) -> bytes:
    return mutated(json_line(random), random, JSON_PIECES)


MAKE: dict[str, Callable[[Random], bytes]] = {
    "svmlight": lambda random: mutated(svm_line(random), random),
    "vw": lambda random: mutated(vw_line(random), random),
    "jsonl": json_mutated,
}


@pytest.mark.parametrize("format", MAKE)
@pytest.mark.parametrize("require_label", [True, False])
def test_mutated_lines_are_read_as_by_the_plain_reader(format: str, require_label: bool) -> None:
    random = Random(f"{format} {require_label}")
    parser, plain = line_parser(format, require_label), twin(format, require_label)
    left = FUZZ // 2
    accepted = 0
    while left > 0:
        n = random.choice([1, 2, 10, 500])
        left -= n
        text = b"\n".join(MAKE[format](random) for _ in range(n))
        text += random.choice([b"", b"\n"])
        found = parser.read(text)
        accepted += len(found)
        assert outcome(found) == outcome(plain.read(text)), text
    assert FUZZ / 8 < accepted < FUZZ / 2


MEMBERS = {
    "svmlight": ("{} ", "{}:0.5", " "),
    "vw": ("{} | ", "n{}:0.5", " "),
    "jsonl": ('{{"y": {}, "x": {{', '"n{}": 0.5', ", "),
}


def line_of_size(format: str, size: int, random: Random) -> bytes:
    """A line of so many bytes, its newline one of them."""
    head, member, mark = MEMBERS[format]
    end = "}}\n" if format == "jsonl" else "\n"
    line, k = head.format(random.randrange(2)), random.randrange(9)
    line += member.format(k)
    while size - len(line) - len(end) >= 24:
        k += random.randrange(1, 9)
        line += mark + member.format(k)
    # Decimals make up for what is left.
    return f"{line}{'0' * (size - len(line) - len(end))}{end}".encode()


@pytest.mark.parametrize("format", MEMBERS)
@pytest.mark.parametrize("last", [b"", b"1 |n \xc3\xa9\n"])
def test_texts_are_read_wherever_their_lines_end(format: str, last: bytes) -> None:
    """Delimiters are found some lines at a time: about each end of these, and of long lines."""
    random = Random(format)
    at_once = int(structural_index._BATCH)
    sizes = [at_once + k for k in (-1, 0, 1, 63, 64, 65)] + [3 * at_once + 7, 2 * at_once]
    sizes += [random.choice([50, 64, 65, 700]) for _ in range(300)]
    for k in (0, 1, 2, 64):  # lines that end together just before, at and behind the end
        sizes += [at_once - 128 - k, 64, 64]
    text = b"".join(line_of_size(format, size, random) for size in sizes) + last
    found = line_parser(format).read(text)
    assert outcome(found) == outcome(twin(format, True).read(text))
    assert len(found) == len(sizes) + (format == "vw" and last != b"")


NUMBERED = [f"{'key' * (k % 3)}{k}" for k in range(19)]
ALIKE = {
    "svmlight": ["1 " + " ".join(f"{k + 3}:0.{k}5" for k in range(19))],
    "vw": [
        "1 | " + " ".join(f"{name}:0.5{k}" for k, name in enumerate(NUMBERED)),
        "1 |ab " + " ".join(f"{name}:{k}" for k, name in enumerate(NUMBERED)),
        "-1 | " + " ".join(NUMBERED),
        "-1 |ab " + " ".join(NUMBERED),
    ],
    "jsonl": [
        json.dumps({"y": 1, "x": dict.fromkeys(NUMBERED, value)}, separators=separators)
        for value in (0.25, "fr")
        for separators in ((", ", ": "), (",", ":"))
    ],
}
"""Lines of features that are read by eights."""


def edits(line: bytes, pieces: list[bytes]) -> list[bytes]:
    """All that comes of a line by one piece put in, or in place of a byte, or a byte taken out."""
    found = [line]
    for at in range(len(line)):
        found += [line[:at] + piece + line[at:] for piece in pieces]
        found += [line[:at] + piece + line[at + 1 :] for piece in [*pieces, b""]]
    return [one for one in found if b"\n" not in one]


@pytest.mark.parametrize("format", ALIKE)
def test_any_one_edit_is_read_as_by_the_plain_reader(format: str) -> None:
    parser, plain = line_parser(format), twin(format, True)
    for line in ALIKE[format]:
        lines = edits(line.encode(), JSON_PIECES if format == "jsonl" else PIECES)
        text = b"\n".join(lines) + b"\n"
        for one, other in zip(outcome(parser.read(text)), outcome(plain.read(text)), strict=True):
            assert one == other, lines[other[0]]


# CSV: records, in chunks of lines

CSV_PIECES = [
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
    ),
]


def csv_record(random: Random) -> bytes:
    number = random.choice(
        ["1", "0", "-0", "0.25", "-1e-3", " 2 ", "", " ", '"5"', "31", repr(random.random())]
    )
    words = [
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
    ]
    label = random.choice(["1", "0", "true", "spam", "a longer one", '"1"', "", " 1", "é"])
    weight = random.choice(["1", "2", "0.5", "1", "1", "", "-1"])
    cells = [number, random.choice(words), label, random.choice(words), weight, number]
    end = random.choice(["", "", "", "\r"])
    return f"{','.join(cells)}{end}".encode()


TEXTS = [f"{'name' * (k % 5 == 4)}{k}" for k in range(20)]
"""Columns of text, their names short, but for a few."""


def wide_record(random: Random, ends_in_text: bool) -> bytes:
    """Cells that are read with seven others at once; sometimes just not."""
    odd = ["", " ", "é", " a", "a ", '"a"', '"a,b"', "x" * 9, "x" * 30, '"two\nlines"', "Ж"]
    words = ["a", "1", "-", "3f", "x" * 7, "x" * 8, "1b2c", "a b", "aé"]
    few = random.choice([0.0, 0.0, 0.02, 0.1])
    cells = [random.choice(odd if random.random() < few else words) for _ in TEXTS]
    others = [random.choice(["1", "0", "spam"]), random.choice(["1", "2", "0.5"])]
    cells = [*others, *cells] if ends_in_text else [others[0], *cells, others[1]]
    cells = cells[: random.choice([len(cells)] * 9 + [len(cells) - 1])]
    return f"{','.join(cells)}{random.choice(['', '', chr(13)])}".encode()


def csv_twin(text: bytes, parser: Any, delimiter: str = ",") -> list[Any]:
    """What Python's csv and the meaning of the columns tell of a file."""
    found: list[Any] = []
    lines = TextLines(text if text.endswith(b"\n") or not text else text + b"\n")
    records = iter(Records(lines, delimiter))
    columns = Columns(next(records)[1], *parser)  # type: ignore[arg-type]
    for first, record in records:
        try:
            x, y, w = columns.example(record)
        except ValueError as error:
            found.append((first, str(error)))
            continue
        summed: dict[Any, float] = {}
        for name, v in zip(*flatten_features(x), strict=True):
            summed[name] = summed.get(name, 0.0) + v
        pairs = [(name, bits(v)) for name, v in summed.items() if v]
        found.append((first, pairs, y, w, x, lines.number, lines.offset))
    return found


@pytest.mark.parametrize("require_label", [True, False])
@pytest.mark.parametrize("wide", [False, True])
def test_mutated_csv_is_read_as_by_python(require_label: bool, wide: bool) -> None:
    random = Random(f"csv {require_label}")
    left, accepted = FUZZ // (4 if wide else 2), 0
    while left > 0:
        n = random.choice([1, 2, 10, 200])
        left -= n
        last = bool(random.randrange(2))
        rows = [wide_record(random, last) if wide else csv_record(random) for _ in range(n)]
        if random.randrange(3):
            rows = [mutated(row, random, CSV_PIECES) for row in rows]
        names = random.choice(
            [b"a,b,y,c,w,d", b"a,b,y,c,w,a", b'"a\nq",b,y,c,w,"d,""e"""', b"b=fr,b,y,c,w,d"]
        )
        texts = ["b", "c"]
        if wide:
            texts = TEXTS
            names = ",".join(["y", "w", *TEXTS] if last else ["y", *TEXTS, "w"]).encode()
        text = names + b"\n" + b"\n".join(rows) + random.choice([b"", b"\n", b"\n\n \n"])
        mark = random.choice([",", ",", "\t", ";", "\x01", " "])
        text = text.translate(bytes.maketrans(b"," + mark.encode(), mark.encode() + b","))
        ignored = random.choice([[], [], ["c"], TEXTS[3:5], ["w"]])
        ignored = [one for one in ignored if (one in TEXTS) == wide or one == "w"]
        weight = None if "w" in ignored else "w"
        texts = [one for one in texts if one not in ignored]
        parser = CsvParser("a.csv", "y", texts, weight, require_label, ignored, mark)
        found: list[Any] = []
        first = 0
        pieces = [text]
        if random.randrange(2):
            some = text.splitlines(keepends=True)
            some = b"".join(some).split(b"\n")
            pieces = [one + b"\n" for one in some[:-1]] + [some[-1]] * bool(some[-1])
        parsings = [parser.parse_chunk(pad_text(piece)) for piece in pieces]
        for parsed in [*parsings, parser.finish()]:
            if parsed is None:
                continue
            found += [(first + line + 1, reason) for line, reason in parsed.faults]
            for i in range(len(parsed)):
                pairs = [(name, bits(v)) for name, v in features(parsed.x, i).items()]
                w = 1.0 if parsed.w is None else float(parsed.w[i])
                at = (first + int(parsed.lines[i]) + 1, pairs, parsed.y[i], w, dict(parsed.x[i]))
                found.append((*at, first + parsed.lines_read(i)))
            first += parsed.n_lines
        roles = ("y", weight, frozenset(texts), require_label, frozenset(ignored))
        expected = csv_twin(text, roles, mark)
        accepted += sum(len(one) > 2 for one in expected)
        assert sorted(found, key=lambda one: one[0]) == [one[:6] for one in expected], text
    assert FUZZ / 40 < accepted < FUZZ / 2


@pytest.mark.parametrize("end", ["", "\r"])
def test_any_one_edit_of_a_record_is_read_as_by_python(end: str) -> None:
    header = ",".join(["y", *TEXTS]).encode()
    record = ",".join(["1", *(f"{k}a" for k in range(20))]) + end
    parser = CsvParser("a.csv", "y", TEXTS)
    for line in edits(record.encode(), CSV_PIECES):
        text = header + b"\n" + record.encode() + b"\n" + line + b"\n"
        parsed = parser.read(text)
        found: list[Any] = [(line + 1, reason) for line, reason in parsed.faults]
        for i in range(len(parsed)):
            pairs = [(name, bits(v)) for name, v in features(parsed.x, i).items()]
            found.append((int(parsed.lines[i]) + 1, pairs, parsed.y[i]))
        expected = csv_twin(text, ("y", None, frozenset(TEXTS), True))
        assert sorted(found, key=lambda one: one[0]) == [one[:3] for one in expected], text


@compiled
def test_ordinary_records_are_read_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_labels_of_csv_are_their_texts(labels: list[str]) -> None:
    text = "y,a\n" + "".join(f"{label},1\n" for label in labels)
    parsed = CsvParser("a.csv", "y").read(text.encode())
    quoted = [one[1:-1].replace('""', '"') for one in labels]
    expected = [quoted[k] if one[0] == '"' else one for k, one in enumerate(labels)]
    assert list(parsed.y) == parsed.y.tolist() == [parsed.y[k] for k in range(len(labels))]
    assert list(parsed.y) == expected and list(parsed.y[1:3]) == expected[1:3]


def test_no_label_of_csv_is_none() -> None:
    parsed = CsvParser("a.csv", "y", require_label=False).read(b"y,a\n1,1\n,2\n")
    assert list(parsed.y) == ["1", None]


@pytest.mark.parametrize("chunk", [1, 7, 300, 2**18])
def test_chunks_change_nothing_in_csv(
    chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nor does going on from where a block ended."""
    random = Random(7)
    records = [mutated(csv_record(random), random, CSV_PIECES) for _ in range(200)]
    text = b"a,b,y,c,w,d\n" + b"\n".join(records)
    path = tmp_path / "a.csv"
    path.write_bytes(text)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    columns: Any = {"target": "y", "categorical": ["b", "c"], "weight": "w"}
    refused = Refused()
    source: Any = open_source(path, **columns)
    source.begin(None)
    blocks = list(source.blocks(17, refused))
    found = [row for one in blocks for row in zip(one.lines, map(dict, one.x), one.y, strict=True)]
    expected = csv_twin(text, ("y", "w", frozenset(["b", "c"]), True))
    assert found == [(one[0], one[4], one[2]) for one in expected if len(one) > 2]
    assert len(refused) == sum(len(one) == 2 for one in expected)
    for at in (0, 3, len(blocks) - 1):
        source.begin(blocks[at].end)
        again = [line for one in source.blocks(17, refused) for line in one.lines]
        assert again == [line for one in blocks[at + 1 :] for line in one.lines]


@compiled
def test_ordinary_lines_are_read_by_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not one of them by Python."""
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


def test_ids_beyond_32_bits_among_others() -> None:
    text = f"1 {2**32 - 1}:1\n1 {2**32}:1 5:2\n-1 5:1 {2**63 - 1}:3\n1 5:1\n".encode()
    parsed = line_parser("svmlight").read(text)
    assert outcome(parsed) == outcome(twin("svmlight", True).read(text))
    model, other = (streaml1.ElasticNetClassifier(l1=1e-3) for _ in range(2))
    model.learn_many(parsed.x, parsed.y > 0)
    other.learn_many(list(parsed.x), parsed.y > 0)
    assert model.weights == other.weights and model.n_features_seen == 4


def test_nothing_is_read_of_nothing() -> None:
    for text in (b"", b"\n", b"\r\n\n", b"# no\n"):
        assert len(line_parser("svmlight").read(text)) == 0
    assert line_parser("svmlight").read(b"").n_lines == 0


@pytest.mark.parametrize("format", ["svmlight", "vw", "jsonl"])
def test_each_byte_may_be_a_line(format: str) -> None:
    """A blank line has one byte, and is an irregular row of vw and jsonl."""
    n = 300_000
    parsed = line_parser(format).read(b"\n" * n)
    assert len(parsed) == 0 and parsed.n_lines == n and not parsed.faults


def test_rows_are_dicts() -> None:
    parsed = line_parser("svmlight").read(b"1 3:1 4:2\n1\n1 5:1 5:2\n1 7:1\n")
    x = parsed.x
    assert x[1:][1] == x[-2] == {5: 3.0} and x[1] == {} and len(x[1:3]) == 2
    assert list(x[4:]) == [] and list(x[2:1]) == []
    with pytest.raises(IndexError):
        x[4]
    assert list(type(x).concatenate([x[2:], x[:1]])) == [{5: 3.0}, {7: 1.0}, {3: 1.0, 4: 2.0}]


# Files


def lines_for(n: int, seed: int) -> list[bytes]:
    random = Random(seed)
    return [mutated(svm_line(random), random) for _ in range(n)]


@pytest.mark.parametrize("chunk", [1, 7, 64, 300, 2**18])
@pytest.mark.parametrize("packed", [False, True])
def test_chunks_change_nothing(
    chunk: int, packed: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = b"\n".join(lines_for(300, 5))
    path = tmp_path / ("a.svm.gz" if packed else "a.svm")
    path.write_bytes(gzip.compress(text) if packed else text)
    monkeypatch.setattr(chunks, "CHUNK", chunk)
    refused = Refused()
    found = rows_of(open_source(path), 17, refused)
    expected, faults = [], []
    for number, line in enumerate(text.split(b"\n"), start=1):
        try:
            example = parse_svmlight(line.decode())
        except UnicodeDecodeError:
            faults.append(number)
        except ValueError:
            faults.append(number)
        else:
            expected += [] if example is None else [example]
    assert found == expected
    assert [int(place.rpartition(":")[2]) for place, _ in refused] == faults


def teaching_line(format: str, random: Random) -> str:
    """Some names are rare, some come twice, some values are zero."""
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
    "elastic net": lambda: streaml1.ElasticNetClassifier(l1=3e-3),
    "hashed": lambda: streaml1.ElasticNetClassifier(l1=1e-4, hash_bits=8),
    "capped": lambda: streaml1.ElasticNetClassifier(l1=1e-4, max_features=50),
    "ball": lambda: streaml1.L1BallClassifier(radius=5.0),
    "ftrl": lambda: streaml1.FTRLClassifier(),
    "eg": lambda: streaml1.EGClassifier(n_features=8000),
    "softmax": lambda: streaml1.SoftmaxClassifier(),
    "regressor": lambda: streaml1.ElasticNetRegressor(l1=1e-3),
}


CSV_NAMES = ["y", "n0", "n1", *(f"c{k}" for k in range(12)), "w"]
CSV_ROLES: dict[str, Any] = {"target": "y", "categorical": CSV_NAMES[3:-1], "weight": "w"}


def parse_csv(line: str) -> Any:
    columns = Columns(CSV_NAMES, "y", "w", frozenset(CSV_NAMES[3:-1]), True)
    return columns.example(line.split(","))


PARSE: dict[str, Any] = {
    "svm": parse_svmlight, "vw": parse_vw, "jsonl": parse_json, "csv": parse_csv,
}  # fmt: skip


ALL_TAUGHT = [(format, name) for format in ("svm", "vw") for name in MODELS]
SOME_TAUGHT = [(f, name) for f in ("jsonl", "csv") for name in ("elastic net", "hashed", "softmax")]


@pytest.mark.parametrize(("format", "name"), ALL_TAUGHT + SOME_TAUGHT)
def test_a_file_teaches_what_its_dicts_do(name: str, format: str, tmp_path: Path) -> None:
    random = Random(1)
    rows = [teaching_line(format, random) for _ in range(3000)]
    path = tmp_path / f"a.{format}"
    path.write_text("\n".join([",".join(CSV_NAMES)] * (format == "csv") + rows))
    parse = PARSE[format]
    source = open_source(path, **CSV_ROLES) if format == "csv" else path
    taught, other = MODELS[name](), MODELS[name]()
    report = streaml1.progressive(taught, source, every=700)
    for row in rows:
        x, y, w = parse(row)
        label = float(y) if name == "regressor" else int(y)
        other.learn_one(x, label, w)
    assert report.examples == 3000
    assert taught.weights == other.weights and taught.intercept == other.intercept
    # An estimate, once names were given back.
    assert taught.n_features_seen == pytest.approx(other.n_features_seen, rel=0.1)
    taught._engine.check()
    told = [one.p for one in predictions(taught, source)]
    dicts = [parse(row)[0] for row in rows]
    if name == "softmax":
        assert told == [other.predict_proba_one(x) for x in dicts]
    elif name == "regressor":
        assert told == [other.predict_one(x) for x in dicts]
    else:
        assert told == [other.predict_proba_one(x)[True] for x in dicts]


def test_names_from_text_and_from_dicts_are_the_same(tmp_path: Path) -> None:
    """In turn, with zeros given back, saved and loaded in between."""
    random = Random(3)
    one, other = (streaml1.ElasticNetClassifier(l1=2e-2) for _ in range(2))
    parser = line_parser("vw")
    for turn in range(40):
        lines = [
            f"{random.randrange(2)} |a "
            + " ".join(f"c=w{int(60 * random.random() ** 2) + 7 * turn}" for _ in range(60))
            for _ in range(30)
        ]
        parsed = parser.read("\n".join(lines).encode())
        dicts = [parse_vw(line)[0] for line in lines]  # type: ignore[index]
        assert list(parsed.x) == dicts
        batch: Any = parsed.x if turn % 2 else dicts
        if turn % 4 == 0:  # categories in their parts
            batch = [{"a^c": name.partition("=")[2]} for x in dicts for name in x][:30]
            dicts = [{f"a^c={x['a^c']}": 1.0} for x in batch]
        p = one.progressive_many(batch, parsed.y > 0)
        q = other.progressive_many(dicts, parsed.y > 0)
        assert p.tolist() == q.tolist()
        assert one.predict_many(parsed.x).tolist() == other.predict_many(list(parsed.x)).tolist()
        frozen = other.freeze().predict_proba_many(parsed.x)
        assert frozen.tolist() == other.predict_proba_many(list(parsed.x)).tolist()
        if turn % 10 == 9:
            one.save(tmp_path / "m")
            one = streaml1.load(tmp_path / "m")
        one._engine.check()
    assert one.weights == other.weights and len(one.weights) > 10


EVENTS = ["text"] * 4 + ["dicts", "one", "parts", "predict", "save", "space", "other", "int"]


@given(st.lists(st.tuples(st.sampled_from(EVENTS), st.integers(0, 5)), max_size=25))
def test_names_that_wait_as_bytes_are_names(plan: list[tuple[str, int]]) -> None:
    """A model that reads text beside one that gets the same as dicts, whatever comes between."""
    one, other = (streaml1.ElasticNetClassifier(l1=3e-2, lr=0.5) for _ in range(2))
    parser = line_parser("vw")
    for k, (event, shift) in enumerate(plan):
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
        elif event == "parts":
            batch = [{"c": name.partition("=")[2]} for x in dicts for name in x][:10]
            dicts = [{f"c={x['c']}": 1.0} for x in batch]
        elif event == "other":
            batch = dicts = [{("c", shift): 1.0}] * 10
        elif event == "int":
            batch = dicts = [{shift: 1.0, f"c=é{shift}": 2.0}] * 10
        elif event == "predict":
            assert one.predict_many(parsed.x).tolist() == other.predict_many(dicts).tolist()
        elif event == "save":
            one, other = pickle.loads(pickle.dumps(one)), copy.deepcopy(other)
        elif event == "space" and one.n_features_seen:
            for model in (one, other):
                model._engine._make_room(50)
        if event == "one":
            for model in (one, other):
                model.learn_one(dicts[0], bool(y[0]))
        elif event not in ("predict", "save", "space"):
            p, q = one.progressive_many(batch, y), other.progressive_many(dicts, y)
            assert p.tolist() == q.tolist()
        one._engine.check()
        assert [*one.weights.items()] == [*other.weights.items()], "and in this order"
        if event != "space":
            assert one.n_features_seen == other.n_features_seen
    assert streaml1.load(_saved(one)).weights == one.weights


def _saved(model: Any) -> Path:
    path = Path(tempfile.mkdtemp()) / "m"
    model.save(path)
    return path


def test_new_names_are_no_strings_until_they_are_asked_for() -> None:
    model = streaml1.ElasticNetClassifier(l1=1e-3)
    x = line_parser("vw").read(b"1 |a b c=d\n0 | b a^b\n").x
    model.learn_many(x, [True, False])
    model.learn_many(x, [True, False])
    names = model._engine.vocabulary
    assert names.keys == [] and len(names) == 3 and len(names.pending) == 3
    assert model.weights.keys() == {"a^b", "a^c=d", "b"} and names.keys == []
    model.learn_one({"b": 1.0}, True)
    assert names.keys == ["a^b", "a^c=d", "b"] and not len(names.pending)
    assert model.n_features_seen == 3


def test_a_bad_value_in_text_is_refused_by_its_row() -> None:
    for text in (b"1 |a b:1\n0 |a b:1e60 c:0\n", b"1 |a b:1\n0 |a b:9e49 b:9e49\n"):
        for bits_ in (None, 10):
            model, twin_ = (streaml1.ElasticNetClassifier(hash_bits=bits_) for _ in range(2))
            x = line_parser("vw").read(text).x
            refused = []
            for one, batch in ((model, x), (twin_, list(x))):
                with pytest.raises(streaml1.BadExample) as error:
                    one.learn_many(batch, [True, False])
                refused.append(error.value)
                assert one.n_iterations == 0 and one.weights == {}
            assert refused[0].row == refused[1].row == 1
            assert refused[0].reason == refused[1].reason


@pytest.mark.parametrize("format", ["svm", "vw"])  # a pipeline's scaler takes no strings
def test_pipelines_learn_the_dicts_of_a_file(format: str, tmp_path: Path) -> None:
    random = Random(4)
    rows = [teaching_line(format, random) for _ in range(200)]
    path = tmp_path / f"a.{format}"
    path.write_text("\n".join(rows))
    parse = PARSE[format]
    taught, other = (
        preprocessing.StandardScaler() | streaml1.ElasticNetClassifier() for _ in range(2)
    )
    streaml1.progressive(taught, path)
    for x, y, w in map(parse, rows):
        other.predict_proba_one(x)
        other.learn_one(x, int(y), w=w)
    assert taught["ElasticNetClassifier"].weights == other["ElasticNetClassifier"].weights


def test_rows_of_one_parser_do_not_share_memory() -> None:
    parser = line_parser("svmlight")
    kept = [parser.read(f"1 {k}:1 {k + 1}:2\n".encode()) for k in range(10)]
    assert [list(one.x) for one in kept] == [[{k: 1.0, k + 1: 2.0}] for k in range(10)]
    parser = line_parser("vw")
    kept = [parser.read(f"1 |a b{k} c:{k}\n".encode()) for k in range(1, 10)]
    for k, one in enumerate(kept, start=1):
        assert features(one.x, 0) == {f"a^b{k}": 1.0, "a^c": float(k)} == one.x[0]


@pytest.mark.parametrize("format", ["svm", "vw", "jsonl"])
def test_pieces_are_joined_as_they_were(format: str) -> None:
    random = Random(2)
    rows = [teaching_line(format, random).encode() for _ in range(40)]
    parser = line_parser({"svm": "svmlight"}.get(format, format))
    pieces = [parser.read(b"\n".join(rows[lo : lo + 10])).x[2:9] for lo in range(0, 40, 10)]
    joined = type(pieces[0]).concatenate(pieces)
    expected = [row for lo in range(0, 40, 10) for row in rows[lo + 2 : lo + 9]]
    whole = parser.read(b"\n".join(expected)).x
    assert list(joined) == list(whole)
    for k in range(len(expected)):
        assert features(joined, k) == features(whole, k)


WIDE = " ".join(f"{100 + k}:0.5" for k in range(20))


@pytest.mark.parametrize("more", ["", f" {WIDE}"])
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
def test_rows_of_ids_are_plain_only_where_they_are(cells: str, plain: bool, more: str) -> None:
    parser = line_parser("svmlight", True)
    assert parser.read(f"1 {WIDE}\n-1 {cells}{more}\n1 3:1\n".encode()).x.plain == plain
    assert parser.read(f"1 {more}{cells}\n".encode()).x.plain == (plain and not more)
    assert parser.read(f"1 {WIDE}\n".encode()).x.plain


@pytest.mark.parametrize("others", [0, 20])
@pytest.mark.parametrize(("value", "valued"), [("1", True), ("0", True), ("-1e60", False)])
@pytest.mark.parametrize("format", ["vw", "jsonl", "csv"])
def test_rows_of_names_tell_whether_values_are_known_to_be_fine(
    format: str, value: str, valued: bool, others: int, tmp_path: Path
) -> None:
    names = ["a", *(f"b{k}" for k in range(others))]
    values = [value, *("0.25" for _ in range(others))]
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
    assert block.x.values_checked == valued
    assert block.x[:1].values_checked == valued
    model = streaml1.ElasticNetClassifier()
    if not valued:
        with pytest.raises(streaml1.BadExample, match="'a' is too large"):
            model.learn_many(block.x, [True])
    else:
        model.learn_many(block.x, [True])
        assert model.n_features_seen == others + (value != "0")


EQUALS = st.sampled_from(["a", "b", "a=b", "b=a", "a=b=a", "="])


def written(rows: list[dict[str, Any]], names: list[str], format: str) -> str:
    if format == "jsonl":
        return "".join(f"{json.dumps({'y': 1, 'x': x})}\n" for x in rows)
    records = [["y", *names], *(["1", *(str(x.get(a, "")) for a in names)] for x in rows)]
    return "".join(f"{','.join(cells)}\n" for cells in records)


@given(
    st.lists(
        st.dictionaries(EQUALS, st.one_of(EQUALS, st.just(0.5)), min_size=1), min_size=1, max_size=9
    ),
    st.booleans(),
)
@pytest.mark.parametrize("wide", [0, 9])
@pytest.mark.parametrize("format", ["jsonl", "csv"])
def test_no_name_comes_twice_where_that_is_told(
    format: str, wide: int, rows: list[dict[str, Any]], without: bool
) -> None:
    if without:
        rows = [
            {a: v for a, v in x.items() if "=" not in a and "=" not in str(v)} | {"c": 0.5}
            for x in rows
        ]
    rows = [x | {f"more{k}": 0.25 for k in range(wide)} for x in rows]
    names = [*dict.fromkeys(name for x in rows for name in x)]
    roles: dict[str, Any] = {}
    if format == "csv":  # a column is of texts, or of numbers
        texts = {a for a in names if any(isinstance(x.get(a), str) for x in rows)}
        rows = [{a: str(v) if a in texts else v for a, v in x.items()} for x in rows]
        roles = {"target": "y", "categorical": texts}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"a.{format}"
        path.write_text(written(rows, names, format))
        (block,) = open_source(path, **roles).blocks(100, print)
    if COMPILED:
        told = names if format == "csv" else map(str, rows)
        assert block.x.plain == block.x[1:].plain == (not any("=" in one for one in told))
    for row, x in enumerate(rows):
        one, other = streaml1.ElasticNetClassifier(), streaml1.ElasticNetClassifier()
        one.learn_many(block.x[row : row + 1], [True])
        other.learn_one(x, True)
        assert one.weights == other.weights


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
def test_names_are_summed_before_their_slots(
    rows: list[list[tuple[str, float]]], hash_bits: int
) -> None:
    lines = ["1 | " + " ".join(f"{a}:{v!r}" for a, v in row) for row in rows]
    x = line_parser("vw").read("\n".join(lines).encode()).x
    for k, line in enumerate(lines):
        one, other = (streaml1.ElasticNetClassifier(hash_bits=hash_bits) for _ in range(2))
        one.learn_many(x[k : k + 1], [True])
        other.learn_one(parse_vw(line)[0], True)
        assert one.weights == other.weights


@pytest.mark.parametrize("kind", ["vw", "jsonl", "svmlight"])
def test_rows_stay_valid_while_parsers_read_on(kind: str) -> None:
    told = {"vw": "1 | a%d:2", "jsonl": '{"x": {"a%d": 2}, "y": 1}', "svmlight": "1 %d:2"}[kind]
    texts = ["".join(f"{told % (7 * n + k)}\n" for k in range(500)).encode() for n in range(9)]
    held = [line_parser(kind).read(text) for text in texts]
    one, other = line_parser(kind), line_parser(kind)
    for text in texts:
        one.read(text)  # the result is dropped
    held += [other.read(text) for text in texts]
    for n, parsed in enumerate(held):
        ids = range(7 * (n % 9), 7 * (n % 9) + 500)
        names = ids if kind == "svmlight" else [f"a{k}" for k in ids]
        assert list(parsed.x) == [{name: 2.0} for name in names]
        assert parsed.y.tolist() == [1.0] * 500


@pytest.mark.parametrize("kind", ["vw", "jsonl", "svmlight"])
def test_the_first_text_of_a_thread_may_be_empty(kind: str) -> None:
    """As where a message brings no record that holds an example."""
    read: list[ParsedChunk] = []
    thread = Thread(target=lambda: read.append(line_parser(kind).read(b"")))
    thread.start()
    thread.join()
    assert [len(one.x) for one in read] == [0]
