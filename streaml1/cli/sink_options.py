"""Options for Kafka topics that a run writes, and the observers that write them."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.options import MAX_BAD_SHARE, Finite, together
from streaml1.cli.program import CommandError

if TYPE_CHECKING:
    from streaml1.sources.kafka.topic import Topic
    from streaml1.training import Observer

__all__ = [
    "sink_options",
    "sink_observers",
    "publish_options",
    "require_decaying_rates",
    "require_sinks",
    "require_skipping",
    "share_observers",
]

SINK_OPTION_NAMES = (
    "dead_letters", "most_bad", "predictions", "publish", "publish_every", "on_drift",
)  # fmt: skip

sink_options = together(
    click.option("--dead-letters", metavar="TOPIC",
                 help="Topic for rejected records, with --bad dead-letter.  "
                 "[default: the source's topic with .dlq]"),
    click.option("--predictions", metavar="TOPIC",
                 help="Write predictions to this topic on the brokers of the source, or to "
                 "kafka://HOST:PORT/TOPIC."),
)  # fmt: skip

publish_options = together(
    click.option("--publish", metavar="TOPIC",
                 help="Publish the model to this topic, for show, predict and streaml1.load."),
    click.option("--publish-every", type=Finite(min=0, min_open=True), metavar="SECONDS",
                 help="Interval of publishing; also at the end.  [default: 60]"),
    click.option("--on-drift", type=click.Choice(["log", "publish", "reset-rates", "ignore"]),
                 default="log", show_default=True,
                 help="What to do when the loss rises by more than chance allows: log it, publish "
                 "the model at once, too, restart the learning rates, or do not look."),
)  # fmt: skip


@contextmanager
def sink_observers(examples: Any, bad: str, options: dict[str, Any]) -> Iterator[list[Observer]]:
    """Yield the observers of a run that the options select, and close them afterwards."""
    given, topics = require_sinks(examples, bad, options)
    observers: list[Observer] = []
    with ExitStack() as stack:
        if given["predictions"] is not None:
            from streaml1.training.prediction_records import PredictionRecords

            observers.append(stack.enter_context(PredictionRecords(topics["--predictions"])))
        if bad == "dead-letter":
            from streaml1.training.dead_letters import DeadLetters

            observers.append(
                stack.enter_context(DeadLetters(examples.topic, given["dead_letters"]))
            )
        if given["publish"] is not None:
            from streaml1.training.model_publisher import DEFAULT_SECONDS, ModelPublisher

            every = given["publish_every"]
            publishing = ModelPublisher(
                topics["--publish"], DEFAULT_SECONDS if every is None else every
            )
            observers.append(stack.enter_context(publishing))
        observers += share_observers(bad, given["most_bad"])
        yield observers


def share_observers(bad: str, max_share: float | None) -> list[Observer]:
    """Return the observer that ends a run with too many rejected examples, if any is skipped."""
    require_skipping(bad, max_share)
    if bad == "fail":
        return []
    from streaml1.training.bad_share import MIN_REJECTED, BadShare

    if max_share is None and bad == "skip":  # the default share: do not judge by a few
        return [BadShare(MAX_BAD_SHARE, MIN_REJECTED)]
    return [BadShare(MAX_BAD_SHARE if max_share is None else max_share)]


def require_skipping(bad: str, max_share: float | None) -> None:
    """Reject --most-bad for a run that ends at the first rejected example."""
    if max_share is not None and bad == "fail":
        raise CommandError("--most-bad requires --bad dead-letter or skip")


def require_decaying_rates(on_drift: str, learner: Any, late: bool = False) -> None:
    """Raise CommandError if there are no rates that `--on-drift reset-rates` could reset."""
    if on_drift != "reset-rates":
        return
    if late:
        raise CommandError("--on-drift reset-rates cannot be combined with --label-within")
    if not learner.has_decaying_rates:
        raise CommandError(
            f"--on-drift reset-rates requires a model whose learning rates decay, got {learner!r}"
        )


def require_sinks(
    examples: Any, bad: str, options: dict[str, Any]
) -> tuple[dict[str, Any], dict[str, Topic]]:
    """Check the options; return their values, and the topics to write by option."""
    given = {name: options.get(name) for name in SINK_OPTION_NAMES}
    _require_consistent(bad, given)
    return given, _topics(examples, bad, given, options)


def _require_consistent(bad: str, given: dict[str, Any]) -> None:
    if given["dead_letters"] is not None and bad != "dead-letter":
        raise CommandError("--dead-letters requires --bad dead-letter")
    require_skipping(bad, given["most_bad"])
    if given["publish_every"] is not None and given["publish"] is None:
        raise CommandError("--publish-every requires --publish")
    if given["on_drift"] == "publish" and given["publish"] is None:
        raise CommandError("--on-drift publish requires --publish")


def _topics(
    examples: Any, bad: str, given: dict[str, Any], options: dict[str, Any]
) -> dict[str, Topic]:
    """Return the topic to write for each option; all of them are different."""
    read: Any = getattr(examples, "topic", None)
    if bad == "dead-letter" and read is None:
        raise CommandError(
            f"--bad dead-letter requires a Kafka source, got {examples.name}; use skip"
        )
    names = {"--predictions": given["predictions"], "--publish": given["publish"]}
    if bad == "dead-letter":
        from streaml1.training.dead_letters import SUFFIX

        names["--dead-letters"] = given["dead_letters"] or f"{read.name}{SUFFIX}"
    topics = {
        option: _topic(examples, option, name, options.get("kafka"))
        for option, name in names.items()
        if name is not None
    }
    taken = {} if options.get("labels") is None else {"--labels": read.sibling(options["labels"])}
    if options.get("mixed") is not None:
        taken["--mixed"] = _topic(examples, "--mixed", options["mixed"], None)
    for option, topic in topics.items():
        _require_apart(option, topic, taken)
        taken[option] = topic
    return topics


def _require_apart(option: str, topic: Topic, taken: dict[str, Topic]) -> None:
    from streaml1.sources.kafka.output_topics import is_same_topic

    for used_by, used in taken.items():
        if is_same_topic(topic, used):
            raise CommandError(f"{option} {topic.name} is also {used_by}: choose another topic")


def _topic(examples: Any, option: str, name: str, kafka: dict[str, Any] | None) -> Topic:
    """Return the topic that an option gives by name or URL."""
    from streaml1.sources.kafka.output_topics import output_topic
    from streaml1.sources.kafka.topic import Topic

    read = getattr(examples, "topic", None)
    if read is not None:
        return output_topic(read, name)
    if not name.startswith("kafka:"):
        remedy = f"use kafka://HOST:PORT/{name}"
        if option == "--predictions":
            remedy += f", or for a file streaml1 predict MODEL SOURCE > {shlex.quote(name)}"
        raise CommandError(f"{option} {name} names no broker: {remedy}")
    return Topic(name, kafka)
