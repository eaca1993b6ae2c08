"""The notebooks of docs/notebooks: run them, and convert them to pages of the site.

`python scripts/docs.d/notebooks.py [NAME...]` runs all of them, or these, and stores what they
show. It needs nbclient and ipykernel.
"""

from __future__ import annotations

import base64
import io
import json
import re
import sys
import tempfile
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent.parent.parent / "docs" / "notebooks"
IMAGE = re.compile(r"(?<=data:image/png;base64,)[A-Za-z0-9+/=]+")
COLOURS = 32


def run(path: Path, folder: Path) -> dict[str, Any]:
    """Run a notebook with `folder` as working directory, and return it with its outputs."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(path, as_version=4)
    where = {"metadata": {"path": str(folder)}}
    NotebookClient(notebook, timeout=300, resources=where, record_timing=False).execute()
    found: dict[str, Any] = json.loads(nbformat.writes(notebook))
    return found


def store(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook with small pictures, and without what depends on the machine."""
    language = notebook["metadata"].get("language_info", {})
    notebook["metadata"]["language_info"] = {"name": language.get("name", "python")}
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            data = output.get("data", {})
            if "text/html" in data:
                shown = IMAGE.sub(lambda image: _smaller(image[0]), "".join(data["text/html"]))
                data["text/html"] = shown.splitlines(keepends=True)
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


def _smaller(image: str) -> str:
    from PIL import Image

    packed = io.BytesIO()
    picture = Image.open(io.BytesIO(base64.b64decode(image))).convert("RGB")
    picture.quantize(COLOURS).save(packed, "png", optimize=True)
    return base64.b64encode(packed.getvalue()).decode()


def as_page(path: Path) -> str:
    """Return a notebook as Markdown: text, code, and what it shows."""
    parts = []
    for cell in json.loads(path.read_text())["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
        else:
            parts += [f"```python\n{source}\n```", *map(_shown, cell["outputs"])]
    title, *rest = parts
    heading, _, introduction = title.partition("\n")
    link = f'<a href="{path.name}" download>Download this notebook</a>'
    return "\n\n".join([heading, link, introduction.strip(), *rest]) + "\n"


def _shown(output: dict[str, Any]) -> str:
    data = output.get("data", {})
    if "text/html" in data:
        return f"<div>{''.join(data['text/html'])}</div>"
    text = "".join(output["text"] if "text" in output else data["text/plain"])
    return f"```text\n{text.rstrip()}\n```"


def stage(directory: Path) -> None:
    """Add a page for each notebook of a directory, and let the list of them link the pages."""
    for path in sorted(directory.glob("*.ipynb")):
        path.with_suffix(".md").write_text(as_page(path))
    contents = directory / "index.md"
    contents.write_text(contents.read_text().replace(".ipynb)", ".md)"))


def main(names: list[str]) -> None:
    paths = [FOLDER / f"{name}.ipynb" for name in names] or sorted(FOLDER.glob("*.ipynb"))
    for path in paths:
        with tempfile.TemporaryDirectory() as scratch:
            store(path, run(path, Path(scratch)))
        print(f"{path.name}: {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    main(sys.argv[1:])
