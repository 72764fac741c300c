"""What changes nothing, or cannot be, is not accepted without a word; a command that is refused leaves nothing."""

import json
import os
import warnings
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.datasets.scores import SCORES
from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs import begun
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import start
from chronoscale.real_exec.measurement import host
from chronoscale.strategies import registry

SNAPSHOTS = {"dataset": "growth_small", "model": {"name": "t-gcn", "hidden": 8}, "strategies": ["psg"], "gpus": [4]}
STREAMS = {"dataset": "events_small", "model": {"name": "tgn", "hidden": 8}}


def told(keys: dict[str, object]) -> list[str]:
    """The warnings that reading an experiment gives."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        check(keys, "x.yaml")
    return [str(one.message) for one in caught]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(keys: dict[str, object], name: str = "x.yaml") -> Path:
    Path(name).write_text(json.dumps(keys))
    return Path(name)


# Keys that nothing reads


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("keys", [SNAPSHOTS, {**STREAMS, "strategies": ["fast"]}])
def test_a_topology_that_is_not_there_is_refused(folder, capsys, keys, threads):
    command("simulate", written({**keys, "topology": "cpus", "threads": threads}), expect=2)
    assert "x.yaml: topology: cpus: no such file" in one_line(capsys)


def test_a_topology_that_nothing_reads_is_told(folder):
    Path("cpus").write_text("# CPU,Core,Socket,Node,,L1d,L1i,L2,L3\n0,0,0,0,,0,0,0,0\n1,1,0,0,,1,1,1,0\n")
    nobody, fast = {**SNAPSHOTS, "topology": "cpus", "threads": 2}, {**STREAMS, "strategies": ["fast"], "topology": "cpus"}
    (line,) = told(nobody)
    assert line.startswith("topology: it changes nothing with psg; strategies that read it: fast, ")
    assert told(fast) == ["topology: it changes nothing on one thread (threads), which is never bound"]
    assert told({**fast, "threads": 2}) == []


@pytest.mark.parametrize(
    ("strategies", "training", "expected"),
    [
        (
            ["tgl"],
            {"cache_ratio": 0.5},
            "training.cache_ratio: it changes nothing with tgl; strategies that read it: taser, simple, ",
        ),
        (["tgl", "etc"], {"presample": 5}, "training.presample: it changes nothing with tgl, etc; strategies that read it: "),
        (["tgl-dist"], {"theta": 0.5}, "training.theta: it changes nothing with tgl-dist; strategies that read it: memshare"),
        (["memshare"], {"staleness": 2}, "training.staleness: it changes nothing with memshare; strategies that read it: mspipe"),
        (["disttgl"], {"shared": 0.3}, "training.shared: it changes nothing with disttgl; strategies that read it: memshare"),
        (["tgl", "fast"], {"cache_ratio": 0.5}, ""),
        (["memshare"], {"theta": 0.5, "alpha": 0.2, "shared": 0.2}, ""),
        (["tgl"], {"cache_ratio": 0.2}, ""),  # the default
        (["tgl"], {"batch_size": 7}, ""),
    ],
)
def test_a_key_that_no_strategy_reads_is_told(strategies, training, expected):
    lines = told({**STREAMS, "strategies": strategies, "training": training})
    assert len(lines) == bool(expected) and all(line.startswith(expected) for line in lines)


def test_a_strategy_that_may_read_anything_keeps_that_quiet(folder):
    """One of a user's file, that says nothing of what it reads."""
    lines = [
        "from chronoscale.strategies.baselines.streams import TGL",
        "from chronoscale.strategies.streams.strategy import StreamStrategy",
    ]
    lines += ["class Mine(StreamStrategy):", "    reads = None", "mine = Mine('mine', 'Mine', 'here', TGL.feeding)"]
    Path("lab.py").write_text("\n".join(lines))
    assert told({**STREAMS, "strategies": ["lab.py:mine"], "training": {"cache_ratio": 0.5}}) == []


def test_plans_and_samples_stay_where_a_key_is_said_to_be_unread():
    """Of all strategies on streams, by what they make of hyper-parameters with another value of each key that they do not read."""
    other = {
        "cache_ratio": 0.7, "presample": 3, "partition": "random", "shared": 0.4, "decay": 3.0, "theta": 0.9, "complete": False,
        "weight_cap": 0.0, "at_least_one": False, "remote_cache": 7, "replicas": 3, "staleness": 4,
    }  # fmt: skip
    usual = check({**STREAMS, "strategies": ["tgl"]}, "x").hyper
    read = set()
    for name, strategy in registry.of("streams").items():
        assert strategy.reads is not None
        read |= {key.removeprefix("training.") for key in strategy.reads}
        for key, value in other.items():
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                changed = check({**STREAMS, "strategies": ["tgl"], "training": {key: value}}, "x").hyper
            same = _made(strategy, usual) == _made(strategy, changed)
            assert same == (f"training.{key}" not in strategy.reads), (name, key)
    assert read == {*other, "alpha", "sent", "adaptive", "topology"}


def _made(strategy, hyper) -> object:
    """What a strategy makes of hyper-parameters before it plans: how batches are fed, and how a stream is distributed and sampled."""
    from chronoscale.strategies.streams.models import stream_shape  # noqa: PLC0415
    from chronoscale.strategies.workload import ModelChoice  # noqa: PLC0415

    shape = stream_shape(ModelChoice("tgn", 8), 4, 4, 0, 1)
    if strategy.kind == "events":
        loading = strategy.feeding.loading(hyper, shape)
        return strategy.feeding.sampling(hyper, shape), loading.compressed if loading.placement is None else loading
    data = type("Data", (), {"span": 10.0})
    staleness = hyper.events.sharing.staleness * strategy.sharing.stale
    return strategy.sharing.sampling(hyper, shape, data), strategy.sharing.spread(hyper), staleness


# What cannot be


@pytest.mark.parametrize("of", ["gpu", "node"])
def test_more_stragglers_than_gpus_are_refused(of):
    with pytest.raises(UserError) as caught:
        check({**SNAPSHOTS, "uncertainty": {"stragglers": {"count": 100, "of": of}}}, "x.yaml")
    assert str(caught.value) == (f"x.yaml: uncertainty.stragglers.count: 100 slow {of}s, and no more than 4 GPUs are simulated (gpus)")
    check({**SNAPSHOTS, "uncertainty": {"stragglers": {"count": 4}}}, "x.yaml")


def test_gpus_that_fail_all_the_time_are_told(folder, capsys):
    keys = {**SNAPSHOTS, "gpus": [1], "epochs": 2, "failures": {"mtbf_s": 1e-9, "draws": 2}}
    command("simulate", written(keys))
    said = " ".join(capsys.readouterr().err.split())
    assert "psg on 1 GPU: no training comes to its end, each was given up after 10,000 failures (failures.mtbf_s is in seconds" in said
    command("report", "runs/x-simulate-1")
    assert "psg on 1 GPU: no training comes to its end" in Path("report/report.md").read_text().replace("\\", "")
    command("simulate", written({**keys, "failures": {"mtbf_s": 1e9, "draws": 2}}, "y.yaml"))
    assert "comes to its end" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("keys", "grid", "expected"),
    [
        (
            SNAPSHOTS,
            {"training.learning_rate": [0.1, 0.2]},
            "training.learning_rate: it changes nothing that is simulated, 0.1 ",
        ),
        (SNAPSHOTS, {"engine": ["native", "simpy"]}, "engine: it changes nothing that is simulated"),
        (SNAPSHOTS, {"training.group_size": [2, 3], "hang_after": [1.0, 2.0]}, "hang_after: it changes nothing that is simulated"),
        (
            {**STREAMS, "strategies": ["tgl"], "gpus": [1]},
            {"training.cache_ratio": [0.1, 0.2]},
            "training.cache_ratio: it changes nothing with tgl; strategies that read it: taser, ",
        ),
    ],
)
def test_a_grid_over_a_key_that_changes_nothing_is_refused(folder, capsys, keys, grid, expected):
    command("advise", written({**keys, "advise": {"grid": grid}}), "--dry-run", expect=2)
    assert f"x.yaml: advise.grid: {expected}" in one_line(capsys)


def test_a_grid_that_changed_nothing_is_told(folder, capsys):
    """Negatives of a task that has none: only simulations tell."""
    keys = {**SNAPSHOTS, "gpus": [1], "advise": {"grid": {"training.group_size": [2, 3], "training.ranked": [5, 50]}}}
    command("advise", written(keys))
    said = " ".join(capsys.readouterr().err.split())
    assert "advise.grid: training.ranked: it changed nothing that was simulated" in said and "group_size: it changed" not in said


# One way to write a share


def test_shares_are_written_alike_in_tables_and_sentences():
    import pandas as pd  # noqa: PLC0415

    from chronoscale.harness.cli.output import _shown  # noqa: PLC0415
    from chronoscale.reports.table_formats import READING, to_markdown  # noqa: PLC0415

    assert SCORES["mape"].describe(1.1009) == "MAPE 110.09%"
    for column in ("mape", "last_mape", "best_accuracy"):
        assert _shown(column, 1.1009) == READING[column][1](1.1009) == "110.09%"
        assert "| 110.09% |" in to_markdown(pd.DataFrame({column: [1.1009]}))
    assert _shown("mae", 1.1009) == "1.101" and _shown("mape", float("nan")) == "–"


# Nothing is left


def test_a_refused_command_leaves_nothing(folder, capsys):
    """Also where data have been stored before they turned out too short."""
    file = written({**SNAPSHOTS, "training": {"group_size": 500}})
    for order in ("simulate", "train", "bench", "profile", "validate"):
        command(order, file, expect=2)
        assert "needs" in one_line(capsys)
        assert not Path("runs").exists(), order
    command("simulate", written(SNAPSHOTS, "y.yaml"))
    command("simulate", file, expect=2)
    assert [path.name for path in Path("runs").iterdir()] == ["y-simulate-1"]


def test_what_was_computed_stays_when_a_command_is_refused(folder):
    experiment = check(SNAPSHOTS, "x")
    for number, (piece, left) in enumerate({"data": False, "parts-4": False, "ranks-1": True, "sim-00001-psg": True}.items()):
        run, _ = start(Path("runs"), "bench", experiment, "", {"number": str(number)})
        run.piece(piece, lambda part: part.joinpath("file").write_text("x"))
        begun.leave_nothing(UserError("no"))
        assert run.folder.exists() == left
    run, resumed = start(Path("runs"), "bench", experiment, "", {"number": "2"})
    assert not resumed  # another process, this one, has it
    begun.forget()
    begun.leave_nothing(UserError("no"))
    assert run.folder.exists()


def test_a_run_that_was_taken_up_stays(folder, capsys):
    experiment = check({**SNAPSHOTS, "training": {"group_size": 500}}, "x")
    file = written({**SNAPSHOTS, "training": {"group_size": 500}})
    command("simulate", written(SNAPSHOTS, "y.yaml"))
    one = Path("runs/y-simulate-1")
    status = json.loads((one / "status.json").read_text())
    (one / "status.json").write_text(json.dumps({**status, "state": "running", "digest": experiment.digest()}))
    assert Run(one).read("environment.json", dict[str, str])
    command("simulate", file, expect=2)
    assert one.exists() and "sim-00004-psg" in {path.name for path in one.iterdir()}


@pytest.mark.parametrize("content", [None, "nothing that can be executed"])
def test_a_git_that_cannot_be_executed_ends_nothing(folder, monkeypatch, content):
    (folder / "bin").mkdir()
    if content is not None:
        (folder / "bin/git").write_text(content)
    for mode in (0o644, 0o755):
        if content is not None:
            os.chmod(folder / "bin/git", mode)
        monkeypatch.setenv("PATH", str(folder / "bin"))
        assert "commit" not in host.host_facts() and host.host_facts()["cores"]
