"""Causes: what counterfactual runs show of rows, against plain arithmetic; and runs whose answer is known."""

from dataclasses import replace
from math import exp, inf, isnan, log, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from chronoscale.errors import UserError
from chronoscale.harness.reproduce.pages import explained
from chronoscale.harness.study import assumed, study_run
from chronoscale.harness.study.assumed import under_assumptions, values_of
from chronoscale.harness.study.causes import Cause, CounterfactualRun, cause_table, causes, ratios_of, stored_causes
from chronoscale.harness.study.evaluation import evaluate, scenario_of
from chronoscale.harness.study.findings import CAUSES, SOLVED, Findings
from chronoscale.harness.study.point import Assumed, StudyPoint, StudyResult
from chronoscale.harness.study.study_file import StudyFile
from chronoscale.harness.study.task import Task
from chronoscale.simulator.engine import replay
from chronoscale.simulator.uncertainty.assumptions import ASSUMPTIONS

SETTINGS = {"dataset": "events_small", "model": {"name": "tgn", "hidden": 16}}
AXES = {"experiment": SETTINGS, "training.batch_size": 100, "strategy": "sequential", "gpus": 1}
OWN: dict[str, Any] = {"title": "Epochs", "metrics": ["epoch_s"], "grid": {"main": AXES}, "names": {"FACTOR": 1.0}}


def lines(*ratios: float) -> list[dict[str, Any]]:
    return [{"what": f"row {i}", "published": 1.0, "ours": ratio, "ratio": ratio, "why": ""} for i, ratio in enumerate(ratios)]


def found(study: dict[str, Any], folder: Path | None = None) -> Findings:
    file = StudyFile.model_validate(yaml.safe_load(yaml.safe_dump({**OWN, **study})))
    return study_run.run(file, "own", None, lambda _: None, False, folder=folder, explains=True)


# Of which none is half as far from 1 as another, nor just as far as counts as the same: no verdict hangs on how a number is rounded.
RATIO = st.integers(-300, 300).map(lambda steps: exp(steps / 100 + 0.00137))
RATIOS = st.lists(RATIO, min_size=3, max_size=3)


@given(RATIOS, st.lists(RATIOS, min_size=1, max_size=5))
def test_a_cause_closes_half_of_the_gap_and_harms_no_other_row(ratios: list[float], runs: list[list[float]]) -> None:
    tried = [CounterfactualRun(f"assumption {i % 2}", f"run {i}", "", run) for i, run in enumerate(runs)]
    result = {cause.what: cause for cause in causes(lines(*ratios), tried)}

    def fold(ratio: float) -> float:
        return max(ratio, 1 / ratio)

    assert set(result) == {f"row {i}" for i, ratio in enumerate(ratios) if fold(ratio) > 1.25}
    for i, ratio in enumerate(ratios):
        if (cause := result.get(f"row {i}")) is None:
            continue
        good = [
            run
            for run in runs
            if fold(run[i]) ** 2 <= fold(ratio) and not any(fold(run[j]) > max(1.25, 1.05 * fold(ratios[j])) for j in range(3) if j != i)
        ]
        assert cause.shown == bool(good) and cause.tried == min(len(runs), 2)
        if good:
            assert fold(cause.changed) == min(fold(run[i]) for run in good) and cause.harms == 0
            assert cause.sentence().startswith(f"shown by a run: {cause.cause}")
        else:
            nearer = [run[i] for run in runs if fold(run[i]) < fold(ratio)]
            assert (cause.cause != "") == bool(nearer)
            assert not nearer or fold(cause.changed) == min(map(fold, nearer))


def test_rows_that_are_set_aside_have_no_cause_and_are_not_harmed() -> None:
    rows = lines(2.0, 1.0, 1.0, 3.0)
    rows[1]["aside"] = "other maps"
    rows[2]["why"] = SOLVED
    rows[3]["aside"] = "other maps"
    assert [isnan(ratio) for ratio in ratios_of(rows)] == [False, True, True, True]
    (cause,) = causes(rows, [CounterfactualRun("a", "a at 1", "", [1.1, 9.0, 9.0, 9.0])])
    assert cause.shown and cause.what == "row 0"
    assert causes(rows, []) == []


@pytest.mark.parametrize(("changed", "shown"), [(1.2, True), (0.7, False), (-0.1, False), (nan, False)])
def test_a_number_of_the_other_sign_has_a_cause_only_within_what_counts_as_the_same(changed: float, shown: bool) -> None:
    (cause,) = causes(lines(-0.5), [CounterfactualRun("a", "a at 1", "", [changed])])
    assert cause.shown == shown


def test_no_other_row_is_harmed_by_staying_infinitely_far_or_by_what_counts_as_the_same() -> None:
    run = CounterfactualRun("a", "a at 1", "", [1.0, -0.2, 1.24])
    (cause, _) = causes(lines(2.0, -0.1, 1.0), [run])
    assert cause.shown
    (cause, _) = causes(lines(2.0, 1.3, 1.0), [CounterfactualRun("a", "a at 1", "", [1.0, 1.37, 1.0])])
    assert not cause.shown and cause.harms == 1 and "but takes 1 other row further off" in cause.sentence()
    (cause,) = causes(lines(2.0, 1.0, nan), [CounterfactualRun("a", "a at 1", "", [1.0, nan, nan])])
    assert not cause.shown and cause.harms == 1  # a row that is no more


def point_under(name: str, value: float) -> float:
    """An epoch with one assumption changed, by the simulator itself."""
    scenario = scenario_of(StudyPoint.of(AXES))
    changed = next(each for each in ASSUMPTIONS if each.name == name).change(scenario, value)
    return replay(changed.schedule, changed.cluster, changed.costs).span_ns / 1e9


def test_points_are_replayed_under_each_assumption_that_matters() -> None:
    task = Task(StudyPoint.of(AXES), "sweep", "", ("epoch_s",), ())
    results = under_assumptions(task, 4)
    of = {each.name: each for each in ASSUMPTIONS}
    assert not any(of[name].noise for name, _ in results) and len({name for name, _ in results}) > 5
    launch = of["launch of a kernel"]
    assert [value for name, value in results if name == launch.name] == [value for value in values_of(launch, 4) if value != 1]
    assert values_of(launch, 4)[0] == launch.low and values_of(launch, 4)[-1] == pytest.approx(launch.high)
    for at in (0.5, 2.0):
        assert results[Assumed(launch.name, at)].values["epoch_s"] == point_under(launch.name, at)
    epoch = results[Assumed(launch.name, 2.0)].values["epoch_s"]
    scenario = scenario_of(StudyPoint.of(AXES))
    device = replace(scenario.cluster.device, launch_s=2 * scenario.cluster.device.launch_s, graph_s=2 * scenario.cluster.device.graph_s)
    costs = scenario.costs.on_device(device)  # type: ignore[attr-defined]
    assert epoch == replay(scenario.schedule, replace(scenario.cluster, device=device), costs).span_ns / 1e9
    refused = replace(task, point=StudyPoint.of({**AXES, "strategy": "real-g"}))
    assert under_assumptions(refused, 4) == {}


def test_a_cause_that_was_planted_is_found_kept_and_told(tmp_path, monkeypatch) -> None:
    """The printed number is that of kernels which take twice as long to start."""
    slow, usual = point_under("launch of a kernel", 2.0), point_under("launch of a kernel", 1.0)
    assert log(slow / usual) > log(1.3)
    rows = [{"what": "an epoch", "printed": slow, "ours": "main[0].epoch_s * FACTOR", "why": "a reason"}]
    findings = found({"rows": rows}, tmp_path)
    (cause,) = stored_causes(findings)
    assert cause.shown and cause.cause == "launch of a kernel × 2" and cause.changed == pytest.approx(1)
    (told,) = explained(findings)["why"]
    assert told == "shown by a run: launch of a kernel × 2: 1.00 times the published | a reason"
    monkeypatch.setattr(assumed, "under_assumptions", lambda *_, **__: 1 / 0)  # kept: not made again
    again = found({"rows": rows}, tmp_path)
    pd.testing.assert_frame_equal(again.tables[CAUSES], findings.tables[CAUSES])
    assert not findings.earlier_s and len(again.earlier_s) > 2 and all(seconds > 0 for seconds in again.earlier_s)


@pytest.mark.parametrize(
    ("shown", "changed", "why", "told"),
    [
        (True, 1.1, "copies; the rest is not established", "copies"),
        (True, 1.1, "not established", ""),
        (True, 1.4, "copies; the rest is not established", "copies; the rest is not established"),
        (False, 1.1, "not established", "not established"),
        (True, 1.1, "copies; x 2: 1.5; the rest", "copies; the rest"),
        (False, 1.4, "x 2: 1.5; the rest", "the rest"),
        (False, 1.4, "x 20: 1.5", "x 20: 1.5"),
        (True, 1.1, "why it was not established before", "why it was not established before"),
    ],
)
def test_a_reason_says_that_it_is_not_established_where_no_run_brings_the_row_near(shown, changed, why, told) -> None:
    cause = Cause("a", 3.0, shown, "x 2", "", changed, 1, 3)
    assert cause.before(why) == " | ".join(filter(None, (cause.sentence(), told)))


def test_counterfactuals_of_a_file_change_names_and_settings_one_at_a_time(monkeypatch) -> None:
    monkeypatch.setattr(study_run, "all_under_assumptions", lambda *_: {})
    usual = point_under("launch of a kernel", 1.0)
    rows = [{"what": "an epoch", "printed": usual / 3, "ours": "main[0].epoch_s * FACTOR"}, {"what": "as printed", "printed": 1, "ours": 1}]
    changes = [
        {"what": "nothing that matters", "names": {"OTHER": "1"}},
        {"for": {"size": "[200, 400]"}, "what": "batches of {size}", "source": "a guess", "settings": {"training.batch_size": "size"}},
        {"what": "not this", "if": "FACTOR > 1", "names": {"FACTOR": "1 / 3"}},
        {"what": "what no strategy takes", "settings": {"training.batch_size": "0"}},
    ]
    (cause,) = stored_causes(found({"rows": rows, "counterfactuals": changes}))
    assert cause.cause == "batches of 400" and cause.source == "a guess" and cause.tried == 1
    (cause,) = stored_causes(found({"rows": rows, "counterfactuals": [*changes, {"what": "a third", "names": {"FACTOR": "1 / 3"}}]}))
    assert cause == Cause("an epoch", pytest.approx(3), True, "a third", "", pytest.approx(1), 0, 2)
    for wrong, said in (({"bach": "1"}, "unknown axis 'bach'"), ({}, "changes something")):
        with pytest.raises((UserError, ValueError), match=said):
            found({"rows": rows, "counterfactuals": [{"what": "x", "settings": wrong}]})
    with pytest.raises(UserError, match=r"counterfactuals\[0\]: .*SIZE"):
        found({"rows": rows, "counterfactuals": [{"what": "x", "settings": {"training.batch_size": "SIZE"}}]})


def test_a_counterfactual_of_some_points_leaves_the_others(monkeypatch) -> None:
    """One row is as printed with larger batches, one with smaller ones; turns that have points in common evaluate them once."""
    monkeypatch.setattr(study_run, "all_under_assumptions", lambda *_: {})
    seen: list[Task] = []

    def watched(tasks: list[Task], **_: object) -> list[StudyResult]:
        seen.extend(tasks)
        return [evaluate(task) for task in tasks]

    monkeypatch.setattr(study_run, "evaluated", watched)

    def epoch(strategy: str, size: int) -> float:
        task = Task(StudyPoint.of({**AXES, "strategy": strategy, "training.batch_size": size}), "sweep", "", ("epoch_s",), ())
        return float(evaluate(task).values["epoch_s"])

    fits = {"sequential": 400, "tgl": 25}
    rows = [{"what": name, "printed": epoch(name, size), "ours": f"main.at('epoch_s', strategy='{name}')"} for name, size in fits.items()]
    batches = {"settings": {"training.batch_size": "size"}, "what": "batches of {size}"}
    study = {"grid": {"main": {**AXES, "strategy": [*fits]}}, "rows": rows}
    for cause in stored_causes(found({**study, "counterfactuals": [{**batches, "for": {"size": "[400, 25]"}}]})):
        assert not cause.shown and (cause.changed, cause.harms) == (pytest.approx(1), 1)
    each = "[(['sequential', 'tgl'], 400), (['sequential'], 400), (['tgl'], 25)]"
    apart = {**batches, "for": {"names, size": each}, "what": "batches of {size}, {', '.join(names)}", "only": {"strategy": "names"}}
    seen.clear()
    shown = stored_causes(found({**study, "counterfactuals": [apart]}))
    assert [(one.shown, one.cause, one.harms, one.tried) for one in shown] == [
        (True, f"batches of {size}, {name}", 0, 1) for name, size in fits.items()
    ]
    assert len(seen) == len(set(seen)) == 2 + 3
    larger = {**batches, "for": {"size": "[400]"}}
    for wrong, said in (
        ({"only": {"strateg": "['tgl']"}}, r"counterfactuals\[0\]: unknown axis 'strateg'"),
        ({"only": {"strategy": "'tgl'"}}, r"counterfactuals\[0\]: only.strategy: expected a list of values, got 'tgl'"),
        ({"only": {"strategy": "['tgl']"}, "names": {"FACTOR": "2"}}, "only: it says which points get `testbed` and `settings`"),
    ):
        with pytest.raises((UserError, ValueError), match=said):
            found({**study, "counterfactuals": [{**larger, **wrong}]})


def test_nothing_is_replayed_where_no_row_is_far(monkeypatch) -> None:
    """Rows that are near, that nothing is printed of, or that are set aside."""
    monkeypatch.setattr(study_run, "all_under_assumptions", lambda *_: 1 / 0)
    rows: list[dict[str, Any]] = [{"what": "near", "printed": 1, "ours": 1.2}, {"what": "not printed", "ours": 9}]
    findings = found({"rows": [*rows, {"what": "aside", "printed": 1, "ours": 9, "aside": "'otherwise'"}]})
    assert len(findings.rows) == 3 and CAUSES not in findings.tables
    with pytest.raises(ZeroDivisionError):
        found({"rows": [*rows, {"what": "far", "printed": 1, "ours": 1.3}]})


def test_points_of_the_grids_that_a_file_names_are_varied_alone(monkeypatch) -> None:
    varied: list[Task] = []
    monkeypatch.setattr(study_run, "all_under_assumptions", lambda tasks, *_: varied.extend(tasks) or {})
    grids = {"main": AXES, "large": {**AXES, "training.batch_size": 800}}
    rows = [{"what": "an epoch", "printed": 1, "ours": "large[0].epoch_s"}]
    for named, sizes in (([], [100, 800]), (["large"], [800])):
        varied.clear()
        found({"grid": grids, "rows": rows, "varied": named})
        assert sorted(task.point.setting("training.batch_size") for task in varied) == sizes
    varied.clear()
    found({"grid": grids, "rows": rows, "way": "counted"})
    assert varied == []
    with pytest.raises(UserError, match="unknown grid 'larger'"):
        found({"grid": grids, "rows": rows, "varied": ["larger"]})


def test_a_quick_study_and_one_of_ones_own_are_not_explained() -> None:
    file = StudyFile.model_validate({**OWN, "rows": [{"what": "an epoch", "printed": 1e9, "ours": "main[0].epoch_s"}]})
    assert CAUSES not in study_run.run(file, "own", None, lambda _: None, True).tables
    assert len(cause_table([])) == 0 and stored_causes(Findings(pd.DataFrame())) == []
    assert causes(lines(inf, nan), [CounterfactualRun("a", "a", "", [1.0, 1.0])])[0].shown
