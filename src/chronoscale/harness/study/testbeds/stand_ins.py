"""Stand-ins: generated snapshots in place of a paper's data sets, with counts at their published size."""

from __future__ import annotations

from functools import cache

from pydantic import BaseModel, ConfigDict, PositiveInt

from chronoscale.batching.snapshots.chunks import ExactChunking, cut_into_chunks
from chronoscale.batching.snapshots.partition import VertexPartition, metis_partition
from chronoscale.datasets import catalogue
from chronoscale.datasets.generate.generators import build
from chronoscale.datasets.generate.growth import GrowthGraph
from chronoscale.datasets.generate.specs import GrowthSpec, Mixing
from chronoscale.datasets.snapshots.sequence import SnapshotSequence
from chronoscale.datasets.snapshots.statistics import SnapshotStatistics, statistics_of
from chronoscale.errors import UserError
from chronoscale.strategies.workload import Partition


class StandIns(BaseModel):
    """How the stand-ins of REAL's and FlareDTDG's studies are generated; as the catalogue lists them where nothing else is said.

    times: nodes and edges over the catalogue's, so that counts are multiplied by less. mixing: share of the edges that leave their
    community; None: as listed.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    times: PositiveInt = 1
    mixing: Mixing = None

    def graph(self, dataset: str) -> GrowthGraph | None:
        """Return the generator of a stand-in; None where it is the catalogue's. Raises UserError for one that is no growing graph."""
        if self == LISTED:
            return None
        spec = catalogue.entry(f"{dataset}_like").generator
        if not isinstance(spec, GrowthSpec):
            raise UserError(f"stand-in of '{dataset}': expected a growing graph, to be made with other sizes or communities")
        mixing = spec.mixing if self.mixing is None else self.mixing
        changed = spec.model_copy(update={"nodes": spec.nodes * self.times, "edges": spec.edges * self.times, "mixing": mixing})
        graph = build(changed, f"{dataset}_like", 0)
        assert isinstance(graph, GrowthGraph)
        return graph


LISTED = StandIns()


@cache
def factor(dataset: str, stand_ins: StandIns = LISTED) -> int:
    """Return how many times larger a data set is than its generated stand-in in REAL's and FlareDTDG's studies; 1 where unstated.

    stand_ins: how it is generated. Raises UserError where that is no whole number.
    """
    stands_for = catalogue.entry(f"{dataset}_like").stands_for
    listed = stands_for.factor if stands_for else 1
    if listed % stand_ins.times:
        raise UserError(
            f"stand-in of '{dataset}', {listed:,} times smaller: expected a part of that, to make it larger, got {stand_ins.times}"
        )
    return listed // stand_ins.times


@cache
def statistics(dataset: str, stand_ins: StandIns = LISTED) -> SnapshotStatistics:
    """Return nodes, edges and changes of each snapshot of a generated stand-in, scaled to the data set's published size.

    For REAL's and FlareDTDG's studies. dataset: the published data set that it stands in for. stand_ins: how it is generated. Raises
    UserError as `StandIns.graph` and `factor`.
    """
    graph = stand_ins.graph(dataset)
    return statistics_of(catalogue.iterate_snapshots(f"{dataset}_like") if graph is None else graph).scaled(factor(dataset, stand_ins))


@cache
def sequence(dataset: str, share: float = 1.0, stand_ins: StandIns = LISTED) -> SnapshotSequence:
    """Return the generated snapshots that stand in for a data set in REAL's and FlareDTDG's studies, not scaled.

    share: 0 to 1, of the snapshots, the first ones. stand_ins: how they are generated. Raises UserError as `StandIns.graph`.
    """
    graph = stand_ins.graph(dataset)
    snapshots = catalogue.load(f"{dataset}_like") if graph is None else graph.sequence()
    assert isinstance(snapshots, SnapshotSequence)
    return snapshots if share == 1 else snapshots.head(int(share * len(snapshots)))


@cache
def partition(dataset: str, parts: int, share: float = 1.0, stand_ins: StandIns = LISTED) -> Partition:
    """Return a METIS partition of a study's generated snapshots as counts a rank and snapshot, scaled to the published size.

    parts: ranks. share: 0 to 1, of the snapshots, the first ones. stand_ins: how they are generated. Raises UserError as `statistics`.
    """
    snapshots = sequence(dataset, share, stand_ins)
    counts = VertexPartition(metis_partition(snapshots, parts), parts).count(snapshots)
    rows, edges, halo, sent = (column * factor(dataset, stand_ins) for column in counts)
    return Partition(rows, edges, halo, sent, origin="METIS on the stand-in")


@cache
def cut_share(dataset: str, parts: int, share: float = 1.0, stand_ins: StandIns = LISTED) -> float:
    """Return the share of the edges of a study's generated snapshots that a METIS partition cuts. Parameters and errors: as `partition`."""
    snapshots = sequence(dataset, share, stand_ins)
    part = metis_partition(snapshots, parts)
    return sum(int((part[one.src] != part[one.dst]).sum()) for one in snapshots) / sum(one.num_edges for one in snapshots)


@cache
def counted(dataset: str, share: float, chunks: int, stand_ins: StandIns = LISTED) -> ExactChunking:
    """Cut a study's generated snapshots into chunks of nodes by METIS and return what counts them, for FlareDTDG's plans.

    Counts are scaled to the published size. share: 0 to 1, of the snapshots, the first ones. chunks: how many. stand_ins: how snapshots are
    generated. Raises UserError as `statistics`.
    """
    snapshots = sequence(dataset, share, stand_ins)
    return ExactChunking(snapshots, cut_into_chunks(snapshots, chunks), factor(dataset, stand_ins))
