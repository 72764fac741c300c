"""The command line on streams whose memory is spread over ranks: good runs, a lost rank, mistakes in one line."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import command, one_line

from chronoscale.datasets import store
from chronoscale.datasets.streams.events import EventStream
from chronoscale.real_exec.ranks.launch import wait
from chronoscale.real_exec.ranks.rank_group import RankGroup
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.registry import of
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy

SPREAD = [name for name, one in of("streams").items() if isinstance(one, SpreadStrategy)]
FOUR = ["tgl-dist", "memshare", "mspipe", "disttgl"]
MODEL = {"name": "tgn", "hidden": 8, "time": 4}
TRAINING = {"batch_size": 20, "fanout": [3], "shared": 0.2, "theta": 0.5}
SMALL = {"dataset": {"path": "events"}, "model": MODEL, "training": TRAINING, "ranks": [1], "repeats": 2, "warmup": 0, "epochs": 1}


@pytest.fixture
def experiment(tmp_path, monkeypatch) -> Callable[..., Path]:
    """A folder to work in, with a stream of 12 sources and 6 items, and a function that writes experiment files."""
    monkeypatch.chdir(tmp_path)
    rng, count = np.random.default_rng(0), 300
    src, dst = rng.integers(0, 12, count).astype(np.int32), (12 + rng.integers(0, 6, count)).astype(np.int32)
    features = rng.normal(size=(count, 2)).astype(np.float32)
    store.save(tmp_path / "events", EventStream(18, src, dst, np.sort(rng.integers(0, 5 * count, count)), features, name="small"))

    def write(stem: str = "small", **changes: object) -> Path:
        path = tmp_path / f"{stem}.yaml"
        training = {**TRAINING, **changes.pop("training", {})}  # type: ignore[dict-item]
        path.write_text(json.dumps({**SMALL, **changes, "training": training}))
        return path

    return write


def losses(run: str, name: str, ranks: int = 1) -> np.ndarray:
    values: np.ndarray = np.load(f"runs/{run}/ranks-{ranks}/{name}-losses.npy")
    return values


@pytest.mark.parametrize("others", [("memshare",), pytest.param(("tgl-dist", "mspipe", "disttgl"), marks=pytest.mark.slow)])
def test_the_loop_from_file_to_report(experiment, inline, capsys, others) -> None:
    """On one rank all that has the same neighbours and negatives learns the same, whatever else it is."""
    names = ["tgl-unique", *others]
    file = experiment(strategies=names, gpus=[4], assumptions={"draws": 0}, profile_epochs=2)
    command("validate", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert {row["strategy"] for row in rows} == set(names)
    ops = {"SAMPLE", "GATHER", "H2D", "D2H", "MEMORY_READ", "MEMORY_UPDATE", "MEMORY_WRITE", "AGGREGATE", "FORWARD", "BACKWARD", "OPTIMIZE"}
    assert {row["op"] for row in rows} == {*ops, "ITERATION", "TOTAL"} and all(row["measured_ms"] > 0 for row in rows)
    command("bench", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    assert [row["strategy"] for row in rows] == names
    plain = losses("small-bench-1", "tgl-unique")
    for name in others:
        bench_losses = losses("small-bench-1", name)
        if name == "memshare":
            assert (bench_losses != plain).any()
        else:
            np.testing.assert_allclose(bench_losses, plain, rtol=0 if name != "mspipe" else 0.2)
    command("simulate", file, "--json")
    points = json.loads(capsys.readouterr().out)
    assert {(row["strategy"], row["ranks"]) for row in points} == {(name, 4) for name in names}
    assert all(row["epoch_s"] > 0 for row in points)
    command("report", "runs/small-validate-1", "runs/small-simulate-1", "--out", "page")
    text = Path("page/report.md").read_text()
    assert all(name in text for name in names) and "### Parts of the epoch" in text


@pytest.mark.slow
@pytest.mark.parametrize("names", [("memshare", "disttgl"), pytest.param(("tgl-dist", "mspipe"), marks=pytest.mark.slow)])
def test_ranks_exchange_rows(experiment, capsys, names) -> None:
    """Two of them: what they exchange is measured, predicted, counted as communication and shown."""
    file = experiment(strategies=names, ranks=[2], gpus=[2])
    command("validate", file, "--json")
    rows = json.loads(capsys.readouterr().out)
    exchanged = {name: {row["op"] for row in rows if row["strategy"] == name} & {"ALLTOALL", "ALLGATHER", "ALLREDUCE"} for name in names}
    both = {"ALLTOALL", "ALLREDUCE"}
    expected = {"tgl-dist": both, "memshare": {*both, "ALLGATHER"}, "mspipe": both, "disttgl": {"ALLREDUCE"}}
    assert exchanged == {name: expected[name] for name in names}
    assert all(row["predicted_ms"] > 0 and np.isfinite(row["error_pct"]) for row in rows if row["op"] in {*both, "ALLGATHER"})
    command("report", "runs/small-validate-1", "--out", "page")
    table = Path("page/tables/breakdown.csv").read_text()
    assert "communication" in table and all(name in table for name in names)


@pytest.mark.sample(6)
@pytest.mark.parametrize("name", FOUR)
@pytest.mark.parametrize("model", ["tgn", "apan", "jodie"])
def test_every_strategy_trains_every_model(experiment, inline, capsys, name, model) -> None:
    command("train", experiment(strategies=[name], model={**MODEL, "name": model}, epochs=2), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert 0 < row["last_ap"] <= 1 and row["test"][0]["predictor"] == model and row["test"][1]["predictor"] == "EdgeBank"


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "training",
    [{"validation": False}, {"batches": 2}, {"hidden_nodes": 0.2}, {"adaptive": True}, {"variant": "as-published"}, {"partition": "metis"}],
)
@pytest.mark.parametrize("name", ["memshare", "disttgl"])
def test_other_ways_to_train(experiment, inline, capsys, name, training) -> None:
    command("train", experiment(strategies=[name], epochs=2, training=training), "--json")
    (row,) = json.loads(capsys.readouterr().out)
    assert 0 < row["test"][0]["ap"] <= 1


def left(folder: Path) -> tuple[object, ...]:
    """What a training comes to: epochs, test, the best epoch's weights, and all ranks' memory that is kept."""
    best = torch.load(folder / "best.pt", weights_only=True)
    trained = [(record.losses, record.scores, record.counts) for record in epoch_records(folder)]
    files = {path.name: torch.load(path, weights_only=True) for path in sorted((folder / "memory").glob("*.pt"))}
    tensors = {
        f"{file} {name}": table.tolist() for file, tables in {**files, "best": best["model"]}.items() for name, table in tables.items()
    }
    return trained, json.loads((folder / "test.json").read_text()), best["epoch"], int(best["state"]["epoch"]), tensors


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "ranks"),
    [("memshare", 2), pytest.param("disttgl", 2, marks=pytest.mark.slow), pytest.param("memshare-replicas", 4, marks=pytest.mark.slow)],
)
def test_a_lost_rank_is_named_and_the_run_goes_on_after_it(experiment, monkeypatch, capsys, name, ranks) -> None:
    """Killed in the middle of an epoch; taken up, every bit is that of a run that nothing happened to: memory, mailbox and history."""
    given = {"strategies": [name], "ranks": [ranks], "epochs": 6, "model": {**MODEL, "dropout": 0.2}}
    file, whole, folder = experiment("lost", **given), experiment("whole", **given), Path("runs/lost-train-1/train")

    def lose(ranks: RankGroup, *rest: Any) -> None:
        while len(epoch_records(folder)) < 2:
            os.kill(ranks.pids[1], 0)  # raises where it has ended
            time.sleep(0.005)
        os.kill(ranks.pids[1], signal.SIGKILL)
        wait(ranks, *rest)

    with monkeypatch.context() as patch:
        patch.setattr("chronoscale.real_exec.ranks.launch.wait", lose)
        command("train", file, expect=1)
    error, done = one_line(capsys), len(epoch_records(folder))
    assert "rank 1 of 'train' was lost (SIGKILL)" in error
    assert f"; {done} of 6 epochs are kept, the same command goes on after them" in error
    assert 2 <= done < 6
    (folder.parent / ".lock").unlink()  # which this process holds to its end
    command("train", file)
    assert "taking up" in capsys.readouterr().err
    command("train", whole)
    assert left(folder) == left(Path("runs/whole-train-1/train"))


def of_training(**training: object) -> dict[str, object]:
    return {"training": training}


@pytest.mark.parametrize("order", ["train", "simulate"])
@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ranks": [16], "gpus": [16]}, "16 parts of 'small': only 14 of its 18 nodes are not shared; expected at most as many parts"),
        (of_training(shared=1), "training.shared: expected less than 1 (got 1)"),
        (of_training(shared=-0.1), "training.shared: expected at least 0 (got -0.1)"),
        (of_training(theta=2), "training.theta: expected at most 1 (got 2)"),
        (of_training(theta="many"), "training.theta: expected a number (got 'many')"),
        (of_training(alpha=2.5), "training.alpha: expected at most 2 (got 2.5)"),
        (of_training(sent=2), "training.sent: expected at most 1 (got 2)"),
        (of_training(decay=-1), "training.decay: expected at least 0 (got -1)"),
        (of_training(staleness=0), "training.staleness: expected more than 0 (got 0)"),
        (
            of_training(partition="metris"),
            "training.partition: expected 'shared-nodes', 'metis', 'distgl', 'random' or 'restream'",
        ),
        (of_training(thetta=0.1), "unknown key 'training.thetta'; did you mean 'training.theta'?"),
        (of_training(adaptive=1), "training.adaptive: expected true or false (got 1)"),
        (of_training(sampling="uniform"), "training.sampling: boundary decay is of the most recent neighbours, got 'uniform'"),
        (
            {"model": {**MODEL, "name": "tgat"}},
            "model 'tgat' has no node memory that ranks could share; models that have: tgn, jodie, apan",
        ),
        (
            {"model": {**MODEL, "name": "dysat"}, **of_training(windows=2, duration=300)},
            "model 'dysat' has no node memory that ranks could share; models that have: tgn, jodie, apan",
        ),
        ({"strategies": ["memshar"]}, "memshar"),
        (of_training(replicas=0), "training.replicas: expected more than 0 (got 0)"),
        (
            {"strategies": ["memshare-replicas"], "ranks": [3], "gpus": [3]},
            "training.replicas: 3 ranks do not make 2 groups; expected a multiple of 2 ranks",
        ),
    ],
)
def test_mistakes_are_one_line_and_exit_2(experiment, inline, capsys, order, changes, message) -> None:
    command(order, experiment(**{"strategies": ["memshare"], **changes}), expect=2)
    assert message in one_line(capsys)


def test_strategies_are_listed(capsys) -> None:
    command("strategies", "--json")
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)}
    assert set(SPREAD) <= set(rows) and {"tgl-dist", "memshare", "mspipe", "disttgl"} <= set(SPREAD)
