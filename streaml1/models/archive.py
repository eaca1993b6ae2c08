"""The body of a model file: a numpy archive, deflated or not, checked before it is unpacked.

A forged file may claim anything: an array of 10^17 elements, or a megabyte that unpacks to
a gigabyte. So the layouts are read first, which costs a few bytes for each array. Names, slots,
labels and steps are as large as they are, within a bound on how well they are packed; everything
else has a size that follows from their number.
"""

from __future__ import annotations

import io
import json
import math
import zipfile
from collections.abc import Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from streaml1.core.parser_race import retry_parse
from streaml1.core.rows import ensure
from streaml1.core.types import Bytes

__all__ = ["MAX_RATIO", "SMALL_BYTES", "archive_of", "read_arrays"]

SMALL_BYTES, MAX_RATIO = 2**20, 64
"""Names, slots, labels and steps of more than `SMALL_BYTES` are at most `MAX_RATIO` times as large
as their packed bytes; a file that would exceed this is written without compression."""

MAX_MEMBERS = 64
MAX_COLUMNS = 32
"""Columns for each slot of an array of a rule, unless there are more labels."""
MAX_SHARED = 2**16
"""Bytes of what all slots share, in addition to eight for each label and column."""

_TEXTS = {"header", "names", "labels", "steps"}
_FREE = {*_TEXTS, "slots"}
"""The arrays whose size does not follow from others."""


class _Layout(NamedTuple):
    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    nbytes: int
    packed: int


def _is_packed_too_well(nbytes: int, packed: int) -> bool:
    """Return whether names, slots or labels take up too few bytes in an archive."""
    return nbytes > SMALL_BYTES + MAX_RATIO * packed


def _decode_json(text: Bytes) -> Any:
    """Return the value of an array of UTF-8 JSON."""
    return json.loads(text.tobytes().decode("utf-8", "surrogatepass"))


def read_arrays(body: bytes) -> dict[str, Any]:
    """Return the arrays of an archive, JSON decoded.

    Raises
    ------
    AssertionError
        If a size does not follow from the number of names and labels.
    Exception
        Any other, if it is not an archive.
    """
    layouts = _layouts(body)
    with np.load(io.BytesIO(body), allow_pickle=False) as archive:

        def read(name: str) -> Any:
            return retry_parse(partial(archive.__getitem__, name))

        arrays: dict[str, Any] = {}
        for name in _FREE & set(layouts):
            layout = layouts[name]
            ensure(
                not _is_packed_too_well(layout.nbytes, layout.packed),
                f"{name} unpacks to {layout.nbytes:,} bytes",
            )
            arrays[name] = _decode_json(read(name)) if name in _TEXTS else read(name)
        n_slots = len(arrays["names"]) if "names" in arrays else len(arrays["slots"])
        n_labels = len(arrays.get("labels", ()))
        for name in set(layouts) - _FREE:
            _check_size(name, layouts[name], n_slots, n_labels)
        # In the order of the file.
        return {name: arrays[name] if name in arrays else read(name) for name in layouts}


def _layouts(body: bytes) -> dict[str, _Layout]:
    """Return dtype, shape and sizes of each array."""
    layouts: dict[str, _Layout] = {}
    with zipfile.ZipFile(io.BytesIO(body)) as archive:
        members = archive.infolist()
        ensure(len(members) <= MAX_MEMBERS, f"{len(members)} arrays")
        for member in members:
            name = member.filename.removesuffix(".npy")
            known = name in {*_FREE, "joints", "online", "forgotten"} or name.startswith("rule.")
            ensure(known and member.filename.endswith(".npy"), f"an unknown array {name!r}")
            ensure(name not in layouts, f"{name} occurs twice")
            ensure(
                member.compress_type in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED),
                f"{name} has an unknown compression",
            )
            layouts[name] = retry_parse(partial(_read_layout, archive, member))
    return layouts


def _read_layout(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> _Layout:
    with archive.open(member) as file:
        version = np.lib.format.read_magic(file)
        read = {
            (1, 0): np.lib.format.read_array_header_1_0,
            (2, 0): np.lib.format.read_array_header_2_0,
        }[version]
        shape, _, dtype = read(file)
        start = file.tell()
    nbytes = math.prod(shape) * dtype.itemsize
    ensure(
        not dtype.hasobject
        and all(type(n) is int and n >= 0 for n in shape)
        and start + nbytes == member.file_size,
        f"{member.filename} does not have the size that it claims",
    )
    return _Layout(dtype, shape, nbytes, member.compress_size)


def _check_size(name: str, layout: _Layout, n_slots: int, n_labels: int) -> None:
    columns = max(MAX_COLUMNS, n_labels)
    is_per_slot = layout.shape[:1] == (n_slots,) and name.startswith("rule.")
    if name == "joints":
        valid = layout.shape == (n_slots,) and layout.dtype.itemsize <= 8
    elif is_per_slot and layout.dtype.itemsize <= 8:
        valid = math.prod(layout.shape[1:]) <= columns
    else:
        valid = layout.nbytes <= MAX_SHARED + 64 * columns
    ensure(valid, f"{name} has the shape {layout.shape} for {n_slots} names and {n_labels} labels")


def archive_of(arrays: Mapping[str, Any], packed: bool) -> bytes:
    """Return an archive of arrays."""
    file = io.BytesIO()
    (np.savez_compressed if packed else np.savez)(file, **arrays)
    body = file.getvalue()
    if packed:
        with zipfile.ZipFile(io.BytesIO(body)) as archive:
            for member in archive.infolist():
                name = member.filename.removesuffix(".npy")
                if name in _FREE and _is_packed_too_well(member.file_size, member.compress_size):
                    return archive_of(arrays, False)
    return body
