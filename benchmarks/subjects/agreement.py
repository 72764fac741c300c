"""A GPU trains as the CPU does, on one rank and on two, and as CUDA graphs: losses of the first iterations differ by less than 1e-4.

`difference` is the largest of an epoch's first three iterations.

device  every strategy that executes with every model that it takes, on one rank. On a CPU two equal runs are compared: losses are the same
        in every run
ranks   on two ranks that share the GPU, a strategy of each kind that communicates: what comes out is right, their times are not those of
        ranks with a GPU each
launch  row by row beside CUDA graphs, which are captured in the second epoch; the third is compared
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
from chronoscale.strategies import registry
from chronoscale.strategies.signals.forecasters import FORECASTERS
from chronoscale.strategies.snapshots.models import MODELS as SNAPSHOT_MODELS
from chronoscale.strategies.streams.models import STREAM_MODELS

CLOSE, FIRST = 1e-4, 3
DATA: dict[str, dict[str, Any]] = {  # by family
    "snapshots": {"dataset": "growth_small", "groups": 4},
    "signals": {"dataset": {"name": "traffic_small", "time_of_day": 288}},
    "streams": {"dataset": "events_small"},
}
TRAINING: dict[str, dict[str, Any]] = {
    "snapshots": {"group_size": 3, "stride": 2, "full": 2, "decayed": 2, "alpha": 0.5, "chunks": 8},
    "signals": {"batch_size": 8, "window": 12, "horizon": 12, "batches": 4},
    "streams": {"batch_size": 300, "fanout": [3], "batches": 5},
}
MODELS = {"snapshots": tuple(SNAPSHOT_MODELS), "signals": tuple(FORECASTERS), "streams": tuple(STREAM_MODELS)}
REFUSED = {  # strategies that do not take a model, by how their names begin
    "evolvegcn-h": ("dynahb", "dynagraph"),
    "gat-lstm": ("dynahb", "dynagraph", "flaredtdg", "full-history", "recent"),
    **dict.fromkeys(("tgat", "dysat", "graphmixer", "dygformer"), ("tgl-dist", "mspipe", "disttgl", "memshare")),
}
ON_TWO_RANKS = {
    "t-gcn": ("psg", "real-g+", "esdg", "flaredtdg", "flaredtdg-remap", "dynagraph"),
    "tgn": ("tgl", "fast", "memshare", "disttgl"),
    **{"evolvegcn-h": ("distdgl",), "dcrnn": ("dist-index",), "apan": ("memshare-shared",)},
}
CAPTURED = {"wd-gcn": ("psg", "real-type1", "real-reuse"), "pgt-dcrnn": ("index", "gpu-index")}


def family_of(model: str) -> str:
    """Return a model's family."""
    return next(family for family, models in MODELS.items() if model in models)


def strategies_of(model: str) -> tuple[str, ...]:
    """Return all strategies that execute and take a model."""
    strategies = registry.of(family_of(model)).items()
    return tuple(name for name, one in strategies if one.executes and not name.startswith(REFUSED.get(model, ("none",))))


def experiment(model: str, strategies: tuple[str, ...], hidden: int) -> dict[str, Any]:
    """Return an experiment on generated data of the model's family."""
    family = family_of(model)
    inputs = {"inputs": hidden} if family == "snapshots" else {}
    training = {**TRAINING[family], **({"windows": 3, "duration": 300_000} if model == "dysat" else {})}
    common = {"strategies": [*strategies], "repeats": 1, "warmup": 0, "costs": "datasheet", "seed": 3}
    return {**common, **DATA[family], "model": {"name": model, "hidden": hidden, **inputs}, "training": training}


def measure(
    model: str, strategies: tuple[str, ...], hidden: int, ranks: int, ways: Mapping[str, Mapping[str, Any]], setting: Setting
) -> Passes:
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
    gpu = {"GPU": {"device": "cuda", "share_gpu": True}} if device == "cuda" else {"CPU again": {"device": "cpu"}}
    beside_cpu = {"CPU": {"device": "cpu"}, **gpu}
    eager = {"device": device, "warmup": 2}
    launches = {"row by row": eager, "graphs": {**eager, "launch": "graph" if device == "cuda" else "eager"}}
    every = {model: strategies_of(model) for of_family in MODELS.values() for model in of_family}
    for what, models, ranks, ways in (
        ("device", every, 1, beside_cpu),
        ("ranks", ON_TWO_RANKS, 2, beside_cpu),
        ("launch", CAPTURED, 1, launches),
    ):
        for model, strategies in models.items():
            yield Case({"what": what, "model": model}, partial(measure, model, strategies, 8 if quick else 32, ranks, ways))


SUBJECT = Subject(partial(cases, "cpu"), 1, cuda=partial(cases, "cuda"))
