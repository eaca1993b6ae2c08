"""The files in deploy/ parse, and name only metrics, options and paths that exist."""

from __future__ import annotations

import contextlib
import json
import random
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import promql_parser
import pytest
import yaml
from click.testing import CliRunner

from streaml1 import load
from streaml1.cli import cli
from streaml1.cli.options import MAX_BAD_SHARE
from streaml1.cli.serve import DEFAULT_PORT as SERVE_PORT
from streaml1.serving.metrics import ServiceMetrics
from streaml1.training.metrics_server import DEFAULT_PORT, MetricsServer

ROOT = Path(__file__).parent.parent
DEPLOY = ROOT / "deploy"
UNIT = DEPLOY / "systemd" / "streaml1-learn@.service"
DASHBOARD = DEPLOY / "grafana" / "dashboard.json"
ALERTS = DEPLOY / "prometheus" / "alerts.yml"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
YAML_FILES = sorted([*DEPLOY.rglob("*.yml"), *DEPLOY.rglob("*.yaml")])

PODS = ("StatefulSet", "Deployment", "Job")
SUFFIXES = {"counter": ("_total",), "histogram": ("_bucket", "_sum", "_count"), "gauge": ("",)}


def documents(path: Path) -> list[Any]:
    return list(yaml.safe_load_all(path.read_text()))


def containers(image: str = "streaml1") -> list[dict[str, Any]]:
    found = [d["spec"]["template"] for p in KUBERNETES for d in documents(p) if d["kind"] in PODS]
    every = [container for pod in found for container in pod["spec"]["containers"]]
    return [container for container in every if container["image"] == image]


def commands() -> Iterator[list[str]]:
    """Yield the arguments of each call of streaml1."""
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    yield from (s["command"] for s in services.values() if s["image"] == "streaml1")
    yield from (container["args"] for container in containers())
    yield from (c["args"] for c in containers("streaml1-dask") if "args" in c)
    example = dict(re.findall(r"^#     (\w+)=(.*)$", UNIT.read_text(), re.MULTILINE))
    for line in re.findall(r"^ExecStart(?:Pre)?=\S+ (.*)$", UNIT.read_text(), re.MULTILINE):
        for name, value in {**example, "METRICS": "8490"}.items():
            line = line.replace(f"${{{name}}}", value).replace(f"${name}", value)
        yield line.replace("%i", "clicks").split()
    dockerfile = (DEPLOY / "Dockerfile").read_text()
    for line in re.findall(r"^RUN streaml1 (.*)$", dockerfile, re.MULTILINE):
        yield line.replace("${MODEL}", re.search(r"ARG MODEL=(\S+)", dockerfile)[1]).split()  # type: ignore[index]


@pytest.mark.parametrize("path", YAML_FILES, ids=lambda path: path.name)
def test_yaml_files(path: Path) -> None:
    assert all(isinstance(document, dict) for document in documents(path))


@pytest.mark.parametrize("command", list(commands()), ids=" ".join)
def test_commands_have_only_options_that_exist(command: list[str]) -> None:
    name, *arguments = command
    context = cli.commands[name].make_context(name, arguments)
    assert context.params
    assert not context.args and "$" not in " ".join(command)


def test_commands_are_found() -> None:
    assert sorted(command[0] for command in commands()) == [
        "learn", "learn", "learn", "learn", "serve", "serve", "warm", "warm"
    ]  # fmt: skip


# Metrics


def metric_names() -> set[str]:
    """Return the metrics of the code: those documented, which are those served, and of servers.

    `tests/test_metrics.py` compares the documented metrics of a run with those served.
    """
    text = (ROOT / "docs" / "operating.md").read_text()
    names = set(re.findall(r"^\| `(streaml1_\w+)", text, re.MULTILINE))
    for family in ServiceMetrics()._families({}):
        names |= {family.name + suffix for suffix in SUFFIXES[family.type]}
    with MetricsServer() as server:
        names |= {f.name for f in server._registry.collect()}
    return names | {"up", "process_start_time_seconds"}


def expressions() -> dict[str, str]:
    found = {
        rule["alert"]: rule["expr"]
        for group in documents(ALERTS)[0]["groups"]
        for rule in group["rules"]
    }
    dashboard = json.loads(DASHBOARD.read_text())
    for panel in dashboard["panels"]:
        for target in panel.get("targets", []):
            found[f"{panel['title']} {target['refId']}"] = target["expr"]
    for variable in dashboard["templating"]["list"]:
        found[variable["name"]] = variable["query"]
    for annotation in dashboard["annotations"]["list"]:
        found[annotation["name"]] = annotation["expr"]
    return found


def test_metrics_exist() -> None:
    known, used = metric_names(), set()
    for place, expression in expressions().items():
        names = set(re.findall(r"\b(?:streaml1|process)_\w+|\bup\b", expression))
        assert names or place == "datasource", place
        assert names <= known, f"{place}: {names - known}"
        used |= names
    assert len(used) > 20


def test_alerts_are_complete() -> None:
    for group in documents(ALERTS)[0]["groups"]:
        for rule in group["rules"]:
            assert rule["for"] and rule["labels"]["severity"] in ("warning", "critical")
            assert "$labels" in rule["annotations"]["summary"]


def test_dashboard_is_complete() -> None:
    dashboard = json.loads(DASHBOARD.read_text())
    panels = dashboard["panels"]
    ids = [panel["id"] for panel in panels]
    assert len(ids) == len(set(ids)) > 15
    cells: set[tuple[int, int]] = set()
    for panel in panels:
        grid = panel["gridPos"]
        own = {
            (x, y)
            for x in range(grid["x"], grid["x"] + grid["w"])
            for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert not own & cells and grid["x"] + grid["w"] <= 24, panel["title"]
        cells |= own
        for target in panel.get("targets", []):
            assert target["datasource"]["uid"] == "${datasource}"
    variables = {variable["name"] for variable in dashboard["templating"]["list"]}
    text = DASHBOARD.read_text()
    used = set(re.findall(r"\$\{?([a-z]+)\b", text))
    assert used == variables


# Ports, probes, files


def test_probes() -> None:
    """A broker that is unreachable must not restart pods."""
    for container in containers():
        [port] = container["ports"]
        assert container["livenessProbe"]["httpGet"] == {"path": "/livez", "port": port["name"]}
        assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": port["name"]}
        expected = DEFAULT_PORT if container["args"][0] == "learn" else SERVE_PORT
        assert port["containerPort"] == expected
        assert any(argument == f"0.0.0.0:{expected}" for argument in container["args"])


def test_servers_end_after_the_service_has_left_them() -> None:
    """A server takes no connections from SIGTERM on, but a Service stops sending them later."""
    for container in containers():
        if container["args"][0] == "serve":
            assert container["lifecycle"]["preStop"]["exec"]["command"][0] == "sleep"


def test_the_job_on_a_dask_cluster_waits_for_its_files() -> None:
    """The volume in the same file is empty at first."""
    [job] = [d for path in KUBERNETES for d in documents(path) if d["kind"] == "Job"]
    assert job["spec"]["suspend"] is True
    guide = (ROOT / "docs" / "on-kubernetes.md").read_text()
    assert f"kubectl patch job {job['metadata']['name']} -p" in guide


def test_services_select_pods() -> None:
    for path in KUBERNETES:
        found = documents(path)
        services = [d for d in found if d["kind"] == "Service"]
        pods = [d["spec"]["template"] for d in found if "template" in d["spec"]]
        for service in services:
            [pod] = [p for p in pods if p["metadata"]["labels"] == service["spec"]["selector"]]
            ports = {p["name"] for c in pod["spec"]["containers"] for p in c["ports"]}
            assert {port["targetPort"] for port in service["spec"]["ports"]} <= ports


def test_files_of_the_compose_file_exist() -> None:
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    mounts = [v.split(":")[0] for s in services.values() for v in s.get("volumes", ())]
    for mount in mounts:
        assert not mount.startswith(".") or (DEPLOY / mount).exists(), mount
    build = services["learner"]["build"]
    assert (DEPLOY / build["context"] / build["dockerfile"]).samefile(DEPLOY / "Dockerfile")
    scraped = documents(DEPLOY / "prometheus" / "prometheus.yml")[0]["scrape_configs"]
    targets = {job["static_configs"][0]["targets"][0]: job["job_name"] for job in scraped}
    assert targets == {
        f"learner:{DEFAULT_PORT}": "streaml1-learner", f"server:{SERVE_PORT}": "streaml1-server"
    }  # fmt: skip
    for job in re.findall(r'job="([^"]*)"', ALERTS.read_text()):
        assert job in targets.values()


def test_records_outlive_the_broker_as_checkpoints_do() -> None:
    """A checkpoint of a topic that is gone cannot be resumed."""
    [compose] = documents(DEPLOY / "compose.yaml")
    broker = compose["services"]["broker"]
    mounts = dict(mount.split(":")[::-1] for mount in broker["volumes"])
    assert mounts[broker["environment"]["KAFKA_LOG_DIRS"]] in compose["volumes"]


def test_the_broker_is_stopped_last() -> None:
    """A learner that is stopped publishes its model; `topics` has ended, and orders nothing."""
    services = documents(DEPLOY / "compose.yaml")[0]["services"]
    for service in services.values():
        if any("//broker:" in argument for argument in service.get("command", ())):
            assert service["depends_on"]["broker"]["condition"] == "service_healthy"
            assert service["init"] and service["stop_grace_period"] == "30s"


def test_the_image_gets_the_files_that_it_copies() -> None:
    *_, ignored, shown = (DEPLOY / "Dockerfile.dockerignore").read_text().partition("*\n")
    kept = re.findall(r"^!(\S+)$", shown, re.MULTILINE)
    copied = re.findall(r"^COPY (.*) \S+$", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE)
    assert ignored and sorted(" ".join(copied).split()) == sorted(kept)
    assert "hatch_build.py" in kept  # the build hook of pyproject.toml


def test_job_on_a_dask_cluster(tmp_path: Path) -> None:
    """The commands of the manifest run: a scheduler, a worker, and the job."""
    pytest.importorskip("distributed")
    scheduler, worker, job = containers("streaml1-dask")
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    here = {
        "dask-scheduler:8786": address, "8786": address.partition(":")[2], ":8787": ":0",
        "/tmp": str(tmp_path), "/data": str(tmp_path),
    }  # fmt: skip

    def local(arguments: list[str]) -> list[str]:
        for name, value in here.items():
            arguments = [argument.replace(name, value) for argument in arguments]
        return arguments

    rng = random.Random(1)
    for part in range(2):
        lines = [f"{rng.choice((1, -1))} {rng.randrange(1, 99)}:1\n" for _ in range(20_500)]
        (tmp_path / "part.svm").write_text("".join(lines))
        paths = [str(tmp_path / name) for name in ("part.svm", f"part-{part}.rows")]
        assert CliRunner().invoke(cli, ["convert", *paths]).exit_code == 0
    with contextlib.ExitStack() as stack:
        for container in (scheduler, worker):
            _, command, *options = container["command"]
            process = subprocess.Popen([sys.executable, "-m", "dask", command, *local(options)])
            stack.callback(process.wait)
            stack.callback(process.terminate)
        result = CliRunner().invoke(cli, local(job["args"]))
    assert result.exit_code == 0, result.output
    assert "41,000 examples in 4 shards" in result.output
    assert load(tmp_path / "clicks.model").n_iterations == 41_000


def test_exit_codes_of_the_unit() -> None:
    unit = UNIT.read_text()
    assert "RestartPreventExitStatus=2 65\n" in unit and "SuccessExitStatus=143\n" in unit


def test_documentation_names_the_files() -> None:
    text = (ROOT / "docs" / "operating.md").read_text()
    for path in (DEPLOY / "Dockerfile", DEPLOY / "compose.yaml", UNIT, DASHBOARD, ALERTS):
        assert str(path.relative_to(ROOT)) in text


# Linters


def check_with(*command: str) -> None:
    """Run a linter that is installed with the tests, or one of the machine."""
    beside = Path(sys.executable).with_name(command[0])
    program = str(beside) if beside.exists() else shutil.which(command[0])
    if program is None:
        pytest.skip(f"needs {command[0]}")
    done = subprocess.run([program, *command[1:]], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stdout + done.stderr


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    """With a program that is installed."""
    unit = tmp_path / "streaml1-learn@clicks.service"
    unit.write_text(UNIT.read_text().replace("/usr/local/bin/streaml1", "/bin/true"))
    check_with("systemd-analyze", "verify", "--man=no", str(unit))


def test_promtool_accepts_the_rules() -> None:
    check_with("promtool", "check", "rules", str(ALERTS))


FIRING: dict[str, tuple[dict[str, str], str]] = {
    "LearnerDown": ({'up{job="streaml1-learner"}': "0x10"}, "5m"),
    "LearnerRestarts": (
        {
            'process_start_time_seconds{job="streaml1-learner"}': "1+60x30",
            'up{job="streaml1-learner"}': "1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1 0 1",
        },
        "18m",
    ),
    "LearnerUnhealthy": ({"streaml1_healthy": "0x10"}, "5m"),
    "LearnerLags": (
        {
            'streaml1_lag{partition="0"}': "0+9000x60",
            'streaml1_lag{partition="1"}': "0x60",
        },
        "40m",
    ),
    "LearnerWorseThanBaseline": (
        {"streaml1_recent_loss": "0.7x30", "streaml1_constant_loss": "0.6x30"}, "20m"
    ),
    "LearnerMiscalibrated": ({"streaml1_recent_calibration": "0.7x30"}, "20m"),
    "LearnerRejectsExamples": (
        {"streaml1_refused_total": "0+3x30", "streaml1_examples_total": "0+97x30"}, "20m"
    ),
    "LearnerCheckpointsOld": (
        {"streaml1_checkpoint_age_seconds": "0+60x30", "streaml1_idle_seconds": "1x30"}, "20m"
    ),
    "LearnerGrows": (
        {'process_resident_memory_bytes{job="streaml1-learner"}': "1e8+1e7x400"}, "5h"
    ),
    "ServerDown": ({'up{job="streaml1-server"}': "0x10"}, "5m"),
    "ServerModelOld": ({'streaml1_serving_model_age_seconds{model="clicks"}': "0+60x30"}, "25m"),
    "ServerErrors": (
        {
            'streaml1_serving_requests_total{path="/predict",status="200"}': "0+90x30",
            'streaml1_serving_requests_total{path="/predict",status="503"}': "0+10x30",
        },
        "20m",
    ),
    "ServerSlow": (
        {
            f'streaml1_serving_request_seconds_bucket{{path="/predict",le="{le}"}}': f"0+{n}x30"
            for le, n in (("0.05", 90), ("0.1", 100), ("+Inf", 100))
        },
        "20m",
    ),
}  # fmt: skip
"""Series, a value per minute, at which an alert fires, and the time at which it does."""

NORMAL = {
    'up{job="streaml1-learner"}': "1x400",
    'up{job="streaml1-server"}': "1x400",
    'process_start_time_seconds{job="streaml1-learner"}': "1x400",
    "streaml1_healthy": "1x400",
    'streaml1_lag{partition="0"}': "200000-500x400",
    "streaml1_recent_loss": "0.5x400",
    "streaml1_constant_loss": "0.6x400",
    "streaml1_recent_calibration": "1.1x400",
    "streaml1_refused_total": "0+5x400",
    "streaml1_examples_total": "0+995x400",
    # Without new records there is nothing to save.
    "streaml1_checkpoint_age_seconds": "0+60x400",
    "streaml1_idle_seconds": "0+60x400",
    'process_resident_memory_bytes{job="streaml1-learner"}': "1e8+1e6x400",
    'process_resident_memory_bytes{job="streaml1-server"}': "1e8+1e8x400",
    'streaml1_serving_model_age_seconds{model="clicks"}': "60x400",
    'streaml1_serving_requests_total{path="/predict",status="200"}': "0+995x400",
    'streaml1_serving_requests_total{path="/predict",status="503"}': "0+5x400",
    'streaml1_serving_request_seconds_bucket{path="/predict",le="0.05"}': "0+999x400",
    'streaml1_serving_request_seconds_bucket{path="/predict",le="+Inf"}': "0+1000x400",
}
"""Series at which no alert fires."""


def test_alerts_fire(tmp_path: Path) -> None:
    """Each at its trouble and nowhere else, as Prometheus evaluates them."""
    names = [rule["alert"] for g in documents(ALERTS)[0]["groups"] for rule in g["rules"]]
    assert sorted(FIRING) == sorted(names)
    cases = [("none", NORMAL, "5h"), *((name, *case) for name, case in FIRING.items())]
    tests = [
        {
            "interval": "1m",
            "name": name,
            "input_series": [{"series": s, "values": values} for s, values in series.items()],
            "promql_expr_test": [
                {
                    "expr": 'count by (alertname) (ALERTS{alertstate="firing"})',
                    "eval_time": time,
                    "exp_samples": [{"labels": f'{{alertname="{name}"}}', "value": 1}]
                    if name != "none"
                    else [],
                }
            ],
        }
        for name, series, time in cases
    ]
    path = tmp_path / "alerts.yml"
    path.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "tests": tests}))
    check_with("promtool", "test", "rules", str(path))


def test_alert_on_rejected_examples_precedes_the_end_of_the_run() -> None:
    assert float(expressions()["LearnerRejectsExamples"].split(">")[1]) < MAX_BAD_SHARE


def test_expressions_are_promql() -> None:
    for expression in expressions().values():
        if not re.match(r"prometheus$|label_values", expression):  # a source, a query of Grafana
            promql_parser.parse(re.sub(r"\$__\w+", "5m", expression))


def test_hadolint_accepts_the_dockerfile() -> None:
    check_with("hadolint", str(DEPLOY / "Dockerfile"))


@pytest.mark.parametrize("path", KUBERNETES, ids=lambda path: path.name)
def test_kubernetes_accepts_the_manifests(path: Path) -> None:
    check_with("kubernetes-validate", "--strict", str(path))


@pytest.mark.parametrize(
    ("schema", "pattern"),
    [
        ("compose-spec", "deploy/compose.yaml"),
        ("github-workflows", ".github/workflows/*.yml"),
        ("github-issue-forms", ".github/ISSUE_TEMPLATE/[!c]*.yml"),
        ("github-issue-config", ".github/ISSUE_TEMPLATE/config.yml"),
        ("citation-file-format", "CITATION.cff"),
    ],
)
def test_schemas_of_other_files(schema: str, pattern: str) -> None:
    paths = [str(path) for path in ROOT.glob(pattern)]
    assert paths
    check_with("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *paths)
