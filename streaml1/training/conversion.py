"""Convert any source to a ``.rows`` file, which is read many times faster than text."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

from streaml1.core.option_fields import document_options
from streaml1.core.rows import BadExample
from streaml1.core.version import __version__
from streaml1.features.batch import batch_of, checked
from streaml1.sources import Block, Reject, SourceError, format_of, is_many
from streaml1.sources.row_cache.writer import RowsWriter
from streaml1.training.config import SOURCE_PARAMETERS, RunConfig, run_config, run_parameters
from streaml1.training.error_policy import ErrorPolicy
from streaml1.training.example_sources import RowBlock, open_examples, slice_rows
from streaml1.training.observers import Batch
from streaml1.training.rejection_reasons import RejectionReasons

__all__ = ["Converted", "convert"]

BLOCK_ROWS = 8192

ACCEPTS = ("limit", "bad", "observers")


class Converted(NamedTuple):
    """Contents of a file that was written.

    Parameters
    ----------
    rows, features, names
        Number of rows, of non-zeros, and of distinct names.
    size
        Bytes.
    rejected
        Number of rejected examples.
    reasons
        Why they were rejected.
    """

    rows: int
    features: int
    names: int
    size: int
    rejected: int
    reasons: RejectionReasons


@document_options(run_parameters(ACCEPTS), SOURCE_PARAMETERS)
def convert(
    source: Any, path: str | Path, config: RunConfig | None = None, **options: Any
) -> Converted:
    """Write the examples of a source to a ``.rows`` file.

    A line without a label is rejected, unless `require_label=False`. Whether a label is one of two
    classes is for the model to check.

    Parameters
    ----------
    source
        As for `streaml1.progressive`.
    path
        File to write. It is replaced atomically once everything is written.
    config : RunConfig, optional
        Options of the run. The keywords below override its fields.
    {options}

    Returns
    -------
    Converted
        What was written.

    Raises
    ------
    BadExample
        If an example is rejected and `bad` is `"fail"`. Nothing is written then.
    SourceError
        If the source cannot be read, has more names than the format allows, or has no example that
        is not rejected. The file stays as it was.
    OSError
        If the file cannot be written.
    TypeError
        If `source` has an unsupported type, or an option does not exist.
    ValueError
        If an option is out of range.

    Examples
    --------
    >>> import tempfile
    >>> from streaml1.training import convert, predictions
    >>> path = tempfile.mkdtemp() + "/sites.rows"
    >>> convert([({"site": "news"}, True), ({"site": "mail"}, False)], path).names
    2
    """
    config = run_config("convert", config, options, ACCEPTS, internal=True)
    limit = config.limit
    policy = ErrorPolicy(config.bad, config.observers)
    opened = open_examples(source, config.source_options)
    is_named = isinstance(source, str | Path) or is_many(source) or hasattr(source, "blocks")
    files = getattr(opened, "files", opened.name)
    header = {
        "source": opened.name,
        "format": format_of(files, config.source_options.format) if is_named else "examples",
        "streaml1": __version__,
    }
    with RowsWriter(path, header, limit) as writer, policy.totals_at_failure():
        for block in opened.blocks(min(BLOCK_ROWS, limit or BLOCK_ROWS), policy):
            for part in _dict_blocks(block, policy) if isinstance(block, RowBlock) else (block,):
                writer.add(part, policy)
                policy.observers.on_batch(Batch(part, 0, len(part), part.y, part.w, None))
                del part
            if not writer.remaining:
                break
            del block  # lets the reader reuse its memory for the next block
        if writer.remaining:
            policy.observers.on_pass_end()
        policy.observers.on_end()
        policy.log_total()
        if not writer.rows:  # for example a pipe whose other end has failed
            skipped = f" ({policy.count:,} rejected)" if policy.count else ""
            raise SourceError(
                f"{opened.name} has no example to convert{skipped}; {path} is not written"
            )
    return Converted(
        writer.rows, writer.features, writer.names, writer.size, policy.count, policy.reasons
    )


def _dict_blocks(block: RowBlock, reject: Reject) -> Iterator[Block]:
    """Yield the rows of a matrix or a frame as blocks of dicts, without the rejected ones."""
    lo, n = 0, len(block)
    while lo < n:
        hi, error = n, None
        try:
            xs = _dicts(slice_rows(block.x, lo, n))
        except BadExample as found:
            hi, error = lo + (found.row or 0), found
            xs = _dicts(slice_rows(block.x, lo, hi))
        w = None if block.w is None else block.w[lo:hi]
        yield Block(xs, block.y[lo:hi], w, block.name, block.lines[lo:hi])
        if error is not None:
            reject(block.place(hi), error.reason, block.lines[hi])
        lo = hi + 1


def _dicts(x: Any) -> list[Any]:
    """Return the rows of a matrix, a frame or a list as dicts."""
    if isinstance(x, list):
        return x
    batch = checked(batch_of(x))
    ids, values, indptr = (column.tolist() for column in batch.rows)
    names = ids if batch.names is None else [batch.names[k] for k in ids]
    return [dict(zip(names[lo:hi], values[lo:hi], strict=True)) for lo, hi in pairwise(indptr)]
