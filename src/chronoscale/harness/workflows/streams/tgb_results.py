"""TGB results: a record of each training as the Temporal Graph Benchmark's examples save theirs (`save_results` of tgb/utils/utils.py)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from chronoscale.datasets.formats.readers.tgb import NAME
from chronoscale.datasets.scores import SCORES, Scores
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, evaluation
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.records import read_json
from chronoscale.reports.attachment import Attachment
from chronoscale.strategies.plugins import title_of

FILE = "tgb.json"
ABSENT = "NA"  # as TGB's EdgeBank has a time that there is none of
MRR = SCORES["mrr"]

Record = dict[str, Any]


def tgb_results(runs: Sequence[tuple[StreamExperiment, Run]]) -> Attachment | None:
    """Return the results of trainings that were ranked against published negatives, in the order of `runs`, as TGB's examples save them: a
    list of records. None where there are none.

    A record: `model`, `data`, `run` (0, 1, … of an experiment, which seeds alone tell apart), `seed`, `val mrr` (a list, which in TGB's has
    all epochs and here the one that is tested), `test mrr`, `test_time` and `tot_train_val_time` in seconds. What there is none of is "NA".
    Raises UserError for a damaged file.
    """
    records: list[Record] = []
    alike: dict[str, tuple[str, list[Record]]] = {}  # by digest: name of an experiment, and its records
    for experiment, run in runs:
        folder = run.folder / FOLDER
        if experiment.dataset.negatives is None or not (folder / TEST).exists():
            continue
        if MRR.key in (test := read_json(folder / TEST, Scores, "test")):
            _, same = alike.setdefault(experiment.model_copy(update={"seed": 0}).digest(), (experiment.name, []))
            about = {"model": title_of(experiment.model.name), "data": _dataset(experiment), "run": len(same), "seed": experiment.seed}
            same.append({**about, **_results(folder, test[MRR.key])})
            records.append(same[-1])
    if not records:
        return None
    return Attachment(FILE, json.dumps(records, indent=4), tuple(_sentence(name, same) for name, same in alike.values()))


def _dataset(experiment: StreamExperiment) -> str:
    """Return TGB's name of a dataset, such as tgbl-wiki, where a file has it, else ours."""
    names = [NAME.fullmatch(Path(file).name) for file in experiment.dataset.files]
    return next((named[1] for named in names if named), experiment.dataset.label)


def _results(folder: Path, tested: float) -> Record:
    """Return the results of a training. folder: the run's `train`. tested: MRR of its test."""
    record = evaluation(folder)
    epochs_s = sum(epoch.switch_ns + epoch.end_ns - epoch.start_ns for epoch in epoch_records(folder)) / 1e9
    validated = [record.validation[MRR.key]] if MRR.key in record.validation else ABSENT
    times = (record.test_s, epochs_s + record.validation_s) if record.test_s else (ABSENT, ABSENT)
    return {"val mrr": validated, "test mrr": tested, "test_time": times[0], "tot_train_val_time": times[1]}


def _sentence(name: str, records: Sequence[Record]) -> str:
    """Say what the records of an experiment come to, as TGB's leaderboard asks for it: mean and unbiased deviation."""
    seeds = ", ".join(str(record["seed"]) for record in records)
    validated = [record["val mrr"][0] for record in records if record["val mrr"] != ABSENT]
    scores = {"validation": validated, "test": [record["test mrr"] for record in records]}
    shown = ", ".join(f"{period} MRR {_mean(values)}" for period, values in scores.items() if len(values) == len(records))
    what = f"mean and deviation of {len(records)} runs of '{name}', seeds {seeds}"
    if len(records) == 1:
        what = f"one run of '{name}', seed {seeds}; TGB's leaderboard asks for five"
    return f"{FILE}: {records[0]['model']} on {records[0]['data']}, {shown} ({what})."


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"
