"""Batch solvers for linear models, and Euclidean projections.

All solvers are `f(X, y, loss=..., ...) -> Solution`. They minimize the mean loss plus
l1 |w|_1 + l2/2 |w|^2; some take another penalty or constraint. The intercept is never penalized.
Each solver reports a duality gap, an upper bound on the distance from the optimum. The online
learners of `streaml1` are compared with these optima.
"""

from __future__ import annotations

from streaml1.solvers.accelerated_sdca import accelerated_sdca
from streaml1.solvers.fista import fista
from streaml1.solvers.frank_wolfe import frank_wolfe
from streaml1.solvers.projected_gradient import projected_gradient
from streaml1.solvers.projection import project_l1_ball, project_simplex
from streaml1.solvers.prox_sdca import prox_sdca
from streaml1.solvers.scd import detcd, scd
from streaml1.solvers.sdca import sdca
from streaml1.solvers.solution import NotConverged, Record, Solution
from streaml1.solvers.structured_sdca import structured_sdca

__all__ = [
    "NotConverged",
    "Record",
    "Solution",
    "accelerated_sdca",
    "detcd",
    "fista",
    "frank_wolfe",
    "project_l1_ball",
    "project_simplex",
    "projected_gradient",
    "prox_sdca",
    "scd",
    "sdca",
    "structured_sdca",
]
