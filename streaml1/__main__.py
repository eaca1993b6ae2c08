"""`python -m streaml1` and the installed command."""

import os
import signal
import sys
from typing import NoReturn

from streaml1.core.logging import json_line, wants_json

__all__ = ["main"]


def main() -> NoReturn:
    """Run the command line."""
    # Its imports take up to half a second; a signal then would end in a traceback.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end)
    from streaml1.cli import main as run

    run()


def _end(number: int, frame: object) -> NoReturn:
    sentence = "interrupted while starting; nothing was read or written"
    if wants_json(sys.argv[1:]):
        line = json_line("warning", "interrupted", sentence, {"signal": number})
    else:
        line = f"streaml1: {sentence}"
    os.write(2, f"{line}\n".encode())
    os._exit(128 + number)


if __name__ == "__main__":
    main()
