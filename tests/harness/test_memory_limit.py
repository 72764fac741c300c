"""Memory: a schedule that does not fit is refused before a rank starts; what is planned is about what is taken."""

import json
import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from command_line import command, one_line
from torch.profiler import ProfilerActivity, profile

from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import UserError
from chronoscale.harness.execute import execution
from chronoscale.harness.execute.machine import this_machine
from chronoscale.harness.keys import experiment_files as files
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.execution.interpreter import execute
from chronoscale.real_exec.execution.lanes import INLINE, CpuLanes
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.real_exec.snapshots.material import SnapshotMaterial
from chronoscale.real_exec.snapshots.model import SnapshotModel
from chronoscale.real_exec.snapshots.program import SnapshotProgram
from chronoscale.real_exec.training.learner import Learner
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costing.curves import RANGED
from chronoscale.strategies.costs import DatasheetCosts, Fit, FittedCosts
from chronoscale.strategies.registry import strategy
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, Workload


def test_what_does_not_fit_is_refused_and_nothing_starts(experiment, inline, capsys, monkeypatch):
    command("profile", experiment())
    costs = "runs/small-profile-1/profile/costs-1.json"
    monkeypatch.setattr(execution, "launch", lambda *_: pytest.fail("ranks were launched"))
    capsys.readouterr()
    for limit in ("40kB", 40_000):
        command("bench", experiment(ranks=[1, 2], memory=limit, costs=costs), expect=2)
        said = one_line(capsys)
        assert re.search(
            r"strategy 'psg' on 1 rank: out of memory: rank 0 needs [\d.]+ (kB|MB) at task \d+ \(\w+, unit \d+, iteration", said
        )
        assert said.endswith("more than the 40.0 kB of " + FittedCosts.load(Path(costs)).device)
    refused = []

    def admit(schedule, machine, costs):
        refused.append((schedule.name, schedule.ranks))
        if schedule.ranks == 2:
            raise UserError("out of memory: on two")

    monkeypatch.setattr(execution, "admit", admit)  # all rank counts are checked before the first one runs
    command("bench", experiment(ranks=[1, 2], costs=costs), expect=2)
    assert refused == [("psg", 1), ("real-reuse", 1), ("real-g+", 1), ("psg", 2)]
    assert not list(Path("runs").glob("*bench*/*ranks-*"))


def test_costs_that_do_not_know_a_row_are_an_error(experiment, capsys):
    device, span = device_name(torch.device("cpu")), dict.fromkeys(RANGED, 1)
    FittedCosts(device, (Fit("SAMPLE", 8, "bytes", (1.0, 0.0), span, span, 0.1, 8),), {}).save(Path("other.json"))
    command("bench", experiment(costs="other.json", strategies=["psg"]), expect=2)
    assert f"strategy 'psg' on 1 rank: costs fitted on {device}: no fit for" in one_line(capsys)
    assert not list(Path("runs").glob("*bench*/*ranks-*"))


def test_modelled_strategies_are_not_executed(experiment, capsys):
    for name in ("bench", "validate"):
        command(name, experiment(strategies=["psg", "dgc"]), expect=2)
        assert "strategy 'dgc' is simulated only" in one_line(capsys)
    assert not list(Path("runs").glob("*/*ranks-*")) and not list(Path("runs").glob("*/*profile*"))


@pytest.mark.parametrize(
    ("given", "size"),
    [("2GB", 2e9), (2_000_000_000, 2e9), ("1.5 GiB", 1.5 * 2**30), ("512 MB", 512e6), ("100k", 1e5), ("7", 7), (None, None)],
)
def test_sizes(given, size):
    assert files.check({"dataset": "growth_small", "memory": given}, "x").memory == size


@pytest.mark.parametrize("given", ["2 gigs", "", -1, 0, "0GB", True, [1], "1e9", "٣GB"])
def test_sizes_that_are_none(given):
    with pytest.raises(UserError, match=r"x: memory: expected bytes or a size such as 2GB, 512MB or 1\.5GiB, got"):
        files.check({"dataset": "growth_small", "memory": given}, "x")


def test_a_rank_has_its_share_of_what_is_available(monkeypatch):
    monkeypatch.setattr(
        "chronoscale.harness.execute.machine.psutil.virtual_memory", lambda: type("m", (), {"available": 8_000, "total": 64_000})()
    )
    for limit, ranks, each in ((None, 1, 8000), (None, 4, 2000), (1000, 4, 1000), (3000, 4, 2000)):
        given = files.check({"dataset": "growth_small", "device": "cpu", "memory": limit}, "x")
        assert this_machine(given, FittedCosts("here", (), {}), ranks).device.memory == each


def test_this_machine_has_the_links_that_were_fitted():
    given, links = files.check({"dataset": "growth_small", "device": "cpu"}, "x"), (Link(1e9, 0), Link(2e9, 1))
    machine = this_machine(given, FittedCosts("here", (), {}, *links), 2)
    assert (machine.intra, machine.inter, machine.gather) == (links[0], links[0], links[1])


@pytest.mark.parametrize("name", ["psg", "real-reuse"])
@pytest.mark.parametrize("layers", [1, 2])
def test_the_planned_peak_is_what_torch_allocates(name, layers, tmp_path):
    """Within 0.8 to 1.2 (docs/execution.md): what lives on, and a gradient pass's own."""
    graphs = GrowthGraph.rmat(1000, 6000, 10, 0.1, 2).sequence().without_self_edges()
    machine = presets.local_cpu(1, 1e12, Link(1e9, 0))
    machine = replace(machine, device=replace(machine.device, streams=INLINE))
    costs = DatasheetCosts(machine.device)
    work = Workload("w", statistics_of(graphs), model_shape("wd-gcn", 16, 16, layers), Hyper())
    schedule = strategy(name).plan(work, 1, costs)
    planned = peaks(schedule, replay(schedule, machine, costs))[0]
    context = Context()
    program = SnapshotProgram(schedule, SnapshotMaterial(graphs, 16), Learner(SnapshotModel(work.model), context), work.hyper, context)
    execute(schedule, program, CpuLanes(False), "cpu")  # the optimiser's moments are there from now on
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as seen:
        execute(schedule, program, CpuLanes(False), "cpu")
    seen.export_chrome_trace(str(tmp_path / "trace.json"))
    events = [e for e in json.loads((tmp_path / "trace.json").read_text())["traceEvents"] if e.get("name") == "[memory]"]
    held = np.cumsum([e["args"]["Bytes"] for e in sorted(events, key=lambda e: e["ts"])])
    standing = schedule.resident  # parameters, gradients and moments, taken before
    assert 0.8 < (held.max() + standing) / planned < 1.2
