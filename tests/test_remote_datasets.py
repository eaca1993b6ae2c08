"""Data sets downloaded from a fake server or read from a local directory."""

from __future__ import annotations

import gzip
import hashlib
import io
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from streaml1 import datasets
from streaml1.cli import cli
from streaml1.datasets import (
    MAGIC04,
    MNIST,
    RCV1,
    Arcene,
    Drifting,
    Landsat,
    SMSSpam,
    TalkingData,
    remote,
)
from streaml1.datasets.rcv1 import TOPICS, VECTORS
from streaml1.sources.source import SOURCES, Lost, SourceError, Unavailable


@pytest.fixture(autouse=True)
def no_local_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("STREAML1_DATA", raising=False)
    monkeypatch.setenv("RIVER_DATA", str(tmp_path / "river"))
    monkeypatch.setattr(remote.request, "urlopen", lambda *_, **__: offline())


def offline() -> Any:
    raise OSError("no network here")


def serve(monkeypatch: pytest.MonkeyPatch, content: bytes) -> list[str]:
    """Serve this content for every URL; return the list that requested URLs are added to."""
    requested: list[str] = []

    def answer(url: str, timeout: float) -> Any:
        requested.append(url)
        return io.BytesIO(content)

    monkeypatch.setattr(remote.request, "urlopen", answer)
    return requested


MAGIC04_TEXT = b"1,2,3,4,5,6,7,8,9,0,g\n0.5,0,0,0,0,0,0,0,0,-1.5,h\n"


def make_magic04(folder: Path, **options: Any) -> MAGIC04:
    (folder / "magic04").mkdir(exist_ok=True)
    (folder / "magic04" / "magic04.data").write_bytes(MAGIC04_TEXT)
    data = MAGIC04(directory=folder, **options)
    data.n_samples = 2
    return data


def test_matrix_equals_dicts(tmp_path: Path) -> None:
    data = make_magic04(tmp_path)
    X, y = data.matrix()
    assert X.format == "csr" and X.dtype == np.float64 and y.tolist() == [True, False]
    assert X.toarray().tolist() == [[1, 2, 3, 4, 5, 6, 7, 8, 9, 0], [0.5] + [0] * 8 + [-1.5]]
    assert list(data) == [({j: j + 1.0 for j in range(9)}, True), ({0: 0.5, 9: -1.5}, False)]
    assert data.matrix()[0] is X


def test_noise_columns(tmp_path: Path) -> None:
    sparse, dense = (make_magic04(tmp_path, noise=noise, seed=4) for noise in ("sparse", "dense"))
    X = sparse.matrix()[0][:, 10:].toarray()
    assert X.shape == (2, 1000) and set(np.unique(X)) == {0.0, 1.0} and 50 < X.sum() < 150
    signs = dense.matrix()[0][:, 10:].toarray()
    assert set(np.unique(signs)) == {-1.0, 1.0} and abs(signs.mean()) < 0.1
    assert np.array_equal(
        make_magic04(tmp_path, noise="sparse", seed=4).matrix()[0][:, 10:].toarray(), X
    )
    assert not np.array_equal(
        make_magic04(tmp_path, noise="sparse").matrix()[0][:, 10:].toarray(), X
    )


def test_download_is_verified_and_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    data = MAGIC04()
    requested = serve(monkeypatch, MAGIC04_TEXT)
    with pytest.raises(Lost, match=r"gave \d+ bytes with SHA-256 .*, expected .*; nothing was"):
        data.download(verbose=False)
    assert not data.is_downloaded and list((tmp_path / "river").rglob("*.*")) == []
    sha256 = hashlib.sha256(MAGIC04_TEXT).hexdigest()
    data.files = (data.files[0]._replace(sha256=sha256),)
    data.n_samples = 2
    assert len(list(data)) == 2 and data.is_downloaded
    assert requested == [data.url] * 2
    list(data)
    assert requested == [data.url] * 2
    assert data.path == tmp_path / "river" / "MAGIC04" / "magic04.data"


def test_errors_without_network(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match=r"cannot be downloaded \(no network here\); retry"):
        MAGIC04().matrix()
    with pytest.raises(SourceError, match="needs a Kaggle account"):
        next(iter(TalkingData()))
    with pytest.raises(SourceError, match=r"magic04.data of MAGIC04 is missing in directory="):
        MAGIC04(directory=tmp_path).matrix()
    result = CliRunner().invoke(cli, ["learn", "data:magic04"])
    assert result.exit_code == Unavailable.exit_code
    assert result.stderr.count("\n") == 1 and "cannot be downloaded" in result.stderr


def test_archive_member_is_extracted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zipped = io.BytesIO()
    with zipfile.ZipFile(zipped, "w") as archive:
        archive.writestr("SMSSpamCollection", "ham\tOk lar...\nspam\tWIN a\n prize!!\n")
    serve(monkeypatch, zipped.getvalue())
    data = SMSSpam()
    sha256 = hashlib.sha256(zipped.getvalue()).hexdigest()
    data.files = (data.files[0]._replace(sha256=sha256),)
    data.download(verbose=False)
    # A message that spans two lines, as in some copies.
    assert list(data.messages()) == [("Ok lar...", False), ("WIN a prize!!", True)]
    assert list(data)[1] == ({"win": 1.0, "a": 1.0, "prize": 1.0, "!!": 1.0}, True)


def test_checksum_can_ignore_whitespace(monkeypatch: pytest.MonkeyPatch) -> None:
    file = remote.File(
        "a", "http://a", None, hashlib.sha256(b"1 2 3").hexdigest(), ignore_whitespace=True
    )
    for text, is_valid in ((b"\n1 2 \r\n3\n", True), (b"1 2 4", False)):
        path = remote.data_home() / "a"
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text)
        if is_valid:
            remote.verify(path, file)
        else:
            with pytest.raises(Lost):
                remote.verify(path, file)


def test_user_files_may_be_compressed(tmp_path: Path) -> None:
    numbers = np.arange(20_000).reshape(2, 10_000) % 7
    text = "\n".join(" ".join(map(str, row)) for row in numbers.tolist()).encode()
    (tmp_path / "arcene_valid.data.gz").write_bytes(gzip.compress(b"\n" + text + b" \n"))
    (tmp_path / "arcene_valid.labels").write_text("1\n-1\n")
    data = Arcene("validation", directory=tmp_path)
    with pytest.raises(Lost, match="has 2 rows of 10,000 columns, expected 100 of 10,000"):
        data.matrix()
    data.n_samples = 2
    X, y = data.matrix()
    assert np.array_equal(X.toarray(), numbers) and y.tolist() == [True, False]


def test_landsat_products(tmp_path: Path) -> None:
    rows = np.arange(74).reshape(2, 37) % 11
    (tmp_path / "sat.tst").write_text("\n".join(" ".join(map(str, row)) for row in rows.tolist()))
    without_products, with_products = (
        Landsat("test", p, directory=tmp_path) for p in (False, True)
    )
    without_products.n_samples = with_products.n_samples = 2
    X, y = without_products.matrix()
    product_matrix, _ = with_products.matrix()
    assert product_matrix.shape == (2, 1296) and y.tolist() == rows[:, 36].tolist()
    for i, j in ((0, 0), (3, 17), (35, 2)):
        assert np.array_equal(
            product_matrix[:, [36 * i + j]].toarray(), X[:, [i]].toarray() * X[:, [j]].toarray()
        )


def test_mnist_from_idx(tmp_path: Path) -> None:
    pixels = (np.arange(2 * 784) % 251).astype(np.uint8)
    head = b"\0\0\x08\x03" + np.array([2, 28, 28], ">u4").tobytes()
    (tmp_path / "t10k-images-idx3-ubyte").write_bytes(head + pixels.tobytes())
    label = b"\0\0\x08\x01" + np.array([2], ">u4").tobytes() + b"\x07\x03"
    (tmp_path / "t10k-labels-idx1-ubyte.gz").write_bytes(gzip.compress(label))
    data = MNIST("test", directory=tmp_path)
    data.n_samples = 2
    X, y = data.matrix()
    assert np.array_equal(X.toarray().ravel(), pixels) and y.tolist() == [7, 3]
    whole = head + pixels.tobytes()
    for size in (0, 2, 3, 4, len(head) - 1, len(head), len(whole) - 1):
        (tmp_path / "t10k-images-idx3-ubyte").write_bytes(whole[:size])
        with pytest.raises(Lost, match="is not a valid IDX file"):
            MNIST("test", directory=tmp_path).matrix()


def rcv1_files(folder: Path) -> None:
    """Write files in the original format: five parts with two stories each, and their topics."""
    for part, file in enumerate(VECTORS):
        lines = [f"{10 * part + k}  {part + 1}:0.5 47236:{k + 1}.25\n" for k in (1, 2)]
        (folder / file.name).write_bytes(gzip.compress("".join(lines).encode()))
    topics = "CCAT 1 1\nECAT 1 1\nCCAT 42 1\nGCAT 31 1\nCCAT 999 1\n"
    (folder / TOPICS.name).write_bytes(gzip.compress(topics.encode()))


def test_rcv1_original_files(tmp_path: Path) -> None:
    rcv1_files(tmp_path)
    data = RCV1(directory=tmp_path)
    data.n_samples = 10
    X, y = data.matrix()
    assert X.shape == (10, 47_236) and y.tolist() == [True] + [False] * 8 + [True]
    assert X[3].indices.tolist() == [1, 47_235] and X[3].data.tolist() == [0.5, 3.25]
    membership, names = data.topics()
    assert names == ["CCAT", "ECAT", "GCAT"] and membership.sum() == 4
    with pytest.raises(ValueError, match="topic must be one of the 3 topics of RCV1, .*, got 'X'"):
        RCV1("X", directory=tmp_path).matrix()


def test_rcv1_sample(tmp_path: Path) -> None:
    np.savez(
        tmp_path / "rcv1_2.npz", data=np.float32([0.5, 0.25]), indices=np.int32([3, 1]),
        indptr=np.int32([0, 1, 2]), shape=np.array([2, 47_236]), yindices=np.int32([1]),
        yindptr=np.int32([0, 0, 1]), yshape=np.array([2, 2]), topics=np.array(["CCAT", "ECAT"]),
    )  # fmt: skip
    data = RCV1("ECAT", directory=tmp_path)
    assert list(data) == [({3: 0.5}, False), ({1: 0.25}, True)] and len(data) == 2


def test_clicks_are_sorted_by_time(tmp_path: Path) -> None:
    (tmp_path / "train_sample.csv").write_text(
        "ip,app,device,os,channel,click_time,attributed_time,is_attributed\n"
        "1,2,3,4,5,2017-11-07 10:30,,0\n6,7,8,9,10,2017-11-07 9:30,2017-11-07 9:31,1\n"
    )
    examples = list(TalkingData(directory=tmp_path))
    assert [x["ip"] for x, _ in examples] == ["6", "1"] and [y for _, y in examples] == [
        True,
        False,
    ]


# The checks that river's own tests make: description and dimensions.


@pytest.mark.parametrize(
    "data",
    [RCV1(), MAGIC04(), Arcene(), Landsat(), MNIST(), SMSSpam(), TalkingData(), Drifting(n=30)],
    ids=lambda data: type(data).__name__,
)
def test_description_of_river(data: Any) -> None:
    text = repr(data)
    assert f"Name  {type(data).__name__}" in text and "Task  " in text
    assert len(data) == data.n_samples and data.desc.strip()
    for file in getattr(data, "files", ()):
        assert file.url.startswith("https://") and (len(file.sha256) == 64 or file.sha256 == "")


DATASETS = [RCV1, MAGIC04, Arcene, Landsat, MNIST, SMSSpam, TalkingData]


@pytest.mark.parametrize("dataset_class", DATASETS)
def test_real_data(dataset_class: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = DATA_DIRECTORY
    if folder is None or not Path(folder).is_dir():
        pytest.skip("STREAML1_DATA is not a directory with real data sets")
    monkeypatch.setenv("STREAML1_DATA", folder)
    data = dataset_class()
    if not data.is_downloaded:
        pytest.skip(f"the directory has no {data.subdirectory}")
    n = labels = 0
    for x, y in data:
        n, labels = n + 1, labels + (y is True)
        assert len(x) <= (data.n_features or 10_000)
    assert n == data.n_samples
    n_positive = {"MAGIC04": 12_332, "Arcene": 44, "SMSSpam": 747, "TalkingData": 227}
    assert labels == n_positive.get(dataset_class.__name__, labels)
    for file in data.files:
        path = data.find_file(file.name)
        original = path is not None and path.name == file.name and not file.member
        if original and file.size is not None and path.stat().st_size == file.size:
            remote.verify(path, file)


DATA_DIRECTORY = os.environ.get("STREAML1_DATA")


def test_drifting_follows_its_weights() -> None:
    options = {"n": 400, "d": 50, "nonzeros": 6, "relevant": 10, "noise": 0.0}
    for change in ("none", "abrupt", "gradual"):
        data = Drifting(change=change, period=100, seed=3, **options)
        X, y = data.matrix()
        rows = list(data)
        assert [label for _, label in rows] == y.tolist()
        assert [sorted(x) for x, _ in rows] == [X[i].indices.tolist() for i in range(400)]
        result = [float(X[i].toarray().ravel() @ data.truth(i)) for i in range(400)]
        assert [a > 0.0 for a in result] == y.tolist()
        assert min(len(x) for x, _ in rows) >= 1 and max(len(x) for x, _ in rows) <= 6
    assert np.array_equal(data.truth(10), data.truth(40)) and data.truth(399).any()
    assert not np.array_equal(data.truth(60), data.truth(90))
    other_labels = Drifting(change=change, period=100, seed=4, **options).matrix()[1]
    assert not np.array_equal(other_labels, y)
    for invalid in ({"n": 0}, {"relevant": 51}, {"noise": -1.0}, {"change": "slow"}):
        with pytest.raises(ValueError, match=str(next(iter(invalid)))):
            Drifting(**{**options, **invalid})


# Sources


def test_source_shuffles_and_splits_into_blocks(tmp_path: Path) -> None:
    (tmp_path / "river").mkdir()
    rows = np.arange(37 * 40).reshape(40, 37) % 23
    (tmp_path / "sat.trn").write_text("\n".join(" ".join(map(str, row)) for row in rows.tolist()))

    def open_landsat(spec: str, seed: int = 0) -> Any:
        source = SOURCES["data"](spec, seed)
        source.data.n_samples = 40
        return source

    spec = f"data:landsat?directory={tmp_path}"
    file_order = list(open_landsat(f"{spec}&order=file"))
    assert [y for _, y in file_order] == rows[:, 36].tolist()
    shuffled, reopened, reseeded = open_landsat(spec), open_landsat(spec), open_landsat(spec, 1)
    assert list(shuffled) == list(reopened) != list(reseeded)
    key = str
    assert sorted(map(key, shuffled)) == sorted(map(key, file_order)) == sorted(map(key, reseeded))
    blocks = list(shuffled.blocks(15, print))
    assert [len(block) for block in blocks] == [15, 15, 10]
    assert [pair for b in blocks for pair in zip(b.x, b.y, strict=True)] == list(shuffled)
    assert blocks[1].place(0) == f"{spec}:16"
    shuffled.begin({"line": 30})
    assert [block.lines for block in shuffled.blocks(15, print)] == [list(range(31, 41))]
    label = str(rows[0, 36])
    binary = list(open_landsat(f"{spec}&order=file&label={label}"))
    assert [y for _, y in binary] == [str(k) == label for k in rows[:, 36].tolist()]
    for invalid_spec, reason in (
        ("data:nonesuch", "use data: and one of rcv1, magic04"),
        ("data:Mnist", "data:Mnist .did you mean data:mnist[?].; use data: and one of rcv1"),
        (f"{spec}&topic=CCAT", "unknown parameter topic= in .*; landsat takes label, order, part"),
        (f"{spec}&part=all", "part must be 'train' or 'test', got 'all'"),
        (f"{spec}&products=maybe", "products must be true or false"),
        (f"{spec}&order=any", "order must be file or left out"),
        (f"{spec}&part=train&part=test", "has part= more than once; give it once"),
        ("data:drifting?n=abc", "drifting?n=abc: n must be an integer, such as 10000, got n=abc"),
        ("data:drifting?n=1e3", "n must be an integer, such as 10000, got n=1e3"),
        ("data:drifting?seed", "seed must be an integer, such as 0, got seed="),
        ("data:drifting?noise=much", "noise must be a number, such as 0.1, got noise=much"),
        ("data:drifting?n=300&n=400", "has n= more than once"),
    ):
        with pytest.raises(SourceError, match=reason.replace("?", r"\?")):
            SOURCES["data"](invalid_spec, 0)
    with pytest.raises(SourceError, match="label must be one of .*, got label=99"):
        list(open_landsat(f"{spec}&label=99"))


def test_classes_are_loaded_lazily() -> None:
    assert "RCV1" in dir(datasets)
    with pytest.raises(AttributeError, match="has no attribute 'Nonesuch'"):
        _ = datasets.Nonesuch
