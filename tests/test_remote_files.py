"""Sources behind URLs, read through fsspec: the same examples as of the file on the disk."""

from __future__ import annotations

import bz2
import gzip
import http.server
import sys
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import fsspec
import pytest

from streaml1 import ElasticNetClassifier
from streaml1.sources import SourceError, open_source
from streaml1.sources.readers import remote
from streaml1.sources.readers.remote import is_remote
from streaml1.sources.source import Unavailable
from streaml1.training import progressive
from streaml1.training.checkpoint import load_latest

LINES = "".join(f"{k % 2} {k % 7}:1 {k % 5 + 10}:0.5\n" for k in range(3000)).encode()
CSV = b"y,site\n" + b"".join(b"%d,s%d\n" % (k % 2, k % 7) for k in range(50))


class Handler(http.server.SimpleHTTPRequestHandler):
    """Serve files without ranges; some names fail."""

    def send_head(self) -> Any:
        if "status-" in self.path:
            self.send_error(int(self.path.rpartition("-")[2]))
            return None
        return super().send_head()

    def copyfile(self, source: Any, destination: Any) -> None:
        if "cut" in self.path:
            destination.write(source.read(2000))
            self.wfile.flush()
            self.close_connection = True
            return
        super().copyfile(source, destination)

    def log_message(self, format: str, *args: Any) -> None:
        pass


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    (folder / "a.svm").write_bytes(LINES)
    (folder / "a.svm.gz").write_bytes(gzip.compress(LINES))
    (folder / "plain.svm").write_bytes(bz2.compress(LINES))  # recognized by its first bytes
    (folder / "cut.svm").write_bytes(LINES)
    (folder / "a.csv").write_bytes(CSV)
    with open(folder / "large.parquet", "wb") as file:  # larger than one request
        file.truncate(remote.BLOCK + 1)
    handler = partial(Handler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{served.server_port}"
        served.shutdown()


@pytest.fixture
def memory() -> Iterator[Any]:
    """Yield fsspec's file system in memory, which is seekable as object stores are."""
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def examples(spec: Any, **options: Any) -> list[Any]:
    blocks = open_source(spec, **options).blocks(700, pytest.fail)
    return [(block.place(k).rpartition("/")[2], dict(block.x[k]), block.y[k])
            for block in blocks for k in range(len(block))]  # fmt: skip


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    path = tmp_path_factory.mktemp("local") / "a.svm"
    path.write_bytes(LINES)
    return examples(path)


@pytest.mark.parametrize("name", ["a.svm", "a.svm.gz", "plain.svm", "a.svm?version=2"])
def test_files_of_a_web_server(server: str, name: str, expected: list[Any]) -> None:
    read = examples(f"{server}/{name}")
    assert [row[1:] for row in read] == [row[1:] for row in expected]
    assert read[6][0] == f"{name}:7"


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress])
def test_files_of_an_object_store(memory: Any, compress: Any, expected: list[Any]) -> None:
    memory.pipe("/clicks/a.svm", compress(LINES))
    assert examples("memory://clicks/a.svm") == expected


@pytest.mark.parametrize("spec", ["memory://clicks/part-*", "memory://clicks/"])
def test_directories_and_patterns(memory: Any, spec: str, expected: list[Any]) -> None:
    lines = LINES.splitlines(keepends=True)
    parts = {"part-0.svm": lines[:10], "part-1.svm": [], "part-2.svm": lines[10:]}
    for name, part in parts.items():
        memory.pipe(f"/clicks/{name}", b"".join(part))
    memory.pipe("/clicks/_SUCCESS", b"")
    read = examples(spec)
    assert [row[1:] for row in read] == [row[1:] for row in expected]
    assert [row[0] for row in read[9:11]] == ["part-0.svm:10", "part-2.svm:1"]
    with pytest.raises(SourceError, match=r"memory://clicks is a directory: append / to read"):
        open_source("memory://clicks", format="svmlight")
    with pytest.raises(SourceError, match="no file matches 'memory://clicks/x-"):
        open_source("memory://clicks/x-*")


def test_columns_of_csv(server: str, memory: Any, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes(CSV)
    memory.pipe("/a.csv", CSV)
    roles = {"target": "y", "categorical": ["site"]}
    assert examples(f"{server}/a.csv", **roles) == examples(tmp_path / "a.csv", **roles)
    assert examples("memory://a.csv", **roles) == examples(tmp_path / "a.csv", **roles)


@pytest.mark.parametrize("kind", ["parquet", "arrow"])
def test_arrow_files(memory: Any, server: str, tmp_path: Path, kind: str) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import feather, parquet

    table = pyarrow.table({"y": [0, 1] * 50, "site": ["a", "b", "c", "d"] * 25})
    path = tmp_path / f"a.{kind}"
    if kind == "parquet":
        parquet.write_table(table, path, row_group_size=30)
    else:
        feather.write_feather(table, str(path))
    memory.pipe(f"/{path.name}", path.read_bytes())
    url = f"memory://{path.name}"
    assert examples(url, target="y") == examples(path, target="y")
    with pytest.raises(SourceError, match="large.parquet cannot be read in parts, as its server"):
        open_source(f"{server}/large.parquet", format=kind, target="y")


def test_checkpoints_resume(memory: Any, tmp_path: Path) -> None:
    memory.pipe("/a.svm", LINES)
    whole, model = ElasticNetClassifier(lr=0.1), ElasticNetClassifier(lr=0.1)
    progressive(whole, "memory://a.svm")
    progressive(model, "memory://a.svm", checkpoint=tmp_path / "kept", limit=1000)
    saved = load_latest(tmp_path / "kept")
    assert saved is not None and saved.learnt == 1000
    progressive(model, "memory://a.svm", checkpoint=tmp_path / "kept")
    assert model.weights == whole.weights and model.n_iterations == 3000


@pytest.mark.parametrize(
    ("name", "kind", "message"),
    [
        ("status-404", SourceError, ": there is no such file"),
        ("status-403", SourceError, " cannot be read: permission denied; check the credentials"),
        ("status-503", Unavailable, " does not answer: 503"),
        ("status-429", Unavailable, " does not answer: 429"),
    ],
)
def test_failures_are_explained(
    server: str, name: str, kind: type[SourceError], message: str
) -> None:
    url = f"{server}/{name}"
    with pytest.raises(SourceError) as error:
        open_source(url, format="svmlight")
    assert type(error.value) is kind
    assert str(error.value).startswith(url + message) and "\n" not in str(error.value)


def test_lost_connections_are_temporary(server: str) -> None:
    with pytest.raises(Unavailable, match="cut.svm: the file cannot be read from here on .* start"):
        examples(f"{server}/cut.svm")
    with pytest.raises(Unavailable, match=r"^http://127.0.0.1:9/a.svm does not answer: "):
        open_source("http://127.0.0.1:9/a.svm")


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*args: Any, **options: Any) -> None:
        raise ImportError("Install xyz to access it")

    remedy = r"pip install 'streaml1\[remote\]'$"
    monkeypatch.setattr("fsspec.core.url_to_fs", fail)
    with pytest.raises(SourceError, match=f"^s3://b/a.svm needs packages for s3: {remedy}"):
        open_source("s3://b/a.svm")
    with pytest.raises(SourceError, match="^abfs://b/a.svm needs another package: Install xyz"):
        open_source("abfs://b/a.svm")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(SourceError, match=f"^gs://b/a.svm needs the package fsspec: {remedy}"):
        open_source("gs://b/a.svm")


def test_names() -> None:
    assert [is_remote(name) for name in ("s3://b/a.svm", "kafka://h/t", "data:rcv1", "-")] == [
        True, False, False, False
    ]  # fmt: skip
    assert remote.path_of("https://h/a.csv?x=1#y") == "https://h/a.csv"
    assert remote.path_of("s3://b/a#b?.csv") == "s3://b/a#b?.csv"
    with pytest.raises(SourceError, match="^nowhere://a.svm cannot be opened: Protocol not known"):
        open_source("nowhere://a.svm")
