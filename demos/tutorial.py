"""Two days of messages: look at them, learn, evaluate, explain, go live with Kafka, serve, watch.

    python demos/tutorial.py                        # ends with the page of the run in a browser
    python demos/tutorial.py --no-browser --seconds 20

docs/tutorial.md explains each step. The messages are those of the SMS Spam Collection, which is
downloaded once; without a network, functions of Python's standard library take their place. A Kafka
broker is started if Java is installed; without one, the messages of the second day come through a
pipe. Everything is written to out/tutorial.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
import webbrowser
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path("out") / "tutorial"
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"
FIRST_DAY = 4000
PER_SECOND = 50
PAGE, SERVER = 8490, 8500
MODEL = "first-day.streaml1"
TOPIC, MODEL_TOPIC = "messages", "model"


class Days(NamedTuple):
    """The messages: their field, the label to find, and one to try at the end."""

    text: str
    positive: str
    rows: list[dict[str, str]]
    probe: str


def messages() -> Days:
    """Return the SMS Spam Collection."""
    from streaml1.datasets import SMSSpam

    rows = [
        {"message": text, "label": "spam" if is_spam else "ham"}
        for text, is_spam in SMSSpam().messages()
    ]
    return Days("message", "spam", rows, "You have won! Call 0800 123 456 now to claim your prize")


def functions() -> Days:
    """Return functions of the standard library, as the words that they consist of."""
    from streaml1.datasets import stdlib

    rows = [
        {
            "code": " ".join(word for word in words if " " not in word),
            "label": "documented" if is_documented else "bare",
        }
        for words, is_documented in stdlib()
    ]
    return Days("code", "documented", rows, "def mean values total sum values return total len")


def load_days() -> Days:
    """Return messages, or functions if there is no network."""
    try:
        return messages()
    except Exception as error:  # whatever a download may raise
        say(f"The messages cannot be downloaded ({error}): functions of Python stand in for them.")
        return functions()


def end_on_signals() -> None:
    """Let SIGTERM and SIGHUP end a demo as Ctrl-C does, with its processes and its broker."""

    def leave(number: int, _frame: object) -> None:
        for other in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(other, signal.SIG_IGN)  # nothing interrupts the end
        sys.exit(128 + number)

    for number in (signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, leave)


def say(text: str) -> None:
    """Print a sentence of the tutorial."""
    print(f"\n{text}", flush=True)


def streaml1(*arguments: str) -> list[str]:
    """Print a command as it is typed; return it as it is run."""
    print(f"\n$ streaml1 {shlex.join(arguments)}", flush=True)
    return [sys.executable, "-m", "streaml1", *arguments]


def run(*arguments: str) -> None:
    """Run a command to its end."""
    subprocess.run(streaml1(*arguments), check=True, cwd=FOLDER)


def start(stack: ExitStack, *arguments: str, **options: Any) -> subprocess.Popen[bytes]:
    """Start a command that runs until the tutorial ends."""
    process = subprocess.Popen(streaml1(*arguments), **{"cwd": FOLDER, **options})
    stack.callback(end, process)
    return process


def end(process: subprocess.Popen[bytes]) -> None:
    """End a process as an operator would."""
    process.send_signal(signal.SIGTERM)
    process.wait(60)
    if process.stdin is not None:
        with suppress(OSError):  # what was not read
            process.stdin.close()


def free_port(wanted: int) -> int:
    """Return a port, another one if it is taken."""
    for port in (wanted, 0):
        with socket.socket() as server:
            try:
                server.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(server.getsockname()[1])
    raise OSError("no port is free")


def wait_for(url: str, processes: list[subprocess.Popen[bytes]], seconds: float = 60.0) -> None:
    """Wait until a server answers."""
    give_up = time.monotonic() + seconds
    while True:
        try:
            urllib.request.urlopen(url, timeout=5).close()
            return
        except OSError:
            if time.monotonic() > give_up or any(p.poll() is not None for p in processes):
                raise
            time.sleep(0.2)


def wait_for_model(place: str, learner: subprocess.Popen[bytes], seconds: float = 600.0) -> None:
    """Wait until a model can be loaded from a file or a topic.

    The learner publishes within seconds, unless it compiles kernels first.
    """
    from streaml1 import load

    started = time.monotonic()
    explained = False
    while True:
        try:
            load(place if "://" in place else FOLDER / place)
            return
        except Exception as error:
            waited = time.monotonic() - started
            if waited > seconds or learner.poll() is not None:
                raise SystemExit(f"The learner has published no model: {error}") from None
            if waited > 15 and not explained:
                explained = True
                say("   Waiting for the first published model; a first run compiles kernels.")
            time.sleep(0.5)


def first_day(days: Days) -> None:
    """Write two days; look at the first, learn it, and evaluate on the second."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name, rows in (("day1", days.rows[:FIRST_DAY]), ("day2", days.rows[FIRST_DAY:])):
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        (FOLDER / f"{name}.jsonl").write_text(lines)
    reading = ["--target", "label", "--positive", days.positive]

    say("1. Look at the file. The last line of the answer is the command to learn from it.")
    run("inspect", "day1.jsonl")
    say(
        "2. Learn. Each example is predicted before it is learnt, so the log-loss is one on\n"
        "   unseen data; `baseline` knows only how frequent the label is. l1 keeps the weights\n"
        "   that matter."
    )
    run(
        *("learn", "day1.jsonl", *reading, "--text", days.text, "--ngrams", "2", "--l1", "1e-4"),
        *("--top", "8", "--save", MODEL),
    )
    say("3. Evaluate on the next day, without learning from it.")
    run("evaluate", MODEL, "day2.jsonl", *reading)
    say("4. Explain predictions: what each feature adds to the margin, the logarithm of the odds.")
    run("predict", MODEL, "day2.jsonl", "--target", "label", "--limit", "3", "--explain", "4")


def broker_for(stack: ExitStack, given: str | None, folder: Path) -> str | None:
    """Return the address of a broker: the given one, a new one, or None without Java."""
    if given is not None:
        return given
    if shutil.which("java") is None:
        return None
    say("   Starting a Kafka broker (the first time it is downloaded) ...")
    state = str((folder / "kafka").resolve())
    kafka = str(SCRIPTS / "kafka")
    stack.callback(subprocess.run, [kafka, "down", "--state", state], stdout=subprocess.DEVNULL)
    with subprocess.Popen([kafka, "up", "--state", state], stdout=subprocess.PIPE, text=True) as up:
        try:
            address = up.communicate()[0]
        except BaseException:
            up.terminate()  # it ends the broker that it has begun to start
            raise
    return None if up.returncode else address.split()[-1]


def send(rows: list[dict[str, str]], write: Callable[[bytes], Any], ended: threading.Event) -> None:
    """Write the messages again and again, `PER_SECOND` of them each second."""
    try:
        while True:
            for row in rows:
                if ended.wait(1.0 / PER_SECOND):
                    return
                write(json.dumps(row).encode())
    except (OSError, ValueError):
        return  # the learner has ended


def writer(stack: ExitStack, broker: str) -> Callable[[bytes], Any]:
    """Return a function that writes to the topic of the messages."""
    from kafka import KafkaProducer

    producer = KafkaProducer(bootstrap_servers=broker)
    stack.callback(producer.close, 5)
    return lambda value: producer.send(TOPIC, value)


def second_day(days: Days, given: str | None, seconds: float, browse: bool) -> None:
    """Let the messages of the second day arrive one by one; learn, serve and watch."""
    page, server = free_port(PAGE), free_port(SERVER)
    reading = ["--target", "label", "--positive", days.positive]
    watching = ["--page", str(page), "--every", "500", "--top", "0"]
    ended = threading.Event()
    with ExitStack() as stack:
        say(
            "5. Go live: the messages of the second day arrive one by one. The learner loads\n"
            "   the saved model and continues to train it; it publishes each new version."
        )
        broker = broker_for(stack, given, FOLDER)
        if broker is None:
            say("   There is no Java for a broker: the messages come through a pipe instead.")
            learner = start(
                stack, "learn", "-", "--format", "jsonl", *reading, "--load", MODEL, *watching,
                stdin=subprocess.PIPE,
            )  # fmt: skip
            assert learner.stdin is not None
            pipe = learner.stdin
            write: Callable[[bytes], Any] = lambda line: (pipe.write(line + b"\n"), pipe.flush())  # noqa: E731
            served = MODEL
        else:
            write = writer(stack, broker)
            write(json.dumps(days.rows[FIRST_DAY]).encode())  # creates the topic
            shutil.rmtree(FOLDER / "kept", ignore_errors=True)
            served = f"kafka://{broker}/{MODEL_TOPIC}"
            learner = start(
                stack, "learn", f"kafka://{broker}/{TOPIC}", *reading, "--load", MODEL,
                "--checkpoint", "kept", "--publish", MODEL_TOPIC, "--publish-every", "5", *watching,
            )  # fmt: skip
        stack.callback(ended.set)
        rows = days.rows[FIRST_DAY:]
        threading.Thread(target=send, args=(rows, write, ended), daemon=True).start()
        wait_for(f"http://127.0.0.1:{page}/", [learner])

        wait_for_model(served, learner)
        say("6. Serve the model. The server takes over each new version within two seconds.")
        serving = start(stack, "serve", f"{days.positive}={served}", "--listen", str(server))
        wait_for(f"http://127.0.0.1:{server}/readyz", [serving])
        ask(server, {days.text: days.probe})
        url = f"http://127.0.0.1:{page}/"
        say(f"7. Watch it learn: {url}   (Ctrl-C ends the tutorial)")
        if browse:
            webbrowser.open(url)
        wait_until(seconds, [learner, serving])
        ask(server, {days.text: days.probe})
    say(f"All files are in {FOLDER}. Next: docs/tutorial.md explains each step.")


def ask(port: int, example: dict[str, str]) -> None:
    """Ask the server for a prediction with its reasons."""
    body = json.dumps(example)
    print(f"\n$ curl -d {shlex.quote(body)} 'localhost:{port}/predict?explain=3'", flush=True)
    request = urllib.request.Request(
        f"http://127.0.0.1:{port}/predict?explain=3",
        body.encode(),
        {"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=30) as answer:
        print(answer.read().decode().strip(), flush=True)


def wait_until(seconds: float, processes: list[subprocess.Popen[bytes]]) -> None:
    """Wait for some seconds, Ctrl-C, or the end of a process."""
    give_up = time.monotonic() + seconds
    try:
        while time.monotonic() < give_up and all(p.poll() is None for p in processes):
            time.sleep(0.2)
    except KeyboardInterrupt:
        print()


def main() -> None:
    """Run all steps."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kafka", metavar="HOST:PORT", help="a broker that is running")
    parser.add_argument("--no-browser", action="store_true", help="open no browser")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="end after this many seconds"
    )
    options = parser.parse_args()
    end_on_signals()
    days = load_days()
    first_day(days)
    second_day(days, options.kafka, options.seconds, not options.no_browser)


if __name__ == "__main__":
    main()
