"""The engine that an experiment names: SimPy's epochs are those of the native library, and runs say whose they are."""

import json
from pathlib import Path

import numpy as np
from command_line import command, one_line
from native_case import needs_cpu

from chronoscale.harness.publish.collect import collect
from chronoscale.harness.runs.assumed import assumed_of
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.simulate import simulation
from chronoscale.simulator import engine
from chronoscale.strategies.trace import Trace

UNCERTAIN = {"jitter": 0.1, "sway": 0.1, "draws": 3}
KEYS = {"strategies": ["real-g+"], "gpus": [2], "uncertainty": UNCERTAIN, "assumptions": {"draws": 2}}
PIECE = "sim-00002-real-g+"


@needs_cpu
def test_both_engines_give_the_same_run(experiment, monkeypatch, capsys):
    """With launches, contention, draws, assumptions and failures; SimPy's run asks nothing of the native library."""
    failing = {**KEYS, "epochs": 2, "failures": {"tasks": [{"task": 3, "epoch": 1}]}}
    command("simulate", experiment("native", **failing))
    assert "SimPy" not in capsys.readouterr().err
    with monkeypatch.context() as patched:
        patched.setattr(engine.native, "replay", None)
        command("simulate", experiment("simpy", **failing, engine="simpy"))
    assert "epochs were replayed by SimPy, not by the native library" in " ".join(capsys.readouterr().err.split())
    folders = [Path(f"runs/{name}-simulate-1/{PIECE}") for name in ("native", "simpy")]
    traces = [Trace.load(folder / "trace.parquet") for folder in folders]
    assert np.array_equal(traces[0].start_ns, traces[1].start_ns) and np.array_equal(traces[0].duration_ns, traces[1].duration_ns)
    records = [json.loads((folder / "point.json").read_text()) for folder in folders]
    assert [record.pop("engine") for record in records] == ["native", "simpy"]
    assert records[0] == records[1] and len(set(records[0]["draws_s"])) == 3 and records[0]["endured"]
    drawn = [assumed_of(Run(folder.parent)) for folder in folders]
    assert drawn[0] == drawn[1] is not None
    reports = [collect([Run(folder.parent)]) for folder in folders]
    assert [any("replayed by SimPy" in note for note in report.notes) for report in reports] == [False, True]


@needs_cpu
def test_advice_is_of_the_engine(experiment, monkeypatch, capsys):
    monkeypatch.setattr(engine.native, "replay", None)
    command("advise", experiment(**KEYS, engine="simpy"), "--workers", "1", "--json")
    assert json.loads(capsys.readouterr().out)["points"][0]["epoch_s"] > 0


def test_without_the_library_simpy_has_replayed(experiment, monkeypatch, capsys):
    monkeypatch.setattr(engine, "cpu_library", lambda: None)
    command("simulate", experiment(strategies=["psg"], gpus=[1]))
    assert SimulatedPoint.load(Path("runs/small-simulate-1/sim-00001-psg")).engine == "simpy"


def test_an_engine_that_there_is_not(experiment, capsys):
    command("simulate", experiment(engine="simpi"), expect=2)
    assert "engine: expected 'native' or 'simpy' (got 'simpi')" in one_line(capsys)


def test_what_memory_holds_in_parts_is_no_epoch_for_simpy(experiment, monkeypatch, capsys):
    monkeypatch.setattr(simulation, "affordable", lambda *_: {("psg", 2)})
    command("simulate", experiment(strategies=["psg"], gpus=[2], engine="simpy"), expect=2)
    assert "engine: simpy replays whole epochs alone, and of psg on 2 GPUs memory holds a part; leave it out" in one_line(capsys)
