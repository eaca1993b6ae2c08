"""RCV1-v2: news of Reuters, with their topics."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import numpy as np
from river.datasets import base

from streaml1.datasets.remote import File, Matrix
from streaml1.sources import open_source
from streaml1.sources.source import Lost
from streaml1.text.parsed_rows import IntRows

__all__ = ["RCV1"]

FIGSHARE = "https://ndownloader.figshare.com/files/"

# Where scikit-learn's fetch_rcv1 finds them, and the checksums it knows; the originals were at
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


class RCV1(Matrix):
    """RCV1-v2: 804,414 news of Reuters by time, and whether each is of a topic.

    A row holds the cosine-normalised tf-idf of its words, 76 of 47,236 on average; column j is the
    word j + 1 of the original, as in scikit-learn. The first 23,149 rows are the original's
    training set.

    Parameters
    ----------
    topic
        Which of the 103 topics the labels tell of: "CCAT", "ECAT", "GCAT", "MCAT", "C15", ...
    directory
        A folder of one's own; None: that of `STREAML1_DATA`, or river's. It has the original files
        (lyrl2004_vectors_train.dat.gz, the four of test, rcv1v2.topics.qrels.gz), or a sample:
        rcv1_*.npz, numpy's archive of `data`, `indices`, `indptr` and `shape` of a CSR matrix,
        of `yindices`, `yindptr` and `yshape` of its topics, and of their names, `topics`. A sample
        has no order in time: shuffle it.

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
            with np.load(sample) as kept:
                self.n_samples = int(kept["shape"][0])

    @property
    def _sample(self) -> Path | None:
        own = self.own
        if own is None or super().is_downloaded:
            return None
        return next(iter(sorted(own.glob("rcv1_*.npz"))), None)

    @property
    def is_downloaded(self) -> bool:
        """Whether the original files are there, or a sample of one's own."""
        return self._sample is not None or super().is_downloaded

    def topics(self) -> tuple[Any, list[str]]:
        """Which topics each row has, as a `scipy.sparse.csc_matrix` of ones, and their names."""
        self.require()
        sample = self._sample
        return self._original_topics() if sample is None else _sampled_topics(sample)

    def _read(self) -> tuple[Any, Any]:
        of, names = self.topics()
        if self.topic not in names:
            raise ValueError(
                f"topic={self.topic!r} is none of the {len(names)} of RCV1: give one such as "
                f"{', '.join(names[:3])} or {names[-1]}"
            )
        sample = self._sample
        X = self._original[0] if sample is None else _sampled(sample)
        return X, of[:, [names.index(self.topic)]].toarray().ravel() > 0

    @functools.cached_property
    def _original(self) -> tuple[Any, Any]:
        """The rows of the original files, and the number of the news of each."""
        from scipy.sparse import csr_matrix

        rows: list[Any] = []
        news: list[Any] = []
        for file in VECTORS:
            path = self.found(file.name)
            assert path is not None  # `require` has looked
            kind = "svmlight.gz" if path.suffix == ".gz" else "svmlight"
            for block in open_source(path, format=kind).blocks(8192, _refuse):
                rows.append(block.x)
                news.append(block.y)
        every = IntRows.joined(rows)
        ids = every.ids.astype(np.int32) - 1
        X = csr_matrix((every.values, ids, every.indptr), (len(every), COLUMNS))
        return X, np.concatenate(news).astype(np.int64)

    def _original_topics(self) -> tuple[Any, list[str]]:
        """From lines such as "CCAT 2286 1"."""
        from scipy.sparse import csc_matrix

        words = np.array(self.text(TOPICS.name).decode().split()).reshape(-1, 3)
        names, topic = np.unique(words[:, 0], return_inverse=True)
        news = self._original[1]
        order = np.argsort(news, kind="stable")
        asked = words[:, 1].astype(np.int64)
        place = np.minimum(np.searchsorted(news[order], asked), len(news) - 1)
        rows = order[place]
        known = news[rows] == asked
        parts = (np.ones(int(known.sum())), (rows[known], topic[known]))
        return csc_matrix(parts, (len(news), len(names))), names.tolist()


def _refuse(place: str, reason: str, *_: Any) -> None:
    raise Lost(f"{place}: {reason}; download RCV1 anew")


def _sampled(path: Path) -> Any:
    from scipy.sparse import csr_matrix

    with np.load(path) as kept:
        parts = (kept["data"].astype(np.float64), kept["indices"], kept["indptr"])
        X = csr_matrix(parts, tuple(kept["shape"].tolist()))
    X.sort_indices()
    return X


def _sampled_topics(path: Path) -> tuple[Any, list[str]]:
    from scipy.sparse import csr_matrix

    with np.load(path) as kept:
        ones = np.ones(len(kept["yindices"]))
        of = csr_matrix((ones, kept["yindices"], kept["yindptr"]), tuple(kept["yshape"].tolist()))
        return of.tocsc(), kept["topics"].tolist()
