"""PGT-I's reproduction: counted sizes are the printed ones, simulated figures have their shape, executed studies agree with themselves."""

from __future__ import annotations

import subprocess
import sys
import time
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from one_rank import here

from chronoscale.batching.signals.windows import Windows
from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.reproduce.pgti import accuracy, attention, cases, global_batch, naive, scaling, shuffling, stages
from chronoscale.harness.reproduce.pgti.points import GPUS, Point, moved_s, planned, simulate, started, windows_bytes
from chronoscale.harness.reproduce.pgti.sizes import UNITS, sizes
from chronoscale.harness.reproduce.pgti.trained import Training, signal, trained
from chronoscale.harness.reproduce.sampled import Sampler
from chronoscale.harness.reproduce.study import Kind
from chronoscale.harness.study import execution as executed
from chronoscale.harness.study.findings import SOLVED, Findings, beside
from chronoscale.reports.published import published
from chronoscale.strategies.costs import UNUSED
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.schedule import Op
from chronoscale.strategies.signals.batches import VALIDATE


@cache
def run(kind: Kind, number: int) -> Findings:
    """The quick form, once."""
    return registry.find("pgt-i", kind, number).run(lambda _: None, True)


def test_all_that_the_paper_measures_has_a_study() -> None:
    found = {(study.kind, study.number) for study in registry.of("pgt-i")}
    assert found == {("table", n) for n in range(1, 7)} | {("figure", n) for n in (2, 3, 5, 6, 7, 8, 9, 10)}


def test_sizes_of_table_1() -> None:
    for line in published("pgt-i").tables[1].rows:
        before, after = sizes(str(line["dataset"]), int(line["nodes"]), int(line["entries"]), int(line["horizon"]))
        assert after / UNITS[str(line["after_unit"])] == pytest.approx(float(line["after"]), rel=2.5e-3)
        assert before / UNITS[str(line["before_unit"])] == pytest.approx(float(line["before"]), rel=4e-3)


def test_what_stages_hold_is_what_the_planners_plan() -> None:
    for name, how in (("pgt", "copies"), ("index", "index"), ("gpu-index", "gpu-index")):
        held = stages.held("pems", how)
        held.pop("load")
        most, _ = stages.peak(held)  # the file is of 11,126 sensors, the array of 11,160
        assert most == pytest.approx(simulate(Point(name, variant="as-published")).host_bytes / 2**30, rel=1e-3)


def test_pgt_does_not_fit_the_node_as_printed() -> None:
    refused = simulate(Point("pgt", variant="as-published")).refused
    assert "out of host memory" in refused and "512.0 GB of a node of polaris" in refused
    assert not simulate(Point("index", variant="as-published")).refused


def test_an_engine_moves_every_window_once() -> None:
    schedule = strategy("ddp").plan(planned(Point("ddp", 4)), 4, UNUSED)
    assert schedule.bytes[schedule.op == Op.FETCH].sum() == windows_bytes()
    one = simulate(Point("ddp", 4))
    assert 0 < one.waiting_s < one.epoch_s and one.waiting_s == pytest.approx(moved_s(Point("ddp", 4), "FETCH"), rel=0.1)


def test_scaling_has_the_shape_of_figure_7() -> None:
    dist, ddp = ([cases.DEFAULT.epoch(name, gpus) for gpus in GPUS] for name in ("dist-index", "ddp"))
    assert (np.diff(dist) < 0).all() and (np.array(ddp) > dist).all()
    over = [cases.DEFAULT.over(gpus) for gpus in GPUS]
    assert (np.diff(over) > 0).all() and over[0] < 2.5 and over[-1] > 9
    assert cases.DEFAULT.epoch("gpu-index", 1) / dist[3] == pytest.approx(32, rel=0.01)
    assert ddp[-1] > min(ddp), "requests to one scheduler outgrow what ranks share"


def test_printed_numbers_come_to() -> None:
    known = cases.printed()
    assert known["dist-index total"] == pytest.approx(290.54 * 60 / 88.33)
    assert known["dist-index epoch"] == pytest.approx((290.54 * 60 - 17.9) / 99.81 / 30)
    assert known["ddp epoch"] == pytest.approx((13.1 * known["dist-index total"] - 305) / 30)


def test_cases_meet_what_they_are_solved_from_and_only_that() -> None:
    found = {case.name: case for case in cases.cases()}
    solved, last = list(found.values())[7], list(found.values())[-1]
    assert solved.epoch("gpu-index", 1) / solved.epoch("dist-index", 128) == pytest.approx(99.81)
    assert last.epoch("gpu-index", 1) == pytest.approx(cases.printed()["one"], rel=1e-3)
    assert last.total("dist-index", 128) == pytest.approx(cases.printed()["dist-index total"], rel=1e-3)
    assert last.over(128) == pytest.approx(13.1, rel=0.05), "of DDP on 128 GPUs nothing but its preparation is solved for"
    assert last.over(4) == pytest.approx(2.18, rel=0.05), "with the engine's rate of Figure 9"
    halved, doubled = list(found.values())[1:3]
    assert halved.over(4) > cases.DEFAULT.over(4) > doubled.over(4)


@pytest.mark.sample(1)
@pytest.mark.parametrize(
    "kind, number, named",
    [
        ("figure", 2, "pgt-dcrnn, pems,"),
        ("figure", 3, "eq"),
        ("figure", 6, "gpu-index"),
        ("figure", 7, "dist-index, an epoch on 128 GPUs"),
        ("figure", 9, "ddp-batch, 128 GPUs"),
        ("figure", 10, "dist-index on 32"),
        ("table", 1, "pems_bay, after"),
        ("table", 2, "dcrnn, minutes"),
        ("table", 4, "gain of gpu-index"),
    ],
)
def test_counted_and_simulated_studies(kind: Kind, number: int, named: str) -> None:
    found = run(kind, number)
    ours = found.rows["ours"] if "ours" in found.rows else found.rows["ours_mean"]
    assert np.isfinite(ours.to_numpy(np.float64)).all()
    assert found.rows["what"].str.contains(named, regex=False).any() or (found.rows["why"] != "").any()
    assert any(note.startswith("Quick") for note in found.notes) and (found.rows["why"].str.len() > 0).mean() > 0.3
    study = registry.find("pgt-i", kind, number)
    assert study.title in pages.markdown(study, found)
    if (kind, number) == ("figure", 7):
        assert set(found.tables["points"]["gpus"]) == {1, *scaling.QUICK}
    if study.way == "simulated":
        assert any(note.startswith("Simulated") for note in found.notes)


def test_figures_9_and_10() -> None:
    ten = run("figure", 10).rows
    assert ten["ratio"].iloc[:2].to_numpy() == pytest.approx(1, abs=0.06)
    nine = run("figure", 9)
    assert "does not come out" in " ".join(nine.notes)
    rates = nine.tables["implied"]["GB/s, all workers"]
    assert rates[3] > 2 * rates[1], "no one limit of the engine gives both figures"


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Executed studies on generated data, in this process, a few steps."""
    monkeypatch.setattr(executed, "launch", here)
    one = Training("traffic_small", accuracy.PAIR, 2, batch=16, horizon=4, batches=2)
    monkeypatch.setattr(accuracy, "QUICK", {"chickenpox": one})
    monkeypatch.setattr(attention, "WEEK", replace(one, model=replace(one.model, name="a3t-gcn")))
    for module in (global_batch, shuffling):
        monkeypatch.setattr(module, "DATASET", "traffic_small")
        monkeypatch.setattr(module, "QUICK_BATCHES", 2)
    monkeypatch.setattr(global_batch, "REAL", 1)
    monkeypatch.setattr(shuffling, "RANKS", (1,))


@pytest.mark.parametrize("kind, number, column", [("table", 3, "ours"), ("figure", 5, "best"), ("table", 5, "ours"), ("table", 6, "ours"),
                                                  ("figure", 8, "ours_mean")])  # fmt: skip
def test_executed_studies(kind: Kind, number: int, column: str, small: None) -> None:
    found = run(kind, number)
    values = found.rows[column].to_numpy(np.float64)
    assert np.isfinite(values).all() and (values >= 0).all()
    assert any(note.startswith("Quick") for note in found.notes)


def test_index_and_copies_have_identical_errors(small: None) -> None:
    found = trained(accuracy.QUICK["chickenpox"])
    np.testing.assert_array_equal(found["pgt"].mae, found["index"].mae)
    assert found["pgt"].planned_bytes > found["index"].planned_bytes
    rows = run("table", 3).rows.set_index("what")
    assert rows.loc["chickenpox, MAE of index apart from pgt's", "ours"] == 0


def test_a_sampler_sees_what_a_child_holds() -> None:
    with Sampler() as held:
        child = subprocess.Popen([sys.executable, "-c", "x = b'1' * (60 << 20); import time; time.sleep(900)"])
        while held.bytes < 60 << 20:
            time.sleep(0.02)
        child.kill()
        child.wait()
    assert 60 << 20 <= held.bytes < 120 << 20


def test_what_is_not_printed_has_no_ratio() -> None:
    assert np.isnan(float(str(beside("x", float("nan"), 2.0, "")["ratio"]))) and beside("x", 4.0, 2.0, "")["ratio"] == 0.5


def by_hand(one: Training, phase: str = "validation") -> dict[str, tuple[float, float]]:
    """MAE and mean square of both naive predictions, window by window."""
    x = signal(one.dataset).values[:, :, 0].astype(np.float64)
    windows = Windows(len(x), one.horizon, one.horizon)
    mean = x[: len(windows.train) + one.horizon - 1].mean(0)
    chosen = list(getattr(windows, phase))
    if one.batches and phase == "validation":
        chosen = chosen[: one.batches * one.batch * one.ranks]
    wrong: dict[str, list[np.ndarray]] = {"last value": [], "training mean": []}
    for start in chosen:
        truth = x[start + one.horizon : start + 2 * one.horizon]
        wrong["last value"].append(x[start + one.horizon - 1] - truth)
        wrong["training mean"].append(mean - truth)
    return {name: (float(np.abs(np.array(e)).mean()), float(np.square(np.array(e)).mean())) for name, e in wrong.items()}


@pytest.mark.parametrize("kind, number, rows, column", [
    ("table", 3, ("chickenpox, validation MAE of the {}",), "ours"), ("figure", 5, ("chickenpox, {}",), "best"),
    ("table", 5, ("{}, MAE",), "ours"),
    ("figure", 8, ("{}, validation MAE",), "ours_mean"),
])  # fmt: skip
def test_naive_errors_stand_in_every_table_of_errors(kind: Kind, number: int, rows: tuple[str, ...], column: str, small: None) -> None:
    trainings = {
        ("table", 3): accuracy.QUICK["chickenpox"], ("figure", 5): accuracy.QUICK["chickenpox"],
        ("table", 5): Training("traffic_small", tuple(shuffling.SHUFFLES), 1, shuffling.BATCH, batches=2, ranks=1),
        ("figure", 8): Training("traffic_small", ("dist-index",), 1, 4 * global_batch.BATCH, batches=2),
    }  # fmt: skip
    found = run(kind, number)
    table = found.rows.set_index("what")
    for name, (mae, _) in by_hand(trainings[kind, number]).items():
        for what in rows:
            line = table.loc[what.format(name)]
            assert line[column] == pytest.approx(mae, rel=1e-6)
            assert "beaten: the model's best" in line["why"] or "a tie: the model's best" in line["why"]
    assert naive.NAIVE in found.notes and any(one.endswith(").") or "not that they train well" in one for one in found.notes)
    if (kind, number) == ("figure", 8):
        for name, (mae, _) in by_hand(trainings[kind, number], "train").items():
            assert table.loc[f"{name}, training MAE", column] == pytest.approx(mae, rel=1e-6)


def test_naive_squares_of_table_6(small: None) -> None:
    table = run("table", 6).rows.set_index("what")
    unit = signal("traffic_small").values[:, :, 0].astype(np.float64).std()
    one = Training("traffic_small", accuracy.PAIR, 1, batch=16, batches=4)
    for name, (_, mse) in by_hand(one).items():
        assert table.loc[f"{name}, MSE, standardised", "ours"] == pytest.approx(mse / unit**2, rel=1e-4)


def test_verdicts_on_naive_errors() -> None:
    known = {"last value": 3.79, "training mean": 5.82}
    assert naive.beside(4.216, 3.79).startswith("not beaten") and "11% above" in naive.beside(4.216, 3.79)
    assert (
        naive.beside(0.5996, 0.6026).startswith("a tie")
        and naive.beside(0.5, 1.0).startswith("beaten")
        and "50% below" in naive.beside(0.5, 1.0)
    )
    assert "does not beat the last value (3.79)" in naive.verdict("los_loop", 4.216, known)
    assert "below both naive errors (last value: 3.79)" in naive.verdict("los_loop", 3.0, known)
    assert "does not beat the training mean" in naive.verdict("chickenpox", 0.5996, {"last value": 0.94, "training mean": 0.6026})


def test_an_epoch_ends_with_validation_and_figure_7_says_so() -> None:
    for name, gpus in (("dist-index", 128), ("ddp", 4), ("gpu-index", 1)):
        schedule = strategy(name).plan(planned(Point(name, gpus)), gpus, UNUSED)
        ends = schedule.step == VALIDATE
        assert ends.any() and schedule.iteration[ends].min() == schedule.iterations - 1 and ends[-1]
    found = run("figure", 7)
    said = " ".join([*found.rows["why"], *found.notes])
    assert "no evaluation" not in said and "validates at the end of every epoch" in said
    assert "start of a kernel counts once" not in said and "kernels a GPU" in said


def test_what_is_solved_from_printed_numbers_is_called_that() -> None:
    rows = run("figure", 7).rows
    for what, why in zip(rows["what"], rows["why"], strict=True):
        if ";" in what:
            solved = any(mark in what for mark in ("from 99.81", "as printed", "the same and"))
            assert why == (SOLVED if solved else "other assumptions"), what
    assert rows["why"].str.contains(f"{SOLVED}, would meet it").any()


def test_kernels_of_an_epoch_by_hand() -> None:
    point = Point("index", dataset="pems_bay")
    schedule = strategy("index").plan(planned(point), 1, UNUSED)
    assert started(point) == (int(schedule.kernels.sum()), pytest.approx(schedule.kernels.sum() * 5e-6))
