"""Cases: the scaling study under other assumptions, and under what the printed numbers imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from chronoscale.harness.reproduce.pgti.points import POLARIS, WIDTH, Assumed, Outcome, Point, simulate, windows_bytes
from chronoscale.harness.reproduce.pgti.resident import EPOCHS, NARROW
from chronoscale.harness.study.findings import NAN
from chronoscale.reports.published import published
from chronoscale.strategies.workload import ModelChoice


@dataclass(frozen=True, slots=True)
class Case:
    """A set of assumptions. fixed_s: added to every epoch on several GPUs. prepare_s: preparation instead of ours, by strategy. solved:
    from the numbers that it is held against."""

    name: str
    assumed: Assumed = POLARIS
    hidden: int = WIDTH
    fixed_s: float = 0.0
    prepare_s: Mapping[str, float] | None = None
    solved: bool = True

    def epoch(self, strategy: str, gpus: int) -> float:
        """Seconds."""
        return self.outcome(strategy, gpus).epoch_s + self.fixed_s * (gpus > 1)

    def outcome(self, strategy: str, gpus: int) -> Outcome:
        """Simulated; an engine's figures matter to DDP alone."""
        assumed = self.assumed if strategy == "ddp" else replace(self.assumed, bandwidth=None, latency_s=None)
        return simulate(Point(strategy, gpus, model=ModelChoice("pgt-dcrnn", self.hidden), assumed=assumed))

    def total(self, strategy: str, gpus: int) -> float:
        """Seconds of preparation and 30 epochs."""
        before = self.outcome(strategy, gpus).prepare_s if self.prepare_s is None else self.prepare_s[strategy]
        return before + EPOCHS * self.epoch(strategy, gpus)

    def over(self, gpus: int) -> float:
        """DDP's total over that of distributed index-batching."""
        return self.total("ddp", gpus) / self.total("dist-index", gpus)

    def line(self, counts: Sequence[int]) -> dict[str, object]:
        """For the table of sensitivity: ratios on `counts` GPUs."""
        one = self.epoch("gpu-index", 1)
        return {
            "assumption": self.name,
            **{f"ddp over dist-index, {gpus}": self.over(gpus) for gpus in counts},
            "one GPU over dist-index, 32, epochs": one / self.epoch("dist-index", 32),
            "one GPU over dist-index, 128, epochs": one / self.epoch("dist-index", 128),
            "ddp epoch, 128, s": self.epoch("ddp", 128),
            "solved": self.solved,
        }


HALF, FIXED = "engine 0.5 GB/s a worker", "fixed cost"
DEFAULT = Case(f"figures of polaris.yaml, width {WIDTH}", solved=False)
DELAYED = Case("engine 0.5 ms a request", Assumed(latency_s=0.5e-3), solved=False)


def printed() -> dict[str, float]:
    """Seconds that the printed numbers come to: an epoch on one GPU, an epoch and totals on 128."""
    alone = published("pgt-i").tables[4].rows[1]
    ranges = published("pgt-i").figures[7].ranges
    whole, before = float(alone["minutes"]) * 60, float(alone["prepare_s"])
    slow, times, trained_times, distributed = (float(ranges[i].mean or NAN) for i in (1, 2, 3, 5))
    dist, trained = whole / times, (whole - before) / trained_times
    ddp = dist * slow
    return {
        "one": (whole - before) / EPOCHS,
        "dist-index epoch": trained / EPOCHS,
        "dist-index total": dist,
        "dist-index before": dist - trained,
        "ddp epoch": (ddp - distributed) / EPOCHS,
        "ddp before": distributed,
        "ddp total": ddp,
    }


def cases() -> list[Case]:
    """Defaults, each assumed figure halved and doubled, and what the printed numbers imply, one after another."""
    known = printed()
    slower = replace(DEFAULT.assumed, efficiency=DEFAULT.assumed.efficiency * DEFAULT.epoch("gpu-index", 1) / known["one"])
    paced = Case("one-GPU epoch as printed", slower)
    fixed = known["dist-index epoch"] - paced.epoch("dist-index", 128)
    before = {"dist-index": known["dist-index before"], "ddp": known["ddp before"]}
    short = fixed_cost()
    rate = engine_rate(float(published("pgt-i").figures[9].ranges[1].mean or NAN), 4) / 4
    narrow = replace(slower, bandwidth=rate)
    return [
        DEFAULT,
        Case(HALF, Assumed(bandwidth=0.5e9), solved=False),
        Case("engine 2 GB/s a worker", Assumed(bandwidth=2e9), solved=False),
        DELAYED,
        Case("engine 2 ms a request", Assumed(latency_s=2e-3), solved=False),
        Case("start of a kernel 50 µs, ten times ours", Assumed(launch_s=50e-6), solved=False),
        Case(f"width {NARROW}, as in the published code", hidden=NARROW, solved=False),
        Case(f"{FIXED} of {short:.2f} s an epoch, from 99.81 times", fixed_s=short),
        paced,
        Case(f"one-GPU epoch as printed and a fixed cost of {fixed:.2f} s an epoch", slower, fixed_s=fixed),
        Case(
            f"the same and the preparation that is printed: {before['dist-index']:.0f} and {before['ddp']:.0f} s",
            slower,
            fixed_s=fixed,
            prepare_s=before,
        ),
        Case(f"the same and {rate / 1e9:.2f} GB/s a worker, from Figure 9's 303 s", narrow, fixed_s=fixed, prepare_s=before),
    ]


def engine_rate(epoch_s: float, gpus: int) -> float:
    """Bytes a second that all workers together fetched, had fetching taken all of a printed epoch that computing does not: an epoch on one
    GPU, as printed, over the number of GPUs."""
    return windows_bytes() / (epoch_s - printed()["one"] / gpus)


def fixed_cost() -> float:
    """Seconds an epoch on several GPUs with which our one GPU is 99.81 times an epoch on 128."""
    times = float(published("pgt-i").figures[7].ranges[3].mean or NAN)
    return DEFAULT.epoch("gpu-index", 1) / times - DEFAULT.epoch("dist-index", 128)
