"""What schedules say of their planning, from the strategies to files, tables and reports."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from command_line import command

from chronoscale.datasets.generate.dygraph import EvolvingGraph
from chronoscale.errors import UserError
from chronoscale.harness.cli.output import print_table
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.real import greedy_plus
from chronoscale.strategies.real.benefit import Benefit, compute_benefit
from chronoscale.strategies.real.bound import lower_bound
from chronoscale.strategies.real.check import check, check_schedule
from chronoscale.strategies.real.greedy import place
from chronoscale.strategies.real.scheduled import certify
from chronoscale.strategies.registry import of, strategy
from chronoscale.strategies.schedule import Op, Schedule
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse, lower
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload

COSTS = DatasheetCosts(presets.cluster("h200").device)
PLANNERS = ("real-type1", "real-reuse", "real-g", "real-g+", "real-g+-own", "real-l")


def work(stride: int = 1) -> Workload:
    stats = EvolvingGraph(400, 2000, snapshots=60, churn=0.05, seed=3).statistics()
    return Workload("w", stats, model_shape("wd-gcn", 16, 16), Hyper(stride=stride))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", sorted(name for name, planner in of("snapshots").items() if not (planner.partitioned or planner.chunked)))
@pytest.mark.parametrize("ranks", [1, 3, 8, 100])
def test_every_strategy_passes_the_check(name, ranks):
    benefit = compute_benefit(work(), COSTS)
    schedule = strategy(name).plan(work(), ranks, COSTS)
    assert schedule.kind == strategy(name).kind and (schedule.kind != "groups") == (name in ("esdg", "dgc"))
    if schedule.kind != "groups":
        assert name not in PLANNERS and (schedule.planned_ns, schedule.bound_ns, schedule.note) == (0, 0, "")
        return
    makespan = check_schedule(schedule, benefit)
    assert makespan >= lower_bound(benefit, ranks)
    if name in PLANNERS:
        assert schedule.planned_ns == round(makespan) >= schedule.bound_ns > 0
        assert 0 <= schedule.gap < 1
    else:
        assert (schedule.planned_ns, schedule.bound_ns, schedule.note) == (0, 0, "") and math.isnan(schedule.gap)


@pytest.mark.sample(1)
@pytest.mark.parametrize("stride", [1, 3, 5])
@pytest.mark.parametrize("ranks", [1, 2, 7, 30, 64])
def test_real_g_plus_is_the_shortest_of_the_greedy_ones(stride, ranks):
    spans = {name: strategy(name).plan(work(stride), ranks, COSTS).planned_ns for name in ("real-g", "real-g+")}
    dealt = check(deal(work(stride).groups, ranks, 2), compute_benefit(work(stride), COSTS))
    assert spans["real-g+"] <= spans["real-g"] and spans["real-g+"] <= dealt * (1 + 1e-12)


@pytest.mark.parametrize("name", ["real-g+", "real-g+-own", "real-l"])
def test_groups_are_placed_by_what_they_share(name):
    """By eq. 9, where loads see reuse, a schedule is shorter than the same planner's that sees the groups' own times alone."""
    planner, benefit = strategy(name), compute_benefit(work(), COSTS)
    schedule = planner.plan(work(), 1, COSTS)
    blind = greedy_plus.place(Benefit(benefit.times, 0 * benefit.reuse), 1).in_time_order()
    assert schedule.planned_ns < check(blind, benefit)
    assert schedule.planned_ns <= round(check(planner.place(work(), 1, COSTS), benefit))


def test_real_type1_is_not_credited_with_what_it_does_not_share():
    """Two groups a rank: eq. 10 without R, against the bound of schedules that share."""
    wide = replace(work(), hyper=Hyper(groups_per_rank=2))
    benefit, apart = compute_benefit(wide, COSTS), strategy("real-type1").plan(wide, 4, COSTS)
    dealt, shared = deal(wide.groups, 4, 2), strategy("real-reuse").plan(wide, 4, COSTS)
    assert (
        apart.planned_ns
        == round(check(dealt, Benefit(benefit.times, 0 * benefit.reuse)))
        > shared.planned_ns
        == round(check(dealt, benefit))
    )
    assert apart.bound_ns == shared.bound_ns == int(lower_bound(benefit, 4))


def test_a_bound_above_the_makespan_is_a_defect():
    benefit = compute_benefit(work(), COSTS)
    schedule = lower("real-g", work(), place(benefit, 4), Reuse(snapshots=True, groups=True), COSTS)
    makespan = check_schedule(schedule, benefit)
    assert certify(schedule, benefit, makespan * (1 + 1e-7)).gap == 0
    with pytest.raises(ValueError, match="below a lower bound"):
        certify(schedule, benefit, makespan * (1 + 1e-5))


def test_a_group_in_two_places_is_caught():
    benefit = compute_benefit(work(), COSTS)
    schedule = lower("real-g", work(), place(benefit, 4), Reuse(snapshots=True, groups=True), COSTS)
    row = int(np.flatnonzero((schedule.unit == 5) & (schedule.op != Op.BACKWARD))[0])
    for column, most in (("rank", 4), ("iteration", schedule.iterations)):
        moved = getattr(schedule, column).copy()
        moved[row] = (moved[row] + 1) % most
        with pytest.raises(UserError, match=r"group 5 is on GPU \d in iteration \d+ and on GPU \d in iteration \d+"):
            check_schedule(replace(schedule, **{column: moved}), benefit)


def test_a_schedule_that_loses_a_group_is_caught():
    benefit = compute_benefit(work(), COSTS)
    placement = place(benefit, 4)
    schedule = lower("real-g", work(), placement, Reuse(snapshots=True, groups=True), COSTS)
    assert check_schedule(schedule, benefit) == check(placement, benefit)
    lost = schedule.head(schedule.iterations - 1)
    with pytest.raises(UserError, match=r"group \d+ does not train"):
        check_schedule(lost, benefit)


def test_files_keep_what_was_planned(tmp_path):
    schedule = strategy("real-g+").plan(work(), 4, COSTS)
    plan_fields = schedule.planned_ns, schedule.bound_ns, schedule.note
    noted = Schedule(**{name: getattr(schedule, name) for name in schedule.__dataclass_fields__} | {"note": "gap 8 %, 12 s"})
    noted.save(tmp_path / "new.parquet")
    back = Schedule.load(tmp_path / "new.parquet")
    assert (back.planned_ns, back.bound_ns, back.note) == (*plan_fields[:2], "gap 8 %, 12 s")
    for part in (back.head(2), back.take(np.arange(len(back)))):
        assert (part.planned_ns, part.bound_ns, part.note) == (back.planned_ns, back.bound_ns, back.note)
    table = pq.read_table(tmp_path / "new.parquet")
    old = {key: value for key, value in table.schema.metadata.items() if key in (b"name", b"ranks", b"resident")}
    pq.write_table(table.replace_schema_metadata(old), tmp_path / "old.parquet")
    older = Schedule.load(tmp_path / "old.parquet")
    assert (older.planned_ns, older.bound_ns, older.note) == (0, 0, "") and len(older) == len(schedule)


@pytest.mark.slow
def test_tables_show_the_gap_where_it_is_known(experiment, capsys):
    file = experiment(strategies=["psg", "real-g+", "real-l"], gpus=[2])
    command("simulate", file, "--dry-run", "--json")
    rows = {row["strategy"]: row for row in json.loads(capsys.readouterr().out)}
    command("simulate", file, "--dry-run")
    (line,) = (line for line in capsys.readouterr().out.splitlines() if line.split()[:1] == ["real-g+"])
    assert re.search(rf" {100 * rows['real-g+']['gap']:.1f} %", line)
    assert rows["psg"]["gap"] is None and rows["real-g+"]["planned_s"] >= rows["real-g+"]["bound_s"] > 0
    assert rows["real-l"]["note"].startswith("ILP: gap")
    command("simulate", file, "--json")
    shown = {row["strategy"]: row["gap"] for row in json.loads(capsys.readouterr().out)}
    assert shown["psg"] is None and shown["real-g+"] == rows["real-g+"]["gap"]
    command("report", "runs/small-simulate-1", "--out", "page")
    page = Path("page/index.html").read_text()
    assert "real-l on 2 GPUs: ILP: gap" in page and "gap to bound" in page and "real-g+" in page
    plain = experiment("plain", strategies=["psg"], gpus=[2])
    capsys.readouterr()
    command("simulate", plain, "--json")
    assert "gap" not in json.loads(capsys.readouterr().out)[0]


@pytest.mark.parametrize(("gap", "message"), [(0.0312, "3.1 %"), (-2e-9, "0.0 %"), (3e-9, "0.0 %"), (float("nan"), "–")])
def test_a_gap_is_a_percentage_on_the_terminal(capsys, gap, message):
    print_table(pd.DataFrame([{"gap": gap, "epoch_s": 0.0312}]), "t", as_json=False)
    assert capsys.readouterr().out.splitlines()[-1].strip().startswith(message + " ")
