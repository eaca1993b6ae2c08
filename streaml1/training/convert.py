"""Any source to a file of rows, which is read many times as fast as text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from streaml1 import __version__
from streaml1.core.rows import BadExample
from streaml1.features.batch import batch_of, checked
from streaml1.sources import Block, Refuse, SourceError, format_of
from streaml1.sources.row_cache.writer import RowsWriter
from streaml1.training.error_policy import Refusals, require_positive
from streaml1.training.examples import Slice, opened_source, rows_of

__all__ = ["Converted", "convert"]

BLOCK = 8192


class Converted(NamedTuple):
    """What has been written."""

    rows: int
    features: int
    names: int
    size: int
    refused: int


def convert(
    source: Any, path: str | Path, *, limit: int | None = None, bad: str = "fail", **options: Any
) -> Converted:
    """Write the examples of a source to a file of rows, ``.rows``.

    Parameters
    ----------
    source, limit, bad
        As for `streaml1.progressive`. A line without a label is refused, unless `require_label`
        is False; whether a label is one of the two is for the model to say.
    path
        The file. It is there in one step once all is written.
    options
        As for `open_source`.

    Returns
    -------
    Converted
        How many rows, non-zeros and distinct names there are, the bytes, and how many examples
        were refused.

    Raises
    ------
    BadExample
        Where an example is refused and `bad` is `"fail"`; nothing is written then.
    SourceError
        Where the source cannot be read, or has more names than a file of rows holds, or no example
        is left of it: the file stays what it was.
    OSError
        Where the file cannot be written.
    TypeError
        Where the source is none.
    ValueError
        Where `limit` or `bad` is out of range.

    Examples
    --------
    >>> import tempfile
    >>> from streaml1.training import convert, predictions
    >>> path = tempfile.mkdtemp() + "/sites.rows"
    >>> convert([({"site": "news"}, True), ({"site": "mail"}, False)], path).names
    2
    """
    require_positive(limit=limit)
    refuse = Refusals(bad)
    opened = opened_source(source, **options)
    named = isinstance(source, str | Path) or hasattr(source, "blocks")
    about = {
        "source": opened.name,
        "format": format_of(opened.name, options.get("format")) if named else "examples",
        "streaml1": __version__,
    }
    with RowsWriter(path, about, limit) as writer:
        for block in opened.blocks(min(BLOCK, limit or BLOCK), refuse):
            for part in _as_dicts(block, refuse) if isinstance(block, Slice) else (block,):
                writer.add(part, refuse)
                del part
            if not writer.remaining:
                break
            del block  # so that its memory may be taken for the next
        refuse.summarise()
        if not writer.rows:  # such as of a pipe whose other end has failed
            left_out = f" ({refuse.count:,} refused)" if refuse.count else ""
            raise SourceError(
                f"{opened.name} has no example to convert{left_out}; {path} is not written"
            )
    return Converted(writer.rows, writer.features, writer.names, writer.size, refuse.count)


def _as_dicts(some: Slice, refuse: Refuse) -> Iterator[Block]:
    """Rows of a matrix or a frame as dicts, but for those that are refused."""
    lo, n = 0, len(some)
    while lo < n:
        hi, bad = n, None
        try:
            xs = _dicts(rows_of(some.x, lo, n))
        except BadExample as refused:
            hi, bad = lo + (refused.row or 0), refused
            xs = _dicts(rows_of(some.x, lo, hi))
        w = None if some.w is None else some.w[lo:hi]
        yield Block(xs, some.y[lo:hi], w, some.name, some.lines[lo:hi])
        if bad is not None:
            refuse(some.place(hi), bad.reason, some.lines[hi])
        lo = hi + 1


def _dicts(x: Any) -> list[Any]:
    if isinstance(x, list):
        return x
    batch = checked(batch_of(x))
    ids, values, indptr = (one.tolist() for one in batch.rows)
    names = ids if batch.names is None else [batch.names[k] for k in ids]
    return [dict(zip(names[a:b], values[a:b], strict=True)) for a, b in pairwise(indptr)]
