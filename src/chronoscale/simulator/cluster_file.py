"""Cluster file: the keys of the YAML file that describes a cluster to simulate, and of a device's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from chronoscale.simulator.network.nccl import merge_constants
from chronoscale.strategies.cluster import Cluster, Device, Link
from chronoscale.strategies.costing.nccl_constants import NCCLConstants
from chronoscale.strategies.topology import Assumed, Bandwidth, Efficiency, Topology

Bytes = Annotated[float, Field(ge=1e4)]  # no gigabytes
Soon = Annotated[float, Field(ge=0, le=1e-2)]  # s: what is done once a kernel


class Entry(BaseModel):
    """Part of the file of a cluster to simulate; keys that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class LinkKeys(Entry):
    """Link in the file of a cluster to simulate: B/s in one direction, seconds, and the share of the line rate that transfers reach."""

    bandwidth: Bandwidth
    latency_s: float = Field(ge=0, le=1)
    efficiency: Efficiency = 1.0

    def link(self) -> Link:
        """Return the link."""
        return Link(self.bandwidth, self.latency_s, self.efficiency)


class Bus(LinkKeys):
    """Bus between a device and its host in the file of a cluster to simulate."""

    efficiency: Annotated[Efficiency, Assumed("of the line rate, as pinned copies over PCIe")] = 0.85


class Inside(LinkKeys):
    """Link between devices of a machine in the file of a cluster to simulate."""

    efficiency: Annotated[Efficiency, Assumed("of the line rate, as NVLink")] = 0.8


class Across(LinkKeys):
    """Link between machines in the file of a cluster to simulate."""

    efficiency: Annotated[Efficiency, Assumed("of the line rate, as InfiniBand")] = 0.92


class DeviceKeys(Entry):
    """Device of a file of a cluster to simulate, or of one in devices/: bytes, FLOP/s, B/s, seconds."""

    name: str
    memory: Bytes
    flops: float = Field(ge=1e9)  # FLOP/s: 67 TFLOP/s are 67.0e+12
    memory_bandwidth: Bandwidth
    memory_efficiency: Annotated[Efficiency, Assumed("of the peak, by all kernels together")] = 0.9
    launch_s: Soon
    graph_s: Annotated[Soon, Assumed("s a kernel of a CUDA graph")] = 5e-7
    memory_latency_s: Annotated[Soon, Assumed("s, as Ampere and Hopper")] = 3e-7
    sms: Annotated[int, Field(ge=0), Assumed("SMs: its SMs are never full")] = 0
    threads: Annotated[int, Field(ge=0), Assumed("threads an SM")] = 2048
    capability: Annotated[float, Field(ge=0, le=100), Assumed("compute capability: NCCL's constants are Ampere's")] = 0.0
    h2d: Bus

    def device(self) -> Device:
        """Return the device."""
        return Device(
            self.name,
            self.memory,
            self.flops,
            self.memory_bandwidth,
            self.h2d.link(),
            self.launch_s,
            graph_s=self.graph_s,
            memory_efficiency=self.memory_efficiency,
            memory_latency_s=self.memory_latency_s,
            sms=self.sms,
            threads=self.threads,
            capability=self.capability,
        )


class ClusterKeys(Entry):
    """Contents of the file of a cluster to simulate."""

    origin: str
    device: DeviceKeys | str  # the figures, the name of a file in devices/, or the path of one's own
    nodes: int = Field(ge=1)
    gpus_per_node: int = Field(ge=1)
    intra: Inside
    inter: Across
    host_memory: Annotated[Bytes | None, Assumed("a machine's memory has no end")] = None  # a node
    engine: LinkKeys | None = None
    topology: Annotated[Topology | None, Assumed("a network card for each GPU, no switch or host memory is ever full, no NVLS")] = None
    collectives: Literal["nccl", "alpha-beta"] = "nccl"
    nccl: NCCLConstants | None = None  # those of NCCL's constants that are others here

    @field_validator("nccl", mode="before")
    @classmethod
    def _completed(cls, value: Any) -> Any:
        return merge_constants(value)

    def cluster(self, name: str, figures: DeviceKeys) -> Cluster:
        """Return the cluster. name: what it is called; figures: of its device."""
        return Cluster(
            name,
            figures.device(),
            self.nodes,
            self.gpus_per_node,
            self.intra.link(),
            self.inter.link(),
            self.origin,
            float("inf") if self.host_memory is None else self.host_memory,
            None if self.engine is None else self.engine.link(),
            topology=self.topology,
            collectives=self.collectives,
            tuning=self.nccl,
            assumed=(*left_out(self), *left_out(figures, "device.")),
        )


def left_out(keys: BaseModel, prefix: str = "") -> Iterator[str]:
    """Yield the keys that a file of a cluster to simulate leaves out, each with what stands in its place, in words.

    prefix: of their names.
    """
    for name, field in type(keys).model_fields.items():
        value = getattr(keys, name)
        marks = [mark for mark in field.metadata if isinstance(mark, Assumed)]
        if name not in keys.model_fields_set and marks:
            figure = "" if value is None or isinstance(value, bool) else f"{value:g} "
            yield f"{prefix}{name}: {figure}{marks[0].words}"
        elif isinstance(value, BaseModel) and not isinstance(value, DeviceKeys | NCCLConstants):
            yield from left_out(value, f"{prefix}{name}.")
