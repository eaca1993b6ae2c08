"""``streaml1 predict``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.messages import complain, logged
from streaml1.cli.model_factory import loaded
from streaml1.cli.option_checks import OF_MODEL, require_prefixes
from streaml1.cli.options import model_path, opened, source_options
from streaml1.cli.program import cli
from streaml1.cli.run_options import log_option
from streaml1.cli.sink_options import outgoing_options, outs_of
from streaml1.cli.text_tables import printable
from streaml1.optim.tasks import REGRESSION

if TYPE_CHECKING:
    from streaml1.training import Prediction

__all__ = ["predict"]


@cli.command(epilog="Example: zcat new.jsonl.gz | streaml1 predict clicks.model - --format jsonl")
@click.argument("model", type=model_path)
@click.argument("source")
@source_options(dead_letters=True)
@kafka_options
@log_option
@outgoing_options
@click.option("--json", "as_json", is_flag=True,
              help="Write JSON: the line of the example (of a topic: its place), and its "
              "prediction.")  # fmt: skip
def predict(
    model: str | Path, source: str, limit: int | None, bad: str, as_json: bool, **options: Any
) -> None:
    """Predict each example of SOURCE with MODEL.

    MODEL is a file that learn --save wrote, a folder of learn --checkpoint, or the topic of learn
    --publish: the newest there.

    One number a line: the probability of True, or for regressors the value; of many labels the
    most probable. SOURCE needs no labels. With --bad skip a refused example has an empty line.
    With --predictions all goes to the topic instead.
    """
    from streaml1.training import prediction_blocks
    from streaml1.training.prediction_records import jsonable

    learner = loaded(model, options["kafka"])
    key = "value" if learner.loss in REGRESSION else "p"
    examples = opened(source, options, require_label=False, text=learner.text)
    require_prefixes(source, options["format"], learner.cross, OF_MODEL)

    topic = source.startswith("kafka:")

    def text(one: Prediction) -> str:
        place = {"place": one.place} if topic else {"line": one.line}
        if isinstance(one.p, dict):
            best = max(one.p, key=one.p.__getitem__, default=None)
            listed = [[jsonable(label), p] for label, p in one.p.items()]
            told = {**place, "label": jsonable(best), "p": listed}
            return json.dumps(told) if as_json else printable(best)
        if as_json:
            return json.dumps({**place, key: one.p})
        return "" if one.p is None else repr(one.p)

    written = options["predictions"] is not None
    with logged(), outs_of(examples, bad, options) as outs:
        skip = "skip" if bad == "dead-letter" else bad
        unknown = _Unknown(learner)
        for block in prediction_blocks(learner, examples, limit=limit, bad=skip, outs=outs):
            unknown.look(block)
            if not written:
                click.echo("\n".join(map(text, block)))
        unknown.end()


class _Unknown:
    """Says so where none of the first examples has a feature with a weight: it is of other data."""

    LOOKED_AT, LEAST = 1000, 20

    def __init__(self, learner: Any) -> None:
        self._learner = learner
        self._looks = learner.n_nonzero > 0
        self._told: Any = None  # of all so far
        self._n = 0

    def look(self, block: list[Prediction]) -> None:
        """Look at predictions, until two are not the same, or enough were seen."""
        if self._looks:
            told = [one.p for one in block if one.p is not None]
            self._told = told[0] if told and not self._n else self._told
            self._n += len(told)
            self._looks = all(p == self._told for p in told)
            if self._n >= self.LOOKED_AT:
                self.end()

    def end(self) -> None:
        """Say it, where all are what is told of an example without features."""
        from streaml1.training import predictions

        if self._looks and self._n >= self.LEAST:
            of_nothing = next(predictions(self._learner, [({}, None)])).p
            if self._told == of_nothing:
                complain(
                    f"none of the first {self._n:,} examples has a feature that the model has a "
                    "weight for: are its names those of the data, and the options of columns those "
                    "of then?"
                )
        self._looks = False
