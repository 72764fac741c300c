"""`train --elastic`: what it takes, and a training that goes on on another number of ranks."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest
from command_line import command, one_line

from chronoscale.errors import UserError
from chronoscale.harness.execute import machine
from chronoscale.harness.keys.elastic import Elastic
from chronoscale.real_exec.execution.context import Context
from chronoscale.real_exec.ranks.starter import Starter
from chronoscale.real_exec.streams.spread.memory_files import FOLDER, MemoryFiles
from chronoscale.real_exec.training.epoch_record import epoch_records

ALONE = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "MASTER_ADDR": "x", "MASTER_PORT": "1"}


@pytest.mark.parametrize("text", ["", "2", "2:1", "0:2", "1:2:3", "a:b", "-1:2"])
def test_malformed_bounds_are_one_line(experiment, capsys, text: str) -> None:
    command("train", experiment(), "--elastic", text, expect=2)
    assert one_line(capsys) == f"error: --elastic: '{text}', expected MIN:MAX, such as 1:4"


def test_two_options_do_not_choose_one_number(experiment, capsys) -> None:
    command("train", experiment(), "--elastic", "1:2", "--ranks", "2", expect=2)
    assert "leave one out" in one_line(capsys)


def test_ranks_are_as_many_as_there_are_processes() -> None:
    elastic = Elastic(2, 4)
    assert [elastic.of(count) for count in (2, 3, 4, 9)] == [2, 3, 4, 4]
    with pytest.raises(UserError, match="at least 2 processes are needed, 1 were started"):
        elastic.of(1)


@pytest.mark.parametrize(("variables", "count"), [({}, 0), (ALONE, 1), ({**ALONE, "WORLD_SIZE": "3"}, 3), ({"WORLD_SIZE": "1"}, 0)])
def test_a_launcher_that_has_started_one_process_has_started_one(variables: Mapping[str, str], count: int) -> None:
    assert Starter.processes(variables) == count


def test_a_training_goes_on_on_other_ranks_and_says_so(experiment, lose, monkeypatch, capsys) -> None:
    """Its epochs are kept; ranks are virtual here, since what goes on is the same."""
    file = experiment(strategies=["psg"], epochs=4, virtual=True, training={"group_size": 2, "validation": 0.3})
    monkeypatch.setattr(machine.Starter, "processes", staticmethod(lambda environment: 2))
    lose(2)
    command("train", file, "--elastic", "1:2", expect=1)
    folder = next(Path("runs").iterdir()) / "train"
    before = [record.losses for record in epoch_records(folder)]
    monkeypatch.setattr(machine.Starter, "processes", staticmethod(lambda environment: 1))
    command("train", file, "--elastic", "1:2")
    records = epoch_records(folder)
    assert [record.losses for record in records][: len(before)] == before and len(records) == 4
    assert [record.ranks for record in records] == [2] * len(before) + [1] * (4 - len(before))
    assert len(list(Path("runs").iterdir())) == 1
    said = " ".join(capsys.readouterr().err.split())
    assert f"Epochs 0..{len(before) - 1} on 2 ranks, {len(before)}..3 on 1 rank: a step is over what so many ranks train at once" in said
    assert json.loads((folder / "train.job.json").read_text())["repeats"] == 4


def test_memory_that_is_spread_stays_on_its_ranks(tmp_path: Path) -> None:
    (tmp_path / FOLDER).mkdir()
    for rank in range(2):
        (tmp_path / FOLDER / f"000003-{rank:04d}.pt").write_bytes(b"")
    kept = MemoryFiles(tmp_path, Context())
    kept.require_ranks(2)
    with pytest.raises(UserError, match="memory is spread over 2 ranks, and cannot go on on 1; train on 2 ranks again"):
        kept.require_ranks(1)
