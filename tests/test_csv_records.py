"""Kafka records that are lines of CSV, held to Python's reader of each line by itself."""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import streaml1
from streaml1 import ElasticNetClassifier
from streaml1.cli import cli
from streaml1.sources import SourceOptions, open_source
from streaml1.sources.kafka.csv_records import CsvRecords
from streaml1.sources.kafka.record_formats import RecordParser
from streaml1.sources.kafka.records import RecordReader
from streaml1.sources.readers.csv import CsvParser
from streaml1.training.group_source import GroupTopic
from tests.topics import records_of

COLUMNS = ["y", "site", "n", "id"]
LINES = [
    b"1,news,2.5,a", b"0,mail,,b", b"1,\"a,b\",1,c", b"0,\"say \"\"x\"\"\",2,", b"1,a\"b,3,d",
    b"1,a\"b,\"3", b"1,\"open,1,e", b"closed\",2,f", b"1,news,x,g", b"1,news", b",news,1,h", b"",
    b"y,site,n,id", b"1,\xff,1,i", b" 1 , news ,1,\"j\"\r",
]  # fmt: skip


class Record(NamedTuple):
    offset: int
    value: bytes | None
    partition: int = 0
    topic: str = "t"
    timestamp: int = 7
    key: bytes | None = None
    headers: tuple[()] = ()


def parser() -> CsvRecords:
    return CsvRecords(CsvParser("t", "y", ["site"], column_names=COLUMNS, id="id"))


def outcomes(records: list[Record]) -> list[Any]:
    """Return examples and dead letters of some records, with their places."""
    found: list[Any] = []

    def reject(place: str, reason: str, number: int, origin: Any) -> None:
        found.append((place, origin.value))

    reader = RecordReader("t", RecordParser(parser().read, False))
    for block in reader.blocks(records, 3, reject):
        ids = block.ids or [None] * len(block)
        rows = zip(range(len(block)), block.x, block.y, ids, strict=True)
        for row, x, y, id in rows:
            named = {
                f"{k}={v}" if isinstance(v, str) else k: 1.0 if isinstance(v, str) else v
                for k, v in x.items() if v
            }  # fmt: skip
            found.append((block.place(row), named, y, id))
    if records:
        assert reader.position == {0: (records[-1].offset + 1, 0)}
    return sorted(found, key=lambda item: item[0])


@given(st.lists(st.lists(st.sampled_from(LINES), max_size=4).map(b"\n".join), max_size=6))
def test_no_record_reaches_into_another(values: list[bytes]) -> None:
    records = [Record(k, value) for k, value in enumerate(values)]
    single = []
    for record in records:
        for number, line in enumerate(lines := (record.value or b"").split(b"\n"), start=1):
            [*found] = outcomes([Record(record.offset, line)])
            place = f"t/0@{record.offset}" + (f":{number}" if len(lines) > 1 else "")
            # A value that ends with an empty line has one line less.
            trimmed = len(lines) == 2 and not lines[-1]
            place = f"t/0@{record.offset}" if trimmed else place
            single += [(place, *rest) for _, *rest in found]
    assert outcomes(records) == sorted(single, key=lambda item: item[0])


def test_rows_and_dead_letters() -> None:
    found = outcomes([Record(k, line) for k, line in enumerate(LINES)])
    assert [item[0][4:] for item in found if len(item) > 2] == [
        str(k) for k in sorted([0, 1, 2, 3, 4, 14], key=str)
    ]
    assert ("t/0@2", {"site=a,b": 1.0, "n": 1.0}, "1", "c") in found
    assert ("t/0@6", LINES[6]) in found and ("t/0@7", LINES[7]) in found


def test_standard_input_without_header() -> None:
    options = "--format csv --columns y,site,n --target y --categorical site"
    text = "1,news,2\n0,mail,1\n" * 20
    result = CliRunner().invoke(cli, ["learn", "-", *options.split()], input=text)
    assert result.exit_code == 0 and "40" in result.output


def test_consumer_groups_read_them() -> None:
    options = SourceOptions(
        format="csv", group="g", column_names=COLUMNS, target="y", categorical=["site"], id="id"
    )
    source = GroupTopic("kafka://127.0.0.1:1/t", options, (), "Group", "--per-partition")
    rejected: list[str] = []
    records = [Record(0, b"1,news,2.5,a"), Record(1, b'1,"open,1,e'), Record(2, b"0,mail,1,b")]
    blocks = source.reader().blocks(records, 10, lambda place, *_: rejected.append(place))
    found = [
        example
        for block in blocks
        for example in zip(block.x, block.y, block.ids or (), strict=True)
    ]
    assert found == [({"site": "news", "n": 2.5}, "1", "a"), ({"site": "mail", "n": 1.0}, "0", "b")]
    assert len(rejected) == 1


@pytest.mark.kafka
def test_topics_of_csv(broker: Any) -> None:
    topic = broker.topic()
    lines = [line for line in LINES if line] + [b"1,news,1,k", b"0,mail,2,l"]
    broker.send(topic, lines)
    url = broker.url(topic)
    options: Any = {
        "format": "csv", "column_names": COLUMNS, "target": "y", "id": "id",
        "categorical": ["site"], "until_end": True,
    }  # fmt: skip
    model = ElasticNetClassifier()
    report = streaml1.progressive(model, open_source(url, **options), bad="skip")
    assert (report.examples, report.rejected) == (8, 7)
    assert "site=a,b" in model.weights
    arguments = "--format csv --columns y,site,n,id --target y --id id --categorical site"
    command = ["learn", url, *arguments.split(), "--until-end", "--bad", "dead-letter"]
    command += ["--dead-letters", f"{topic}.dlq"]
    result = CliRunner().invoke(cli, command)
    assert result.exit_code == 0, result.output
    values = [record.value for record in records_of(broker, f"{topic}.dlq")]
    assert len(values) == 7 and LINES[6] in values
