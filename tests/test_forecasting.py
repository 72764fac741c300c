"""docs/forecasting.md: its commands, run as they stand on a file that begins as it shows."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from math import pi, sin
from pathlib import Path

import pandas as pd
import pytest
from command_line import command
from one_rank import inline_ranks

PAGE = (Path(__file__).parents[1] / "docs" / "forecasting.md").read_text()
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.filterwarnings("ignore::chronoscale.errors.ChronoscaleWarning")
def test_the_page_leads_to_a_forecast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    inline_ranks(monkeypatch)
    begin = datetime(2019, 1, 1)
    for language, text in BLOCK.findall(PAGE):
        if language == "csv":
            rows = [[f"{50 + at + 9 * sin((hour + at) * pi / 12):.1f}" for at in range(3)] for hour in range(24 * 7)]
            later = [",".join([f"{begin + timedelta(hours=hour):%Y-%m-%d %H:%M}", *row]) for hour, row in enumerate(rows)][1:]
            Path("air.csv").write_text(text + "\n".join(later) + "\n")
        elif file := re.match(r"# (\S+\.yaml)\n", text):
            Path(file[1]).write_text(text)
        else:
            assert language == "console"
            for line in text.splitlines():
                command(*line.split()[1:])
    after, tested = pd.read_csv("next.csv", parse_dates=["time"]), pd.read_parquet("test.parquet")
    assert after["time"].min() == begin + timedelta(days=7) and sorted(set(after["sensor"])) == ["east", "north", "south"]
    assert [f"`{column}`" for column in after] == re.findall(r"^\| (`\w+`) \|", PAGE, re.MULTILINE)[: len(after.columns)]
    assert tested["truth"].notna().all() and set(tested["ahead"]) == {1, 2, 3}
    out = capsys.readouterr().out
    assert "errors at each step ahead, with the model of epoch" in out and "best_rival" in out and "rival_mae" in out
