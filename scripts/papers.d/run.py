"""Run all demos of the papers into a directory: `run.py [--quick] [--data DIR] FOLDER`.

Writes the output of each demo to FOLDER/NAME.txt and its plots next to it, and prints one line per
demo: how many claims of the paper hold, and the time. Exits with 1 if a demo failed.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

DIRECTORY = Path(__file__).parent.parent.parent / "demos" / "papers"
DEMOS = (
    "lipton_elkan_table1",
    "shalev_shwartz_tewari_figure1",
    "fobos_pegasos",
    "fobos_sparsity",
    "fobos_minibatches",
    "fobos_mixed_norms",
    "l1_ball_synthetic",
    "l1_ball_rcv1",
    "l1_ball_mnist",
    "l1_ball_online",
    "sdca_talk",
    "cocoa_rounds",
    "sdca_run_times",
    "structured_chain",
)
NOTE = (
    '"Do not" counts statements of papers that did not repeat with the data and settings of a '
    "demo;\nthe code is tested against slow implementations of the same equations."
)
VERDICT = re.compile(r"(\d+) of (\d+) hold, (\d+) do not, (\d+) not run\.")


def summarize(output: str) -> str:
    """Return the verdicts of a demo's output in one line, summed over its tables of claims."""
    counts = [tuple(map(int, found)) for found in VERDICT.findall(output)]
    if not counts:
        return "no verdict"
    holds, claims, fails, missing = map(sum, zip(*counts, strict=True))
    return f"{holds} of {claims} hold, {fails} do not, {missing} not run"


def run_demo(path: Path, options: Sequence[str], folder: Path) -> tuple[bool, str]:
    """Run a demo; return whether it succeeded, and its verdicts or the last line of its errors."""
    command = [sys.executable, str(path), *options, "--out", str(folder)]
    output = folder / f"{path.stem}.txt"
    with open(output, "w") as file:
        status = subprocess.run(command, stdout=file, stderr=subprocess.STDOUT, check=False)
    text = output.read_text()
    if status.returncode:
        last = text.strip().splitlines()[-1:] or ["without output"]
        return False, f"failed: {last[0]}"
    return True, summarize(text)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", metavar="FOLDER", type=Path, help="directory for the results")
    parser.add_argument("--quick", action="store_true", help="run on little synthetic data")
    parser.add_argument(
        "--data", type=Path, help="directory with the data sets (default: $STREAML1_DATA)"
    )
    args = parser.parse_args(arguments)
    args.folder.mkdir(parents=True, exist_ok=True)
    options = ["--quick"] if args.quick else []
    options += ["--data", str(args.data)] if args.data else []
    succeeded = True
    for name in DEMOS:
        begin = time.perf_counter()
        done, line = run_demo(DIRECTORY / f"{name}.py", options, args.folder)
        print(f"{name:30} {line}  ({time.perf_counter() - begin:.0f} s)", flush=True)
        succeeded &= done
    print(NOTE)
    return 0 if succeeded else 1


if __name__ == "__main__":
    raise SystemExit(main())
