"""Reading of measurements: which benchmark a file is from, by its text."""

from __future__ import annotations

from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.simulator.network.measured.nccl_tests import is_nccl_tests, read_nccl_tests
from chronoscale.simulator.network.measured.osu import is_osu, read_osu
from chronoscale.simulator.network.measured.rates import MeasuredRate, is_ib_write_bw, is_nvbandwidth, read_ib_write_bw, read_nvbandwidth
from chronoscale.simulator.network.measured.table import MeasuredTable


def read_measurements(path: Path) -> list[MeasuredTable | MeasuredRate]:
    """Read what nccl-tests, an OSU micro-benchmark, nvbandwidth or ib_write_bw printed to a file, to fit a cluster's links to.

    Raises UserError for a file that is not there, or that none of them printed, and naming the line for one that is cut short or whose
    units are not stated.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: {error}") from None
    lines = list(enumerate(text.splitlines(), 1))
    if is_nccl_tests(text):
        return [read_nccl_tests(path, lines)]
    if is_osu(text):
        return [read_osu(path, lines)]
    if is_nvbandwidth(text):
        return list(read_nvbandwidth(path, lines))
    if is_ib_write_bw(text):
        return list(read_ib_write_bw(path, lines))
    raise UserError(f"{path}: not an output of nccl-tests, an OSU micro-benchmark, nvbandwidth or ib_write_bw")
