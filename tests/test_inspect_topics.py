"""`streaml1 inspect` of topics, from the broker that scripts/test starts."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest

from tests.broker import Broker
from tests.command import error_of, run
from tests.test_avro_files import FIELDS, rows, schema_of

pytestmark = pytest.mark.kafka

CLICKS = [
    {"clicked": k % 3 % 2, "site": f"s{k % 4}", "price": f"{k * 0.7:.2f}", "user": {"age": k % 9}}
    for k in range(120)
]


def inspected(broker: Broker, values: list[bytes], *options: str) -> tuple[str, str, list[str]]:
    """Return the URL of a topic with these values, what inspect prints, and the last line."""
    topic = broker.topic()
    broker.send(topic, values)
    out = run("inspect", broker.url(topic), *options).stdout
    return broker.url(topic), out, shlex.split(out.splitlines()[-1])


@pytest.mark.parametrize("is_text", [False, True])
def test_members_of_json(broker: Broker, is_text: bool) -> None:
    """An object may be the text of a JSON string, as programs that encode it twice write it."""
    values = [json.dumps(json.dumps(row) if is_text else row).encode() for row in CLICKS]
    url, out, command = inspected(broker, values)
    assert "1  site      category" in out and "3  user.age  number" in out
    assert "first 120 examples, 4 members" in out
    expected = ["learn", url, "--target", "clicked", "--numeric", "price"]
    assert command == ["streaml1", *expected]
    assert "examples          120" in run(*expected, "--until-end").stdout


def test_examples_in_an_envelope(broker: Broker) -> None:
    values = [json.dumps({"payload": {"after": row}}).encode() for row in CLICKS]
    _, out, command = inspected(broker, values, "--at", "payload.after")
    assert "site      category" in out
    assert command[3:7] == ["--at", "payload.after", "--target", "clicked"]


def test_lines_of_csv(broker: Broker) -> None:
    values = [f"{row['clicked']},{row['site']},{row['price']}".encode() for row in CLICKS]
    options = ["--format", "csv", "--columns", "clicked,site,price"]
    url, out, command = inspected(broker, values, *options)
    assert "1  site     category" in out and "2  price    number" in out
    expected = ["learn", url, *options, "--target", "clicked", "--categorical", "site"]
    assert command == ["streaml1", *expected]


def test_records_with_a_schema(broker: Broker, tmp_path: Any) -> None:
    fastavro = pytest.importorskip("fastavro")
    from io import BytesIO

    schema = tmp_path / "click.avsc"
    schema.write_text(json.dumps(schema_of(FIELDS)))
    values = []
    for row in rows():
        out = BytesIO()
        fastavro.schemaless_writer(out, schema_of(FIELDS), row)
        values.append(out.getvalue())
    options = ["--format", "avro", "--schema", str(schema)]
    url, shown, command = inspected(broker, values, *options)
    assert "user.age" in shown and "device" in shown
    assert command[:7] == ["streaml1", "learn", url, *options[:2], "--schema", str(schema)]


def test_other_records_are_counted(broker: Broker) -> None:
    _, out, command = inspected(broker, [b"1 3:0.5", b"-1 7:1 9:2"])
    assert out.startswith("first 2 examples: 3 features, 1.5 in an example; labels:")
    assert command[:2] == ["streaml1", "learn"]
    values = [b'{"x": {"a": 1}, "y": 1}', b'{"x": {"b": 1}, "y": 0}']
    assert "first 2 examples: 2 features" in inspected(broker, values)[1]


def test_empty_topics_have_nothing_to_show(broker: Broker) -> None:
    url = broker.url(broker.topic())
    assert error_of("inspect", url) == f"{url} has no records with a value"
    broker.send(topic := broker.topic(), [b"\0\0\0\0\7abc"])
    message = error_of("inspect", broker.url(topic))
    assert f"{topic}/0@0: the record starts with the byte 0, as those of schema" in message
