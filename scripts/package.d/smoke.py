"""Learn, save, load and predict with an installed package, in Python and on the command line.

With ``--prebuilt`` nothing of this may compile, since the package contains the machine code, and
the time to the first results is printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from importlib import metadata
from pathlib import Path

import streaml1

EXAMPLES = "y,site,price\n" + "1,news,1.5\n0,mail,2\n" * 50
PREDICT = """
import time
start = time.perf_counter()
import streaml1
model = streaml1.ElasticNetClassifier()
model.predict_proba_one({"site": "news", "price": 1.5})
predicted = time.perf_counter()
model.learn_one({"site": "news", "price": 1.5}, True)
print(predicted - start, time.perf_counter() - start)
"""


def streaml1_command(*arguments: str) -> str:
    return subprocess.run(
        ["streaml1", *arguments], check=True, capture_output=True, text=True
    ).stdout


def main() -> None:
    assert Path(sys.prefix) in Path(streaml1.__file__).parents, streaml1.__file__
    assert metadata.version("streaml1") == streaml1.__version__
    assert streaml1_command("--version") == f"streaml1 {streaml1.__version__}\n"

    model = streaml1.ElasticNetClassifier(l1=1e-4)
    model.learn_one({"site": "news", "price": 1.5}, True)
    model.learn_many([{"site": "mail"}, {"site": "news"}], [False, True])
    model.save("python.streaml1")
    loaded = streaml1.load("python.streaml1")
    x = {"site": "news"}
    assert loaded.predict_proba_one(x) == model.predict_proba_one(x)
    assert loaded.weights == model.weights != {}

    Path("clicks.csv").write_text(EXAMPLES)
    learn = ("learn", "clicks.csv", "--target", "y", "--save", "command.streaml1")
    streaml1_command(*learn)
    predictions = streaml1_command("predict", "command.streaml1", "clicks.csv", "--target", "y")
    first, second = map(float, predictions.split()[:2])
    assert first > 0.5 > second, predictions

    if "--prebuilt" not in sys.argv:
        print("works")
        return
    cache = Path(os.environ["NUMBA_CACHE_DIR"])
    compiled = sorted(p.name for p in cache.rglob("*") if p.suffix in (".nbc", ".code"))
    assert not compiled, compiled
    print(f"works; {start_times(cache, learn)}")


def start_times(cache: Path, learn: tuple[str, ...]) -> str:
    """Time first results from an empty cache; the modules have their bytecode by now."""
    os.environ["NUMBA_CACHE_DIR"] = str(cache / "first")
    output = subprocess.run(
        [sys.executable, "-c", PREDICT], check=True, capture_output=True, text=True
    ).stdout
    predicted, learnt = map(float, output.split())
    os.environ["NUMBA_CACHE_DIR"] = str(cache / "second")
    start = time.perf_counter()
    streaml1_command(*learn)
    seconds = time.perf_counter() - start
    return (
        f"from an empty cache: first prediction after {predicted:.1f} s, first example "
        f"learnt after {learnt:.1f} s, `streaml1 learn` of a small file in {seconds:.1f} s"
    )


if __name__ == "__main__":
    main()
