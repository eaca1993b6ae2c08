"""RCV1-v2: Reuters news stories and their topics."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.datasets.remote import File, MatrixDataset
from streaml1.sources import open_source
from streaml1.sources.source import Lost
from streaml1.text.parsed_rows import IntRows

if TYPE_CHECKING:
    from scipy.sparse import csc_matrix, csr_matrix

__all__ = ["RCV1"]

FIGSHARE = "https://ndownloader.figshare.com/files/"

# The mirror and the checksums of scikit-learn's fetch_rcv1; the original files were at
# jmlr.csail.mit.edu/papers/volume5/lewis04a.
VECTORS = tuple(
    File(f"lyrl2004_vectors_{part}.dat.gz", f"{FIGSHARE}{number}", None, sha256)
    for part, number, sha256 in (
        ("train", 5976057, "5468f656d0ba7a83afc7ad44841cf9a53048a5c083eedc005dcdb5cc768924ae"),
        ("test_pt0", 5976069, "ed40f7e418d10484091b059703eeb95ae3199fe042891dcec4be6696b9968374"),
        ("test_pt1", 5976066, "87700668ae45d45d5ca1ef6ae9bd81ab0f5ec88cc95dcef9ae7838f727a13aa6"),
        ("test_pt2", 5976063, "48143ac703cbe33299f7ae9f4995db49a258690f60e5debbff8995c34841c7f5"),
        ("test_pt3", 5976060, "dfcb0d658311481523c6e6ca0c3f5a3e1d3d12cde5d7a8ce629a9006ec7dbb39"),
    )
)
TOPICS = File(
    "rcv1v2.topics.qrels.gz", f"{FIGSHARE}5976048", None,
    "2a98e5e5d8b770bded93afc8930d88299474317fe14181aee1466cc754d0d1c1",
)  # fmt: skip

COLUMNS = 47_236


class RCV1(MatrixDataset):
    """RCV1-v2: 804,414 Reuters news stories by time; the label says if a story has a topic.

    A row holds the cosine-normalized tf-idf of the terms of a story, 76 of 47,236 on average.
    Column j is term j + 1 of the original, as in scikit-learn. The first 23,149 rows are the
    original training set.

    Parameters
    ----------
    topic
        The topic of the labels, one of 103: "CCAT", "ECAT", "GCAT", "MCAT", "C15", ...
    directory
        Directory with the original files (lyrl2004_vectors_train.dat.gz, the four of the test set,
        rcv1v2.topics.qrels.gz) or with a sample. None: the directory named by `STREAML1_DATA`, else
        the download directory of river. A sample is a file rcv1_*.npz with the arrays `data`,
        `indices`, `indptr` and `shape` of a CSR matrix, `yindices`, `yindptr` and `yshape` of the
        matrix of its topics, and `topics`, their names. A sample is not ordered by time: shuffle
        it.

    References
    ----------
    [^1]: [Lewis, D.D., Yang, Y., Rose, T.G. and Li, F., 2004. RCV1: a new benchmark collection for
        text categorization research. JMLR
        5.](https://jmlr.csail.mit.edu/papers/volume5/lewis04a/)
    """

    def __init__(self, topic: str = "CCAT", directory: str | Path | None = None) -> None:
        self.topic = topic
        super().__init__(
            "rcv1", (*VECTORS, TOPICS), directory, task=base.BINARY_CLF, n_samples=804_414,
            n_features=COLUMNS, sparse=True,
        )  # fmt: skip
        sample = self._sample
        if sample is not None:
            with np.load(sample) as arrays:
                self.n_samples = int(arrays["shape"][0])

    @property
    def _sample(self) -> Path | None:
        """The sample in the user's directory, unless that has the original files."""
        directory = self.user_directory
        if directory is None or super().is_downloaded:
            return None
        return next(iter(sorted(directory.glob("rcv1_*.npz"))), None)

    @property
    def is_downloaded(self) -> bool:
        """Whether the original files exist, or a sample in the user's directory."""
        return self._sample is not None or super().is_downloaded

    def topics(self) -> tuple[csc_matrix, list[str]]:
        """Return the topics of each row as a CSC matrix of ones, and their names."""
        self.ensure_downloaded()
        sample = self._sample
        return self._original_topics() if sample is None else _read_sample_topics(sample)

    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        topics, names = self.topics()
        if self.topic not in names:
            raise ValueError(
                f"topic must be one of the {len(names)} topics of RCV1, such as "
                f"{', '.join(names[:3])} or {names[-1]}, got {self.topic!r}"
            )
        sample = self._sample
        X = self._original[0] if sample is None else _read_sample(sample)
        return X, topics[:, [names.index(self.topic)]].toarray().ravel() > 0

    @functools.cached_property
    def _original(self) -> tuple[csr_matrix, NDArray[np.int64]]:
        """The rows of the original files, and the story number of each."""
        from scipy.sparse import csr_matrix

        rows: list[Any] = []
        stories: list[Any] = []
        for file in VECTORS:
            path = self.find_file(file.name)
            assert path is not None  # `ensure_downloaded` has checked
            kind = "svmlight.gz" if path.suffix == ".gz" else "svmlight"
            for block in open_source(path, format=kind).blocks(8192, _reject):
                rows.append(block.x)
                stories.append(block.y)
        joined = IntRows.concatenate(rows)
        ids = joined.ids.astype(np.int32) - 1
        X = csr_matrix((joined.values, ids, joined.indptr), (len(joined), COLUMNS))
        return X, np.concatenate(stories).astype(np.int64)

    def _original_topics(self) -> tuple[csc_matrix, list[str]]:
        """Read the topics from lines such as "CCAT 2286 1": topic, story, 1."""
        from scipy.sparse import csc_matrix

        fields = np.array(self.read_file(TOPICS.name).decode().split()).reshape(-1, 3)
        names, topic = np.unique(fields[:, 0], return_inverse=True)
        stories = self._original[1]
        order = np.argsort(stories, kind="stable")
        story = fields[:, 1].astype(np.int64)
        pos = np.minimum(np.searchsorted(stories[order], story), len(stories) - 1)
        rows = order[pos]
        is_known = stories[rows] == story  # some stories have topics, but no vector
        entries = (np.ones(int(is_known.sum())), (rows[is_known], topic[is_known]))
        return csc_matrix(entries, (len(stories), len(names))), names.tolist()


def _reject(place: str, reason: str, *_: object) -> None:
    raise Lost(f"{place}: {reason}; download RCV1 again")


def _read_sample(path: Path) -> csr_matrix:
    from scipy.sparse import csr_matrix

    with np.load(path) as arrays:
        csr = (arrays["data"].astype(np.float64), arrays["indices"], arrays["indptr"])
        X = csr_matrix(csr, tuple(arrays["shape"].tolist()))
    X.sort_indices()
    return X


def _read_sample_topics(path: Path) -> tuple[csc_matrix, list[str]]:
    from scipy.sparse import csr_matrix

    with np.load(path) as arrays:
        csr = (np.ones(len(arrays["yindices"])), arrays["yindices"], arrays["yindptr"])
        topics = csr_matrix(csr, tuple(arrays["yshape"].tolist()))
        return topics.tocsc(), arrays["topics"].tolist()
