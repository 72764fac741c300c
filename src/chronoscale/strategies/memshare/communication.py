"""The bytes that ranks exchange, estimated before anything is planned: MemShare's communication model (section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from chronoscale.batching.streams.partitioning.remoteness import COLD, HOT, NEGATIVE, Remoteness
from chronoscale.errors import UserError

XI = 0.46  # ξ of section 4.2


@dataclass(frozen=True, slots=True)
class RowBytes:
    """Bytes of what ranks send each other in MemShare's communication model (§4.2): a node's row (d_n), an event's features (d_e), and a
    shared node's memory when it is synchronised (d_mem)."""

    node: int
    edge: int
    memory: int


@dataclass(frozen=True, slots=True)
class Communication:
    """Bytes that all ranks exchange in one pass over an event stream, by MemShare's communication model: the terms of eq. 25, as Figure 7
    stacks them, and `negatives`.

    hot, cold: fetched for ends of events that are shared nodes (copied to all ranks), and for other ends; nodes, edges: rows of node data,
    and of events' features. memory: of shared nodes, to all other ranks. negatives: rows of both kinds for the negative destinations of
    training, which the equation leaves out.
    """

    hot_nodes: float
    cold_nodes: float
    hot_edges: float
    cold_edges: float
    memory: float
    negatives: float = 0.0

    @property
    def fetched(self) -> float:
        """The bytes that ranks fetch from others' parts: all but the synchronised memory of shared nodes."""
        return self.total - self.memory

    @property
    def total(self) -> float:
        """The bytes in all, C_k of MemShare's eq. 25."""
        return float(sum(getattr(self, term.name) for term in fields(self)))


@dataclass(frozen=True, slots=True)
class StreamCut:
    """Statistics of an event stream partitioned over ranks that MemShare's eq. 25 (bytes exchanged) needs.

    events: |E|; hot_ends: E_k, ends of events that are shared nodes, 0 to 2 |E|; cut: λ, share of the events whose ends have different
    parts, neither shared; remote: λ̂ (eq. 24), share of shared nodes' recent neighbours whose event is in another part.
    """

    parts: int
    events: int
    hot_ends: int
    cut: float
    remote: float

    @classmethod
    def of(cls, counts: Remoteness, remote: float | None = None) -> StreamCut:
        """Return these statistics from the counts of a cut stream; shares of nothing are 0.

        remote: λ̂ in place of what eq. 24 comes to, such as λ of the same stream without shared nodes, which the paper says is close to it.
        """
        remote_share = float(counts.edges[HOT] / counts.slots[HOT]) if counts.slots[HOT] else 0.0
        return cls(
            counts.parts,
            counts.events,
            int(counts.roots[HOT]),
            counts.cut / counts.events if counts.events else 0.0,
            remote_share if remote is None else remote,
        )


def published_communication(cut: StreamCut, widths: RowBytes, neighbours: float, theta: float, sent: float = 1.0) -> Communication:
    """Estimate the bytes that ranks exchange in one pass over a partitioned event stream by MemShare's eq. 25, as printed.

    neighbours: n, sampled for each end of an event; theta: θ, probability that a remote neighbour is sampled, at most 1; sent: η, share of
    shared nodes' events after which their memory is synchronised.
    """
    hot = cut.hot_ends
    cold = 2 * cut.events - cut.hot_ends
    sampled = neighbours * min(theta, 1.0)
    mixed = 1 - hot / (2 * cut.events) if cut.events else 0.0
    return Communication(
        widths.node * sampled * cut.remote * hot * mixed,
        widths.node * cut.cut * (sampled * cold + cut.events),
        widths.edge * sampled * cut.remote * hot,
        widths.edge * sampled * cut.cut * cold,
        float(widths.memory * (cut.parts - 1) * sent * hot),
    )


def estimate_communication(counts: Remoteness, widths: RowBytes, theta: float, sent: float = 1.0) -> Communication:
    """Estimate the bytes that ranks exchange in one pass over a partitioned event stream: MemShare's eq. 25, corrected so that each ratio
    is of what it multiplies.

    That is: of the neighbours that there are, those of shared ends and of others apart, rows of nodes and of events apart; of ends, those
    that the event's part does not have; and of negative destinations, where those were counted. theta, sent: θ and η, as in
    `published_communication`.
    """
    share = min(theta, 1.0)
    further = widths.node * (share * counts.nodes[NEGATIVE] + counts.away[NEGATIVE]) + widths.edge * share * counts.edges[NEGATIVE]
    return Communication(
        float(widths.node * share * counts.nodes[HOT]),
        float(widths.node * (share * counts.nodes[COLD] + counts.away[COLD])),
        float(widths.edge * share * counts.edges[HOT]),
        float(widths.edge * share * counts.edges[COLD]),
        float(widths.memory * (counts.parts - 1) * sent * counts.roots[HOT]),
        float(further),
    )


def variance_bound(remote: float, theta: float, mean: float, variance: float) -> float:
    """Return MemShare's upper bound, beside its strategy's other equations, on the variance of a graph node's output when remote neighbours
    are sampled with probability theta (MemShare eq. 26).

    remote: λ^{k,u}, the share of the node's neighbours that lies on other ranks. mean, variance: μ and δ² of what neighbours send. Raises
    UserError for theta of 0 or less.
    """
    if not theta > 0:
        raise UserError(f"theta: expected more than 0, got {theta}")
    return (1 - remote) * variance + remote * (mean**2 + variance) / min(theta, 1.0)


def recommended_share(exponent: float) -> float:
    """Return which share of the graph nodes MemShare's model (§4.2) says is best copied to all ranks, where degrees follow a power law of
    this exponent β: k = ξ^((1 - β) / (2 - β)), ξ = 0.46.

    The paper recommends 0.1 at most all the same. Raises UserError unless β is above 2.
    """
    if not exponent > 2:
        raise UserError(f"exponent: expected a power law's of more than 2, got {exponent}")
    return float(XI ** ((1 - exponent) / (2 - exponent)))
