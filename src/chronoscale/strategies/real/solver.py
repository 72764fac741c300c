"""Solver: an integer program given to Gurobi where it is installed and its licence covers it, else to HiGHS."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Literal

from chronoscale.errors import MachineError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.ilp_model import IntegerProgram

Name = Literal["auto", "highs", "gurobi"]
Status = Literal["optimal", "gap", "time limit", "infeasible"]  # gap: stopped within the relative gap asked for

PACKAGES = {"highs": "highspy", "gurobi": "gurobipy"}
BUNDLED = 2000  # variables, and constraints, that the licence inside gurobipy's wheel covers
LICENCES = ("/opt/gurobi/gurobi.lic", "/opt/gurobi1300/gurobi.lic", str(Path.home() / "gurobi.lic"))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """Result of a solver on REAL-L's integer program. values: the solution x, None without one; bound: a lower bound on the optimum, in the
    model's unit; solver: name and version."""

    status: Status
    values: Floats | None
    bound: float
    seconds: float
    solver: str


class SolverNotInstalled(MachineError):
    """Error for a solver of integer programs (HiGHS, Gurobi) that is not installed."""


class BeyondLicence(Exception):
    """Error for a model that Gurobi has no licence for, because of its size."""


def licence_covers(model: IntegerProgram) -> bool:
    """Return whether Gurobi may solve this program: it is within the licence that comes with gurobipy, or a licence of the user's own is
    there."""
    own = "GRB_LICENSE_FILE" in os.environ or any(Path(path).is_file() for path in LICENCES)
    return own or max(model.rows.shape) <= BUNDLED


def solve(model: IntegerProgram, seconds: float, gap: float = 0.0, solver: Name = "auto", threads: int = 0) -> Solution:
    """Solve REAL-L's integer program from `model.start`, until the optimum is known to within `gap` (relative) or `seconds` have passed.

    auto: Gurobi where it is installed and its licence covers the model, else HiGHS. threads 0: the solver's choice. Raises MachineError
    when the solver itself fails or is not installed, and for 'gurobi' when the model is beyond its licence (its error 10010).
    """
    if solver != "highs" and (solver == "gurobi" or licence_covers(model)):
        try:
            return _import_solver("gurobi")(model, seconds, gap, threads)
        except (SolverNotInstalled, BeyondLicence) as error:
            if solver == "gurobi":
                raise MachineError(str(error)) from error
    return _import_solver("highs")(model, seconds, gap, threads)


def _import_solver(name: str) -> Callable[[IntegerProgram, float, float, int], Solution]:
    """Return the solve function of a solver, imported now, as either may be absent. Raises SolverNotInstalled."""
    try:
        solve: Callable[[IntegerProgram, float, float, int], Solution] = import_module(f"chronoscale.strategies.real.{name}").solve
    except ModuleNotFoundError as error:
        if error.name != PACKAGES[name]:
            raise
        raise SolverNotInstalled(f"the solver '{name}' is not installed ({error})") from error
    return solve
