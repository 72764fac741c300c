"""MPNN-LSTM under every command: executed, predicted from its own fitted costs, simulated, trained."""

import json

import pytest
from command_line import command

from chronoscale.strategies.registry import of

MODEL = {"name": "mpnn-lstm", "hidden": 8, "inputs": 6, "layers": 2}


ALL = of("snapshots")
EXECUTED = [name for name, planner in ALL.items() if planner.executes]


@pytest.mark.slow
@pytest.mark.parametrize("names", [["psg", "real-type1"], pytest.param(EXECUTED, marks=pytest.mark.slow)], ids=["two", "all"])
def test_it_is_executed_and_predicted_from_its_own_costs(experiment, inline, capsys, names):
    command("validate", experiment(model=MODEL, strategies=names), "--json")
    rows = json.loads(capsys.readouterr().out)
    assert {row["strategy"] for row in rows} == {*names} and {row["sources"] for row in rows} == {"fitted"}


@pytest.mark.slow
@pytest.mark.parametrize("names", [["psg", "flaredtdg"], pytest.param([*ALL], marks=pytest.mark.slow)], ids=["two", "all"])
def test_it_is_simulated(experiment, capsys, names):
    command("simulate", experiment(model=MODEL, strategies=names, gpus=[4]), "--json")
    assert {row["strategy"] for row in json.loads(capsys.readouterr().out)} == {*names}


def test_training(experiment, inline, capsys):
    command("train", experiment(model=MODEL, epochs=4), "--strategy", "real-type1", "--json")
    rows = json.loads(capsys.readouterr().out)
    trained = [row for row in rows if row["last_loss"] is not None]
    assert trained[-1]["last_loss"] < trained[0]["first_loss"]
