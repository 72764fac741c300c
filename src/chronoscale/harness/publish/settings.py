"""Settings that reports compare by: what a run trained, and on what, read off its folder."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from chronoscale.harness.keys.experiment import Experiment
from chronoscale.harness.runs.points import SimulatedPoint
from chronoscale.harness.runs.run_folder import Run
from chronoscale.reports.setting import Facts, Setting, describe
from chronoscale.strategies.plugins import file_of, names_file, title_of

LIBRARIES = ("share_gpu", "cores", "torch", "kernels", "operators", "chronoscale")  # of the environment: what a time depends on
DIGITS = 12  # of a digest


def executed(run: Run, experiment: Experiment) -> Setting:
    """Return what a run executed and on what machine, for its report: results compare only with those of equal settings."""
    environment = run.environment
    place = {
        "device": environment.get("device", ""),
        **{name: environment.get(name, "") for name in LIBRARIES},
        "threads": str(experiment.threads),
    }
    if experiment.launch != "eager":
        place["launch"] = experiment.launch
    if experiment.virtual:
        place["virtual"] = "true"
    if experiment.transfer_thread:
        place["transfer_thread"] = "true"
    if experiment.bus:
        place["bus"] = f"{experiment.bus / 1e9:g} GB/s"
    if experiment.network:
        place["network"] = f"{experiment.network / 1e9:g} GB/s"
    if experiment.network_latency:
        place["network_latency"] = f"{experiment.network_latency * 1e6:g} us"
    return Setting("executed", _work(experiment, environment), _known(place))


def simulated(run: Run, experiment: Experiment, point: SimulatedPoint, device: str) -> Setting:
    """Return what a strategy was simulated to train and on what cluster, for a report: results compare only with those of equal settings.

    device: that its trace names.
    """
    environment = run.environment
    place = {"device": device.partition(" (")[0], "cluster": point.cluster, "costs": point.costs}
    if not experiment.contention:
        place["contention"] = "none"
    if point.summary is not None:  # one replay, of what is certain
        return Setting("simulated", _work(experiment, environment), _known({**place, "chronoscale": environment.get("chronoscale", "")}))
    if stated := str(experiment.uncertainty.stated):
        place["uncertainty"] = f"{stated}{f' ({len(point.draws_s)} draws)' * bool(point.draws_s)}"
    if experiment.failures is not None:
        place["failures"] = describe(tuple(_leaves(experiment.failures.model_dump(mode="json", exclude_defaults=True), "")))
    return Setting("simulated", _work(experiment, environment), _known({**place, "chronoscale": environment.get("chronoscale", "")}))


def _work(experiment: Experiment, environment: Mapping[str, str]) -> Facts:
    """The keys of `experiment.work` that are set, and digests of the files that they name."""
    data = experiment.model_dump(mode="json", include=set(experiment.work))
    dataset, model, training = (data.pop(key) for key in ("dataset", "model", "training"))
    dataset.pop("name")
    name = model.pop("name")
    facts = {"model": title_of(name), "dataset": experiment.dataset.label}
    for part in ({"dataset": dataset}, model, training, data):
        facts |= dict(_leaves(part, ""))
    for file in (*experiment.dataset.sources, *experiment.modules, *[file_of(name)] * names_file(name)):
        facts[f"content of {file}"] = environment.get(file, "")[:DIGITS]
    return _known(facts)


def _leaves(data: Mapping[str, Any], above: str) -> Iterator[tuple[str, str]]:
    for key, value in data.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{above}{key} ")
        elif value not in (None, [], ""):
            yield f"{above}{key}", ", ".join(map(str, value)) if isinstance(value, list) else str(value)


def _known(facts: Mapping[str, str]) -> Facts:
    return tuple((name, value) for name, value in facts.items() if value)
