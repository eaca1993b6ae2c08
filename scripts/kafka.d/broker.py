"""Start, stop and inspect one local Kafka broker. Requires Python and Java only.

Maven downloads the jars from Maven Central. They are verified against jars.sha256 and kept in the
user's cache directory. All state is in one directory, which `down` removes.
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
DEFAULT_STATE = ROOT / ".kafka"
CACHE_DIR = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "streaml1"

EXIT_ERROR, EXIT_DOWNLOAD, EXIT_NOT_RUNNING = 2, 3, 4
"""Exit codes: an error that the user has to fix; jars that cannot be downloaded; no broker is
running (`status`)."""

DEBIAN_PACKAGES = ["default-jre-headless", "maven", "openssl"]
MIN_JAVA = 17
START_TIMEOUT = 60.0


def main() -> None:
    parser = argparse.ArgumentParser(prog="scripts/kafka", description=__doc__.splitlines()[0])
    parser.add_argument("command", choices=["up", "down", "status"])
    parser.add_argument(
        "--mock", action="store_true", help="start librdkafka's mock cluster instead"
    )
    parser.add_argument("--secure", action="store_true",
                        help="add TLS and SASL listeners; DIRECTORY/secure has the settings of "
                        "clients")  # fmt: skip
    parser.add_argument("--state", type=Path, default=DEFAULT_STATE, metavar="DIRECTORY",
                        help="directory for all state of the broker (default: .kafka)")  # fmt: skip
    args = parser.parse_args()
    state = args.state.resolve()
    # As Ctrl-C: a broker that is being started ends, too.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    if args.command == "status":
        status(state)
        return
    if args.mock and args.secure:
        fail("the mock cluster has no TLS and no SASL; omit --secure")
    with exclusive_lock():
        if args.command == "down":
            down(state)
        else:
            up(state, args.mock, args.secure)


def up(state: Path, mock: bool, secure_listeners: bool) -> None:
    broker = running_broker(state)
    if broker is not None:
        if mock != (broker["kind"] == "mock"):
            fail(f"a broker of another kind is up at {broker['address']}; run scripts/kafka down")
        if secure_listeners and not (state / "secure").exists():
            fail(f"the broker at {broker['address']} was started without --secure; "
                 "run scripts/kafka down")  # fmt: skip
        print(broker["address"])
        return
    refuse_foreign_directory(state)
    shutil.rmtree(state, ignore_errors=True)  # left over from a broker that was killed
    command = mock_command() if mock else None
    if command is None:
        require_tools(secure_listeners)
        classpath = ":".join(str(jar) for jar in jar_paths())
    state.mkdir(parents=True)
    try:
        about = start_mock(state, command) if command else None
        about = about or start_kafka(state, classpath, secure_listeners)
    except BaseException:
        shutil.rmtree(state, ignore_errors=True)
        raise
    (state / "broker.json").write_text(json.dumps(about))
    print(about["address"])


def down(state: Path) -> None:
    broker = running_broker(state)
    if broker is not None:
        terminate(broker["pid"], state)
    refuse_foreign_directory(state)
    shutil.rmtree(state, ignore_errors=True)


def refuse_foreign_directory(state: Path) -> None:
    """Reject a directory that holds anything but a broker, because it would be removed."""
    if any(state.glob("*")) and not (state / "broker.log").exists():
        fail(f"{state} holds something else; give --state an empty directory")


def status(state: Path) -> None:
    broker = running_broker(state)
    if broker is None:
        print("no broker is up")
        sys.exit(EXIT_NOT_RUNNING)
    print(f"{broker['what']} at {broker['address']}, process {broker['pid']}, in {state}")


# Processes


def running_broker(state: Path) -> dict | None:
    """Return the contents of broker.json, or None if that broker is not alive."""
    try:
        about = json.loads((state / "broker.json").read_text())
    except (OSError, ValueError):
        return None
    return about if is_broker_process(about["pid"], state) else None


def is_broker_process(pid: int, state: Path) -> bool:
    """Return whether the process was started for this directory: the pid may have been reused."""
    try:
        return os.fsencode(f"{state}/") in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def terminate(pid: int, state: Path) -> None:
    for number, seconds in ((signal.SIGTERM, 15.0), (signal.SIGKILL, 5.0)):
        os.kill(pid, number)
        limit = time.monotonic() + seconds
        while is_broker_process(pid, state):  # a zombie has no command line
            if time.monotonic() > limit:
                break
            time.sleep(0.05)
        else:
            return


@contextmanager
def exclusive_lock() -> Iterator[None]:
    """Hold a lock, so that one `up` or `down` runs at a time in this checkout."""
    lock = os.open(HERE, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
    finally:
        os.close(lock)


# Kafka


def start_kafka(state: Path, classpath: str, secure_listeners: bool) -> dict:
    for _ in range(3):  # another process may take a free port before the broker binds it
        about = try_start_kafka(state, classpath, secure_listeners)
        if about is not None:
            return about
    fail(f"the broker did not start: {last_line(state / 'broker.log')}")


def try_start_kafka(state: Path, classpath: str, secure_listeners: bool) -> dict | None:
    port, controller, *secure_ports = free_ports(2 + len(secure.LISTENERS))
    text = (HERE / "server.properties").read_text()
    values = {"PORT": port, "CONTROLLER": controller, "DATA": state / "data"}
    for name, value in values.items():
        text = text.replace(f"@{name}@", str(value))
    users: list[str] = []
    if secure_listeners:
        text, users = add_secure_listeners(text, state / "secure", secure_ports)
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
        limit = time.monotonic() + START_TIMEOUT
        while process.poll() is None and time.monotonic() < limit:
            if responds(port):
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


def add_secure_listeners(text: str, directory: Path, free: list[int]) -> tuple[str, list[str]]:
    """Return properties with TLS and SASL listeners, and the arguments that create their users."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir()
    password = secrets.token_urlsafe(12)
    ports = dict(zip(secure.LISTENERS, free, strict=True))
    secure.write_certificates(directory, password)
    listeners = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
    protocols = ",".join(f"{name}:{protocol}" for name, (protocol, _) in secure.LISTENERS.items())
    lines = []
    for line in text.splitlines():
        name = line.partition("=")[0]
        if name in ("listeners", "advertised.listeners"):
            line += f",{listeners}"
        if name == "listener.security.protocol.map":
            line += f",{protocols}"
        lines.append(line)
    lines += [f"{k}={v}" for k, v in secure.server_settings(directory, ports, password).items()]
    secure.write_client_settings(directory, ports, password)
    return "\n".join(lines) + "\n", secure.scram_arguments(password)


def base64_uuid() -> str:
    """Return a random UUID in Kafka's base64 notation."""
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode().replace("-", "_")


def free_ports(n: int) -> list[int]:
    sockets = [socket.socket() for _ in range(n)]
    for listener in sockets:
        listener.bind(("127.0.0.1", 0))
    ports = [listener.getsockname()[1] for listener in sockets]
    for listener in sockets:
        listener.close()
    return ports


def responds(port: int) -> bool:
    """Return whether a broker answers an ApiVersions request of version 0."""
    request = bytes.fromhex("0000000a 0012 0000 00000007 ffff")
    try:
        with socket.create_connection(("127.0.0.1", port), timeout=2.0) as connection:
            connection.sendall(request)
            return connection.recv(8)[4:] == bytes.fromhex("00000007")
    except OSError:
        return False


def last_line(log: Path) -> str:
    lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "its log is empty"


# Java, Maven and the jars


def require_tools(secure_listeners: bool) -> None:
    """Require Java, and Maven if jars have to be downloaded; try to install what is missing."""
    missing = missing_tools(secure_listeners)
    if missing:
        install_packages()
        missing = missing_tools(secure_listeners)
    if missing:
        packages = " ".join(DEBIAN_PACKAGES)
        fail(f"{' and '.join(missing)} is missing: apt-get install {packages}, "
             "or skip the Kafka tests with --no-kafka")  # fmt: skip


def missing_tools(secure_listeners: bool) -> list[str]:
    missing = [] if java_version() >= MIN_JAVA else [f"Java {MIN_JAVA} or newer"]
    if not has_all_jars(jar_directory()) and shutil.which("mvn") is None:
        missing.append("Maven")
    if secure_listeners and shutil.which("openssl") is None:
        missing.append("openssl")
    return missing


def java_version() -> int:
    if shutil.which("java") is None:
        return 0
    output = subprocess.run(["java", "-version"], capture_output=True, text=True).stderr
    version = re.search(r'version "(?:1\.)?(\d+)', output)
    return int(version[1]) if version else 0


def install_packages() -> None:
    """Install the Debian packages, as root or with passwordless sudo; do nothing otherwise."""
    if shutil.which("apt-get") is None:
        return
    sudo = [] if os.geteuid() == 0 else ["sudo", "-n"]
    if sudo and (shutil.which("sudo") is None or run_quietly([*sudo, "true"])):
        return
    log_line(f"installing {' and '.join(DEBIAN_PACKAGES)} (once; takes a minute or two)")
    apt = [*sudo, "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "-q", "-y"]
    run_quietly([*apt, "update"])
    run_quietly([*apt, "install", "--no-install-recommends", *DEBIAN_PACKAGES])


def run_quietly(command: list[str]) -> int:
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    return subprocess.run(command, stdin=subprocess.DEVNULL, **quiet).returncode


def kafka_version() -> str:
    return re.search("<kafka.version>(.+)</", (HERE / "pom.xml").read_text())[1]


def jar_directory() -> Path:
    return CACHE_DIR / f"kafka-{kafka_version()}"


def jar_checksums() -> dict[str, str]:
    """Return the pinned SHA-256 digest of each jar, by file name."""
    lines = (HERE / "jars.sha256").read_text().splitlines()
    return {name: digest for digest, name in (line.split() for line in lines)}


def has_all_jars(directory: Path) -> bool:
    """Return whether a directory has all jars with the pinned digests."""
    try:
        return all(
            hashlib.sha256((directory / name).read_bytes()).hexdigest() == digest
            for name, digest in jar_checksums().items()
        )
    except OSError:
        return False


def jar_paths() -> list[Path]:
    """Return the paths of all jars; download them if the cache lacks any."""
    directory = jar_directory()
    if not has_all_jars(directory):
        download_jars(directory)
    return [directory / name for name in jar_checksums()]


def download_jars(directory: Path) -> None:
    log_line(f"downloading Kafka {kafka_version()} from Maven Central (once; 43 MB)")
    CACHE_DIR.mkdir(parents=True, exist_ok=True)
    log = CACHE_DIR / "maven.log"
    with tempfile.TemporaryDirectory(dir=CACHE_DIR) as scratch:
        downloaded = Path(scratch) / "jars"
        with open(log, "wb") as file:
            maven = ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"),
                     "dependency:copy-dependencies", f"-DoutputDirectory={downloaded}"]  # fmt: skip
            code = subprocess.run(maven, stdout=file, stderr=file, cwd=scratch).returncode
        if code:
            fail(f"cannot download the jars of Kafka: check the network and {log}",
                 EXIT_DOWNLOAD)  # fmt: skip
        if not has_all_jars(downloaded):
            fail("the downloaded jars of Kafka do not match scripts/kafka.d/jars.sha256: "
                 "do not run them; check which repository Maven uses")  # fmt: skip
        shutil.rmtree(directory, ignore_errors=True)
        downloaded.replace(directory)
    log.unlink()


# The mock cluster


def mock_command() -> list[str]:
    python = ROOT / ".venv-test" / "bin" / "python"
    python = Path(os.environ.get("STREAML1_PYTHON") or (python if python.exists() else "python3"))
    if run_quietly([str(python), "-c", "import confluent_kafka"]):
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


def log_line(text: str) -> None:
    print(f"streaml1: {text}", file=sys.stderr)


def fail(message: str, code: int = EXIT_ERROR) -> NoReturn:
    log_line(message)
    sys.exit(code)


if __name__ == "__main__":
    main()
