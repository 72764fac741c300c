"""`chronoscale compare` as a command: executed and at scale, what it refuses, and trainings that go on after a loss."""

import json
import warnings
from importlib import resources
from pathlib import Path

import pytest
import yaml
from command_line import command, one_line

from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.compare import trainings
from chronoscale.harness.compare.compare import compared as prepare
from chronoscale.harness.keys.experiment_files import check
from chronoscale.harness.runs.noise import Noise
from chronoscale.harness.runs.run_folder import Run
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.strategies.schedule import Schedule

COMPARED = {
    "strategies": ["psg", "esdg", "flaredtdg"],
    "ranks": [1],
    "epochs": 2,
    "repeats": 2,
    "costs": "datasheet",
    "training": {"validation": 0.3, "group_size": 2, "full": 1, "decayed": 1, "chunks": 4},
    "compare": {"seeds": 2, "rates": [0.01, 0.03]},
}


def test_strategies_are_trained_to_one_target(inline, experiment, capsys) -> None:
    command("compare", experiment(**{**COMPARED, "compare": {**COMPARED["compare"], "target": "psg"}}), "--json")
    result = json.loads(capsys.readouterr().out)
    folder = Path("runs/small-compare-1")
    trained = {path.name for path in (folder / "trainings").iterdir()}
    assert result["verdict"].startswith("No strategy beats the exponential smoothing without a model: validation MSE ")
    assert " Target: validation MSE " in result["verdict"] and result["ranks"] == [1] and result["seeds"] == [0, 1]
    assert {name.split("-")[0] for name in trained} == {"psg", "flaredtdg"}  # esdg trains as psg, a group a step
    assert len(trained) == 2 * 3 and result["curves"]["psg"] == result["curves"]["esdg"]
    assert all(len(curve) == 2 for curves in result["curves"].values() for curve in curves.values())
    by_name = {row["strategy"]: row for row in result["strategies"]}
    assert by_name["esdg"]["alike"] == "psg" and by_name["psg"]["learning_rate"] in (0.01, 0.03)
    for row in by_name.values():
        seconds = [value for value in result["seconds"][row["strategy"]] if value is not None]
        assert row["reached"] == len(seconds)
        for value in seconds:
            assert value / row["epoch_s"] == pytest.approx(round(value / row["epoch_s"]))
    assert list(result["naive"]) == ["last value", "training mean", "linear trend", "mean so far", "exponential smoothing"]
    assert all(result["naive_meanings"][name] for name in result["naive"])
    assert json.loads((folder / "compare.json").read_text()) == result and (folder / "compare.svg").exists()
    command("report", folder, "--out", "page")
    assert result["verdict"] in Path("page/report.md").read_text() and Path("page/figures/compare.svg").exists()
    assert json.loads(Path("page/report.json").read_text())["advice"][0]["headline"] == result["verdict"]
    assert "at equal steps" in Path("page/index.html").read_text()


def test_a_strategy_of_a_file_is_compared_by_the_name_that_it_has(experiment, monkeypatch) -> None:
    own = f"{Path(__file__).parents[2] / 'examples' / 'strategy.py'}:LongestFirst"
    settings = check({**yaml.safe_load(experiment(**COMPARED).read_text()), "strategies": ["psg", own]}, "compare")
    monkeypatch.setattr(trainings, "load_schedules", lambda folder: {"psg": None, "longest-first": None})
    assert [each.strategy for each in trainings.Trainings(settings, Run(Path("runs/x"))).schedules] == ["psg", "longest-first"]


def test_times_that_were_taken_amid_noise_are_said_to_be(inline, experiment, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Noise, "why", "a lorry passed")
    command("compare", experiment(**{**COMPARED, "strategies": ["psg"], "epochs": 1, "compare": {"seeds": 1, "rates": [0.01]}}), "--json")
    assert any("a lorry passed" in note for note in json.loads(capsys.readouterr().out)["notes"])


def test_scales_learn_as_many_ranks_do_in_simulated_seconds(inline, experiment, capsys) -> None:
    file = experiment(**{**COMPARED, "strategies": ["psg", "flaredtdg"], "compare": {"seeds": 1, "rates": [0.01], "target": "psg"}})
    command("compare", file, "--gpus", "1,4", "--cluster", "polaris", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["ranks"] == [1, 4] and result["cluster"] == "polaris" and set(result["seconds"]) == set(result["curves"])
    assert set(result["curves"]) == {"psg on 1 GPU", "psg on 4 GPUs", "flaredtdg on 1 GPU", "flaredtdg on 4 GPUs"}
    run = Run(Path("runs/small-compare-1"))
    for row in result["strategies"]:
        name, ranks = row["strategy"], row["ranks"]
        schedule = Schedule.load(run.folder / f"scale-{ranks}" / f"{name}.schedule.parquet")
        assert schedule.ranks == ranks and row["steps"] == schedule.iterations
        command("simulate", file_with(file, gpus=[ranks], strategies=[name], cluster="polaris"), "--json")
        (simulated,) = json.loads(capsys.readouterr().out)
        assert row["epoch_s"] == pytest.approx(simulated["epoch_s"], rel=1e-6)
        met = [value <= result["target"] for value in result["curves"][row["label"]]["0"]]
        assert row["to_target_s"] == (pytest.approx((met.index(True) + 1) * row["epoch_s"]) if any(met) else None)
    learned = {label: curves["0"] for label, curves in result["curves"].items()}
    assert result["target"] == min(learned["psg on 1 GPU"]) and result["target_is"] == "what psg on 1 GPU reaches, by half of its seeds"
    assert learned["psg on 1 GPU"] != learned["psg on 4 GPUs"]
    single = file_with(file, ranks=[4], virtual=True, training={**COMPARED["training"], "learning_rate": 0.01})
    command("train", single, "--strategy", "flaredtdg")
    capsys.readouterr()
    trained = [record.scores["mse"] for record in epoch_records(Path("runs/small-train-1/train"))]
    assert learned["flaredtdg on 4 GPUs"] == pytest.approx(trained, rel=1e-4)
    command("report", run.folder, "--out", "page")
    assert result["verdict"] in Path("page/report.md").read_text()


def test_a_scale_leaves_out_what_has_no_plan_for_it(inline, experiment, capsys) -> None:
    """Parts of the vertices are not more than vertices."""
    keys = {**COMPARED, "strategies": ["distdgl"], "compare": {"seeds": 1, "rates": [0.01]}, "epochs": 1}
    command("compare", experiment(**keys), "--gpus", "1 100", "--json")
    result = json.loads(capsys.readouterr().out)
    assert any(note.startswith("distdgl on 100 GPUs is left out: ") for note in result["notes"]), result["notes"]
    assert result["ranks"] == [1]
    command("compare", experiment(**keys), "--gpus", "100", expect=2)
    assert one_line(capsys).startswith("error: distdgl on 100 GPUs is left out: ")
    for options, message in (
        (("--gpus", "100", "--target", "distdgl"), "distdgl on 100 GPUs is left out: "),
        (("--gpus", "1,2", "--ranks", "2"), "--gpus learns and simulates on so many GPUs, --ranks executes on so many ranks here"),
        (("--cluster", "polaris"), "--cluster is where --gpus are simulated; give --gpus, too"),
    ):
        command("compare", experiment(**keys), *options, expect=2)
        assert message in one_line(capsys)
    command("compare", experiment(**keys), "--gpus", "many", expect=2)
    assert one_line(capsys) == "error: --gpus many: expected numbers, such as 1,8,64"


def file_with(file: Path, **keys: object) -> Path:
    """Another experiment file beside one, with other keys."""
    other = file.with_name("other.yaml")
    other.write_text(json.dumps({**json.loads(file.read_text()), "name": file.stem, **keys}))
    return other


def test_what_was_trained_before_a_loss_is_not_trained_again(lose, experiment, capsys) -> None:
    file = experiment(**{**COMPARED, "strategies": ["psg"]})
    lose(1)
    command("compare", file, expect=1)
    kept = [path.stat().st_mtime_ns for path in sorted(Path("runs/small-compare-1/trainings").glob("*/epochs/000000.json"))]
    assert len(kept) == 1
    command("compare", file, "--json")
    output = capsys.readouterr()
    assert "taking up runs/small-compare-1" in output.err and not Path("runs/small-compare-2").exists()
    again = sorted(Path("runs/small-compare-1/trainings").glob("*/epochs/000000.json"))
    assert len(again) == 3 and again[0].stat().st_mtime_ns == kept[0]


def test_another_cluster_under_the_same_name_is_another_run(lose, experiment, capsys) -> None:
    """And two comparisons in one report have figures of their own."""
    file = experiment(**{**COMPARED, "strategies": ["psg"], "compare": {"seeds": 1, "rates": [0.01]}})
    text = (resources.files("chronoscale.simulator") / "clusters" / "polaris.yaml").read_text()
    Path("mine.yaml").write_text(text)
    lose(1)
    command("compare", file, "--gpus", "1", "--cluster", "mine.yaml", expect=1)
    Path("mine.yaml").write_text(f"{text}\n# mended\n")
    command("compare", file, "--gpus", "1", "--cluster", "mine.yaml")
    command("compare", file, "--gpus", "1", "--cluster", "polaris")
    assert "taking up" not in capsys.readouterr().err
    command("report", "runs/small-compare-2", "runs/small-compare-3", "--out", "page")
    assert {path.name for path in Path("page/figures").glob("*.svg")} == {"compare.svg", "compare-2.svg"}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"training": {"group_size": 2}}, "compare: nothing validates, so that no training has a score; set training.validation"),
        ({"compare": {"seeds": [1, 1]}}, "compare.seeds: expected one or more seeds of at least 0, each once, got [1, 1]"),
        ({"compare": {"target": {"share": 1.5}}}, "compare.target: share: above 0 and at most 1, got 1.5"),
        ({"compare": {"target": {"msee": 1.5}}}, "compare.target: unknown score 'msee'"),
        ({"compare": {"target": {"mse": 1, "ap": 1}}}, "compare.target: expected one score, or share, got mse, ap"),
        ({"strategies": ["psg", "tgl"]}, "strategies: 'tgl' is for streams"),
        ({"compare": {"rates": [0.1, 0.1]}}, "compare.rates: each once"),
        ({"virtual": True}, "compare: virtual: true learns as GPUs do; say on how many: gpus in the file, or --gpus 1,8,64"),
        ({"failures": {"mtbf_s": 1000.0}}, "compare: failures: trainings that nothing interrupts are compared"),
        ({"compare": {"target": "flaredtgd"}}, "compare.target: unknown strategy 'flaredtgd'"),
    ],
)
def test_mistakes_are_one_line_before_anything_starts(experiment, capsys, changes: dict, message: str) -> None:
    command("compare", experiment(**{**COMPARED, **changes}), expect=2)
    assert message in one_line(capsys)
    assert not Path("runs").exists()


def test_targets_on_the_command_line(inline, experiment, capsys) -> None:
    file = experiment(**{**COMPARED, "strategies": ["psg"], "compare": {"seeds": 1, "rates": [0.01]}})
    command("compare", file, "--target", "mse=0.5", "--json")
    assert json.loads(capsys.readouterr().out)["target"] == 0.5
    command("compare", file, "--target", "mse=low", expect=2)
    assert one_line(capsys) == "error: --target mse=low: expected a number after =, such as mse=0.077"
    command("compare", file, "--target", "ap=0.5", expect=2)
    assert one_line(capsys).endswith("compare.target: ap: this task has mse")


def test_without_names_all_that_can_plan_are_compared(experiment, capsys) -> None:
    """Attention is not for windows of convolutions; ablations and solvers wait until they are named."""
    changes = {**COMPARED, "model": {"name": "gat-lstm", "hidden": 4, "inputs": 4, "layers": 1}}
    file = experiment(**{key: value for key, value in changes.items() if key != "strategies"})
    data = json.loads(file.read_text())
    data.pop("strategies", None)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", ChronoscaleWarning)
        names = prepare(check(data, "x")).strategies
    assert any(str(warning.message).startswith("left out: flaredtdg: model 'gat-lstm' attends") for warning in caught)
    assert {"psg", "esdg", "distdgl", "real-g+"} <= set(names)
    assert not {"flaredtdg", "dynagraph", "real-l", "real-type1", "full-history"} & set(names)


def test_events_are_compared_by_their_own_score(inline, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {
        "dataset": "events_small", "model": {"name": "tgn", "hidden": 4, "time": 2}, "ranks": [1], "epochs": 1, "repeats": 1,
        "training": {"batches": 2, "batch_size": 50, "fanout": [2], "patience": 1}, "strategies": ["tgl", "fast", "memshare"],
        "compare": {"seeds": 1, "rates": [0.01], "target": "naive"},
    }  # fmt: skip
    Path("events.yaml").write_text(json.dumps(keys))
    command("compare", "events.yaml", "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["score"] == "ap" and next(iter(result["naive"])) == "EdgeBank" and len(result["naive"]) == 8
    assert result["curves"]["tgl"] == result["curves"]["fast"]
    assert {row["strategy"]: row["alike"] for row in result["strategies"]} == {"tgl": "fast", "fast": "tgl", "memshare": ""}
