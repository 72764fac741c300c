"""Tuning: the constants of NCCL's model of its own collectives, by algorithm and protocol."""

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
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Latencies(_Constants):
    """Seconds by protocol."""

    ll: Seconds
    ll128: Seconds
    simple: Seconds


class AlgorithmLatencies(_Constants):
    """Seconds by algorithm and protocol."""

    ring: Latencies
    tree: Latencies


class HopLatencies(_Constants):
    """Seconds of one hop by what it crosses."""

    nvlink: AlgorithmLatencies
    pcie: AlgorithmLatencies
    network: AlgorithmLatencies


class ProtocolShares(_Constants):
    """Shares of 1 by protocol."""

    ll: Share
    ll128: Share
    simple: Share


class Speeds(_Constants):
    """What an algorithm reaches of the links' bandwidth, by protocol; `gather_ll`: LL all-gathers, `node_`: inside one machine."""

    ring: ProtocolShares
    tree: ProtocolShares
    ring_node_gather_ll: Share
    tree_node_ll128: Share


class LLBandwidths(_Constants):
    """The most that LL moves, bytes/s of all channels together, by the machines that take part."""

    one_node: float = Field(ge=1e6)
    two_nodes: float = Field(ge=1e6)
    more_nodes: float = Field(ge=1e6)


class TreeSpeeds(_Constants):
    """What trees reach of that by size: for 64 bytes, 128, 256 ... of each protocol; the last for all larger ones."""

    ll: Shares
    ll128: Shares
    simple: Shares


class NCCLConstants(_Constants):
    """Constants with their source: `simulator/network/nccl.yaml`. A cluster file's `nccl` replaces some of them."""

    base_latency_s: AlgorithmLatencies
    hop_latency_s: HopLatencies
    network_overhead_s: Latencies  # the least that a step of a ring between machines takes
    speed: Speeds
    ll_bandwidth: LLBandwidths
    tree_speed: TreeSpeeds
    wire: ProtocolShares  # of what crosses a link, how much is data
    message_ll_bytes: int = Field(ge=0)  # messages of at most as many bytes take LL
