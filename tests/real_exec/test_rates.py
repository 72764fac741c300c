"""Rates of this device: what a plan is made with where nothing was profiled."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from notation import write

from chronoscale.real_exec.measurement.rates import DeviceRates, measure_rates
from chronoscale.simulator import presets
from chronoscale.strategies.costs import DatasheetCosts

RATES = DeviceRates(flops=2e9, stream=3e9, copy=4e9, copy_s=5e-6, launch_s=0.0, kernel_s=1e-6, seconds=1.0)


def ns(row: str, bus: float = 0.0) -> int:
    schedule = write(row).schedule
    return int(DatasheetCosts(RATES.device("here", bus)).predict(schedule, np.array([0]))[0][0])


def test_large_work_takes_what_was_measured():
    """Bytes over the rate of a pass, operations over that of a product, and copies over theirs."""
    assert ns("c: COPY@COMPUTE ns=0 bytes=3_000_000_000 kernels=0") == pytest.approx(1e9, rel=1e-6)
    assert ns("x: TRANSFORM@COMPUTE ns=2_000_000_000 width=8 rows=8 kernels=0") == pytest.approx(1e9, rel=1e-6)
    assert ns("h: H2D@H2D bytes=4_000_000_000") == pytest.approx(1e9 + 5_000, rel=1e-9)
    assert ns("h: H2D@H2D bytes=4_000_000_000", bus=1e9) == pytest.approx(4e9 + 5_000, rel=1e-9)
    assert ns("h: H2D@H2D bytes=4_000_000_000", bus=1e12) == pytest.approx(1e9 + 5_000, rel=1e-9)


def test_small_work_takes_a_dispatch_for_each_kernel():
    assert ns("c: COPY@COMPUTE ns=0 bytes=0 kernels=7") == pytest.approx(7_000, abs=1)


def test_a_device_is_measured_by_one_ranks_threads():
    before = torch.get_num_threads()
    rates = measure_rates(torch.device("cpu"), 1, budget_s=0.01)
    assert torch.get_num_threads() == before and rates.launch_s == 0
    assert min(rates.flops, rates.stream, rates.copy, rates.copy_s, rates.kernel_s, rates.seconds) > 0
    assert rates.copy_s < 1e-3 and rates.kernel_s < 1e-3  # a word, not an array


@pytest.mark.parametrize(
    ("name", "sheet"),
    [
        ("NVIDIA A100-SXM4-40GB", "NVIDIA A100 40GB"),
        ("NVIDIA H200", "NVIDIA H200"),
        ("NVIDIA H100 80GB HBM3", "NVIDIA H100 80GB HBM3"),
        ("NVIDIA H100 PCIe", "NVIDIA H100 PCIe"),
        ("NVIDIA A100-SXM4-80GB", "NVIDIA A100-SXM4-80GB"),
        ("NVIDIA V100", None),
        ("NVIDIA", None),
        ("AMD EPYC", None),
        ("", None),
    ],
)
def test_a_gpu_is_known_by_its_own_name(name, sheet):
    known = presets.known_device(name)
    assert (known and known.name) == sheet
