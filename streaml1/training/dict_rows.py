"""Examples from dicts that hold their labels, such as the records of a database."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from typing import Any

from streaml1.features.records import read_record, require_dict
from streaml1.sources import Reject, SourceError, SourceOptions, json_roles
from streaml1.sources.readers.unseen_members import UnseenMembers
from streaml1.sources.source import Example, read_weight

__all__ = ["dict_rows"]

logger = logging.getLogger("streaml1")


def dict_rows(
    rows: Iterable[Any], options: SourceOptions, name: str, reject: Reject
) -> Iterator[Example]:
    """Yield the examples of dicts, numbered from 1.

    Raises
    ------
    SourceError
        If labels are required, and no member is that of the label.
    """
    roles = json_roles(options)
    if roles.target is None and options.require_label:
        raise SourceError(
            f"{name} holds dicts: use target= to name the member of the label, or give pairs (x, y)"
        )
    unseen = UnseenMembers(roles, what="dicts", reads_x=False)

    def warn(sentence: str) -> None:
        logger.warning("%s", f"{name}: {sentence}")

    for number, row in enumerate(unseen.search_stream(rows, warn), start=1):
        try:
            require_dict(row)
            record = read_record(row, roles, options.require_label)
            if record is None:
                continue
            w = 1.0 if roles.weight is None else read_weight(record.w)
        except ValueError as error:
            reject(f"{name}:{number}", str(error))
            continue
        example = (number, record.x, record.y, w)
        yield example if record.id is None else (*example, record.id)
