"""Let no page of the site load anything from another host: `localize.py SITE`.

The builder's offline mode takes one script from a package host. `local_worker.js` replaces it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

SCRIPT = re.compile(r'<script src="https://unpkg\.com/iframe-worker/shim"[^>]*></script>')
REMOTE = re.compile(r'<(?:script|link|img|iframe)\b[^>]*\b(?:src|href)="?(?:https?:)?//[^">\s]+')
NAME = "local_worker.js"  # stage.py puts it next to the start page


def main(site: Path) -> None:
    remote = []
    for page in sorted(site.rglob("*.html")):
        above = "../" * (len(page.relative_to(site).parts) - 1)
        text = SCRIPT.sub(f'<script src="{above}{NAME}"></script>', page.read_text())
        page.write_text(text)
        for tag in REMOTE.findall(text):
            if 'rel="canonical"' not in tag:
                remote.append(f"{page.relative_to(site)}: {tag}")
    if remote:
        sys.exit("pages load from other hosts:\n" + "\n".join(remote))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
