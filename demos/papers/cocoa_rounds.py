"""CoCoA+: rounds of dual ascent over K shards, until the certified gap is 1e-3.

    python demos/papers/cocoa_rounds.py [--quick] [--data DIR]

Ma, Smith, Jaggi, Jordan, Richtarik & Takac (2015), with the steps of Shalev-Shwartz & Zhang (2013).
Logistic loss on RCV1 (CCAT, 20,000 rows), l1 = 1e-5 and l2 = 1e-5. A round synchronises all shards
once. Accelerated mini-batches synchronise after each batch. Takes half a minute. Uses synthetic
rows if the data is missing.
"""

from __future__ import annotations

import warnings
from typing import Any

from common import Claim, argument_parser, print_claims, print_table, set_data_directory
from l1_ball_rcv1 import load_documents, synthetic

from streaml1.solvers import NotConverged, accelerated_sdca, prox_sdca, sdca

ROWS = 20_000
L1, L2, TOLERANCE = 1e-5, 1e-5, 1e-3
BATCH = 100
SHARDS = (1, 2, 4, 8, 16)


def after_each_epoch(record: Any, w: Any) -> None:
    """Be a callback: with one, the gap is computed after each epoch."""


def main() -> None:
    arguments = argument_parser(__doc__).parse_args()
    set_data_directory(arguments.data)
    rows, shards = (600, SHARDS[:3]) if arguments.quick else (ROWS, SHARDS)
    l2 = L2 * ROWS / rows  # the same product with the number of rows
    documents = None if arguments.quick else load_documents("CCAT", rows)
    X, y = synthetic(rows, 400) if documents is None else documents
    warnings.simplefilter("ignore", NotConverged)

    lines, rounds = [], {}
    for k in shards:
        # One shard runs the code of several: epochs over all examples, no stages.
        solution = prox_sdca(
            X, y, l1=L1, l2=l2, inner=l2, tol=TOLERANCE, shards=k, callback=after_each_epoch
        )
        last = solution.trace[-1]
        rounds[k] = last.epoch
        passes = last.accesses / X.nnz
        lines.append((k, last.epoch, f"{last.gap:.1e}", f"{last.n_nonzero:,}", f"{passes:.1f}"))
    columns = ("shards", "rounds to a gap of 1e-3", "gap", "non-zeros", "reads of X")
    print_table(f"CoCoA+ on {len(y):,} x {X.shape[1]:,}, l1 = {L1:g}, l2 = {l2:g}", columns, lines)

    batch = accelerated_sdca(X, y, l2=l2, batch=BATCH, tol=TOLERANCE, callback=after_each_epoch)
    alone = sdca(X, y, l2=l2, tol=TOLERANCE, shards=4)
    synchronisations = batch.trace[-1].epoch * -(-len(y) // BATCH)
    rounds_alone = alone.trace[-1].epoch
    print_claims(
        "Synchronisations",
        [
            Claim(
                "CoCoA+",
                "K shards need at most K times the rounds of one",
                ", ".join(f"K = {k}: {n}" for k, n in rounds.items()),
                all(n <= k * rounds[1] for k, n in rounds.items()),
            ),
            Claim(
                "CoCoA+",
                "far fewer synchronisations than mini-batches (l2 alone, 4 shards)",
                f"{rounds_alone} rounds; accelerated mini-batches of {BATCH}: "
                f"{synchronisations:,} synchronisations",
                10 * rounds_alone <= synchronisations,
            ),
        ],
    )


if __name__ == "__main__":
    main()
