"""Whose costs are used, and what for: a number never rests on a profile that nothing says."""

import json
import re
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.execute.profiles import find_profile
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.planning.estimate import affordable
from chronoscale.harness.runs.profile_record import PROFILED
from chronoscale.harness.runs.start import find_runs
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.strategies.cluster import same_device
from chronoscale.strategies.costs import FittedCosts
from chronoscale.strategies.registry import strategy

QUICK = {"strategies": ["psg", "real-g+"], "gpus": [1, 2]}


def stderr_text(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_costs_of_a_cpu_are_not_a_gpus(experiment, inline, capsys):
    """Refused, whatever is set: no roofline of one says anything of the other."""
    command("profile", experiment("usual", **QUICK))
    costs = "runs/usual-profile-1/profile/costs-1.json"
    command("simulate", experiment(costs=costs, **QUICK), expect=2)
    mine = FittedCosts.load(Path(costs)).device
    assert f"costs: {costs} was fitted on {mine}, not on NVIDIA H200; name a profile of that device" in one_line(capsys)
    command("simulate", experiment(costs=costs, extrapolate=True, **QUICK), expect=2)
    assert f"or add a device file of {mine} (simulator/devices)" in one_line(capsys)
    command("simulate", experiment(costs=costs, extrapolate=True, launch="graph", **QUICK), expect=2)
    assert "launch: graph is reckoned from a datasheet" in one_line(capsys)


@pytest.mark.slow
def test_costs_of_another_machine_do_not_replay_this_one(experiment, inline, capsys):
    command("profile", experiment("usual", **QUICK))
    file = Path("runs/usual-profile-1/profile/costs-1.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "device": "Some Other CPU"}))
    for extrapolate in (False, True):
        command("validate", experiment(costs=str(file), extrapolate=extrapolate, **QUICK), expect=2)
        assert f"costs: {file} was fitted on Some Other CPU, not on " in one_line(capsys)


@pytest.mark.slow
def test_training_refuses_costs_of_another_machine(experiment, inline, capsys):
    command("profile", experiment("usual", **QUICK))
    file = Path("runs/usual-profile-1/profile/costs-1.json")
    file.write_text(json.dumps({**json.loads(file.read_text()), "device": "NVIDIA H200"}))
    command("train", experiment(costs=str(file), epochs=2, **QUICK), expect=2)
    assert f"costs: {file} was fitted on NVIDIA H200, not on " in one_line(capsys)


@pytest.mark.slow
def test_a_damaged_record_of_another_profile_stops_nobody(experiment, inline, capsys):
    command("profile", experiment("usual", **QUICK))
    path = Path("runs/usual-profile-1/profile", PROFILED)
    path.write_text('{"kinds": 3}')
    command("profile", experiment("other", training={"group_size": 2}, **QUICK))
    assert "left aside" not in stderr_text(capsys)  # another experiment's: not looked at
    command("bench", experiment("again", **QUICK))
    assert f"left aside: {path}: not a readable record of a profile" in stderr_text(capsys)


def test_large_schedules_are_announced(experiment):
    settings = load(experiment(strategies=["psg"]))
    with pytest.warns(ChronoscaleWarning, match="large schedules take minutes to plan and replay: psg on 700,000 ranks about 2,1"):
        affordable({"psg": strategy("psg")}, workflow_of(settings.family).workload(settings), [700_000])


@pytest.mark.slow
def test_a_profile_that_is_used_again_is_named_with_its_age_and_load(experiment, inline, capsys):
    file = experiment(**QUICK)
    command("profile", file)
    assert "costs are those" not in stderr_text(capsys)
    path = Path("runs/small-profile-1/profile", PROFILED)
    path.write_text(json.dumps({**json.loads(path.read_text()), "at": "2026-01-02T03:04:05+00:00", "load": 1.25}))
    command("validate", file)
    output = stderr_text(capsys)
    assert re.search(r"those that small-profile-1 fitted \d+ days ago \(2026-01-02 03:04 UTC\), when 1\.2 processes were busy", output)
    command("report", "runs/small-validate-1", "--out", "page")
    assert "costs are those that small-profile-1 fitted" in Path("page/report.md").read_text()


@pytest.mark.slow
@pytest.mark.sample(1)
@pytest.mark.parametrize("key", [{"bus": "20MB"}, {"network": "20MB"}, {"network_latency": 0.001}])
def test_a_rate_is_told_of_a_profile_and_a_report(experiment, inline, key):
    """What was timed without it is another's."""
    usual, slow = experiment("usual", **QUICK), experiment("slow", **key, **QUICK)
    command("profile", usual)
    run = find_runs(Path("runs"))[0]
    assert find_profile(load(usual), Path("runs")) == run and find_profile(load(slow), Path("runs")) is None
    command("bench", slow)
    command("report", "runs/slow-bench-1", "--out", "page")
    assert ("1000 us" if "network_latency" in key else "0.02 GB/s") in Path("page/report.md").read_text()


def test_kernels_as_cuda_graphs_are_launched_at_once(experiment, capsys):
    """A small graph is all launches: eager it takes longer, and the row says what it rests on."""
    times = {}
    for launch in ("eager", "graph"):
        command("simulate", experiment(launch, launch=launch, strategies=["psg"], gpus=[1]), "--json")
        (row,) = json.loads(capsys.readouterr().out)
        times[launch] = row["epoch_s"]
        costs = json.loads(Path(f"runs/{launch}-simulate-1/sim-00001-psg/point.json").read_text())["costs"]
        assert costs.endswith("CUDA graphs") == (launch == "graph")
    assert times["eager"] > 3 * times["graph"]


@pytest.mark.parametrize(
    ("name", "other", "same"),
    [
        ("NVIDIA A100 40GB", "NVIDIA A100-SXM4-40GB", True),
        ("NVIDIA H200", "NVIDIA H200", True),
        ("NVIDIA H20", "NVIDIA H200", False),
        ("AMD EPYC", "NVIDIA H200", False),
        ("", "NVIDIA H200", False),  # a file that says of no device what it was fitted on
        ("NVIDIA", "NVIDIA H200", False),
        ("AMD EPYC", "AMD EPYC", True),
        ("", "", False),
    ],
)
def test_devices_by_their_words(name, other, same):
    assert same_device(name, other) == same_device(other, name) == same
