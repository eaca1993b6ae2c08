"""The pages of the documentation: their links, the README, and the order of the site."""

from __future__ import annotations

import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
import yaml

import streaml1
from streaml1.cli import cli

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
README = (ROOT / "README.md").read_text()

CONTRIBUTOR_PAGES = [
    ROOT / "CONTRIBUTING.md",
    ROOT / "docs" / "ARCHITECTURE.md",
    *sorted(ROOT.glob("docs/internals/*.md")),
]
FILES = {
    f"/{path.relative_to(ROOT).as_posix()}": path
    for folder in (
        "",
        ".github/**/",
        "demos/**/",
        "docs/**/",
        "scripts/**/",
        "streaml1/**/",
        "tests/**/",
    )
    for path in ROOT.glob(f"{folder}*.*")
}

LINK = re.compile(r"\]\(([^()\s]+(?:\([^()]*\))?)\)")


def without_code(text: str) -> str:
    """Return the text without fenced blocks and code spans, in which brackets are no links."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", text)
    return re.sub(r"(`+).+?\1", "", text)


def anchors(page: Path) -> set[str]:
    """Return the anchors of a page's headings, as GitHub makes them."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    found: dict[str, int] = {}
    names = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"(?m)^#{1,6} +(.+?) *#*$", text):
        shown = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", shown.lower()).replace(" ", "-")
        repeat = found.get(name, 0)
        found[name] = repeat + 1
        names.add(f"{name}-{repeat}" if repeat else name)
    return names


def broken_links(page: Path) -> list[str]:
    """Return the relative links of a page whose file or anchor does not exist."""
    broken = []
    for link in LINK.findall(without_code(page.read_text())):
        if re.match(r"[a-z]+:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        target = (page.parent / name).resolve() if name else page
        known = target.suffix != ".md" or not anchor or anchor in anchors(target)
        if not target.exists() or not known:
            broken.append(link)
    return broken


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_and_anchors(page: Path) -> None:
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "other.md").write_text("# A `b`, c\n\n## A\n\n## A\n\n```\n# not a heading\n```\n")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#a-b-c) [c](other.md#a-1) [d](#page) `[e](code.md)`"
    page.write_text(f"# Page\n\n{good}\n[f](https://example.org/x)\n```\n[g](fenced.md)\n```\n")
    assert broken_links(page) == []
    bad = ["none.md", "other.md#b", "other.md#not-a-heading", "#nowhere"]
    page.write_text("# Page\n\n" + " ".join(f"[x]({link})" for link in bad))
    assert broken_links(page) == bad


def files_named(path: str) -> list[Path]:
    """Return the files that a page means by a path, of which it may leave out the beginning."""
    return [file for name, file in FILES.items() if name.endswith(f"/{path}")]


@pytest.mark.parametrize("page", CONTRIBUTOR_PAGES, ids=lambda page: page.stem)
def test_contributors_find_what_a_page_names(page: Path) -> None:
    """Two recipes named what had been moved or renamed."""
    text = re.sub(r"(?ms)^ *```.*?^ *```$", "", page.read_text())
    paths = re.findall(r"`([\w./]+\.(?:md|py|toml|yml))`", text)
    assert [path for path in paths if not files_named(path)] == []
    in_file = re.findall(r"`([\w.]+)`\s+(?:in|of)\s+`([\w./]+\.py)`", text)
    rows = re.findall(r"(?m)^\|(?: \d)? `([\w./]+\.py)` \| (`[^|]+`) \|", text)
    in_file += [(name, path) for path, names in rows for name in re.findall(r"`([\w.]+)`", names)]
    for name, path in in_file:
        sources = [file.read_text() for file in files_named(path)]
        word = re.compile(rf"\b{name.split('.')[-1]}\b")
        assert any(map(word.search, sources)), (
            f"{page.name} finds {name} in {path}, where it is not"
        )


@pytest.mark.parametrize("page", sorted(ROOT.glob("docs/papers/*.md")), ids=lambda page: page.stem)
def test_papers_name_tests_and_functions_that_exist(page: Path) -> None:
    """Three names had moved."""
    names = re.findall(r"`([\w./]+)[`(]", page.read_text())
    tests = "".join(path.read_text() for path in ROOT.glob("tests/test_*.py"))
    for name in names:
        if name.startswith("test_") and not name.endswith(".py"):
            assert f"def {name}(" in tests, name
        elif name.endswith(".py"):
            assert files_named(name), name
        elif "." in name and "/" not in name:
            module, _, member = name.rpartition(".")
            path = module.replace(".", "/")
            sources = [*files_named(f"{path}.py"), *files_named(f"{path}/__init__.py")]
            assert any(re.search(rf"\b{member}\b", file.read_text()) for file in sources), name


def test_readme_is_a_landing_page() -> None:
    lines = README.splitlines()
    assert len(lines) <= 120
    assert max(map(len, lines)) <= 160
    assert len(LINK.findall(without_code(README))) <= 12
    for command in ("pip install streaml1", "scripts/demo", "scripts/test"):
        assert command in README


GENERATED = {"command-line.md", "CHANGELOG.md", "CONTRIBUTING.md"}  # by scripts/docs.d/stage.py
FIRST_SCREEN = 16
"""Lines of a page within which its example begins."""


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Any]:
    """Import a module of scripts/docs.d by its name."""
    monkeypatch.syspath_prepend(str(ROOT / "scripts" / "docs.d"))
    return importlib.import_module


def test_staged_pages(script: Callable[[str], Any], tmp_path: Path) -> None:
    script("stage").main(tmp_path / "pages")
    staged = sorted((tmp_path / "pages").rglob("*.md"))
    assert [link for page in staged for link in broken_links(page)] == []
    commands = (tmp_path / "pages" / "command-line.md").read_text()
    assert re.findall(r"(?m)^## (\w+)$", commands) == sorted(cli.commands)
    assert "--l1" in commands and "Usage: streaml1 learn [OPTIONS] SOURCE..." in commands
    api = (tmp_path / "pages" / "api.md").read_text()
    packages = [importlib.import_module(name) for name in script("stage").PACKAGES.values()]
    names = [name for package in (streaml1, *packages) for name in package.__all__]
    missing = [name for name in names if not re.search(rf"\b{name}\b", api)]
    assert missing == []


def test_pages_load_nothing_from_other_hosts(script: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    page = tmp_path / "a" / "b.html"
    shim = '<script src="https://unpkg.com/iframe-worker/shim" type="text/javascript"></script>'
    page.write_text(f'{shim}<a href="https://example.org/">x</a><img src="x.png">')
    script("localize").main(tmp_path)
    assert '<script src="../local_worker.js"></script>' in page.read_text()
    page.write_text('<script src="https://example.org/x.js"></script>')
    with pytest.raises(SystemExit, match=r"a/b\.html: .*example\.org/x\.js"):
        script("localize").main(tmp_path)


class SiteLoader(yaml.SafeLoader):
    """Reads mkdocs.yml without calling the functions that it names."""


SiteLoader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)


def pages_in(nav: Any) -> list[str]:
    """Return the pages of a part of the navigation, in order."""
    if isinstance(nav, str):
        return [nav]
    parts = nav.values() if isinstance(nav, dict) else nav
    return [page for part in parts for page in pages_in(part)]


def test_every_page_is_in_the_navigation_once() -> None:
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), SiteLoader)
    sources = [*ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.ipynb")]
    existing = {str(page.relative_to(ROOT / "docs").with_suffix(".md")) for page in sources}
    assert sorted(pages_in(settings["nav"])) == sorted(existing | GENERATED)


def has_example(text: str) -> bool:
    """Return whether a block of a page has Python code or a command."""
    fenced = re.findall(r"(?ms)^```.*?^```$", text)
    indented = re.findall(r"(?m)(?:^    \S[^\n]*\n)+", text)
    command = r"(?:\w+=\S+ )?(?:streaml1 \w+ \S|python \S+\.py|scripts/\w)"
    start = rf"(?m)^(?:\$ |    )?(?:{command}|from streaml1|>>> )"
    return any("```python" in block or re.search(start, block) for block in [*fenced, *indented])


def test_examples_are_found() -> None:
    prose = "Run streaml1 learn x.\nstreaml1 learn x\n\n```\nstreaml1\n```\n"
    assert not has_example(prose)
    assert has_example(prose + "\n    streaml1 learn x\n")
    assert has_example("```\n$ streaml1 learn x\n```\n")
    assert has_example("```python\n1 + 1\n```\n")


@pytest.mark.parametrize(
    "page", sorted(ROOT.glob("docs/**/*.md")), ids=lambda page: str(page.relative_to(ROOT))
)
def test_page_has_a_runnable_example(page: Path) -> None:
    text = page.read_text()
    assert has_example(text)
    first_screen = "\n".join(text.split("\n")[:FIRST_SCREEN])
    assert re.search(r"^(```|    \S)", first_screen, re.MULTILINE), "begin with the example"
