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
from chronoscale.harness.publish.settings import executed
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.training_record import FOLDER, evaluation
from chronoscale.real_exec.training.epoch_record import epoch_records
from chronoscale.real_exec.training.training_end import TEST
from chronoscale.records import read_json
from chronoscale.reports.attachment import Attachment
from chronoscale.reports.setting import Facts, Setting, describe, differences
from chronoscale.strategies.plugins import title_of

FILE = "tgb.json"
ABSENT = "NA"  # as TGB's EdgeBank has a time that there is none of
MRR = SCORES["mrr"]

Record = dict[str, Any]


def tgb_results(runs: Sequence[tuple[StreamExperiment, Run]]) -> Attachment | None:
    """Return the results of trainings that were ranked against published negatives, in the order of `runs`, as TGB's examples save them: a
    list of records. None where there are none.

    A record: `model`, `data`, `run` (0, 1, … of one experiment and setting, which has the content of its files, seeds alone telling them
    apart), `seed`, `val mrr` (a list, which in TGB's has all epochs and here the one that is tested), `test mrr`, `test_time` and
    `tot_train_val_time` in seconds. What there is none of is "NA".
    Raises UserError for a damaged file.
    """
    records: list[Record] = []
    alike: dict[tuple[str, Setting], tuple[str, list[Record]]] = {}  # by digest and setting: name of an experiment, and its records
    for experiment, run in runs:
        folder = run.folder / FOLDER
        if experiment.dataset.negatives is None or not (folder / TEST).exists():
            continue
        if MRR.key in (test := read_json(folder / TEST, Scores, "test")):
            seedless = experiment.model_copy(update={"seed": 0})
            _, same = alike.setdefault((seedless.digest(), executed(run, seedless)), (experiment.name, []))
            about = {"model": title_of(experiment.model.name), "data": _dataset(experiment), "run": len(same), "seed": experiment.seed}
            same.append({**about, **_results(folder, test[MRR.key])})
            records.append(same[-1])
    if not records:
        return None
    apart = differences(setting for _, setting in alike)
    sentences = (_sentence(name, same, apart[setting]) for (_, setting), (name, same) in alike.items())
    return Attachment(FILE, json.dumps(records, indent=4), tuple(sentences))


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


def _sentence(name: str, records: Sequence[Record], apart: Facts) -> str:
    """Say what the records of an experiment come to, as TGB's leaderboard asks for it: mean and unbiased deviation over seeds. apart: what
    tells their setting from others."""
    by_seed = {record["seed"]: record for record in records}  # of a seed the last given
    seeds = ", ".join(map(str, by_seed))
    validated = [record["val mrr"][0] for record in by_seed.values() if record["val mrr"] != ABSENT]
    scores = {"validation": validated, "test": [record["test mrr"] for record in by_seed.values()]}
    shown = ", ".join(f"{period} MRR {_mean(values)}" for period, values in scores.items() if len(values) == len(by_seed))
    what = f"mean and deviation of {len(by_seed)} runs of '{name}', seeds {seeds}"
    if len(by_seed) == 1:
        what = f"one run of '{name}', seed {seeds}; TGB's leaderboard asks for five"
    if apart:
        what += f"; {describe(apart)}"
    again = [str(seed) for seed in by_seed if sum(record["seed"] == seed for record in records) > 1]
    if again:
        what += f"; seed{'s' * (len(again) > 1)} {', '.join(again)} more than once, of which the last given run counts"
    return f"{FILE}: {records[0]['model']} on {records[0]['data']}, {shown} ({what})."


def _mean(values: Sequence[float]) -> str:
    return f"{fmean(values):.4f} ± {stdev(values):.4f}" if len(values) > 1 else f"{values[0]:.4f}"
