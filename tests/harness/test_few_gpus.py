"""Fewer GPUs than ranks: as many ranks as find one, in words, and never on the CPU instead."""

import json
import warnings
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.cli import demo
from chronoscale.harness.cli.experiment_argument import read_experiment
from chronoscale.harness.cli.sessions import execution_session
from chronoscale.harness.execute import machine
from chronoscale.harness.execute.machine import check_seats, fit_ranks_to_gpus, this_device
from chronoscale.harness.keys.experiment_files import check, load
from chronoscale.harness.planning.cost_models import cluster_costs
from chronoscale.harness.publish.settings import executed
from chronoscale.harness.runs.start import load_experiment
from chronoscale.simulator import presets
from chronoscale.strategies.costs import Fit, FittedCosts

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.yaml"))
NO_RANKS = {"dataset": "growth_small"}


@pytest.fixture
def one_gpu(monkeypatch):
    there(monkeypatch, 1)


def there(monkeypatch, count):
    monkeypatch.setattr(machine, "gpus", lambda: count)


@pytest.mark.parametrize(
    ("gpus", "given", "remaining", "message"),
    [
        (
            1,
            {},
            (1,),
            "1 GPU here, and a rank takes one: runs on 1 rank, not on 2 (ranks: [1, 2] is the default); set device: cpu to run all",
        ),
        (1, {"device": "cuda"}, (1,), "runs on 1 rank, not on 2 (ranks: [1, 2] is the default)"),
        (1, {"ranks": [1, 2, 4]}, (1,), "runs on 1 rank, not on 2, 4; set device: cpu to run all of them on the CPU"),
        (2, {"ranks": [4, 1, 2]}, (1, 2), "2 GPUs here, and a rank takes one: runs on 1, 2 ranks, not on 4; set"),
        (2, {"ranks": [4, 8]}, (2,), "runs on 2 ranks, not on 4, 8; set"),
        (1, {"ranks": [1, 2], "device": "cuda"}, (1, 2), None),  # refused by `seat`
        (1, {"ranks": [1, 2, 4], "share_gpu": True}, (1, 2, 4), None),
        (1, {"ranks": [1]}, (1,), None),
        (2, {}, (1, 2), None),
        (1, {"device": "cpu"}, (1, 2), None),
        (0, {}, (1, 2), None),
    ],
)
def test_ranks_without_a_gpu_are_left_out_and_reported(monkeypatch, gpus, given, remaining, message):
    there(monkeypatch, gpus)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        experiment = fit_ranks_to_gpus(check({**NO_RANKS, **given}, "x"))
    lines = [str(one.message) for one in caught]
    assert experiment.ranks == remaining and len(lines) == (message is not None)
    assert message is None or message in lines[0]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_every_example_runs_on_one_gpu(one_gpu, file):
    experiment = fit_ranks_to_gpus(load(file))
    check_seats(experiment, experiment.ranks)
    assert experiment.ranks == (1,) and this_device(experiment.device).type == "cuda"


def test_the_demonstration_runs_on_one_gpu(one_gpu, monkeypatch, tmp_path):
    monkeypatch.setattr(demo, "fingerprint", lambda device: {"device": device.type})
    with pytest.warns(ChronoscaleWarning, match="runs on 1 rank, not on 2"):
        experiment, run = demo.begin("validate", demo.EXECUTED, tmp_path)
    assert experiment.ranks == (1,) == load_experiment(run).ranks and run.environment == {"device": "cuda"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # ranks are nothing to a simulation
        demo.begin("simulate", demo.SIMULATED, tmp_path)


def test_a_run_is_of_the_ranks_that_it_has(one_gpu, monkeypatch, experiment, tmp_path):
    """So that nothing is missing from it, and the same command takes it up."""
    monkeypatch.setattr(execution_session, "fingerprint", lambda device: {"device": device.type})

    def begin(name, file, seats=True, **changes):
        return execution_session.begin_execution(name, read_experiment(file, None, **changes), file, tmp_path / "runs", seats)

    for name in ("profile", "bench", "train"):
        with pytest.warns(ChronoscaleWarning, match="runs on 1 rank, not on 2"):
            begun, run = begin(name, experiment(ranks=[1, 2]))
        assert begun.ranks == load_experiment(run).ranks == (1,) and begun.digest() == run.status.digest
    assert begin("train", experiment(), seats=False, ranks=[2])[0].ranks == (2,)  # of the command line: not left out
    assert begin("simulate", experiment(ranks=[1, 2]), seats=False)[0].ranks == (1, 2)


def test_what_is_printed(one_gpu, experiment, capsys):
    for name in ("bench", "validate"):
        command(name, experiment(ranks=[1, 2], strategies=["psg"]), "--dry-run", "--json")
        output = capsys.readouterr()
        assert [row["ranks"] for row in json.loads(output.out)] == [1]
        assert "warning: ranks: 1 GPU here, and a rank takes one: runs on 1 rank, not on 2; set device: cpu" in " ".join(output.err.split())
    command("bench", experiment(ranks=[1, 2], device="cuda"), "--dry-run", expect=2)
    assert "ranks: 2 ranks, and 1 GPU; run fewer ranks, or set device: cpu" in one_line(capsys)


def test_ranks_that_share_a_gpu_say_so(one_gpu, monkeypatch, experiment, capsys):
    """In words, in what a run keeps, and in what its figures are compared by."""
    monkeypatch.setattr(execution_session, "fingerprint", lambda device: {"device": device.type})
    command("bench", experiment(ranks=[1, 2], share_gpu=True, device="cuda", strategies=["psg"]), "--dry-run", "--json")
    output = capsys.readouterr()
    assert [row["ranks"] for row in json.loads(output.out)] == [1, 2]
    words = "ranks: 2 ranks share one GPU (share_gpu: true): their times are not those of ranks with a GPU each"
    assert words in " ".join(output.err.split())
    facts = []
    for shares in (True, False):
        file = experiment(share_gpu=shares, ranks=[1])
        begun, run = execution_session.begin_execution("bench", read_experiment(file, None), file, Path("runs"))
        assert run.environment.get("share_gpu") == ("true" if shares else None)
        facts.append(executed(run, begun))
    assert facts[0] != facts[1] and facts[0].fact("share_gpu") == "true"


def test_a_key_for_gpus_says_nothing_of_a_cpu(monkeypatch):
    there(monkeypatch, 0)
    assert machine.sharing(check({**NO_RANKS, "share_gpu": True}, "x")) == {}


def test_what_was_fitted_on_a_shared_gpu_is_no_cost_of_others(experiment, tmp_path):
    span = {"bytes": 1, "rows": 1}
    curve = Fit("SAMPLE", 8, "bytes", (1.0, 0.0), span, span, 0.1, 8)
    FittedCosts("NVIDIA H200", (curve,), {"share_gpu": "true"}).save(tmp_path / "costs.json")
    given = {**NO_RANKS, "costs": str(tmp_path / "costs.json")}
    cluster = presets.cluster("h200")
    with pytest.raises(UserError, match=r"costs: .*costs.json was fitted on ranks that share a GPU; name a profile of others"):
        cluster_costs(check(given, "x"), cluster)
    assert cluster_costs(check({**given, "extrapolate": True}, "x"), cluster).taken_for == cluster.device.name
    assert not cluster_costs(check({**given, "share_gpu": True}, "x"), cluster).taken_for


def test_a_gpu_that_is_requested_and_absent_is_refused(monkeypatch, experiment, capsys):
    there(monkeypatch, 0)
    command("bench", experiment(device="cuda"), expect=2)
    assert "device: cuda, and there is no GPU that torch can use here; set device: cpu, or leave it out" in one_line(capsys)
