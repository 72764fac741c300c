"""Presets: clusters of the papers' testbeds and larger ones, read from the package's YAML files or from the user's."""

from __future__ import annotations

from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from chronoscale import yaml_files
from chronoscale.errors import UserError, unknown
from chronoscale.simulator.cluster_file import ClusterKeys, DeviceKeys, Entry
from chronoscale.simulator.network.links import LinkGraph
from chronoscale.strategies.cluster import CPU_STREAMS, Cluster, Device, Link, same_device
from chronoscale.validation_messages import mistake

_DATA = resources.files("chronoscale.simulator")
SUFFIXES = (".yaml", ".yml")  # of files; presets have none

_E = TypeVar("_E", bound=Entry)


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
    return replace(_cluster(name, _DATA / "clusters" / f"{name}.yaml"), assumed=())  # which a preset's comments and the docs say


def read(path: Path) -> Cluster:
    """Read a cluster to simulate from the user's YAML file, written like those that the package ships.

    Raises UserError naming file and key.
    """
    return _cluster(path.stem, path)


def contents(name: str) -> dict[str, Any]:
    """Return the keys of a simulated cluster's file, unchecked, with its device's figures in their place. name: as of `cluster`."""
    path: Traversable = Path(name) if is_file(name) else _DATA / "clusters" / f"{name}.yaml"
    keys: dict[str, Any] = yaml_files.read(path, "cluster file")
    if isinstance(device := keys["device"], str):
        place: Traversable = Path(name).parent / device if is_file(device) else _DATA / "devices" / f"{device}.yaml"
        keys["device"] = yaml_files.read(place, "device file")
    return keys


def _cluster(name: str, path: Traversable) -> Cluster:
    """Read and check a cluster file; `name` is what the cluster is called. Raises UserError naming file and key."""
    keys = _read(path, ClusterKeys)
    if keys.origin.startswith("fitted"):
        raise UserError(f"{path}: origin: 'fitted' is said of links that a profile has measured; say where the figures are from")
    described = keys.cluster(name, _device(keys.device, path) if isinstance(keys.device, str) else keys.device)
    try:
        LinkGraph.of(described)
    except UserError as error:
        raise UserError(f"{path}: {error}") from None
    return described


def _device(name: str, path: Traversable) -> DeviceKeys:
    """Read the figures of a device that a cluster file names: one of the package's, or of a file beside it. Raises UserError."""
    if is_file(name):
        return _read(Path(str(path)).parent / name, DeviceKeys)
    if name not in _stems("devices"):
        raise UserError(f"{path}: device: {unknown('device', name, _stems('devices'))}")
    return _read(_DATA / "devices" / f"{name}.yaml", DeviceKeys)


def known_device(name: str) -> Device | None:
    """Return the datasheet of a device by the name that it has of itself ('NVIDIA A100-SXM4-40GB'); None where the package has none."""
    sheets = (_read(_DATA / "devices" / f"{stem}.yaml", DeviceKeys) for stem in _stems("devices"))
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
