"""Process exit codes; exceptions carry one of them as their attribute `exit_code`."""

from __future__ import annotations

import errno

__all__ = [
    "DATA_ERROR",
    "SUCCESS",
    "TEMPORARY_FAILURE",
    "USAGE_ERROR",
    "is_temporary",
    "lacks_descriptors",
    "os_reason",
    "write_failure_code",
]

SUCCESS = 0

USAGE_ERROR = 2
"""The command line or the configuration is wrong: a retry fails again."""

DATA_ERROR = 65
"""The input data are wrong (EX_DATAERR): inspect them before a retry."""

TEMPORARY_FAILURE = 75
"""A dependency is temporarily unavailable (EX_TEMPFAIL): retry."""


def is_temporary(error: BaseException) -> bool:
    """Return whether an error may pass: a full or failing disk, too many open files."""
    full = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
    return getattr(error, "errno", None) in full or lacks_descriptors(error)


def lacks_descriptors(error: BaseException) -> bool:
    """Return whether an error reports too many open files."""
    return getattr(error, "errno", None) in (errno.EMFILE, errno.ENFILE)


def os_reason(error: OSError) -> str:
    """Return the operating system's description of an error, in lower case."""
    return (error.strerror or str(error)).lower()


def write_failure_code(error: BaseException) -> int:
    """Return the exit code for a failed write."""
    return TEMPORARY_FAILURE if is_temporary(error) else USAGE_ERROR
