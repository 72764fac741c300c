"""Outcome of a run of `advise`: its candidates ranked, and what ranks do not say."""

from __future__ import annotations

from collections.abc import Sequence

from chronoscale.harness.advice.candidate import Candidate
from chronoscale.harness.advice.ranking import Choice, ranking
from chronoscale.harness.advice.verdict import FILE, Verdict
from chronoscale.harness.keys.advise import AdviceKeys
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.run_folder import Run
from chronoscale.records import read_json

PIECE, ASKED = "point-", "points.json"


def piece(number: int) -> str:
    """Return the name of a candidate's folder in a run of `chronoscale advise`, such as point-00003."""
    return f"{PIECE}{number:05d}"


def choices(run: Run, keys: AdviceKeys, epochs: int) -> list[Choice]:
    """Load and rank the candidates that a run of `chronoscale advise` has simulated so far.

    keys, epochs: of its experiment. Raises UserError for a damaged file.
    """
    verdicts = {}
    for number, folder in run.numbered(PIECE):
        if (folder / FILE).exists():
            verdicts[number] = Verdict.load(folder)
    points = held(run)
    return ranking(keys, epochs, {i: (points[i], verdict) for i, verdict in verdicts.items() if i < len(points)})


def held(run: Run) -> list[Candidate]:
    """Load all candidates that a run of `chronoscale advise` was to simulate, done or not, by their numbers' order.

    Raises UserError for a damaged file.
    """
    return read_json(run.folder / ASKED, list[Candidate], "list of points")


def cautions(choices: Sequence[Choice]) -> list[str]:
    """Return sentences of `chronoscale advise`: warnings of the simulations, and what the ranking leaves out."""
    sentences = dict.fromkeys(text for choice in choices for text in choice.verdict.warnings)
    for choice in choices:
        point = choice.verdict.point
        if point is not None and point.gpus > point.preset_gpus:
            has = f"{point.cluster} has {point.preset_gpus} GPU{'s' * (point.preset_gpus > 1)}"
            sentences[f"{has}; more are as many of its machines as that takes"] = None
    if changed := [key for key in (choices[0].candidate.settings if choices else ()) if key.split(".")[0] in Experiment.work]:
        sentences[f"{', '.join(changed)}: what is learned changes with it, and no rank says how well"] = None
    sentences.update(dict.fromkeys([*_differences(choices), *_without_effect(choices)]))
    return list(sentences)


def _without_effect(choices: Sequence[Choice]) -> list[str]:
    """Say of each key of the grid that it changed nothing, where candidates that differ in it alone all take the same time and memory."""
    sentences = []
    for key in choices[0].candidate.settings if choices else ():
        figures: dict[str, list[tuple[object, ...]]] = {}
        for choice in choices:
            others = {other: value for other, value in choice.candidate.settings.items() if other != key}
            point = choice.verdict.point
            if point is not None:
                same = repr((choice.candidate.cluster, choice.candidate.strategy, choice.candidate.gpus, others))
                figures.setdefault(same, []).append((choice.hours, choice.verdict.epoch_s, point.peak_bytes, point.steps, point.targets))
        groups = [group for group in figures.values() if len(group) > 1]
        if groups and all(len(set(group)) == 1 for group in groups):
            sentences.append(f"advise.grid: {key}: it changed nothing that was simulated")
    return sentences


def _differences(choices: Sequence[Choice]) -> list[str]:
    """Say that candidates which rank train on different steps or targets, and how many; nothing where all train alike."""
    points = [choice.verdict.point for choice in choices if choice.rank is not None]
    ranked = [point for point in points if point is not None]
    if len({point.mathematics for point in ranked}) < 2:
        return []
    steps, targets = ([point.steps for point in ranked], [point.targets for point in ranked])
    ends = [f"{min(values):,} to {max(values):,} {name}" for name, values in (("steps", steps), ("targets", targets))]
    return [f"an epoch of those that rank is {' on '.join(ends)}: no rank says how many epochs an error takes, `chronoscale compare` does"]
