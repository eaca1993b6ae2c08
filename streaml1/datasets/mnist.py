"""MNIST: handwritten digits."""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from river.datasets import base

from streaml1.datasets.remote import File, MatrixDataset, check_choice
from streaml1.sources.source import Lost

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["MNIST"]

# The mirror that PyTorch uses: the original, yann.lecun.com/exdb/mnist, no longer responds.
MIRROR = "https://ossci-datasets.s3.amazonaws.com/mnist/"


def _file(name: str, size: int, sha256: str) -> File:
    return File(name, f"{MIRROR}{name}", size, sha256)


FILES = {
    "train": (
        _file("train-images-idx3-ubyte.gz", 9_912_422,
              "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609"),
        _file("train-labels-idx1-ubyte.gz", 28_881,
              "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c"),
    ),
    "test": (
        _file("t10k-images-idx3-ubyte.gz", 1_648_877,
              "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6"),
        _file("t10k-labels-idx1-ubyte.gz", 4_542,
              "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6"),
    ),
}  # fmt: skip


class MNIST(MatrixDataset):
    """Handwritten digits, 28 x 28 pixels from 0 to 255; the label is the digit.

    Parameters
    ----------
    part
        "train" (60,000 rows) or "test" (10,000).
    directory
        Directory with the original files, train-images-idx3-ubyte and so on, plain or compressed
        with gzip. None: the directory named by `STREAML1_DATA`, else the download directory of
        river.

    References
    ----------
    [^1]: [LeCun, Y., Bottou, L., Bengio, Y. and Haffner, P., 1998. Gradient-based learning applied
        to document recognition.](https://doi.org/10.1109/5.726791)
    """

    def __init__(self, part: str = "train", directory: str | Path | None = None) -> None:
        self.part = check_choice("part", part, ("train", "test"))
        super().__init__(
            "mnist", FILES[part], directory, task=base.MULTI_CLF, n_features=784, n_classes=10,
            n_samples=60_000 if part == "train" else 10_000, sparse=True,
        )  # fmt: skip

    def _read(self) -> tuple[csr_matrix, NDArray[Any]]:
        from scipy.sparse import csr_matrix

        pixels, digits = (_parse_idx(self.read_file(file.name), file.name) for file in self.files)
        if pixels.shape != (len(digits), 28, 28):
            raise Lost(f"{self.home} has images and labels of different sizes; download both again")
        return csr_matrix(pixels.reshape(len(digits), 784), dtype=np.float64), digits.astype(int)


def _parse_idx(content: bytes, name: str) -> NDArray[np.uint8]:
    """Parse a file in the IDX format of unsigned bytes.

    Its header is 0, 0, 8 (the code of unsigned bytes) and the number of dimensions, followed by
    the size of each as a big-endian uint32.
    """
    dimensions = content[3] if len(content) > 3 and content[:3] == b"\0\0\x08" else 0
    header_size = 4 + 4 * dimensions
    if dimensions and len(content) >= header_size:
        shape = np.frombuffer(content, ">u4", dimensions, 4).tolist()
        if len(content) == header_size + math.prod(shape):
            return np.frombuffer(content, np.uint8, offset=header_size).reshape(shape)
    raise Lost(f"{name} is not a valid IDX file; download it again")
