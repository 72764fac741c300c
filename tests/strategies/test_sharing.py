"""Settings of strategies whose node memory is spread over ranks: how a schedule carries them, and how neighbours are sampled under them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from spread_strategies import SPREAD, shared
from stream_case import choice, hyper
from stream_plans import data, plan, work

from chronoscale.batching.streams.description import stream_statistics
from chronoscale.batching.streams.sampling.boundary import Boundary
from chronoscale.errors import UserError
from chronoscale.strategies.streams.models import shape_for
from chronoscale.strategies.streams.spread.sharing import Sharing


@pytest.mark.parametrize(
    "feeding",
    [
        "",
        "parts",
        "parts all",
        "parts all recent hot",
        "replicas all recent pipelined shared",
        "parts never never",
        "slots",
    ],
)
def test_sharing_is_read_back(feeding: str) -> None:
    workload = work("tgn", hyper("tgn", events=shared()))
    for name, one in SPREAD.items():
        schedule = plan(name, workload, 2)
        assert schedule.feeding == str(one.sharing) and Sharing.of(schedule) == one.sharing
    with pytest.raises(UserError) as error:
        Sharing.of(replace(schedule, feeding=feeding))
    assert str(error.value) == f"schedule '{schedule.name}': sharing '{feeding}' is unknown; it is of another version"


def test_neighbours_are_read_from_a_cache_that_there_is() -> None:
    with pytest.raises(UserError, match=r"^neighbours are read from a cache where rows of other ranks are cached$"):
        Sharing(neighbours="decay-cached")
    with pytest.raises(UserError, match=r"^training\.weight_cap: expected 0, for none, or at least 1, got 0\.5$"):
        shared(weight_cap=0.5)


def test_how_neighbours_are_sampled() -> None:
    """With the boundary that is asked for; by default one unit of decay over the stream's span."""
    stats = stream_statistics(data())
    for complete in (True, False):
        given = hyper("tgn", events=shared(theta=0.2, decay=0.5, complete=complete))
        samplings = {name: one.sharing.sampling(given, shape_for(choice("tgn"), stats, given), stats) for name, one in SPREAD.items()}
        ours = Boundary(0.2, 0.5, complete, 4.0, True)
        assert samplings["memshare"].boundary == samplings["memshare-cached"].boundary == ours
        assert samplings["memshare-stale"].boundary == replace(ours, stale=True)
        assert samplings["memshare-local"].boundary == Boundary(0.0, 0.5, complete)
        published, other = replace(given, variant="as-published"), hyper("tgn", events=shared(weight_cap=0.0, at_least_one=False))
        plain = SPREAD["memshare"].sharing.sampling(published, shape_for(choice("tgn"), stats, given), stats).boundary
        assert plain == Boundary(0.2, 0.5, complete)
        plain = SPREAD["memshare"].sharing.sampling(other, shape_for(choice("tgn"), stats, given), stats).boundary
        assert plain is not None and (plain.cap, plain.at_least_one) == (0.0, False)
        assert all(samplings[name].boundary is None for name in ("tgl-dist", "mspipe", "disttgl", "memshare-recent", "memshare-history"))
        assert all(one.unique and one.fanouts == (3,) for one in samplings.values())
    given = hyper("tgn", events=shared(theta=0.2))
    t = data().whole.stream.t
    default = SPREAD["memshare"].sharing.sampling(given, shape_for(choice("tgn"), stats, given), stats).boundary
    assert default is not None and default.decay == pytest.approx(1 / (int(t[-1]) - int(t[0])))


def test_parts_are_made_for_the_batches_of_training() -> None:
    given = replace(hyper("tgn", events=shared(policy="restream")), batch_size=17, fanout=(4, 2))
    distribution = SPREAD["tgl-dist"].sharing.spread(given)
    assert (distribution.policy, distribution.batch, distribution.neighbours) == ("restream", 17, 4)
    assert str(distribution) == str(replace(distribution, batch=18, neighbours=5))  # in keys of counts, which have both
