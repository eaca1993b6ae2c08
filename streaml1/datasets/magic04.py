"""The MAGIC gamma telescope, and the two data sets that are made from it with random columns."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from river.datasets import base

from streaml1.datasets.remote import File, Matrix, numbers, one_of
from streaml1.sources.source import Lost

__all__ = ["MAGIC04"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/"
FILES = (
    File(
        "magic04.data", f"{UCI}magic/magic04.data", 1_477_391,
        "e9314b7ebd4b4b59a3b3d65f7316663963777b16a46786877651dbbaa640b36a",
    ),
)  # fmt: skip

RANDOM = 1000
"""How many random columns there are with noise."""

FEW = 0.05


class MAGIC04(Matrix):
    """The MAGIC gamma telescope: 19,020 showers, those of gamma rays True, those of hadrons False.

    The rows are in the file's order, which is that of the labels: shuffle them.

    Parameters
    ----------
    noise
        With "sparse" there are 1,000 random columns more, each 1 with probability 0.05 (MAGIC04S
        of the paper), with "dense" each -1 or 1 (MAGIC04D).
    seed
        Of the random columns.
    directory
        A folder with magic04.data; None: that of `STREAML1_DATA`, or river's.

    References
    ----------
    [^1]: [Bock, R. 2004. MAGIC Gamma Telescope.](https://doi.org/10.24432/C52C8B)
    [^2]: Shalev-Shwartz, S. and Tewari, A., 2009. Stochastic methods for l1 regularized loss
        minimization, Section 4. ICML.
    """

    def __init__(
        self, noise: str | None = None, seed: int = 0, directory: str | Path | None = None
    ) -> None:
        self.noise = one_of("noise", noise, (None, "sparse", "dense"))
        self.seed = seed
        super().__init__(
            "magic04", FILES, directory, task=base.BINARY_CLF, n_samples=19_020,
            n_features=10 if noise is None else 10 + RANDOM, sparse=True,
        )  # fmt: skip

    def _read(self) -> tuple[Any, Any]:
        from scipy.sparse import csr_matrix, hstack

        cells = [line.rpartition(b",") for line in self.text("magic04.data").split()]
        if not {label for _, _, label in cells} <= {b"g", b"h"}:
            raise Lost(f"{self.path} has a line that does not end in g or h: copy it anew")
        y = np.array([label == b"g" for _, _, label in cells])
        columns = b",".join(row for row, _, _ in cells)
        X = csr_matrix(numbers(columns, 10, str(self.path), b","))
        random = np.random.default_rng(self.seed)
        shape = (X.shape[0], RANDOM)
        if self.noise == "sparse":
            X = hstack([X, csr_matrix(random.random(shape) < FEW)], "csr", np.float64)
        elif self.noise == "dense":
            X = hstack([X, csr_matrix(np.where(random.random(shape) < 0.5, -1.0, 1.0))], "csr")
        return csr_matrix(X), y
