"""What a type checker sees of the constructors."""

from __future__ import annotations

from pathlib import Path

import pytest

SNIPPET = """
import streaml1
from streaml1 import FTRLClassifier

reveal_type(streaml1.FTRLClassifier(beta=0.5).beta)
streaml1.ElasticNetRegressor(l1=1e-3, lr="auto", cross=[("a", "b")], average=True)
streaml1.SoftmaxClassifier(classes=["a", "b"])
streaml1.PegasosClassifier(loss="hinge")
FTRLClassifier(alhpa=1)
FTRLClassifier(lr=0.1)
FTRLClassifier(beta="large")
FTRLClassifier(0.5)
streaml1.PegasosClassifier(schedule="constant")
streaml1.SoftmaxClassifier(loss="logistic")
streaml1.FTRLClasifier()
"""

SEEN = {
    5: 'Revealed type is "float"',
    9: 'Unexpected keyword argument "alhpa" for "FTRLClassifier"',
    10: 'Unexpected keyword argument "lr" for "FTRLClassifier"',
    11: 'Argument "beta" to "FTRLClassifier" has incompatible type "str"; expected "float"',
    12: 'Too many positional arguments for "FTRLClassifier"',
    13: 'Unexpected keyword argument "schedule" for "PegasosClassifier"',
    14: 'Unexpected keyword argument "loss" for "SoftmaxClassifier"',
    15: 'Module has no attribute "FTRLClasifier"',
}


@pytest.mark.slow
def test_mypy_sees_the_parameters(tmp_path: Path) -> None:
    api = pytest.importorskip("mypy.api")
    root = Path(__file__).parent.parent
    snippet = tmp_path / "snippet.py"
    snippet.write_text(SNIPPET)
    options = ["--strict", "--hide-error-context", "--no-error-summary", "--config-file"]
    # The cache of scripts/check: without it mypy analyses all dependencies again.
    cache = str(root / ".mypy_cache")
    out, err, _ = api.run(
        [*options, str(root / "pyproject.toml"), "--cache-dir", cache, str(snippet)]
    )
    seen: dict[int, str] = {}
    for line in out.splitlines():
        place, _, message = line.partition(": error: ")
        if not message:
            place, _, message = line.partition(": note: ")
        number = place.rpartition(":")[2]
        if place.endswith(f"snippet.py:{number}") and number.isdecimal():
            seen.setdefault(int(number), message)
    assert seen.keys() == SEEN.keys(), out + err
    for number, message in SEEN.items():
        assert seen[number].startswith(message)
