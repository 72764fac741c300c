"""Warnings of what weights boundary decay gives remote neighbours in an experiment, and of what a cap on them costs."""

from __future__ import annotations

import warnings

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.prepared import PreparedStream
from chronoscale.batching.streams.ranks.distributed_stream import DistributedStream
from chronoscale.batching.streams.sampling.boundary_weights import BoundaryWeights
from chronoscale.errors import ChronoscaleWarning
from chronoscale.harness.keys.streams import StreamExperiment
from chronoscale.strategies.strategy import Strategy
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.spread.strategy import SpreadStrategy

CAP = 4.0  # that is recommended to those who have none
FEW = 0.01  # of the remote neighbours, which no warning is worth


def warn_of_boundary_weights(experiment: StreamExperiment, planner: Strategy, data: PreparedStream, ranks: int) -> None:
    """Warn (ChronoscaleWarning) of a strategy with boundary decay: without a cap, where more than FEW of the remote neighbours would have a
    weight above CAP / theta; with one, where it has more than FEW of them sampled more often."""
    if not isinstance(planner, SpreadStrategy) or planner.sharing.spread(experiment.hyper).members(ranks) < 2:
        return
    hyper, stats = experiment.hyper, stream_statistics(data)
    sharing = planner.sharing
    boundary = sharing.sampling(hyper, shape_for(experiment.model.choice, stats, hyper), stats).boundary
    parts = DistributedStream(data, sharing.spread(hyper), ranks, hyper.variant).parts_of(False)
    if boundary is None or parts is None or not 0 < boundary.theta < 1:
        return
    cap = boundary.cap or CAP
    weights = BoundaryWeights.of(data.training, parts, boundary, hyper.fanout[0], cap)
    if weights.raised <= FEW:
        return
    most, cost = f"{cap / boundary.theta:.4g}", f"{weights.added:.1%} more remote neighbours"
    if boundary.cap:
        text = (
            f"training.weight_cap: {cap:g}: {weights.raised:.0%} of the remote neighbours are sampled more often than boundary decay asks "
            f"for, so that no weight is above {most}: {cost}; without a cap weights reach {weights.largest:.4g}"
        )
    else:
        text = (
            f"weights of remote neighbours have no cap and reach {weights.largest:.4g}: {weights.raised:.0%} of the remote neighbours "
            f"would have one above {most}, and attention hangs on the few that are sampled; training.weight_cap: {cap:g} costs {cost}"
        )
    warnings.warn(f"{planner.name}: {text}", ChronoscaleWarning, stacklevel=2)
