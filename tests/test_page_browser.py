"""The page of a run in a browser: live, restarted, finished, and as one file.

It needs Chromium and the extra ``browser``: ``apt-get install chromium``, ``pip install
'streaml1[browser]'``.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import streaml1
from tests.broker import Broker
from tests.conftest import ROOT

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
if not CHROMIUM:
    pytest.skip("needs Chromium: apt-get install chromium", allow_module_level=True)
sync_api = pytest.importorskip(
    "playwright.sync_api", reason="needs Playwright: pip install 'streaml1[browser]'"
)

HOSTILE = (
    "<img src=x onerror=document.title='owned'>",
    "</script><script>document.title='owned'</script>",
    "\"double\" 'single' `back` &quot;",
    "\u202eoverridden",
    "\u0627\u0644\u0645\u0648\u0642\u0639",
    "long " + "x" * 10_000,
)
PHONE = {"width": 390, "height": 844}
DESK = {"width": 1280, "height": 900}
WIDE_ELEMENTS = """() => [document.documentElement, ...document.querySelectorAll(".scroll")]
    .filter((element) => element.scrollWidth > element.clientWidth).map((element) => element.id)"""

LEGENDS_END_CHARTS = """() => [...document.querySelectorAll(".chart:not(.small)")].every((chart) =>
    Math.abs(chart.querySelector(".uplot").offsetHeight - chart.clientHeight) < 2)"""


def lines(n: int, seed: int) -> str:
    """Return examples as JSON lines; hostile names have the largest weights."""
    draw = random.Random(seed)
    texts = []
    for k in range(n):
        x = {HOSTILE[k % len(HOSTILE)]: 1.0, "site": f"s{draw.randrange(90)}"}
        y: Any = draw.random() < (0.9 if k % 2 else 0.1)
        texts.append(json.dumps({"x": x, "y": 7 if k % 100 == 99 else y}) + "\n")
    return "".join(texts)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "streaml1", *arguments, "--log", "json"]


class Process(NamedTuple):
    """A command that serves a page."""

    popen: subprocess.Popen[str]
    address: str

    def feed(self, text: str) -> None:
        assert self.popen.stdin is not None
        self.popen.stdin.write(text)
        self.popen.stdin.flush()


Start = Callable[..., Process]


@pytest.fixture(scope="module")
def start(tmp_path_factory: Any) -> Iterator[Start]:
    """Return a function that starts a command and waits for its page."""
    running: list[subprocess.Popen[str]] = []
    directory = tmp_path_factory.mktemp("runs")

    def start_one(*arguments: str) -> Process:
        popen = subprocess.Popen(
            command(*arguments), cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        running.append(popen)
        assert popen.stderr is not None
        for line in popen.stderr:
            record = json.loads(line)
            if record["event"] == "page":
                return Process(popen, record["address"])
        raise AssertionError(f"{arguments} ended without a page")

    yield start_one
    for popen in running:
        popen.kill()
        popen.communicate()


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with sync_api.sync_playwright() as playwright:
        options = ["--no-sandbox", "--disable-gpu"]
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=options)
        yield browser
        browser.close()


class Visit:
    """An open page, with what it requested and wrote to the console."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.requests: list[str] = []
        self.problems: list[str] = []
        page.set_default_timeout(60_000)
        page.on("request", lambda request: self.requests.append(request.url))
        page.on("console", lambda message: self.problems.append(message.text))
        page.on("pageerror", lambda error: self.problems.append(str(error)))

    def open(self, url: str, health: str) -> Any:
        self.page.goto(url)
        self.wait(health)
        return self.page

    def wait(self, health: str) -> None:
        """Wait until the page says this about the run."""
        sync_api.expect(self.page.locator("#health")).to_contain_text(health, timeout=60_000)

    def wait_for_examples(self, more_than: int) -> int:
        """Wait until more examples are learnt, and return their number."""
        js = """(least) => {
            const tile = document.querySelector("#tiles dd")?.textContent.replaceAll(",", "");
            return Number(tile) > least ? Number(tile) : null;
        }"""
        found: int = self.page.wait_for_function(js, arg=more_than).json_value()
        return found

    def tiles(self) -> dict[str, str]:
        titles, values = (
            self.page.locator(f"#tiles {tag}").all_inner_texts() for tag in ("dt", "dd")
        )
        return dict(zip(titles, values, strict=True))

    def names(self, table: str = "weights") -> list[str]:
        found: list[str] = self.page.locator(f"#{table} bdi").all_inner_texts()
        return found


@pytest.fixture
def visit(browser: Any) -> Iterator[Visit]:
    context = browser.new_context(viewport=DESK)
    yield Visit(context.new_page())
    context.close()


@pytest.fixture(scope="module")
def live(start: Start) -> Process:
    """Return a run that has learnt most of 2,000 examples and waits for more."""
    process = start("learn", "-", "--format", "jsonl", "--bad", "skip", "--page", "0")
    process.feed(lines(2000, 1))
    return process


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: Any) -> Path:
    """Return a directory with the files of a finished run."""
    directory: Path = tmp_path_factory.mktemp("recorded")
    (directory / "clicks.jsonl").write_text(lines(2000, 2))
    outputs = ("--report", "run.jsonl", "--page", "run.html", "--save", "clicks.model")
    subprocess.run(
        command("learn", "clicks.jsonl", "--bad", "skip", "--every", "500", *outputs),
        cwd=directory, env={**os.environ, "PYTHONPATH": str(ROOT)}, check=True, capture_output=True,
        timeout=300,
    )  # fmt: skip
    return directory


def last_line(report: Path) -> dict[str, Any]:
    line: dict[str, Any] = json.loads(report.read_text().splitlines()[-1])
    return line


def shown(line: dict[str, Any]) -> dict[str, str]:
    """Return the tiles of a line of the report, without the rate."""
    return {
        "Examples": f"{line['examples']:,}",
        "Recent loss": f"{line['recent_loss']:#.4g}",
        "Beats baseline by": f"{100 * (1 - line['loss'] / line['constant_loss']):.1f} %",
        "Non-zeros": f"{line['n_nonzero']:,}",
        "Calibration": f"{line['recent_calibration']:.3f}",
        "Lag": "-",
        "Checkpoint age": "-",
    }


def assert_tiles(visit: Visit, line: dict[str, Any]) -> None:
    tiles = visit.tiles()
    rate = tiles.pop("Per second")
    factor = {"K": 1e3, "M": 1e6}.get(rate[-1], 1.0)
    expected = line["examples"] / line["seconds"]
    assert float(rate.rstrip("KM")) * factor == pytest.approx(expected, rel=0.01)
    assert tiles == shown(line)


def assert_hostile_names_are_text(visit: Visit) -> None:
    page = visit.page
    # Names with characters that do not print are shown as their repr.
    expected = {name if name.isprintable() else repr(name) for name in HOSTILE}
    assert expected <= set(page.locator("#weights bdi").all_text_contents())
    assert page.locator("main img, main script, main a").count() == 0
    assert "owned" not in page.title()
    for height in page.locator("#weights tr").evaluate_all(
        "(rows) => rows.map((r) => r.offsetHeight)"
    ):
        assert height < 80


def assert_fits(page: Any) -> None:
    """Assert that nothing scrolls horizontally, on a phone neither, and that dark mode is dark."""
    for viewport in (PHONE, DESK):
        page.set_viewport_size(viewport)
        assert page.evaluate(WIDE_ELEMENTS) == []
        page.wait_for_function(LEGENDS_END_CHARTS)
    lightness = []
    for scheme in ("light", "dark"):
        page.emulate_media(color_scheme=scheme)
        style = "getComputedStyle(document.body)"
        colors = page.evaluate(f"() => [{style}.backgroundColor, {style}.color]")
        lightness.append([sum(map(int, color[4:-1].split(","))) for color in colors])
    (light_back, light_text), (dark_back, dark_text) = lightness
    assert light_back > 600 > 150 > light_text and dark_back < 150 < 600 < dark_text


def test_live_run(visit: Visit, live: Process) -> None:
    page = visit.open(f"http://{live.address}/", "healthy")
    n = visit.wait_for_examples(1000)
    state = page.request.get(f"http://{live.address}/state").json()
    assert visit.tiles()["Non-zeros"] == f"{state['tiles']['nonzero']:,}"
    page.locator("#weights tr").first.wait_for()
    assert_hostile_names_are_text(visit)
    assert page.locator("#rejected-total").inner_text() == str(n // 99)
    assert page.locator("canvas").count() == 4
    live.feed(lines(300, 3))
    visit.wait_for_examples(n)
    assert_fits(page)
    assert visit.problems == []
    assert all(url.startswith(f"http://{live.address}/") for url in visit.requests)


def test_keyboard(visit: Visit, live: Process) -> None:
    page = visit.open(f"http://{live.address}/", "healthy")
    page.locator("#weights tr").first.wait_for()
    page.keyboard.press("/")
    page.keyboard.type("site=s1")
    sync_api.expect(page.locator("#weights-note")).to_contain_text("found")
    assert len(visit.names()) == 11 and all(n.startswith("site=s1") for n in visit.names())
    page.keyboard.press("Escape")
    page.keyboard.press("e")
    page.keyboard.type(json.dumps({HOSTILE[0]: 1.0, "site": "s1", "unheard": 2}))
    page.keyboard.press("Control+Enter")
    page.locator("#contributions tr").first.wait_for()
    assert visit.names("contributions") == [HOSTILE[0], "site=s1", "unheard"]
    assert "(unknown)" in page.locator("#contributions tr").last.inner_text()
    page.keyboard.press("Escape")
    chart = page.locator("#reliability")
    chart.focus()
    at_end = chart.inner_text()
    page.keyboard.press("ArrowLeft")  # to the last point, whose values are shown already
    page.keyboard.press("ArrowLeft")
    sync_api.expect(chart).not_to_have_text(at_end, use_inner_text=True)
    page.locator("#example").fill("<b>no JSON")
    page.locator("#explain button").click()
    sync_api.expect(page.locator("#prediction.error")).to_contain_text("not valid JSON")
    [problem] = visit.problems
    assert "400" in problem  # Chromium reports the refusal


def test_page_follows_the_next_run(
    visit: Visit, start: Start, recorded: Path, tmp_path: Path
) -> None:
    """A page stays open when its run ends, another one starts, and that is killed."""
    options = ("learn", "-", "--format", "jsonl", "--bad", "skip")
    report = tmp_path / "report.jsonl"
    first = start(*options, "--page", "0", "--report", str(report))
    visit.open(f"http://{first.address}/", "")
    first.feed(lines(1000, 4))
    visit.wait_for_examples(100)
    first.popen.communicate(timeout=60)
    visit.wait("the run has ended")
    assert_tiles(visit, last_line(report))
    second = start(*options, "--page", first.address)
    second.feed(lines(500, 5))
    visit.wait("healthy")
    assert visit.wait_for_examples(100) < 500
    second.popen.send_signal(signal.SIGKILL)
    visit.wait("does not answer")
    start("page", str(recorded / "run.jsonl"), "--page", first.address)
    visit.wait("the run has ended")
    assert_tiles(visit, last_line(recorded / "run.jsonl"))
    assert all("ERR_" in problem for problem in visit.problems)  # of requests in between


def test_finished_run(visit: Visit, start: Start, recorded: Path) -> None:
    model = recorded / "clicks.model"
    served = start("page", str(recorded / "run.jsonl"), "--model", str(model), "--page", "0")
    page = visit.open(f"http://{served.address}/", "the run has ended")
    assert_tiles(visit, last_line(recorded / "run.jsonl"))
    assert_hostile_names_are_text(visit)
    assert page.locator("#weights-section").is_visible()
    assert page.locator("#movers-section").is_hidden(), "weights of earlier are not in a report"
    x = {HOSTILE[2]: 1.0, "site": "s3"}
    page.locator("#example").fill(json.dumps(x))
    page.locator("#explain button").click()
    page.locator("#contributions tr").first.wait_for()
    explanation = streaml1.load(model).explain_one(x)
    assert f"margin {explanation.margin:+#.4g}" in page.locator("#prediction").inner_text()
    contributions = page.locator("#contributions td:last-child").all_inner_texts()
    assert contributions == [f"{record.contribution:+#.4g}" for record in explanation.features]
    page.locator("#example").evaluate(
        '(area) => { area.value = `{"a": "${\'b\'.repeat(70000)}"}`; }'
    )
    page.locator("#explain button").click()
    sync_api.expect(page.locator("#prediction")).to_contain_text("must have at most 65,536 bytes")
    assert len(visit.problems) == 1 and "413" in visit.problems.pop()
    x = {HOSTILE[2]: 1e6, "site": "s3"}  # the model bounds such a value
    page.locator("#example").fill(json.dumps(x))
    page.locator("#explain button").click()
    sync_api.expect(page.locator("#contributions")).to_contain_text("1.000e+6")
    for record in streaml1.load(model).explain_one(x).features:
        sign = "with weight" if record.value == 1e6 else "\u00d7"
        row = page.locator("#contributions tr").filter(has_text=f"{record.contribution:+#.4g}")
        assert f"{sign} {record.weight:+#.4g}" in row.inner_text()
    assert visit.problems == []
    assert all(url.startswith(f"http://{served.address}/") for url in visit.requests)


def test_one_file(visit: Visit, recorded: Path) -> None:
    url = (recorded / "run.html").as_uri()
    page = visit.open(url, "the run has ended")
    assert_tiles(visit, last_line(recorded / "run.jsonl"))
    assert_hostile_names_are_text(visit)
    assert page.locator("canvas").count() == 4 and page.locator("polyline").count() > 5
    page.locator("#search").fill("<img")
    sync_api.expect(page.locator("#weights-note")).to_contain_text("1 of the largest")
    assert visit.names() == [HOSTILE[0]]
    assert not page.locator("#explain-section").is_visible()
    assert "explains" not in page.locator("footer").inner_text()
    assert_fits(page)
    assert (visit.requests, visit.problems) == ([url], [])


@pytest.mark.kafka
def test_topic(visit: Visit, start: Start, broker: Broker) -> None:
    topic = broker.topic(2)
    broker.send(topic, lines(1000, 6).splitlines(), (0, 1))
    run = start("learn", broker.url(topic), "--bad", "skip", "--page", "0")
    page = visit.open(f"http://{run.address}/", "healthy")
    visit.wait_for_examples(989)
    assert visit.tiles()["Lag"] == "0"
    assert page.locator("#lag").inner_text().split() == [
        "partition",
        "0",
        "0",
        "partition",
        "1",
        "0",
    ]
    broker.send(topic, lines(100, 7).splitlines(), (0, 1))
    visit.wait_for_examples(990)
    assert visit.problems == []
