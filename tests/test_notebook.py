"""What a notebook shows: reports as HTML, figures, no output besides, a progress bar."""

from __future__ import annotations

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import streaml1
from streaml1.training import progressive
from streaml1.training.progress_bar import ProgressBar
from streaml1.training.report import Report, notebook

EXAMPLES: list[Any] = [({"a": float(k % 3), "b": 1.0}, k % 2 == 0) for k in range(60)]


def report_of(title: str = "clicks", n_lines: int = 3) -> Report:
    report = Report("logistic", title)
    rng = np.random.default_rng(0)
    for _ in range(n_lines):
        p = rng.random(20)
        report.add(p, rng.random(20) < p)
        report.line()
    return report


class Elements(HTMLParser):
    """Collects tags and text, and checks that tags are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text: list[str] = []
        self.open: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag not in ("br", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def test_report_is_a_table_and_a_picture() -> None:
    report = report_of()
    html = report._repr_html_()
    elements = Elements(html)
    assert elements.tags.count("tr") == 4 and elements.tags.count("img") == 1
    assert f"{report.lines[-1].loss:.4f}" in elements.text
    assert report.summary() in elements.text
    (image,) = re.findall(r'src="data:image/png;base64,([^"]+)"', html)
    assert len(image) > 10_000


def test_names_are_escaped() -> None:
    title = '<script>alert("1")</script> & $x$ \N{SNOWMAN}'
    elements = Elements(report_of(title)._repr_html_())
    assert "script" not in elements.tags and title in elements.text


def test_long_report_is_shortened() -> None:
    elements = Elements(report_of(n_lines=33)._repr_html_())
    assert elements.tags.count("tr") == 1 + notebook.MAX_LINES + 1
    assert "13 lines" in elements.text and "660" in elements.text


def test_empty_report_has_no_table() -> None:
    assert Report("logistic")._repr_html_() == "<p>no examples</p>"


def test_report_without_matplotlib_is_a_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backend_bases", None)
    tags = Elements(report_of()._repr_html_()).tags
    assert "table" in tags and "img" not in tags
    with pytest.raises(RuntimeError, match=r"pip install 'streaml1\[plot\]'"):
        report_of().plot()


def test_plot_without_a_path_returns_a_figure(tmp_path: Path) -> None:
    report = report_of()
    assert len(report.plot().axes) == 5
    assert report.plot(tmp_path / "r.png") is None  # type: ignore[func-returns-value]


def test_table_displays_nothing_in_a_notebook(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without force_jupyter=False rich would display HTML, and return nothing."""
    displayed: list[Any] = []
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr("rich.jupyter.display", lambda *args: displayed.append(args))
    assert report_of().table().count("\n") == 4
    assert not displayed


def test_progress_bar(capsys: pytest.CaptureFixture[str]) -> None:
    report = progressive(streaml1.ElasticNetClassifier(), EXAMPLES, progress=True)
    out = capsys.readouterr().out
    assert "60 examples" in out and f"log-loss {report.lines[-1].loss:.4f}" in out
    progressive(streaml1.ElasticNetClassifier(), EXAMPLES)
    assert not capsys.readouterr().out


def test_progress_bar_stops_with_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    bars: list[Any] = []
    on_start = ProgressBar.on_start

    def record(bar: ProgressBar, start: Any) -> None:
        on_start(bar, start)
        bars.append(bar._bar)

    monkeypatch.setattr(ProgressBar, "on_start", record)
    examples = [*EXAMPLES, ({"a": float("inf")}, True)]
    with pytest.raises(ValueError, match="inf of .a. is too large"):
        progressive(streaml1.ElasticNetClassifier(), examples, progress=True)
    assert [bar.live.is_started for bar in bars] == [False]
