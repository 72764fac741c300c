"""NCCLConstants: the constants of NCCL's own model of its collectives, by algorithm and protocol."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

Algorithm = Literal["ring", "tree"]
Protocol = Literal["ll", "ll128", "simple"]
PROTOCOLS: tuple[Protocol, ...] = get_args(Protocol)
Seconds = Annotated[float, Field(ge=0, le=1)]
Share = Annotated[float, Field(gt=0, le=1)]
Shares = Annotated[tuple[Share, ...], Field(strict=False, min_length=1)]
Rate = Annotated[float, Field(ge=1e6)]  # bytes/s


class _Constants(BaseModel):
    """A group of constants, none of which may be unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Latencies(_Constants):
    """Latencies by NCCL protocol (LL, LL128, Simple), seconds; part of `nccl` in the file of a cluster that schedules are planned for."""

    ll: Seconds
    ll128: Seconds
    simple: Seconds


class AlgorithmLatencies(_Constants):
    """Latencies by NCCL algorithm (ring, tree) and protocol, seconds; part of `nccl` in the file of a cluster that schedules are planned
    for. nvls: of reductions in NVSwitch, which know Simple alone."""

    ring: Latencies
    tree: Latencies
    nvls: Seconds


class BaseLatencies(AlgorithmLatencies):
    """Latencies before the first hop, seconds; part of `nccl` in the file of a cluster that schedules are planned for. sends: of sends and
    all-to-alls, with any protocol."""

    sends: Seconds

    def times(self, factor: float) -> BaseLatencies:
        """Return the latencies of rings, trees and sends times a factor."""
        changed = {
            name: latencies.model_copy(update={protocol: seconds * factor for protocol, seconds in latencies})
            for name, latencies in (("ring", self.ring), ("tree", self.tree))
        }
        return self.model_copy(update={**changed, "sends": self.sends * factor})


class HopLatencies(_Constants):
    """Latencies of one hop of a collective by the kind of link that it crosses, seconds; part of `nccl` in the file of a cluster that
    schedules are planned for."""

    nvlink: AlgorithmLatencies
    pcie: AlgorithmLatencies
    network: AlgorithmLatencies


class ProtocolShares(_Constants):
    """Shares (0 to 1) by NCCL protocol (LL, LL128, Simple); part of `nccl` in the file of a cluster that schedules are planned for."""

    ll: Share
    ll128: Share
    simple: Share


class Speeds(_Constants):
    """Shares (0 to 1) of what links reach that NCCL's algorithms reach, by protocol; part of `nccl` in the file of a cluster that schedules
    are planned for.

    ring_node_gather_ll: a ring's all-gather with LL inside one machine; tree_node_ll128: a tree with LL128 inside one machine; nvls:
    reductions in NVSwitch, of NVLink, nvls_network: of the network.
    """

    ring: ProtocolShares
    tree: ProtocolShares
    ring_node_gather_ll: Share
    tree_node_ll128: Share
    nvls: Share
    nvls_network: Share


class Generations(_Constants):
    """Bounds in bytes/s by the generation of the GPU, older ones included with the first; part of `nccl` in the file of a cluster that
    schedules are planned for."""

    volta: Rate
    ampere: Rate
    hopper: Rate
    blackwell: Rate

    def of(self, capability: float) -> float:
        """Return the bound of a device by its compute capability, bytes/s; 0, unknown, counts as Ampere's."""
        if not capability:
            return self.ampere
        return self.volta if capability < 8 else self.ampere if capability < 9 else self.hopper if capability < 10 else self.blackwell


class LLBandwidths(_Constants):
    """Upper bounds of what NCCL's protocol LL moves, bytes/s of all channels together, by the number of machines that take part; part of
    `nccl` in the file of a cluster that schedules are planned for."""

    one_node: Generations
    two_nodes: Rate
    more_nodes: Rate


class TreeSpeeds(_Constants):
    """Shares of their bandwidth that NCCL's trees reach, by protocol and message size: entry i is for 64 * 2^i bytes, the last one for all
    larger ones; part of `nccl` in the file of a cluster that schedules are planned for."""

    ll: Shares
    ll128: Shares
    simple: Shares


class SendsAtOnce(_Constants):
    """How many sends of one rank to others are under way at once, by the kind of link that they cross, 1: one after another; part of `nccl`
    in the file of a cluster that schedules are planned for."""

    nvlink: float = Field(ge=1, le=1e6)
    pcie: float = Field(ge=1, le=1e6)
    network: float = Field(ge=1, le=1e6)


class Channels(_Constants):
    """Channels of a collective, each of which takes an SM: so many at most, and fewer where each would have less than `bytes`; part of
    `nccl` in the file of a cluster that schedules are planned for."""

    most: float = Field(ge=1, le=64)
    bytes: float = Field(ge=1)


class NCCLConstants(_Constants):
    """Constants by which NCCL chooses an algorithm and predicts a collective's time (its tuning model), for simulated clusters: those that
    a cluster file's `nccl` states replace the defaults in `simulator/network/nccl.yaml`."""

    base_latency_s: BaseLatencies
    hop_latency_s: HopLatencies
    network_overhead_s: Latencies  # the least that a step of a ring between machines takes
    plateau: float = Field(ge=1, le=10)  # latency of a ring with Simple between machines, as a multiple of that of its hops
    speed: Speeds
    ll_bandwidth: LLBandwidths
    tree_speed: TreeSpeeds
    wire: ProtocolShares  # of what crosses a link, how much is data
    sends_at_once: SendsAtOnce
    channels: Channels
