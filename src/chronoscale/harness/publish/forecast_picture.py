"""Forecast picture: three sensors of the forecasts that `chronoscale predict` writes, drawn from what goes by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from chronoscale.errors import UserError
from chronoscale.harness.data.graphs import check_picture
from chronoscale.reports.charts.forecasts import forecast_chart


class ForecastPicture:
    """Picture of forecasts, drawn to a file once all tables of them have been written. Raises UserError for a file of no known format.

    Kept in memory: forecasts of the nearest and of the farthest step ahead.
    """

    def __init__(self, file: Path) -> None:
        check_picture(file)
        self._file = file
        self._kept: list[pd.DataFrame] = []

    def watch(self, frames: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        """Yield tables of predictions as they come. Raises UserError for predictions that are no forecasts, or that have no truth."""
        for frame in frames:
            if "ahead" not in frame or not frame["truth"].notna().any():
                raise UserError(f"--picture {self._file}: of forecasts beside what was read: a signal's, with --period test or validation")
            self._kept.append(frame[frame["ahead"].isin([frame["ahead"].min(), frame["ahead"].max()])])
            yield frame

    def draw(self) -> None:
        """Draw what has gone by."""
        drawing = forecast_chart(self._file.stem, pd.concat(self._kept, ignore_index=True))
        try:
            self._file.write_bytes(drawing.png) if self._file.suffix == ".png" else self._file.write_text(drawing.svg)
        except OSError as error:
            raise UserError(f"--picture {self._file}: {(error.strerror or 'cannot be written').lower()}") from None
