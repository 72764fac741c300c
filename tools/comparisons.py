"""Compare strategies on standing data sets, and write the pages of results/compare.

    python tools/comparisons.py                    # what has no result yet; goes on after a kill
    python tools/comparisons.py snapshots/enron    # this one, whatever is there
    python tools/comparisons.py --retell           # read runs that are still in ./runs again: the same trainings in today's words
    python tools/comparisons.py --rivals           # score today's predictions without a model beside the results, which takes seconds
    python tools/comparisons.py --pages            # write the pages anew from the results
    python tools/comparisons.py --check            # plan all again: whose steps, targets or mathematics are others by now? who is new?

results/compare/PAGE/NAME.yaml is an experiment, beside it NAME.json what `chronoscale compare` found, and NAME.svg its figure;
results/compare/PAGE.md shows all of a page. Data of the catalogue is read from CHRONOSCALE_DATA.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from chronoscale.datasets.scores import SCORES
from chronoscale.harness.compare.compare import compared
from chronoscale.harness.compare.figure import chart
from chronoscale.harness.compare.reading import comparison
from chronoscale.harness.compare.rivals import rival_sentences
from chronoscale.harness.compare.scale import at_scale
from chronoscale.harness.compare.shown import rounded_table, summary
from chronoscale.harness.compare.trainings import Trainings
from chronoscale.harness.keys.experiment_files import load
from chronoscale.harness.keys.planners import planners
from chronoscale.harness.planning.schedules import plan_epoch
from chronoscale.harness.runs.run_folder import Run
from chronoscale.harness.runs.start import load_experiment
from chronoscale.harness.workflows.execution_registry import execution_of
from chronoscale.harness.workflows.registry import workflow_of
from chronoscale.reports.charts.advice_drawing import draw_advice
from chronoscale.reports.table_formats import to_markdown
from chronoscale.strategies.costing.request import CostsNeeded, UnmeasuredCosts

FOLDER = Path(__file__).parents[1] / "results" / "compare"
RUNS = Path("runs")
INTRODUCTION = (
    "What `chronoscale compare` found ([what the columns mean](../../docs/comparing.md)): strategies trained until they are equally good, "
    "each at the best learning rate of the same grid, from the same seeds. Strategies that only show what a part of a system is worth are "
    "left out. Made by `python tools/comparisons.py`, which goes on where it was stopped."
)


def compare(experiment: Path) -> None:
    """Compare what an experiment file says; write its result and its figure beside it."""
    runs = RUNS / experiment.parent.name
    runs.mkdir(parents=True, exist_ok=True)
    spent, begin = runs / f"{experiment.stem}.minutes", time.monotonic()
    before = float(spent.read_text()) if spent.exists() else 0.0
    try:
        command = [sys.executable, "-m", "chronoscale", "compare", str(experiment), "--runs", str(runs), "--json"]
        printed = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
    finally:
        minutes = before + (time.monotonic() - begin) / 60
        spent.write_text(str(minutes))
    run = _run(experiment)
    result = {"made": time.strftime("%Y-%m-%d"), "minutes": round(minutes, 1), "environment": run.environment, **json.loads(printed)}
    experiment.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    shutil.copy(run.folder / "compare.svg", experiment.with_suffix(".svg"))
    spent.unlink()


def retell(experiment: Path) -> None:
    """Read the run of a result again, and write the result and its figure in today's words; curves and times have to be the same."""
    before, run = json.loads(experiment.with_suffix(".json").read_text()), _run(experiment)
    record = json.loads(json.dumps(summary(comparison(Trainings(load_experiment(run), run)))))
    if any(record[key] != before[key] for key in ("curves", "seconds", "target")):
        raise SystemExit(f"{run.folder} is not the run of {experiment}")
    result = {key: before[key] for key in ("made", "minutes", "environment")} | record
    experiment.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")
    experiment.with_suffix(".svg").write_text(draw_advice(chart(record)).svg)


def rivals(experiment: Path) -> None:
    """Score on validation what needs no model, by today's code, and write into a result what of it its strategies do not beat."""
    result, compared_experiment = json.loads(experiment.with_suffix(".json").read_text()), compared(load(experiment))
    score = SCORES[result["score"]]
    with tempfile.TemporaryDirectory() as folder:
        scored = execution_of(compared_experiment.family).rivals(compared_experiment, Run(Path(folder)))
    naive = {rival.name: rival.scores[score.key] for rival in scored if score.key in rival.scores}
    best = {label: np.array([score.best(curve) for curve in seeds.values()], np.float64) for label, seeds in result["curves"].items()}
    listing = ", ".join(f"{name} {score.describe(value)}" for name, value in naive.items())
    sentences = rival_sentences(score, naive, best) or ["All strategies beat all of it by all seeds."]
    result["rivals"] = {"made": time.strftime("%Y-%m-%d"), "verdict": " ".join(sentences), "scores": listing}
    experiment.with_suffix(".json").write_text(json.dumps(result, indent=1) + "\n")


def _run(experiment: Path) -> Run:
    """Return the newest run of an experiment, or end where there is none."""
    runs = list((RUNS / experiment.parent.name).glob(f"{experiment.stem}-compare-*/status.json"))
    if not runs:
        raise SystemExit(f"{experiment.parent.name}/{experiment.stem}: no run of it is in ./{RUNS}")
    return Run(max(runs, key=lambda path: path.stat().st_mtime_ns).parent)


def page(name: str) -> str:
    """Return a page: of each of its experiments the verdict, table, figure, notes, experiment file and circumstances."""
    parts = [f"# Which strategy, at equal accuracy: {name}", INTRODUCTION]
    results = sorted((FOLDER / name).glob("*.json"))
    minutes = sum(json.loads(file.read_text())["minutes"] for file in results)
    missing = [file.stem for file in sorted((FOLDER / name).glob("*.yaml")) if not file.with_suffix(".json").exists()]
    left = f" Not compared yet: {', '.join(missing)}." if missing else ""
    parts.append(f"All of this page took {minutes:.0f} minutes.{left}")
    for file in results:
        parts += _section(file, json.loads(file.read_text()))
    return "\n\n".join(parts) + "\n"


def _section(file: Path, result: Mapping[str, Any]) -> list[str]:
    environment = result["environment"]
    made = (
        f"{len(result['seeds'])} seeds, {result['epochs']} epochs each, {result['minutes']:g} minutes in all on {environment['device']} "
        f"(torch {environment['torch']}, commit {environment['commit']}, {result['made']})."
    )
    later = result.get("rivals")
    since = (
        [f"**Beside what needs no model, as it is scored since {later['made']}: {later['verdict']}** ({later['scores']}.)"] if later else []
    )
    return [
        f"## {file.stem}",
        *since,
        result["verdict"],
        to_markdown(rounded_table(result)).strip(),
        f"![{file.stem}]({file.parent.name}/{file.stem}.svg)",
        "\n".join(f"- {note}" for note in result["notes"]),
        made,
        f"```yaml\n{file.with_suffix('.yaml').read_text().strip()}\n```",
    ]


def changed(file: Path) -> list[str]:
    """Plan the strategies of a result again; return those that take other steps, or train on other targets, than they did, and those that
    it does not have. Plans that ask for costs follow them, and are not checked."""
    result = json.loads(file.read_text())
    experiment = compared(load(file.with_suffix(".yaml")))
    workflow, known = workflow_of(experiment), {row["strategy"] for row in result["strategies"]}
    others = [name for name in experiment.strategies if name not in known and not result["cluster"]]
    with tempfile.TemporaryDirectory() as folder:
        run = Run(Path(folder))
        data = workflow.store(experiment, run)
        stored = workflow.stored(experiment, data)
        for row in result["strategies"]:
            planner, ranks = planners(experiment).get(row["strategy"]), row["ranks"]
            if planner is None:
                others.append(row["label"])
                continue
            _, work = workflow.partition(at_scale(experiment, ranks), run, data, stored, ranks, planner)
            try:
                schedule = plan_epoch(planner, work, ranks, UnmeasuredCosts())
            except CostsNeeded:
                continue
            if (schedule.iterations, schedule.targets, schedule.mathematics) != (row["steps"], row["targets"], row["mathematics"]):
                others.append(row["label"])
    return others


def main() -> int:
    """Do what the command line asks for; return its exit code."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="PAGE/NAME")
    parser.add_argument("--retell", action="store_true")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--pages", action="store_true")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    if given.check:
        old = {file: names for file in sorted(FOLDER.glob("*/*.json")) if (names := changed(file))}
        for file, names in old.items():
            print(f"{', '.join(names)} trained otherwise then: python tools/comparisons.py {file.parent.name}/{file.stem}")
        return bool(old)
    files = [FOLDER / f"{name}.yaml" for name in given.names] or sorted(FOLDER.glob("*/*.yaml"))
    if given.retell:
        for file in files:
            retell(file)
    elif given.rivals:
        for file in files:
            rivals(file)
    elif not given.pages:
        for file in files:
            if given.names or not file.with_suffix(".json").exists():
                print(file.relative_to(FOLDER), flush=True)
                compare(file)
    for folder in sorted(path for path in FOLDER.iterdir() if path.is_dir()):
        (FOLDER / f"{folder.name}.md").write_text(page(folder.name))
    return 0


if __name__ == "__main__":
    sys.exit(main())
