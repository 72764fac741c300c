"""Outcome: what a run of `advise` holds, and what its ranks do not say."""

from __future__ import annotations

from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.ranking import Choice, ranking
from chronoscale.harness.advice.verdict import FILE, Verdict
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import read_json

PIECE, ASKED = "point-", "points.json"


def piece(number: int) -> str:
    """The folder of a candidate."""
    return f"{PIECE}{number:05d}"


def choices(experiment: Experiment, run: Run) -> list[Choice]:
    """What the run has found so far, ranked. Raises UserError for a damaged file."""
    found = {}
    for number, folder in run.numbered(PIECE):
        if (folder / FILE).exists():
            found[number] = Verdict.load(folder)
    asked = held(run)
    return ranking(experiment, {i: (asked[i], verdict) for i, verdict in found.items() if i < len(asked)})


def held(run: Run) -> list[Candidate]:
    """All candidates that the run was to simulate. Raises UserError for a damaged file."""
    return read_json(run.folder / ASKED, list[Candidate], "list of points")


def cautions(found: list[Choice]) -> list[str]:
    """What was warned of in simulating, and what ranks do not say."""
    said = dict.fromkeys(text for one in found for text in one.verdict.warnings)
    for one in found:
        point = one.verdict.point
        if point is not None and point.gpus > point.preset_gpus:
            has = f"{point.cluster} has {point.preset_gpus} GPU{'s' * (point.preset_gpus > 1)}"
            said[f"{has}; more are as many of its machines as that takes"] = None
    if changed := [key for key in (found[0].candidate.settings if found else ()) if key.split(".")[0] in Experiment.work]:
        said[f"{', '.join(changed)}: what is learned changes with it, and no rank says how well"] = None
    return list(said)
