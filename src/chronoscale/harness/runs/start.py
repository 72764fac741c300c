"""Start of runs: new ones and those that were left incomplete, in a folder of runs, and the experiments that they were started with."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from chronoscale.errors import ChronoscaleWarning, UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.keys.experiment_files import parse
from chronoscale.harness.runs import begun
from chronoscale.harness.runs.run_folder import STATUS, Run, Status, write_text
from chronoscale.strategies.plugins import file_of, names_file

GIVEN = "experiment.yaml"  # in a run's folder: the file as it was given
TRAIN = "train"  # the command whose runs go on
INCOMPLETE, SHORTER = "was left incomplete", "has fewer epochs"  # what a run that is taken up was
# What runs did before there was a key to say it, or while it had another default; a run keeps all its keys.
EARLIER: Mapping[str, Mapping[str, Any]] = {"training": {"scale_learning_rate": False}, "model": {"clock": "linear"}}
# The same of keys of training whose defaults are no earlier version's: runs without them are read so, and none is taken up.
ABSENT: Mapping[str, Any] = {"weight_cap": 0.0, "at_least_one": False}


def load_experiment(run: Run) -> Experiment:
    """Load the experiment that a run was started with; the Python files that it names need not be there any more.

    Raises UserError for a folder that is no run, and for a run of another version.
    """
    run.status  # noqa: B018 (refuses what is no run)
    data = run.read("resolved.json", dict[str, Any])
    for key, before in (*EARLIER.items(), ("training", ABSENT)):
        if isinstance(given := data.get(key, {}), dict):
            data[key] = {**before, **given}
    return parse(data, str(run.folder / "resolved.json"), str(data.pop("family", "")), lenient=True)


def python_files(experiment: Experiment) -> list[str]:
    """Return the Python files that an experiment runs: its modules, its own strategies and its own model."""
    return [*experiment.modules, *(file_of(name) for name in (*experiment.strategies, experiment.model.name) if names_file(name))]


def as_started(run: Run, experiment: Experiment) -> Experiment:
    """Return an experiment as a run of it was started: keys that its file leaves out have the defaults that they had then."""
    return experiment if run.status.digest == experiment.digest() else _before(experiment)


def _before(experiment: Experiment) -> Experiment:
    """Return an experiment as versions before this one read its file: with their defaults (`EARLIER`) where it leaves a key out."""
    parts = {}
    for name, defaults in EARLIER.items():
        part: BaseModel = getattr(experiment, name)
        left_out = type(part).model_fields.keys() - part.model_fields_set
        parts[name] = part.model_copy(update={key: value for key, value in defaults.items() if key in left_out})
    return experiment.model_copy(update=parts)


def start(root: Path, command: str, experiment: Experiment, given: str, environment: Mapping[str, str]) -> tuple[Run, str]:
    """Start a run of a command in the folder `root`, or take up the incomplete one of the same command, experiment and environment.

    Where there is none, a complete training of fewer epochs, and else the same, is taken up: it goes on to so many. Returns the run, and
    what it was where it was taken up (INCOMPLETE, SHORTER; '' for a new one); it then goes on as it was started (`as_started`). One that
    another process is working on is left to it. given: the text of the experiment file. environment: device, versions and digests of
    files, by name.
    """
    digest, before = experiment.digest(), _before(experiment).digest()
    alike = [run for run in find_runs(root) if run.status.command == command and run.environment == dict(environment)]
    for run in alike:
        status = run.status
        same = status.digest == digest or (status.digest == before and (run.folder / GIVEN).read_text() == given)
        if same and not run.complete and run.lock():
            return run, INCOMPLETE
    for run in alike if command == TRAIN else ():
        if run.complete and _shorter(run, experiment) and run.lock():
            _describe(run, experiment, given, digest)
            return run, SHORTER
    prefix = f"{experiment.name}-{command}-"
    numbers = (path.name.rsplit("-", 1)[1] for path in root.glob(f"{prefix}*"))
    number = 1 + max((int(number) for number in numbers if number.isdigit()), default=0)
    run = Run(root / f"{prefix}{number}")
    begun.remember(run)
    run.folder.mkdir(parents=True)
    run.lock()
    run.write("environment.json", dict(environment))
    _describe(run, experiment, given, digest, command)
    return run, ""


def _describe(run: Run, experiment: Experiment, given: str, digest: str, command: str = TRAIN) -> None:
    """Write what a run that begins, or goes on, is of. given: the text of the experiment file."""
    write_text(run.folder / GIVEN, given)
    run.write("resolved.json", {"family": experiment.family, **experiment.model_dump(mode="json")})
    run.write(STATUS, asdict(Status(command, digest)))


def _shorter(run: Run, experiment: Experiment) -> bool:
    """Return whether a run trained what the experiment trains for fewer epochs."""
    before = load_experiment(run)
    return before.epochs < experiment.epochs and before.model_copy(update={"epochs": experiment.epochs}).digest() == experiment.digest()


def find_runs(root: Path) -> list[Run]:
    """Return all runs in a folder, oldest first. Those that this version cannot read are left out with a warning."""
    folders = [path for path in root.glob("*") if (path / STATUS).exists()] if root.exists() else []
    runs = [Run(path) for path in sorted(folders, key=lambda path: (path.stat().st_ctime, path.name))]
    return [run for run in runs if _readable(run)]


def _readable(run: Run) -> bool:
    """Whether this version can read the run; says so when not, once a command, and goes on without it."""
    try:
        load_experiment(run)
        run.environment  # noqa: B018 (refuses what is damaged)
    except UserError as error:
        warnings.warn(f"left aside: {error}", ChronoscaleWarning, stacklevel=2)
        return False
    return True
