"""The first records of a topic, to look at before it is read."""

from __future__ import annotations

from streaml1.sources.kafka.records import KafkaBlock
from streaml1.sources.kafka.topic_source import KafkaSource
from streaml1.sources.source import Reject

__all__ = ["sample_topic"]


def sample_topic(source: KafkaSource, n: int, reject: Reject) -> list[bytes]:
    """Return the first `n` examples of a topic, or all, as the lines that its parser reads.

    Records of Avro and Protobuf are JSON lines. Records without a value are left out. Places and
    reasons of rejected examples are passed to `reject`.
    """
    lines: list[bytes] = []
    sources = None
    blocks = source.blocks(n, reject)
    for block in blocks:
        assert isinstance(block, KafkaBlock)
        if block.source is not None and block.source is not sources:
            sources = block.source
            lines += (line for line in sources.text.split(b"\n") if line.strip())
        if len(lines) >= n:
            break
    return lines[:n]
