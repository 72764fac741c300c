"""`chronoscale advise`: the candidates that it compares, their ranking, and the reasons that it prints."""

import json
import shutil
from pathlib import Path

import pytest
import yaml
from command_line import command, one_line

from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.runs.run_folder import Run

ROOT = Path(__file__).parents[2]
TINY = {
    "name": "tiny", "origin": "a test", "device": "nvidia-h200", "nodes": 2, "gpus_per_node": 2,
    "intra": {"bandwidth": 4e11, "latency_s": 1e-6}, "inter": {"bandwidth": 5e10, "latency_s": 5e-6},
}  # fmt: skip


def tiny(stem: str = "tiny", **changes: object) -> str:
    data = {key: value for key, value in {**TINY, **changes}.items() if key != "name"}
    Path(f"{stem}.yaml").write_text(yaml.safe_dump(data))
    return f"{stem}.yaml"


@pytest.mark.slow
def test_all_points_are_ranked_by_time(advised):
    advice = advised(advise={"grid": {"training.group_size": [2, 4]}})
    points = advice["points"]
    assert [one["rank"] for one in points] == list(range(1, 9)) and advice["objective"] == "time"
    assert {(one["strategy"], one["gpus"], one["settings"]["training.group_size"]) for one in points} == {
        (name, gpus, size) for name in ("psg", "real-g+") for gpus in (1, 4) for size in (2, 4)
    }
    times = [one["epoch_s"] for one in points]
    assert times == sorted(times) and points[0]["behind"] == 0 and points[1]["behind"] == pytest.approx(times[1] / times[0] - 1, rel=1e-9)
    assert all(sum(blame["share"] for blame in one["critical_path"]) == pytest.approx(1, rel=1e-9) for one in points)
    steps = "an epoch of those that rank is 1 to 6 steps on 384 to 384 targets: no rank says how many epochs an error takes, "
    learned = "training.group_size: what is learned changes with it, and no rank says how well"
    assert sorted(advice["notes"]) == sorted([steps + "`chronoscale compare` does", learned])


@pytest.mark.slow
def test_a_point_is_what_simulate_says_of_it(advised, experiment, capsys):
    points = advised()["points"]
    command("simulate", experiment(strategies=["psg", "real-g+"], gpus=[1, 4]), "--json")
    simulated = {(row["strategy"], row["ranks"]): row for row in json.loads(capsys.readouterr().out)}
    for one in points:
        assert one["epoch_s"] == simulated[one["strategy"], one["gpus"]]["epoch_s"]
        assert one["gpu_hours"] == pytest.approx(one["gpus"] * 20 * one["epoch_s"] / 3600, rel=1e-9)  # of 20 epochs
        assert one["hours"] == pytest.approx(20 * one["epoch_s"] / 3600, rel=1e-9)


def test_what_is_not_named_is_all_that_simulates(experiment, capsys):
    Path("small.yaml").write_text(json.dumps({"dataset": {"path": "graphs"}, "groups": 6, "cluster": tiny()}))
    command("advise", "small.yaml", "--dry-run", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert {row["gpus"] for row in rows} == {1, 2, 4}  # of a cluster of four
    names = {row["strategy"] for row in rows}
    assert {"psg", "esdg", "distdgl", "real-g+", "flaredtdg"} <= names and "real-l" not in names
    assert not Path("runs").exists()


def test_a_cluster_of_six_is_tried_whole(experiment, capsys):
    Path("small.yaml").write_text(json.dumps({"dataset": {"path": "graphs"}, "strategies": ["psg"], "cluster": tiny(nodes=3)}))
    command("advise", "small.yaml", "--dry-run", "--json")
    assert [row["gpus"] for row in json.loads(capsys.readouterr().out)] == [1, 2, 4, 6]


@pytest.mark.slow
def test_objectives_and_prices(advised):
    clusters = {"clusters": ["h200", "a100"], "prices": {"h200": 3.5, "a100": 0.5}}
    for objective, key in (("time", "epoch_s"), ("memory", "peak_bytes"), ("gpu-hours", "gpu_hours"), ("cost", "cost")):
        advice = advised("--objective", objective, stem=objective, gpus=[1, 2], advise=clusters)
        values = [one[key] for one in advice["points"]]
        assert values == sorted(values) and advice["headline"].startswith(f"First by {objective}: "), objective
    price = {"h200": 3.5, "a100": 0.5}
    assert all(one["cost"] == pytest.approx(one["gpu_hours"] * price[one["cluster"]], rel=1e-9) for one in advice["points"])


def test_the_front_is_what_no_other_beats_in_both(advised):
    points = advised(gpus=[1, 2, 4, 8], strategies=["psg", "esdg", "real-g+"])["points"]
    for one in points:
        beaten = any(
            other["epoch_s"] <= one["epoch_s"] and other["gpu_hours"] <= one["gpu_hours"]
            and (other["epoch_s"], other["gpu_hours"]) != (one["epoch_s"], one["gpu_hours"])
            for other in points
        )  # fmt: skip
        assert one["front"] == (not beaten)


def test_what_is_over_the_budget_or_does_not_fit_is_listed_and_not_ranked(advised):
    """Of each of GPU memory, hours, GPU-hours, cost and bytes as much as some points take and others do not."""
    device = {"name": "small GPU", "flops": 1e12, "memory_bandwidth": 1e12, "launch_s": 5e-6, "h2d": {"bandwidth": 2e10, "latency_s": 1e-6}}
    choice = {"gpus": [1, 2, 4], "strategies": ["psg", "esdg", "blad"], "cluster": "tiny.yaml"}
    tiny(device={**device, "memory": 1e9})
    points = advised(advise={"prices": 2.0}, **choice)["points"]
    assert {one["rank"] for one in points} == set(range(1, 10))
    middle = {key: sorted(one[key] for one in points)[4] for key in ("hours", "gpu_hours", "cost", "peak_bytes")}
    key = {"peak_bytes": "memory"}
    for name, most in middle.items():
        advice = advised(stem=name, advise={"prices": 2.0, "budget": {key.get(name, name): most}}, **choice)["points"]
        assert [one["rank"] is None for one in advice] == [one[name] > most for one in advice] and advice[-1]["rank"] is None
        assert all(
            one["not_ranked"].startswith("over the budget: ") and " at most" in one["not_ranked"] for one in advice if not one["rank"]
        )
        assert all(one["behind"] is None and not one["front"] and one["epoch_s"] > 0 for one in advice if not one["rank"])
    tiny(device={**device, "memory": float(middle["peak_bytes"])})
    advice = advised(stem="fits", **choice)["points"]
    assert [one["rank"] is None for one in advice] == [one["peak_bytes"] > middle["peak_bytes"] for one in advice]
    assert all("does not fit: out of memory: rank " in one["not_ranked"] and one["reason"] for one in advice if not one["rank"])


def test_where_nothing_ranks_it_says_what_comes_closest(advised, capsys):
    advised(expect=2, advise={"budget": {"hours": 1e-9, "memory": "1kB"}})
    line = one_line(capsys)
    assert "nothing to advise, none of 4 points fits and keeps to the budget; real-g+ on 4 GPUs of h200: over the budget: " in line
    assert "hours, 1.00e-09 hours at most and " in line and "a GPU, 1.00 kB a GPU at most" in line
    assert Run(Path("runs/small-advise-1")).complete


def test_more_gpus_than_the_budget_are_not_simulated(advised, capsys):
    assert {one["gpus"] for one in advised(advise={"budget": {"gpus": 2}})["points"]} == {1}
    advised(expect=2, gpus=[4, 8], advise={"budget": {"gpus": 2}})
    assert "small.yaml: advise.budget.gpus: 2, and every number of GPUs that is asked for is larger" in one_line(capsys)


def test_the_table_tells_why(experiment, capsys):
    command("advise", experiment(strategies=["psg", "esdg"], gpus=[1, 8]), "--top", "3", "--plot", "front.svg")
    output = capsys.readouterr()
    head, *rows = output.out.splitlines()[1:]
    assert head.split() == [
        "rank",
        "strategy",
        "gpus",
        "epoch",
        "steps",
        "µs",
        "a",
        "target",
        "GPU-hours",
        "GPU",
        "memory",
        "behind",
        "front",
        "why",
    ]
    assert len(rows) == 4 and rows[-1].startswith("First by time: ") and all("of the epoch" in row for row in rows[:3])
    assert "No uncertainty was stated, so that nothing says how sure this is." in rows[-1]
    assert "1 more in runs/small-advise-1/advice.json" in output.err and "run: runs/small-advise-1" in output.err
    assert Path("front.svg").read_text().startswith("<svg") and Path("runs/small-advise-1/pareto.png").exists()
    assert json.loads(Path("runs/small-advise-1/advice.json").read_text())["headline"] == rows[-1]


def test_idle_ranks_are_the_first_reason(advised):
    reasons = {(one["strategy"], one["gpus"]): one["reason"] for one in advised(gpus=[1, 8], strategies=["psg"])["points"]}  # 6 groups
    assert reasons["psg", 8].startswith("idle ranks: 2 of 8 GPUs have nothing to train; ") and "idle" not in reasons["psg", 1]


def test_launches_bound_small_graphs_until_they_are_captured(advised):
    points = {
        one["settings"]["launch"]: one
        for one in advised(gpus=[1], strategies=["psg"], advise={"grid": {"launch": ["eager", "graph"]}})["points"]
    }
    assert points["eager"]["reason"].startswith("bound by host launches: kernels wait for the host ")
    assert all(blame["op"] for blame in points["graph"]["critical_path"]) and points["graph"]["rank"] == 1


@pytest.mark.slow
def test_the_first_is_left_as_an_experiment(advised, capsys):
    advice = advised(advise={"grid": {"training.group_size": [4, 2]}})
    first, path = advice["points"][0], Path("runs/small-advise-1/first.yaml")
    experiment = load(path)
    assert (experiment.strategies, experiment.gpus) == ((first["strategy"],), (first["gpus"],))
    assert experiment.training.group_size == first["settings"]["training.group_size"]
    command("simulate", path, "--json")
    assert json.loads(capsys.readouterr().out)[0]["epoch_s"] == first["epoch_s"]


def test_a_strategy_of_a_file_and_a_cluster_of_a_file(advised):
    source = ROOT / "examples/strategy.py"
    name = next(line.split()[1].split("(")[0] for line in source.read_text().splitlines() if line.startswith("class "))
    shutil.copy(source, "lab.py")
    advice = advised(
        strategies=["psg", f"lab.py:{name}"], gpus=[2], advise={"clusters": ["h200", tiny()], "prices": {"h200": 2.0, "tiny.yaml": 1.0}}
    )
    assert {one["cluster"] for one in advice["points"]} == {"h200", "tiny.yaml"}
    assert len({one["strategy"] for one in advice["points"]}) == 2 and len(advice["points"]) == 4


def test_signals_and_streams_are_advised_alike(experiment, capsys):
    Path("signal.yaml").write_text(json.dumps({"dataset": "pems", "model": {"name": "pgt-dcrnn", "hidden": 8}, "training": {"batches": 2},
                                               "gpus": [1, 4], "strategies": ["ddp", "dist-index"]}))  # fmt: skip
    command("advise", "signal.yaml", "--json")
    advice = json.loads(capsys.readouterr().out)
    assert len(advice["points"]) == 4 and all(one["reason"] for one in advice["points"])
    assert {one["cluster"] for one in advice["points"]} == {"polaris"}
    assert any(one["prepare_s"] for one in advice["points"])


def test_what_a_strategy_refuses_is_listed(advised):
    """METIS cannot cut 64 nodes into 128 parts."""
    advice = advised(strategies=["psg", "distdgl"], gpus=[1, 128])
    (one,) = [one for one in advice["points"] if one["rank"] is None]
    assert (one["strategy"], one["gpus"]) == ("distdgl", 128) and "cannot be cut into 128 parts" in one["not_ranked"]
    assert one["epoch_s"] is None and one["critical_path"] == []
    assert "h200 has 32 GPUs; more are as many of its machines as that takes" in advice["notes"]


@pytest.mark.slow
def test_an_uncertain_first_is_compared_draw_by_draw(advised, capsys):
    unsure = {"draws": 20, "jitter": 0.3, "sway": 0.1, "stragglers": {"of": "node", "factor": 1.5}}
    advice = advised(strategies=["psg", "real-g+", "esdg"], gpus=[1, 8], uncertainty=unsure)
    first, *others = advice["points"]
    assert first["first_ahead_in"] is None and all(0 <= one["first_ahead_in"] <= 1 for one in others)
    for one in advice["points"]:
        assert one["epoch_low_s"] <= one["epoch_s"] <= one["epoch_high_s"]
        assert sum(blame["share"] for blame in one["critical_path"]) == pytest.approx(1, rel=1e-9)
    assert "of 20 draws." in advice["headline"] and "No uncertainty" not in advice["headline"]
    command("advise", Path("small.yaml"))
    assert "first ahead in" in capsys.readouterr().out
    command("report", "runs/small-advise-1")
    assert "Bars cover nine tenths of the draws." in Path("report/index.html").read_text()


def test_hours_are_of_a_candidates_own_epochs(advised):
    points = advised(strategies=["psg"], gpus=[1], epochs=100, advise={"grid": {"epochs": [10, 20]}})["points"]
    hours = {one["settings"]["epochs"]: one["gpu_hours"] for one in points}
    assert hours[10] == pytest.approx(10 * points[0]["epoch_s"] / 3600, rel=1e-9) and hours[20] == pytest.approx(2 * hours[10], rel=1e-9)


def test_trainings_that_fail_are_not_ranked(experiment, capsys):
    command("advise", experiment(strategies=["psg"], gpus=[1], failures={"mtbf_s": 5}), expect=2)
    assert "failures: trainings that nothing interrupts are ranked; leave the key out here" in capsys.readouterr().err.replace("\n", " ")
