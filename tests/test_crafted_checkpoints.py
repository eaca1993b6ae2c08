"""Crafted checkpoints and logs of delayed labels: whatever they say, a run resumes or is rejected.

The checksums are right. A quarter of `STREAML1_MUTATIONS` (default 600) of each kind is tried.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import shutil
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import streaml1
from streaml1 import BadExample
from streaml1.models.serialization import ModelFileError
from streaml1.sources import SourceError
from streaml1.training import progressive
from streaml1.training.checkpoint import CheckpointError
from streaml1.training.report import line as lines
from streaml1.training.saved_state import has_type
from tests.test_crafted_files import (
    MUTATIONS,
    assert_one_sentence,
    mutated_array,
    mutated_bytes,
    mutated_json,
)
from tests.test_pending_log import events

HEAD, LENGTHS = struct.Struct("<8sIQ32s"), struct.Struct("<QQQ")
FILE_HEAD, ENTRY_HEAD = struct.Struct("<8sI"), struct.Struct("<II")

Parts = tuple[Any, bytes, dict[str, Any]]
"""The header, the model and the arrays of a checkpoint."""


def read_checkpoint(path: Path) -> Parts:
    body = path.read_bytes()[HEAD.size :]
    n_header, n_model, _ = LENGTHS.unpack_from(body)
    start = LENGTHS.size + n_header
    with np.load(io.BytesIO(body[start + n_model :])) as archive:
        arrays = {name: archive[name] for name in archive.files}
    return json.loads(body[LENGTHS.size : start]), body[start : start + n_model], arrays


def write_checkpoint(path: Path, parts: Parts, save: Any = np.savez) -> None:
    header, model, arrays = parts
    archive = io.BytesIO()
    save(archive, **arrays)
    texts = [json.dumps(header).encode(), model, archive.getvalue()]
    body = LENGTHS.pack(*map(len, texts)) + b"".join(texts)
    digest = hashlib.sha256(struct.pack("<I", 1) + body).digest()
    path.write_bytes(HEAD.pack(b"streamcp", 1, len(body), digest) + body)


def new_model() -> Any:
    return streaml1.FTRLClassifier(alpha=0.1)


class Original:
    """A directory with the checkpoint of a run that was stopped, to be copied and changed.

    Parameters
    ----------
    folder
        Where its files are.
    source
        The file that the run reads.
    options
        Options of the run.
    """

    def __init__(self, folder: Path, source: Path, **options: Any) -> None:
        self.folder, self.source, self.options = folder / "original", source, options
        progressive(new_model(), source, limit=40, checkpoint=self.folder, **options)
        self.parts = read_checkpoint(self.latest(self.folder))

    @staticmethod
    def latest(folder: Path) -> Path:
        return max(folder.glob("*.checkpoint"))

    def copy(self, folder: Path) -> Path:
        """Copy the directory, with the latest checkpoint only, and return its path."""
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        latest = self.latest(folder)
        for path in folder.glob("*.checkpoint"):
            if path != latest:
                path.unlink()
        return latest

    def resume(self, folder: Path) -> str:
        """Resume a changed copy; return what came of it."""
        try:
            report = progressive(
                new_model(), self.source, checkpoint=folder, bad="skip", **self.options
            )
        except (CheckpointError, ModelFileError, SourceError, BadExample) as error:
            assert_one_sentence(error)
            return "rejected"
        report.table()
        return "resumed"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("plain")
    random = Random(1)
    rows = [f"{random.choice((-1, 1))} {random.randrange(9)}:1 {9 + k % 5}:0.5" for k in range(90)]
    (folder / "a.svm").write_text("\n".join(rows) + "\n")
    return Original(folder, folder / "a.svm", every=10)


@pytest.fixture(scope="module")
def delayed(tmp_path_factory: pytest.TempPathFactory) -> Original:
    folder = tmp_path_factory.mktemp("delayed")
    source = folder / "events.jsonl"
    source.write_text("".join(json.dumps(event) + "\n" for event in events(150)))
    return Original(folder, source, label_within=12.0, unanswered="negative", every=10)


def mutated_parts(random: Random, parts: Parts) -> Parts:
    header, model, arrays = parts
    kind = random.random()
    if kind < 0.7:
        header = mutated_json(random, header)
    elif kind < 0.8:
        model = mutated_bytes(random, model)
    elif arrays:
        name = random.choice(list(arrays))
        arrays = {**arrays, name: mutated_array(random, arrays[name])}
    return header, model, arrays


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of sums that were changed
@pytest.mark.parametrize("kind", ["plain", "delayed"])
def test_mutated_checkpoints(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    original: Original = request.getfixturevalue(kind)
    random, outcomes = Random(4), {"rejected": 0, "resumed": 0}
    n = MUTATIONS // 4
    for k in range(n):
        latest = original.copy(tmp_path / "kept")
        write_checkpoint(latest, mutated_parts(random, original.parts))
        try:
            outcomes[original.resume(tmp_path / "kept")] += 1
        except Exception as error:
            error.add_note(f"mutation {k}")
            raise
    print(kind, outcomes)
    assert min(outcomes.values()) > n // 20  # the changes are neither too mild nor too wild


def mutate_log(random: Random, path: Path) -> None:
    """Change an entry, and its checksum; the length stays."""
    raw = bytearray(path.read_bytes())
    positions, pos = [], FILE_HEAD.size
    while pos < len(raw):
        positions.append(pos)
        pos += ENTRY_HEAD.size + ENTRY_HEAD.unpack_from(raw, pos)[0]
    for _ in range(random.choice((1, 1, 3))):
        pos = random.choice(positions)
        size, _ = ENTRY_HEAD.unpack_from(raw, pos)
        start = pos + ENTRY_HEAD.size
        entry = mutated_bytes(random, bytes(raw[start : start + size]))[:size].ljust(size, b"\0")
        raw[pos : start + size] = ENTRY_HEAD.pack(size, zlib.crc32(entry, size)) + entry
    path.write_bytes(raw)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_mutated_logs_of_delayed_labels(delayed: Original, tmp_path: Path) -> None:
    random, outcomes = Random(5), {"rejected": 0, "resumed": 0}
    n = MUTATIONS // 4
    for k in range(n):
        delayed.copy(tmp_path / "kept")
        logs = [path for path in (tmp_path / "kept").rglob("*.log") if path.stat().st_size > 12]
        mutate_log(random, random.choice(logs))
        try:
            outcomes[delayed.resume(tmp_path / "kept")] += 1
        except Exception as error:
            error.add_note(f"mutation {k}")
            raise
    print("logs:", outcomes)
    assert min(outcomes.values()) > n // 20  # the changes are neither too mild nor too wild


CRAFTED: dict[str, Callable[[Any], Any]] = {
    "position": lambda h: h["position"].update(line="x"),
    "negative position": lambda h: h["position"].update(line=-1),
    "no position": lambda h: h.update(position={}),
    "turn": lambda h: h.update(turn="1"),
    "learnt": lambda h: h.update(learnt=-1),
    "learnt beyond 64 bits": lambda h: h.update(learnt=2**63),
    "identity": lambda h: h.update(identity=[]),
    "report": lambda h: h.update(report=[]),
    "sums": lambda h: h["report"]["all"].update(loss="1"),
    "unknown sum": lambda h: h["report"]["all"].update(mean="1"),
    "lines": lambda h: h["report"].update(lines=[5]),
    "field of a line": lambda h: h["report"]["lines"][0].update(loss=[]),
    "labels": lambda h: h["report"].update(labels=[10**12, []]),
    "window": lambda h: h["report"].update(window=[3, 0]),
}


@pytest.mark.parametrize("case", CRAFTED)
def test_crafted_checkpoints_are_rejected(case: str, plain: Original, tmp_path: Path) -> None:
    latest = plain.copy(tmp_path / "kept")
    header, model, arrays = json.loads(json.dumps(plain.parts[0])), *plain.parts[1:]
    CRAFTED[case](header)
    write_checkpoint(latest, (header, model, arrays))
    with pytest.raises(CheckpointError, match="not") as error:
        progressive(new_model(), plain.source, checkpoint=tmp_path / "kept", every=10)
    assert error.value.exit_code == 65
    assert_one_sentence(error.value)


@pytest.mark.parametrize(
    ("value", "kind", "expected"),
    [
        (2**63 - 1, int, True),
        (2**63, float, False),
        (True, int, False),
        ("x" * 100_000, str, True),
        ("x" * 100_001, str, False),
        (None, int | None, True),
        (None, int, False),
        ([1, 2.5], list[float], True),
        ([1, "2"], list[float], False),
        ({"a": [1]}, dict[str, list[int]], True),
        ({"a": [None]}, dict[str, list[int]], False),
        ([], dict[str, Any], False),
    ],
)
def test_types_of_saved_values(value: Any, kind: Any, expected: bool) -> None:
    assert has_type(value, kind) is expected


def test_compressed_arrays_are_rejected(plain: Original, tmp_path: Path) -> None:
    """They could unpack to any size; streaml1 does not compress them."""
    latest = plain.copy(tmp_path / "kept")
    write_checkpoint(latest, plain.parts, np.savez_compressed)
    with pytest.raises(CheckpointError, match="was not written by streaml1|not a checkpoint"):
        progressive(new_model(), plain.source, checkpoint=tmp_path / "kept", every=10)


def test_history_in_a_checkpoint_is_bounded(
    plain: Original, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines, "RECENT_LINES", 4)
    report = progressive(new_model(), plain.source, checkpoint=tmp_path / "kept", every=2)
    saved = read_checkpoint(Original.latest(tmp_path / "kept"))[0]["report"]["lines"]
    examples = [line["examples"] for line in saved]
    assert len(report.lines) == 45
    assert len(examples) <= 8 and examples[-4:] == [84, 86, 88, 90] and examples[0] == 2
    with contextlib.suppress(SourceError):
        resumed = progressive(new_model(), plain.source, checkpoint=tmp_path / "kept", every=2)
        assert [line.examples for line in resumed.lines] == examples


@pytest.mark.parametrize("counts", [[9], [-1], [0, 3], [5] * 48])
def test_crafted_windows_of_drift_are_rejected(
    plain: Original, tmp_path: Path, counts: list[int]
) -> None:
    """The kernel of the detector takes positions from the counts of its rows."""
    latest = plain.copy(tmp_path / "kept")
    header, model, arrays = plain.parts
    rows = np.zeros_like(arrays["drift_counts"])
    rows[: len(counts)] = counts
    buckets = np.zeros(4 * int(rows.clip(0).sum()))
    changed = {**arrays, "drift_counts": rows, "drift_buckets": buckets}
    write_checkpoint(latest, (header, model, changed))
    with pytest.raises(CheckpointError, match="was not written by streaml1"):
        progressive(new_model(), plain.source, checkpoint=tmp_path / "kept", every=10)
