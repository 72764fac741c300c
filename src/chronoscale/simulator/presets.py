"""Presets: clusters of the papers' testbeds and larger ones, read from the package's YAML files or from the user's."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from chronoscale import yaml_files
from chronoscale.errors import UserError, unknown
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.simulator.network.nccl import merge_constants
from chronoscale.strategies.cluster import CPU_STREAMS, Cluster, Device, Link, same_device
from chronoscale.strategies.costing.nccl_constants import NCCLConstants
from chronoscale.strategies.topology import Bandwidth, Topology
from chronoscale.validation_messages import mistake

_DATA = resources.files("chronoscale.simulator")
SUFFIXES = (".yaml", ".yml")  # of files; presets have none


class _Entry(BaseModel):
    """Part of a cluster file; keys that it does not know are mistakes."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


Bytes = Annotated[float, Field(ge=1e4)]  # no gigabytes
Soon = Annotated[float, Field(ge=0, le=1e-2)]  # s: what is done once a kernel


class _Link(_Entry):
    """Link of a cluster file: B/s in one direction, and seconds."""

    bandwidth: Bandwidth
    latency_s: float = Field(ge=0, le=1)

    def link(self) -> Link:
        return Link(self.bandwidth, self.latency_s)


class _Bus(_Link):
    """Bus between a device and its host."""

    efficiency: float = Field(1.0, gt=0, le=1)  # 1: the bandwidth is what copies reach


class _Device(_Entry):
    """Device of a cluster file or of a file in devices/: bytes, FLOP/s, B/s, seconds."""

    name: str
    memory: Bytes
    flops: float = Field(ge=1e9)  # FLOP/s: 67 TFLOP/s are 67.0e+12
    memory_bandwidth: Bandwidth
    launch_s: Soon
    graph_s: Soon = 0.0
    memory_latency_s: Soon = 0.0
    sms: int = Field(0, ge=0)
    threads: int = Field(0, ge=0)  # of an SM
    h2d: _Bus

    def device(self) -> Device:
        figures = (self.name, self.memory, self.flops, self.memory_bandwidth, self.h2d.link(), self.launch_s)
        chip = Device(*figures, memory_latency_s=self.memory_latency_s, sms=self.sms, threads=self.threads)
        return replace(chip, graph_s=self.graph_s, copied=self.h2d.efficiency)


class _Cluster(_Entry):
    """Contents of a cluster file."""

    origin: str
    device: _Device | str  # the figures, or the name of a file in devices/
    nodes: int = Field(ge=1)
    gpus_per_node: int = Field(ge=1)
    intra: _Link
    inter: _Link
    host_memory: Bytes | None = None  # a node
    engine: _Link | None = None
    topology: Topology | None = None
    collectives: Literal["nccl", "alpha-beta"] = "nccl"
    nccl: NCCLConstants | None = None  # those of NCCL's constants that are others here

    @field_validator("nccl", mode="before")
    @classmethod
    def _completed(cls, value: Any) -> Any:
        return merge_constants(value)


_E = TypeVar("_E", bound=_Entry)


def _stems(folder: str) -> list[str]:
    """Return the names of the files in a folder of the package, in alphabetical order."""
    return sorted(entry.name.removesuffix(".yaml") for entry in (_DATA / folder).iterdir() if entry.name.endswith(".yaml"))


def _read(path: Traversable, kind: type[_E]) -> _E:
    """Read a file's keys. Raises UserError naming file and key."""
    try:
        return kind.model_validate(yaml_files.read(path, "cluster file"))
    except ValidationError as error:
        raise UserError(f"{path}: {mistake(error, kind)}") from error


def names() -> list[str]:
    """Return the names of all simulated clusters that the package ships, in alphabetical order."""
    return _stems("clusters")


def is_file(name: str) -> bool:
    """Return whether a cluster is named by the path of a user's cluster file rather than as one that the package ships."""
    return name.endswith(SUFFIXES)


def cluster(name: str) -> Cluster:
    """Return a cluster to simulate: one that the package ships, by name (such as 'a100'), or that of a user's file, by its path.

    Raises UserError for an unknown name, with the nearest one, and for a file with mistakes, naming file and key.
    """
    if is_file(name):
        return read(Path(name))
    if name not in names():
        raise unknown("cluster", name, names())
    return _cluster(name, _DATA / "clusters" / f"{name}.yaml")


def read(path: Path) -> Cluster:
    """Read a cluster to simulate from the user's YAML file, written like those that the package ships.

    Raises UserError naming file and key.
    """
    return _cluster(path.stem, path)


def _cluster(name: str, path: Traversable) -> Cluster:
    """Read and check a cluster file; `name` is what the cluster is called. Raises UserError naming file and key."""
    entry = _read(path, _Cluster)
    if entry.origin.startswith("fitted"):
        raise UserError(f"{path}: origin: 'fitted' is said of links that a profile has measured; say where the figures are from")
    figures = entry.device
    if isinstance(figures, str):
        if figures not in _stems("devices"):
            raise UserError(f"{path}: device: {unknown('device', figures, _stems('devices'))}")
        figures = _read(_DATA / "devices" / f"{figures}.yaml", _Device)
    links = entry.intra.link(), entry.inter.link()
    engine = None if entry.engine is None else entry.engine.link()
    described = Cluster(
        name,
        figures.device(),
        entry.nodes,
        entry.gpus_per_node,
        *links,
        entry.origin,
        float("inf") if entry.host_memory is None else entry.host_memory,
        engine,
    )
    described = replace(described, topology=entry.topology, collectives=entry.collectives, tuning=entry.nccl)
    try:
        LinkGraph.of(described)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return described


def known_device(name: str) -> Device | None:
    """Return the datasheet of a device by the name that it has of itself ('NVIDIA A100-SXM4-40GB'); None where the package has none."""
    sheets = (_read(_DATA / "devices" / f"{stem}.yaml", _Device) for stem in _stems("devices"))
    return next((sheet.device() for sheet in sheets if same_device(sheet.name, name)), None)


def scaled(cluster: Cluster, gpus: int) -> Cluster:
    """Return a simulated cluster with as many of its machines as hold `gpus` devices. Raises UserError below one."""
    if gpus < 1:
        raise UserError(f"cluster '{cluster.name}': at least one GPU is needed, got {gpus}")
    return replace(cluster, nodes=-(-gpus // cluster.gpus_per_node))


def local_cpu(ranks: int, memory_bytes: float, link: Link, gather: Link | None = None, exchange: Link | None = None) -> Cluster:
    """Return this machine as a cluster to simulate: `ranks` CPU ranks that share `memory_bytes` evenly.

    link, gather, exchange: what collectives take, fitted to measurements: `gather` for all-gathers, `exchange` for all-to-alls, `link` for
    the others and for those that are None. What a rank holds on its "device" and on the host comes out of one share. A rank has two FIFOs:
    host and transfer lanes, compute and communication lanes. Its peak rates stand for one core of a current server to an order of
    magnitude; costs of a CPU come from a profile. Raises UserError below one rank.
    """
    if ranks < 1:
        raise UserError(f"at least one rank is needed, got {ranks}")
    copy = Link(bandwidth=10e9, latency_s=0.0)
    device = Device("CPU rank", memory_bytes / ranks, 50e9, 10e9, copy, launch_s=0.0, streams=CPU_STREAMS, on_host=True)
    return Cluster("local-cpu", device, 1, ranks, link, link, "fitted on this machine", gather=gather, exchange=exchange)
