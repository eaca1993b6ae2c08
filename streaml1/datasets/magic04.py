"""The MAGIC gamma telescope, with or without random columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.datasets.remote import File, MatrixDataset, check_choice, parse_numbers
from streaml1.sources.source import Lost

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["MAGIC04"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
FILES = (
    File(
        "magic04.data", f"{UCI}magic/magic04.data", 1_477_391,
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    ),
)  # fmt: skip

RANDOM = 1000
"""Number of columns of random noise."""

DENSITY = 0.05
"""Share of ones in the random columns of noise="sparse"."""


class MAGIC04(MatrixDataset):
    """The MAGIC gamma telescope: 19,020 showers; the label is True for gamma rays, not hadrons.

    The rows are in the order of the file, which is sorted by label: shuffle them.

    Parameters
    ----------
    noise
        "sparse" adds 1,000 random columns with values 1 with probability 0.05, else 0 (MAGIC04S of
        the paper[^2]); "dense" adds 1,000 columns of -1 or 1 (MAGIC04D). None adds no column.
    seed
        Seed of the random columns.
    directory
        Directory with magic04.data. None: the directory named by `STREAML1_DATA`, else the download
        directory of river.

    References
    ----------
    [^1]: [Bock, R. 2004. MAGIC Gamma Telescope.](https://doi.org/10.24432/C52C8B)
    [^2]: Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
        minimization, Section 4. ICML.
    """

    def __init__(
        self, noise: str | None = None, seed: int = 0, directory: str | Path | None = None
    ) -> None:
        self.noise = check_choice("noise", noise, (None, "sparse", "dense"))
        self.seed = seed
        super().__init__(
            "magic04", FILES, directory, task=base.BINARY_CLF, n_samples=19_020,
            n_features=10 if noise is None else 10 + RANDOM, sparse=True,
        )  # fmt: skip

    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        from scipy.sparse import csr_matrix, hstack

        cells = [line.rpartition(b",") for line in self.read_file("magic04.data").split()]
        if not {label for _, _, label in cells} <= {b"g", b"h"}:
            raise Lost(f"{self.path} has a line that does not end in g or h; download it again")
        y = np.array([label == b"g" for _, _, label in cells])
        columns = b",".join(row for row, _, _ in cells)
        X = csr_matrix(parse_numbers(columns, 10, str(self.path), b","))
        random = np.random.default_rng(self.seed)
        shape = (X.shape[0], RANDOM)
        if self.noise == "sparse":
            X = hstack([X, csr_matrix(random.random(shape) < DENSITY)], "csr", np.float64)
        elif self.noise == "dense":
            X = hstack([X, csr_matrix(np.where(random.random(shape) < 0.5, -1.0, 1.0))], "csr")
        return csr_matrix(X), y
