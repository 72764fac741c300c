"""Pictures of README and docs: each is the one that was drawn, of an experiment as it is, and shows what is simulated today."""

import json

import pytest
from tools_of import tool

pictures = tool("pictures")


def test_pictures_are_those_that_were_drawn() -> None:
    records = json.loads(pictures.SHOWN.read_text())
    assert {path: set(record["pictures"]) for path, record in records.items()} == {
        path: set(figures) for path, figures in pictures.pictures().items()
    }
    assert [line for path, record in records.items() for line in pictures.changed(path, record)] == []


@pytest.mark.slow
def test_pictures_show_what_is_simulated_today() -> None:
    assert pictures.outdated() == []


def test_a_picture_that_is_out_of_date_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path) -> None:
    records = json.loads(pictures.SHOWN.read_text())
    (path, record), *_ = records.items()
    record["epoch_s"]["psg"]["1024"] *= 1.01
    record["pictures"]["report.png"] = "0" * 16
    monkeypatch.setattr(pictures, "SHOWN", tmp_path / "pictures.json")
    pictures.SHOWN.write_text(json.dumps({path: record}))
    simulated = {"psg": {"1024": record["epoch_s"]["psg"]["1024"] / 1.01}}
    monkeypatch.setattr(pictures, "simulate", lambda experiment, folder: simulated)
    lines = pictures.outdated()
    assert [line.split(" takes")[0] for line in lines] == ["docs/report.png is not the picture that was drawn", f"{path}: psg on 1024 GPUs"]
