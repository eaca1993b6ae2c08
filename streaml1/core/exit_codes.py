"""What a command exits with: errors carry one of these as `exit_code`."""

from __future__ import annotations

import errno

__all__ = ["AGAIN", "DATA", "DONE", "WRONG", "may_pass", "reason", "unwritten"]

DONE = 0

WRONG = 2
"""Asked for in a way that will be refused again: do not restart."""

DATA = 65
"""The data are not as they should be: look at them first."""

AGAIN = 75
"""Something is away that may come back by itself: restart."""


def may_pass(error: BaseException) -> bool:
    """Whether a disk is full, and may have room again, or does not answer."""
    return getattr(error, "errno", None) in (errno.ENOSPC, errno.EDQUOT, errno.EIO)


def reason(error: OSError) -> str:
    """Why, in the words of the system."""
    return (error.strerror or str(error)).lower()


def unwritten(error: BaseException) -> int:
    """The code of what cannot be written."""
    return AGAIN if may_pass(error) else WRONG
