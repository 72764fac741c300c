"""REAL-L: both programs and both solvers against all matchings; the time limit and what follows it."""

from __future__ import annotations

import re
import sys
import warnings
from dataclasses import replace

import gurobipy
import numpy as np
import pytest
from pairings import KINDS, QUICK, generated, optimum

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.datasets.snapshots.statistics import COLUMNS
from chronoscale.errors import ChronoscaleWarning, MachineError
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real import gurobi, ilp, solver
from chronoscale.strategies.real.benefit import compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check_schedule
from chronoscale.strategies.real.greedy_plus import search
from chronoscale.strategies.real.ilp import ILPSettings, RealL, optimise
from chronoscale.strategies.real.ilp_model import compact_program, published_program
from chronoscale.strategies.real.seats import makespan
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
WORK = Workload("w", EvolvingGraph(400, 2000, snapshots=40, churn=0.05, seed=3).statistics(), model_shape("wd-gcn", 16, 16), Hyper())
ALONE = np.full(6, -1, np.int32)


@pytest.mark.sample(3)
@pytest.mark.parametrize("formulation", ["compact", "published"])
@pytest.mark.parametrize("name", ["highs", "gurobi"])
@pytest.mark.parametrize(("seed", "gpus", "alpha"), [(0, 1, 0.0), (1, 2, 0.0), (2, 3, 0.0), (3, 2, 0.4), (4, 4, 3.0)])
def test_both_programs_and_both_solvers_find_the_optimum(formulation, name, seed, gpus, alpha):
    problem = generated(seed, 6, 2, ("even", "ties", "one long", "even", "lopsided")[seed])
    answer = optimise(problem, gpus, ALONE, ILPSettings(60, 0.0, formulation, solver=name, levels=0, threads=1), alpha)
    best = optimum(problem, gpus, alpha)
    assert answer.status == "optimal" and answer.solver.lower().startswith(name)
    assert answer.objective == pytest.approx(best, rel=1e-5)
    assert answer.proved == pytest.approx(best, rel=1e-5) and answer.gap < 1e-5
    assert makespan(problem, answer.mate, gpus, alpha) == answer.objective


def test_one_process_solves_with_different_numbers_of_threads():
    for threads in (1, 2, 3, 0):
        answer = optimise(
            generated(1, 6, 2, "even"), 2, ALONE, ILPSettings(60, 0.0, solver="highs", levels=0, threads=threads, always=True)
        )
        assert answer.status == "optimal" and answer.solver.startswith("HiGHS")


@pytest.mark.parametrize("build", [compact_program, published_program])
@pytest.mark.parametrize("alpha", [0.0, 0.7])
def test_starts_are_feasible_and_cost_their_makespan(build, alpha):
    for seed in range(6):
        problem, gpus = generated(seed, 9, 3, "even"), 1 + seed % 4
        start = search(problem, gpus, alpha, QUICK)
        model = build(problem, gpus, alpha, start)
        sums = model.rows @ model.start
        assert (sums >= model.row_lower - 1e-9).all() and (sums <= model.row_upper + 1e-9).all()
        assert (model.start >= model.lower).all() and (model.start <= model.upper + 1e-9).all()
        assert model.cost @ model.start == pytest.approx(1)  # in units of the start's makespan
        np.testing.assert_array_equal(model.mates(model.start), start)


@pytest.mark.parametrize("levels", [2, 5, 20])
def test_rounded_levels_and_the_cut_stay_below_the_optimum(levels):
    for seed in range(5):
        problem, gpus = generated(seed, 7, 3, "even"), 1 + seed % 3
        best, certified = optimum(problem, gpus), lower_bound(problem, gpus)
        for cut in (0.0, certified):
            start = search(problem, gpus, work=QUICK)
            answer = optimise(problem, gpus, start, ILPSettings(20, 0.0, levels=levels, threads=1, always=True), certified=cut)
            assert answer.proved <= best * (1 + 1e-6) and cut == answer.certified and best <= answer.objective * (1 + 1e-12)


@pytest.mark.sample(1)
@pytest.mark.parametrize("levels", [5, 6, 0])
def test_what_the_solver_proves_is_true_from_a_bad_start(levels):
    """Everyone alone; the certified bound given. Its own bound may not reach above the optimum, whatever it was told."""
    for seed in range(levels % 2, 60, 2):  # sizes, GPUs and kinds repeat after 60; levels 5 takes what 6 and 0 leave
        groups, gpus = 4 + seed % 4, 1 + seed // 4 % 3
        problem = generated(seed, groups, 3, KINDS[seed % 5])
        unpaired, certified = np.full(groups, -1, np.int32), lower_bound(problem, gpus)
        how = ILPSettings(20, 0.0, levels=levels, solver="highs", threads=1, always=True)
        answer = optimise(problem, gpus, unpaired, how, certified=certified)
        best = optimum(problem, gpus)
        assert 0 < answer.proved <= best * (1 + 1e-6)
        if not levels:
            assert answer.objective == pytest.approx(best, rel=1e-6)


def test_the_solver_rests_where_the_certified_bound_is_enough(monkeypatch):
    problem = generated(3, 7, 3, "even")
    start = search(problem, 1, work=QUICK)
    idle = optimise(problem, 1, start, ILPSettings(20), certified=lower_bound(problem, 1))
    assert idle.status == "certified" and idle.solver == "none" and idle.gap <= ilp.GAP
    np.testing.assert_array_equal(idle.mate, start)
    assert optimise(problem, 1, start, ILPSettings(20, always=True), certified=lower_bound(problem, 1)).solver != "none"
    assert optimise(problem, 1, np.full(7, -1, np.int32), ILPSettings(20), certified=lower_bound(problem, 1)).solver != "none"


def test_the_gap_holds_for_64_groups_on_8_gpus():
    """The paper's termination gap (10 %), with the solver's own bound alone."""
    problem = generated(3, 64, 3, "even")
    start = search(problem, 8, work=QUICK)
    answer = optimise(problem, 8, start, ILPSettings(60, solver="highs"))
    assert answer.status in ("optimal", "gap") and answer.gap <= ilp.GAP and answer.objective <= makespan(problem, start, 8)


def test_a_model_beyond_the_licence_goes_to_highs(monkeypatch):
    problem = generated(0, 70, 2, "even")
    model = compact_program(problem, 8, 0.0, search(problem, 8, work=QUICK), 50)
    assert len(model.cost) > solver.BUNDLED
    monkeypatch.delenv("GRB_LICENSE_FILE", raising=False)
    monkeypatch.setattr(solver, "LICENCES", ())
    assert not solver.licence_covers(model) and solver.solve(model, 20, 0.5).solver.startswith("HiGHS")

    def beyond(*_: object) -> None:
        raise gurobipy.GurobiError(gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED, "Model too large for size-limited license")

    monkeypatch.setattr(solver, "licence_covers", lambda _: True)  # a licence that turns out not to cover it
    monkeypatch.setattr(gurobi, "_solve", beyond)
    assert solver.solve(model, 20, 0.5).solver.startswith("HiGHS")
    with pytest.raises(MachineError, match="too large for size-limited license"):
        solver.solve(model, 20, 0.5, "gurobi")


def test_a_solver_that_is_not_installed(monkeypatch):
    """Gurobi's place is taken by HiGHS; without either the strategy falls back, and says so."""
    problem = generated(0, 8, 2, "even")
    model = compact_program(problem, 2, 0.0, search(problem, 2, work=QUICK))
    for name, module in (("gurobipy", "gurobi"), ("highspy", "highs")):
        monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.delitem(sys.modules, f"chronoscale.strategies.real.{module}", raising=False)
        with pytest.raises(MachineError, match=f"the solver '{module}' is not installed"):
            solver.solve(model, 5, solver=module)
        if module == "gurobi":
            assert solver.solve(model, 5).solver.startswith("HiGHS")
    with pytest.warns(ChronoscaleWarning, match="ILP failed: the solver 'highs' is not installed .*; REAL-G\\+ instead"):
        RealL(always=True).plan(WORK, 4, COSTS)


def test_the_bundled_licence_names_its_limit():
    """Its error for a model that is too large is the one that `solve` knows. Skipped where the licence is a full one."""
    try:
        with gurobipy.Env(params={"OutputFlag": 0}) as env, gurobipy.Model(env=env) as model:
            model.addMVar(solver.BUNDLED + 1)
            model.optimize()
    except gurobipy.GurobiError as error:
        assert error.errno == gurobipy.GRB.Error.SIZE_LIMIT_EXCEEDED
    else:
        pytest.skip("this machine's Gurobi licence has no size limit")


@pytest.mark.parametrize("always", [False, True])
def test_the_schedule_says_what_was_proved(always):
    schedule = RealL(always=always).plan(WORK, 4, COSTS)
    if always:
        assert re.match(r"ILP: gap .* % .*\d+\.\d % by the .* after \d+\.\d s \(.*, compact\)", schedule.note)
    else:
        assert re.fullmatch(r"ILP: gap \d\.\d % \(certified bound\) of REAL-G\+; the solver was not needed", schedule.note)
    assert 0 < schedule.bound_ns <= schedule.planned_ns and schedule.gap <= ilp.GAP
    assert schedule.planned_ns == round(check_schedule(schedule, compute_benefit(WORK, COSTS)))


def test_the_note_keeps_both_bounds_apart(monkeypatch):
    benefit = compute_benefit(WORK, COSTS)
    certified = lower_bound(benefit, 4)

    def solved(proved):
        def optimised(benefits, gpus, start, seconds, **_):
            value = makespan(benefits, start, gpus)
            return ilp.ILPResult("gap", start, value, proved * value, certified, 12.0, "HiGHS 1.15", "compact", False)

        monkeypatch.setattr(ilp, "optimise", optimised)
        return RealL().plan(WORK, 4, COSTS)

    schedule = solved(0.911)
    gap, rest = f"{100 * schedule.gap:.1f} %", "8.9 % by the solver alone after 12.0 s (HiGHS 1.15, compact); REAL-G+ not improved on"
    assert schedule.note == f"ILP: gap {gap} (certified bound), {rest}" and schedule.bound_ns == int(certified)
    schedule = solved(1.0)
    assert schedule.note.startswith("ILP: gap 0.0 % by the solver after 12.0 s (HiGHS 1.15, compact), ")
    assert f"{gap} by the certified bound alone" in schedule.note and schedule.gap == pytest.approx(0, abs=1e-9)


@pytest.mark.parametrize("status", ["time limit", "infeasible"])
def test_a_time_out_falls_back_and_says_so(monkeypatch, status):
    benefit = compute_benefit(WORK, COSTS)

    def late(benefits, gpus, start, seconds, certified, **_):
        return ilp.ILPResult(status, start, makespan(benefits, start, gpus), 0.0, certified / 2, seconds, "HiGHS", "compact", False)

    monkeypatch.setattr(ilp, "optimise", late)
    with pytest.warns(ChronoscaleWarning, match="REAL-G\\+ instead"):
        schedule = RealL(floor_s=0.01).plan(WORK, 4, COSTS)
    assert "REAL-G+ instead" in schedule.note
    assert schedule.planned_ns == round(makespan(benefit, search(benefit, 4), 4)) and schedule.bound_ns == int(lower_bound(benefit, 4) / 2)


def test_the_solver_gets_two_estimated_epochs(monkeypatch):
    """tau of REAL §5.4, and never less than the floor."""
    benefit, given = compute_benefit(WORK, COSTS), []

    def optimised(benefits, gpus, start, how, certified):
        given.append(how.seconds)
        return ilp.ILPResult("optimal", start, makespan(benefits, start, gpus), 0.0, certified, 0.0, "HiGHS", "compact", False)

    monkeypatch.setattr(ilp, "optimise", optimised)
    for floor in (0.0, 60.0):
        RealL(floor_s=floor).plan(WORK, 4, COSTS)
    assert given == [pytest.approx(2 * makespan(benefit, search(benefit, 4), 4) / 1e9), 60.0]


def test_a_time_out_returns_the_best_schedule_until_then(monkeypatch):
    benefit = compute_benefit(WORK, COSTS)
    better = search(benefit, 4)
    value = makespan(benefit, better, 4)

    def late(*_, **__):
        return ilp.ILPResult("time limit", better, value, 0.5 * value, 0.7 * value, 5.0, "HiGHS", "compact", True)

    monkeypatch.setattr(ilp, "search", lambda benefits, gpus: np.full(len(benefits.times), -1, np.int32))  # a start that can be improved on
    monkeypatch.setattr(ilp, "optimise", late)
    with pytest.warns(ChronoscaleWarning, match="at a gap of 30.0 %.*its best schedule until then"):
        schedule = RealL().plan(WORK, 4, COSTS)
    assert schedule.planned_ns == round(value) and schedule.bound_ns == int(0.7 * value)


def test_a_solver_that_fails_falls_back_and_says_so(monkeypatch):
    def broken(*_):
        raise MachineError("HiGHS stopped with Solve error")

    monkeypatch.setattr(ilp, "solve", broken)
    with pytest.warns(ChronoscaleWarning, match="ILP failed: HiGHS stopped with Solve error; REAL-G\\+ instead"):
        schedule = RealL(always=True).plan(WORK, 4, COSTS)
    benefit = compute_benefit(WORK, COSTS)
    assert schedule.note.startswith("ILP failed: ") and schedule.planned_ns == round(makespan(benefit, search(benefit, 4), 4))
    assert schedule.bound_ns == int(lower_bound(benefit, 4))


def test_a_real_time_out():
    """No time at all: the solver stops without a proof, and the start stands."""
    problem = generated(9, 64, 3, "even")
    start = search(problem, 8, work=QUICK)
    answer = optimise(problem, 8, start, ILPSettings(0.0, 0.0, "published", solver="highs"))
    assert answer.status == "time limit" and not answer.improved and answer.gap > ilp.GAP
    np.testing.assert_array_equal(answer.mate, start)


def test_too_large_falls_back_at_once():
    stats = WORK.snapshots
    many = replace(stats, **{name: np.resize(getattr(stats, name), 800) for name in COLUMNS}, lasting=None)
    with pytest.warns(ChronoscaleWarning, match="not built: more than 200,000 variables; REAL-G\\+ instead"):
        schedule = RealL(always=True).plan(Workload("long", many, WORK.model, WORK.hyper), 8, COSTS)
    assert schedule.note == "ILP not built: more than 200,000 variables; REAL-G+ instead"
    assert schedule.bound_ns <= schedule.planned_ns


def test_no_warning_where_the_ilp_answers():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RealL(always=True).plan(WORK, 2, COSTS)
