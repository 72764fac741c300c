"""FlareDTDG's epochs take less time and memory than full history's and its own ablations', and predict as well.

`times`: one job, passes of all strategies in turn; every pass is an epoch with an order of chunks of its own, the same for all. `peak`:
the planned peak of a rank's memory (held to what torch allocates by the subject `window_memory`); `communicates alone`: how long a rank
communicates while it computes nothing (Table 11), the mean of ranks. `errors`: `chronoscale train`, degrees of the next month, 40 epochs
of Adam at 0.003, a seed a pass; the model of the best validation epoch, tested on the last fifth. Rivals: full-history, esdg, dynagraph,
dynahb.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from itertools import product
from pathlib import Path

import numpy as np
from core.case import Case, Passes, Setting, Subject
from core.turns import in_turns, seconds_of
from setups import jobs
from setups.snapshots import sequence_of

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.held_out import HeldOut
from chronoscale.batching.snapshots.retention import Decay
from chronoscale.datasets import store
from chronoscale.datasets.snapshots.statistics import statistics_of
from chronoscale.errors import MachineError
from chronoscale.real_exec.execution.interpreter import Pass
from chronoscale.real_exec.job import Settings
from chronoscale.simulator import presets
from chronoscale.simulator.engine import replay
from chronoscale.simulator.memory import peaks
from chronoscale.strategies.cluster import Link
from chronoscale.strategies.costs import DatasheetCosts
from chronoscale.strategies.evaluation.metrics import exposed_communication_ns
from chronoscale.strategies.snapshots.models import model_shape
from chronoscale.strategies.workload import Hyper, ModelChoice, Recency, Workload

TIMED = ("full-history", "flaredtdg", "flaredtdg-remap", "flaredtdg-no-overlap", "flaredtdg-turns", "recent-only")
TRAINED = ("flaredtdg", "full-history", "recent-only", "esdg", "dynagraph", "dynahb")
CHUNKS, FULL, DECAYED, ALPHA, RATE = 64, 2, 6, 0.05, 0.003


def times(data: str, kind: str, layers: int, hidden: int, ranks: int, setting: Setting) -> Passes:
    """Time epochs, and add planned peaks and what communication takes alone."""
    graphs = sequence_of(data)
    store.save(setting.scratch / "graphs", graphs)
    chunks, parts = cut_into_chunks(graphs, CHUNKS), setting.scratch / "parts.npy"
    np.save(parts, chunks.assignment)
    hyper = Hyper(recency=Recency(Decay(FULL, DECAYED, ALPHA), CHUNKS), task="degrees", held=HeldOut(0.1, 0.2))
    work = Workload(data, statistics_of(graphs), model_shape(kind, 2, hidden, layers, 2), hyper, chunking=ExactChunking(graphs, chunks))
    machine = presets.local_cpu(ranks, 1e12, Link(1e9, 1e-4))
    costs = DatasheetCosts(machine.device)
    plans = jobs.plans(work, TIMED, ranks, costs)
    settings, choice = Settings(setting.threads, RATE, device="cpu"), ModelChoice(kind, hidden, layers, 2)
    passes = jobs.execute(plans, work, choice, setting.scratch / "graphs", setting.repeats, ranks, settings, str(parts))
    peak = {who: float(peaks(plan, replay(plan, machine, costs)).max()) / 1e6 for who, plan in plans.items()}

    def others(who: str, one: Pass) -> dict[str, float]:
        planned = {"peak, MB": peak[who], "windows": plans[who].iterations}
        return {**planned, "communicates alone, ms": float(exposed_communication_ns(one.trace).mean()) / 1e6}

    return jobs.figures(passes, others)


def train(experiment: dict[str, object], epochs: int, folder: Path, seeds: Iterator[int]) -> dict[str, float]:
    """Train with the next seed, and return test errors, also of naive predictions."""
    seed = next(seeds)
    own = folder / f"{experiment['strategies'][0]}-{seed}"  # type: ignore[index]
    own.mkdir()
    (own / "run.yaml").write_text(json.dumps({**experiment, "seed": seed}))  # JSON is YAML
    command = [sys.executable, "-m", "chronoscale", "train", str(own / "run.yaml"), "--epochs", str(epochs), "--runs", str(own / "runs")]
    ended: list[subprocess.CompletedProcess[str]] = []
    spent = seconds_of(lambda: ended.append(subprocess.run(command, capture_output=True, text=True)))
    if ended[0].returncode:
        raise MachineError(f"{' '.join(command)}\n{ended[0].stderr}")
    (run,) = (own / "runs").glob("*/train")
    test, naive = (json.loads((run / file).read_text()) for file in ("test.json", "naive.json"))
    return {"seconds": spent, "test MSE": test["mse"], **{f"{key} MSE": scores["mse"] for key, scores in naive.items()}}


def errors(data: str, kind: str, layers: int, hidden: int, epochs: int, ranks: int, setting: Setting) -> Passes:
    """Train every strategy with a seed a pass."""
    task = {"task": "degrees", "validation": 0.1, "test": 0.2, "learning_rate": RATE, "scale_learning_rate": False}
    window = {"full": FULL, "decayed": DECAYED, "alpha": ALPHA, "chunks": CHUNKS, "group_size": FULL + DECAYED}
    model = {"name": kind, "hidden": hidden, "layers": layers}
    experiment = {"dataset": data, "model": model, "training": {**task, **window}, "ranks": [ranks], "threads": setting.threads}
    return in_turns(
        {
            who: partial(train, {**experiment, "strategies": [who]}, epochs, setting.scratch, iter(range(setting.repeats)))
            for who in TRAINED
        },
        setting.repeats,
    )


def cases(quick: bool) -> Iterator[Case]:
    """Yield data sets and models: times 64 wide, errors 16 wide."""
    if quick:
        yield Case({"what": "times", "data": "growth-80", "model": "t-gcn"}, partial(times, "growth-80", "t-gcn", 1, 4, 1))
        return
    for data, (kind, layers) in product(("math_overflow_monthly", "enron_monthly"), (("t-gcn", 1), ("t-gcn", 2), ("mpnn-lstm", 2))):
        parameters = {"data": data, "model": kind, "layers": layers}
        yield Case({"what": "times", **parameters, "hidden": 64}, partial(times, data, kind, layers, 64, 2))
        for epochs in (20, 40):
            named = {"what": "errors", **parameters, "hidden": 16, "epochs": epochs}
            yield Case(named, partial(errors, data, kind, layers, 16, epochs, 2))


SUBJECT = Subject(cases, 5)
