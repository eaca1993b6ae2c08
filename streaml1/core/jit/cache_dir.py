"""Where machine code is kept, under which names, and who of several processes writes it."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import IO

__all__ = ["COMPILED_LAYERS", "Turn", "digest", "drop_old_files", "folders"]

_PACKAGE = Path(__file__).parent.parent.parent
COMPILED_LAYERS = (
    *("core/jit/*.py", "core/simd/*.py", "core/hashing.py", "core/vecmath.py", "core/rows.py"),
    *("core/prefetch.py", "text/*.py", "optim/*.py", "optim/structures/*.py"),
    *("features/dedup.py", "features/dedup_text.py", "features/vocabulary/*.py"),
    *("features/interactions/*.py", "features/ngrams/tokenizer.py", "features/dict_reader/*.py"),
    *("models/state/change_tracking.py", "solvers/*.py", "training/report/sums.py"),
)
_MARK = "kernels.digest"
_KINDS = ("nbi", "nbc", "code", "turn")


@cache
def digest() -> str:
    """A name for the text of all that is compiled: code of another is not looked at."""
    texts = [p.read_bytes() for pat in COMPILED_LAYERS for p in sorted(_PACKAGE.glob(pat))]
    return hashlib.sha256(b"\0".join(texts)).hexdigest()[:16]


@cache
def folders() -> tuple[list[Path], Path | None]:
    """Where code is looked for, in order; and the last of them where it is kept, if it can be."""
    own = "streaml1_" + hashlib.sha1(bytes(_PACKAGE)).hexdigest()
    asked = os.environ.get("NUMBA_CACHE_DIR")
    user = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    places = [Path(asked) / own] if asked else []
    places += [_PACKAGE / "__pycache__", user / "numba" / own]
    for k, folder in enumerate(places):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
            if os.access(folder, os.W_OK | os.X_OK):
                drop_old_files(folder)
                return places[: k + 1], folder
    return places, None


def drop_old_files(folder: Path) -> None:
    """Remove the machine code of other texts of this package, once for each new text."""
    mark = folder / _MARK
    try:
        if mark.exists() and mark.read_text() == digest():
            return
        for path in (one for kind in _KINDS for one in folder.glob(f"*.{kind}")):
            if digest() not in path.name:
                path.unlink(missing_ok=True)
        mark.write_text(digest())
    except (OSError, ValueError):  # another process is at it, or the folder may only be read
        return


# How long a process waits for another that compiles the same kernel; it may have been stopped.
TURN_SECONDS = 120.0


class Turn:
    """The right to compile a kernel, which one process has while others wait for what it writes.

    Parameters
    ----------
    place
        The file that says so; it is there for as long.
    """

    def __init__(self, place: Path) -> None:
        self._place = place
        self._file: IO[bytes] | None = None

    def wait(self) -> bool:
        """Have the turn, until `end`; or False where none can be had."""
        with suppress(OSError):  # the folder may only be read
            self._file = self._place.open("wb")
            until = time.monotonic() + TURN_SECONDS
            while time.monotonic() < until:
                try:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except BlockingIOError:
                    time.sleep(0.02)
                else:
                    return True
        return False

    def end(self) -> None:
        """Let another have the turn."""
        if self._file is not None:
            with suppress(OSError):
                self._place.unlink(missing_ok=True)  # who waits for it has it open
                fcntl.flock(self._file, fcntl.LOCK_UN)  # so has a fork, which would keep the turn
            self._file.close()
            self._file = None
