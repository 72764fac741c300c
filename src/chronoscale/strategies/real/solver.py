"""Solver: an integer program given to HiGHS, or to Gurobi where its licence covers it."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import gurobipy
import highspy
import numpy as np
from scipy import sparse

from chronoscale.errors import MachineError
from chronoscale.strategies.costs import Floats
from chronoscale.strategies.real.ilp_model import Model

Name = Literal["auto", "highs", "gurobi"]
Status = Literal["optimal", "gap", "time limit", "infeasible"]  # gap: stopped within the relative gap asked for

BUNDLED = 2000  # variables, and constraints, that the licence inside gurobipy's wheel covers
LICENCES = ("/opt/gurobi/gurobi.lic", "/opt/gurobi1300/gurobi.lic", str(Path.home() / "gurobi.lic"))


@dataclass(frozen=True, slots=True, eq=False)
class Solution:
    """`values` None where none was found; `bound` in the model's unit, a lower bound on its optimum; `solver`: name and version."""

    status: Status
    values: Floats | None
    bound: float
    seconds: float
    solver: str


def covered(model: Model) -> bool:
    """Whether Gurobi may be tried: the model is within the bundled licence, or a licence of the user's own is there."""
    own = "GRB_LICENSE_FILE" in os.environ or any(Path(path).is_file() for path in LICENCES)
    return own or max(model.rows.shape) <= BUNDLED


def solve(model: Model, seconds: float, gap: float = 0.0, solver: Name = "auto", threads: int = 0) -> Solution:
    """From `model.start`, until the optimum is known to within `gap` (relative) or `seconds` have passed.

    auto: Gurobi where `covered` and its licence agrees, else HiGHS. threads 0: the solver's choice. Raises MachineError when the solver
    itself fails, and for 'gurobi' when the model is beyond its licence (its error 10010).
    """
    if solver != "highs" and (solver == "gurobi" or covered(model)):
        try:
            return _gurobi(model, seconds, gap, threads)
        except gurobipy.GurobiError as error:
            beyond = error.errno in (gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED, gurobipy.GRB.Error.NO_LICENSE)
            if solver == "gurobi" or not beyond:
                raise MachineError(f"Gurobi: {error.message} (error {error.errno}, model of {model.rows.shape})") from error
    return _highs(model, seconds, gap, threads)


def _highs(model: Model, seconds: float, gap: float, threads: int) -> Solution:
    lp, columns = highspy.HighsLp(), sparse.csc_array(model.rows)
    lp.num_row_, lp.num_col_ = model.rows.shape
    lp.col_cost_, lp.col_lower_, lp.col_upper_ = model.cost, model.lower, model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = columns.indptr, columns.indices, columns.data
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in model.integer]
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("time_limit", float(seconds)), ("mip_rel_gap", float(gap)), ("threads", threads)):
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    start = highspy.HighsSolution()
    start.col_value = model.start.tolist()
    highs.setSolution(start)
    began = time.perf_counter()
    highs.run()
    took, status, info = time.perf_counter() - began, highs.getModelStatus(), highs.getInfo()
    known = {
        highspy.HighsModelStatus.kOptimal: "optimal" if info.mip_gap <= 1e-9 else "gap",
        highspy.HighsModelStatus.kTimeLimit: "time limit",
        highspy.HighsModelStatus.kInfeasible: "infeasible",
    }
    if status not in known:
        raise MachineError(f"HiGHS stopped with {highs.modelStatusToString(status)}")
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(highs.getSolution().col_value) if feasible else None
    return Solution(known[status], values, float(info.mip_dual_bound), took, f"HiGHS {highs.version()}")  # type: ignore[arg-type]


def _gurobi(model: Model, seconds: float, gap: float, threads: int) -> Solution:
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as grb:
        kinds = np.where(model.integer, gurobipy.GRB.INTEGER, gurobipy.GRB.CONTINUOUS)
        x = grb.addMVar(len(model.cost), lb=model.lower, ub=model.upper, obj=model.cost, vtype=kinds)
        for limit, sense in ((model.row_lower, ">"), (model.row_upper, "<")):
            kept = np.flatnonzero(np.isfinite(limit) & (model.row_lower != model.row_upper))
            if len(kept):
                grb.addMConstr(model.rows[kept], x, sense, limit[kept])
        equal = np.flatnonzero(model.row_lower == model.row_upper)
        grb.addMConstr(model.rows[equal], x, "=", model.row_lower[equal])
        x.setAttr(gurobipy.GRB.Attr.Start, model.start)
        grb.Params.TimeLimit = seconds
        grb.Params.MIPGap = gap
        grb.Params.Threads = threads
        grb.optimize()
        codes = {gurobipy.GRB.OPTIMAL: "optimal" if grb.MIPGap <= 1e-9 else "gap", gurobipy.GRB.TIME_LIMIT: "time limit"}
        if grb.Status == gurobipy.GRB.INFEASIBLE:
            return Solution("infeasible", None, float("inf"), grb.Runtime, "Gurobi")
        if grb.Status not in codes:
            raise MachineError(f"Gurobi stopped with status {grb.Status}")
        version = ".".join(map(str, gurobipy.gurobi.version()))
        values = np.array(x.X) if grb.SolCount else None
        return Solution(codes[grb.Status], values, float(grb.ObjBound), float(grb.Runtime), f"Gurobi {version}")  # type: ignore[arg-type]
