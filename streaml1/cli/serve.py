"""``streaml1 serve``: answer requests for predictions over HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from streaml1.cli.kafka_options import kafka_options
from streaml1.cli.messages import logged, report_problem
from streaml1.cli.options import Finite, positive, split_names
from streaml1.cli.program import CommandError, cli
from streaml1.cli.run_options import log_option
from streaml1.cli.termination import watchdog

if TYPE_CHECKING:
    from streaml1.serving.model_store import ModelStore

__all__ = ["serve"]

DEFAULT_PORT = 8500
SECONDS = Finite(min=0.0, min_open=True)


@cli.command(
    basics=("listen", "workers", "max_age", "categorical", "numeric", "to", "kafka_properties",
            "log"),
    epilog="Example: streaml1 serve clicks.model --listen 8500",
)  # fmt: skip
@click.argument("models", nargs=-1, required=True, metavar="[NAME=]MODEL...")
@click.option("--listen", default=str(DEFAULT_PORT), show_default=True, metavar="[HOST:]PORT",
              help="Address; without a host only this machine can connect.")  # fmt: skip
@click.option("--workers", type=click.IntRange(1, 256), default=1, show_default=True, metavar="N",
              help="Number of processes that answer requests.")  # fmt: skip
@click.option("--max-age", type=SECONDS, metavar="SECONDS",
              help="/readyz fails once a model was published longer ago than this.")  # fmt: skip
@click.option("--check-every", type=SECONDS, default=0.5, show_default=True, metavar="SECONDS",
              help="Interval of checks for a new version of a model.")  # fmt: skip
@click.option("--max-body", type=positive, default=2**20, show_default=True, metavar="BYTES",
              help="Maximum size of a request body.")  # fmt: skip
@click.option("--max-examples", type=positive, default=10_000, show_default=True, metavar="N",
              help="Maximum number of examples of a request.")  # fmt: skip
@click.option("--max-connections", type=positive, default=1000, show_default=True, metavar="N",
              help="Maximum number of connections of a process.")  # fmt: skip
@click.option("--categorical", metavar="NAME,...", multiple=True, callback=split_names,
              help="Members of JSON objects to read as categories, as learn did.")  # fmt: skip
@click.option("--numeric", metavar="NAME,...", multiple=True, callback=split_names,
              help="Members of JSON objects whose text is a number, as for learn.")  # fmt: skip
@click.option("--to", metavar="TOPIC",
              help="Offer /learn and /label, which write labelled examples to this topic: "
              "kafka://host:port/topic.")  # fmt: skip
@kafka_options
@log_option
def serve(
    models: Sequence[str], listen: str, max_body: int, max_examples: int, **options: Any
) -> None:
    r"""Answer HTTP requests for predictions of MODEL.

    MODEL is a file written by learn --save, a directory of learn --checkpoint, or a topic of learn
    --publish or --mixed. When a new version is there, it replaces the current one within a second,
    and no request is lost. Requests choose among several models by ?model=NAME; NAME is the name
    of the file, directory or topic unless it is given.

    \b
    POST /predict   {"site": "news", "age": 31}, an array of such objects, JSON
                    lines, text/vw or text/svmlight; ?explain=K
    POST /rank      {"shared": {...}, "items": [{...}, ...]}
    GET /model, /weights?top=K&prefix=P, /livez, /readyz, /metrics, /openapi.json
    """
    try:
        import httptools  # noqa: F401
    except ImportError:
        raise CommandError(
            "serve needs httptools and uvloop; install them with pip install 'streaml1[serve]'"
        ) from None
    from streaml1.serving.model_source import open_source
    from streaml1.serving.server import ServerConfig
    from streaml1.serving.server import serve as run
    from streaml1.serving.service import Limits
    from streaml1.sources.readers.json_requests import roles_of
    from streaml1.training.metrics_server import parse_address

    address = parse_address(listen, "--listen")
    kafka = options["kafka"]
    sources = {name: open_source(place, kafka) for name, place in _named(models).items()}
    config = ServerConfig(
        host=address.host,
        port=address.port,
        workers=options["workers"],
        limits=Limits(max_body, max_examples),
        connections=options["max_connections"],
        max_age=options["max_age"],
        check_seconds=options["check_every"],
        to=options["to"],
        security=kafka,
        roles=roles_of(options["categorical"], options["numeric"]),
    )
    with logged(verbose=True):  # each new version is reported
        number = run(sources, config, _announce)
    raise click.exceptions.Exit(128 + number)


def _named(models: Sequence[str]) -> dict[str, str]:
    """Return the places of models by name."""
    places: dict[str, str] = {}
    for text in models:
        name, equals, place = text.partition("=")
        if not equals or "/" in name or name.startswith("kafka:"):
            place = text
            name = place.partition("?")[0].rstrip("/").rpartition("/")[2].partition(".")[0]
        if not name or not place:
            raise CommandError(f"{text!r} is not a model; use NAME=MODEL")
        if name in places:
            raise CommandError(
                f"two models have the name {name!r}; use NAME=MODEL to distinguish them"
            )
        places[name] = place
    return places


def _announce(store: ModelStore, address: str) -> None:
    watchdog.stand_down()  # from here on a signal drains the server
    for model in store.models.values():
        report_problem(
            f"{model.name}: {model.facts['class']}, version {model.version}, "
            f"{model.n_weights:,} weights",
            "model",
            model=model.name,
            version=model.version,
        )
    report_problem(f"serving at {address}; try curl {address}/model", "serving", address=address)
