"""Partition of an event stream: each event in one part, each node in one, or, of a few that are shared, in all."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from hashlib import sha256
from pathlib import Path

import numpy as np

from chronoscale.datasets.archive import read_array
from chronoscale.datasets.arrays import Bool, Int32, release, require
from chronoscale.datasets.atomic import atomic_folder
from chronoscale.errors import UserError
from chronoscale.records import read_json, reading

SHARED = -1  # in place of a node's part
_BLOCK = 1 << 20  # entries that are read at a time
META = "parts.json"
NODE = "node.npy"
EVENT = "event.npy"
_AGAIN = "delete the folder and cut the stream again"


@dataclass(frozen=True, slots=True)
class PartitionMetadata:
    """Metadata of a stored partition of an event stream (the file META). origin: policy, settings and the stream's SHA-256; digest: the
    SHA-256 of it and the number of parts."""

    count: int
    nodes: int
    events: int
    origin: str
    digest: str


@dataclass(frozen=True, slots=True, eq=False)
class EventPartition:
    """Partition of an event stream's events and nodes over `count` parts, one a rank. node int32 [N]: its part, or SHARED, where all parts
    have it; event int32 [M]: its part, in the order of the stream. origin: policy, settings and the stream's SHA-256, in a line.

    Source: MemShare §3.2. Raises UserError for arrays that do not fit.
    """

    node: Int32
    event: Int32
    count: int
    origin: str = ""

    def __post_init__(self) -> None:
        for name, array, least in (("node", self.node, SHARED), ("event", self.event, 0)):
            require(array, f"EventPartition.{name}", "int32", (None,))
            low, high = _value_range(array)
            if array.size and not least <= low <= high < self.count:
                raise UserError(f"EventPartition.{name}: expected parts from {least} to {self.count - 1}, got {low} to {high}")

    @property
    def shared(self) -> Int32:
        """Nodes that all parts have, ascending, int32 [S]."""
        return np.flatnonzero(self.node == SHARED).astype(np.int32)

    def here(self, part: int) -> Bool:
        """Return which nodes' rows (features and memory) a part has, its own and the shared ones: a mask, bool [N]."""
        present: Bool = (self.node == part) | (self.node == SHARED)
        return present

    @property
    def digest(self) -> str:
        """SHA-256 of how the partition was made: policy, settings and the stream's content, as `origin` has them, and the number of
        parts."""
        return _digest(self.count, self.origin)

    def save(self, folder: Path) -> None:
        """Write the partition to a new folder, whole or not at all. Raises UserError if it exists."""
        with atomic_folder(folder) as draft:
            np.save(draft / EVENT, self.event)
            self.record(draft, self.node, self.event.size, self.count, self.origin)

    @staticmethod
    def record(folder: Path, node: Int32, events: int, count: int, origin: str) -> None:
        """Write the nodes' parts and the metadata of a partition into its folder; the parts of the `events` events are there already,
        written block after block while the stream was partitioned."""
        np.save(folder / NODE, node)
        metadata = PartitionMetadata(count, node.size, events, origin, _digest(count, origin))
        (folder / META).write_text(json.dumps(asdict(metadata), indent=2) + "\n")

    @classmethod
    def load(cls, folder: Path, origin: str | None = None) -> EventPartition:
        """Map a partition from the folder that `save` wrote. Raises UserError naming the file that is missing, damaged, or not of this
        origin (None: of any)."""
        metadata = read_json(folder / META, PartitionMetadata, "record of parts", _AGAIN)
        with reading(folder / META, "record of parts", _AGAIN):
            if metadata.digest != _digest(metadata.count, metadata.origin):
                raise UserError("its digest is not that of its settings")
            if origin not in (None, metadata.origin):
                raise UserError(f"these are parts of another stream or other settings: {metadata.origin}; expected {origin}")
        node, event = _map_parts(folder / NODE, metadata.nodes), _map_parts(folder / EVENT, metadata.events)
        with reading(folder / META, "record of parts", _AGAIN):
            partition = cls(node, event, metadata.count, metadata.origin)
        return partition


def _value_range(array: Int32) -> tuple[int, int]:
    """Return the least and the most, 0 of none; pages of a mapped array are given back as it is read."""
    ends = []
    for begin in range(0, array.size, _BLOCK):
        block = array[begin : begin + _BLOCK]
        ends += [int(block.min()), int(block.max())]
        release(array)
    return min(ends, default=0), max(ends, default=0)


def _map_parts(file: Path, length: int) -> Int32:
    with reading(file, "array of parts", _AGAIN):
        array: Int32 = read_array(file, mmap=length > 0)  # nothing to map in an empty one
        require(array, file.name, "int32", (length,))
    return array


def _digest(count: int, origin: str) -> str:
    return sha256(f"{count} {origin}".encode()).hexdigest()
