"""The bytes that ranks exchange, estimated before anything is planned: MemShare's communication model (section 4.2)."""

from __future__ import annotations

from dataclasses import dataclass, fields

from chronoscale.batching.streams.partitioning.remoteness import COLD, HOT, NEGATIVE, Remoteness
from chronoscale.errors import UserError

XI = 0.46  # ξ of section 4.2


@dataclass(frozen=True, slots=True)
class Widths:
    """Bytes of a node's row (d_n), of an event's features (d_e) and of a shared node's memory as it is synchronised (d_mem)."""

    node: int
    edge: int
    memory: int


@dataclass(frozen=True, slots=True)
class Communication:
    """Bytes of one pass over the events, on all ranks: the terms of eq. 25, as Figure 7 stacks them, and `told`. hot, cold: of ends of
    events that are shared, and of others; nodes, edges: rows fetched. memory: of shared nodes, to all other ranks. told: rows of both kinds
    for what events are told from, of which the equation knows nothing."""

    hot_nodes: float
    cold_nodes: float
    hot_edges: float
    cold_edges: float
    memory: float
    told: float = 0.0

    @property
    def fetched(self) -> float:
        """Without what is synchronised."""
        return self.total - self.memory

    @property
    def total(self) -> float:
        """C_k."""
        return float(sum(getattr(self, term.name) for term in fields(self)))


@dataclass(frozen=True, slots=True)
class Cut:
    """What eq. 25 asks of a stream in parts. events: |E|; hot_ends: E_k, ends of events that are shared nodes, 0 to 2 |E|; cut: λ, share of
    the events whose ends have different parts, neither shared; remote: λ̂ (eq. 24), share of shared nodes' recent neighbours whose event is
    in another part."""

    parts: int
    events: int
    hot_ends: int
    cut: float
    remote: float

    @classmethod
    def of(cls, found: Remoteness, remote: float | None = None) -> Cut:
        """As counted; remote: λ̂ in place of what eq. 24 comes to, such as λ of the same stream without shared nodes, which the paper says
        is close to it. 0 of nothing."""
        counted = float(found.edges[HOT] / found.slots[HOT]) if found.slots[HOT] else 0.0
        return cls(
            found.parts,
            found.events,
            int(found.roots[HOT]),
            found.cut / found.events if found.events else 0.0,
            counted if remote is None else remote,
        )


def published(cut: Cut, widths: Widths, neighbours: float, theta: float, sent: float = 1.0) -> Communication:
    """Eq. 25 as printed. neighbours: n of each root; theta: θ, at most 1; sent: η, share of shared nodes' events after which their memory
    is synchronised."""
    hot, cold, sampled = cut.hot_ends, 2 * cut.events - cut.hot_ends, neighbours * min(theta, 1.0)
    mixed = 1 - hot / (2 * cut.events) if cut.events else 0.0
    return Communication(
        widths.node * sampled * cut.remote * hot * mixed,
        widths.node * cut.cut * (sampled * cold + cut.events),
        widths.edge * sampled * cut.remote * hot,
        widths.edge * sampled * cut.cut * cold,
        float(widths.memory * (cut.parts - 1) * sent * hot),
    )


def estimated(found: Remoteness, widths: Widths, theta: float, sent: float = 1.0) -> Communication:
    """Eq. 25 with each ratio taken of what it multiplies: of the neighbours that there are, those of shared ends and of others apart, rows
    of nodes and of events apart; of ends, those that the event's part does not have. And what events are told from, where that was counted.
    As `published`."""
    kept = min(theta, 1.0)
    told = widths.node * (kept * found.nodes[NEGATIVE] + found.away[NEGATIVE]) + widths.edge * kept * found.edges[NEGATIVE]
    return Communication(
        float(widths.node * kept * found.nodes[HOT]),
        float(widths.node * (kept * found.nodes[COLD] + found.away[COLD])),
        float(widths.edge * kept * found.edges[HOT]),
        float(widths.edge * kept * found.edges[COLD]),
        float(widths.memory * (found.parts - 1) * sent * found.roots[HOT]),
        float(told),
    )


def variance_bound(remote: float, theta: float, mean: float, variance: float) -> float:
    """Eq. 26: what the variance of a node's output is at most, where a share `remote` (λ^{k,u}) of its neighbours is remote and sampled
    with probability theta, above 0. mean, variance: μ and δ² of what neighbours send."""
    if not theta > 0:
        raise UserError(f"theta: expected more than 0, got {theta}")
    return (1 - remote) * variance + remote * (mean**2 + variance) / min(theta, 1.0)


def recommended_share(exponent: float) -> float:
    """k = ξ^((1 - β) / (2 - β)), the share of nodes that are best shared where degrees follow a power law of that exponent β, above 2
    (section 4.2, which recommends 0.1 at most all the same)."""
    if not exponent > 2:
        raise UserError(f"exponent: expected a power law's of more than 2, got {exponent}")
    return float(XI ** ((1 - exponent) / (2 - exponent)))
