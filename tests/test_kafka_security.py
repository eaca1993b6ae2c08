"""Kafka security: settings, TLS and SASL logins, error messages, and secrecy of passwords."""

from __future__ import annotations

import copy
import json
import logging
import os
import pickle
import re
import socket
import ssl
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies

import streaml1
from streaml1.cli import cli
from streaml1.sources import SourceError, open_source
from streaml1.sources.kafka.broker_diagnostics import NoAnswer, probe
from streaml1.sources.kafka.client_properties import (
    SETTINGS,
    Secret,
    parse_properties,
    read_settings,
)
from streaml1.sources.kafka.producer import TopicWriter
from streaml1.sources.kafka.security import Security, parse_brokers, resolve_security
from streaml1.sources.kafka.topic import Topic
from tests.broker import Broker

ROOT = Path(__file__).parent.parent
PASSWORD = "hu$h: qqz=secret"


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PROPERTIES", *map(str.upper, SETTINGS)):
        monkeypatch.delenv(f"STREAML1_KAFKA_{name}", raising=False)


# Settings


def resolved_settings(**options: Any) -> dict[str, Any]:
    return {name: setting.value for name, setting in read_settings(options).items()}


def test_precedence_of_options_environment_and_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "bootstrap.servers=file:1\nsasl.mechanism=PLAIN\nacks=all\n"
        'sasl.jaas.config=org.x.PlainLoginModule required username="f" password="of the file";\n'
    )
    assert resolved_settings(properties=file) == {
        "bootstrap": "file:1", "mechanism": "PLAIN", "user": "f", "password": "of the file"
    }  # fmt: skip
    monkeypatch.setenv("STREAML1_KAFKA_PROPERTIES", str(file))
    monkeypatch.setenv("STREAML1_KAFKA_USER", "e")
    monkeypatch.setenv("STREAML1_KAFKA_BOOTSTRAP", "environment:2")
    assert resolved_settings() | {"password": 0} == {
        "bootstrap": "environment:2", "mechanism": "PLAIN", "user": "e", "password": 0
    }  # fmt: skip
    assert resolved_settings(bootstrap="option:3", user=None)["bootstrap"] == "option:3"
    # An option that names a password file takes precedence over the password elsewhere.
    (tmp_path / "password").write_text(f"{PASSWORD}\n")
    monkeypatch.setenv("STREAML1_KAFKA_PASSWORD", "of the environment")
    assert resolved_settings()["password"].encode() == b"of the environment"
    password = resolved_settings(password_file=tmp_path / "password")["password"]
    assert password.encode() == PASSWORD.encode() and isinstance(password, Secret)


NAMES = strategies.text(strategies.characters(codec="ascii", exclude_categories=["Cc"]), min_size=1)


def escape(text: str) -> str:
    """Escape every special character as Java's Properties.store does."""
    return "".join(f"\\{c}" if c in "\\=: #!" else f"\\u{ord(c):04x}" for c in text)


@given(strategies.dictionaries(NAMES, NAMES.map(lambda text: text.rstrip() or "x"), max_size=4))
def test_properties_are_read_as_java_writes_them(pairs: dict[str, str]) -> None:
    text = "".join(f"{escape(k)} = {escape(v)}\n# a=b\n" for k, v in pairs.items())
    assert parse_properties(text) == pairs
    folded = "".join(f"{escape(k)}:\\\n   {escape(v)}\n\n!c\n" for k, v in pairs.items())
    assert parse_properties(folded) == pairs


@pytest.mark.parametrize(
    ("jaas", "user", "password"),
    [
        ('a.b.PlainLoginModule required username="u" password="p\\"q;";', "u", 'p"q;'),
        ("a.ScramLoginModule required  username = 'u'\tpassword=p;", "u", "p"),
    ],
)
def test_jaas_config(jaas: str, user: str, password: str, tmp_path: Path) -> None:
    file = tmp_path / "a.properties"
    file.write_text("sasl.jaas.config=" + jaas.replace("\\", "\\\\"))
    resolved = resolved_settings(properties=file)
    assert (resolved["user"], resolved["password"].encode()) == (user, password.encode())


@pytest.mark.parametrize(
    ("text", "brokers"),
    [
        ("a", ["a:9092"]),
        ("a:1, b.c:2", ["a:1", "b.c:2"]),
        ("[::1]", ["[::1]:9092"]),
        ("[fe80::1%eth0]:7,10.0.0.1", ["[fe80::1%eth0]:7", "10.0.0.1:9092"]),
        ("", []),
        ("a:", None),
        ("a:b", None),
        ("::1", None),
        ("a:65536", None),
        ("u:p@a:1", None),
    ],
)
def test_broker_lists(text: str, brokers: list[str] | None) -> None:
    assert parse_brokers(text) == brokers


def test_secrets_are_masked() -> None:
    secret = Secret(PASSWORD)
    security = resolve_security({"mechanism": "plain", "user": "ann", "password": PASSWORD})
    for shown in (str(secret), repr(secret), f"{secret}", f"{secret:>9}", f"{secret!r}",
                  repr(security), repr(security.client_options()),
                  repr(read_settings({"password": PASSWORD}))):  # fmt: skip
        assert "qqz" not in shown and "secret" in shown
    assert security.password == PASSWORD and security.password.encode() == PASSWORD.encode()
    for copier in (pickle.dumps, copy.deepcopy):
        with pytest.raises(TypeError, match="a secret cannot be pickled"):
            copier(secret)


def test_protocol_is_inferred_from_the_settings() -> None:
    login = {"mechanism": "SCRAM-SHA-256", "user": "ann", "password": PASSWORD}
    assert resolve_security().client_options() == {} and resolve_security().protocol == "PLAINTEXT"
    assert resolve_security(login).protocol == "SASL_SSL"
    assert resolve_security(login | {"security": "sasl_plaintext"}).context is None
    context = resolve_security(login).context
    assert context is not None and context.check_hostname
    assert context.verify_mode == ssl.CERT_REQUIRED
    assert context.minimum_version >= ssl.TLSVersion.TLSv1_2


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"security": "TLS"}, 'kafka={"security": ...} must be one of PLAINTEXT, SSL, '),
        (
            {"user": "a", "password": PASSWORD},
            'SASL_SSL needs a mechanism: use kafka={"mechanism": ...}',
        ),
        ({"mechanism": "GSSAPI"}, 'kafka={"mechanism": ...} must be one of PLAIN, '),
        ({"mechanism": "PLAIN"}, "SASL_SSL needs a user"),
        ({"mechanism": "PLAIN", "user": "a"}, "SASL_SSL needs a password: set STREAML1_KAFKA_"),
        (
            {"security": "SSL", "user": "a"},
            'kafka={"user": ...} requires SASL, but the protocol is SSL',
        ),
        (
            {"security": "PLAINTEXT", "ca": "x"},
            'kafka={"ca": ...} requires SSL, but the protocol is PLAIN',
        ),
        ({"ca": "nowhere"}, 'kafka={"ca": ...} nowhere: no such file'),
        ({"ca": "a.properties"}, 'kafka={"ca": ...} a.properties contains no PEM certificate'),
        ({"security": "SSL", "key": "k"}, 'kafka={"key": ...} needs a certificate'),
        (
            {"certificate": "a.properties"},
            'kafka={"certificate": ...} a.properties contains no PEM cert',
        ),
        ({"certificate": "nowhere"}, 'kafka={"certificate": ...} nowhere: no such file'),
        (
            {"password": PASSWORD, "password_file": "p"},
            'kafka={"password": ...} and kafka={"password_file": ...} ',
        ),
        ({"password_file": "nowhere"}, 'kafka={"password_file": ...} nowhere: no such file'),
        (
            {"password_file": "empty"},
            'kafka={"password_file": ...} empty is empty; write the password',
        ),
        ({"properties": "nowhere"}, "the properties file nowhere: no such file"),
        ({"properties": "a.jks"}, "a.jks: ssl.truststore.location is not a PEM file; export it"),
        ({"properties": "inline"}, "inline: ssl.keystore.key is not supported; write it to a file"),
        ({"properties": "jaas"}, "jaas: sasl.jaas.config has no username="),
        (
            {"bootstrap": f"u:{PASSWORD}@a"},
            'kafka={"bootstrap": ...} must be a list of brokers such as',
        ),
        (
            {"client": "x"},
            "kafka={\"client\": ...} must be one of kafka-python, confluent, got 'x'",
        ),
        ({"passwort": PASSWORD}, "unknown Kafka setting passwort; use one of bootstrap"),
        (
            {"security": "SSL", "check_hostname": "x"},
            'kafka={"check_hostname": ...} must be yes or no, got',
        ),
    ],
)
def test_invalid_settings_are_rejected(
    settings: dict[str, Any], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("a.properties").write_text("a=b\n")
    Path("empty").write_text("\n")
    Path("a.jks").write_text(
        f"ssl.truststore.location=/etc/a.jks\nssl.truststore.password={PASSWORD}\n"
    )
    Path("inline").write_text(f"ssl.keystore.key={PASSWORD}\n")
    Path("jaas").write_text(f'sasl.jaas.config=a.B required password="{PASSWORD}";\n')
    with pytest.raises(SourceError) as error:
        resolve_security(settings)
    assert str(error.value).startswith(message), error.value
    assert "qqz" not in str(error.value) and "\n" not in str(error.value)


def test_missing_client_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.security.find_spec", lambda name: None)
    monkeypatch.setenv("STREAML1_KAFKA_CLIENT", "confluent")
    with pytest.raises(SourceError) as error:
        resolve_security()
    assert str(error.value) == (
        "STREAML1_KAFKA_CLIENT confluent needs the package confluent-kafka: pip install "
        "'streaml1[confluent]'"
    )
    assert resolve_security({"client": "kafka-python"}).client == "kafka-python"


@pytest.mark.parametrize(
    "url",
    [
        f"kafka://ann:{PASSWORD}@host:9092/topic",
        f"kafka:ann:{PASSWORD}@host/topic",
        f"kafka://host/topic?sasl_password={PASSWORD}",
        f"kafka://host:port/topic?{PASSWORD}",
    ],
)
def test_url_with_a_password_is_rejected_without_showing_it(url: str) -> None:
    for options in ((), ("--target", "y"), ("--limit", "1", "--until-end")):
        result = CliRunner().invoke(cli, ["learn", url, *options])
        assert result.exit_code == 2 and result.stderr.count("\n") == 1
        assert "qqz" not in result.output + result.stderr
    with pytest.raises(SourceError) as error:
        open_source(url)
    assert "qqz" not in str(error.value)


def test_kafka_options_are_rejected_for_files(tmp_path: Path) -> None:
    (tmp_path / "a.svm").write_text("1 1:1\n")
    with pytest.raises(SourceError, match="apply to kafka://... only"):
        open_source(tmp_path / "a.svm", kafka={"user": "ann"})


# Broker diagnostics


def start_server(answer: bytes | None) -> tuple[str, socket.socket]:
    """Start a server that sends `answer`, or nothing, to each connection and closes it."""
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5.0)
                connection.recv(64)
                if answer is None:
                    time.sleep(1.0)
                    continue
                connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return f"127.0.0.1:{server.getsockname()[1]}", server


@pytest.mark.parametrize(
    ("answer", "security", "message"),
    [
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", Security(), "is it a Kafka broker"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", {"security": "SSL"}, "does not speak TLS"),
        (b"", {"security": "SSL"}, "does not speak TLS"),
        (b"\x00\x00\x00\x02ab", Security(), "is it a Kafka broker"),
    ],
)
def test_non_brokers_are_distinguished_from_silence(
    answer: bytes, security: Any, message: str
) -> None:
    address, server = start_server(answer)
    with server, pytest.raises(SourceError, match=message):
        probe(address, resolve_security(security), 2.0)


def test_silent_brokers_are_retried() -> None:
    address, server = start_server(None)
    with server, pytest.raises(NoAnswer):
        probe(address, Security(), 0.2)
    with pytest.raises(NoAnswer):
        probe("127.0.0.1:1", Security(), 0.2)


def test_brokers_that_die_during_the_probe_are_retried() -> None:
    server = socket.create_server(("127.0.0.1", 0))
    address = f"127.0.0.1:{server.getsockname()[1]}"

    def die() -> None:
        connection, _ = server.accept()
        server.close()
        connection.close()

    thread = threading.Thread(target=die)
    thread.start()
    with pytest.raises(NoAnswer):
        probe(address, Security(), 2.0)
    thread.join()


# A broker with TLS and SASL


@pytest.fixture(scope="module")
def folder() -> Path:
    """Return the directory of certificates and client settings that scripts/test created."""
    state = os.environ.get("STREAML1_KAFKA_STATE")
    if not state or not (Path(state) / "secure").is_dir():
        pytest.skip("no broker with TLS and SASL: scripts/test starts one")
    return Path(state) / "secure"


@pytest.fixture(scope="session")
def broker(broker: Broker) -> Broker:
    broker.require_real()
    return broker


@pytest.fixture(scope="module")
def topic(broker: Broker) -> str:
    name = broker.topic(2)
    broker.send(name, [f"{k % 2} {k % 5}:1" for k in range(40)], (0, 1))
    return name


LOGINS = (
    "ssl", "mtls", "sasl_ssl-plain", "sasl_ssl-scram-sha-256", "sasl_ssl-scram-sha-512",
    "sasl_plaintext-scram-sha-256", "sasl_plaintext-scram-sha-512",
)  # fmt: skip

kafka_test = pytest.mark.kafka
both_clients = pytest.mark.usefixtures("kafka_client")


@both_clients
@kafka_test
@pytest.mark.parametrize("login", LOGINS)
def test_every_login_works(login: str, folder: Path, topic: str) -> None:
    file = folder / f"{login}.properties"
    model = streaml1.ElasticNetClassifier()
    report = streaml1.progressive(model, f"kafka:///{topic}", until_end=True, kafka=file)
    assert report.examples == 40
    # Consumers, admin clients and producers use the same settings.
    source = Topic(f"kafka:///{topic}", file)
    assert source.identity(lambda: False)["topic"] == topic
    with TopicWriter(source.sibling(f"{topic}-out")) as outbox:
        outbox.send("key", b"x")
        outbox.flush()


def broker_password(folder: Path) -> str:
    password = resolve_security(folder / "sasl_ssl-plain.properties").password
    assert password is not None
    return password.encode().decode()


@kafka_test
@pytest.mark.parametrize(
    ("login", "settings", "message"),
    [
        ("ssl", {}, 'requires TLS: use kafka={"security": "SSL" or "SASL_SSL"}'),
        ("sasl_ssl-plain", {}, "requires TLS: use"),
        ("sasl_plaintext-scram-sha-256", {}, 'requires a login: use kafka={"security": "SASL'),
        ("sasl_plaintext-scram-sha-256", {"ca": "ca.pem"}, "does not speak TLS: use"),
        ("sasl_ssl-plain", {"ca": "ca.pem"}, "requires a login"),
        ("mtls", {"ca": "ca.pem"}, "requires a client certificate that it trusts"),
        ("ssl", {"security": "SSL"}, "presents an untrusted certificate"),
        ("ssl", {"ca": "other.pem"}, "presents an untrusted certificate"),
        ("sasl_ssl-plain", {"mechanism": "PLAIN", "user": "alice", "password": "wrong"},
         "presents an untrusted certificate"),
        *(("sasl_ssl-plain", {"ca": "ca.pem", "mechanism": mechanism, "user": "alice",
                              "password": f"{PASSWORD}"},
           f"rejects user 'alice' with this password ({mechanism}): check kafka=")
          for mechanism in ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")),
        ("sasl_ssl-plain", {"ca": "ca.pem", "mechanism": "SCRAM-SHA-256", "user": "bob"},
         "rejects user 'bob'"),
        ("sasl_plaintext-scram-sha-256",
         {"security": "SASL_PLAINTEXT", "mechanism": "PLAIN", "user": "alice"},
         'does not support PLAIN: use kafka={"mechanism": "SCRAM-SHA-256" or "SCRAM-SHA-512"}'),
        ("ssl", {"ca": "ca.pem", "mechanism": "PLAIN", "user": "alice"},
         "requires no login on this port"),
        ("sasl_ssl-plain",
         {"security": "SASL_PLAINTEXT", "mechanism": "PLAIN", "user": "alice"},
         "requires TLS: use"),
    ],
)  # fmt: skip
def test_rejected_logins_are_explained(
    login: str, settings: dict[str, Any], message: str, folder: Path, tmp_path: Path
) -> None:
    secret = broker_password(folder)
    settings = dict(settings)
    if settings.get("ca") == "other.pem":
        settings["ca"] = make_other_ca(tmp_path)
    elif "ca" in settings:
        settings["ca"] = folder / settings["ca"]
    if "mechanism" in settings:
        settings.setdefault("password", secret)
    [address] = resolve_security(folder / f"{login}.properties").brokers
    start = time.monotonic()
    with pytest.raises(SourceError) as error:
        streaml1.progressive(
            streaml1.ElasticNetClassifier(), f"kafka://{address}/t", until_end=True, kafka=settings
        )
    text = str(error.value)
    assert text.startswith(f"kafka://{address}/t: {address} {message}"), text
    assert time.monotonic() - start < 12.0
    assert error.value.exit_code == 2 and "\n" not in text
    assert secret not in text and "qqz" not in text


def make_other_ca(folder: Path) -> Path:
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-noenc", "-keyout", "k", "-out", "other.pem", "-subj", "/CN=broker of tests"],
        cwd=folder, check=True, capture_output=True,
    )  # fmt: skip
    return folder / "other.pem"


@kafka_test
def test_host_name_of_the_broker_is_verified(folder: Path) -> None:
    """Present the certificate of the broker at another address."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem")
    server = socket.create_server(("127.0.0.2", 0))
    port = server.getsockname()[1]

    def serve() -> None:
        for _ in range(2):
            connection, _ = server.accept()
            try:
                with context.wrap_socket(connection, server_side=True) as wrapped:
                    wrapped.recv(64)
            except OSError:
                connection.close()

    threading.Thread(target=serve, daemon=True).start()
    with server:
        with pytest.raises(SourceError, match=r"untrusted certificate .*use a host name"):
            probe(f"127.0.0.2:{port}", resolve_security({"ca": folder / "ca.pem"}), 2.0)
        unchecked = resolve_security({"ca": folder / "ca.pem", "check_hostname": "no"})
        with pytest.raises(SourceError, match="is it a Kafka broker"):  # the server sends no data
            probe(f"127.0.0.2:{port}", unchecked, 2.0)


@kafka_test
@pytest.mark.parametrize("key_password", [None, "wrong"])
def test_encrypted_client_key(key_password: str | None, folder: Path) -> None:
    settings = {"certificate": folder / "client.pem", "key": folder / "client.key"}
    with pytest.raises(SourceError, match="client.key cannot be decrypted: its password is "):
        resolve_security(settings | {"key_password": key_password})
    assert resolve_security(settings | {"key_password": broker_password(folder)}).protocol == "SSL"


@kafka_test
def test_some_brokers_of_the_list_may_be_down(folder: Path, topic: str, broker: Broker) -> None:
    silent, server = start_server(None)
    with server:
        source = f"kafka://127.0.0.1:1,{silent},{broker.address}/{topic}"
        start = time.monotonic()
        report = streaml1.progressive(streaml1.ElasticNetClassifier(), source, until_end=True)
    assert report.examples == 40 and time.monotonic() - start < 16.0


@kafka_test
def test_no_broker_of_the_list_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 0.5)
    with pytest.raises(SourceError, match=r"no broker answers at \[::1\]:1, localhost:2: is") as e:
        Topic("kafka://[::1]:1,localhost:2/t").consumer(lambda: False)
    assert e.value.exit_code == 75


def test_unresolvable_broker_name(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_address(*args: object, **options: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("streaml1.sources.kafka.broker_connection.CONNECT_SECONDS", 0.5)
    monkeypatch.setattr(socket, "getaddrinfo", no_address)
    with pytest.raises(SourceError, match=r"at borker:9092: the host name has no address") as e:
        Topic("kafka://borker:9092/t").consumer(lambda: False)
    assert e.value.exit_code == 75


@kafka_test
def test_secrets_are_in_no_log(folder: Path, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    secret = broker_password(folder)
    with caplog.at_level(logging.DEBUG):
        for name in ("kafka.protocol.parser", "kafka.net.connection"):
            caplog.set_level(logging.DEBUG, name)
        for login in ("sasl_ssl-plain", "sasl_plaintext-scram-sha-512"):
            Topic(f"kafka:///{topic}", folder / f"{login}.properties").identity(lambda: False)
    assert any(record.name.startswith("kafka.") for record in caplog.records)
    for record in caplog.records:
        assert secret not in f"{record.getMessage()}{record.args!r}"


@kafka_test
def test_secrets_are_in_no_file_and_no_command_line(
    folder: Path, topic: str, tmp_path: Path
) -> None:
    secret = broker_password(folder)
    [address] = resolve_security(folder / "sasl_ssl-plain.properties").brokers
    command = [sys.executable, "-m", "streaml1", "learn", f"kafka://{address}/{topic}",
               "--kafka-mechanism", "SCRAM-SHA-256", "--kafka-user", "alice",
               "--kafka-ca", str(folder / "ca.pem"), "--log", "json", "--every", "10",
               "--checkpoint", "state", "--report", "report.jsonl", "--save", "m"]  # fmt: skip
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "STREAML1_KAFKA_PASSWORD": secret}
    process = subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE, text=True)  # fmt: skip
    out = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            out += line
            if line.startswith("       40"):
                break
        command_line = Path(f"/proc/{process.pid}/cmdline").read_bytes()
        process.terminate()
        rest, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143, err
    assert secret.encode() not in command_line and secret not in out + rest + err
    assert any(json.loads(line)["event"] == "run_ends" for line in err.splitlines())
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    names = {path.name for path in files}
    assert {"m", "report.jsonl"} <= names and any(name.endswith(".owner") for name in names)
    assert not [path for path in files if secret.encode() in path.read_bytes()]


@kafka_test
def test_command_line(folder: Path, topic: str, tmp_path: Path) -> None:
    file = folder / "sasl_plaintext-scram-sha-256.properties"

    def run(*args: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, list(args))
        assert result.exit_code == code, result.output
        return result.output

    source = (f"kafka:///{topic}", "--until-end", "--kafka-properties", str(file))
    output = run("learn", *source, "--save", str(tmp_path / "m"))
    assert re.search(r"^examples +40$", output, re.M)
    assert len(run("predict", str(tmp_path / "m"), *source).splitlines()) == 40
    (tmp_path / "p").write_text(PASSWORD)
    output = run("learn", *source, "--kafka-password-file", str(tmp_path / "p"), code=2)
    assert "rejects user 'alice'" in output and "qqz" not in output
    assert "password" not in {parameter.name for parameter in cli.commands["learn"].params}
    help_text = run("learn", "--help-all")
    assert "--kafka-password-file" in help_text and "--kafka-password " not in help_text
