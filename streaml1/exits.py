"""What a command exits with: errors carry one of these as `exit_code`."""

from __future__ import annotations

import errno

__all__ = ["AGAIN", "DATA", "DONE", "WRONG", "unwritten"]

DONE = 0

WRONG = 2
"""Asked for in a way that will be refused again: do not restart."""

DATA = 65
"""The data are not as they should be: look at them first."""

AGAIN = 75
"""Something is away that may come back by itself: restart."""


def unwritten(error: BaseException) -> int:
    """The code of what cannot be written: a disk that is full may have room again."""
    full = getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT)
    return AGAIN if full else WRONG
