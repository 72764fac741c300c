"""HiGHS as a solver of integer programs."""

from __future__ import annotations

import time

import highspy
import numpy as np

from chronoscale.errors import MachineError
from chronoscale.strategies.real.ilp_model import IntegerProgram
from chronoscale.strategies.real.solver import Solution


def solve(model: IntegerProgram, seconds: float, gap: float, threads: int) -> Solution:
    """Solve REAL-L's integer program by HiGHS, within `seconds` or to a relative `gap` between solution and bound. threads 0: as HiGHS
    likes. Raises MachineError when HiGHS fails."""
    lp, rows = highspy.HighsLp(), model.rows
    lp.num_row_, lp.num_col_ = model.rows.shape
    lp.col_cost_ = model.cost
    lp.col_lower_ = model.lower
    lp.col_upper_ = model.upper
    lp.row_lower_, lp.row_upper_ = model.row_lower, model.row_upper
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = np.searchsorted(rows.column, np.arange(rows.shape[1] + 1))
    lp.a_matrix_.index_ = rows.row
    lp.a_matrix_.value_ = rows.value
    kinds = highspy.HighsVarType
    lp.integrality_ = [kinds.kInteger if whole else kinds.kContinuous for whole in model.integer]
    highspy.Highs.resetGlobalScheduler(True)  # threads of the process, made by its first run: another number of them is an error
    highs = highspy.Highs()  # type: ignore[no-untyped-call]
    for option, value in (("output_flag", False), ("time_limit", float(seconds)), ("mip_rel_gap", float(gap)), ("threads", threads)):
        highs.setOptionValue(option, value)
    highs.passModel(lp)
    start = highspy.HighsSolution()
    start.col_value = model.start.tolist()
    highs.setSolution(start)
    began = time.perf_counter()
    highs.run()
    took = time.perf_counter() - began
    status = highs.getModelStatus()
    info = highs.getInfo()
    statuses = {
        highspy.HighsModelStatus.kOptimal: "optimal" if info.mip_gap <= 1e-9 else "gap",
        highspy.HighsModelStatus.kTimeLimit: "time limit",
        highspy.HighsModelStatus.kInfeasible: "infeasible",
    }
    if status not in statuses:
        raise MachineError(f"HiGHS stopped with {highs.modelStatusToString(status)}")
    feasible = info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible
    values = np.array(highs.getSolution().col_value) if feasible else None
    return Solution(statuses[status], values, float(info.mip_dual_bound), took, f"HiGHS {highs.version()}")  # type: ignore[arg-type]
