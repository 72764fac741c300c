"""Scaling: time, device and host memory of FlareDTDG and DynaHB on 1 to 16 GPUs, simulated (Figure 7)."""

from __future__ import annotations

import numpy as np
import pandas as pd

from chronoscale.datasets.snapshots.csr import WeightedCSR
from chronoscale.harness.reproduce.flaredtdg.memory import width
from chronoscale.harness.reproduce.flaredtdg.points import GB, OURS, SMALL, Point, notes, simulate
from chronoscale.harness.reproduce.flaredtdg.stand_ins import printed, statistics, trained
from chronoscale.harness.study.findings import Findings, Told, row
from chronoscale.reports.charts.lines import Panel, lines
from chronoscale.reports.published import published
from chronoscale.strategies.flaredtdg.footprint import dynahb_cache, feature_bytes

MODEL, RIVAL = "mpnn-lstm", "dynahb"
GPUS, QUICK_GPUS = (1, 2, 4, 8, 16), (1, 4)


def host_gb(dataset: str, strategy: str, gpus: int) -> float:
    """All hosts together: the snapshots that train, of which parts are sent; DynaHB's caches besides, as Table 1 has them."""
    if strategy == RIVAL:
        return dynahb_cache(statistics(dataset), width(dataset), gpus) / GB
    stats = trained(dataset)
    features = len(stats) * feature_bytes(stats.num_nodes, printed(dataset).node_features or 1)
    return (float(WeightedCSR.nbytes_of(stats.num_nodes, stats.edges).sum()) + features) / GB


def figures(told: Told, quick: bool) -> pd.DataFrame:
    """One row a data set, strategy and number of GPUs."""
    found = []
    for dataset in SMALL[:1] if quick else SMALL:
        for strategy in (OURS, RIVAL):
            for gpus in QUICK_GPUS if quick else GPUS:
                told(f"{dataset}, {strategy}, {gpus} GPUs")
                one = simulate(Point(dataset, MODEL, strategy, gpus))
                found.append(
                    {"dataset": dataset, "strategy": strategy, "gpus": gpus, "epoch_s": one.epoch_s, "steps": one.steps}
                    | {"gb": one.peak_gb, "host_gb": host_gb(dataset, strategy, gpus), "status": one.status, "message": one.message}
                )  # fmt: skip
    return pd.DataFrame(found)


def of(frame: pd.DataFrame, column: str, **wanted: object) -> list[float]:
    """A column where others have these values."""
    for name, value in wanted.items():
        frame = frame[frame[name] == value]
    return [float(value) for value in frame[column]]


def least(frame: pd.DataFrame) -> str:
    """Where FlareDTDG gains least on DynaHB."""
    own, other = (np.array(of(frame, "epoch_s", strategy=name)) for name in (OURS, RIVAL))
    points = frame[frame["strategy"] == OURS].to_dict("records")
    worst = points[int(np.nanargmin(other / own))]
    return f"{worst['dataset']} on {worst['gpus']} GPUs"


def run(told: Told, quick: bool) -> Findings:
    """Every range that the text prints, and how host memory grows."""
    paper = published("flaredtdg").figures[7]
    over, faster, one, four, cache = paper.ranges
    frame = figures(told, quick)
    last = int(frame["gpus"].max())
    ours, theirs = (of(frame, "epoch_s", strategy=name) for name in (OURS, RIVAL))
    gained = [a / b for a, b in zip(of(frame, "epoch_s", strategy=OURS, gpus=1), of(frame, "epoch_s", strategy=OURS, gpus=4), strict=True)]
    hosts = {count: of(frame, "host_gb", strategy=OURS, gpus=count) for count in (1, last)}
    rows = [
        row("flaredtdg over dynahb, an epoch", over, [b / a for a, b in zip(ours, theirs, strict=True)],
            f"epochs, not convergence; least: {least(frame)}"),
        row("flaredtdg on 4 GPUs over 1", faster, gained, "simulated exchanges hide beside kernels, see Table 11"),
        *(row(f"flaredtdg, soc_flickr, GB a device, {count} GPU{'s' * (count > 1)}", known,
              of(frame, "gb", strategy=OURS, gpus=count, dataset="soc_flickr"), "widths and windows are assumed; tensors alone")
          for count, known in ((1, one), (4, four))),
        row(f"dynahb, GB of all hosts, {last} GPUs", cache, of(frame, "host_gb", strategy=RIVAL, gpus=last),
            f"features of what ranks reach, {width('soc_flickr')} numbers each as in Table 1; of which data sets it is, is not printed"),
        row(f"flaredtdg, host memory on {last} GPUs over 1", None, [b / a for a, b in zip(*hosts.values(), strict=True)],
            "said to be constant (§4.5): the snapshots, once"),
    ]  # fmt: skip
    titles = {"epoch_s": "an epoch, s", "gb": "a device, GB", "host_gb": "all hosts, GB"}
    panels = []
    for column, title in titles.items():
        series = {}
        for (dataset, strategy), part in frame.groupby(["dataset", "strategy"], sort=False):
            series[f"{strategy}, {dataset}"] = (part["gpus"].tolist(), part[column].tolist())
        panels.append(Panel(title, "GPUs", title, series, scale=("log", "log")))
    out = [f"{one.strategy}, {one.dataset}, {one.gpus} GPUs: {one.message}." for one in frame.itertuples() if one.status != "ran"]
    drawn = lines("flaredtdg-figure-7", paper.title, "Simulated; host memory is counted.", panels)
    return Findings(pd.DataFrame(rows), (drawn,), {"points": frame}, (*out, *notes(quick, f"{SMALL[0]}, MPNN-LSTM")))
