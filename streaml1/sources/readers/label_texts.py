"""Labels as the texts that a file has, of which few are different."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np

__all__ = ["LabelTexts"]


class LabelTexts(Sequence[str | None]):
    """A text each, or None, as numbers of those that are different.

    Parameters
    ----------
    which
        Which text each is, ints.
    texts
        The texts: all that `which` tells, and there may be others.

    Examples
    --------
    >>> import numpy as np
    >>> labels = LabelTexts(np.array([0, 1, 0]), ["ham", "spam"])
    >>> len(labels), labels[1], labels[1:].tolist()
    (3, 'spam', ['spam', 'ham'])
    """

    __slots__ = ("texts", "which")

    def __init__(self, which: Any, texts: list[str | None]) -> None:
        self.which = which
        self.texts = texts

    def __len__(self) -> int:
        return len(self.which)

    @overload
    def __getitem__(self, k: int) -> str | None: ...

    @overload
    def __getitem__(self, k: slice) -> LabelTexts: ...

    def __getitem__(self, k: int | slice) -> str | None | LabelTexts:
        if isinstance(k, slice):
            return LabelTexts(self.which[k], self.texts)
        return self.texts[int(self.which[k])]

    def __iter__(self) -> Iterator[str | None]:
        return iter(self.tolist())

    def tolist(self) -> list[str | None]:
        """The texts."""
        told: list[str | None] = np.array(self.texts, object)[self.which].tolist()
        return told
