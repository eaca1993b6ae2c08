"""The files of the page, its content security policy, and the page as one file."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping
from functools import cache
from pathlib import Path

__all__ = ["ASSETS", "POLICY", "read_asset", "single_file"]

_STATIC = Path(__file__).parent / "static"

SCRIPTS = ("uPlot.iife.min.js", "charts.js", "page.js")
STYLES = ("uPlot.min.css", "page.css")

ASSETS: Mapping[str, tuple[str, str]] = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/charts.js": ("charts.js", "text/javascript; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/uPlot.iife.min.js": ("uplot/uPlot.iife.min.js", "text/javascript; charset=utf-8"),
    "/uPlot.min.css": ("uplot/uPlot.min.css", "text/css; charset=utf-8"),
}
"""File and content type of each path."""

_RULES = "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'"

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    f"frame-ancestors 'none'; {_RULES}"
)
"""Content security policy of the page: no inline code, no other host, no markup from strings."""


@cache
def read_asset(path: str) -> bytes:
    """Return the file at a path of `ASSETS`."""
    return (_STATIC / ASSETS[path][0]).read_bytes()


def single_file(data: bytes) -> bytes:
    """Return the page as one HTML file that shows sections, given as JSON, without a server."""
    page = read_asset("/").decode()
    scripts = {name: read_asset(f"/{name}").decode() for name in SCRIPTS}
    styles = {name: read_asset(f"/{name}").decode() for name in STYLES}
    for name, text in styles.items():
        page = _replace(page, f'<link rel="stylesheet" href="{name}">', f"<style>{text}</style>")
    # Nothing in the data may end the element that holds them.
    text = data.decode().replace("<", "\\u003c")
    embedded = f'<script type="application/json" id="data">{text}</script>\n'
    for name, code in scripts.items():
        tag = f'<script defer src="{name}"></script>'
        page = _replace(page, tag, "")
        embedded += f"<script>{code}</script>\n"
    policy = (
        f"default-src 'none'; script-src {_hashes(scripts)}; style-src {_hashes(styles)}; {_RULES}"
    )
    meta = f'<meta http-equiv="Content-Security-Policy" content="{policy}">'
    page = _replace(page, '<meta charset="utf-8">', f'<meta charset="utf-8">\n{meta}')
    return _replace(page, "</body>", f"{embedded}</body>").encode()


def _replace(page: str, old: str, new: str) -> str:
    before, found, after = page.partition(old)
    assert found, f"the page has no {old}"
    return before + new + after


def _hashes(texts: Mapping[str, str]) -> str:
    digests = (hashlib.sha256(text.encode()).digest() for text in texts.values())
    return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
