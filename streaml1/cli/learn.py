"""``streaml1 learn``: predict each example of a source, then learn it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.late_options import late_options, require_label_within
from streaml1.cli.mixed import is_mixed, learn_mixed, mix_options
from streaml1.cli.options import (
    Finite,
    Holdout,
    NonEmptyPath,
    every_option,
    model_path,
    output,
    positive,
    report_options,
    source_argument,
    source_options,
)
from streaml1.cli.parameter_options import (
    HYPERPARAMETERS,
    list_of_learners,
    options_of,
    parameter_options,
)
from streaml1.cli.partitions import group_options, learn_group
from streaml1.cli.program import cli
from streaml1.cli.regret_options import regret_option
from streaml1.cli.run_options import log_option, metrics_options, page_option
from streaml1.cli.sharded import is_sharded, learn_in_shards, shard_options
from streaml1.cli.single_model import learn_single
from streaml1.cli.sink_options import publish_options, sink_options
from streaml1.cli.starting_model import ModelChoice
from streaml1.core import exit_codes as exits
from streaml1.models.registry import LEARNERS

__all__ = ["learn"]


@cli.command(
    basics=(
        "target", "categorical", "format", "model", "l1", "bad", "save", "load", "every",
        "report", "checkpoint", "until_end", "config",
    ),
    paragraphs=2,
    options_of=options_of,
    learners=LEARNERS,
    epilog=f"{list_of_learners()}"
    f"\n\nExit codes: {exits.SUCCESS} done; {exits.USAGE_ERROR} usage error; "
    f"{exits.DATA_ERROR} invalid data; {exits.TEMPORARY_FAILURE} temporarily unavailable, retry; "
    "129, 130, 143 ended by SIGHUP, Ctrl-C, SIGTERM, with everything saved."
    "\n\nExample: streaml1 learn clicks.svm.gz --l1 1e-5 --save clicks.model",
)  # fmt: skip
@source_argument
@parameter_options
@source_options(passes=True, dead_letters=True)
@kafka_options
@late_options
@sink_options
@publish_options
@click.option("--passes", type=positive, default=1, show_default=True, metavar="N",
              help="Number of passes over the source. The model of the pass with the smallest "
              "loss on held-out rows is kept.")  # fmt: skip
@click.option("--holdout", type=Holdout(), metavar="SHARE|N",
              help="Hold out this share of the lines, such as 0.1, or every N-th: predict them, "
              "but never learn them. From the second pass on the report covers these rows only. 0 "
              "holds out none.  "
              "[default: 10 with several passes, else 0]")  # fmt: skip
@every_option
@click.option("--watch", type=click.IntRange(0, 1000), default=0, metavar="N",
              help="After each line, print up to N features that were added to (+) and dropped "
              "from (-) the model.")  # fmt: skip
@report_options
@click.option("--save", type=output, metavar="FILE", help="Write the model to this file.")
@click.option("--checkpoint", type=NonEmptyPath(file_okay=False, path_type=Path), metavar="DIR",
              help="Write checkpoints to this directory and resume from the latest one.",
)  # fmt: skip
@click.option("--checkpoint-every", type=Finite(min=0), default=10.0, show_default=True,
              metavar="SECONDS", help="Interval of checkpoints.")  # fmt: skip
@click.option("--group", metavar="NAME",
                 help="Kafka: commit the offsets of checkpoints to this consumer group, for "
                 "tools that monitor the lag. They are never read back.")  # fmt: skip
@regret_option
@group_options
@mix_options
@shard_options
@metrics_options
@page_option
@log_option
@click.option("--load", type=model_path, metavar="FILE",
              help="Resume from this model or pipeline, or from the latest in a --checkpoint "
              "directory. It keeps its parameters except those given here.",
)  # fmt: skip
@click.option("--top", type=click.IntRange(min=0), default=10, show_default=True, metavar="K",
              help="Number of features to show for True and for False, or of all classes.",
)  # fmt: skip
def learn(
    source: str | list[str], model: str | None, task: str | None, **options: Any
) -> None:  # fmt: skip
    """Predict, then learn each example of SOURCE; report the loss.

    SOURCE is a file (.svm, .svmlight, .vw, .jsonl, .csv, .tsv, each also compressed by gzip, zstd,
    bzip2 or xz; .parquet, .arrow, .avro, .rows), - for standard input, river:NAME for a data set
    of river, stdlib, data:NAME for a data set of the papers (data:rcv1), kafka://HOST:PORT/TOPIC,
    or duckdb:FILE?table=NAME or duckdb:SELECT... for DuckDB. Several files, a directory of files,
    or a quoted pattern such as 'part-*.csv' are read one after the other. Directories inside, such
    as country=DE, give a column each.

    Ctrl-C, SIGTERM or SIGHUP ends the run after the current block and writes report, plot and
    model.
    """
    require_label_within(options)
    given = {name: options[name] for name in HYPERPARAMETERS if options[name] is not None}
    choice = ModelChoice(source, model, task, given)
    if is_sharded(options):
        learn_in_shards(choice, options)
    elif is_mixed(options):
        learn_mixed(choice, options)
    elif options["per_partition"]:
        learn_group(choice, options)
    else:
        learn_single(choice, options)
