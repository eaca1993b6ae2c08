"""Statlog Landsat satellite: the land cover at the centre of 3 x 3 pixels."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.datasets.remote import File, MatrixDataset, check_choice, parse_numbers

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Landsat"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/statlog/satimage/"
FILES = {
    "train": (
        File(
            "sat.trn", f"{UCI}sat.trn", 525_830,
            "e896dc88a960fa2404160fc4c3cb3dc53fcf4afd80ba920bf2d261bd42d12613",
        ),
    ),
    "test": (
        File(
            "sat.tst", f"{UCI}sat.tst", 236_745,
            "4b9167b8a92baafafed7c8809aef86d0683a5e685c19d98d119fa6974f0f2479",
        ),
    ),
}  # fmt: skip


class Landsat(MatrixDataset):
    """Four spectral bands of 3 x 3 pixels; the label is the land cover, 1 to 5 or 7.

    Parameters
    ----------
    part
        "train" (4,435 rows) or "test" (2,000).
    products
        Whether to replace the 36 columns by all their products, 1,296 columns, as in the
        paper[^2]: column 36 i + j is column i times column j. The values are not scaled.
    directory
        Directory with sat.trn or sat.tst. None: the directory named by `STREAML1_DATA`, else the
        download directory of river.

    References
    ----------
    [^1]: [Srinivasan, A., 1993. Statlog (Landsat Satellite).](https://doi.org/10.24432/C55887)
    [^2]: Duchi, J. and Singer, Y., 2009. Efficient learning using forward-backward splitting,
        Section 6. NIPS.
    """

    def __init__(
        self, part: str = "train", products: bool = False, directory: str | Path | None = None
    ) -> None:
        self.part = check_choice("part", part, ("train", "test"))
        self.products = products
        super().__init__(
            "landsat", FILES[part], directory, task=base.MULTI_CLF, n_classes=6,
            n_samples=4_435 if part == "train" else 2_000,
            n_features=36 * 36 if products else 36, sparse=True,
        )  # fmt: skip

    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        from scipy.sparse import csr_matrix

        cells = parse_numbers(self.read_file(self.filename), 37, str(self.path))
        X, y = cells[:, :36], cells[:, 36].astype(np.int64)
        if self.products:
            X = (X[:, :, None] * X[:, None, :]).reshape(len(X), -1)
        return csr_matrix(X), y
