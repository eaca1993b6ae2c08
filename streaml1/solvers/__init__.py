"""Solvers for data in memory: the optimum that the learners of a stream are held to.

All are `f(X, y, loss=..., ...) -> Solution`. What is minimised is the mean loss + l1 |w|_1 +
l2/2 |w|^2, or another penalty or ball where a solver takes one; the intercept is in none.
"""

from __future__ import annotations

from streaml1.solvers.accelerated_sdca import accelerated_sdca
from streaml1.solvers.fista import fista
from streaml1.solvers.projected_gradient import projected_gradient
from streaml1.solvers.projection import project_l1_ball, project_simplex
from streaml1.solvers.prox_sdca import prox_sdca
from streaml1.solvers.scd import detcd, scd
from streaml1.solvers.sdca import sdca
from streaml1.solvers.solution import NotConverged, Record, Solution

__all__ = [
    "NotConverged",
    "Record",
    "Solution",
    "accelerated_sdca",
    "detcd",
    "fista",
    "projected_gradient",
    "project_l1_ball",
    "project_simplex",
    "prox_sdca",
    "scd",
    "sdca",
]
