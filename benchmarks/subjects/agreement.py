"""A GPU trains as the CPU does, on one rank and on two, and as CUDA graphs: losses of the first iterations differ by less than 1e-4.

Every strategy that executes with every model that it takes; `difference` is the largest of the first three iterations. On one rank (`device`)
and on two that share the GPU (`ranks`: a strategy of each kind that communicates; what comes out is right, their times are not those of
ranks with a GPU each). `launch`: row by row beside CUDA graphs, which are captured in the second warm-up. On a CPU two equal runs are
compared: that losses are the same in every run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
from core.case import Case, Passes, Setting, Subject
from setups import jobs

from chronoscale.harness.runs.passes import passes_of

CLOSE, FIRST = 1e-4, 3
SNAPSHOTS = ("psg", "esdg", "distdgl", "blad", "dynahb", "real-type1", "real-reuse", "real-g", "real-g+", "real-l", "dynagraph")
WINDOWS = (*("flaredtdg", "flaredtdg-turns", "flaredtdg-no-overlap", "flaredtdg-remap"), *("full-history", "recent-only", "recent-states"))
SIGNALS = ("pgt", "ddp", "ddp-batch", "index", "gpu-index", "dist-index", "gen-dist-index")
STREAMS = ("sequential", "tgl", "tgl-unique", "etc", "taser", "simple", "fast", "fast-merged", "fast-compressed", "fast-cached")
MEMORY = ("tgl-dist", "mspipe", "disttgl", "memshare", "memshare-shared", "memshare-history", "memshare-decay", "memshare-negatives")
ON_ONE_RANK = {
    **dict.fromkeys(("wd-gcn", "t-gcn", "evolvegcn-o", "evolvegcn-h", "mpnn-lstm"), (*SNAPSHOTS, *WINDOWS)),
    "gat-lstm": SNAPSHOTS,
    **dict.fromkeys(("dcrnn", "pgt-dcrnn", "a3t-gcn", "st-transformer"), SIGNALS),
    **dict.fromkeys(("tgat", "dysat"), STREAMS),
    **dict.fromkeys(("tgn", "jodie", "apan"), (*STREAMS, *MEMORY)),
}
ON_TWO_RANKS = {
    "t-gcn": ("psg", "real-g+", "esdg", "flaredtdg", "flaredtdg-remap", "dynagraph"),
    "evolvegcn-h": ("distdgl",),
    "dcrnn": ("dist-index",),
    "tgn": ("tgl", "fast", "memshare", "disttgl"),
    "apan": ("memshare-shared",),
}
CAPTURED = {"wd-gcn": ("psg", "real-type1", "real-reuse"), "pgt-dcrnn": ("index", "gpu-index")}


def experiment(model: str, strategies: tuple[str, ...], hidden: int) -> dict[str, Any]:
    """Return an experiment on generated data of the model's family."""
    common = {"strategies": [*strategies], "repeats": 1, "costs": "datasheet", "seed": 3}
    if strategies[0] in SNAPSHOTS:
        window = {"group_size": 3, "stride": 2, "full": 2, "decayed": 2, "alpha": 0.5, "chunks": 8}
        return {**common, "dataset": "growth_small", "model": {"name": model, "hidden": hidden, "inputs": hidden}, "training": window, "groups": 4}
    if strategies[0] in SIGNALS:
        training = {"batch_size": 8, "window": 12, "horizon": 12, "batches": 4}
        return {**common, "dataset": "traffic_small", "model": {"name": model, "hidden": hidden}, "training": training}
    training = {"batch_size": 300, "fanout": [3], **({"windows": 3} if model == "dysat" else {})}
    return {**common, "dataset": "events_small", "model": {"name": model, "hidden": hidden}, "training": training}


def measure(model: str, strategies: tuple[str, ...], hidden: int, ranks: int, ways: Mapping[str, Mapping[str, Any]], setting: Setting) -> Passes:
    """Execute in both ways. Raises AssertionError for losses that differ, and for what was asked to be captured and was not."""
    settings = {**experiment(model, strategies, hidden), "ranks": [ranks]}
    runs = {way: jobs.experiment_run(setting.scratch / way.replace(" ", "-"), {**settings, **keys}) for way, keys in ways.items()}
    passes: dict[str, list[dict[str, float]]] = {}
    wrong = []
    for name in strategies:
        first, *_ = losses = [passes_of(run, ranks, name)[0].losses for run in runs.values()]
        for way, run, own in zip(runs, runs.values(), losses, strict=True):
            difference = float((np.abs(own - first) / np.maximum(np.abs(first), 1e-12))[:FIRST].max())
            wrong += [f"{name}, {way}: {difference:.1e}"] * (not difference <= CLOSE)
            seconds = passes_of(run, ranks, name)[0].trace.span_ns / 1e9
            passes[f"{name}, {way}"] = [{"seconds": seconds, "loss": float(own[0]), "difference": difference}]
            if ways[way].get("launch") == "graph":
                launched = json.loads((run.folder / f"ranks-{ranks}" / f"{name}-launched.json").read_text())[-1]
                wrong += [f"{name}: {launched['why'] or 'no graphs'}"] * (not launched["graphs"])
    assert not wrong, f"{model}: {'; '.join(wrong)}"
    return passes


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Yield models, on one rank, on two, and as CUDA graphs."""
    second = {"CPU again": {"device": "cpu"}} if device == "cpu" else {"GPU": {"device": "cuda", "share_gpu": True}}
    beside_cpu = {"CPU": {"device": "cpu"}, **second}
    launches = {"row by row": {"device": device}, "graphs": {"device": device, "launch": "graph" if device == "cuda" else "eager", "warmup": 2}}
    for what, models, ranks, ways in (
        ("device", ON_ONE_RANK, 1, beside_cpu),
        ("ranks", ON_TWO_RANKS, 2, beside_cpu),
        ("launch", CAPTURED, 1, launches),
    ):
        for model, strategies in models.items():
            yield Case({"what": what, "model": model}, partial(measure, model, strategies, 8 if quick else 32, ranks, ways))


SUBJECT = Subject(partial(cases, "cpu"), 1, cuda=partial(cases, "cuda"))
