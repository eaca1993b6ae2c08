"""TLS and SASL listeners of the test broker: certificates, users and client settings.

Everything is created for each broker and removed with its directory. The passwords protect nothing.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

USER = "alice"
MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")

# Protocol and SASL mechanisms of each listener. MTLS requires a client certificate.
LISTENERS = {
    "SSL": ("SSL", ()),
    "MTLS": ("SSL", ()),
    "SASL_SSL": ("SASL_SSL", MECHANISMS),
    "SASL_PLAINTEXT": ("SASL_PLAINTEXT", MECHANISMS[1:]),
}

LOGIN_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def write_certificates(directory: Path, password: str) -> None:
    """Write ca.pem, server.pem (with its key), client.pem and the encrypted client.key."""
    _openssl(
        directory, "-keyout", "ca.key", "-out", "ca.pem", "-noenc", "-subj", "/CN=broker of tests",
        "-addext", "keyUsage=critical,keyCertSign,digitalSignature",
    )  # fmt: skip
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-addext", "basicConstraints=CA:FALSE"]
    alternative_names = "subjectAltName=DNS:localhost,IP:127.0.0.1"
    _openssl(
        directory, *signed, "-keyout", "server.key", "-out", "server.crt", "-noenc",
        "-subj", "/CN=localhost", "-addext", alternative_names,
    )  # fmt: skip
    _openssl(
        directory, *signed, "-keyout", "client.key", "-out", "client.pem",
        "-passout", f"pass:{password}", "-subj", f"/CN={USER}",
    )  # fmt: skip
    pem = [(directory / name).read_text() for name in ("server.key", "server.crt")]
    (directory / "server.pem").write_text("".join(pem))


def _openssl(directory: Path, *arguments: str) -> None:
    request = ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
               "ec_paramgen_curve:prime256v1", "-days", "2"]  # fmt: skip
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE, "text": True}
    process = subprocess.run(
        [*request, *arguments], cwd=directory, stdin=subprocess.DEVNULL, **quiet
    )
    if process.returncode:
        raise RuntimeError(f"openssl: {process.stderr.strip().splitlines()[-1]}")


def server_settings(directory: Path, ports: dict[str, int], password: str) -> dict[str, str]:
    """Return the additional properties of the broker; the caller extends `listeners` itself."""
    settings = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(directory / "server.pem"),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / "ca.pem"),
        "listener.name.mtls.ssl.client.auth": "required",
    }
    for name in ports:
        mechanisms = LISTENERS[name][1]
        if mechanisms:
            prefix = f"listener.name.{name.lower()}"
            settings[f"{prefix}.sasl.enabled.mechanisms"] = ",".join(mechanisms)
            for mechanism in mechanisms:
                users = f' user_{USER}="{password}"' if mechanism == "PLAIN" else ""
                key = f"{prefix}.{mechanism.lower()}.sasl.jaas.config"
                settings[key] = f"{LOGIN_MODULES[mechanism]} required{users};"
    return settings


def scram_arguments(password: str) -> list[str]:
    """Return the arguments of `StorageTool format` that create the SCRAM users."""
    return [
        argument
        for mechanism in MECHANISMS[1:]
        for argument in ("--add-scram", f"{mechanism}=[name={USER},password={password}]")
    ]


def write_client_settings(directory: Path, ports: dict[str, int], password: str) -> None:
    """Write client properties for each listener and mechanism, e.g. sasl_ssl-plain.properties."""
    for name, port in ports.items():
        protocol, mechanisms = LISTENERS[name]
        lines = [f"bootstrap.servers=127.0.0.1:{port}", f"security.protocol={protocol}"]
        if protocol.endswith("SSL"):
            lines += ["ssl.truststore.type=PEM", f"ssl.truststore.location={directory / 'ca.pem'}"]
        if name == "MTLS":
            lines += [
                f"ssl.certificate.location={directory / 'client.pem'}",
                f"ssl.key.location={directory / 'client.key'}",
                f"ssl.key.password={password}",
            ]
        if not mechanisms:
            (directory / f"{name.lower()}.properties").write_text("\n".join(lines) + "\n")
        for mechanism in mechanisms:
            module = LOGIN_MODULES[mechanism]
            login = f'{module} required username="{USER}" password="{password}";'
            sasl = [f"sasl.mechanism={mechanism}", f"sasl.jaas.config={login}"]
            path = directory / f"{name.lower()}-{mechanism.lower()}.properties"
            path.write_text("\n".join([*lines, *sasl]) + "\n")
