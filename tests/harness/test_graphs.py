"""`launch: graph` as its user meets it: refused on a CPU; on a GPU, which is pretended, what ran as graphs, and what did not and why."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from command_line import command, one_line
from emulation import compiler, library
from pretended import pretended

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.execute import calibration, machine
from chronoscale.harness.publish.settings import executed
from chronoscale.harness.runs.passes import passes_of
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.workflows.snapshots import control_plane
from chronoscale.real_exec.execution.launch_summary import LaunchSummary
from chronoscale.strategies.schedule import Op

NEEDS_COMPILER = pytest.mark.skipif(compiler() is None, reason="the kernels are emulated, which needs a C++ compiler")


def written(folder: Path, **keys: object) -> Path:
    """An experiment on a few snapshots."""
    store.save(folder / "data", GrowthGraph.rmat(40, 300, 8, 0.1, 2).sequence())
    given = {
        "dataset": {"path": str(folder / "data")},
        "model": {"name": "wd-gcn", "hidden": 8, "inputs": 8},
        "training": {"stride": 2, "group_size": 3},
        "strategies": ["psg", "esdg"],
        "ranks": [1],
        "repeats": 1,
        "launch": "graph",
        **keys,
    }
    path = folder / "graphs.yaml"
    path.write_text(json.dumps(given))
    return path


@pytest.fixture
def gpu(inline: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """One GPU, ranks in this process."""
    monkeypatch.setattr(machine, "gpus", lambda: 1)
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda _=None: (8 << 30, 8 << 30))
    monkeypatch.setattr(calibration, "launch_ns", lambda _: 5_000)
    with pretended(library()) as findings:
        yield
    assert not findings, str(findings)


@pytest.mark.parametrize("name", ["bench", "validate", "profile", "train"])
def test_without_a_gpu_it_is_refused_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    command(name, written(tmp_path), "--runs", tmp_path / "runs", expect=2)
    line = one_line(capsys)
    assert line == (
        "error: launch: graph is of a GPU, and this would run on the CPU, which launches no kernels; set launch: eager, or leave it out"
    )


@pytest.mark.slow
@NEEDS_COMPILER
def test_a_run_says_and_keeps_what_was_captured(gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Two passes come before the one that is timed; what was not captured is warned of; a run of the other launch is another setting."""
    command("bench", written(tmp_path), "--runs", tmp_path / "runs")
    output = " ".join(capsys.readouterr().err.split())
    why = "groups that are spread over ranks are not captured yet"
    assert f"warning: launch: graph: strategy 'esdg' on 1 rank was launched row by row, not as CUDA graphs: {why}" in output
    assert "'psg'" not in output
    run = Run(next((tmp_path / "runs").iterdir()))
    (one,), (other,) = passes_of(run, 1, "psg"), passes_of(run, 1, "esdg")
    assert one.launched == LaunchSummary(graphs=3) and set(one.trace.op) == {Op.GRAPH, Op.OPTIMIZE}
    assert other.launched is not None and other.launched.why and Op.GRAPH not in other.trace.op
    command("report", run.folder, "--out", tmp_path / "report")
    command("trace", run.folder, "--out", tmp_path / "traces")
    for form in ("chakra", "simgrid"):
        command("trace", run.folder, "--out", tmp_path / form, "--format", form)
        assert "psg-ranks-1 ran as CUDA graphs, whose rows have no times of their own: it is left out" in " ".join(
            capsys.readouterr().err.split()
        )
        assert {path.name.split("-")[0] for path in (tmp_path / form).iterdir()} == {"esdg"}
    graphs = executed(run, load_experiment(run))
    eager = executed(run, load_experiment(run).model_copy(update={"launch": "eager"}))
    assert graphs != eager and graphs.fact("launch") == "graph" and not eager.fact("launch")


@NEEDS_COMPILER
def test_training_says_of_each_stage_how_it_was_launched(
    gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control_plane, "serves", lambda _: False)  # one stage, whose epochs do not depend on times
    command("train", written(tmp_path), "--runs", tmp_path / "runs", "--epochs", "3", "--strategy", "psg")
    shown = " ".join("".join(capsys.readouterr()).split())
    assert "launch: graph: the last epoch of stage 'training' was launched as 3 CUDA graphs, 0 of them captured first." in shown


@NEEDS_COMPILER
@pytest.mark.slow
def test_it_is_validated_graph_by_graph(gpu: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Rows of a graph are predicted together; iterations and the epoch as ever."""
    command("validate", written(tmp_path), "--runs", tmp_path / "runs", "--json")
    rows = [row for row in json.loads(capsys.readouterr().out) if row["strategy"] == "psg"]
    assert [row["op"] for row in rows] == ["OPTIMIZE", "GRAPH", "ITERATION", "TOTAL"]
    assert all(row["predicted_ms"] > 0 and row["measured_ms"] > 0 for row in rows)
    assert rows[-1]["coverage"]["compared"] == rows[-1]["coverage"]["rows"] == 6
