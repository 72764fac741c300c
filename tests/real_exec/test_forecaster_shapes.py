"""Shapes of forecasters: what none can have is said."""

import numpy as np
import pytest

from chronoscale.errors import UserError
from chronoscale.real_exec.signals.forecast.model import forecaster
from chronoscale.strategies.signals.forecasters import FORECASTERS, forecaster_shape
from chronoscale.strategies.workload import ModelChoice

EDGES = np.array([[0, 1, 3], [1, 2, 3]], np.int32)  # of 4 sensors


def test_mistakes() -> None:
    with pytest.raises(UserError, match="did you mean 'dcrnn'"):
        forecaster_shape(ModelChoice("dcrn"), 5, 1)
    with pytest.raises(UserError, match="at most window = 4"):
        forecaster_shape(ModelChoice("pgt-dcrnn"), 5, 1, window=4, horizon=6)
    with pytest.raises(UserError, match="one recurrent layer"):
        forecaster_shape(ModelChoice("pgt-dcrnn", layers=2), 5, 1)
    with pytest.raises(UserError, match="'graph-wavenet': layers: 3 read the last 5 of a window's 12 steps; layers: 8 read all"):
        forecaster_shape(ModelChoice("graph-wavenet", layers=3), 5, 1)
    with pytest.raises(UserError, match="layers: 7 read the last 11 of a window's 12 steps"):
        forecaster_shape(ModelChoice("graph-wavenet", layers=7), 5, 1)
    assert [FORECASTERS["graph-wavenet"].least_layers(window) for window in (1, 2, 3, 4, 5, 6, 8, 13, 14)] == [1, 1, 2, 2, 3, 4, 5, 8, 9]
    with pytest.raises(UserError, match="multiple of heads"):
        forecaster_shape(ModelChoice("st-transformer", 6), 5, 1)
    with pytest.raises(UserError, match="at least 1"):
        forecaster_shape(ModelChoice("dcrnn", 0), 5, 1)
    with pytest.raises(UserError, match="and times must be at least 1"):
        forecaster_shape(ModelChoice("stid", times=0), 5, 2, calendar=1)
    for name in ("dcrnn", "a3t-gcn", "st-transformer"):
        with pytest.raises(UserError, match=f"'{name}' has no dropout, got dropout: 0.3"):
            forecaster_shape(ModelChoice(name, dropout=0.3), 5, 2, calendar=1)
    with pytest.raises(UserError, match="'stid' reads the time of day, and no channel of the signal tells it"):
        forecaster_shape(ModelChoice("stid"), 5, 2)
    shape = forecaster_shape(ModelChoice("dcrnn"), 3, 1)
    with pytest.raises(UserError, match=r"0 \.\. 2"):
        forecaster(shape, EDGES, None, 3, 12, 12, 0)
    with pytest.raises(UserError, match="did you mean 'exact'"):
        forecaster_shape(ModelChoice("dcrnn"), 3, 1, variant="exac")
