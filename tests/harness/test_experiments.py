"""Experiments from files and from runs: which family reads them, what of an earlier version is still read, and when a run goes on."""

import json
import re
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.errors import UserError
from chronoscale.harness.execute.profiles import find_profile
from chronoscale.harness.keys.experiment_files import check, parse
from chronoscale.harness.keys.families import FAMILIES, family_of, family_of_dataset, family_of_model
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import find_runs, load_experiment
from chronoscale.harness.simulate.simulation import simulate
from chronoscale.harness.workflows.execution_registry import EXECUTIONS
from chronoscale.harness.workflows.registry import WORKFLOWS

# As every run before families had keys of their own wrote it.
EARLIER = {
    "dataset": {"name": None, "path": "graphs", "cut": None, "window": None, "format": None, "options": {}, "scale": 1, "missing": None}
    | {"time_of_day": None},
    "model": {"name": "t-gcn", "hidden": 8, "layers": 1, "inputs": 8, "hops": 2, "heads": 4},
    "training": {"group_size": 4, "stride": 1, "groups_per_rank": 1, "batch_size": 64, "window": 12, "horizon": None, "batches": 0}
    | {"validation": True, "standardise": "training", "variant": "exact", "learning_rate": 0.01},
    "strategies": ["psg"], "ranks": [1], "groups": 6, "epochs": 20, "repeats": 2, "warmup": 0, "threads": 1, "device": "auto",
    "transfer_thread": False, "memory": None, "cluster": "h200", "gpus": [1], "costs": "auto", "extrapolate": False, "seed": 0,
}  # fmt: skip
PLANNER = """
from chronoscale.strategies.snapshots.groups import deal
from chronoscale.strategies.snapshots.lowering import Reuse
from chronoscale.strategies.snapshots.strategy import GroupStrategy


class Mine(GroupStrategy):
    name, title, source, reuse = "mine", "Mine", "here", Reuse()

    def place(self, workload, ranks, costs):
        return deal(workload.groups, ranks, EACH)
"""


def test_every_family_is_found_by_its_name_its_models_and_its_data():
    assert set(FAMILIES) == {"snapshots", "signals", "streams"} and set(WORKFLOWS) == set(EXECUTIONS) == set(FAMILIES)
    for name, family in FAMILIES.items():
        assert family.keys.family == name and family_of(check({"dataset": "x", "model": next(iter(family.models))}, "t")) is family
        assert all(family_of_model(model) is family for model in family.models) and family.preferred
    for family in FAMILIES.values():
        assert family_of_dataset(object.__new__(family.container)) is family


def test_a_run_of_an_earlier_version_is_read(experiment):
    experiment()
    parsed = parse(EARLIER, "resolved.json")
    assert (parsed.family, parsed.training.horizon, parsed.model.inputs) == ("snapshots", 1, 8)
    run = Run(Path("runs/old-simulate-1"))
    run.folder.mkdir(parents=True)
    changed = {**EARLIER["model"], "hops": 3}  # another family's default of then, if it were another now
    run.write("resolved.json", {"name": "old", **EARLIER, "model": changed})
    run.write("environment.json", {})
    run.write("status.json", {"command": "simulate", "digest": "x", "state": "running"})
    simulate(load_experiment(run), run)
    run.finish()
    assert find_runs(Path("runs")) == [run]
    command("report", run.folder)


@pytest.mark.parametrize(
    ("part", "key", "value", "message"),
    [
        ("training", "window", 13, "training.window: for signals alone, and model 't-gcn' trains on snapshots"),
        ("model", "hops", 3, "model.hops: for signals alone"),
        ("dataset", "missing", 0.0, "dataset.missing: for signals alone"),
        ("training", "widow", 1, "unknown key 'training.widow'"),
    ],
)
def test_what_is_not_read_is_not_taken(part, key, value, message):
    with pytest.raises(UserError, match=message):
        parse({**EARLIER, part: {**EARLIER[part], key: value}}, "x.yaml")


def test_a_dry_run_tells_what_it_has_executed_where_it_refuses(experiment, capsys):
    Path("mine.py").write_text("")
    command("simulate", experiment("lab", strategies=["psgg"], modules=["mine.py"]), "--dry-run", expect=2)
    note, refused = capsys.readouterr().err.replace(f"{Path.cwd()}/", "").splitlines()
    assert note.startswith("--dry-run has executed mine.py: experiments run") and "psgg" in refused


@pytest.mark.slow
def test_a_run_whose_plug_in_is_gone_is_still_a_run(experiment, capsys):
    Path("lab.py").write_text(PLANNER.replace("EACH", "1"))
    Path("models.py").write_text("from chronoscale.strategies.snapshots.models import MODELS, Kind\nMODELS['other'] = Kind('gcn', 'gru')\n")
    file = experiment(
        "lab", strategies=["lab.py:Mine"], modules=["models.py"], model={"name": "other", "hidden": 8, "inputs": 8}, gpus=[1, 2]
    )
    command("simulate", file, "--dry-run")
    assert "--dry-run has executed models.py, lab.py: experiments run" in capsys.readouterr().err.replace(f"{Path.cwd()}/", "")
    command("simulate", file)
    for gone in ("lab.py", "models.py"):
        Path(gone).unlink()
    from chronoscale.strategies.snapshots.models import MODELS  # noqa: PLC0415 (what the module added)

    del MODELS["other"]
    capsys.readouterr()
    command("report", "runs/lab-simulate-1")
    assert "mine" in Path("report/index.html").read_text()
    command("simulate", experiment(gpus=[1]))
    assert "left aside" not in capsys.readouterr().err
    command("simulate", file, expect=2)
    assert "models.py: no such file" in one_line(capsys)


def test_a_changed_file_begins_a_new_run(experiment, capsys, monkeypatch):
    """An interrupted run goes on with the strategy that it began with, and with no other."""
    Path("lab.py").write_text(PLANNER.replace("EACH", "1"))
    file = experiment("lab", strategies=["lab.py:Mine"], gpus=[1])
    command("simulate", file)
    status = Path("runs/lab-simulate-1/status.json")
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "running"}))
    monkeypatch.setattr(Run, "lock", lambda self: True)  # this process has it from before
    command("simulate", file)
    assert "taking up" in capsys.readouterr().err
    status.write_text(json.dumps({**json.loads(status.read_text()), "state": "running"}))
    Path("lab.py").write_text(PLANNER.replace("EACH", "2"))
    command("simulate", file)
    assert "taking up" not in capsys.readouterr().err and Path("runs/lab-simulate-2").exists()


def test_two_strategies_of_one_name(experiment, capsys):
    Path("lab.py").write_text(PLANNER.replace("EACH", "1") + "\n\nclass Twin(Mine):\n    pass\n")
    command("simulate", experiment(strategies=["lab.py:Mine", "lab.py:Twin"]), expect=2)
    assert "strategies: two are called 'mine'" in one_line(capsys)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return 1 / 0", "ZeroDivisionError"),
        ("return deal(workload.groups - 2, ranks)", "expected a place for each of 6 groups on 2 ranks, got int64 \\[4\\]"),
        ("return deal(workload.groups, 1)", "on 1 ranks"),
        ("found = deal(workload.groups, ranks); return Placement(ranks, found.rank / 1, found.iteration, found.slot)", "got float64"),
        (
            "found = deal(workload.groups, ranks); return Placement(ranks, 0 * found.rank, 0 * found.iteration, found.slot)",
            "ValueError: placement",
        ),
    ],
)
def test_a_place_that_is_none_is_one_line(experiment, capsys, body, message):
    Path("lab.py").write_text(
        PLANNER.replace("return deal(workload.groups, ranks, EACH)", body).replace("import deal", "import Placement, deal  # noqa")
    )
    command("simulate", experiment(strategies=["lab.py:Mine"], gpus=[2]), expect=2)
    assert re.search(f"strategy 'mine': .*{message}", one_line(capsys))


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("return None", "expected a Schedule, got NoneType"),
        (
            "return replace(PSG.plan(workload, ranks, costs), name='other')",
            "expected a schedule of 'mine', 2 ranks, kind 'groups', got 'other'",
        ),
        ("return replace(PSG.plan(workload, 1, costs), name='mine')", "got 'mine', 1 ranks"),
        ("return replace(PSG.plan(workload, ranks, costs), name='mine', kind='parts')", "kind 'parts'"),
    ],
)
def test_a_plan_of_another_kind_is_one_line(experiment, capsys, body, message):
    Path("lab.py").write_text(
        "from dataclasses import replace\nfrom chronoscale.strategies.baselines.snapshots.whole_groups import PSG\n"
        + PLANNER.replace("    def place(self", f"    def plan(self, workload, ranks, costs):\n        {body}\n\n    def place(self")
    )
    file = experiment(strategies=["lab.py:Mine"], gpus=[2])
    for arguments in (("simulate", file), ("simulate", file, "--dry-run")):
        command(*arguments, expect=2)
        assert message in one_line(capsys)


def test_a_kind_that_nothing_executes_is_refused_before_anything_runs(experiment, capsys):
    Path("lab.py").write_text(PLANNER.replace("    def place", "    kind = 'chunks'\n\n    def place"))
    command("bench", experiment(strategies=["lab.py:Mine"]), expect=2)
    assert "plans schedules of kind 'chunks', which nothing executes; kinds: collectives, groups" in one_line(capsys)


@pytest.mark.parametrize("modules", [None, 3, [3], "lab.py"])
def test_modules_of_a_wrong_kind(experiment, capsys, modules):
    command("simulate", experiment(modules=modules), expect=2)
    assert "modules" in one_line(capsys)


@pytest.mark.slow
def test_a_profile_of_other_modules_is_not_taken(experiment, inline):
    Path("lab.py").write_text("")
    file = experiment(modules=["lab.py"], strategies=["psg"])
    command("profile", file)
    run = find_runs(Path("runs"))[0]
    assert find_profile(load_experiment(run), Path("runs")) == run
    Path("lab.py").write_text("# other\n")
    assert find_profile(load_experiment(run), Path("runs")) is None


@pytest.mark.slow
def test_a_cluster_of_a_file(experiment, capsys):
    command("simulate", experiment(cluster="nowhere.yaml"), expect=2)
    assert "nowhere.yaml" in one_line(capsys)
    Path("lab-cluster.yaml").write_text(
        "origin: here\ndevice: nvidia-a40\nnodes: 1\ngpus_per_node: 2\n"
        "intra: {bandwidth: 1e9, latency_s: 1e-5}\ninter: {bandwidth: 1e9, latency_s: 1e-5}\n"
    )
    command("simulate", experiment(cluster="lab-cluster.yaml", gpus=[1, 2]), "--json")
    assert len(json.loads(capsys.readouterr().out)) == 6
