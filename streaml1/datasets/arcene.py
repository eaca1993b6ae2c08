"""ARCENE: mass spectra of 100 patients, with 10,000 columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from river.datasets import base

from streaml1.datasets.remote import File, MatrixDataset, check_choice, parse_numbers
from streaml1.sources.source import Lost

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["Arcene"]

UCI = "https://archive.ics.uci.edu/ml/machine-learning-databases/arcene/"
FILES = {
    "train": (
        File(
            "arcene_train.data", f"{UCI}ARCENE/arcene_train.data", None,
            "a600f124b27d4b65996907bbd78352c821df97bdbe5a4c80de715a73d43eb544",
            ignore_whitespace=True,
        ),
        File(
            "arcene_train.labels", f"{UCI}ARCENE/arcene_train.labels", 256,
            "434bb813ff7e69d182eeed347f77bd4981917d6233efedd01b5f6d916c282fbe",
        ),
    ),
    "validation": (
        File(
            "arcene_valid.data", f"{UCI}ARCENE/arcene_valid.data", None,
            "000d7ea40320bd93a6ead102b3a13458982003ed97d256e77cb72f8f64c02d8a",
            ignore_whitespace=True,
        ),
        File(
            "arcene_valid.labels", f"{UCI}arcene_valid.labels", 256,
            "b591228155de082dd39b2e85b12b75a55bd8ca057b7e1c0d7f54683d0a594fc3",
        ),
    ),
}  # fmt: skip


class Arcene(MatrixDataset):
    """Mass spectra of 100 patients; the label says whether the patient has cancer.

    Parameters
    ----------
    part
        "train", or "validation" with 100 other patients.
    directory
        Directory with arcene_train.data and arcene_train.labels (arcene_valid for "validation"),
        plain or compressed with gzip. None: the directory named by `STREAML1_DATA`, else the
        download directory of river.

    References
    ----------
    [^1]: [Guyon, I., Gunn, S., Ben-Hur, A. and Dror, G., 2004. Result analysis of the NIPS 2003
        feature selection challenge.](https://doi.org/10.24432/C58P55)
    """

    def __init__(self, part: str = "train", directory: str | Path | None = None) -> None:
        self.part = check_choice("part", part, ("train", "validation"))
        super().__init__(
            "arcene", FILES[part], directory, task=base.BINARY_CLF, n_samples=100,
            n_features=10_000, sparse=True,
        )  # fmt: skip

    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        from scipy.sparse import csr_matrix

        features, labels = (file.name for file in self.files)
        X = parse_numbers(self.read_file(features), 10_000, str(self.home / features))
        y = parse_numbers(self.read_file(labels), 1, str(self.home / labels)).ravel()
        if len(y) != len(X):
            raise Lost(f"{self.home} has {len(X)} rows but {len(y)} labels; download both again")
        return csr_matrix(X), y > 0
