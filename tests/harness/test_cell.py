"""Numbers are numbers in JSON, whatever a terminal shows."""

import json

import pandas as pd
import pytest
from command_line import command

from chronoscale.harness.cli.output import print_rows, print_table
from chronoscale.harness.display.cell import Cell

ROWS = [{"name": "a", "time": Cell(0.00000000123, "1.23 ns", "time_s"), "range": Cell((1, 2000), "1..2,000"), "gap": float("nan")}]


@pytest.mark.parametrize(
    "tell", [lambda as_json: print_table(pd.DataFrame(ROWS), "t", as_json), lambda as_json: print_rows(ROWS, "t", as_json)]
)
def test_json_has_numbers_with_their_unit_in_the_key_and_people_read_text(tell, capsys):
    tell(True)
    assert json.loads(capsys.readouterr().out) == [{"name": "a", "time_s": 1.23e-9, "range": [1, 2000], "gap": None}]
    tell(False)
    shown = capsys.readouterr().out
    assert "1.23 ns" in shown and "1..2,000" in shown and "time_s" not in shown and "Cell" not in shown


def test_what_can_be_reproduced_is_timed_in_numbers(capsys):
    command("reproduce", "real", "--json")
    rows = json.loads(capsys.readouterr().out)
    assert all(isinstance(row["about_s"], (int, float)) and "about" not in row for row in rows)
    command("reproduce", "real")
    assert "about" in (shown := capsys.readouterr().out) and "about_s" not in shown
