"""Keys and options of `chronoscale advise`: what its section of an experiment may have, and the errors for others."""

import json
import re
from pathlib import Path

import pytest
import yaml
from command_line import command, one_line

from chronoscale.harness.advice.candidates import candidates
from chronoscale.harness.keys.advise import AdviceKeys
from chronoscale.harness.keys.experiment_files import load

ROOT = Path(__file__).parents[2]
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
@pytest.mark.parametrize(("part", "message"), REFUSED, ids=range(len(REFUSED)))
def test_mistakes_name_file_and_key(experiment, capsys, part, message):
    command("advise", experiment(strategies=["psg"], gpus=[1], advise=part), expect=2)
    line = one_line(capsys)
    assert line.startswith("error: ") and "small.yaml: " in line and message in line
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


def test_the_documents_keys_and_the_example_are_taken():
    page = (ROOT / "docs/advise.md").read_text()
    (block,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    keys = AdviceKeys.model_validate(yaml.safe_load(block)["advise"])
    assert keys.budget.memory == 70_000_000_000 and keys.prices == {"h200": 3.5, "my-cluster.yaml": 2}
    example = candidates(load(ROOT / "examples/advise.yaml"))
    assert len(example) == 32 and {one.settings["training.group_size"] for one in example} == {4, 8}
