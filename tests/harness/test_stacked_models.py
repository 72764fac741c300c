"""MPNN-LSTM under every command: executed, predicted from its own fitted costs, simulated, trained."""

import json

from command_line import command

from chronoscale.strategies.registry import of

MODEL = {"name": "mpnn-lstm", "hidden": 8, "inputs": 6, "layers": 2}


def test_from_file_to_report(experiment, inline, capsys):
    planners = of("snapshots")
    executed = {name for name, planner in planners.items() if planner.executes}
    file = experiment(model=MODEL, strategies=sorted(executed))
    for name in ("bench", "validate"):
        command(name, file, "--json")
        rows = json.loads(capsys.readouterr().out)
        assert {row["strategy"] for row in rows} == executed
    assert {row["sources"] for row in rows} == {"fitted"}
    command("simulate", experiment(model=MODEL, strategies=sorted(planners), gpus=[1, 4]), "--json")
    assert {row["strategy"] for row in json.loads(capsys.readouterr().out)} == set(planners)


def test_training(experiment, inline, capsys):
    command("train", experiment(model=MODEL, epochs=4), "--strategy", "real-type1", "--json")
    rows = json.loads(capsys.readouterr().out)
    trained = [row for row in rows if row["last_loss"] is not None]
    assert trained[-1]["last_loss"] < trained[0]["first_loss"]
