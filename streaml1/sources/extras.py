"""Optional libraries: which extra of streaml1 installs them, and what their errors say."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streaml1.sources.source import SourceError

__all__ = ["first_line", "importing"]


@contextmanager
def importing(library: str, extra: str, name: str) -> Iterator[None]:
    """Import an optional library that `name` needs; if it is missing, name its extra."""
    try:
        yield
    except ImportError:
        raise SourceError(
            f"{name} needs {library}: install it with pip install 'streaml1[{extra}]'"
        ) from None


def first_line(error: BaseException) -> str:
    """Return the first line of an error of a library, without its period, or the error's type."""
    return str(error).strip().partition("\n")[0].rstrip(".!") or type(error).__name__
