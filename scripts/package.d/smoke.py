"""Learn, save, load and predict with an installed package, in Python and on the command line."""

from __future__ import annotations

import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import streaml1

EXAMPLES = "y,site,price\n" + "1,news,1.5\n0,mail,2\n" * 50


def streaml1_command(*arguments: str) -> str:
    return subprocess.run(
        ["streaml1", *arguments], check=True, capture_output=True, text=True
    ).stdout


def main() -> None:
    assert Path(sys.prefix) in Path(streaml1.__file__).parents, streaml1.__file__
    assert metadata.version("streaml1") == streaml1.__version__
    assert streaml1_command("--version") == f"streaml1 {streaml1.__version__}\n"

    start = time.perf_counter()
    model = streaml1.ElasticNetClassifier(l1=1e-4)
    model.learn_one({"site": "news", "price": 1.5}, True)
    first_example = time.perf_counter() - start
    model.learn_many([{"site": "mail"}, {"site": "news"}], [False, True])
    model.save("python.streaml1")
    loaded = streaml1.load("python.streaml1")
    x = {"site": "news"}
    assert loaded.predict_proba_one(x) == model.predict_proba_one(x)
    assert loaded.weights == model.weights != {}

    Path("clicks.csv").write_text(EXAMPLES)
    streaml1_command("learn", "clicks.csv", "--target", "y", "--save", "command.streaml1")
    predictions = streaml1_command("predict", "command.streaml1", "clicks.csv", "--target", "y")
    first, second = map(float, predictions.split()[:2])
    assert first > 0.5 > second, predictions
    print(f"works; first example learnt after {first_example:.1f} s from an empty cache")


if __name__ == "__main__":
    main()
