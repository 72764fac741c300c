"""DeviceRates: what this device reaches, measured in about a second, for plans that ask for costs where nothing was profiled."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

import torch

from chronoscale.real_exec.measurement.kernels import launch_ns
from chronoscale.strategies.cluster import Device, Link
from chronoscale.strategies.costing.roofline import work_kinds
from chronoscale.strategies.schedule import Op

BUDGET_S = 1.0
NUMBERS = 1 << 22  # float32 of each array that is streamed or copied: more than caches hold
ROWS, WIDTH = 1 << 15, 64  # of the product: tall and narrow, as a layer's


@dataclass(frozen=True, slots=True)
class DeviceRates:
    """Rates of this machine's device, a run's record of them: a stand-in for a datasheet, which names what a device could reach at best.

    flops: FLOP/s of a dense product; stream: B/s of a pass over arrays; copy: B/s from host to device, each copy `copy_s` longer; launch_s:
    what starting a kernel takes the host of a GPU; kernel_s: what a kernel of next to no work takes (a CPU's dispatch). seconds: spent on
    measuring.
    """

    flops: float
    stream: float
    copy: float
    copy_s: float
    launch_s: float
    kernel_s: float
    seconds: float

    def device(self, name: str, bus: float = 0.0) -> Device:
        """Return the device whose roofline meets these rates with large work, for `DatasheetCosts`.

        bus: B/s that an experiment holds copies to, 0: none.
        """
        kinds = work_kinds()
        stream, dense = kinds[Op.COPY].bandwidth, kinds[Op.TRANSFORM].flops
        link = Link(min(self.copy, bus or self.copy), self.copy_s)
        return Device(name, 1, self.flops / dense, self.stream / stream, link, self.launch_s, memory_latency_s=self.kernel_s * stream)


def measure_rates(device: torch.device, threads: int, budget_s: float = BUDGET_S) -> DeviceRates:
    """Measure the rates of a device, with one rank's `threads` on a CPU and no other rank beside it, within about `budget_s` seconds, for
    `chronoscale bench`.
    """
    began, usual = time.perf_counter(), torch.get_num_threads()
    on_gpu = device.type == "cuda"
    torch.set_num_threads(threads)
    try:
        a, b, out = (torch.ones(NUMBERS, device=device) for _ in range(3))
        tall, square = torch.ones(ROWS, WIDTH, device=device), torch.ones(WIDTH, WIDTH, device=device)
        host = torch.ones(NUMBERS, pin_memory=on_gpu)
        small = torch.ones(1, device=device)

        def quickest(call: Callable[[], object]) -> float:
            return _quickest_s(call, device, budget_s / 5)

        stream, product = quickest(lambda: torch.add(a, b, out=out)), quickest(lambda: tall @ square)
        copied, copy_s = quickest(lambda: a.copy_(host)), quickest(lambda: small.copy_(host[:1]))
        kernel_s = 0.0 if on_gpu else quickest(lambda: small.add_(1.0))
        launch_s = launch_ns(device) / 1e9
    finally:
        torch.set_num_threads(usual)
    moved = host.nbytes / max(copied - copy_s, copied / 2)
    flops = 2 * ROWS * WIDTH * WIDTH / product
    return DeviceRates(flops, 3 * a.nbytes / stream, moved, copy_s, launch_s, kernel_s, time.perf_counter() - began)


def _quickest_s(call: Callable[[], object], device: torch.device, budget_s: float) -> float:
    """Return the shortest time of calls that are repeated for `budget_s` seconds, after one that warms up."""
    shortest, end = float("inf"), time.perf_counter() + budget_s
    call()
    while shortest == float("inf") or time.perf_counter() < end:
        begun = time.perf_counter()
        call()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        shortest = min(shortest, time.perf_counter() - begun)
    return shortest
