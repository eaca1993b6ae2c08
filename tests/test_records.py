"""Kafka records to blocks, compared with a plain loop over their lines."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streaml1.sources import SourceError
from streaml1.sources.kafka.records import RecordReader, record_parser
from streaml1.sources.readers.svmlight import parse_svmlight


class Record(NamedTuple):
    partition: int
    offset: int
    value: bytes | None
    topic: str = "t"
    timestamp: int = 7
    key: bytes | None = b"k"


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

    def refuse(place: str, *rest: Any) -> None:
        raise SourceError(place)

    got: list[str] = []
    last_end = None
    try:
        for block in reader.blocks(records, size, refuse):
            got += [block.place(row) for row in range(len(block))]
            last_end = block.end
        assert n_good == len(steps) and reader.position == end
    except SourceError as error:
        assert str(error) == steps[n_good].place
        if last_end is not None:
            assert places_after(records, last_end) == [step.place for step in steps[len(got) :]]
    assert got == [step.place for step in steps[:n_good]]


def test_empty_poll_yields_an_empty_block() -> None:
    reader = RecordReader("t", record_parser(None, True))
    reader.position = {0: (4, 0)}
    [block] = reader.blocks([], 10, pytest.fail)
    assert len(block) == 0 and block.after(0) == {0: (4, 0)}


def test_ids_stay_with_their_examples() -> None:
    lines = ['{"id": "a", "x": {}, "y": 1}', '{"x": {}, "y": 1}', '{"id": 7, "x": {}, "y": 1}']
    lines += ['{"id": 1.5, "x": {}, "y": 1}', '{"id": true, "x": {}, "y": 1}', "oops"]
    value = "\n".join([*lines, *lines[:2]]).encode()
    reader = RecordReader("t", record_parser("jsonl", True))
    blocks = list(reader.blocks([Record(0, 0, value)], 3, lambda *_: None))
    assert [block.ids for block in blocks] == [["a", None, 7], [None, None, "a"], [None]]
    svmlight_reader = RecordReader("t", record_parser(None, True))
    [block] = svmlight_reader.blocks([Record(0, 0, b"1 1:1")], 3, pytest.fail)
    assert block.ids is None


def test_json_and_svmlight_are_distinguished() -> None:
    reader = RecordReader("t", record_parser(None, True))
    records = [Record(0, 0, b' {"x": {"a": 1}, "y": 1}\n0 3:1')]
    [block] = reader.blocks(records, 10, pytest.fail)
    assert block.x == [{"a": 1}, {3: 1.0}] and block.y == [1, 0.0]


@pytest.mark.parametrize(
    ("prefix", "reason"),
    [
        (b"\xef\xbb\xbf", "the record starts with a byte order mark; write it without one"),
        (
            b"\0\0\0\0\7",
            "the record starts with a schema registry header of five bytes; write it without one",
        ),
    ],
)
def test_prefixes_of_json_are_reported(prefix: bytes, reason: str) -> None:
    reader = RecordReader("t", record_parser(None, True))
    rejected: list[tuple[Any, ...]] = []
    records = [Record(0, 0, prefix + b'{"x": {"a": 1}, "y": 1}'), Record(0, 1, b"1 3:1")]
    blocks = reader.blocks(records, 10, lambda *fault: rejected.append(fault))
    assert [block.x for block in blocks] == [[{3: 1.0}]]
    assert [fault[:2] for fault in rejected] == [("t/0@0", reason)]
