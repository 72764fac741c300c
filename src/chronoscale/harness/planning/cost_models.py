"""Cost models that need no measurement: datasheets, and the files of fitted costs that experiments name."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from chronoscale.errors import UserError
from chronoscale.harness.keys.experiment import Experiment
from chronoscale.simulator import presets
from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costs import CostModel, DatasheetCosts, FittedCosts
from chronoscale.strategies.plugins import names_file, title_of

ENGINE = Link(1e9, 1e-3)  # a data engine for costs that are asked for memory, and for shares of an epoch, alone


def names_cost_file(experiment: Experiment) -> bool:
    """Say whether an experiment's key `costs` is the path of a file of fitted costs, and no word such as "datasheet"."""
    return experiment.costs not in ("auto", "fitted", "datasheet")


def datasheet_costs(cluster: str) -> DatasheetCosts:
    """Return the costs by a cluster's datasheet before anything is measured: enough to check memory, and to compare schedules' work.

    cluster: a preset's name or a file.
    """
    return DatasheetCosts(presets.cluster(cluster).device, engine=ENGINE)


def costs_of_file(experiment: Experiment, device: str, datasheet: Device | None = None) -> FittedCosts:
    """Load the file of fitted costs that an experiment names, for commands that plan or replay on `device`.

    datasheet: the figures of `device`; None: those that the package has of it, if any. Costs of another device are scaled by the datasheets
    of both where the experiment sets `extrapolate`; every number then says so, also of costs of ranks that shared a GPU.

    Raises UserError for either without that key, and for costs of another device where a datasheet is unknown, as of every CPU.
    """
    costs = FittedCosts.load(Path(experiment.costs), experiment.extrapolate)
    shared = bool(costs.fingerprint.get("share_gpu")) and not experiment.share_gpu
    if shared and not experiment.extrapolate:
        reason = "fitted on ranks that share a GPU; name a profile of others, or set extrapolate: true (every number then says so)"
        raise UserError(f"costs: {experiment.costs} was {reason}")
    try:
        taken = costs.for_device(device, presets.known_device(costs.device), datasheet or presets.known_device(device))
    except UserError as error:
        raise UserError(f"costs: {experiment.costs} was {error}") from None
    return replace(taken, taken_for=device) if shared else taken


def cluster_costs(experiment: Experiment, cluster: Cluster) -> CostModel:
    """Return the costs with which `chronoscale simulate` and `advise` replay an experiment on a cluster.

    Raises UserError for `costs: fitted` without a file (a profile of which device?), as `costs_of_file`, for CUDA graphs with fitted costs,
    which are of kernels launched one by one, and for costs that need a count of kernels, of a model in a user's file, which has none.
    """
    costs, name = _cluster_costs(experiment, cluster), experiment.model.name
    if names_file(name) and (isinstance(costs, DatasheetCosts) or costs.launch_ns):
        raise UserError(
            f"model: kernels of '{title_of(name)}' were not counted, and these costs need them; train, compare and validate do not"
        )
    return costs


def _cluster_costs(experiment: Experiment, cluster: Cluster) -> CostModel:
    if experiment.costs in ("auto", "datasheet"):
        return DatasheetCosts(cluster.device, engine=cluster.engine, launch=experiment.launch)
    if experiment.costs == "fitted":
        raise UserError("costs: to simulate with fitted costs, name the file: costs: runs/<profile run>/profile/costs-1.json")
    if experiment.launch != "eager":
        raise UserError(f"launch: {experiment.launch} is reckoned from a datasheet; fitted costs are of kernels launched one by one")
    costs = costs_of_file(experiment, cluster.device.name, cluster.device)
    return costs if costs.taken_for else replace(costs, peaks=cluster.device)
