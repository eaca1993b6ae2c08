"""The text of a file where the system keeps it: no copy of it is made.

To look at bytes that somebody has cut off would end the process by a signal. So a lease on the
file is held (fcntl(2), F_SETLEASE): who opens it to write waits until nobody looks at it any more,
or 45 seconds. Where there is none to be had, the file is read.
"""

from __future__ import annotations

import ctypes
import itertools
import mmap
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from streaml1.streams.pool import Pool

__all__ = ["Mapping", "Unmapped"]

LEAST = 2**20
"""Bytes of a file that is worth it."""

MOST = 16
"""So many windows are made: who keeps rows for long is not to hold the file for as long."""

PAGE = mmap.PAGESIZE
FIXED = 16  # of mmap(2): at an address, instead of what is there
POPULATE_READ = 22  # of madvise(2), since Linux 5.14: tells of a page that cannot be read


class Unmapped(Exception):
    """Raised where a file is to be read instead."""


class Mapping:
    """A file of which one part after the other is looked at.

    Parameters
    ----------
    file
        The descriptor of the file, which is open.
    name
        Its path.

    Attributes
    ----------
    size : int
        How many bytes it has.

    Raises
    ------
    Unmapped
        If it is small, or not the user's own on a disk of this machine, or open somewhere to be
        written to, or if the system knows of no leases.

    """

    def __init__(self, file: int, name: str) -> None:
        self._file = -1
        if sys.platform != "linux" or sys.maxsize < 2**32:
            raise Unmapped
        try:
            # One of its own, which the windows keep open: the lease ends with the last of them.
            self._file = os.open(name, os.O_RDONLY | os.O_CLOEXEC)
            status = os.fstat(self._file)
            self.size = status.st_size
            # What is on no disk may be cut short without a word to this system.
            on_disk = os.major(status.st_dev) != 0
            same = os.path.samestat(status, os.fstat(file))
            if not (on_disk and same and self.size >= LEAST and self._lease()):
                raise Unmapped
        except OSError:
            raise Unmapped from None
        self._pool = Pool(_windows())
        self._map = _system_map()

    def __del__(self) -> None:
        if self._file >= 0:
            os.close(self._file)

    def _lease(self) -> bool:
        """Take it; whether the file is still as long."""
        import fcntl

        # Who waits is told of by a signal, which would else be one that ends the process.
        fcntl.fcntl(self._file, fcntl.F_SETSIG, signal.SIGURG)
        fcntl.fcntl(self._file, fcntl.F_SETLEASE, fcntl.F_RDLCK)
        return os.fstat(self._file).st_size == self.size

    def _holds(self) -> bool:
        """Whether nobody waits to write."""
        import fcntl

        return fcntl.fcntl(self._file, fcntl.F_GETLEASE) == fcntl.F_RDLCK

    def window(self, start: int, stop: int) -> tuple[Any, int, int]:
        """Look at a part of the file.

        Returns
        -------
        A buffer that nobody else looks at, where in it the part begins, and from where on it is
        free. It may be written to, which does not change the file, and a page before and behind
        the part may be read.

        Raises
        ------
        Unmapped
            If somebody waits to write to the file, or it cannot be looked at.

        """
        page = start // PAGE * PAGE
        (buffer,) = self._pool.take(stop - page)
        if not self._holds() or not self._map(buffer.ctypes.data + PAGE, self._file, page, stop):
            raise Unmapped
        return buffer, PAGE + start - page, len(buffer) // 3


def _windows() -> Callable[[int], tuple[Any]]:
    """What makes windows of n bytes, the pages around, and room for twice as many of names."""
    made = itertools.count()

    def memory(n: int) -> tuple[Any]:
        if next(made) == MOST:
            raise Unmapped
        try:
            pages = mmap.mmap(-1, 3 * (n + 2 * PAGE), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except OSError:
            raise Unmapped from None
        return (np.frombuffer(pages, np.uint8),)

    return memory


def _system_map() -> Callable[[int, int, int, int], bool]:
    """What maps a part of a file to an address, which Python's own does not."""
    libc = ctypes.CDLL(None)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_int64]
    libc.madvise.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    access, flags = mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | FIXED

    def map_at(address: int, file: int, start: int, stop: int) -> bool:
        n = -(-(stop - start) // PAGE) * PAGE
        if libc.mmap(address, n, access, flags, file, start) != address:
            return False
        return bool(libc.madvise(address, n, POPULATE_READ) == 0)

    return map_at
