"""A picture of a page in a file, if Chromium is installed."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

__all__ = ["screenshot"]


def screenshot(page: Path, picture: Path) -> None:
    """Write a picture of a page in an HTML file, or say that it cannot."""
    if shutil.which("chromium") is None:
        print(f"no screenshot: chromium is not installed; open {page} in a browser")
        return
    with tempfile.TemporaryDirectory() as profile:
        subprocess.run(
            ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars",
             f"--user-data-dir={profile}", "--virtual-time-budget=3000", "--window-size=1280,1200",
             f"--screenshot={picture}", f"file://{page.resolve()}"],
            check=True, capture_output=True, timeout=120,
        )  # fmt: skip
    _crop(picture)
    print(picture)


def _crop(path: Path) -> None:
    """Remove the rows of one colour at the bottom of an image."""
    image = plt.imread(path)
    same = (image == image[-1, 0]).all(axis=(1, 2))
    plt.imsave(path, image[: len(image) - int(np.argmin(same[::-1])) + 8])
