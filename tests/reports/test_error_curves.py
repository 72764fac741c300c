"""Error curves: a panel a strategy, errors on a logarithmic axis, and no empty panel."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from matplotlib.figure import Figure

from chronoscale.reports.charts import error_curves as module
from chronoscale.reports.charts.advice_chart import ErrorCurve
from chronoscale.reports.charts.error_curves import error_curves


@pytest.mark.parametrize("is_error", [True, False])
@pytest.mark.parametrize("count", [1, 3, 4])
def test_panels_and_axes(monkeypatch: pytest.MonkeyPatch, count: int, is_error: bool) -> None:
    painters: list[Callable[[Figure], None]] = []
    monkeypatch.setattr(module, "draw", lambda name, title, caption, size, paint: painters.append(paint))
    panels = {f"s{number}": [ErrorCurve("1 GPU", 0.5, [[0.3, 0.1], [0.5]]), ErrorCurve("4 GPUs", 0.2, [[], []])] for number in range(count)}
    error_curves("compare", panels, "MSE", {"last value": 0.2}, 0.15, "", is_error)
    figure = Figure()
    painters[0](figure)
    shown = [axes for axes in figure.axes if axes.get_visible()]
    assert [axes.get_title() for axes in shown] == list(panels)
    for axes in shown:
        assert axes.get_yscale() == ("log" if is_error else "linear") and axes.get_xscale() == "log"
        line = axes.get_lines()[0]
        assert list(line.get_xdata()) == [0.5, 1.0] and list(line.get_ydata()) == [0.4, 0.1]  # the median of those that go on
