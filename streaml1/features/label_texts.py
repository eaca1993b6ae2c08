"""Labels that are texts, encoded as indices into their distinct values."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

__all__ = ["LabelTexts"]


class LabelTexts(Sequence[str | None]):
    """A sequence of texts, some of them None.

    Parameters
    ----------
    codes
        The index in `texts` of each label, any integer type.
    texts
        The distinct labels. There may be unused ones.

    Examples
    --------
    >>> import numpy as np
    >>> from streaml1.features.label_texts import LabelTexts
    >>> labels = LabelTexts(np.array([0, 1, 0]), ["ham", "spam"])
    >>> len(labels), labels[1], labels[1:].tolist()
    (3, 'spam', ['spam', 'ham'])
    """

    __slots__ = ("codes", "texts")

    def __init__(self, codes: NDArray[Any], texts: list[str | None]) -> None:
        self.codes = codes
        self.texts = texts

    def __len__(self) -> int:
        return len(self.codes)

    @overload
    def __getitem__(self, k: int) -> str | None: ...

    @overload
    def __getitem__(self, k: slice) -> LabelTexts: ...

    def __getitem__(self, k: int | slice) -> str | None | LabelTexts:
        if isinstance(k, slice):
            return LabelTexts(self.codes[k], self.texts)
        return self.texts[int(self.codes[k])]

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.tolist())

    def tolist(self) -> list[str | None]:
        """Return the labels as a list."""
        labels: list[str | None] = np.array(self.texts, object)[self.codes].tolist()
        return labels
