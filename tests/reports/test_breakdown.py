"""Parts of an epoch, from seconds by operation."""

import math

import pandas as pd
import pytest
from report_samples import point, setting

from chronoscale.reports import tables
from chronoscale.reports.breakdown import Breakdown
from chronoscale.reports.readable_table import readable_table
from chronoscale.reports.report import Report
from chronoscale.reports.training_run import Epoch, TrainingRun

SECONDS = pd.Series({"SAMPLE": 1.0, "H2D": 0.5, "D2H": 0.1, "AGGREGATE": 2.0, "FORWARD": 0.4, "ALLREDUCE": 0.2, "ALLGATHER": 0.6})


def test_operations_are_added_up_by_part_and_rank():
    breakdown = Breakdown.of(SECONDS, 2, 4.0)
    assert breakdown.seconds == pytest.approx({"sample": 0.5, "transfer": 0.3, "layers": 1.2, "communication": 0.4})
    assert breakdown.share("layers") == pytest.approx(0.3) and breakdown.share("backward") == 0
    assert math.isnan(Breakdown.of(SECONDS, 2, 0.0).share("layers"))


def test_stages_stand_below_what_was_repeated():
    epochs = (Epoch(0, "training", "tgl", 0, 0, 1, 1.0),)
    staged = TrainingRun("run", 2, epochs, (), breakdowns={"training": Breakdown.of(SECONDS, 2, 4.0)}, setting=setting("executed"))
    section = Report("t", runs=(point("executed", "psg", 1, 1.0),), staged=(staged,)).sections[0]
    table = tables.breakdown(section)
    assert table["strategy"].tolist() == ["psg", "tgl"] and table["layers"].iloc[1] == pytest.approx(0.3)
    assert table["layers_s"].iloc[1] == pytest.approx(1.2) and table["epoch_s"].tolist() == [1.0, 4.0]
    assert not any(name.endswith("_s") and name != "epoch_s" for name in readable_table(section, table).table)
