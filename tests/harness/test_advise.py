"""`chronoscale advise`: what is compared, what is told, what is refused, and how a run goes on."""

import csv
import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest
import yaml
from command_line import command, killed_at, one_line
from distributed import LocalCluster

from chronoscale.datasets import store
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.harness.advice import advise as running
from chronoscale.harness.advice.candidates import candidates
from chronoscale.harness.advice.judge import judge
from chronoscale.harness.keys.advise import AdviceKeys
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.workflows.snapshots import partitions

ROOT = Path(__file__).parents[2]
TINY = {
    "name": "tiny", "origin": "a test", "device": "nvidia-h200", "nodes": 2, "gpus_per_node": 2,
    "intra": {"bandwidth": 4e11, "latency_s": 1e-6}, "inter": {"bandwidth": 5e10, "latency_s": 5e-6},
}  # fmt: skip


def tiny(stem: str = "tiny", **changes: object) -> str:
    data = {key: value for key, value in {**TINY, **changes}.items() if key != "name"}
    Path(f"{stem}.yaml").write_text(yaml.safe_dump(data))
    return f"{stem}.yaml"


@pytest.fixture
def advised(experiment, capsys):
    """What `advise --json` says of an experiment."""

    def ask(*arguments: object, stem: str = "small", expect: int = 0, **changes: object) -> dict:
        file = experiment(stem, **{"strategies": ["psg", "real-g+"], "gpus": [1, 4], **changes})
        capsys.readouterr()
        command("advise", file, "--json", *arguments, expect=expect)
        return json.loads(capsys.readouterr().out) if not expect else {}

    return ask


@pytest.mark.slow
def test_all_points_are_ranked_by_time(advised):
    said = advised(advise={"grid": {"training.group_size": [2, 4]}})
    points = said["points"]
    assert [one["rank"] for one in points] == list(range(1, 9)) and said["objective"] == "time"
    assert {(one["strategy"], one["gpus"], one["settings"]["training.group_size"]) for one in points} == {
        (name, gpus, size) for name in ("psg", "real-g+") for gpus in (1, 4) for size in (2, 4)
    }
    times = [one["epoch_s"] for one in points]
    assert times == sorted(times) and points[0]["behind"] == 0 and points[1]["behind"] == pytest.approx(times[1] / times[0] - 1, rel=1e-9)
    assert all(sum(blame["share"] for blame in one["critical_path"]) == pytest.approx(1, rel=1e-9) for one in points)
    assert said["notes"] == ["training.group_size: what is learned changes with it, and no rank says how well"]


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
        said = advised("--objective", objective, stem=objective, gpus=[1, 2], advise=clusters)
        values = [one[key] for one in said["points"]]
        assert values == sorted(values) and said["headline"].startswith(f"First by {objective}: "), objective
    price = {"h200": 3.5, "a100": 0.5}
    assert all(one["cost"] == pytest.approx(one["gpu_hours"] * price[one["cluster"]], rel=1e-9) for one in said["points"])


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
        said = advised(stem=name, advise={"prices": 2.0, "budget": {key.get(name, name): most}}, **choice)["points"]
        assert [one["rank"] is None for one in said] == [one[name] > most for one in said] and said[-1]["rank"] is None
        assert all(one["not_ranked"].startswith("over the budget: ") and " at most" in one["not_ranked"] for one in said if not one["rank"])
        assert all(one["behind"] is None and not one["front"] and one["epoch_s"] > 0 for one in said if not one["rank"])
    tiny(device={**device, "memory": float(middle["peak_bytes"])})
    said = advised(stem="fits", **choice)["points"]
    assert [one["rank"] is None for one in said] == [one["peak_bytes"] > middle["peak_bytes"] for one in said]
    assert all("does not fit: out of memory: rank " in one["not_ranked"] and one["reason"] for one in said if not one["rank"])


def test_where_nothing_ranks_it_says_what_comes_closest(advised, capsys):
    advised(expect=2, advise={"budget": {"hours": 1e-9, "memory": "1kB"}})
    said = one_line(capsys)
    assert "nothing to advise, none of 4 points fits and keeps to the budget; real-g+ on 4 GPUs of h200: over the budget: " in said
    assert "hours, 1.00e-09 hours at most and " in said and "a GPU, 1.00 kB a GPU at most" in said
    assert Run(Path("runs/small-advise-1")).complete


def test_more_gpus_than_the_budget_are_not_simulated(advised, capsys):
    assert {one["gpus"] for one in advised(advise={"budget": {"gpus": 2}})["points"]} == {1}
    advised(expect=2, gpus=[4, 8], advise={"budget": {"gpus": 2}})
    assert "small.yaml: advise.budget.gpus: 2, and every number of GPUs that is asked for is larger" in one_line(capsys)


def test_the_table_tells_why(experiment, capsys):
    command("advise", experiment(strategies=["psg", "esdg"], gpus=[1, 8]), "--top", "3", "--plot", "front.svg")
    said = capsys.readouterr()
    head, *rows = said.out.splitlines()[1:]
    assert head.split() == ["rank", "strategy", "gpus", "epoch", "GPU-hours", "GPU", "memory", "behind", "front", "why"]
    assert len(rows) == 4 and rows[-1].startswith("First by time: ") and all("of the epoch" in row for row in rows[:3])
    assert "No uncertainty was stated, so that nothing says how sure this is." in rows[-1]
    assert "1 more in runs/small-advise-1/advice.json" in said.err and "run: runs/small-advise-1" in said.err
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
    said = advised(advise={"grid": {"training.group_size": [4, 2]}})
    first, path = said["points"][0], Path("runs/small-advise-1/first.yaml")
    found = load(path)
    assert (found.strategies, found.gpus) == ((first["strategy"],), (first["gpus"],))
    assert found.training.group_size == first["settings"]["training.group_size"]
    command("simulate", path, "--json")
    assert json.loads(capsys.readouterr().out)[0]["epoch_s"] == first["epoch_s"]


def test_a_strategy_of_a_file_and_a_cluster_of_a_file(advised):
    source = ROOT / "examples/strategy.py"
    name = next(line.split()[1].split("(")[0] for line in source.read_text().splitlines() if line.startswith("class "))
    shutil.copy(source, "lab.py")
    said = advised(
        strategies=["psg", f"lab.py:{name}"], gpus=[2], advise={"clusters": ["h200", tiny()], "prices": {"h200": 2.0, "tiny.yaml": 1.0}}
    )
    assert {one["cluster"] for one in said["points"]} == {"h200", "tiny.yaml"}
    assert len({one["strategy"] for one in said["points"]}) == 2 and len(said["points"]) == 4


def test_signals_and_streams_are_advised_alike(experiment, capsys):
    Path("signal.yaml").write_text(json.dumps({"dataset": "pems", "model": {"name": "pgt-dcrnn", "hidden": 8}, "training": {"batches": 2},
                                               "gpus": [1, 4], "strategies": ["ddp", "dist-index"]}))  # fmt: skip
    command("advise", "signal.yaml", "--json")
    said = json.loads(capsys.readouterr().out)
    assert len(said["points"]) == 4 and all(one["reason"] for one in said["points"])
    assert {one["cluster"] for one in said["points"]} == {"polaris"}
    assert any(one["prepare_s"] for one in said["points"])


REFUSED = [
    ({"grid": {"training.group_sise": [4]}}, "unknown key 'training.group_sise'; did you mean 'training.group_size'?"),
    ({"grid": {"training.group_size": [4, 0]}}, "advise.grid: training.group_size: expected more than 0 (got 0)"),
    ({"grid": {"training.group_size": []}}, "advise.grid: training.group_size: expected one or more values, each once, got []"),
    ({"grid": {"training.group_size": [4, 4]}}, "each once, got [4, 4]"),
    ({"grid": {"training.group_size": 4}}, "advise.grid.training.group_size: expected a list (got 4)"),
    ({"grid": [4]}, "advise.grid: expected keys and values"),
    ({"grid": {"groups.x": [4]}}, "advise.grid: groups.x: groups has no keys"),
    ({"grid": {"seed.x": [4]}}, "advise.grid: seed: expected a whole number (got {'x': 4})"),
    ({"grid": {"cluster": ["h200"]}}, "advise.grid: cluster: no grid varies it; advise.clusters names them"),
    ({"grid": {"gpus": [[1]]}}, "advise.grid: gpus: no grid varies it; they are compared anyway"),
    ({"grid": {"threads": [1, 2]}}, "advise.grid: threads: it changes nothing that is simulated"),
    ({"grid": {"model.name": ["tgn"]}}, "advise.grid: "),
    ({"grid": {"seed": list(range(20_000))}}, "advise.grid: more than 10,000 points to simulate; leave out values, strategies or gpus"),
    ({"objective": "tim"}, "advise.objective: expected 'time', 'memory', 'gpu-hours' or 'cost' (got 'tim')"),
    ({"objective": "cost"}, "advise.objective: cost: it needs advise.prices, of a GPU-hour: a number, or one for each cluster"),
    ({"budget": {"cost": 4}}, "advise.budget.cost: it needs advise.prices"),
    ({"budget": {"hour": 4}}, "unknown key 'advise.budget.hour'; did you mean 'advise.budget.hours'?"),
    ({"budget": {"hours": -1}}, "advise.budget.hours: expected more than 0 (got -1)"),
    ({"budget": {"memory": "4 pounds"}}, "memory: expected bytes or a size such as 2GB, 512MB or 1.5GiB, got '4 pounds'"),
    ({"prices": {"h100": 3.0}}, "advise.prices: unknown cluster 'h100'; did you mean 'h200'?"),
    ({"prices": {"h200": 3.0}, "clusters": ["h200", "a100"]}, "advise.prices: none for cluster 'a100'"),
    ({"prices": {"h200": 0}}, "expected more than 0"),
    ({"clusters": ["h20", "h2000"]}, "advise.clusters: unknown cluster 'h2000'; did you mean 'h200'?"),
    ({"clusters": ["h20", "h20"]}, "advise.clusters: each once, got ['h20', 'h20']"),
    ({"clusters": ["gone.yaml"]}, "advise.clusters: gone.yaml: no such cluster file"),
    ({"goal": "time"}, "unknown key 'advise.goal'"),
    (4, "advise: expected keys and values (got 4)"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("part", "said"), REFUSED, ids=range(len(REFUSED)))
def test_what_is_wrong_is_said_with_file_and_key(experiment, capsys, part, said):
    command("advise", experiment(strategies=["psg"], gpus=[1], advise=part), expect=2)
    line = one_line(capsys)
    assert line.startswith("error: ") and "small.yaml: " in line and said in line
    assert not Path("runs").exists()


@pytest.mark.slow
def test_options_that_are_wrong(experiment, capsys):
    file = experiment(strategies=["psg"], gpus=[1])
    command("advise", file, "--plot", "front.pdf", expect=2)
    assert "--plot front.pdf: expected a name that ends in .svg or .png" in one_line(capsys)
    command("advise", file, "--objective", "speed", expect=2)
    assert "advise.objective: expected" in one_line(capsys)
    command("advise", file, "--workers", "0", expect=2)
    Path("gone.yaml").write_text(json.dumps({"dataset": {"path": "nowhere"}}))
    command("advise", "gone.yaml", expect=2)
    assert "nowhere" in one_line(capsys)


def test_what_a_strategy_refuses_is_listed(advised):
    """METIS cannot cut 64 nodes into 128 parts."""
    said = advised(strategies=["psg", "distdgl"], gpus=[1, 128])
    (one,) = [one for one in said["points"] if one["rank"] is None]
    assert (one["strategy"], one["gpus"]) == ("distdgl", 128) and "cannot be cut into 128 parts" in one["not_ranked"]
    assert one["epoch_s"] is None and one["critical_path"] == []
    assert "h200 has 32 GPUs; more are as many of its machines as that takes" in said["notes"]


def test_a_killed_run_goes_on_where_it_was(experiment, capsys, monkeypatch):
    file = experiment(strategies=["psg", "real-g+"], gpus=[1, 2, 4])
    asked = []

    def once(task):
        asked.append(task.candidate)
        if len(asked) == 3:
            raise KeyboardInterrupt
        return judge(task)

    monkeypatch.setattr(running, "judge", once)
    command("advise", file, expect=130)
    assert "interrupted while simulating; the same command takes it up again" in capsys.readouterr().err
    run = Run(Path("runs/small-advise-1"))
    assert not run.complete and [folder.name for folder in run.pieces("point-")] == ["point-00000", "point-00001"]
    command("report", run.folder)
    page = Path("report/index.html").read_text()
    assert "small-advise-1 is incomplete" in page and "not there: psg on 2 GPUs of h200; real-g+ on 2 GPUs of h200; " in page
    monkeypatch.setattr(Run, "lock", lambda self: True)  # this process has it from before
    capsys.readouterr()
    command("advise", file, "--json")
    said = capsys.readouterr()
    assert "taking up runs/small-advise-1" in said.err and len(asked) == 3 + 4 and len(set(map(str, asked))) == 6
    assert len(json.loads(said.out)["points"]) == 6 and run.complete


@pytest.mark.slow
def test_processes_that_are_killed_leave_a_run_that_goes_on(experiment, capsys):
    """SIGKILL in the middle of a sweep in processes: they end with it, and what was done is kept."""
    file = experiment(strategies=["psg", "real-g+"], gpus=[1, 2, 4, 8], advise={"grid": {"training.group_size": [2, 3, 4, 5, 6]}})
    run = Path("runs/small-advise-1")
    killed_at(lambda: any(run.glob("point-*")), "advise", file, "--workers", "2")
    done = len(list(run.glob("point-*")))
    assert 0 < done <= 40
    command("advise", file, "--json")
    said = capsys.readouterr()
    assert len(json.loads(said.out)["points"]) == 40 and (done == 40 or "taking up" in said.err)


GRID = {"grid": {"training.group_size": [2, 4]}}


def test_a_graph_is_cut_once_a_run(experiment, capsys, monkeypatch):
    """METIS may answer otherwise the next time: who simulates, wherever, is given what it has cut."""
    asked = []

    def metis(sequence, parts):
        asked.append(parts)
        return np.arange(sequence.num_nodes, dtype=np.int32) % parts

    def elsewhere(task):
        with monkeypatch.context() as patch:
            patch.setattr(partitions, "metis_partition", lambda sequence, parts: pytest.fail("cut anew"))
            return judge(task)

    monkeypatch.setattr(partitions, "metis_partition", metis)
    monkeypatch.setattr(running, "judge", elsewhere)
    command("advise", experiment(strategies=["psg", "distdgl"], gpus=[1, 2], advise=GRID), "--json")
    points = json.loads(capsys.readouterr().out)["points"]
    assert len(points) == 8 and {one["partition"] for one in points} == {"", "METIS"} and sorted(set(asked)) == [1, 2]


@pytest.mark.slow
def test_serial_parallel_and_on_dask_the_same(experiment, capsys, monkeypatch):
    """Also what METIS has cut, once a run and here, whoever simulates with it."""
    monkeypatch.setattr(partitions, "metis_partition", lambda sequence, parts: np.arange(sequence.num_nodes, dtype=np.int32) % parts)
    found = []
    with LocalCluster(n_workers=2, threads_per_worker=2, processes=True, dashboard_address="127.0.0.1:0") as cluster:
        ways = (("--workers", 1), ("--workers", 2), ("--dask", cluster.scheduler_address))
        for number, how in enumerate(ways):
            file = experiment(f"way{number}", strategies=["psg", "distdgl"], gpus=[1, 2], advise=GRID)
            command("advise", file, "--json", *how)
            found.append(json.loads(capsys.readouterr().out))
    assert found[0] == found[1] == found[2] and len(found[0]["points"]) == 8
    assert {one["partition"] for one in found[0]["points"]} == {"", "METIS"}


@pytest.mark.slow
def test_a_report_shows_it(experiment, capsys):
    command("advise", experiment(strategies=["psg", "esdg"], gpus=[1, 2], advise={"budget": {"hours": 1.0}}))
    command("simulate", experiment(strategies=["psg"], gpus=[1, 2]))
    capsys.readouterr()
    command("report", "runs/small-advise-1", "runs/small-simulate-1", "--json")
    data = json.loads(capsys.readouterr().out)
    (advice,) = data["advice"]
    assert advice["headline"].startswith("First by time: ") and advice["not_ranked"] == [] and len(data["sections"]) == 1
    assert advice["title"] == "Advice by time: t-gcn on graphs (small-advise-1)"
    rows = list(csv.DictReader(Path("report", advice["table"]).read_text().splitlines()))
    assert [row["rank"] for row in rows] == ["1", "2", "3", "4"] and all(row["reason"] for row in rows)
    page, text = Path("report/index.html").read_text(), Path("report/report.md").read_text()
    assert advice["headline"] in page and "of the epoch" in text and "![Time against GPU-hours](figures/advice-pareto.svg)" in text
    assert Path("report/figures/advice-pareto.png").exists() and "Simulated times of several GPUs are" in page
    assert any("more than its folder holds" in note for note in data["notes"]) is False


def test_a_damaged_verdict_is_said(experiment, capsys):
    command("advise", experiment(strategies=["psg"], gpus=[1]))
    Path("runs/small-advise-1/point-00000/verdict.json").write_text("{")
    command("report", "runs/small-advise-1", expect=2)
    assert "point-00000/verdict.json: not a readable verdict" in one_line(capsys)


def test_a_changed_dataset_begins_a_new_run(experiment, capsys):
    file = experiment(strategies=["psg"], gpus=[1])
    command("advise", file)
    shutil.rmtree("graphs")
    store.save(Path("graphs"), GrowthGraph.rmat(64, 300, 12, 0.1, 2).sequence())
    command("advise", file)
    assert Path("runs/small-advise-2").exists()


def test_the_documents_keys_and_the_example_are_taken():
    page = (ROOT / "docs/advise.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    found = AdviceKeys.model_validate(yaml.safe_load(block)["advise"])
    assert found.budget.memory == 70_000_000_000 and found.prices == {"h200": 3.5, "my-cluster.yaml": 2}
    example = candidates(load(ROOT / "examples/advise.yaml"))
    assert len(example) == 32 and {one.settings["training.group_size"] for one in example} == {4, 8}


@pytest.mark.slow
def test_an_uncertain_first_is_compared_draw_by_draw(advised, capsys):
    unsure = {"draws": 20, "jitter": 0.3, "sway": 0.1, "stragglers": {"of": "node", "factor": 1.5}}
    said = advised(strategies=["psg", "real-g+", "esdg"], gpus=[1, 8], uncertainty=unsure)
    first, *others = said["points"]
    assert first["first_ahead_in"] is None and all(0 <= one["first_ahead_in"] <= 1 for one in others)
    for one in said["points"]:
        assert one["epoch_low_s"] <= one["epoch_s"] <= one["epoch_high_s"]
        assert sum(blame["share"] for blame in one["critical_path"]) == pytest.approx(1, rel=1e-9)
    assert "of 20 draws." in said["headline"] and "No uncertainty" not in said["headline"]
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
