"""``streaml1 predict``: predict the examples of a source with a fixed model."""

from __future__ import annotations

import json
from collections.abc import Callable, Hashable
from math import fsum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.messages import logged, report_problem
from streaml1.cli.model_factory import published
from streaml1.cli.option_checks import MODEL_REMEDY, require_prefixes
from streaml1.cli.options import (
    is_topic,
    model_path,
    opened,
    positive,
    source_argument,
    source_options,
)
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import log_option
from streaml1.cli.sink_options import sink_observers, sink_options
from streaml1.cli.weight_tables import weight_text
from streaml1.core.text_table import printable
from streaml1.optim.tasks import REGRESSION

if TYPE_CHECKING:
    from streaml1.models.base import OnlineModel
    from streaml1.models.explanation import Explanation
    from streaml1.training import Prediction

__all__ = ["predict"]


@cli.command(
    basics=("format", "categorical", "bad", "limit", "as_json", "explain", "until_end",
            "predictions"),
    epilog="Example: zcat new.jsonl.gz | streaml1 predict clicks.model - --format jsonl",
)  # fmt: skip
@click.argument("model", type=model_path)
@source_argument
@source_options(dead_letters=True)
@kafka_options
@log_option
@sink_options
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Write JSON with the line of the example, or its place in a topic, its id and the "
    "prediction.",
)
@click.option("--explain", type=positive, metavar="K",
              help="Also write the K features that contribute most to the margin, and the "
              "intercept.")  # fmt: skip
def predict(
    model: str | Path,
    source: str | list[str],
    limit: int | None,
    bad: str,
    as_json: bool,
    explain: int | None,
    **options: Any,
) -> None:
    """Predict each example of SOURCE with MODEL.

    MODEL is a file written by learn --save, a directory of learn --checkpoint, or the topic of
    learn --publish or --mixed, whose latest model is used.

    Each line is the probability of True, the value for regressors, or the most probable label for
    multiclass models. SOURCE needs no labels. With --bad skip, a rejected example yields an empty
    line. With --predictions, the output goes to the topic instead.

    With --explain, tabs separate the prediction and its largest contributions; for a multiclass
    model they are those to the margin of the predicted label.
    """
    from streaml1.training import RunConfig, prediction_blocks

    if explain and options["predictions"] is not None:
        raise click.UsageError("--explain cannot be combined with --predictions")
    from streaml1.training.model_adapter import learner_of, text_features

    pipeline = published(model, options["kafka"], source)
    learner = learner_of(pipeline)
    if explain and learner is not pipeline:
        raise CommandError(
            f"--explain requires a model, but {model} holds a river pipeline; "
            "explain its examples in Python with debug_one"
        )
    texts = text_features(pipeline)
    if options["id"] is not None and not as_json and options["predictions"] is None:
        report_problem("--id: lines of text have no ids; use --json to write them")
    examples = opened(source, options, require_label=False, text=texts, model=pipeline)
    require_prefixes(source, options["format"], learner.cross, MODEL_REMEDY)

    by_place = is_topic(source) or hasattr(examples, "files")
    line = _line_format(learner.loss, by_place, as_json, explain or 0)
    written = options["predictions"] is not None
    with logged(), sink_observers(examples, bad, options) as observers:
        skip = "skip" if bad == "dead-letter" else bad
        config = RunConfig(limit=limit, bad=skip, observers=observers)
        unknown = _UnknownFeatures(learner, active=learner is pipeline)
        for block in prediction_blocks(pipeline, examples, config, explain=bool(explain)):
            unknown.inspect(block)
            if not written:
                click.echo("\n".join(map(line, block)))
        unknown.end()


def _line_format(
    loss: str, by_place: bool, as_json: bool, n_explained: int
) -> Callable[[Prediction], str]:
    """Return a function that writes a prediction as a line of the output.

    Parameters
    ----------
    loss
        The loss of the model.
    by_place
        Whether JSON has the place of the example instead of its line.
    as_json
        Whether lines are JSON.
    n_explained
        Number of features that explain a prediction, if it has an explanation.
    """
    from streaml1.sources.class_labels import class_text
    from streaml1.training.prediction_records import to_json_label

    key = "value" if loss in REGRESSION else "p"

    def line(prediction: Prediction) -> str:
        p = prediction.p
        place: dict[str, Any] = (
            {"place": prediction.place} if by_place else {"line": prediction.line}
        )
        if prediction.id is not None:
            place["id"] = prediction.id
        best: Hashable = None
        if isinstance(p, dict):
            best = max(p, key=p.__getitem__, default=None)
            labels = [to_json_label(class_text(label)) for label in p]
            pairs = [list(pair) for pair in zip(labels, p.values(), strict=True)]
            record = {**place, "label": to_json_label(class_text(best)), "p": pairs}
        else:
            record = {**place, key: p}
        explanation = prediction.explanation
        if isinstance(explanation, dict):
            explanation = explanation.get(best)
        if as_json:
            return json.dumps(record | _json_fields(explanation, n_explained))
        shown = printable(class_text(best)) if isinstance(p, dict) else "" if p is None else repr(p)
        return "\t".join([shown, *_largest(explanation, n_explained)])

    return line


def _largest(explanation: Explanation | None, k: int) -> list[str]:
    """Return the k largest contributions that are not zero and the intercept, as text."""
    if explanation is None:
        return []
    largest = [record for record in explanation.features[:k] if record.contribution]
    return [
        f"{weight_text(record.contribution)} {printable(record.name)}"
        for record in (*largest, explanation[-1])
    ]


def _json_fields(explanation: Explanation | None, k: int) -> dict[str, Any]:
    """Return the fields of the JSON of a prediction that explain it; {} without an explanation."""
    from streaml1.training.prediction_records import to_json_label

    if explanation is None:
        return {}
    listed = [
        {
            "name": to_json_label(record.name),
            "value": record.value,
            "weight": record.weight,
            "contribution": record.contribution,
        }
        for record in explanation.features[:k]
    ]
    others = [record.contribution for record in explanation.features[k:]]
    return {
        "margin": explanation.margin,
        "contributions": listed,
        "intercept": explanation.intercept,
        "rest": fsum([*others, *explanation.remainder]),
        "unknown": [to_json_label(name) for name in explanation.unknown],
    }


class _UnknownFeatures:
    """Warns if none of the first examples has a feature with a weight.

    Such data probably differ from those the model was trained on.
    """

    MAX_EXAMPLES, MIN_EXAMPLES = 1000, 20

    def __init__(self, learner: OnlineModel, active: bool) -> None:
        self._learner = learner
        self._active = active and learner.n_nonzero > 0
        self._p: Any = None  # the prediction of all examples so far
        self._n = 0

    def inspect(self, block: list[Prediction]) -> None:
        """Inspect predictions until two of them differ or there are enough."""
        if self._active:
            p_block = [prediction.p for prediction in block if prediction.p is not None]
            self._p = p_block[0] if p_block and not self._n else self._p
            self._n += len(p_block)
            self._active = all(p == self._p for p in p_block)
            if self._n >= self.MAX_EXAMPLES:
                self.end()

    def end(self) -> None:
        """Warn if all predictions equal that of an example without features."""
        from streaml1.training import predictions

        if self._active and self._n >= self.MIN_EXAMPLES:
            without_features = next(predictions(self._learner, [({}, None)])).p
            if self._p == without_features:
                report_problem(
                    f"none of the first {self._n:,} examples has a feature with a weight in the "
                    "model: check that the feature names and the column options match the training "
                    "data"
                )
        self._active = False
