"""How a process ends at a signal while it has nothing to lose.

`streaml1.cli.signals` is about runs that save what they have learnt.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import NoReturn

from streaml1.cli.messages import report_problem

__all__ = ["TERMINATING", "Terminated", "Watchdog", "end_now", "terminate_by_exception", "watchdog"]

TERMINATING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)

GRACE = 1.5
"""Seconds that the main thread has to end before it is ended."""


class Terminated(KeyboardInterrupt):
    """Raised in the main thread by a signal, so that temporary files are removed.

    Attributes
    ----------
    number
        The signal.
    """

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def terminate_by_exception() -> None:
    """Let the signals that end a process raise `Terminated`; ignored signals stay ignored."""
    for number in TERMINATING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _raise)


def _raise(number: int, frame: object) -> NoReturn:
    raise Terminated(number)


def end_now(number: int) -> NoReturn:
    """End the process, before it has learnt or written anything."""
    sentence = "interrupted before the first example; nothing was learnt or written"
    report_problem(sentence, "interrupted", signal=int(number))
    os._exit(128 + number)


class Watchdog:
    """A thread that ends the process after a signal that the main thread cannot handle in time.

    Python handles signals between two bytecodes of the main thread. A compiler that runs for ten
    seconds delays them as long.
    """

    def __init__(self) -> None:
        self._armed = False

    def start(self) -> None:
        """Start to watch; must be called in the main thread."""
        try:
            receiving, sending = os.pipe()
        except OSError:  # too many open files, which the command reports where it matters
            return
        os.set_blocking(sending, False)
        signal.set_wakeup_fd(sending, warn_on_full_buffer=False)
        self._armed = True
        threading.Thread(target=self._watch, args=(receiving,), daemon=True).start()

    def stand_down(self) -> None:
        """Leave signals to the main thread: from here on it has something to lose."""
        self._armed = False

    def _watch(self, receiving: int) -> None:
        while arrived := os.read(receiving, 1):
            if arrived[0] in TERMINATING:
                time.sleep(GRACE)
                if self._armed:
                    end_now(arrived[0])


watchdog = Watchdog()
"""The watchdog of this process; it watches nothing unless `start` is called."""
