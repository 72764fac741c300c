"""Gurobi as a solver of integer programs."""

from __future__ import annotations

import gurobipy
import numpy as np
from scipy import sparse

from chronoscale.errors import MachineError
from chronoscale.strategies.real.ilp_model import IntegerProgram
from chronoscale.strategies.real.solver import BeyondLicence, Solution


def solve(model: IntegerProgram, seconds: float, gap: float, threads: int) -> Solution:
    """Solve REAL-L's integer program by Gurobi, within `seconds` or to a relative `gap` between solution and bound. threads 0: as Gurobi
    likes. Raises BeyondLicence, and MachineError when Gurobi fails."""
    try:
        return _solve(model, seconds, gap, threads)
    except gurobipy.GurobiError as error:
        beyond = error.errno in (gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED, gurobipy.GRB.Error.NO_LICENSE)
        message = f"Gurobi: {error.message} (error {error.errno}, model of {model.rows.shape})"
        raise (BeyondLicence if beyond else MachineError)(message) from error


def _solve(model: IntegerProgram, seconds: float, gap: float, threads: int) -> Solution:
    """Solve by Gurobi. Raises GurobiError."""
    rows = sparse.csr_array((model.rows.value, (model.rows.row, model.rows.column)), shape=model.rows.shape)
    with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as grb:
        kinds = np.where(model.integer, gurobipy.GRB.INTEGER, gurobipy.GRB.CONTINUOUS)
        x = grb.addMVar(len(model.cost), lb=model.lower, ub=model.upper, obj=model.cost, vtype=kinds)
        for limit, sense in ((model.row_lower, ">"), (model.row_upper, "<")):
            limited = np.flatnonzero(np.isfinite(limit) & (model.row_lower != model.row_upper))
            if len(limited):
                grb.addMConstr(rows[limited], x, sense, limit[limited])
        equal = np.flatnonzero(model.row_lower == model.row_upper)
        grb.addMConstr(rows[equal], x, "=", model.row_lower[equal])
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
