"""Print the lowest versions that pyproject.toml permits, as constraints for pip."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parent.parent.parent / "pyproject.toml"


def lowest(requirements: list[str]) -> list[str]:
    """Return `name==version` for each requirement `name>=version`."""
    pinned = []
    for requirement in requirements:
        bound = re.match(r"([\w.-]+)(?:\[[^]]*\])?>=([\w.]+)", requirement)
        if bound is None:
            raise SystemExit(f"{requirement} has no lower bound; write name>=version")
        pinned.append("==".join(bound.groups()))
    return pinned


if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    print("\n".join(lowest(project["dependencies"])))
