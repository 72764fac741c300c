"""Every kind of dynamic graph is validated operation by operation: errors, shares of the epoch, an error that is put into one curve."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest
from command_line import command
from one_rank import here

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.traffic import TrafficSignal
from chronoscale.datasets.streams.events import EventStream
from chronoscale.harness.execute import calibration, execution
from chronoscale.harness.execute.replaying import replay_executed
from chronoscale.harness.publish.validation import ValidationTables
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.strategies.trace import Trace

PASSES = {"ranks": [1], "repeats": 2, "warmup": 0, "attempts": 1, "costs": "datasheet", "profile_epochs": 2}
CASES: dict[str, dict[str, object]] = {
    "groups": {"model": {"name": "t-gcn", "hidden": 4, "inputs": 4}, "groups": 4, "strategies": ["psg"]},
    "windows": {
        "model": {"name": "t-gcn", "hidden": 4, "inputs": 4},
        "training": {"full": 2, "decayed": 2, "chunks": 4},
        "strategies": ["recent-only", "flaredtdg"],
    },
    "streams": {
        "model": {"name": "tgn", "hidden": 4, "time": 4},
        "training": {"batch_size": 40, "fanout": [3], "cache_ratio": 0.3},
        "strategies": ["fast"],
    },
    "spread": {
        "model": {"name": "tgn", "hidden": 4, "time": 4},
        "training": {"batch_size": 40, "fanout": [3], "shared": 0.2, "theta": 0.5},
        "strategies": ["memshare", "disttgl"],
    },
    "signals": {
        "model": {"name": "pgt-dcrnn", "hidden": 4},
        "training": {"batch_size": 2, "window": 4, "horizon": 3, "batches": 4},
        "strategies": ["index", "dist-index"],
    },
}
TRAINED = {"BACKWARD", "OPTIMIZE", "H2D"}
OPERATIONS = {
    "groups": {*TRAINED, "AGGREGATE", "TRANSFORM", "TEMPORAL"},
    "windows": {*TRAINED, "REMAP", "AGGREGATE", "TRANSFORM", "TEMPORAL"},
    "streams": {*TRAINED, "SAMPLE", "GATHER", "D2H", "MEMORY_READ", "MEMORY_UPDATE", "MEMORY_WRITE", "AGGREGATE", "FORWARD"},
    "signals": {*TRAINED, "GATHER", "FORWARD"},
}
OPERATIONS["spread"] = OPERATIONS["streams"]


class Validated(NamedTuple):
    """A finished run of `validate`, what it printed as JSON, and its kind of work."""

    kind: str
    run: Run
    printed: list[dict[str, object]]


def saved(kind: str) -> None:
    """Write the smallest data of a kind to the folder `data`."""
    if kind == "signals":
        store.save("data", TrafficSignal(6, 60, seed=1).signal())
    elif kind in ("streams", "spread"):
        rng, count = np.random.default_rng(0), 300
        src, dst = rng.integers(0, 12, count).astype(np.int32), (12 + rng.integers(0, 6, count)).astype(np.int32)
        features = rng.normal(size=(count, 2)).astype(np.float32)
        store.save("data", EventStream(18, src, dst, np.sort(rng.integers(0, 5 * count, count)), features, name="small"))
    else:
        store.save("data", GrowthGraph.rmat(64, 300, 12, 0.1, 1).sequence())


@pytest.fixture(scope="module", params=CASES)
def validated(request, tmp_path_factory) -> Iterator[Validated]:
    """`chronoscale validate`, once a kind, on one rank in this process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp(request.param))
        patch.setattr(execution, "launch", here)
        patch.setattr(calibration, "launch", here)
        saved(request.param)
        Path("small.yaml").write_text(json.dumps({"dataset": {"path": "data"}, **PASSES, **CASES[request.param]}))
        with pytest.MonkeyPatch.context() as output:
            lines: list[str] = []
            output.setattr("typer.echo", lines.append)
            command("validate", "small.yaml", "--json")
        yield Validated(request.param, Run(Path("runs/small-validate-1").resolve()), json.loads(lines[-1]))


def busy_ns(trace: Trace) -> int:
    """How long the one rank does anything, moments in which several lanes run once."""
    busy, until = 0, 0
    for start, end in sorted(zip(trace.start_ns.tolist(), trace.end_ns.tolist(), strict=True)):
        busy += max(end - max(start, until), 0)
        until = max(until, end)
    return busy


def test_every_operation_is_there_with_its_error_and_its_share(validated):
    """All of them together cover what the rank was busy with."""
    table = pd.DataFrame(validated.printed)
    for strategy in CASES[validated.kind]["strategies"]:  # type: ignore[attr-defined]
        rows = table[table["strategy"] == strategy].set_index("op")
        operations = rows.drop(index=["ITERATION", "TOTAL"])
        assert set(operations.index) <= OPERATIONS[validated.kind] and len(operations) >= len(OPERATIONS[validated.kind]) - 1
        repeats = [Trace.load(path) for path in validated.run.folder.glob(f"ranks-1/{strategy}-r*.parquet")]
        assert len(repeats) == 2
        error = 100 * (operations["predicted_ms"] / operations["measured_ms"] - 1)
        assert np.isfinite(operations["error_pct"].astype(float)).all() and np.allclose(operations["error_pct"].astype(float), error)
        epoch_ms = np.median([trace.span_ns for trace in repeats]) / 1e6
        assert np.allclose(operations["epoch_share"].astype(float), operations["measured_ms"] / epoch_ms)
        assert rows.loc[["ITERATION", "TOTAL"], "epoch_share"].isna().all()
        busy_ms = np.median([busy_ns(trace) for trace in repeats]) / 1e6
        assert operations["measured_ms"].sum() >= 0.9 * busy_ms
        assert rows.loc["TOTAL", "coverage"]["share"] >= 0.9


def test_the_report_shows_the_table(validated):
    command("report", validated.run.folder, "--out", "page")
    table = pd.read_csv("page/tables/fidelity.csv")
    printed = pd.DataFrame(validated.printed)
    assert np.allclose(table["epoch_share"].dropna(), printed["epoch_share"].dropna().astype(float)) and len(table) == len(printed)
    page = Path("page/index.html").read_text()
    assert "Prediction against measurement" in page and "of the epoch" in page


def test_an_error_in_one_curve_is_seen_in_its_operation_alone(validated):
    """Every curve of one operation three times as high: its line says so, and the epoch's; no other operation's does."""
    experiment, run = load_experiment(validated.run), validated.run
    path = run.folder / "ranks-1/costs.json"
    sound, before = path.read_text(), ValidationTables.of(run).table.set_index(["strategy", "op"])["predicted_ms"]
    replayed = run.folder / "replay-1"
    try:
        for op in sorted({str(op) for _, op in before.index} - {"ITERATION", "TOTAL"}):
            costs = json.loads(sound)
            for fit in costs["fits"]:
                if fit["op"] == op:
                    fit["coefficients"] = [3 * value for value in fit["coefficients"]]
            path.write_text(json.dumps(costs))
            shutil.rmtree(replayed)
            replay_executed(experiment, run)
            ratio = ValidationTables.of(run).table.set_index(["strategy", "op"])["predicted_ms"] / before
            operations = ratio.drop(index=["ITERATION", "TOTAL"], level="op")
            wrong = operations.index.get_level_values("op") == op
            assert operations[wrong].to_numpy() == pytest.approx(3, rel=1e-2)
            assert operations[~wrong].to_numpy() == pytest.approx(1, rel=1e-9)
            assert (ratio.xs("TOTAL", level="op")[operations[wrong].index.get_level_values("strategy")] > 1).all()
    finally:
        path.write_text(sound)
        shutil.rmtree(replayed)
        replay_executed(experiment, run)
