"""Forecast charts: what a forecaster predicted of three sensors, its best, its middle one and its worst, beside what was read."""

from __future__ import annotations

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from chronoscale.reports.charts.drawing import Drawing, draw
from chronoscale.reports.charts.style import COLOURS, MUTED

SHOWN = 240  # steps, the last ones


def forecast_chart(name: str, table: pd.DataFrame) -> Drawing:
    """Draw forecasts of the nearest and of the farthest step ahead of three sensors, beside what was read: those of the least, the middle
    and the largest mean absolute error over both.

    name: of its file. table: columns `time`, `sensor`, `ahead`, `value` and `truth` (`chronoscale predict`), with truths.
    """
    errors = (table["value"] - table["truth"]).abs().groupby(table["sensor"]).mean().dropna().sort_values()
    chosen = {"best": errors.index[0], "middle": errors.index[len(errors) // 2], "worst": errors.index[-1]}
    aheads = sorted({int(table["ahead"].min()), int(table["ahead"].max())})
    steps = " and ".join(f"{ahead} step{'s' * (ahead > 1)}" for ahead in aheads)
    caption = (
        f"Readings (grey) and forecasts {steps} ahead of the sensors with the least, the middle and the largest mean absolute error of "
        f"{len(errors):,}, over the last {SHOWN} steps at most."
    )

    def paint(figure: Figure) -> None:
        for axes, (which, sensor) in zip(figure.subplots(len(chosen), 1, sharex=True), chosen.items(), strict=True):
            _paint_sensor(axes, table[table["sensor"] == sensor], aheads)
            axes.set_title(f"{which}: {sensor}, MAE {errors[sensor]:.4g}")

    return draw(name, "Forecasts of three sensors", caption, (10, 7.5), paint)


def _paint_sensor(axes: Axes, table: pd.DataFrame, aheads: list[int]) -> None:
    of_steps = [table[table["ahead"] == ahead].sort_values("time").tail(SHOWN) for ahead in aheads]
    axes.plot(of_steps[0]["time"], of_steps[0]["truth"], color=MUTED, alpha=0.5, linewidth=2.5, label="reading")
    for ahead, forecasts, colour in zip(aheads, of_steps, COLOURS[1:], strict=False):
        axes.plot(forecasts["time"], forecasts["value"], color=colour, linewidth=1, label=f"{ahead} ahead")
    axes.legend(loc="best")
