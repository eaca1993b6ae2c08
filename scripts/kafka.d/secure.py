"""Listeners with TLS and SASL for the broker of tests: certificates, users and clients' settings.

Everything is made anew for each broker and goes with its folder; the passwords guard nothing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

USER = "alice"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# Name, protocol, what SASL may be used. MTLS wants a certificate of the client.
LISTENERS = {
    "SSL": ("SSL", ()),
    "MTLS": ("SSL", ()),
    "SASL_SSL": ("SASL_SSL", MECHANISMS),
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", MECHANISMS[1:]),
}

LOGINS = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def certificates(folder: Path, password: str) -> None:
    """ca.pem; server.pem with its key; client.pem and client.key, the latter under a password."""
    _openssl(
        folder, "-keyout", "ca.key", "-out", "ca.pem", "-noenc", "-subj", "/CN=broker of tests",
        "-addext", "keyUsage=critical,keyCertSign,digitalSignature",
    )  # fmt: skip
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
    names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    _openssl(
        folder, *signed, "-keyout", "server.key", "-out", "server.crt", "-noenc",
        "-subj", "/CN=localhost", "-addext", names,
    )  # fmt: skip
    _openssl(
        folder, *signed, "-keyout", "client.key", "-out", "client.pem",
        "-passout", f"pass:{password}", "-subj", f"/CN={USER}",
    )  # fmt: skip
    parts = [(folder / name).read_text() for name in ("server.key", "server.crt")]
    (folder / "server.pem").write_text("".join(parts))


def _openssl(folder: Path, *arguments: str) -> None:
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
               "ec_paramgen_curve:prime256v1", "-days", "2"]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    done = subprocess.run([*request, *arguments], cwd=folder, stdin=subprocess.DEVNULL, **quiet)
    if done.returncode:
        raise RuntimeError(f"openssl: {done.stderr.strip().splitlines()[-1]}")


def server_settings(folder: Path, ports: dict[str, int], password: str) -> dict[str, str]:
    """What the broker's properties get beside, `listeners` and the like to be appended."""
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(folder / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(folder / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
    }
    for name in ports:
        mechanisms = LISTENERS[name][1]
        if mechanisms:
            place = f"listener.name.{name.lower()}"
            settings[f"{place}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
            for one in mechanisms:
                users = f' user_{USER}="{password}"' if one == "PLAIN" else ""
                key = f"{place}.{one.lower()}.sasl.jaas.config"
                settings[key] = f"{LOGINS[one]} required{users};"
    return settings


def scram_users(password: str) -> list[str]:
    """Arguments of StorageTool's `format` that make the users."""
    return [
        word
        for one in MECHANISMS[1:]
        for word in ("--add-scram", f"{one}=[name={USER},password={password}]")
    ]


def client_settings(folder: Path, ports: dict[str, int], password: str) -> None:
    """One client.properties for each way in, such as sasl_ssl-plain.properties."""
    for name, port in ports.items():
        protocol, mechanisms = LISTENERS[name]
        lines = [f"bootstrap.servers=127.0.0.1:{port}", f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={folder / 'ca.pem'}"]
        if name == "MTLS":
            lines += [
                f"ssl.certificate.location={folder / 'client.pem'}",
                f"ssl.key.location={folder / 'client.key'}",
                f"ssl.key.password={password}",
            ]
        if not mechanisms:
            (folder / f"{name.lower()}.properties").write_text("\n".join(lines) + "\n")
        for one in mechanisms:
            login = f'{LOGINS[one]} required username="{USER}" password="{password}";'
            more = [f"sasl.mechanism={one}", f"sasl.jaas.config={login}"]
            path = folder / f"{name.lower()}-{one.lower()}.properties"
            path.write_text("\n".join([*lines, *more]) + "\n")
