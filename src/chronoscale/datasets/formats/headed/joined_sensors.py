"""Sensors that several columns name together: a place and a kind, say, become one column of sensors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from chronoscale.datasets.arrays import Int64
from chronoscale.datasets.formats.headed.column import Column
from chronoscale.datasets.formats.headed.headed_table import HeadedTable

PLUS = "+"  # between names of columns, in the option `sensor` and in the name of the joined column
BETWEEN = " / "  # entries


def join_sensors(table: HeadedTable, sensor: str | None) -> HeadedTable:
    """Join the columns that the option `sensor` names with + between, such as `place+kind`, to one of text such as `north / pm10`.

    The table is returned as it is where the option names one column. Raises UserError for a column that is not there, and for a missing
    entry."""
    if sensor is None or PLUS not in sensor or sensor in table.header:
        return table
    parts = [table.find("sensor", name) for name in sensor.split(PLUS)]
    texts = [pc.cast(part.texts("sensor"), pa.large_string()) for part in parts]
    together = pc.binary_join_element_wise(*texts, pa.scalar(BETWEEN, pa.large_string()))
    joined = replace(parts[0], name=sensor, data=together, is_unique=True)
    return replace(table, columns=tuple(joined if one is parts[0] else one for one in table.columns if one is parts[0] or one not in parts))


def tell_apart(columns: Sequence[Column], cells: Int64) -> list[Column]:
    """Return the first columns that tell all rows of one cell apart, of several beside the sensor's; [] where all together do not. cells:
    the sensor and step of each row, int64 [M]."""
    chosen = list[Column]()
    for column in columns:
        entries = np.asarray(pc.dictionary_encode(column.data).indices.to_numpy(zero_copy_only=False), np.int64)
        cells_now = np.unique(cells * (entries.max() + 1) + entries, return_inverse=True)[1]
        if len(np.unique(cells_now)) > len(np.unique(cells)):
            chosen.append(column)
            cells = cells_now
        if len(np.unique(cells)) == len(cells):
            return chosen
    return []
