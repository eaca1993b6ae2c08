"""One Kafka broker for tests and trials: up, down, status. Needs nothing but Python and Java.

The jars come from Maven Central through Maven, are held to the checksums of jars.sha256, and are
kept in the user's cache. All state is in one folder, which `down` removes.
"""

from __future__ import annotations

import argparse
import base64
import fcntl
import hashlib
import json
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import secure

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STATE = ROOT / ".kafka"
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streaml1"

WRONG, UNREACHABLE, DOWN = 2, 3, 4
"""Exit codes: what has to be mended first; jars that cannot be fetched; no broker (status)."""

PACKAGES = ["default-jre-headless", "maven", "openssl"]
OLDEST_JAVA = 17
PATIENCE = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/kafka", description="One local Kafka broker.")
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument("--mock", action="store_true", help="librdkafka's mock cluster instead")
    parser.add_argument("--secure", action="store_true",
                        help="also with TLS and SASL: for clients see FOLDER/secure")  # fmt: skip
    parser.add_argument("--state", type=Path, default=STATE, metavar="FOLDER",
                        help="where the broker keeps all it has (default: .kafka)")  # fmt: skip
    asked = parser.parse_args()
    state = asked.state.resolve()
    if asked.command == "status":
        status(state)
        return
    if asked.mock and asked.secure:
        fail("the mock cluster has no TLS and no SASL: leave --secure out")
    with alone():
        if asked.command == "down":
            down(state)
        else:
            up(state, asked.mock, asked.secure)


def up(state: Path, mock: bool, secured: bool) -> None:
    running = found(state)
    if running is not None:
        if mock != (running["kind"] == "mock"):
            fail(f"a broker of another kind is up at {running['address']}: scripts/kafka down")
        if secured and not (state / "secure").exists():
            fail(f"the broker at {running['address']} is up without --secure: scripts/kafka down")
        print(running["address"])
        return
    require_own(state)
    shutil.rmtree(state, ignore_errors=True)  # what a broker that was killed has left
    command = mock_command() if mock else None
    if command is None:
        require_commands(secured)
        classpath = ":".join(str(jar) for jar in jars())
    state.mkdir(parents=True)
    try:
        about = start_mock(state, command) if command else None
        about = about or start_kafka(state, classpath, secured)
    except BaseException:
        shutil.rmtree(state, ignore_errors=True)
        raise
    (state / "broker.json").write_text(json.dumps(about))
    print(about["address"])


def down(state: Path) -> None:
    running = found(state)
    if running is not None:
        end(running["pid"], state)
    require_own(state)
    shutil.rmtree(state, ignore_errors=True)


def require_own(state: Path) -> None:
    """Refuse a folder that holds anything but a broker: it would be removed."""
    if any(state.glob("*")) and not (state / "broker.log").exists():
        fail(f"{state} holds something else: give --state a folder of its own")


def status(state: Path) -> None:
    running = found(state)
    if running is None:
        print("no broker is up")
        sys.exit(DOWN)
    print(f"{running['what']} at {running['address']}, process {running['pid']}, in {state}")


# What is running


def found(state: Path) -> dict | None:
    """The broker of a folder, if it is alive."""
    try:
        about = json.loads((state / "broker.json").read_text())
    except (OSError, ValueError):
        return None
    return about if is_ours(about["pid"], state) else None


def is_ours(pid: int, state: Path) -> bool:
    """Whether the process was started for this folder: a number alone may be another's by now."""
    try:
        return os.fsencode(f"{state}/") in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def end(pid: int, state: Path) -> None:
    for number, seconds in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        os.kill(pid, number)
        limit = time.monotonic() + seconds
        while is_ours(pid, state):  # a zombie has no command line
            if time.monotonic() > limit:
                break
            time.sleep(0.05)
        else:
            return


@contextmanager
def alone() -> Iterator[None]:
    """One up or down at a time, of this checkout."""
    folder = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        yield
    finally:
        os.close(folder)


# Kafka


def start_kafka(state: Path, classpath: str, secured: bool) -> dict:
    for _ in range(3):  # a free port may be taken before the broker has it
        about = try_kafka(state, classpath, secured)
        if about is not None:
            return about
    fail(f"the broker did not start: {last_line(state / 'broker.log')}")


def try_kafka(state: Path, classpath: str, secured: bool) -> dict | None:
    port, controller, *others = free_ports(2 + len(secure.LISTENERS))
    text = (HERE / "server.properties").read_text()
    filled = {"PORT": port, "CONTROLLER": controller, "DATA": state / "data"}
    for name, value in filled.items():
        text = text.replace(f"@{name}@", str(value))
    users: list[str] = []
    if secured:
        text, users = with_listeners(text, state / "secure", others)
    properties = state / "server.properties"
    properties.write_text(text)
    shutil.rmtree(state / "data", ignore_errors=True)
    java = ["java", "-Xms128m", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
            "-Djava.awt.headless=true", f"-Dlog4j2.configurationFile={HERE / 'log4j2.properties'}",
            "-cp", classpath]  # fmt: skip
    tool = [*java, "kafka.tools.StorageTool"]
    with open(state / "broker.log", "wb") as log:
        identity = base64_uuid()
        format = [*tool, "format", "-t", identity, "-c", str(properties), "--standalone", *users]
        if subprocess.run(format, stdout=log, stderr=log, stdin=subprocess.DEVNULL).returncode:
            return None
        process = subprocess.Popen(
            [*java, "kafka.Kafka", str(properties)],
            stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    try:
        limit = time.monotonic() + PATIENCE
        while process.poll() is None and time.monotonic() < limit:
            if answers(port):
                what = f"Apache Kafka {kafka_version()}"
                address = f"127.0.0.1:{port}"
                return {"kind": "real", "what": what, "address": address, "pid": process.pid}
            time.sleep(0.05)
    except BaseException:
        process.kill()
        raise
    process.kill()
    process.wait()
    return None


def with_listeners(text: str, folder: Path, free: list[int]) -> tuple[str, list[str]]:
    """Properties with more listeners, and the arguments that make their users."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    password = secrets.token_urlsafe(12)
    ports = dict(zip(secure.LISTENERS, free, strict=True))
    secure.certificates(folder, password)
    listening = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{one}" for name, (one, _) in secure.LISTENERS.items())
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0]
        if name in ("listeners", "advertised.listeners"):
            line += f",{listening}"
        if name == "listener.security.protocol.map":
            line += f",{protocols}"
        lines.append(line)
    lines += [f"{k}={v}" for k, v in secure.server_settings(folder, ports, password).items()]
    secure.client_settings(folder, ports, password)
    return "\n".join(lines) + "\n", secure.scram_users(password)


def base64_uuid() -> str:
    """A random UUID as Kafka writes one."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def answers(port: int) -> bool:
    """Whether a broker answers the request ApiVersions, of version 0."""
    request = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(request)
            return connection.recv(8)[4:] == bytes.fromhex("00000007")
    except OSError:
        return False


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "it said nothing"


# Java, Maven and the jars


def require_commands(secured: bool) -> None:
    """See that Java is here, and Maven where jars are to be fetched; install them if we may."""
    missing = lacking(secured)
    if missing:
        install()
        missing = lacking(secured)
    if missing:
        fail(f"{' and '.join(missing)} is missing: apt-get install {' '.join(PACKAGES)}, "
             "or leave the Kafka tests out with --no-kafka")  # fmt: skip


def lacking(secured: bool) -> list[str]:
    missing = [] if java_version() >= OLDEST_JAVA else [f"Java {OLDEST_JAVA} or newer"]
    if not whole(cache_folder()) and shutil.which("mvn") is None:
        missing.append("Maven")
    if secured and shutil.which("openssl") is None:
        missing.append("openssl")
    return missing


def java_version() -> int:
    if shutil.which("java") is None:
        return 0
    told = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', told)
    return int(version[1]) if version else 0


def install() -> None:
    """Install Debian's packages, as root or with a sudo that asks for no password."""
    if shutil.which("apt-get") is None:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and (shutil.which("sudo") is None or run([*sudo, "true"])):
        return
    say(f"installing {' and '.join(PACKAGES)} (once; a minute or two)")
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    run([*apt, "update"])
    run([*apt, "install", "--no-install-recommends", *PACKAGES])


def run(command: list[str]) -> int:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, stdin=subprocess.DEVNULL, **quiet).returncode


def kafka_version() -> str:
    return re.search("<kafka.version>(.+)</", (HERE / "pom.xml").read_text())[1]


def cache_folder() -> Path:
    return CACHE / f"kafka-{kafka_version()}"


def locked() -> dict[str, str]:
    """The names of the jars and their checksums."""
    lines = (HERE / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def whole(folder: Path) -> bool:
    """Whether all jars are in a folder, as they should be."""
    try:
        return all(
            hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest
            for name, digest in locked().items()
        )
    except OSError:
        return False


def jars() -> list[Path]:
    """All jars, fetched if they are not in the cache."""
    folder = cache_folder()
    if not whole(folder):
        fetch(folder)
    return [folder / name for name in locked()]


def fetch(folder: Path) -> None:
    say(f"fetching Kafka {kafka_version()} from Maven Central (once; 43 MB)")
    CACHE.mkdir(parents=True, exist_ok=True)
    log = CACHE / "maven.log"
    with tempfile.TemporaryDirectory(dir=CACHE) as aside:
        fresh = Path(aside) / "jars"
        with open(log, "wb") as file:
            maven = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"),
                     "dependency:copy-dependencies", f"-DoutputDirectory={fresh}"]  # fmt: skip
            code = subprocess.run(maven, stdout=file, stderr=file, cwd=aside).returncode
        if code:
            fail(f"the jars of Kafka cannot be fetched: is the network there? the log is {log}",
                 UNREACHABLE)  # fmt: skip
        if not whole(fresh):
            fail("the jars of Kafka are not those of scripts/kafka.d/jars.sha256: "
                 "do not run them, and look where Maven has them from")  # fmt: skip
        shutil.rmtree(folder, ignore_errors=True)
        fresh.replace(folder)
    log.unlink()


# The mock cluster


def mock_command() -> list[str]:
    python = ROOT / ".venv-test" / "bin" / "python"
    python = Path(os.environ.get("STREAML1_PYTHON") or (python if python.exists() else "python3"))
    if run([str(python), "-c", "import confluent_kafka"]):
        fail("the mock cluster needs confluent-kafka: pip install '.[dev]'")
    return [str(python), str(HERE / "mock.py")]


def start_mock(state: Path, command: list[str]) -> dict:
    with open(state / "broker.log", "wb") as log:
        process = subprocess.Popen(
            [*command, f"{state}/"], stdout=log, stderr=log,
            stdin=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    limit = time.monotonic() + 20.0
    while process.poll() is None and time.monotonic() < limit:
        address = last_line(state / "broker.log")
        if re.fullmatch(r"[\w.]+:\d+", address):
            what = "librdkafka's mock cluster"
            return {"kind": "mock", "what": what, "address": address, "pid": process.pid}
        time.sleep(0.05)
    process.kill()
    fail(f"the mock cluster did not start: {last_line(state / 'broker.log')}")


def say(text: str) -> None:
    print(f"streaml1: {text}", file=sys.stderr)


def fail(sentence: str, code: int = WRONG) -> NoReturn:
    say(sentence)
    sys.exit(code)


if __name__ == "__main__":
    main()
