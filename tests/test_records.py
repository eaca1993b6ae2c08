"""Kafka records to blocks, compared with a plain loop over their lines."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import SourceError
from streaml1.sources.kafka import record_formats
from streaml1.sources.kafka import records as records_module
from streaml1.sources.kafka.record_formats import record_parser
from streaml1.sources.kafka.records import Origin, RecordReader
from streaml1.sources.readers.flat_json import NO_ROLES, JsonRoles
from streaml1.sources.readers.svmlight import parse_svmlight


class Record(NamedTuple):
    partition: int
    offset: int
    value: bytes | None
    topic: str = "t"
    timestamp: int = 7
    key: bytes | None = b"k"
    headers: Sequence[tuple[str, bytes | None]] = ()


class Step(NamedTuple):
    """A line that holds an example or is rejected, with the position after it."""

    place: str
    text: bytes
    is_bad: bool
    position: dict[int, tuple[int, int]]


def reference_steps(
    records: list[Record], start: dict[int, tuple[int, int]]
) -> tuple[list[Step], Any]:
    steps, position = [], dict(start)
    for record in records:
        start_position = start.get(record.partition, (-1, 0))
        skipped = start_position[1] if start_position[0] == record.offset else 0
        record_end = (record.offset + 1, 0)
        texts = (record.value or b"").split(b"\n")
        if len(texts) > 1 and not texts[-1]:
            texts.pop()
        for number, text in enumerate(texts, start=1):
            last = number == len(texts)
            position[record.partition] = record_end if last else (record.offset, number)
            if (number <= skipped and len(texts) > 1) or not text.strip():
                continue
            line = f":{number}" if len(texts) > 1 else ""
            try:
                parse_svmlight(text.decode())
                bad = False
            except ValueError:
                bad = True
            place = f"t/{record.partition}@{record.offset}{line}"
            steps.append(Step(place, text, bad, dict(position)))
        position[record.partition] = record_end
    return steps, position


LINES = st.sampled_from([b"1 1:1", b"0 2:0.5 7:1", b"", b" ", b"1 1:x", b"\xff", b"-1 3:1\r"])
VALUES = st.one_of(
    st.none(), LINES, LINES.map(lambda line: line + b"\n"), st.lists(LINES).map(b"\n".join)
)


@st.composite
def topics(draw: Any) -> list[Record]:
    offsets = [0, 0, 0]
    records = []
    for partition, gap, value in draw(
        st.lists(st.tuples(st.integers(0, 2), st.integers(1, 3), VALUES), max_size=20)
    ):
        offsets[partition] += gap
        records.append(Record(partition, offsets[partition], value))
    return records


def records_from(records: list[Record], position: dict[int, tuple[int, int]]) -> list[Record]:
    return [
        record for record in records if record.offset >= position.get(record.partition, (0, 0))[0]
    ]


@given(topics(), st.integers(1, 7), st.integers(1, 9))
def test_lines_before_a_block_end_are_rejected_and_no_others(
    records: list[Record], size: int, poll_size: int
) -> None:
    """A position saved between two blocks counts each rejected line exactly once."""
    bad = {step.place for step in reference_steps(records, {})[0] if step.is_bad}
    reader = RecordReader("t", record_parser("svmlight", True))
    rejected: set[str] = set()
    for lo in range(0, len(records), poll_size):
        for block in reader.blocks(
            records[lo : lo + poll_size], size, lambda place, *rest: rejected.add(place)
        ):
            assert rejected == bad - set(places_after(records, block.end))
            assert reader.position == block.end
    assert rejected == bad


@given(topics(), st.integers(1, 7), st.integers(1, 9))
def test_blocks_are_the_lines_in_order(records: list[Record], size: int, poll_size: int) -> None:
    steps, end = reference_steps(records, {})
    reader = RecordReader("t", record_parser("svmlight", True))
    rejected: list[tuple[int, Any]] = []
    got: list[tuple[int, Any]] = []
    for lo in range(0, len(records), poll_size):
        for block in reader.blocks(
            records[lo : lo + poll_size],
            size,
            lambda place, reason, number, origin: rejected.append((number, origin)),
        ):
            assert len(block) <= size
            for row in range(len(block)):
                got.append((block.lines[row], block.origin(row)))
                if row + 1 < len(block):
                    assert places_after(records, block.after(row + 1)) == [
                        step.place for step in steps[block.lines[row] :]
                    ]
    assert reader.position == end
    lines = sorted([*got, *rejected], key=lambda item: item[0])
    assert [number for number, _ in lines] == list(range(1, len(steps) + 1))
    assert [origin.place for _, origin in lines] == [step.place for step in steps]
    assert [origin.value for _, origin in lines] == [step.text for step in steps]
    assert {number for number, _ in rejected} == {
        number for number, step in enumerate(steps, start=1) if step.is_bad
    }


def places_after(records: list[Record], position: Any) -> list[str]:
    """Return the places of the lines after a position."""
    return [step.place for step in reference_steps(records_from(records, position), position)[0]]


@given(topics(), st.integers(0, 30))
def test_reader_resumes_within_a_record(records: list[Record], n: int) -> None:
    steps, _ = reference_steps(records, {})
    if not steps:
        return
    step = steps[n % len(steps)]
    reader = RecordReader("t", record_parser("svmlight", True))
    reader.position = dict(step.position)
    seen: list[str] = []
    blocks = list(
        reader.blocks(
            records_from(records, step.position), 100, lambda place, *rest: seen.append(place)
        )
    )
    seen += [block.place(row) for block in blocks for row in range(len(block))]
    assert sorted(seen) == sorted(step.place for step in steps[n % len(steps) + 1 :])


@given(topics(), st.integers(1, 7))
def test_examples_before_a_raising_rejection_come_first(records: list[Record], size: int) -> None:
    steps, end = reference_steps(records, {})
    n_good = next((k for k, step in enumerate(steps) if step.is_bad), len(steps))
    reader = RecordReader("t", record_parser("svmlight", True))

    def reject(place: str, *rest: Any) -> None:
        raise SourceError(place)

    got: list[str] = []
    last_end = None
    try:
        for block in reader.blocks(records, size, reject):
            got += [block.place(row) for row in range(len(block))]
            last_end = block.end
        assert n_good == len(steps) and reader.position == end
    except SourceError as error:
        assert str(error) == steps[n_good].place
        if last_end is not None:
            assert places_after(records, last_end) == [step.place for step in steps[len(got) :]]
    assert got == [step.place for step in steps[:n_good]]


def test_origin_of_a_place() -> None:
    for line, place in ((0, "clicks/3@17"), (2, "clicks/3@17:2")):
        origin = Origin("clicks", 3, 17, 0, line, None, b"1 1:1")
        assert origin.place == place
        assert Origin.from_place(place, b"1 1:1") == origin
    assert not any(Origin.from_place(place, b"") for place in ("a.svm:3", "t/0@7x", "t/x@7"))


def test_empty_poll_yields_an_empty_block() -> None:
    reader = RecordReader("t", record_parser(None, True))
    reader.position = {0: (4, 0)}
    [block] = reader.blocks([], 10, pytest.fail)
    assert len(block) == 0 and block.after(0) == {0: (4, 0)}


def test_ids_stay_with_their_examples() -> None:
    lines = ['{"id": "a", "x": {}, "y": 1}', '{"x": {}, "y": 1}', '{"id": 7, "x": {}, "y": 1}']
    lines += ['{"id": 1.5, "x": {}, "y": 1}', '{"id": true, "x": {}, "y": 1}', '{"y": 1}']
    value = "\n".join([*lines, *lines[:2]]).encode()
    reader = RecordReader("t", record_parser("jsonl", True))
    blocks = list(reader.blocks([Record(0, 0, value)], 3, lambda *_: None))
    assert [block.ids for block in blocks] == [["a", None, 7], ["1.5", None, "a"], [None]]
    svmlight_reader = RecordReader("t", record_parser(None, True))
    [block] = svmlight_reader.blocks([Record(0, 0, b"1 1:1")], 3, pytest.fail)
    assert block.ids is None


class Read(NamedTuple):
    """What a reader makes of the values of some records."""

    x: list[Any]
    y: list[Any]
    rejected: list[tuple[str, bytes]]
    """Places and dead letters."""
    reasons: list[str]


def read(*values: bytes, format: str | None = None, roles: JsonRoles = NO_ROLES) -> Read:
    reader = RecordReader("t", record_parser(format, True, (), roles))
    rejected: list[tuple[str, bytes]] = []
    reasons: list[str] = []

    def reject(place: str, reason: str, number: int, origin: Any) -> None:
        rejected.append((place, origin.value))
        reasons.append(reason)

    records = [Record(0, offset, value) for offset, value in enumerate(values)]
    blocks = list(reader.blocks(records, 100, reject))
    assert reader.position == {0: (len(values), 0)}
    x, y = ([row for block in blocks for row in list(column(block))] for column in (X, Y))
    return Read(x, y, rejected, reasons)


X, Y = attrgetter("x"), attrgetter("y")
JSON_FORMATS = pytest.mark.parametrize("format", [None, "jsonl", "json"])


def test_the_format_is_decided_for_each_record() -> None:
    found = read(b' {"x": {"a": 1}, "y": 1}\n', b"0 3:1\n1 4:1")
    assert found == Read([{"a": 1}, {3: 1.0}, {4: 1.0}], [1, 0.0, 1.0], [], [])


def test_lines_of_the_other_format_are_rejected() -> None:
    example = b'{"x": {"a": 1}, "y": 1}'
    assert read(example + b"\n0 3:1").rejected == [("t/0@0", example + b"\n0 3:1")]
    assert read(b"0 3:1\n" + example).rejected == [("t/0@0:2", example)]


INDENTED = json.dumps({"user": 7, "clicks": [1, 0, 1]}, indent=2).encode()


@JSON_FORMATS
@pytest.mark.parametrize(
    "value",
    [
        INDENTED,
        INDENTED[:-2],
        INDENTED.replace(b"7", b'"a\nb"'),
        b'[\n{"x": {"a": 1}, "y": 1},\n{"x": {"a": 1}, "y": 1}\n',
        b'[\n{"x": {"a": 1}, "y": 1},\n1\n]',
        b'{"log": [\n{"x": {"a": 1}, "y": 1}\n]}',
        b'{"x": {"a": 1}, "y": 1}\noops\n{"x": {"a": 1}, "y": 1}',
        b'{"x": {"a": 1}, "y": 1}\n{"x": {"a": 1}, "y',
        b'{"x": {"a": 1}}\n{\n"x": {"a": 1}, "y": 1}',
        b'{"a": {}\n}',
        b"[1, 2]",
        b'"a\n1 3:1"',
        b'{"x": {"a": "\xff\n1 3:1"}, "y": 1}',
    ],
)
def test_no_fragment_of_json_is_learnt(format: str | None, value: bytes) -> None:
    good = b'{"x": {"b": 1}, "y": 0}'
    found = read(good, value, good, format=format)
    assert found.x == [{"b": 1}, {"b": 1}]
    assert found.rejected == [("t/0@1", value)]


@JSON_FORMATS
def test_json_of_several_lines_is_one_example(format: str | None) -> None:
    example = {"x": {"a": 1, "b": "c"}, "y": 1}
    value = json.dumps(example, indent=2).encode().replace(b"\n", b"\r\n")
    found = read(value, b"  \n" + value + b"\n\n", format=format)
    assert found == Read([example["x"]] * 2, [1, 1], [], [])


@JSON_FORMATS
@pytest.mark.parametrize("indent", [None, 2])
def test_arrays_of_objects_are_several_examples(format: str | None, indent: int | None) -> None:
    examples = [{"x": {"a": k}, "y": 1} for k in (1, 2)]
    value = json.dumps([*examples, {"x": {}}], indent=indent).encode()
    found = read(b"[]", value, b" [" + json.dumps(examples[0]).encode() + b"]", format=format)
    assert found.x == [{"a": 1}, {"a": 2}, {"a": 1}]
    assert [place for place, _ in found.rejected] == ["t/0@1:3"]
    assert json.loads(found.rejected[0][1]) == {"x": {}}


def test_reader_resumes_within_an_array() -> None:
    value = json.dumps([{"x": {"a": k}, "y": 1} for k in (1, 2, 3)]).encode()
    reader = RecordReader("t", record_parser(None, True))
    reader.position = {0: (0, 1)}
    [block] = reader.blocks([Record(0, 0, value)], 10, pytest.fail)
    assert list(block.x) == [{"a": 2}, {"a": 3}] and block.place(0) == "t/0@0:2"
    assert block.after(1) == {0: (0, 2)} and block.after(2) == {0: (1, 0)}


def test_reason_names_the_line_that_is_no_object() -> None:
    found = read(b'{"x": {"a": 1}, "y": 1}\n\noops', b'{\n "x": {\n"a": oops}}')
    assert found.reasons == [
        "the lines of the record must be JSON objects, but line 3 is not",
        "not JSON: Expecting value at line 3, column 6 ('oops}}')",
    ]


FLAT = {"clicked": 1, "site": "news", "user": {"age": 3}}


@pytest.mark.parametrize("format", [None, "jsonl"])
def test_flat_records(format: str | None) -> None:
    lines = b"\n".join(json.dumps(example).encode() for example in (FLAT, FLAT | {"clicked": 0}))
    values = lines, json.dumps(FLAT, indent=1).encode(), json.dumps([FLAT]).encode(), b"1 3:1"
    found = read(*values, format=format, roles=JsonRoles("clicked"))
    assert found.x == [{"site": "news", "user.age": 3}] * 4 and found.y == [1, 0, 1, 1]
    assert found.rejected == [("t/0@3", b"1 3:1")]


def test_json_in_a_string_is_read() -> None:
    """A JSON serializer that is given text writes it so."""
    text = json.dumps(FLAT)
    values = json.dumps(text).encode(), json.dumps("no object").encode(), b'"{\\"clicked\\": }"'
    found = read(*values, roles=JsonRoles("clicked"))
    assert found.x == [{"site": "news", "user.age": 3}] and found.y == [1]
    assert found.reasons[0].startswith("'no object' is not an example")
    assert found.reasons[1].startswith("not JSON: Expecting value")


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"\xef\xbb\xbf{}", "the record starts with a byte order mark; write it without one"),
        # Without a time stamp: the value names the test, which every worker must name alike.
        (
            gzip.compress(b"{}", mtime=0),
            "the record is compressed by gzip: write it as it is, and let",
        ),
        (b"Obj\x01\x04", "the record is a container file of Avro: write the records one by one"),
        (
            b"\xc3\x01{}",
            'the record is Avro in its single-object encoding: use format="avro", schema="FILE"',
        ),
        (
            b"1,news,2.5",
            'the record is not JSON: use format="csv", "tsv", "vw", "svmlight", "avro" or',
        ),
        (
            b"1,news\n0,mail\n",
            'the record is not JSON: use format="csv", "tsv", "vw", "svmlight", "avro"',
        ),
        (
            b"<a/>",
            'the record is not JSON: use format="csv", "tsv", "vw", "svmlight", "avro" or "prot',
        ),
    ],
)
def test_records_that_are_no_text(value: bytes, reason: str) -> None:
    found = read(value, roles=JsonRoles("clicked"))
    assert len(found.reasons) == 1 and found.reasons[0].startswith(reason)


def test_vowpal_wabbit_text_without_its_format() -> None:
    for line in (b"1 |ad site", b"1 'tag|ad site"):
        [reason] = read(line, format=None).reasons
        assert reason.endswith('; if this is Vowpal Wabbit text, use format="vw"')


@JSON_FORMATS
@pytest.mark.parametrize("is_flat", [False, True])
def test_tombstones_of_json_serializers_are_skipped(format: str | None, is_flat: bool) -> None:
    """A serializer writes null for a record without a value; in an array it is an error."""
    example = json.dumps(FLAT if is_flat else {"x": {"a": 1}, "y": 1}).encode()
    roles = JsonRoles("clicked") if is_flat else JsonRoles()
    values = example, b"null", b" null\n", b"[null]", b"nulls", example
    found = read(*values, format=format, roles=roles)
    assert len(found.x) == 2 and [place for place, _ in found.rejected] == ["t/0@3", "t/0@4"]
    found = read(b"null", example, format=format, roles=roles)
    assert len(found.x) == 1 and not found.rejected


def test_deletes_in_an_envelope_are_skipped() -> None:
    envelopes: list[Any] = [{"after": FLAT}, {"after": None}, None]
    values = [json.dumps({"payload": envelope}).encode() for envelope in envelopes]
    found = read(*values, b'{"payload": {}}', roles=JsonRoles("clicked", at="payload.after"))
    assert found.x == [{"site": "news", "user.age": 3}] and found.rejected[0][0] == "t/0@3"
    assert found.reasons == ["the line has nothing at 'payload.after': its members are: payload"]


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        (b"\xef\xbb\xbf", "the record starts with a byte order mark; write it without one"),
        (b"\xff\xfe", "the record is text in UTF-16; write it in UTF-8"),
        (
            b"\0",
            "the record starts with the byte 0, as those of schema registries do: use "
            'schema_registry="URL"',
        ),
    ],
)
def test_prefixes_of_json_are_reported(prefix: bytes, reason: str) -> None:
    reader = RecordReader("t", record_parser(None, True))
    rejected: list[tuple[Any, ...]] = []
    records = [Record(0, 0, prefix + b'{"x": {"a": 1}, "y": 1}'), Record(0, 1, b"1 3:1")]
    blocks = reader.blocks(records, 10, lambda *fault: rejected.append(fault))
    assert [list(block.x) for block in blocks] == [[{3: 1.0}]]
    assert [fault[:2] for fault in rejected] == [("t/0@0", reason)]


def test_large_records_are_rejected_as_a_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records_module, "MAX_RECORD", 12)
    monkeypatch.setattr(records_module, "SHOWN_BYTES", 4)
    result = read(b"1 1:1", b"1 1:1 2:1 3:1", b"0 2:1\n0 2:2")
    assert result.y == [1.0, 0.0, 0.0]
    assert result.rejected == [("t/0@1", b"1 1:")]
    assert result.reasons == ["the record has 13 bytes, more than 12"]


def test_records_of_too_many_lines_are_rejected_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records_module, "MAX_PIECES", 3)
    value = b"1 1:1\n" * 4
    result = read(b"1 1:1\n" * 3, value, b"0 1:1")
    assert result.y == [1.0, 1.0, 1.0, 0.0]
    assert result.rejected == [("t/0@1", value)]
    assert result.reasons == ["the record has 4 lines, more than 3"]


def test_arrays_of_too_many_elements_are_rejected(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(record_formats, "MAX_PIECES", 2)
    value = b'[{"y":1,"x":{}},{"y":1,"x":{}},{"y":1,"x":{}}]'
    result = read(value)
    assert result.rejected == [("t/0@0", value)]
    assert result.reasons == ["the record has 3 elements, more than 2"]


def test_records_with_many_rejected_lines_are_rejected_as_a_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records_module, "MAX_REJECTED_LINES", 2)
    bad = b"1 1:1\n1 x\n1 y\n1 z"
    result = read(b"1 1:1\n1 x\n1 y", bad, b"0 1:1")
    assert result.y == [1.0, 0.0]
    assert result.rejected == [("t/0@0:2", b"1 x"), ("t/0@0:3", b"1 y"), ("t/0@1", bad)]
    start = "3 lines of the record are rejected, more than 2; the first one: "
    assert result.reasons[2].startswith(start)


def test_poison_records_take_less_than_a_few_seconds() -> None:
    values = b"\n" * 200_000_000, b"1 x\n" * 99_000, b"1 x\n" * 5_000_000
    started = time.process_time()
    result = read(*values, b"1 1:1")
    assert result.y == [1.0]
    assert [place for place, *_ in result.rejected] == ["t/0@0", "t/0@1", "t/0@2"]
    assert time.process_time() - started < 10.0


@given(topics(), st.integers(1, 5), st.integers(1, 40))
def test_limits_of_bytes_keep_order(records: list[Record], size: int, limit: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(records_module, "MAX_RECORD", limit)
        parts = list(records_module._parts(records, size))
    assert [record for part in parts for record in part] == records
    for part in parts:
        assert len(part) <= size
        assert len(part) <= 1 or sum(len(record.value or b"") for record in part) <= limit
