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


class _Constants(BaseModel):
    """A group of constants, none of which may be unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Latencies(_Constants):
    """Latencies by protocol, seconds."""

    ll: Seconds
    ll128: Seconds
    simple: Seconds


class AlgorithmLatencies(_Constants):
    """Latencies by algorithm and protocol, seconds."""

    ring: Latencies
    tree: Latencies


class HopLatencies(_Constants):
    """Latencies of one hop by the kind of link that it crosses, seconds."""

    nvlink: AlgorithmLatencies
    pcie: AlgorithmLatencies
    network: AlgorithmLatencies


class ProtocolShares(_Constants):
    """Shares (0 to 1) by protocol."""

    ll: Share
    ll128: Share
    simple: Share


class Speeds(_Constants):
    """The share of the links' bandwidth that an algorithm reaches, by protocol; `gather_ll`: LL all-gathers, `node_`: inside one
    machine."""

    ring: ProtocolShares
    tree: ProtocolShares
    ring_node_gather_ll: Share
    tree_node_ll128: Share


class LLBandwidths(_Constants):
    """The most that protocol LL moves, bytes/s of all channels together, by the number of machines that take part."""

    one_node: float = Field(ge=1e6)
    two_nodes: float = Field(ge=1e6)
    more_nodes: float = Field(ge=1e6)


class TreeSpeeds(_Constants):
    """The share of their bandwidth that trees reach by size: for 64 bytes, 128, 256 ... of each protocol; the last for all larger ones."""

    ll: Shares
    ll128: Shares
    simple: Shares


class NCCLConstants(_Constants):
    """The constants of NCCL's tuning model; a cluster file's `nccl` replaces some of the defaults in `simulator/network/nccl.yaml`."""

    base_latency_s: AlgorithmLatencies
    hop_latency_s: HopLatencies
    network_overhead_s: Latencies  # the least that a step of a ring between machines takes
    speed: Speeds
    ll_bandwidth: LLBandwidths
    tree_speed: TreeSpeeds
    wire: ProtocolShares  # of what crosses a link, how much is data
    message_ll_bytes: int = Field(ge=0)  # messages of at most as many bytes take LL
