"""What a command writes to topics beside: its options, and who writes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.options import Finite, together
from streaml1.cli.program import Refusal

if TYPE_CHECKING:
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training import Out

__all__ = ["OUTGOING", "outgoing_options", "outs_of", "publish_options", "require_outgoing"]

MOST_BAD = 0.05

OUTGOING = ("dead_letters", "most_bad", "predictions", "publish", "publish_every")

outgoing_options = together(
    click.option("--dead-letters", metavar="TOPIC",
                 help="Where --bad dead-letter puts what is refused.  "
                 "[default: the source's topic with .dlq]"),
    click.option("--most-bad", type=Finite(0, 1), metavar="SHARE",
                 help="End where more than this share of the last 1,000 examples was refused.  "
                 f"[default: {MOST_BAD} with --bad dead-letter]"),
    click.option("--predictions", metavar="TOPIC",
                 help="Write each prediction to this topic: at the brokers of the source, or "
                 "kafka://HOST:PORT/TOPIC."),
)  # fmt: skip

publish_options = together(
    click.option("--publish", metavar="TOPIC",
                 help="Put the model in this topic, for show, predict and load to read."),
    click.option("--publish-every", type=Finite(min=0, min_open=True), metavar="SECONDS",
                 help="How often, beside the end.  [default: 60]"),
)  # fmt: skip


@contextmanager
def outs_of(examples: Any, bad: str, options: dict[str, Any]) -> Iterator[list[Out]]:
    """Who hears of a run over a source, as the options say; they are closed behind it.

    Raises
    ------
    Refusal, SourceError
        One sentence, where an option does not fit, or its topic cannot be written.
    """
    asked, topics = require_outgoing(examples, bad, options)
    outs: list[Out] = []
    with ExitStack() as stack:
        if asked["predictions"] is not None:
            from streaml1.training.prediction_records import PredictionRecords

            outs.append(stack.enter_context(PredictionRecords(topics["--predictions"])))
        if bad == "dead-letter":
            from streaml1.training.dead_letters import DeadLetters

            outs.append(stack.enter_context(DeadLetters(examples.topic, asked["dead_letters"])))
        if asked["publish"] is not None:
            from streaml1.training.model_publisher import EVERY, Publishing

            every = asked["publish_every"]
            publishing = Publishing(topics["--publish"], EVERY if every is None else every)
            outs.append(stack.enter_context(publishing))
        most = asked["most_bad"]
        if most is not None or bad == "dead-letter":
            from streaml1.training.bad_share import BadShare

            outs.append(BadShare(MOST_BAD if most is None else most))
        yield outs


def require_outgoing(
    examples: Any, bad: str, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Topic]]:
    """What is asked for, and the topics it is written to; refused, where an option does not fit."""
    asked = {name: options.get(name) for name in OUTGOING}
    _require_fitting(bad, asked)
    return asked, _topics(examples, bad, asked, options)


def _require_fitting(bad: str, asked: dict[str, Any]) -> None:
    if asked["dead_letters"] is not None and bad != "dead-letter":
        raise Refusal("--dead-letters is for --bad dead-letter: give it too")
    if asked["most_bad"] is not None and bad == "fail":
        raise Refusal("--most-bad is for --bad dead-letter and skip: give one of them too")
    if asked["publish_every"] is not None and asked["publish"] is None:
        raise Refusal("--publish-every is for --publish: give it too")


def _topics(
    examples: Any, bad: str, asked: dict[str, Any], options: dict[str, Any]
) -> dict[str, Topic]:
    """What is written to, by option: each a topic of its own."""
    read: Any = getattr(examples, "topic", None)
    if bad == "dead-letter" and read is None:
        raise Refusal(f"--bad dead-letter is for topics, and {examples.name} is none: say skip")
    names = {"--predictions": asked["predictions"], "--publish": asked["publish"]}
    if bad == "dead-letter":
        from streaml1.training.dead_letters import ENDING

        names["--dead-letters"] = asked["dead_letters"] or f"{read.name}{ENDING}"
    topics = {
        option: _topic(examples, option, name, options.get("kafka"))
        for option, name in names.items()
        if name is not None
    }
    taken = {} if options.get("labels") is None else {"--labels": read.sibling(options["labels"])}
    for option, topic in topics.items():
        _require_apart(option, topic, taken)
        taken[option] = topic
    return topics


def _require_apart(option: str, topic: Topic, taken: dict[str, Topic]) -> None:
    from streaml1.sources.kafka.producer import is_same_topic

    for other, there in taken.items():
        if is_same_topic(topic, there):
            raise Refusal(f"{option} {topic.name} is also {other}: write to another topic")


def _topic(examples: Any, option: str, name: str, kafka: Any) -> Topic:
    """The topic of an option: its name, or its URL."""
    from streaml1.sources.kafka.producer import output_topic
    from streaml1.sources.kafka.topic import Topic

    read = getattr(examples, "topic", None)
    if read is not None:
        return output_topic(read, name)
    if not name.startswith("kafka:"):
        raise Refusal(f"{option} {name} says no broker: write kafka://HOST:PORT/{name}")
    return Topic(name, kafka)
