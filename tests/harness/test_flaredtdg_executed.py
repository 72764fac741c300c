"""FlareDTDG's executed studies, of known errors in place of trainings."""

import numpy as np
import pytest
import small_studies
from small_studies import run_registered

from chronoscale.harness.reproduce import pages, registry
from chronoscale.harness.study import evaluation
from chronoscale.harness.study.findings import set_aside
from chronoscale.harness.study.hooks import flaredtdg_executed as executed
from chronoscale.harness.study.point import StudyPoint

OURS, MODELS = "flaredtdg", ("t-gcn", "mpnn-lstm", "evolvegcn")


@pytest.mark.parametrize("kind, number", [("table", 3), ("table", 6), ("figure", 6), ("figure", 8)])
def test_data_that_are_absent_are_skipped_with_a_line_each(kind, number, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("CHRONOSCALE_DATA", str(tmp_path))
    study = registry.find("flaredtdg", kind, number)
    findings = run_registered(study, quick=False)
    skipped = [note for note in findings.notes if note.startswith("Skipped: dataset '")]
    wanted = ["uci_messages", "math_overflow_monthly"] if kind == "table" else ["math_overflow_monthly", "enron_monthly"]
    assert [note.split("'")[1] for note in skipped] == wanted and "set CHRONOSCALE_DATA" in skipped[0]
    assert len(findings.rows) and "–" in pages.markdown(study, findings) and not findings.drawings


def known_figures(one: StudyPoint) -> dict[str, object]:
    """Known figures, in place of minutes of training."""
    full, epochs = one.setting("full", 2), one.setting("epochs")
    error = {OURS: 0.5, "full-history": 0.4, "recent-only": 1.0}.get(one.strategy, 2.0) + full / 100
    ended = [float(i + 1) for i in range(epochs)]
    times = {"seconds": [3.0, 2.0], "epoch_s": 2.0, "ended": ended, "validation": [error / end for end in ended]}
    return {**times, "test": error, "naive": {"last value": 0.45}, "peak_gb": full * 0.1}


@pytest.fixture
def known(monkeypatch) -> None:
    known_figures.__module__ = executed.__name__
    monkeypatch.setattr(evaluation, "_DONE", {})
    monkeypatch.setattr(executed, "training", known_figures)
    monkeypatch.setattr(executed, "months", months)


def months(names):
    return list(names)[:1], []


months.__module__ = executed.__name__


def settled(one: StudyPoint) -> dict[str, object]:
    """Known errors and epochs, in place of trainings to convergence: FlareDTDG is best from seed 0 alone, and with T-GCN alone."""
    seed, crossed = one.setting("seed"), one.setting("split") == "crossed"
    error = {OURS: 0.5, "full-history": 0.4, "recent-only": 1.0, "esdg": 0.6}.get(one.strategy, 0.45) + seed / 100 - crossed * 0.1
    error *= 2 if one.strategy == OURS and (one.model == "evolvegcn" or one.dataset == "math_overflow_monthly") else 1
    epochs = {OURS: 10, "esdg": 120}.get(one.strategy, 20) + 3 * seed
    counts = {"settled": epochs, "epoch_steps": 5, "taken": 5 * epochs, "targets": 200 + 100 * crossed, "ended": seed > 0}
    return {"test": error, "naive": {"last value": 0.45}, **counts}


def installed(names):
    return list(names), []


@pytest.fixture
def converged(monkeypatch) -> None:
    for one in (settled, installed):
        one.__module__ = executed.__name__
    monkeypatch.setattr(evaluation, "_DONE", {})
    monkeypatch.setattr(executed, "converged", settled)
    monkeypatch.setattr(executed, "installed", installed)
    monkeypatch.setattr(executed, "months", months)


def test_table_6_divides_test_errors_seed_by_seed(converged) -> None:
    """With Algorithm 1's windows, and where all train on every snapshot; each with its rival's of the same windows."""
    findings = run_registered(registry.find("flaredtdg", "table", 6), quick=False)
    rows = findings.rows.set_index("what")
    assert len(rows) == 3 * 2 * 2 + 2
    whole = rows.loc["uci_messages, t-gcn, test MSE of flaredtdg over full-history"]
    assert (whole["ours_low"], whole["ours_high"], whole["points"]) == (pytest.approx(0.52 / 0.42), pytest.approx(0.5 / 0.4), 3)
    equal = rows.loc["uci_messages, evolvegcn, test MSE of flaredtdg over recent-only, every snapshot"]
    assert equal["ours_mean"] == pytest.approx(np.mean([2 * (0.4 + seed / 100) / (0.9 + seed / 100) for seed in range(3)]))
    assert "(uci_messages), one ratio a seed; best after 65 steps, of 200 targets an epoch, full-history after 115, of 200" in whole["why"]
    assert "of 300 targets" in equal["why"]
    monthly = rows.loc["math_overflow_monthly, t-gcn, test MSE of flaredtdg over full-history"]
    assert (monthly["ours_low"], monthly["points"]) == (pytest.approx(2 * 0.52 / 0.42), 3) and "(math_overflow_monthly)" in monthly["why"]
    assert monthly["aside"] == "other data for the same printed range" and not set_aside(whole), "a printed range is scored once"
    assert "seed in 7 of 14 rows: uci_messages, t-gcn, full-history; uci_messages, t-gcn, full-history, every sn" in findings.notes[0]
    assert findings.notes[0].endswith("below it with every seed in 5."), "EvolveGCN's recent-only is met by seed 0"
    better = sum(settled(record)["test"] < 0.45 for record in trained_points())
    assert f"{better} of 63 models are better on the test snapshots than every naive prediction (last value)." in findings.notes
    assert (
        "after 80 optimiser steps without a better validation, or after 960" in findings.notes[2]
        and "; 42 of 63 ended" in findings.notes[2]
    )


def point(dataset: str, model: str, strategy: str, **settings: object) -> StudyPoint:
    return StudyPoint.of(
        {"paper": "flaredtdg", "dataset": dataset, "model": model, "strategy": strategy, "gpus": 1, "layers": 2, **settings}
    )


def trained_points():
    """The points of Table 6."""
    for split in ("whole", "crossed"):
        for model in MODELS:
            for name in (OURS, "full-history", "recent-only"):
                for seed in range(3):
                    yield point("uci_messages", model, name, seed=seed, split=split)
                    if (split, model) == ("whole", "t-gcn"):
                        yield point("math_overflow_monthly", model, name, seed=seed, split=split)


def test_table_3_has_rivals_that_read_whole_windows(converged) -> None:
    """Rivals have one way; FlareDTDG with every snapshot is beside the same."""
    findings = run_registered(registry.find("flaredtdg", "table", 3), quick=False)
    rows = findings.rows.set_index("what")
    assert rows.loc["uci_messages, t-gcn, test MSE of flaredtdg over esdg", "ours_high"] == pytest.approx(0.52 / 0.62)
    assert rows.loc["uci_messages, t-gcn, test MSE of flaredtdg over esdg, every snapshot", "ours_low"] == pytest.approx(0.4 / 0.6)
    assert rows.loc["ogbn_papers100m, t-gcn, accuracy of dynagraph, %", "points"] == 0
    monthly = [what.split(" over ")[1] for what in rows.index if what.startswith("math_overflow_monthly, ")]
    assert monthly == ["dynagraph", "dynahb"] and len(findings.tables["errors"]) == 3 * 3 * 5 + 3 * 3
    assert "t-gcn alone, over dynagraph, dynahb: the others were left out" in " ".join(findings.notes)
    assert all(row["points"] == 3 for name, row in rows.iterrows() if "test MSE" in str(name))


def test_table_4_multiplies_simulated_epochs_by_those_that_were_executed(converged) -> None:
    findings = small_studies.study_of("flaredtdg", "table", 4, ALL=["soc_flickr"])
    rows = findings.rows.set_index("what")
    epoch, whole = (rows.loc[f"soc_flickr, t-gcn, flaredtdg over esdg{how}"] for how in ("", ", to convergence as executed"))
    assert whole["ours"] == pytest.approx(epoch["ours"] * 12) and whole["published"] == epoch["published"]
    reason = "assumed: soc_flickr takes as many epochs as uci_messages here, esdg 120 and flaredtdg 10 (means of 1 seed)"
    assert whole["why"] == f"{reason}; else not established"
    executed_rows = [what for what in rows.index if what.endswith("as executed")]
    faster = [sum(rows.loc[each, "ours"] > 1) for each in (executed_rows, [what for what in rows.index if what not in executed_rows])]
    assert f"flaredtdg is faster in {faster[0]} of 3 comparisons, by simulated epochs alone in {faster[1]} of 3." in " ".join(
        findings.notes
    )


def test_without_data_table_4_is_simulated_alone(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("CHRONOSCALE_DATA", str(tmp_path))
    findings = small_studies.study_of("flaredtdg", "table", 4, ALL=["soc_flickr"])
    assert len(findings.rows) == 3 and not any("executed" in what for what in findings.rows["what"])
    assert any(note.startswith("Skipped: dataset 'uci_messages'") for note in findings.notes)


def test_figure_6_finds_when_an_error_is_reached(known) -> None:
    findings = run_registered(registry.find("flaredtdg", "figure", 6), quick=False)
    rows = findings.rows.set_index("what")
    what = "math_overflow_monthly, {}, seconds to a validation MSE"
    assert rows.loc[what.format("full-history"), "ours_mean"] == 1.0
    assert rows.loc[what.format(OURS), "ours_mean"] == 2.0, "0.52, then 0.26, below 0.42"
    assert len(findings.tables["curves"]) == 2 * 3 and len(findings.drawings) == 1


def test_figure_8_finds_the_least_error_and_how_memory_grows(known) -> None:
    findings = run_registered(registry.find("flaredtdg", "figure", 8), quick=False)
    rows = findings.rows.set_index("what")
    assert rows.loc["math_overflow_monthly, full snapshots of least test MSE", "ours_mean"] == 1
    grown = rows.loc["math_overflow_monthly, memory, most full snapshots over fewest"]
    assert (grown["ours_low"], grown["points"]) == (pytest.approx(6.0), 3)
    assert len(findings.tables["cells"]) == 12
    assert rows.loc["rec_amazon, full snapshots of least test MSE", ["published_low", "published_high"]].tolist() == [2, 3]
