"""Rivals of the trainer of event streams: a TGN of PyTorch Geometric's parts and naive ones, on the same split and the same negatives.

    python benchmarks/bench_stream_rivals.py [--datasets uci_messages jodie_wikipedia] [--rates 1e-4 1e-3] [--epochs 8] [--seeds 0]
        [--batch 200] [--threads 1] [--ranked 20] [--patience 0] [--hidden 0] [--unit 1]
        [--rivals tgn tgn-both tgat tgat-both tgat-both-random pyg edgebank popularity both]

Features are left out: structure alone. Split 70/15/15 in time; AP and AUC against one random negative an event, MRR among mixed ones, which
are the same for all; `new`: test events that have a node never trained on. Epochs, and where their seconds go, are told as they end.
The row of a network is the epoch of the best validation AP, tested in the state that it left. tgn, tgat are ours, on one rank with strategy
tgl-unique; -both with decibels beside the published encoding of elapsed times; -random with two layers over random features of nodes.
Seconds of an epoch are without validation; rivals take turns seed by seed. Needs torch_geometric, unless --rivals leaves pyg out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from importlib.metadata import version

import numpy as np
import torch
from rivals import naive, ours
from rivals.protocol import Figures, Protocol
from rivals.results import Epoch, Trained

from chronoscale.datasets.catalogue import load
from chronoscale.datasets.streams.events import EventStream
from chronoscale.errors import UserError
from chronoscale.real_exec.measurement.environment import device_name
from chronoscale.strategies.workload import ModelChoice

WIDTHS = {"hidden": 100, "time": 100, "heads": 2, "dropout": 0.1}  # as the rival's
OURS = {
    "tgn": ModelChoice("tgn", **WIDTHS),
    "tgn-both": ModelChoice("tgn", clock="both", **WIDTHS),
    "tgat": ModelChoice("tgat", inputs=0, **WIDTHS),
    "tgat-both": ModelChoice("tgat", inputs=0, clock="both", **WIDTHS),
    "tgat-both-random": ModelChoice("tgat", inputs=100, clock="both", layers=2, **WIDTHS),
}
NAIVE = ("edgebank", "popularity", "both")
HEAD = "| stream | rival | seed | epoch | validation AP | test AP | AUC | MRR | AP new | AUC new | MRR new | s an epoch | s to validate |"


def row(*cells: object) -> str:
    return "| " + " | ".join(f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in cells) + " |"


def shown(test: Figures, new: Figures) -> tuple[float, ...]:
    return test.ap, test.auc, test.mrr, new.ap, new.auc, new.mrr


def networks(stream: EventStream, options: argparse.Namespace) -> Iterator[str]:
    """A row for every learning rate, seed and network, which take turns; then their means, and epochs of the first in those of each."""
    for rate in options.rates:
        found: dict[str, list[Trained]] = {}
        for seed in options.seeds:
            for name in (name for name in options.rivals if name not in NAIVE):
                one = trained(name, stream, rate, seed, options)
                label = f"TGN of torch_geometric, unit {options.unit:g}" if name == "pyg" else f"ours: {name}"
                found.setdefault(f"{label}, rate {rate:g}", []).append(one)
                best = f"{one.best + 1} of {len(one.epochs)}"
                figures = (one.epochs[one.best].validation_ap, *shown(one.test, one.new))
                yield row(stream.name, f"{label}, rate {rate:g}", seed, best, *figures, *seconds([one]))
        for label, all_of in found.items():
            values = np.array([(one.epochs[one.best].validation_ap, *shown(one.test, one.new)) for one in all_of])
            spread = values.std(0, ddof=1) if len(values) > 1 else np.zeros(values.shape[1])
            cells = [f"{mean:.4f} ± {deviation:.4f}" for mean, deviation in zip(values.mean(0), spread, strict=True)]
            yield row(stream.name, label, "mean", "", *cells, *seconds(all_of))


def seconds(found: Sequence[Trained]) -> tuple[float, float]:
    """Medians over all epochs: of training, of validation."""
    epochs = [epoch for one in found for epoch in one.epochs]
    return statistics.median(epoch.training for epoch in epochs), statistics.median(epoch.validation for epoch in epochs)


def trained(name: str, stream: EventStream, rate: float, seed: int, options: argparse.Namespace) -> Trained:
    """A network, by its name here."""

    def told(epoch: Epoch) -> None:
        parts = ", ".join(f"{part} {spent:.2f}" for part, spent in epoch.parts.items())
        figures = f"loss {epoch.loss:.4f}, validation AP {epoch.validation_ap:.4f}"
        spent = f"{epoch.training:.2f} s ({parts}), validation {epoch.validation:.2f} s"
        print(f"{stream.name}, {name}, rate {rate:g}, seed {seed}: {figures}, {spent}", file=sys.stderr, flush=True)

    given = {
        "batch_size": options.batch,
        "epochs": options.epochs,
        "learning_rate": rate,
        "seed": seed,
        "threads": options.threads,
        "ranked": options.ranked,
        "patience": options.patience,
        "hidden": options.hidden,
        "told": told,
    }
    if name == "pyg":
        found: Trained = import_module("rivals.pyg_tgn").run(stream, unit=options.unit, **given)
        return found
    return ours.run(stream, choice=OURS[name], **given)


def simple(stream: EventStream, options: argparse.Namespace) -> Iterator[str]:
    protocol = Protocol.of(stream, options.batch, options.ranked, options.hidden)
    for name in (name for name in options.rivals if name in NAIVE):
        if name == "edgebank":
            answers = naive.edgebank(stream)
        else:
            half_life, answers = naive.chosen(protocol, getattr(naive, name))
            name = f"{name}, half-life {half_life:,} events"
        validation, test, new = naive.tested(protocol, answers)
        yield row(stream.name, name, "", "", validation, *shown(test, new), "", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--datasets", nargs="+", default=["uci_messages", "jodie_wikipedia"])
    parser.add_argument("--rates", type=float, nargs="+", default=[1e-4, 1e-3])
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--ranked", type=int, default=20, help="negatives of MRR; 0: no MRR")
    parser.add_argument("--patience", type=int, default=0, help="epochs without a better validation AP; 0: all epochs")
    parser.add_argument("--hidden", type=float, default=0.0, help="share of the nodes that are hidden from training")
    parser.add_argument("--unit", type=float, default=1.0, help="what pyg encodes time in, in the stream's unit; 3600: hours of seconds")
    parser.add_argument("--rivals", nargs="+", choices=(*OURS, "pyg", *NAIVE), default=[*OURS, "pyg", *NAIVE])
    options = parser.parse_args()
    try:
        if "pyg" in options.rivals:
            import_module("rivals.pyg_tgn")  # before any work
        print(f"{HEAD}\n|{'---|' * (HEAD.count('|') - 1)}", flush=True)
        for name in options.datasets:
            stream = load(name)
            assert isinstance(stream, EventStream)
            stream = replace(stream, features=None, node_features=None)
            for line in simple(stream, options):
                print(line, flush=True)
            for line in networks(stream, options):
                print(line, flush=True)
        if set(options.rivals) <= set(NAIVE):
            return
        packages = ", ".join(f"{name} {version(name)}" for name in ("torch", *["torch_geometric"] * ("pyg" in options.rivals)))
        print(f"\n{device_name(torch.device('cpu'))}, {options.threads} thread(s), {packages}")
    except UserError as error:
        sys.exit(f"bench_stream_rivals: {error}")


if __name__ == "__main__":
    main()
