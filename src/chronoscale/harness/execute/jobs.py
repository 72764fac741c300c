"""Jobs: what ranks are given to execute, and what they leave behind, as files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from chronoscale.datasets.scores import Scores
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.real_exec.execution.graph_blocks import LaunchSummary
from chronoscale.real_exec.execution.passes import Pass
from chronoscale.real_exec.job import Item, Job, Settings
from chronoscale.records import read_array, read_json, reading
from chronoscale.strategies.schedule import Schedule
from chronoscale.strategies.trace import Trace
from chronoscale.strategies.workload import Hyper


def item(folder: Path, label: str, schedule: Schedule, data: Path | str, hyper: Hyper) -> Item:
    """A schedule as an item of a job, its file written to `folder`."""
    path = folder / f"{label}.schedule.parquet"
    schedule.save(path)
    return Item(label, str(path), str(data), hyper)


def job(experiment: Experiment, name: str, items: list[Item], out: Path) -> Job:
    """A job with the experiment's settings."""
    rate = experiment.training.learning_rate
    how = (experiment.threads, rate, experiment.seed, experiment.device, experiment.transfer_thread, experiment.scales_rate)
    bus, network = float(experiment.bus or 0), float(experiment.network or 0)
    topology = experiment.topology or ""
    latency, hang_after = experiment.network_latency, experiment.hang_after
    shares = experiment.share_gpu
    settings = Settings(*how, bus=bus, network=network, network_latency=latency, topology=topology, hang_after=hang_after, share_gpu=shares)
    settings = replace(settings, launch=experiment.launch)
    return Job(name, tuple(items), str(out), experiment.model.choice, experiment.repeats, experiment.warming, settings, experiment.modules)


def load_passes(folder: Path, label: str) -> list[Pass]:
    """What a worker saved of one item, a pass a repeat. Raises UserError for a file that is missing or damaged."""
    losses = read_array(folder / f"{label}-losses.npy", np.float64, (None, None), "losses")
    scores = read_json(path := folder / f"{label}-scores.json", list[Scores], "scores")
    with reading(path, "scores"):
        if len(scores) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(scores)}")
    path = folder / f"{label}-counts.json"
    counts = read_json(path, list[dict[str, int]], "counts") if path.exists() else [{} for _ in scores]
    with reading(path, "counts"):
        if len(counts) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(counts)}")
    path = folder / f"{label}-launched.json"
    launched = read_json(path, list[LaunchSummary], "record of launches") if path.exists() else [None for _ in scores]
    with reading(path, "record of launches"):
        if len(launched) != len(losses):
            raise ValueError(f"expected {len(losses)} repeats, got {len(launched)}")
    found = enumerate(zip(losses, scores, counts, launched, strict=True))
    return [Pass(Trace.load(folder / f"{label}-r{repeat}.parquet"), *one) for repeat, one in found]


def schedules(folder: Path) -> dict[str, Schedule]:
    """Schedules saved in a piece, by strategy."""
    return {path.name.removesuffix(".schedule.parquet"): Schedule.load(path) for path in sorted(folder.glob("*.schedule.parquet"))}
