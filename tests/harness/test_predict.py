"""What `chronoscale predict` writes of signals and streams, against what training said of its tests."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from command_line import command, one_line
from stream_experiments import written

from chronoscale.datasets import store
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.signals.signal import Signal
from chronoscale.harness.workflows.signals.prediction import times_of
from chronoscale.real_exec.job import Job
from chronoscale.real_exec.signals.recipe import model_of
from chronoscale.real_exec.training.best_epoch import load_best
from chronoscale.real_exec.training.epoch_record import epoch_records

FORECASTER = {"model": {"name": "pgt-dcrnn", "hidden": 4}, "training": {"batch_size": 2, "window": 4, "horizon": 3, "batches": 4}}


@pytest.fixture
def forecast(tmp_path, monkeypatch, inline, capsys):
    """A trained forecaster of 5 sensors with numbers of their own, whose readings of a day are missing here and there; its readings."""
    monkeypatch.chdir(tmp_path)
    signal = TrafficSignal(5, 90, seed=1).signal()
    missing = np.zeros(signal.values.shape, bool)
    missing[70:, 2] = np.arange(20)[:, None] % 3 == 0
    ids = np.array([70, 11, 905, 3, 12])
    store.save("readings", Signal(signal.values, signal.edge_index, signal.edge_weight, missing, ids))
    data = {"path": "readings", "unit": "veh/h"}
    Path("small.yaml").write_text(json.dumps({"dataset": data, **FORECASTER, "strategies": ["index"], "epochs": 2}))
    capsys.readouterr()
    command("train", "small.yaml", "--ranks", "1")
    assert re.search(r"errors at each step ahead, .*, MAE and RMSE in veh/h\n(.*\n)+ +1 .* \d+\.\d+%", capsys.readouterr().out)
    return np.where(missing, np.nan, signal.values)[:, :, 0]


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_forecasts_of_the_test_are_those_that_were_scored(forecast, suffix):
    """A row a sensor, step and window; errors over all that have a truth are the test's, of each step ahead those of that step."""
    command("predict", "runs/small-train-1", "--out", f"out/test.{suffix}", "--period", "test")
    table = pd.read_csv("out/test.csv") if suffix == "csv" else pd.read_parquet("out/test.parquet")
    windows = range(67, 84)  # the last fifth of 84
    assert list(table) == ["time", "sensor", "ahead", "value", "truth", "unit"] and len(table) == len(windows) * 3 * 5
    assert set(table["unit"]) == {"veh/h"}
    table = table.astype({"sensor": int})
    assert table["sensor"].tolist()[:5] == [70, 11, 905, 3, 12] and table["ahead"].tolist()[:6] == [1] * 5 + [2]
    assert table["time"].tolist()[::5] == [first + 4 + ahead for first in windows for ahead in range(3)]
    place = {70: 0, 11: 1, 905: 2, 3: 3, 12: 4}
    truth = np.array([forecast[time, place[sensor]] for time, sensor in zip(table["time"], table["sensor"], strict=True)])
    np.testing.assert_allclose(table["truth"], truth, rtol=1e-6)
    wrong = (table["value"] - table["truth"]).abs()
    assert np.isnan(truth).any() and wrong.mean() == pytest.approx(
        json.loads(Path("runs/small-train-1/train/test.json").read_text())["mae"], rel=1e-5
    )
    steps = json.loads(Path("runs/small-train-1/train/horizon.json").read_text())["test"]["mae"]
    assert wrong.groupby(table["ahead"]).mean().tolist() == pytest.approx(steps, rel=1e-5)


def test_times_and_names_are_the_sources(tmp_path, monkeypatch, inline):
    """Of a file with dates, an hour apart: those of what is predicted, also behind the last reading; stations by name."""
    monkeypatch.chdir(tmp_path)
    draw, times = np.random.default_rng(0), pd.date_range("2019-03-30 20:00", periods=90, freq="h")
    pd.DataFrame({"time": times, **{name: 20 + draw.random(90) for name in ("north", "east gate", "south")}}).to_csv("air.csv", index=False)
    changes = {"dataset": {"path": "air.csv", "graph": {"kind": "none"}}, "strategies": ["index"], "epochs": 1}
    Path("air.yaml").write_text(json.dumps({**FORECASTER, **changes}))
    command("train", "air.yaml", "--ranks", "1")
    command("predict", "runs/air-train-1", "--out", "next.csv")
    command("predict", "runs/air-train-1", "--period", "test")
    after, tested = pd.read_csv("next.csv", parse_dates=["time"]), pd.read_parquet("predictions.parquet")
    assert after["sensor"].tolist()[:3] == ["north", "east gate", "south"]
    assert after["time"].tolist()[::3] == list(pd.date_range(times[-1], periods=4, freq="h")[1:])
    assert tested["time"].min() == times[67 + 4] and tested["time"].max() == times[-1]
    row = tested[(tested["time"] == times[80]) & (tested["sensor"] == "south")].iloc[0]
    assert row["truth"] == pytest.approx(pd.read_csv("air.csv")["south"][80], rel=1e-6)


def test_the_next_steps_follow_the_last_reading(forecast, capsys):
    """By default: as the window after the last one would be predicted, were there readings behind it."""
    command("predict", "runs/small-train-1", "--out", "next.csv", "--json")
    assert json.loads(capsys.readouterr().out.splitlines()[-1]) == {"file": "next.csv", "rows": 15}
    table = pd.read_csv("next.csv")
    assert sorted(set(table["time"])) == [90, 91, 92] and table["truth"].isna().all() and np.isfinite(table["value"]).all()
    folder = Path("runs/small-train-1/train")
    job, scale = Job.load(folder / "train.job.json"), json.loads((folder / "scale.json").read_text())
    model = model_of(job.items[0], job.model, 0)
    load_best(folder, model, lambda state: None)
    window = torch.from_numpy((forecast[-4:] - scale["mean"][0]) / scale["deviation"][0]).nan_to_num().float()
    with torch.no_grad():
        expected = model(window[None, :, :, None])[0] * scale["deviation"][0] + scale["mean"][0]
    np.testing.assert_allclose(table["value"].to_numpy().reshape(3, 5), expected.numpy(), rtol=1e-5)
    command("predict", "runs/small-train-1", "--period", "validation")
    validated, last = pd.read_parquet("predictions.parquet"), json.loads(Path("runs/small-train-1/train/horizon.json").read_text())
    wrong = (validated["value"] - validated["truth"]).abs()
    assert wrong.groupby(validated["ahead"]).mean().tolist() == pytest.approx(last["validation"]["mae"], rel=1e-5)
    signal = store.load("readings")
    assert isinstance(signal, Signal) and signal.missing is not None
    tail = [np.concatenate([part, part[:3]]) for part in (signal.values, signal.missing)]  # three steps more, whatever they are
    longer = Signal(tail[0], signal.edge_index, signal.edge_weight, tail[1], signal.node_ids)
    store.save("longer", longer)
    Path("readings").rename("before")
    Path("longer").rename("readings")
    command("predict", "runs/small-train-1", "--period", "test")
    tested = pd.read_parquet("predictions.parquet")
    assert len(tested) == 17 * 3 * 5 and tested["time"].max() == 89  # its windows stay
    command("predict", "runs/small-train-1", "--out", "later.csv")
    assert sorted(set(pd.read_csv("later.csv")["time"])) == [93, 94, 95]
    command("predict", "runs/small-train-1", "--period", "validation")
    assert pd.read_parquet("predictions.parquet").equals(validated)  # standardised as it was


def test_a_picture_shows_three_sensors(forecast, capsys):
    """By the errors of the nearest and the farthest step; of what comes next there is none."""
    command("predict", "runs/small-train-1", "--period", "test", "--picture", "three.svg")
    table = pd.read_parquet("predictions.parquet")
    ends = table[table["ahead"] != 2]
    errors = (ends["value"] - ends["truth"]).abs().groupby(ends["sensor"]).mean().sort_values()
    text = Path("three.svg").read_text()
    for which, at in (("best", 0), ("middle", 2), ("worst", 4)):
        assert f"{which}: {errors.index[at]}, MAE {errors.iloc[at]:.4g}" in text
    assert all(word in text for word in ("reading", "1 ahead", "3 ahead"))
    for words, message in (
        (("three.svg",), "with --period test or validation"),
        (("three.gif", "--period", "test"), "a name that ends in"),
    ):
        command("predict", "runs/small-train-1", "--out", "none.csv", "--picture", *words, expect=2)
        assert message in one_line(capsys) and not Path("none.csv").exists()


def test_a_run_is_read_where_it_lies(forecast, monkeypatch, capsys):
    """From another folder, renamed; and one that has not come to its end, or whose files are damaged, predicts nothing."""
    command("predict", "runs/small-train-1", "--out", "before.csv")
    job = json.loads(Path("runs/small-train-1/train/train.job.json").read_text())
    Path("runs/small-train-1").rename("kept")
    Path("elsewhere").mkdir()
    monkeypatch.chdir("elsewhere")
    (Path("..") / "kept/train/train.job.json").write_text(
        json.dumps({**job, "items": [{**job["items"][0], "dataset": str(Path("../readings").resolve())}]})
    )
    command("predict", "../kept", "--out", "after.csv")
    assert Path("after.csv").read_text() == Path("../before.csv").read_text()
    for file, left, message in (
        ("scale.json", "{", "scale"),
        ("best.pt", "?", "best epoch"),
        ("ended.json", None, "has not come to its end"),
    ):
        path = Path("../kept/train") / file
        whole = path.read_bytes()
        path.unlink() if left is None else path.write_text(left)
        command("predict", "../kept", "--out", "no.csv", expect=2)
        assert message in one_line(capsys) and not Path("no.csv").exists()
        path.write_bytes(whole)


@pytest.mark.parametrize(
    ("times", "next_ones"),
    [
        (pd.date_range("2019-01-01", periods=9, freq="MS"), ["2019-10-01", "2019-11-01"]),
        (
            pd.to_datetime(["2019-03-30 23:00", "2019-03-31 00:00", "2019-03-31 01:00", "2019-03-31 03:00"]),
            ["2019-03-31 04:00", "2019-03-31 05:00"],
        ),
        (pd.to_datetime(["2019-01-01"] * 4), [4, 5]),
    ],
    ids=["months", "a lost hour", "one time"],
)
def test_times_go_on(times, next_ones):
    ns = times.to_numpy().astype("datetime64[ns]").astype(np.int64)
    signal = Signal(np.zeros((len(times), 1, 1), np.float32), np.empty((2, 0), np.int32), times=ns)
    expected = next_ones if isinstance(next_ones[0], int) else pd.to_datetime(next_ones).to_list()
    assert pd.Series(times_of(signal, 2)[len(times) :]).to_list() == expected


def test_training_goes_on_to_more_epochs(forecast, capsys):
    """`--epochs` beyond those of a complete run: the same run, and what a run of so many has; one of fewer is a new one."""
    Path("runs/small-train-1/.lock").unlink()  # a process that has ended holds it no longer
    command("train", "small.yaml", "--ranks", "1", "--epochs", "4")
    assert "taking up runs/small-train-1, which has fewer epochs" in capsys.readouterr().err
    text = Path("small.yaml").read_text()
    Path("whole.yaml").write_text(text)
    command("train", "whole.yaml", "--ranks", "1", "--epochs", "4")
    ours, whole = (Path(f"runs/{name}-train-1/train") for name in ("small", "whole"))
    for name in ("test.json", "horizon.json", "ended.json"):
        assert (ours / name).read_text() == (whole / name).read_text()
    assert [record.losses for record in epoch_records(ours)] == [record.losses for record in epoch_records(whole)]
    command("train", "small.yaml", "--ranks", "1", "--epochs", "3")
    assert len(epoch_records(Path("runs/small-train-2/train"))) == 3 and len(epoch_records(ours)) == 4


@pytest.mark.parametrize("strategy", ["tgl-unique", "memshare"])
def test_events_of_the_test_are_those_that_were_scored(tmp_path, monkeypatch, inline, strategy):
    """A row an event: average precision by scikit-learn, and the mean reciprocal rank, are the test's."""
    from sklearn.metrics import average_precision_score  # noqa: PLC0415 (slow to import)

    monkeypatch.chdir(tmp_path)
    command("train", written(tmp_path)(strategies=[strategy], epochs=1))
    (run,) = Path("runs").glob("*-train-1")
    command("predict", run)
    table, tested = pd.read_parquet("predictions.parquet"), json.loads((run / "train" / "test.json").read_text())
    compared = table[np.isfinite(table["negative_score"])]
    labels = np.repeat([1, 0], len(compared))
    scores = np.concatenate([compared["score"], compared["negative_score"]])
    assert average_precision_score(labels, scores) == pytest.approx(tested["ap"], abs=1e-6)
    assert (1 / table["rank"]).mean() == pytest.approx(tested["mrr"], abs=1e-6)
    assert (
        (table["event"].diff().dropna() == 1).all() and table["time"].is_monotonic_increasing and (table["dst"] != table["negative"]).all()
    )


def of_test(table, truth):
    """Mean over snapshots of a score of each, as links' are."""
    return float(np.mean([truth(part) for _, part in table.groupby("snapshot")]))


@pytest.mark.parametrize(("task", "dataset"), [("in-degree", None), ("degrees", None), ("classes", "communities_small"), ("links", None)])
def test_snapshots_of_the_test_are_those_that_were_scored(experiment, inline, task, dataset):
    """A row a node or an edge: scores that follow from the table are the test's, and truths are the degrees."""
    from sklearn.metrics import average_precision_score  # noqa: PLC0415 (slow to import)

    training = {"task": task, "validation": 0.2, "test": 0.2}
    model = {"name": "t-gcn", "hidden": 4, **({} if task == "degrees" else {"inputs": 16})}
    changes = {} if dataset is None else {"dataset": dataset}
    command("train", experiment(strategies=["psg"], ranks=[1], epochs=1, groups=None, training=training, model=model, **changes))
    command("predict", "runs/small-train-1", "--out", "test.csv")
    table, tested = pd.read_csv("test.csv"), json.loads(Path("runs/small-train-1/train/test.json").read_text())
    if task == "links":
        ap = of_test(
            table, lambda part: average_precision_score([1] * len(part) + [0] * len(part), [*part["score"], *part["negative_score"]])
        )
        assert tested == pytest.approx({"ap": ap, "auc": tested["auc"], "mrr": of_test(table, lambda part: (1 / part["rank"]).mean())})
    elif task == "classes":
        known = table[table["truth"] >= 0]
        assert tested["accuracy"] == pytest.approx((known["label"] == known["truth"]).mean())
    else:
        names = ["in_degree", "out_degree"] if task == "degrees" else [""]
        values, truths = (np.stack([table[f"{what}_{name}" if name else what] for name in names]) for what in ("value", "truth"))
        assert tested["mse"] == pytest.approx(np.square(values - truths).mean(), rel=1e-5)
        graphs = store.load("graphs")
        last = graphs[int(table["snapshot"].max())]
        degrees = [np.bincount(last.dst, minlength=64), np.bincount(last.src, minlength=64)][: len(names)]
        np.testing.assert_allclose(truths[:, table["snapshot"] == table["snapshot"].max()], np.log1p(degrees), rtol=1e-5)
    assert set(table["snapshot"]) == ({10, 11} if dataset is None else set(table["snapshot"]))


def test_mistakes_are_one_line(tmp_path, monkeypatch, inline, capsys):
    monkeypatch.chdir(tmp_path)
    Path("empty").mkdir()
    command("train", written(tmp_path)(epochs=1))
    (run,) = Path("runs").glob("*-train-1")
    cases = (
        (("empty",), "not a run"),
        ((run, "--out", "x.txt"), r"x\.txt: expected a name that ends in \.parquet or \.csv"),
        ((run, "--period", "next"), "--period next: of a stream's events those of the test are predicted"),
    )
    for words, message in cases:
        command("predict", *words, expect=2)
        assert re.search(message, one_line(capsys))
    assert not list(Path().glob("*.txt")) and not list(Path().glob(".*"))


def test_what_held_nothing_out_has_no_predictions(experiment, inline, capsys):
    command("train", experiment(strategies=["psg"], ranks=[1], epochs=1, groups=2))
    command("predict", "runs/small-train-1", expect=2)
    assert "no predictions of a test; training.test holds one out" in one_line(capsys)
