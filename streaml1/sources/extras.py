"""Say which extra of streaml1 is missing when its library is not installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from streaml1.sources.source import SourceError

__all__ = ["importing"]


@contextmanager
def importing(library: str, extra: str, name: str) -> Iterator[None]:
    """Import a library that only an extra installs in the body of this context.

    Parameters
    ----------
    library
        The library, for the message.
    extra
        The extra of streaml1.
    name
        What needs it: a source or an option.

    Raises
    ------
    SourceError
        If it is not installed.
    """
    try:
        yield
    except ImportError:
        raise SourceError(
            f"{name} needs {library}: install it with pip install 'streaml1[{extra}]'"
        ) from None
